"""The training loop: steps, reports, checkpoints and evaluations."""

import dataclasses
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from files import log_lines
from training import (
    checkpointing,
    failures,
    input_pipeline,
    reporting,
    steps,
    workers,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoopOptions:
    """The schedule of reports, checkpoints and evaluations of a run.

    Attributes:
        output_dir: the folder of all output.
        num_train_steps: the step at which the run ends.
        save_checkpoints_steps: steps between checkpoints.
        keep_checkpoint_max: the number of checkpoints to keep; 0 for all.
        keep_checkpoint_every_n_steps: the checkpoint of every multiple is saved
            and kept in addition; 0 for none.
        log_every_steps: steps between reports.
        eval_every_steps: steps between evaluations; 0 for none.
        iterations_per_loop: the greatest number of steps per compiled call.
        best_metric: the held-out metric that selects the weights in `best/`;
            None to keep none.
        higher_is_better: False for losses.
        early_stopping_patience: evaluations without improvement after which
            the run ends; 0 for never.
        sanity_check: receives every report and returns warnings.
    """

    output_dir: str
    num_train_steps: int
    save_checkpoints_steps: int = 1000
    keep_checkpoint_max: int = 5
    keep_checkpoint_every_n_steps: int = 0
    log_every_steps: int = 100
    eval_every_steps: int = 0
    iterations_per_loop: int = 1
    best_metric: str | None = None
    higher_is_better: bool = True
    early_stopping_patience: int = 0
    sanity_check: reporting.SanityCheck | None = None


class NonFiniteLossError(RuntimeError):
    """The loss of a step was infinite or not a number."""


@workers.communication_errors()
def train(
    trainer: steps.Trainer,
    batches: input_pipeline.TrainingBatches,
    options: LoopOptions,
    *,
    first_step: int,
    identity: Mapping[str, object],
    evaluate: Callable[[], Mapping[str, float]] | None = None,
) -> tuple[int, Mapping[str, float] | None]:
    """Trains from `first_step` to `num_train_steps`, or until early stopping.

    After SIGTERM or Ctrl-C the current step completes, a checkpoint is saved,
    and the program and all other workers exit. A second signal exits at once.

    Args:
        trainer: the compiled step.
        batches: the batches of every step.
        options: when to report, save and evaluate.
        first_step: 0, or the step of the checkpoint of a resumed run.
        identity: the values that must stay the same for an exact resume; saved
            with each checkpoint.
        evaluate: returns held-out metrics; called every `eval_every_steps` and
            at the end.

    Returns:
        The number of completed steps, and the last held-out metrics: None if
        training was complete already, or without `evaluate`.

    Raises:
        NonFiniteLossError: a loss is not finite; nothing is saved after that.
        OutOfMemoryError, LostWorkerError, WritingError: see `failures`.
        ValueError: the workers have different flags or checkpoints.
    """
    recorder = _Recorder(
        trainer, batches, options, identity=identity, first_step=first_step
    )
    step, results = first_step, None
    recorder.log_if_finished(step)
    if evaluate and _evaluation_is_due(step, options):
        recorder.evaluate_if_missed(step, evaluate)
    stepper = _Stepper(trainer, batches, options)
    with failures.Interruption() as stop:
        while step < options.num_train_steps and not recorder.is_over:
            result, count, batch_size = stepper.advance(step)
            stopped_by = recorder.agree_on_signal(stop.requested)
            step += count
            recorder.add(step, result, count, batch_size)
            last = step == options.num_train_steps
            if last or step % options.log_every_steps == 0:
                recorder.report(step)
            if stopped_by or _checkpoint_is_due(step, options):
                recorder.save(step)
            if stopped_by:
                recorder.close()
                failures.exit_by_signal(stopped_by, step)
            if evaluate and _evaluation_is_due(step, options):
                results = recorder.evaluate(step, evaluate)
                if recorder.is_over and recorder.saved_step != step:
                    recorder.save(step)
    recorder.close()
    return step, results


@workers.communication_errors()
def evaluate(
    evaluator: steps.Evaluator,
    dataset: Callable[[tf.distribute.InputContext], tf.data.Dataset],
) -> dict[str, float]:
    """Averages losses and metrics over all batches of a dataset.

    Returns:
        `loss`, the mean of the losses of the batches, as released; and each
        metric, a weighted mean over all batches.
    """
    batches = input_pipeline.distributed(evaluator.strategy, dataset)
    batch_losses = []
    sums: dict[str, np.ndarray] = {}
    for batch in batches:
        result = evaluator.run(batch)
        batch_losses.append(sum(float(x) for x in result["losses"].values()))
        for name, pair in result["metrics"].items():
            total = sums.setdefault(name, np.zeros(2))
            total += [float(part) for part in pair]
    if not batch_losses:
        raise ValueError("There must be a batch to evaluate; got none.")
    return {
        "loss": float(np.mean(batch_losses)),
        **{name: _ratio(*total) for name, total in sums.items()},
    }


class _Stepper:
    """The execution of steps, phase by phase."""

    def __init__(self, trainer, batches, options):
        self._trainer = trainer
        self._batches = batches
        self._options = options
        self._phase = self._iterator = None
        self._end = 0

    def advance(self, step: int) -> tuple[dict, int, int]:
        """Runs steps until the next event.

        Args:
            step: the number of the first; one more than that of the last.

        Returns:
            The result of `Trainer.run`, the number of steps, and the examples
            in each.
        """
        strategy, total = self._trainer.strategy, self._options.num_train_steps
        if self._phase is None or step == self._end:
            self._phase = self._batches.phase(step)
            self._end = min(self._phase.end or total, total)
            self._iterator = self._batches.iterator(strategy, step, self._end)
        count = _steps_until_next_event(step, self._options)
        count = min(count, self._end - step)
        with failures.of_memory(strategy, self._phase):
            result = self._trainer.run(
                self._iterator,
                step,
                count,
                num_accumulation_steps=self._phase.num_accumulation_steps,
            )
        return result, count, self._phase.batch_size


def _steps_until_next_event(step: int, options: LoopOptions) -> int:
    """Counts the steps until the next report, checkpoint or evaluation."""
    intervals = (
        options.log_every_steps,
        options.save_checkpoints_steps,
        options.keep_checkpoint_every_n_steps,
        options.eval_every_steps,
    )
    counts = [each - step % each for each in intervals if each]
    left = options.num_train_steps - step
    return min(options.iterations_per_loop, left, *counts)


def _checkpoint_is_due(step: int, options: LoopOptions) -> bool:
    intervals = (
        options.save_checkpoints_steps,
        options.keep_checkpoint_every_n_steps,
    )
    return step == options.num_train_steps or any(
        step % each == 0 for each in intervals if each
    )


def _evaluation_is_due(step: int, options: LoopOptions) -> bool:
    every = options.eval_every_steps
    return step == options.num_train_steps or (every > 0 and step % every == 0)


class _Recorder:
    """Reports, checkpoints and best weights of a run.

    Only the chief writes files; all workers must call the same methods.

    Args:
        trainer: the compiled step.
        batches: the batches of every step.
        options: when to report, save and evaluate.
        identity: the values that must stay the same when the run resumes.
        first_step: the first step of the run.
    """

    def __init__(
        self,
        trainer: steps.Trainer,
        batches: input_pipeline.TrainingBatches,
        options: LoopOptions,
        *,
        identity: Mapping[str, object],
        first_step: int,
    ):
        self._trainer = trainer
        self._batches = batches
        self._options = options
        self._identity = identity
        self._communicator = workers.Communicator(trainer.strategy)
        self._communicator.check_equal(
            "flags and the same checkpoint",
            "Pass the same flags everywhere, and an --output_dir that all "
            "workers can read.",
            (first_step, sorted(identity.items())),
        )
        self._clock = reporting.Clock()
        self._reporter = self._best = None
        if self._communicator.is_chief:
            self._reporter = reporting.Reporter(
                options.output_dir,
                options.num_train_steps,
                first_step,
                options.sanity_check,
            )
            if first_step == 0:
                checkpointing.remove_best(options.output_dir)
            if options.best_metric:
                self._best = checkpointing.BestCheckpoint(
                    options.output_dir,
                    options.best_metric,
                    higher_is_better=options.higher_is_better,
                    patience=options.early_stopping_patience,
                    identity=identity,
                )
        self.saved_step = first_step
        self.is_over = self._has_stopped_improving()
        self._is_compiled = False
        # Since the last report: the timed steps and examples, the seconds spent
        # waiting for their batches, the results of unprocessed steps, and the
        # sums over processed ones.
        self._timed_steps = self._timed_examples = 0
        self._results: list[tuple[int, Any]] = []
        self._waits: list[Any] = []
        self._sums = _unreported(options.output_dir, first_step)

    def add(self, step: int, result, count: int, batch_size: int) -> None:
        """Adds the result of the `count` steps before `step`."""
        if self._reporter:
            self._reporter.animate(step)
        input_seconds = result.pop("input_seconds")
        self._results.append((count, result))
        if self._is_compiled:
            self._waits.append(input_seconds)
            self._timed_steps += count
            self._timed_examples += count * batch_size
        else:
            # The time of the first steps includes compilation.
            self._clock.lap()
            self._is_compiled = True

    def report(self, step: int) -> None:
        """Reports the steps since the last report; checks their losses."""
        self._settle()
        seconds, timed = self._clock.lap(), self._timed_steps
        self._warn_of_skipped_steps(step)
        left = self._options.num_train_steps - step
        waited = sum(float(each) for each in self._waits)
        progress = reporting.Progress(
            step=step,
            values=_means(self._sums),
            speed=reporting.Speed(
                examples_per_second=self._timed_examples / seconds,
                input_wait=100 * waited / seconds,
                seconds_left=left * seconds / timed,
            )
            if timed
            else None,
        )
        if self._reporter:
            with self._explained():
                self._reporter.training(progress)
        else:
            line = reporting.console_line(
                progress, self._options.num_train_steps
            )
            log_lines.report(line)
        self._sums, self._waits = {}, []
        self._timed_steps = self._timed_examples = 0

    def _warn_of_skipped_steps(self, step: int) -> None:
        if self._sums["skipped_steps"] == self._sums["steps"]:
            logging.warning(
                "step %d: all %d steps since the last report were skipped: "
                "their float16 gradients overflowed, and no weight changed. "
                "The loss scale is now %g. If this continues, pass "
                "--precision=mixed_bfloat16 or --precision=float32.",
                step,
                self._sums["steps"],
                self._trainer.state.loss_scale.scale.numpy(),
            )

    def save(self, step: int) -> None:
        """Saves a checkpoint; checks the losses of the steps before it."""
        self._settle()
        if self._communicator.is_chief:
            with self._clock.pause(), self._explained():
                self._write_checkpoint(step)
        self.saved_step = step

    def _write_checkpoint(self, step: int) -> None:
        state = self._trainer.state
        checkpointing.save(
            self._options.output_dir,
            step,
            variables={
                **checkpointing.weights(state.objective.model),
                **state.optimizer.slots(),
            },
            state={
                "identity": dict(self._identity),
                "loss_scale": state.loss_scale.state(),
                "unreported": self._sums,
            },
            keep=self._options.keep_checkpoint_max,
            keep_every=self._options.keep_checkpoint_every_n_steps,
        )

    def _explained(self):
        return failures.of_writing(self._options.output_dir)

    def _has_stopped_improving(self) -> bool:
        # Only the chief tracks the best metric.
        over = self._best is not None and self._best.is_over()
        return bool(self._communicator.all_reduce_max(int(over)))

    def log_if_finished(self, step: int) -> None:
        """Logs whether training was complete before this run."""
        total = self._options.num_train_steps
        if step >= total:
            logging.info(
                "Training is already complete: step %d of %d.", step, total
            )
        elif self.is_over:
            logging.info("Training is already complete: it stopped early.")

    def evaluate(
        self, step: int, evaluate: Callable[[], Mapping[str, float]]
    ) -> Mapping[str, float]:
        """Evaluates, reports the metrics and saves the weights if best."""
        with self._clock.pause():
            results = evaluate()
            if self._reporter:
                with self._explained():
                    self._reporter.evaluation(step, results)
            if self._best:
                weights = checkpointing.weights(
                    self._trainer.state.objective.model
                )
                with self._explained():
                    self._best.offer(step, results, weights)
            self.is_over = self._has_stopped_improving()
        return results

    def evaluate_if_missed(
        self, step: int, evaluate: Callable[[], Mapping[str, float]]
    ) -> None:
        """Evaluates if a run stopped between saving and evaluating."""
        missed = (
            step > 0
            and self._reporter is not None
            and not self._reporter.has_evaluation(step)
        )
        if self._communicator.all_reduce_max(int(missed)):
            self.evaluate(step, evaluate)

    def agree_on_signal(self, request: int | None) -> int | None:
        """Returns the number of a signal that any worker received, or None."""
        return self._communicator.all_reduce_max(request or 0) or None

    def close(self) -> None:
        """Closes the reports; waits until the chief has written all files."""
        if self._reporter:
            with self._explained():
                self._reporter.close()
        self._communicator.barrier()

    def _settle(self) -> None:
        """Adds the results of the steps to the sums; checks their losses."""
        for count, result in self._results:
            values = tf.nest.map_structure(lambda x: x.numpy().item(), result)
            step = values.pop("first_bad_step")
            if step >= 0:
                raise NonFiniteLossError(
                    f"The loss of step {step}, or its gradient, is not finite; "
                    "nothing was saved after it. Its batch: "
                    f"{self._batches.describe(step)}. Try a lower learning "
                    "rate or a longer warm-up; instead of mixed_float16, "
                    "mixed_bfloat16."
                )
            self._sums = _plus(self._sums, {"steps": count, **values})
        self._results = []


def _unreported(output_dir: str, step: int) -> dict:
    """Returns the saved sums over steps that were not reported yet."""
    saved = checkpointing.load_state(checkpointing.prefix_of(output_dir, step))
    return (saved or {}).get("unreported", {})


def _plus(sums: Mapping, values: Mapping) -> dict:
    """Adds the values of later steps; keeps the learning rate of the last."""
    if not sums:
        return dict(values)
    added = tf.nest.map_structure(
        operator.add, dict(sums), dict(values), check_types=False
    )
    return {**added, "learning_rate": values["learning_rate"]}


def _means(sums: Mapping) -> dict[str, float]:
    """Converts sums over steps to the reported values."""
    count = sums["steps"]
    made = count - sums["skipped_steps"]
    values = {
        "loss": sum(sums["losses"].values()) / count,
        **{name: _ratio(*pair) for name, pair in sums["metrics"].items()},
        **({"gradient_norm": sums["gradient_norm"] / made} if made else {}),
        "learning_rate": sums["learning_rate"],
    }
    if sums["skipped_steps"]:
        values["skipped_steps"] = sums["skipped_steps"]
    return values


def _ratio(total: float, weight: float) -> float:
    return total / weight if weight else 0.0
