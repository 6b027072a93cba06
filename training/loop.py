"""The visible loop: train, evaluate, and what happens in between."""

import dataclasses
import operator
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf
from absl import logging

from training import (
    checkpointing,
    input_pipeline,
    interruption,
    reporting,
    selection,
    steps,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoopOptions:
    """When a run does what.

    Attributes:
        output_dir: where everything is written.
        train_batch_size: examples in a step, over all replicas.
        num_train_steps: the step at which the run ends.
        save_checkpoints_steps: steps between checkpoints.
        keep_checkpoint_max: checkpoints that stay; 0 for all.
        log_every_steps: steps between reports.
        eval_every_steps: steps between evaluations; 0 for none.
        iterations_per_loop: steps made without a look at the clock.
        best_metric: the held-out metric by which the best weights are kept, in
            `best/`; none are kept if None.
        higher_is_better: False for losses.
        early_stopping_patience: evaluations without a new best after which
            the run ends; 0 for never.
    """

    output_dir: str
    train_batch_size: int
    num_train_steps: int
    save_checkpoints_steps: int = 1000
    keep_checkpoint_max: int = 5
    log_every_steps: int = 100
    eval_every_steps: int = 0
    iterations_per_loop: int = 1
    best_metric: str | None = None
    higher_is_better: bool = True
    early_stopping_patience: int = 0


class NonFiniteLossError(RuntimeError):
    """The loss of a step was infinite or not a number."""


def train(
    trainer: steps.Trainer,
    batches: input_pipeline.TrainingBatches,
    options: LoopOptions,
    *,
    first_step: int,
    identity: Mapping[str, object],
    evaluate: Callable[[], Mapping[str, float]] | None = None,
) -> Mapping[str, float] | None:
    """Trains from `first_step` to `num_train_steps`, or until nothing improves.

    SIGTERM, or Ctrl-C, saves a checkpoint after the step under way and ends
    the program; a second one ends it at once.

    Args:
        trainer: the compiled step.
        batches: of every step.
        options: when to report, save and evaluate.
        first_step: 0, or where a resumed run goes on.
        identity: what a resumed run must share with this one to be its exact
            continuation; saved beside each checkpoint.
        evaluate: returns held-out metrics; asked every `eval_every_steps` and
            at the end.

    Returns:
        The last held-out metrics; None where there is nothing left to train,
        or no `evaluate`.

    Raises:
        NonFiniteLossError: a loss is not finite; nothing is saved after that.
    """
    run = _Run(trainer, batches, options, identity, first_step)
    iterator = batches.iterator(
        trainer.strategy, first_step, options.num_train_steps
    )
    step, results = first_step, None
    run.say_if_over(step)
    if evaluate and _evaluation_is_due(step, options):
        run.evaluate_where_it_was_missed(step, evaluate)
    with interruption.Interruption() as stop:
        while step < options.num_train_steps and not run.stopped_early():
            count = _steps_until_next_event(step, options)
            run.add(trainer.run(iterator, step, count), count)
            step += count
            last = step == options.num_train_steps
            if last or step % options.log_every_steps == 0:
                run.report(step)
            if (
                last
                or stop.requested
                or step % options.save_checkpoints_steps == 0
            ):
                run.save(step)
            if stop.requested:
                run.close()
                stop.end(step)
            if evaluate and _evaluation_is_due(step, options):
                results = run.evaluate(step, evaluate)
                if run.stopped_early() and run.saved_step != step:
                    run.save(step)
    run.close()
    return results


def evaluate(
    evaluator: steps.Evaluator,
    dataset: Callable[[tf.distribute.InputContext], tf.data.Dataset],
) -> dict[str, float]:
    """Averages losses and metrics over all batches of a dataset.

    Returns:
        `loss`, the mean over the batches of each batch's loss, as released;
        and each metric, weighted over all that it counts.
    """
    batches = evaluator.strategy.distribute_datasets_from_function(dataset)
    batch_losses, sums = [], {}
    for batch in batches:
        result = evaluator.run(batch)
        batch_losses.append(sum(float(x) for x in result["losses"].values()))
        for name, pair in result["metrics"].items():
            total = sums.setdefault(name, np.zeros(2))
            total += [float(part) for part in pair]
    if not batch_losses:
        raise ValueError("There is nothing to evaluate: no batch was read.")
    return {
        "loss": float(np.mean(batch_losses)),
        **{name: _ratio(*total) for name, total in sums.items()},
    }


class _Run:
    """What a run keeps between steps."""

    def __init__(self, trainer, batches, options, identity, first_step):
        self._trainer = trainer
        self._batches = batches
        self._options = options
        self._identity = identity
        self._reporter = reporting.Reporter(
            options.output_dir, options.num_train_steps, first_step
        )
        self._clock = reporting.Clock()
        self._best = None
        if options.best_metric:
            self._best = selection.BestCheckpoint(
                options.output_dir,
                options.best_metric,
                higher_is_better=options.higher_is_better,
                patience=options.early_stopping_patience,
            )
        self.saved_step = first_step
        self._is_compiled = False
        # Since the last report: the steps whose time counts, what steps not
        # yet looked at returned, and the sums over the others.
        self._timed_steps = 0
        self._results = []
        self._sums = _unreported(options.output_dir, first_step)

    def add(self, result, count: int) -> None:
        """Takes what the next `count` steps returned."""
        self._results.append((count, result))
        if self._is_compiled:
            self._timed_steps += count
        else:
            # The first steps take as long as compiling them.
            self._clock.lap()
            self._is_compiled = True

    def report(self, step: int) -> None:
        """Reports the steps since the last report; checks their losses."""
        self._settle()
        seconds, timed = self._clock.lap(), self._timed_steps
        left = self._options.num_train_steps - step
        self._reporter.training(
            reporting.Progress(
                step=step,
                values=_means(self._sums),
                examples_per_second=timed
                * self._options.train_batch_size
                / seconds
                if timed
                else None,
                seconds_left=left * seconds / timed if timed else None,
            )
        )
        self._sums, self._timed_steps = {}, 0

    def save(self, step: int) -> None:
        """Saves a checkpoint; checks the losses of the steps before it."""
        self._settle()
        with self._clock.pause():
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
            )
        self.saved_step = step

    def stopped_early(self) -> bool:
        """Tells whether the held-out metric has stopped improving."""
        return self._best is not None and self._best.is_over()

    def say_if_over(self, step: int) -> None:
        """Logs that there is nothing left to train, if so."""
        total = self._options.num_train_steps
        if step >= total:
            logging.info(
                "Nothing is left to train: step %d of %d is made.", step, total
            )
        elif self.stopped_early():
            logging.info("Nothing is left to train: it stopped early before.")

    def evaluate(self, step: int, evaluate) -> Mapping[str, float]:
        with self._clock.pause():
            results = evaluate()
            self._reporter.evaluation(step, results)
            if self._best:
                weights = checkpointing.weights(
                    self._trainer.state.objective.model
                )
                self._best.offer(step, results, weights)
        return results

    def evaluate_where_it_was_missed(self, step: int, evaluate) -> None:
        """Evaluates a run that was stopped between saving and evaluating."""
        if step and not self._reporter.has_evaluation(step):
            self.evaluate(step, evaluate)

    def close(self) -> None:
        self._reporter.close()

    def _settle(self) -> None:
        """Adds up what the steps returned; checks that it is finite."""
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
    """Returns the sums over the steps that a resumed run has not reported."""
    saved = checkpointing.load_state(checkpointing.prefix_of(output_dir, step))
    return (saved or {}).get("unreported", {})


def _plus(sums: Mapping, values: Mapping) -> dict:
    """Adds the values of later steps; the learning rate is the last one's."""
    if not sums:
        return dict(values)
    added = tf.nest.map_structure(
        operator.add, dict(sums), dict(values), check_types=False
    )
    return {**added, "learning_rate": values["learning_rate"]}


def _means(sums: Mapping) -> dict[str, float]:
    """Turns sums over steps into what is reported of them."""
    count = sums["steps"]
    values = {
        "loss": sum(sums["losses"].values()) / count,
        **{name: _ratio(*pair) for name, pair in sums["metrics"].items()},
        "gradient_norm": sums["gradient_norm"] / count,
        "learning_rate": sums["learning_rate"],
    }
    if sums["skipped_steps"]:
        values["skipped_steps"] = sums["skipped_steps"]
    return values


def _steps_until_next_event(step: int, options: LoopOptions) -> int:
    """Counts the steps to make before there is something else to do."""
    intervals = (
        options.log_every_steps,
        options.save_checkpoints_steps,
        options.eval_every_steps,
    )
    counts = [each - step % each for each in intervals if each]
    left = options.num_train_steps - step
    return min(options.iterations_per_loop, left, *counts)


def _evaluation_is_due(step: int, options: LoopOptions) -> bool:
    every = options.eval_every_steps
    return step == options.num_train_steps or (every and step % every == 0)


def _ratio(total: float, weight: float) -> float:
    return total / weight if weight else 0.0
