"""Fine-tuning of any task: data, trials and their results.

Trials are runs with other seeds or settings.
Source: Devlin et al. 2019, section 4.1: the best learning rate of a grid, and
of several random restarts, on the development set.

TensorFlow is imported after the checks, so that errors appear at once.
"""

import dataclasses
import itertools
import os
import statistics
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from absl import logging

from files import json_text, paths, run_files, writing
from modeling import config as config_lib
from tasks import task as task_lib
from training import flags as training_flags
from training import model_folder, reporting, run_record, workers

_Options = TypeVar("_Options", bound=training_flags.FineTuningOptions)
# Options of each trial, by the name of its folder.
_Trials = Mapping[str, training_flags.FineTuningOptions]
_Results = Mapping[str, Mapping[str, float]]


def run(
    make_task: Callable[[Any, Any], task_lib.Task],
    options: training_flags.FineTuningOptions,
    tokenizer: Any,
) -> None:
    """Trains, evaluates and predicts with a task according to the options.

    A trial whose loss is not finite has no results; the other trials run.

    Args:
        make_task: the class of the task, whose constructor checks options and
            data without TensorFlow.
        options: the flags of the script.
        tokenizer: the tokenizer of the model. Its `vocab` maps every piece to
            an id below its `vocab_size`.

    Raises:
        NonFiniteLossError: of the last trial, if all failed; see `loop.train`.
        OSError: a file cannot be read or written.
        ValueError: options, folders, checkpoints and data are inconsistent.
    """
    config = _read_config(options, tokenizer.vocab_size)
    writing.check_folder(options.output_dir)
    _check_casing(options)
    task = make_task(options, tokenizer)
    model_folder.check_weights(options)
    run_record.write_start(options)
    from training import task_models

    # The trials share the records and the compiled network.
    model = task_models.TaskModel(task, config)
    data = {
        split: [model.make_data(each) for each in task.data_sets(split)]
        for split in options.needed_splits
    }
    planned = trials(options)
    splits = [task_lib.EVAL] if options.do_eval else []
    # Each trial has test scores if there are labels; else the best one answers.
    answered = data.get(task_lib.PREDICT, ())
    have_labels = any(each.data_set.has_labels for each in answered)
    if options.do_predict and (len(planned) == 1 or have_labels):
        splits.append(task_lib.PREDICT)
    results: dict[str, Mapping[str, float]] = {}
    for name, trial in planned.items():
        model.start(trial)
        try:
            if trial.do_train:
                model.train(trial, data)
        except reporting.NonFiniteLossError as error:
            if not results and name == [*planned][-1]:
                raise
            logging.error("%s has failed and has no score: %s", name, error)
            continue
        results[name] = model.evaluate(trial, data, splits)
    if len(planned) == 1:
        return
    best = _summarize(task, planned, results)
    if options.do_predict and task_lib.PREDICT not in splits:
        model.start(best)
        model.evaluate(best, data, [task_lib.PREDICT])


def _read_config(options, vocab_size: int) -> config_lib.BertConfig:
    config = config_lib.BertConfig.from_json_file(options.bert_config_file)
    config.check_length(options.max_seq_length)
    config.check_vocabulary(vocab_size, options.vocab_file)
    if options.freeze_layers > config.num_hidden_layers:
        raise ValueError(
            f"--freeze_layers must be at most {config.num_hidden_layers}, the "
            f"number of layers of the model; got {options.freeze_layers}."
        )
    return config


def _check_casing(options: training_flags.FineTuningOptions) -> None:
    """Compares casing and vocabulary early; each trial compares the rest."""
    has_own = run_files.checkpoints_in(options.output_dir)
    if options.init_checkpoint and not has_own:
        casing = {"do_lower_case": options.do_lower_case}
        model_folder.check_start(
            options.init_checkpoint, casing, options.vocab_file
        )


# ---------------------------------------------------------------------- Trials


def trials(
    options: training_flags.FineTuningOptions,
) -> dict[str, training_flags.FineTuningOptions]:
    """Lists the runs of an experiment: one for each setting and seed.

    All settings have the same seeds.

    Returns:
        The options of each run by its name: "" for a single run, which writes
        to the output folder itself. Several write to folders of these names in
        it, which state the setting, so that a larger grid finds its part again.
    """
    planned = {}
    seeds = range(options.random_seed, options.random_seed + options.num_trials)
    for setting, seed in itertools.product(options.grid, seeds):
        trial = dataclasses.replace(options, random_seed=seed, **setting)
        name = ""
        if options.has_several_runs:
            name = (
                f"trial-lr{trial.learning_rate:g}-bs{trial.train_batch_size}"
                f"-ep{trial.num_train_epochs:g}-seed{seed}"
            )
            folder = os.path.join(options.output_dir, name)
            trial = dataclasses.replace(trial, output_dir=folder)
        planned[name] = trial
    return planned


def _summarize(
    task: task_lib.Task, planned: _Trials, results: _Results
) -> training_flags.FineTuningOptions:
    """Writes trials.json and logs a table; returns the best trial's options."""
    metric = task_lib.RESULTS_PREFIX[task_lib.EVAL] + f"_{task.metric}"
    if metric not in next(iter(results.values())):
        metric = task.metric  # SQuAD's names have no prefix.
    scores = {name: found[metric] for name, found in results.items()}
    best = max(scores, key=scores.__getitem__)  # The first of equal ones.
    names = ("random_seed", *task.options.grid[0])
    summary = {
        "metric": metric,
        "best_trial": best,
        "trials": [
            {
                "name": name,
                "flags": {key: getattr(trial, key) for key in names},
                "metrics": dict(results.get(name, {})),
            }
            for name, trial in planned.items()
        ],
    }
    if workers.is_chief():
        path = os.path.join(task.options.output_dir, run_files.TRIALS)
        writing.write_json(path, summary)
    logging.info("%s", table(summary))
    return planned[best]


def table(summary: Mapping[str, Any]) -> str:
    """Formats the content of trials.json.

    It has a line for each trial, and the mean of each setting that several
    seeds have.
    """
    metric, best = summary["metric"], summary["best_trial"]
    lines = [metric]
    settings: dict[str, list[float]] = {}
    for trial in summary["trials"]:
        score, name = trial["metrics"].get(metric), trial["name"]
        shown = "failed" if score is None else f"{score:.4f}"
        lines.append(f"{shown:>10}  {name}{'  best' if name == best else ''}")
        of_setting = settings.setdefault(name.rpartition("-seed")[0], [])
        if score is not None:
            of_setting.append(score)
    for setting, scores in settings.items():
        if len(scores) > 1:
            deviation = f"{statistics.stdev(scores):.4f}"
            lines.append(
                f"{statistics.fmean(scores):10.4f}  {setting}: mean ± "
                f"{deviation} of {len(scores)}"
            )
    return "\n".join(lines)


def follow_model(
    options: _Options, task: str, given: Collection[str]
) -> _Options:
    """Chooses the model of a run that does not train, and follows its folder.

    Args:
        options: of the run.
        task: of the run, one of `model_folder.TASKS`.
        given: the names of the flags on the command line.

    Returns:
        The options: those of the best trial, if the folder has several; flags
        that are not given have the values with which the model was trained.
    """
    folder = options.output_dir
    path = os.path.join(folder, run_files.TRIALS)
    if (
        not (options.do_train or options.has_several_runs)
        and not run_files.checkpoints_in(folder)
        and paths.exists(path)
    ):
        best = json_text.read_object(path)["best_trial"]
        logging.info("Using %s, the best trial in %s.", best, folder)
        options = dataclasses.replace(
            options, output_dir=os.path.join(folder, best)
        )
    return model_folder.follow(options, task, given)
