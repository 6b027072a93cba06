"""The visible loop: train, evaluate, and what happens in between."""

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from training import (
    batch_phases,
    bookkeeping,
    failures,
    interruption,
    steps,
)


@failures.of_workers()
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
    total = options.num_train_steps
    books = bookkeeping.Books(
        trainer, batches, options, identity=identity, first_step=first_step
    )
    step, results = first_step, None
    books.say_if_over(step)
    if evaluate and _evaluation_is_due(step, options):
        books.evaluate_where_it_was_missed(step, evaluate)
    phase, iterator = None, None
    with interruption.Interruption() as stop:
        while step < total and not books.is_over:
            if phase is None or step == phase.end:
                phase = batches.phase(step)
                end = min(phase.end or total, total)
                iterator = batches.iterator(trainer.strategy, step, end)
            count = min(_steps_until_next_event(step, options), end - step)
            with failures.of_memory(trainer.strategy, phase):
                result = trainer.run(
                    iterator,
                    step,
                    count,
                    num_accumulation_steps=phase.num_accumulation_steps,
                )
                stopped_by = books.agreed(stop.requested)
            books.add(result, count, phase.batch_size)
            step += count
            if step == total or step % options.log_every_steps == 0:
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
        **{name: bookkeeping.ratio(*total) for name, total in sums.items()},
    }


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
