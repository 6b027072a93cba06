"""The training loop: steps, reports, checkpoints and evaluations."""

import dataclasses
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from files import progress
from training import (
    checkpointing,
    devices,
    failures,
    initialization,
    input_pipeline,
    objectives,
    reporting,
    steps,
    workers,
)
from training import flags as training_flags


class NonFiniteLossError(RuntimeError):
    """The loss of a step was infinite or not a number."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """The result of a training.

    Attributes:
        trainer: the compiled steps, for another training of the same network.
        step: the number of completed steps.
        metrics: the last held-out metrics; None if there were none.
    """

    trainer: steps.Trainer
    step: int
    metrics: Mapping[str, float] | None


@failures.of_reading()
@workers.communication_errors()
def train(
    strategy: tf.distribute.Strategy,
    objective: objectives.Objective,
    batches: input_pipeline.TrainingBatches,
    options: training_flags.TrainingOptions,
    plan: initialization.Plan,
    trainer: steps.Trainer | None = None,
) -> Result:
    """Trains a model, resuming from the latest checkpoint of its folder.

    After SIGTERM or Ctrl-C the current step completes, a checkpoint is saved,
    and the program and all other workers exit. A second signal exits at once.

    Args:
        strategy: holds the variables.
        objective: the model, with new weights, and its losses.
        batches: the batches of every step.
        options: the flags of the run.
        plan: the other settings of the run.
        trainer: of an earlier training of the same network. Its optimizer is
            reused, and its compiled steps if the schedule differs in its peak
            alone.

    Raises:
        NonFiniteLossError: a loss is not finite; nothing is saved after that.
            All workers raise it, since they have the same losses.
        OutOfMemoryError, LostWorkerError, WritingError: see `failures`.
        ValueError: the folder contains another run, a checkpoint does not fit,
            or the workers have different records or checkpoints.
    """
    plan = plan.complete_identity(options, strategy)
    with strategy.scope():
        state, first_step = initialization.initialize(
            objective, options, plan, trainer.state if trainer else None
        )
    # The length of a run is compiled into its steps.
    constants = state.schedule.without_peak
    if trainer and trainer.state.schedule.without_peak == constants:
        trainer.state = state
    else:
        trainer = steps.Trainer(
            strategy,
            state,
            jit_compile=devices.compiles_whole_steps(
                strategy, options.jit_compile
            ),
        )
    step, metrics = _run(trainer, batches, options, plan, first_step)
    return Result(trainer=trainer, step=step, metrics=metrics)


def _run(
    trainer: steps.Trainer,
    batches: input_pipeline.TrainingBatches,
    options: training_flags.TrainingOptions,
    plan: initialization.Plan,
    first_step: int,
) -> tuple[int, Mapping[str, float] | None]:
    """Trains from `first_step` to the end of the run or early stopping.

    Returns:
        The number of completed steps, and the last held-out metrics: None if
        training was complete already, or without evaluations.
    """
    recorder = _Recorder(trainer, batches, options, plan, first_step)
    step, results, stopped_by = first_step, None, None
    recorder.log_if_finished(step)
    if plan.evaluate and _is_due(step, plan, plan.eval_every_steps):
        results = recorder.evaluate_if_missed(step, plan.evaluate)
    calls = _calls(trainer, batches, options, plan, first_step)
    with failures.Interruption() as stop:
        while step < plan.num_train_steps and not (
            stopped_by or recorder.is_over
        ):
            result, count, phase = next(calls)
            stopped_by = recorder.agree_on_signal(stop.requested)
            step += count
            recorder.add(step, result, count, phase)
            if _is_due(step, plan, options.log_every_steps):
                recorder.report(step)
            if stopped_by or _is_due(step, plan, *_save_intervals(options)):
                recorder.save(step)
            if (
                plan.evaluate
                and not stopped_by
                and _is_due(step, plan, plan.eval_every_steps)
            ):
                results = recorder.evaluate(step, plan.evaluate)
                # A signal may come in an evaluation.
                stopped_by = recorder.agree_on_signal(stop.requested)
                is_last = stopped_by or recorder.is_over
                if is_last and recorder.saved_step != step:
                    recorder.save(step)
        # Or in the last save.
        stopped_by = stopped_by or recorder.agree_on_signal(stop.requested)
    recorder.close()
    if stopped_by:
        failures.exit_by_signal(stopped_by, step)
    return step, results


def _calls(
    trainer, batches, options, plan, step
) -> Iterator[tuple[dict, int, input_pipeline.BatchPhase]]:
    """Runs all steps from `step` on, until the next event in each call.

    Yields:
        The result of `Trainer.run`, the number of steps, and their phase.
    """
    most = options.steps_per_loop
    if not most:
        uses_tpu = training_flags.wants_tpu(options)
        most = options.iterations_per_loop if uses_tpu else 1
    intervals = (
        *(options.log_every_steps, plan.eval_every_steps),
        *_save_intervals(options),
    )
    while step < plan.num_train_steps:
        phase = batches.phase(step)
        end = min(phase.end or plan.num_train_steps, plan.num_train_steps)
        iterator = batches.iterator(trainer.strategy, step, end)
        while step < end:
            to_events = [each - step % each for each in intervals if each]
            count = min(most, end - step, *to_events)
            with failures.of_memory(
                trainer.strategy,
                phase,
                recompute=options.recompute,
                in_phases=bool(getattr(options, "phases", "")),
            ):
                result = trainer.run(
                    iterator,
                    step,
                    count,
                    num_accumulation_steps=phase.num_accumulation_steps,
                )
            step += count
            yield result, count, phase


def _save_intervals(options) -> tuple[int, int]:
    return options.save_checkpoints_steps, options.keep_checkpoint_every_n_steps


def _is_due(step: int, plan: initialization.Plan, *intervals: int) -> bool:
    """Returns whether an event with these intervals, 0 for none, is due."""
    return step == plan.num_train_steps or any(
        step % each == 0 for each in intervals if each
    )


@failures.of_reading()
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


class _Recorder:
    """Reports, checkpoints and best weights of a run.

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
        self._trainer = trainer
        self._batches = batches
        self._options = options
        self._plan = plan
        self._communicator = workers.Communicator(trainer.strategy)
        self._communicator.check_equal(
            "records and checkpoints",
            {**plan.identity, "first_step": first_step},
        )
        self._communicator.check_same_weights(
            checkpointing.weights(trainer.state.objective.model)
        )
        self._clock = reporting.Clock()
        self._reporter = self._best = None
        if self._communicator.is_chief:
            sanity_check = None
            if plan.make_sanity_check and first_step < plan.num_train_steps:
                sanity_check = plan.make_sanity_check(trainer.state.schedule)
            self._reporter = reporting.Reporter(
                options.output_dir,
                plan.num_train_steps,
                first_step,
                sanity_check,
            )
            if first_step == 0:
                checkpointing.remove_best(options.output_dir)
            if plan.best_metric:
                self._best = checkpointing.BestCheckpoint(
                    options.output_dir,
                    plan.best_metric,
                    higher_is_better=plan.higher_is_better,
                    patience=options.early_stopping_patience,
                    identity=plan.identity,
                    held_out=plan.held_out,
                )
        self.saved_step = first_step
        self.is_over = self._has_stopped_improving(first_step)
        # The kinds of calls that were made: each is compiled separately.
        self._compiled: set[tuple[int | None, bool]] = set()
        # Since the last report: the timed steps, examples and seconds, the
        # seconds spent waiting for their batches, the results of unprocessed
        # steps, and the sums over processed ones.
        self._timed_steps = self._timed_examples = 0
        self._timed_seconds = 0.0
        self._results: list[tuple[int, Any]] = []
        self._waits: list[Any] = []
        prefix = checkpointing.prefix_of(options.output_dir, first_step)
        saved = checkpointing.load_state(prefix) or {}
        self._sums: dict[str, Any] = saved.get("unreported", {})

    def add(
        self,
        step: int,
        result,
        count: int,
        phase: input_pipeline.BatchPhase,
    ) -> None:
        """Adds the result of the `count` steps of a phase before `step`."""
        if self._reporter:
            self._reporter.animate(step)
        input_seconds = result.pop("input_seconds")
        self._results.append((count, result))
        seconds, kind = self._clock.lap(), (phase.end, count == 1)
        if kind in self._compiled:
            self._waits.append(input_seconds)
            self._timed_steps += count
            self._timed_examples += count * phase.batch_size
            self._timed_seconds += seconds
        else:
            # The time of the first call of a kind includes compilation.
            self._compiled.add(kind)

    def report(self, step: int) -> None:
        """Reports the steps since the last report; checks their losses."""
        self._settle()
        seconds = self._timed_seconds + self._clock.lap()
        timed = self._timed_steps
        self._warn_of_skipped_steps(step)
        values, left = _means(self._sums), None
        total = self._plan.num_train_steps
        if timed:
            waited = sum(float(each) for each in self._waits)
            values["examples_per_second"] = self._timed_examples / seconds
            values["input_wait"] = 100 * waited / seconds
            left = (total - step) * seconds / timed
        if self._reporter:
            with self._explained():
                self._reporter.training(step, values, left)
        else:
            progress.report(reporting.console_line(step, total, values, left))
        self._sums, self._waits = {}, []
        self._timed_steps = self._timed_examples = 0
        self._timed_seconds = 0.0

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
                "identity": dict(self._plan.identity),
                "loss_scale": state.loss_scale.state(),
                "unreported": self._sums,
            },
            keep=self._options.keep_checkpoint_max,
            keep_every=self._options.keep_checkpoint_every_n_steps,
        )

    def _explained(self):
        return failures.of_writing(self._options.output_dir)

    def _has_stopped_improving(self, step: int) -> bool:
        # Only the chief tracks the best metric.
        over = self._best is not None and self._best.is_over(step)
        return bool(self._communicator.all_reduce_max(int(over)))

    def log_if_finished(self, step: int) -> None:
        """Logs whether training was complete before this run."""
        total = self._plan.num_train_steps
        if step >= total:
            logging.info(
                "Training is already complete: step %d of %d.", step, total
            )
        elif self.is_over:
            logging.info("Training is already complete: it stopped early.")

    def evaluate(
        self, step: int, evaluate: Callable[[], Mapping[str, float]]
    ) -> Mapping[str, float]:
        """Evaluates, saves the weights if best, and reports the metrics.

        The report is last: a run that is killed before it evaluates again.
        """
        self._settle()
        with self._clock.pause():
            results = evaluate()
            if self._best:
                weights = checkpointing.weights(
                    self._trainer.state.objective.model
                )
                with self._explained():
                    self._best.offer(step, results, weights)
            if self._reporter and not self._reporter.has_evaluation(step):
                with self._explained():
                    self._reporter.evaluation(step, results)
            self.is_over = self._has_stopped_improving(step)
        return results

    def evaluate_if_missed(
        self, step: int, evaluate: Callable[[], Mapping[str, float]]
    ) -> Mapping[str, float] | None:
        """Evaluates if a run stopped between saving and evaluating.

        Also if the best checkpoint is wanted, and none was kept until now.
        """
        missed = (
            step > 0
            and self._reporter is not None
            and (
                not self._reporter.has_evaluation(step)
                or (self._best is not None and self._best.is_missing)
            )
        )
        if self._communicator.all_reduce_max(int(missed)):
            return self.evaluate(step, evaluate)
        return None

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
