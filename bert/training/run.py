"""A run of pre-training or fine-tuning, from the data to the results."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import tensorflow as tf
from absl import logging

from bert.commands import flags
from bert.models import folder as folder_lib
from bert.records import reading
from bert.tasks import objectives
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
from bert.training import length as length_lib
from bert.training import options as training_options
from bert.training import setup as setup_lib

_Options = training_options.TrainingOptions
_Setup: TypeAlias = setup_lib.Setup[Any]
# Raised when host or device memory runs out.
_NO_MEMORY = (tf.errors.ResourceExhaustedError, MemoryError)
_LESS_MEMORY = (
    "The same update needs less with --num_accumulation_steps={}, if it "
    "divides the examples of a device, or with --recompute. Run the command "
    "again with one of them: training resumes from the last checkpoint."
)
_EVALUATION = (
    "an evaluation",
    "Pass a smaller --eval_batch_size or --predict_batch_size.",
)


@reading.errors()
def run(
    setup: _Setup,
    options: _Options,
    folder: folder_lib.ModelFolder,
    init: folder_lib.ModelFolder | None,
) -> Mapping[str, float]:
    """Trains and evaluates a model.

    Args:
        setup: the model, its data and its evaluation.
        options: the flags of the run.
        folder: their `output_dir`.
        init: the model of `--init_checkpoint`, if it is given.

    Returns:
        The contents of the result files; empty without an evaluation.

    Raises:
        FailedRunError: the model diverged, or the memory was exceeded.
        OSError: a file cannot be read or written.
        ValueError: options, folders, checkpoints and data are inconsistent.
    """
    setup.network.reset_weights(options.random_seed)
    if options.do_train:
        step, metrics = train(setup, options, folder, init)
        # The current weights are those of the last step.
        if setup.splits and not setup.uses_best:
            return _write_results(setup, folder.path, step, metrics)
    return evaluate(setup, folder, init) if setup.splits else {}


@reading.errors()
def evaluate(
    setup: _Setup,
    folder: folder_lib.ModelFolder,
    init: folder_lib.ModelFolder | None,
) -> Mapping[str, float]:
    """Evaluates the best or latest checkpoint, or else `--init_checkpoint`.

    Args:
        setup: the model and its evaluation; a run has started.
        folder: of the run, opened after its training.
        init: the model of `--init_checkpoint`, if it is given.

    Returns:
        The contents of the result files.

    Raises:
        ValueError: there is no checkpoint.
    """
    trained = folder
    if setup.uses_best:
        trained = folder.open_best()
        if not trained.has_training_state:
            raise ValueError(
                f"{folder.path} has no best checkpoint. Training keeps one if "
                "it evaluates (--eval_every_epoch, --eval_every_steps)."
            )
    if not trained.has_training_state:
        trained = flags.needed(init, "init_checkpoint")
    network = setup.network
    step = 0  # As released, for `--init_checkpoint`.
    with network.strategy.scope(), trained.open_weights() as source:
        warm_start.load_for_evaluation(network.objective.model, source)
        if trained is not init:
            latest = trained.training_checkpoints[0]
            step = checkpointing.step_of(source, latest)
    if workers.is_chief() and folder.has_training_state and not folder.is_ours:
        setup.planned.write(folder)
    return _write_results(setup, folder.path, step, None)


def _write_results(
    setup: _Setup,
    output_dir: str,
    step: int,
    metrics: Mapping[str, float] | None,
) -> Mapping[str, float]:
    network = setup.network
    with _memory_advice(*_EVALUATION):
        results = setup.evaluation.write_results(
            network.objective, output_dir, step, setup.splits, metrics
        )
    # The other workers may read what the chief has written.
    network.communicator.barrier()
    return results


def train(
    setup: _Setup,
    options: _Options,
    folder: folder_lib.ModelFolder,
    init: folder_lib.ModelFolder | None,
) -> tuple[int, Mapping[str, float] | None]:
    """Trains to the end of the run, or until the metric stops improving.

    After a signal the current step completes, a checkpoint is saved, and all
    workers exit; see `interruption`. A second signal exits at once.

    Args:
        setup: the model, with new weights, its data and its evaluation.
        options: the flags of the run.
        folder: their `output_dir`.
        init: the model of `--init_checkpoint`, if it is given. A checkpoint in
            the folder takes precedence.

    Returns:
        The number of completed steps; the held-out metrics after the last one,
        if they were computed.
    """
    network, length = setup.network, options.length(setup.num_examples)
    strategy, communicator = network.strategy, network.communicator

    # ---------------------------------------------- Data, schedule, optimizer
    # The batch of a step is a function of the seed and the step.
    batches = input_pipeline.training_batches(
        setup.needed_records,
        options,
        strategy.num_replicas_in_sync,
        row_length=setup.row_length,
    )
    schedule = optimization.Schedule(
        init_lr=options.learning_rate,
        num_train_steps=length.num_train_steps,
        num_warmup_steps=length.num_warmup_steps,
        kind=options.lr_schedule,
    )
    logging.info("Learning rate: %s.", schedule.summary())
    # The runs of a grid with the same batch size share the compiled steps.
    mode = devices.execution_mode(
        strategy,
        options.jit_compile,
        num_train_steps=length.num_train_steps * options.num_similar_runs,
        saved=resuming.execution_of(folder),
    )
    trainer = network.trainer(options, mode, setup.num_frozen_layers)

    # ------------- Start: the folder's checkpoint, other weights, or new ones
    state = resuming.RunState(
        flags={
            **flags.changing_result(options),
            "precision": devices.precision_in_use(),
        },
        data={
            **setup.data_identity(),
            "num_replicas": strategy.num_replicas_in_sync,
        },
        num_examples=setup.num_examples,
        execution=devices.saved_execution(strategy, mode),
    )
    step = _restore(trainer, setup, folder, init, state, length)
    saver = checkpointing.Saver(
        folder, setup.planned, trainer, communicator, state, length, options
    )
    best = None
    if workers.is_chief() and length.has_evaluations and setup.metric:
        best = checkpointing.BestCheckpoint(
            folder.path,
            setup.metric,
            length,
            step,
            patience=options.early_stopping_patience,
        )
    # A run may have been killed between a checkpoint and its evaluation.
    lacks_evaluation = bool(
        communicator.all_reduce_max(int(bool(best and best.lacks_evaluation)))
    )

    # ------------------------------------------------------------------- Loop
    less_memory = _LESS_MEMORY.format(2 * options.num_accumulation_steps)
    with (
        reporting.Reporter(
            folder.path if workers.is_chief() else None,
            length,
            step,
            log_every_steps=options.log_every_steps,
            describe=batches.describe,
            repeats_evaluation=lacks_evaluation,
        ) as report,
        profiling.Profile(
            folder.path, options.profile_steps if workers.is_chief() else None
        ) as profile,
        interruption.Interruption() as stop,
    ):
        held_out = _HeldOut(
            setup.evaluation, trainer.objective, communicator, report, best
        )
        if saver.keeps_start and not folder.has_training_state:
            with report.pause():
                saver.save(step)
        if lacks_evaluation:
            held_out.evaluate(step)
        is_over = held_out.is_over()
        stopped_by = communicator.all_reduce_max(stop.requested)
        if step >= length.end or is_over:
            logging.info("Training is already complete: step %d.", step)
        iterator = batches.iterator(strategy, step, length.end)
        while step < length.end and not (is_over or stopped_by):
            with (
                _memory_advice("a step", less_memory),
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
            if saver.is_due(step) or communicator.is_sync_step(step):
                stopped_by = communicator.all_reduce_max(stop.requested)
            # An evaluation may take long, so the checkpoint comes first.
            if saver.is_due(step) or stopped_by:
                report.check_losses()
                with report.pause():
                    saver.save(step)
            if length.evaluates_at(step) and not stopped_by:
                held_out.evaluate(step)
                is_over = held_out.is_over()
                stopped_by = communicator.all_reduce_max(stop.requested)
        # A signal may come in the last save.
        stopped_by = stopped_by or communicator.all_reduce_max(stop.requested)
    # The other workers may read what the chief has written.
    communicator.barrier()
    if stopped_by:
        interruption.exit_by(stopped_by, step)
    return step, held_out.metrics


@dataclasses.dataclass(eq=False)
class _HeldOut:
    """The evaluations of a run while it trains.

    Attributes:
        evaluation: of the current weights.
        objective: the model.
        communicator: connects the workers.
        report: of the run.
        best: keeps the best weights; None on other workers than the chief, or
            without a metric.
        metrics: of the last evaluation, None before it.
    """

    evaluation: setup_lib.Evaluation[Any]
    objective: objectives.Objective
    communicator: workers.Communicator
    report: reporting.Reporter
    best: checkpointing.BestCheckpoint | None
    metrics: Mapping[str, float] | None = None

    def evaluate(self, step: int) -> None:
        """Evaluates the weights of a step, reports and offers them."""
        with self.report.pause(), _memory_advice(*_EVALUATION):
            self.metrics = self.evaluation.score(self.objective)
            self.report.report_evaluation(step, self.metrics)
            # Must be last: a run that is killed before this line repeats the
            # evaluation when it resumes.
            if self.best:
                weights = checkpointing.weights(self.objective.model)
                self.best.offer(step, self.metrics, weights)

    def is_over(self) -> bool:
        """Returns whether the metric has stopped improving."""
        # Only the chief knows the best metric.
        is_over = self.best is not None and self.best.is_over
        return bool(self.communicator.all_reduce_max(int(is_over)))


def _restore(
    trainer: steps.Trainer,
    setup: _Setup,
    folder: folder_lib.ModelFolder,
    init: folder_lib.ModelFolder | None,
    state: resuming.RunState,
    length: length_lib.Length,
) -> int:
    """Loads the weights, moments and step of a run.

    A checkpoint in the run's folder takes precedence over `--init_checkpoint`.

    Args:
        trainer: its model has new weights.
        setup: names the variables that other weights may lack.
        folder: of the run.
        init: the model of `--init_checkpoint`, if it is given.
        state: of this run, to compare with that of the checkpoint.
        length: of the run.

    Returns:
        The number of completed steps.
    """
    model = trainer.objective.model
    with trainer.strategy.scope():
        resumed = checkpointing.resume(folder, model, trainer.optimizer.slots())
        if resumed:
            loss_scale = resuming.check_same_run(resumed, state, length)
            trainer.loss_scale.restore(loss_scale)
            if init:
                logging.info(
                    "--init_checkpoint is not read when a run resumes."
                )
            return resumed.step
        if init:
            with init.open_weights() as source:
                warm_start.load(
                    model,
                    source,
                    new=setup.new_variables,
                    origin=init.description,
                    target=setup.planned.description,
                )
            return 0
    if setup.is_pretrained:
        logging.warning(
            "No --init_checkpoint is given: the whole model starts from random "
            "weights. Fine-tuning needs a pre-trained checkpoint for good "
            "results."
        )
    else:
        logging.info("Fresh run: the weights are random, nothing is loaded.")
    return 0


@contextlib.contextmanager
def _memory_advice(action: str, advice: str) -> Iterator[None]:
    """Names flags with which the same action needs less memory."""
    try:
        yield
    except _NO_MEMORY as error:
        raise failures.OutOfMemoryError(
            f"There is not enough memory for {action}. {advice}"
        ) from error
