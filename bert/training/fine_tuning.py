"""Fine-tuning of any task: the checks, the trials and their results.

TensorFlow is imported after the checks, so that errors appear at once.
"""

import dataclasses
import functools
import os
from collections.abc import Mapping

from absl import logging

from bert.commands import flags, program
from bert.files import tensorflow_start, writing
from bert.models import description as description_lib
from bert.models import folder as folder_lib
from bert.models import prepare
from bert.tasks import task as task_lib
from bert.training import (
    failures,
    resuming,
    run_record,
    task_records,
    trials,
)
from bert.training import options as training_options

_Options = training_options.FineTuningOptions


def main(
    task_class: type[task_lib.Task], options_class: type[_Options]
) -> None:
    """Starts the script of a task; call it if `__name__` is "__main__".

    Args:
        task_class: the task.
        options_class: the dataclass that declares the flags of the script.
    """
    script = functools.partial(run, task_class)
    program.start(options_class, run_record.recorded(script))


def run(task_class: type[task_lib.Task], options: _Options) -> None:
    """Trains, evaluates and predicts with a task according to the options.

    A trial that diverges or exceeds the memory has no results; the other trials
    run.

    Args:
        task_class: the task, whose constructor checks options and data without
            TensorFlow.
        options: the flags of the script.

    Raises:
        FailedRunError: of the last trial, if all failed.
        OSError: a file cannot be read or written.
        ValueError: options, folders, checkpoints and data are inconsistent.
    """
    planned, best_trial = trials.plan(options), trials.find_best(options)
    prepared = prepare.prepare(
        options,
        flags.given(),
        task=task_class.kind,
        trial_folders=[
            os.path.join(options.output_dir, name) for name in planned
        ],
        best_trial=best_trial,
    )
    options, config = prepared.options, prepared.config
    config.check_frozen_layers(options.freeze_layers)
    writing.check_folder(options.output_dir)
    # Without training, the labels come from the model's folder.
    trained = None if options.do_train else prepared.predicts_with
    task = task_class(options, prepared.read_tokenizer(), trained)
    planned_model = folder_lib.PlannedModel(
        config=config,
        description=description_of(task),
        vocab_file=options.vocab_file,
    )
    prepared.check(planned_model)
    runs = {
        name: (
            dataclasses.replace(options, output_dir=folder.path, **differing),
            folder,
        )
        for (name, differing), folder in zip(
            planned.items(), prepared.trials, strict=True
        )
    } or {"": (options, prepared.run)}

    def training_data() -> Mapping[str, object]:
        (train,) = task.data_sets(task_lib.TRAIN)
        return task_records.identity(task, train)

    for run_options, folder in runs.values():
        resuming.check(folder, run_options, training_data)
    run_record.write_start(options)
    tensorflow_start.load()
    from bert.training import run as run_lib
    from bert.training import task_setup

    # The trials share the records and the compiled network.
    setup = task_setup.setup(task, planned_model)
    if not planned:
        run_lib.run(setup, options, prepared.run, prepared.init)
        _show_next(options, options.output_dir)
        return
    # With test labels every trial is scored; without them only the best trial
    # predicts.
    only_best_predicts = options.do_predict and not any(
        data_set.has_labels for data_set in task.data_sets(task_lib.PREDICT)
    )
    splits = (task_lib.EVAL,) if only_best_predicts else setup.splits
    of_trials = dataclasses.replace(setup, splits=splits)
    results: dict[str, Mapping[str, float]] = {}
    for name, (trial, folder) in runs.items():
        try:
            results[name] = run_lib.run(of_trials, trial, folder, prepared.init)
        except failures.FailedRunError as error:
            if not results and name == [*runs][-1]:
                raise
            logging.error("%s has failed and has no score: %s", name, error)
    best = trials.summarize(task, planned, results)
    path = os.path.join(options.output_dir, best)
    if only_best_predicts:
        folder = folder_lib.ModelFolder.open(path, is_folder=True)
        predicting = dataclasses.replace(setup, splits=(task_lib.PREDICT,))
        run_lib.evaluate(predicting, folder, prepared.init)
    _show_next(options, path)


def _show_next(options: _Options, folder: str) -> None:
    if options.do_train:
        logging.info("Ask it: python -m tools.predict --model=%s", folder)


def description_of(task: task_lib.Task) -> description_lib.Description:
    """Describes the model of a task, with the flags that belong to it."""
    options: _Options = task.options
    description = task.description
    flags_of_task = {
        name: value
        for name, value in flags.of_model(options).items()
        if not description_lib.is_entry(name)
    }
    return dataclasses.replace(
        description,
        task=task.kind,
        flags={**flags_of_task, **description.flags},
        vocab_sha256=task.tokenizer.vocab_sha256,
        do_lower_case=options.do_lower_case,
        strip_accents=options.strips_accents,
        max_seq_length=options.max_seq_length,
        attention=training_options.ATTENTIONS[options.is_causal],
        bilstm_head=getattr(options, "bilstm_head", False),
    )
