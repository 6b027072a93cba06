"""A run of pre-training or fine-tuning, from the data to the results."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping

import tensorflow as tf
from absl import logging

from bert.commands import flags
from bert.models import folder as folder_lib
from bert.records import reading
from bert.training import (
    checkpointing,
    devices,
    failures,
    input_pipeline,
    interruption,
    optimization,
    profiling,
    reporting,
    resuming,
    steps,
    warm_start,
    workers,
)
from bert.training.experiment import Experiment, Objective, Options
from modeling import compilation

# Raised when host or device memory runs out.
_NO_MEMORY = (tf.errors.ResourceExhaustedError, MemoryError)
_EVALUATION = (
    "an evaluation",
    "Pass a smaller --eval_batch_size or --predict_batch_size.",
)


@reading.errors()
def run(
    experiment: Experiment[Options, Objective],
    options: Options,
    folder: folder_lib.ModelFolder,
) -> Mapping[str, float]:
    """Trains and evaluates a model.

    Args:
        experiment: the model, its data and its evaluation.
        options: the flags of the run.
        folder: their `output_dir`.

    Returns:
        The contents of the result files; empty without an evaluation.

    Raises:
        FailedRunError: the model diverged, or the memory was exceeded.
        OSError: a file cannot be read or written.
        ValueError: options, folders, checkpoints and data are inconsistent.
    """
    devices.set_seed(options.random_seed)
    objective = experiment.start()
    if options.do_train:
        step, metrics = train(experiment, objective, options, folder)
        # The current weights are those of the last step.
        if experiment.splits and not experiment.uses_best:
            return _write_results(experiment, folder.path, step, metrics)
    return evaluate(experiment, folder) if experiment.splits else {}


@reading.errors()
def evaluate(
    experiment: Experiment[Options, Objective], folder: folder_lib.ModelFolder
) -> Mapping[str, float]:
    """Evaluates the best or latest checkpoint, or else `--init_checkpoint`.

    Args:
        experiment: the model and its evaluation; a run has started.
        folder: of the run, opened after its training.

    Returns:
        The contents of the result files.

    Raises:
        ValueError: there is no checkpoint.
    """
    trained = folder
    if experiment.uses_best:
        trained = folder.open_best()
        if not trained.has_training_state:
            raise ValueError(
                f"{folder.path} has no best checkpoint. Training keeps one if "
                "it evaluates (--eval_every_epoch, --eval_every_steps)."
            )
    prefix = trained.checkpoint if trained.has_training_state else None
    path = prefix or experiment.needed_start.find_checkpoint()
    with experiment.strategy.scope():
        warm_start.load_for_evaluation(experiment.objective.model, path)
    if workers.is_chief() and folder.has_training_state and not folder.is_ours:
        experiment.model.write(folder)
    # As released: 0 for `--init_checkpoint`.
    step = checkpointing.load_step(prefix) if prefix else 0
    return _write_results(experiment, folder.path, step, None)


def _write_results(
    experiment: Experiment[Options, Objective],
    output_dir: str,
    step: int,
    metrics: Mapping[str, float] | None,
) -> Mapping[str, float]:
    with _memory_advice(*_EVALUATION):
        results = experiment.write_results(output_dir, step, metrics)
    # The other workers may read what the chief has written.
    experiment.communicator.barrier()
    return results


def train(  # noqa: PLR0915 - A run reads straight down.
    experiment: Experiment[Options, Objective],
    objective: Objective,
    options: Options,
    folder: folder_lib.ModelFolder,
) -> tuple[int, Mapping[str, float] | None]:
    """Trains to the end of the run, or until the metric stops improving.

    After SIGTERM, SIGHUP or Ctrl-C the current step completes, a checkpoint is
    saved, and all workers exit. A second signal exits at once.

    Args:
        experiment: the model, its data and its evaluation.
        objective: the model, with new weights, and its losses.
        options: the flags of the run.
        folder: their `output_dir`.

    Returns:
        The number of completed steps; the held-out metrics after the last one,
        if they were computed.
    """
    strategy, communicator = experiment.strategy, experiment.communicator
    output_dir, is_chief = folder.path, workers.is_chief()

    # ------------------------------------------------------------------- Data
    # The batch of a step is a function of the seed and the step.
    records, length = (
        experiment.records,
        options.length(experiment.num_examples),
    )
    batches = input_pipeline.training_batches(
        records,
        options,
        strategy.num_replicas_in_sync,
        row_length=experiment.row_length,
    )

    # ------------------------------------------------- Optimizer and schedule
    schedule = optimization.Schedule(
        init_lr=options.learning_rate,
        num_train_steps=length.num_train_steps,
        num_warmup_steps=length.num_warmup_steps,
        kind=options.lr_schedule,
    )
    logging.info("Learning rate: %s.", schedule.describe())
    # The runs of a grid with the same batch size share the compiled steps.
    mode = devices.execution_mode(
        strategy,
        options.jit_compile,
        num_train_steps=length.num_train_steps * options.num_similar_runs,
        saved=resuming.execution_of(folder),
    )
    # A run that resumes is compared with this.
    state = resuming.RunState(
        flags={
            **flags.changing_result(options),
            "precision": devices.precision_in_use(),
        },
        data={
            **experiment.data_identity(),
            "num_replicas": strategy.num_replicas_in_sync,
        },
        num_examples=experiment.num_examples,
        execution=devices.saved_execution(strategy, mode),
    )
    trainer = experiment.trainer
    if trainer is None or trainer.mode != mode:
        trainer = experiment.trainer = _make_trainer(
            experiment, objective, options, mode
        )
    trainer.reset()

    # ------------- Start: the folder's checkpoint, other weights, or new ones
    step = _start(trainer, experiment, folder, state, length.end)
    is_new = not folder.has_training_state
    if step > length.num_train_steps:
        logging.warning(
            "The results are those of step %d, which an earlier run in this "
            "folder made, although this command is for %d steps. For a shorter "
            "run choose another --output_dir.",
            step,
            length.num_train_steps,
        )
    best = None
    if is_chief and length.has_evaluations:
        best = checkpointing.BestCheckpoint(
            output_dir,
            experiment.metric,
            length,
            step,
            patience=options.early_stopping_patience,
        )
    # A run may have been killed between a checkpoint and its evaluation.
    repeats_evaluation = bool(
        communicator.all_reduce_max(int(bool(best and best.lacks_evaluation)))
    )

    # ------------------------------------------------------------------- Loop
    weights = checkpointing.weights(objective.model)
    slots = trainer.optimizer.slots()
    is_described = False

    def save() -> None:
        nonlocal is_described
        report.check_losses()
        if is_chief:
            scale = trainer.loss_scale.state()
            with report.pause():
                if not is_described:
                    experiment.model.write(folder)
                    is_described = True
                checkpointing.save(
                    output_dir,
                    step,
                    {**weights, **slots},
                    dataclasses.replace(state, loss_scale=scale).as_json(),
                    keep=options.keep_checkpoint_max,
                    keep_every=options.keep_checkpoint_every_n_steps,
                )

    def evaluate() -> Mapping[str, float]:
        with report.pause(), _memory_advice(*_EVALUATION):
            metrics = experiment.evaluate()
            report.report_evaluation(step, metrics)
            # Must be last: a run that is killed before this line repeats the
            # evaluation when it resumes.
            if best:
                best.offer(step, metrics, weights)
        return metrics

    def is_over() -> bool:
        # Only the chief knows the best metric.
        over = best is not None and best.is_over
        return bool(communicator.all_reduce_max(int(over)))

    with (
        reporting.Reporter(
            output_dir if is_chief else None,
            length.num_train_steps,
            step,
            batch_size=options.train_batch_size,
            describe=batches.describe,
            repeats_evaluation=repeats_evaluation,
        ) as report,
        profiling.Profile(
            output_dir, options.profile_steps if is_chief else None
        ) as profile,
        interruption.Interruption() as stop,
    ):
        if is_new and options.keep_checkpoint_every_n_steps:
            save()
        metrics = evaluate() if repeats_evaluation else None
        ends = is_over()
        stopped_by = communicator.all_reduce_max(stop.requested)
        if step >= length.end or ends:
            logging.info("Training is already complete: step %d.", step)
        iterator = batches.iterator(strategy, step, length.end)
        while step < length.end and not (ends or stopped_by):
            with (
                _memory_advice("a step", _less_memory(options)),
                profile.of(step + 1),
            ):
                result = trainer.run(
                    iterator,
                    step,
                    schedule.learning_rate(step),
                    seed=options.random_seed,
                    num_accumulation_steps=options.num_accumulation_steps,
                )
            step += 1
            report.add(step, result)
            if length.is_due(step, options.log_every_steps):
                report.report_training(step)
            saves = length.is_due(
                step,
                options.save_checkpoints_steps,
                options.keep_checkpoint_every_n_steps,
            )
            saves = saves or length.evaluates_at(step)
            if saves or communicator.is_sync_step(step):
                stopped_by = communicator.all_reduce_max(stop.requested)
            # An evaluation may take long, so the checkpoint comes first.
            if saves or stopped_by:
                save()
            if length.evaluates_at(step) and not stopped_by:
                metrics, ends = evaluate(), is_over()
                stopped_by = communicator.all_reduce_max(stop.requested)
        # A signal may come in the last save.
        stopped_by = stopped_by or communicator.all_reduce_max(stop.requested)
    # The other workers may read what the chief has written.
    communicator.barrier()
    if stopped_by:
        interruption.exit_by(stopped_by, step)
    return step, metrics


def _start(
    trainer: steps.Trainer,
    experiment: Experiment[Options, Objective],
    folder: folder_lib.ModelFolder,
    state: resuming.RunState,
    end: int,
) -> int:
    """Loads the weights, moments and step of a run.

    A checkpoint in the run's folder takes precedence over `--init_checkpoint`.

    Args:
        trainer: its model has new weights.
        experiment: names the variables that other weights may lack.
        folder: of the run.
        state: of this run, to compare with that of the checkpoint.
        end: the last step of this command.

    Returns:
        The number of completed steps.
    """
    model = trainer.objective.model
    start = experiment.start_model
    with trainer.strategy.scope():
        resumed = checkpointing.resume(folder, model, trainer.optimizer.slots())
        if resumed is None and start:
            warm_start.load(
                model,
                start.find_checkpoint(),
                new=experiment.new_variables,
                origin=start.description,
                target=experiment.model.description,
            )
    if resumed is None:
        if not start:
            experiment.log_new_weights()
        return 0
    loss_scale = resuming.check_same_run(
        resumed.prefix, resumed.state, state, is_over=resumed.step >= end
    )
    trainer.loss_scale.restore(loss_scale)
    if start:
        logging.info("--init_checkpoint is not read when a run resumes.")
    return resumed.step


def _make_trainer(
    experiment: Experiment[Options, Objective],
    objective: Objective,
    options: Options,
    mode: compilation.ExecutionMode,
) -> steps.Trainer:
    """Makes the optimizer and the compiled steps of a model."""
    model = objective.model
    if options.recompute:
        model.bert.encoder.recompute = True
    frozen = (
        *model.frozen_variables,
        *_first_layers(experiment.num_frozen_layers),
    )
    trained = {
        name: variable
        for name, variable in checkpointing.weights(model).items()
        if not warm_start.matches(name, frozen)
    }
    adam = optimization.AdamOptions(
        weight_decay_rate=options.weight_decay,
        beta_1=options.adam_beta_1,
        beta_2=options.adam_beta_2,
        epsilon=options.adam_epsilon,
        bias_correction=options.adam_bias_correction,
        layer_adaptation=options.optimizer == "lamb",
    )
    with experiment.strategy.scope():
        return steps.Trainer(
            experiment.strategy,
            objective,
            optimization.AdamWeightDecayOptimizer(trained, adam, mode),
            scales_loss=devices.precision_in_use() == "mixed_float16",
            clip_norm=options.max_grad_norm,
            mode=mode,
        )


def _first_layers(num_layers: int) -> tuple[str, ...]:
    """Lists patterns of the embeddings and the first layers; 0 for nothing."""
    if not num_layers:
        return ()
    numbers = "|".join(map(str, range(num_layers)))
    return ("bert/embeddings/.*", f"bert/encoder/layer_({numbers})/.*")


@contextlib.contextmanager
def _memory_advice(action: str, advice: str) -> Iterator[None]:
    """Names flags with which the same action needs less memory."""
    try:
        yield
    except _NO_MEMORY as error:
        raise failures.OutOfMemoryError(
            f"There is not enough memory for {action}. {advice}"
        ) from error


def _less_memory(options: Options) -> str:
    more = 2 * options.num_accumulation_steps
    return (
        f"The same update needs less with --num_accumulation_steps={more}, if "
        "it divides the examples of a device, or with --recompute. Run the "
        "command again with one of them: training resumes from the last "
        "checkpoint."
    )
