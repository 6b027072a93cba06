"""Fine-tuning of any task: checks, data, trials and their summary.

TensorFlow is imported after the checks, so that errors appear at once.
"""

import dataclasses
import os
import statistics
from collections.abc import Callable
from typing import Any

from absl import logging

from files import writing
from tasks import task as task_lib
from training import flags as training_flags
from training import option_checks, trials


def run(
    make_task: Callable[[Any, Any], task_lib.Task],
    options: training_flags.FineTuningOptions,
    tokenizer: Any,
) -> None:
    """Trains, evaluates and predicts with a task according to the options.

    Args:
        make_task: the class of the task, whose constructor checks options and
            data without TensorFlow.
        options: the flags of the script.
        tokenizer: the tokenizer of the model. Its `vocab` maps every piece to
            an id below its `vocab_size`.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: options, folders, checkpoints and data are inconsistent.
    """
    options = trials.with_best_trial(options)
    config = option_checks.check_task(options, tokenizer.vocab_size)
    task = make_task(options, tokenizer)
    option_checks.check_weights(options)
    from training import task_models

    setup = task_models.prepare(task, config)
    folds = task.folds
    data = [_make_data(setup, fold) for fold in folds]
    plan = trials.plan_run(
        dataclasses.replace(options, init_checkpoint=task.init_checkpoint),
        len(folds),
    )
    answers_everything = task.writes_everything or len(plan) == 1
    model = task_models.Model(setup)
    results = []
    for trial in plan:
        own = data[trial.fold]
        model.start(folds[trial.fold], trial.options)
        if trial.options.do_train:
            model.train(own)
        results.append(model.evaluate(own, predicts=answers_everything))
    if len(plan) == 1:
        return
    constant = statistics.fmean(
        fold.constant_score(own[task_lib.EVAL][0])
        for fold, own in zip(folds, data, strict=True)
    )
    model.options = _summarize(task, plan, results, constant)
    if options.do_predict and not answers_everything:
        model.evaluate(
            {task_lib.PREDICT: data[0][task_lib.PREDICT]}, predicts=True
        )


def _make_data(
    setup: Any, task: task_lib.Task
) -> dict[str, list[task_lib.Data]]:
    """Creates the records of every split that the options need."""
    return {
        split: [
            task.make_data(setup, data_set)
            for data_set in task.data_sets(split)
        ]
        for split in task.options.needed_splits
    }


def _summarize(
    task: task_lib.Task, plan, results, constant: float
) -> training_flags.FineTuningOptions:
    """Writes the summary of the trials; returns the options of the best one."""
    from training import workers

    summaries = {}
    for split, prefix in task_lib.RESULTS_PREFIX.items():
        name = f"{prefix}_{task.metric}"
        if split == task_lib.EVAL and name not in results[0]:
            name = task.metric  # SQuAD's names have no prefix.
        if name in results[0]:
            summaries[prefix] = trials.summarize(plan, results, name, constant)
    if workers.cluster().is_chief:
        path = os.path.join(task.options.output_dir, trials.SUMMARY_FILE)
        content = summaries if task.writes_everything else summaries["eval"]
        writing.write_json(path, content)
    for summary in summaries.values():
        logging.info("%s", trials.table(summary))
    best = summaries["eval"]["best_trial"]
    return next(trial.options for trial in plan if trial.name == best)
