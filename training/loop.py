"""The training loop: steps, reports, checkpoints and evaluations."""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator, Mapping

import numpy as np
import tensorflow as tf
from absl import logging

from training import (
    checkpointing,
    initialization,
    input_pipeline,
    optimization,
    reporting,
    steps,
    workers,
)
from training import flags as training_flags

# Source: TensorFlow's message when a device is out of memory.
_NO_MEMORY = (tf.errors.ResourceExhaustedError, MemoryError)


class OutOfMemoryError(RuntimeError):
    """A step exceeded the available memory."""


@input_pipeline.reading_errors()
def train(
    trainer: steps.Trainer,
    batches: input_pipeline.TrainingBatches,
    options: training_flags.TrainingOptions,
    plan: initialization.Plan,
    first_step: int,
) -> tuple[int, Mapping[str, float] | None]:
    """Trains from `first_step` to the end of the run or early stopping.

    After SIGTERM, SIGHUP or Ctrl-C the current step completes, a checkpoint is
    saved, and all workers exit. A second signal exits at once.

    Args:
        trainer: the compiled steps, with the state at `first_step`.
        batches: the batches of every step.
        options: the flags of the run.
        plan: the other settings of the run.
        first_step: the number of steps that were made before.

    Returns:
        The number of completed steps; the last held-out metrics, if any.

    Raises:
        NonFiniteLossError: a loss is not finite; nothing is saved after that.
        OutOfMemoryError: a step needs more memory than there is.
        ValueError: a record is damaged.
    """
    communicator = workers.Communicator(trainer.strategy)
    run = _Run(trainer, batches, options, plan, first_step)
    step = first_step
    metrics = run.missed_evaluation(step)
    is_over = run.is_over(step)
    if step >= plan.end or is_over:
        logging.info("Training is already complete: step %d.", step)
    iterator = batches.iterator(trainer.strategy, step, plan.end)
    stopped_by = 0
    with Interruption() as stop:
        while step < plan.end and not (is_over or stopped_by):
            run.make_step(iterator, step)
            step += 1
            stopped_by = communicator.all_reduce_max(stop.requested)
            # Before an evaluation, which may take long.
            if run.saves_at(step) or stopped_by:
                run.save(step)
            if run.evaluates_at(step) and not stopped_by:
                metrics = run.evaluate(step)
                is_over = run.is_over(step)
                stopped_by = communicator.all_reduce_max(stop.requested)
        # A signal may come in the last save.
        stopped_by = stopped_by or communicator.all_reduce_max(stop.requested)
    run.report.close()
    communicator.barrier()
    if stopped_by:
        _exit_by_signal(stopped_by, step)
    return step, metrics


class _Run:
    """The steps, reports, checkpoints and best weights of a run.

    Only the chief writes files; all workers must call the same methods.
    """

    def __init__(
        self,
        trainer: steps.Trainer,
        batches: input_pipeline.TrainingBatches,
        options: training_flags.TrainingOptions,
        plan: initialization.Plan,
        first_step: int,
    ):
        self._trainer, self._options, self._plan = trainer, options, plan
        self._schedule = optimization.Schedule(
            init_lr=options.learning_rate,
            end_lr=options.end_learning_rate,
            num_train_steps=plan.num_train_steps,
            num_warmup_steps=plan.num_warmup_steps,
            kind=options.lr_schedule,
        )
        logging.info("Learning rate: %s.", self._schedule.describe())
        self._communicator = workers.Communicator(trainer.strategy)
        output_dir, self._is_chief = options.output_dir, workers.is_chief()
        self._best = None
        if self._is_chief and first_step == 0:
            checkpointing.remove_best(output_dir)
        if self._is_chief and plan.eval_every_steps:
            self._best = checkpointing.BestCheckpoint(
                output_dir,
                plan.best_metric,
                higher_is_better=plan.higher_is_better,
                patience=options.early_stopping_patience,
            )
        prefix = checkpointing.prefix_of(output_dir, first_step)
        saved = checkpointing.load_state(prefix) or {}
        self.report = reporting.Reporter(
            output_dir if self._is_chief else None,
            plan.num_train_steps,
            first_step,
            batch_size=batches.batch_size,
            describe=batches.describe,
            sums=saved.get("unreported"),
        )

    def make_step(self, iterator, step: int) -> None:
        """Makes a step, and reports it if a report is due."""
        options = self._options
        with _memory_advice(options):
            result = self._trainer.run(
                iterator,
                step,
                self._schedule.learning_rate(step),
                seed=options.random_seed,
                num_accumulation_steps=options.num_accumulation_steps,
            )
        self.report.add(step + 1, result)
        if self._is_due(step + 1, options.log_every_steps):
            self.report.training(step + 1)

    def _is_due(self, step: int, *intervals: int) -> bool:
        """Returns whether an event with these intervals, 0 for none, is due."""
        return step == self._plan.end or any(
            step % each == 0 for each in intervals if each
        )

    def saves_at(self, step: int) -> bool:
        """Returns whether a checkpoint is due."""
        return self._is_due(
            step,
            self._options.save_checkpoints_steps,
            self._options.keep_checkpoint_every_n_steps,
            self._plan.eval_every_steps,
        )

    def _weights(self) -> dict[str, tf.Variable]:
        return checkpointing.weights(self._trainer.objective.model)

    def save(self, step: int) -> None:
        """Saves a checkpoint; checks the losses of the steps before it."""
        sums = self.report.sums()
        if not self._is_chief:
            return
        trainer, options = self._trainer, self._options
        with self.report.pause():
            checkpointing.save(
                options.output_dir,
                step,
                variables={**self._weights(), **trainer.optimizer.slots()},
                state={
                    **initialization.run_state(options, self._plan, trainer),
                    "loss_scale": trainer.loss_scale.state(),
                    "unreported": sums,
                },
                keep=options.keep_checkpoint_max,
                keep_every=options.keep_checkpoint_every_n_steps,
            )

    def evaluates_at(self, step: int) -> bool:
        """Returns whether an evaluation is due."""
        every = self._plan.eval_every_steps
        return every > 0 and self._is_due(step, every)

    def evaluate(self, step: int) -> Mapping[str, float]:
        """Evaluates, keeps the weights if best, and reports the metrics.

        The report is last: a run that is killed before it evaluates again.
        """
        with self.report.pause():
            metrics = self._plan.evaluate()
            if self._best:
                self._best.offer(step, metrics, self._weights())
        if not self.report.has_evaluation(step):
            self.report.evaluation(step, metrics)
        return metrics

    def missed_evaluation(self, step: int) -> Mapping[str, float] | None:
        """Evaluates if a run ended between a checkpoint and its evaluation."""
        if not step or not self.evaluates_at(step):
            return None
        missed = self._is_chief and not self.report.has_evaluation(step)
        if not self._communicator.all_reduce_max(int(missed)):
            return None
        return self.evaluate(step)

    def is_over(self, step: int) -> bool:
        """Returns whether training has stopped improving."""
        # Only the chief knows the best metric.
        over = self._best is not None and self._best.is_over(step)
        return bool(self._communicator.all_reduce_max(int(over)))


@contextlib.contextmanager
def _memory_advice(options: training_flags.TrainingOptions) -> Iterator[None]:
    """Names flags with which the same update needs less memory."""
    try:
        yield
    except _NO_MEMORY as error:
        more = 2 * options.num_accumulation_steps
        raise OutOfMemoryError(
            "There is not enough memory for a step. The same update needs less "
            f"with --num_accumulation_steps={more}, if it divides the examples "
            "of a device, or with --recompute. Run the command again with one "
            "of them: training resumes from the last checkpoint."
        ) from error


class Interruption:
    """Turns SIGTERM, SIGHUP and Ctrl-C into a request, while it is entered.

    A signal that is ignored, as SIGHUP by `nohup`, stays ignored.

    Attributes:
        requested: the number of the signal; 0 if none came.
    """

    _SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def __init__(self):
        self.requested = 0

    def __enter__(self):
        self._before = {}
        # Only the main thread of a program may handle signals.
        if threading.current_thread() is threading.main_thread():
            for number in self._SIGNALS:
                if signal.getsignal(number) != signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._request)
        return self

    def __exit__(self, *_):
        self._restore()

    def _request(self, number, frame):
        logging.warning(
            "%s: saving after this step or evaluation. Repeat the signal to "
            "stop at once.",
            signal.Signals(number).name,
        )
        self.requested = number
        self._restore()

    def _restore(self):
        # Once: a signal may replace the handlers that were restored.
        while self._before:
            signal.signal(*self._before.popitem())


def _exit_by_signal(number: int, step: int) -> None:
    """Ends the program with the exit status of a signal."""
    logging.warning(
        "Stopped by %s after step %d, which is saved. Run the same command "
        "again to resume.",
        signal.Signals(number).name,
        step,
    )
    sys.exit(128 + number)


@input_pipeline.reading_errors()
def evaluate(
    evaluator: steps.Evaluator,
    source: input_pipeline.RecordSource,
    *,
    batch_size: int,
    num_batches: int,
) -> dict[str, float]:
    """Averages losses and metrics over batches of records.

    Args:
        evaluator: the compiled steps.
        source, batch_size, num_batches: see `evaluation_batches`.

    Returns:
        `loss`, the mean of the losses of the batches, as released; and each
        metric, a weighted mean over all batches.
    """
    batches = input_pipeline.evaluation_batches(
        evaluator.strategy,
        source,
        batch_size=batch_size,
        num_batches=num_batches,
    )
    batch_losses = []
    sums: dict[str, np.ndarray] = {}
    for batch in batches:
        outcome = evaluator.run(batch)
        batch_losses.append(sum(float(x) for x in outcome.losses.values()))
        for name, pair in outcome.metrics.items():
            total = sums.setdefault(name, np.zeros(2))
            total += [float(part) for part in pair]
    return {
        "loss": float(np.mean(batch_losses)),
        **{
            name: float(total / weight if weight else 0.0)
            for name, (total, weight) in sums.items()
        },
    }
