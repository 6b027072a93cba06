"""The visible loop: train, evaluate, and what happens in between."""

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from training import (
    batch_phases,
    bookkeeping,
    failures,
    input_pipeline,
    interruption,
    steps,
    workers,
)


@workers.communication_errors()
def train(
    trainer: steps.Trainer,
    batches: batch_phases.Batches,
    options: bookkeeping.LoopOptions,
    *,
    first_step: int,
    identity: Mapping[str, object],
    evaluate: Callable[[], Mapping[str, float]] | None = None,
) -> Mapping[str, float] | None:
    """Trains from `first_step` to `num_train_steps`, or until nothing improves.

    SIGTERM, or Ctrl-C, saves a checkpoint after the step under way and ends
    the program, and with it the other workers; a second one ends it at once.

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
        OutOfMemoryError, LostWorkerError, WritingError: of `failures`.
        ValueError: the workers do not start alike.
    """
    books = bookkeeping.Books(
        trainer, batches, options, identity=identity, first_step=first_step
    )
    step, results = first_step, None
    books.say_if_over(step)
    if evaluate and _evaluation_is_due(step, options):
        books.evaluate_where_it_was_missed(step, evaluate)
    stepper = _Stepper(trainer, batches, options)
    with interruption.Interruption() as stop:
        while step < options.num_train_steps and not books.is_over:
            result, count, batch_size = stepper.advance(step)
            stopped_by = books.agreed(stop.requested)
            books.add(result, count, batch_size)
            step += count
            last = step == options.num_train_steps
            if last or step % options.log_every_steps == 0:
                books.report(step)
            if stopped_by or _checkpoint_is_due(step, options):
                books.save(step)
            if stopped_by:
                books.close()
                interruption.end(stopped_by, step)
            if evaluate and _evaluation_is_due(step, options):
                results = books.evaluate(step, evaluate)
                if books.is_over and books.saved_step != step:
                    books.save(step)
    books.close()
    return results


@workers.communication_errors()
def evaluate(
    evaluator: steps.Evaluator,
    dataset: Callable[[tf.distribute.InputContext], tf.data.Dataset],
) -> dict[str, float]:
    """Averages losses and metrics over all batches of a dataset.

    Returns:
        `loss`, the mean over the batches of each batch's loss, as released;
        and each metric, weighted over all that it counts.
    """
    batches = input_pipeline.distributed(evaluator.strategy, dataset)
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
        **{name: bookkeeping.ratio(*total) for name, total in sums.items()},
    }


class _Stepper:
    """Makes steps, of whichever phase they are."""

    def __init__(self, trainer, batches, options):
        self._trainer = trainer
        self._batches = batches
        self._options = options
        self._phase = self._iterator = None
        self._end = 0

    def advance(self, step: int) -> tuple[dict, int, int]:
        """Makes steps until there is something else to do.

        Args:
            step: the number of the first, one after that of the last before.

        Returns:
            What `Trainer.run` returns, the number of steps, and the examples
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


def _steps_until_next_event(step: int, options: bookkeeping.LoopOptions) -> int:
    """Counts the steps to make before there is something else to do."""
    intervals = (
        options.log_every_steps,
        options.save_checkpoints_steps,
        options.keep_checkpoint_every_n_steps,
        options.eval_every_steps,
    )
    counts = [each - step % each for each in intervals if each]
    left = options.num_train_steps - step
    return min(options.iterations_per_loop, left, *counts)


def _checkpoint_is_due(step: int, options: bookkeeping.LoopOptions) -> bool:
    intervals = (
        options.save_checkpoints_steps,
        options.keep_checkpoint_every_n_steps,
    )
    return step == options.num_train_steps or any(
        step % each == 0 for each in intervals if each
    )


def _evaluation_is_due(step: int, options: bookkeeping.LoopOptions) -> bool:
    every = options.eval_every_steps
    return step == options.num_train_steps or (every and step % every == 0)
