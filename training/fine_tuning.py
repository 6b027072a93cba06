"""Fine-tuning of any task: the checks, the trials and their results.

TensorFlow is imported after the checks, so that errors appear at once.
"""

import functools
from collections.abc import Mapping

from absl import logging

from commands import flags, program
from files import writing
from modeling import config as config_lib
from models import command_models, compatibility, following
from models import description as description_lib
from tasks import task as task_lib
from training import failures, run_record, trials
from training import options as training_options
from vocab import tokenization

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
    options, models = _follow_models(task_class.kind, trials.best_of(options))
    tokenizer = tokenization.open_tokenizer(options)
    config = _read_config(options, tokenizer.vocab_size)
    writing.check_folder(options.output_dir)
    _check_text(options, models)
    # The labels of a model that is not trained are known.
    task = task_class(
        options, tokenizer, None if options.do_train else models.answering
    )
    models.check_weights(is_training=options.do_train)
    run_record.write_start(options)
    from training import run as run_lib
    from training import task_experiment

    # The trials share the records and the compiled network.
    experiment = task_experiment.TaskExperiment(task, config, models.start)
    planned = trials.plan(options)
    if len(planned) == 1:
        (alone,) = planned.values()
        run_lib.run(experiment, alone)
        return
    # Each trial has test scores if there are labels; else the best one answers.
    only_best_predicts = options.do_predict and not any(
        data.data_set.has_labels for data in experiment.data[task_lib.PREDICT]
    )
    if only_best_predicts:
        experiment.splits = (task_lib.EVAL,)
    results: dict[str, Mapping[str, float]] = {}
    for name, trial in planned.items():
        try:
            results[name] = run_lib.run(experiment, trial)
        except failures.FailedRunError as error:
            if not results and name == [*planned][-1]:
                raise
            logging.error("%s has failed and has no score: %s", name, error)
    best = trials.summarize(task, planned, results)
    if only_best_predicts:
        experiment.splits = (task_lib.PREDICT,)
        run_lib.evaluate(experiment, best)


def _follow_models(
    kind: str, options: _Options
) -> tuple[_Options, command_models.CommandModels]:
    """Opens the models of a command; flags that are not given follow them.

    Args:
        kind: of the task.
        options: the flags of the script.
    """
    planned = trials.plan(options).values()
    models = command_models.CommandModels.open(
        options.output_dir,
        options.init_checkpoint,
        trial_folders=[trial.output_dir for trial in planned],
        uses_best=options.use_best_checkpoint,
    )
    model = models.origin if options.do_train else models.answering
    # Only the text that it reads matters of a model of another task.
    is_another = model is not None and model.description.task not in (
        None,
        kind,
    )
    options = following.complete(
        options,
        model,
        flags.given(),
        is_training=options.do_train or is_another,
    )
    return options, models


def _read_config(options: _Options, vocab_size: int) -> config_lib.BertConfig:
    config = config_lib.BertConfig.from_json_file(options.bert_config_file)
    config.check_length(options.max_seq_length)
    config.check_vocabulary(vocab_size, options.vocab_file)
    if options.freeze_layers > config.num_hidden_layers:
        raise ValueError(
            f"--freeze_layers must be at most {config.num_hidden_layers}, the "
            f"number of layers of the model; got {options.freeze_layers}."
        )
    return config


def _check_text(
    options: _Options, models: command_models.CommandModels
) -> None:
    """Compares casing and vocabulary early; each trial compares the rest."""
    start = models.start
    if start is None or models.run.is_latest:
        return
    compatibility.check_text(
        start,
        options.vocab_file,
        description_lib.Description(
            do_lower_case=options.do_lower_case,
            strip_accents=options.strips_accents,
        ),
    )
