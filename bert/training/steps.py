"""Training and evaluation steps on any number of replicas."""

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import tensorflow as tf
from absl import logging

from bert.tasks import objectives
from bert.training import devices, optimization
from modeling import compilation

# Source: NVIDIA's mixed-precision recipe (Micikevicius et al. 2018), as in
# Keras: double after 2,000 finite steps, halve after one that is not.
_INITIAL_LOSS_SCALE = 2.0**15
_LOSS_SCALE_GROWTH_STEPS = 2000

_Structure = TypeVar("_Structure")  # A structure of tensors.
_Iterator: TypeAlias = Iterator[objectives.Tensors]
# The dense gradients by variable, and the outcome.
_GradientsAndOutcome: TypeAlias = tuple[
    dict[str, tf.Tensor], objectives.Outcome
]


# A tuple, because compiled functions return it.
class StepResult(NamedTuple):
    """The result of a training step: tensors, the same on every replica.

    Attributes:
        losses: `[]` float32 by name; their sum is the loss.
        metrics: by name a sum and a weight, each `[]` float32.
        gradient_norm: `[]` float32, before clipping; 0 if it is not finite.
        learning_rate: `[]` float32.
        skipped_steps: `[]` int64, 1 if the gradient was not finite, so that no
            weight changed, else 0.
        first_bad_step: `[]` int64, the step if its loss was not finite, or,
            except in float16, its gradient; else -1.
        input_seconds: `[]` float64, the time spent waiting for the batch; None
            if it is not measured.
    """

    losses: dict[str, tf.Tensor]
    metrics: dict[str, tuple[tf.Tensor, tf.Tensor]]
    gradient_norm: tf.Tensor
    learning_rate: tf.Tensor
    skipped_steps: tf.Tensor
    first_bad_step: tf.Tensor
    input_seconds: tf.Tensor | None


class LossScale:
    """The dynamic loss scale of float16 gradients; 1 for other precisions.

    Args:
        active: whether to scale.
    """

    def __init__(self, *, active: bool):
        self.active = active
        self._initial = _INITIAL_LOSS_SCALE if active else 1.0
        self.scale = tf.Variable(self._initial, trainable=False)
        self.finite_steps = tf.Variable(0, dtype=tf.int64, trainable=False)

    def reset(self) -> None:
        """Sets the initial scale of a run."""
        self.scale.assign(self._initial)
        self.finite_steps.assign(0)

    def state(self) -> dict[str, float]:
        """Returns the state to save; empty if not active."""
        if not self.active:
            return {}
        return {
            "loss_scale": float(self.scale.numpy()),
            "finite_steps": int(self.finite_steps.numpy()),
        }

    def restore(self, state: Mapping[str, float]) -> None:
        """Restores the state of an earlier run, if both runs scale."""
        if not self.active or not state:
            return
        self.scale.assign(state["loss_scale"])
        self.finite_steps.assign(int(state["finite_steps"]))

    def update(self, finite: tf.Tensor) -> None:
        """Adapts the scale after a step, in cross-replica context."""
        if not self.active:
            return
        none = tf.zeros_like(self.finite_steps)
        finite_steps = tf.where(finite, self.finite_steps + 1, none)
        grow = finite_steps >= _LOSS_SCALE_GROWTH_STEPS
        factor = tf.where(finite, tf.where(grow, 2.0, 1.0), 0.5)
        self.scale.assign(tf.maximum(self.scale * factor, 1.0))
        self.finite_steps.assign(tf.where(grow, none, finite_steps))


class Trainer:
    """The state of training, and its steps, compiled for a strategy.

    Construct it in the strategy's scope.

    Args:
        strategy: holds the variables.
        objective: the model and its losses.
        optimizer: the trainable weights and their moments.
        scales_loss: whether to scale the loss, for float16.
        clip_norm: the norm to which gradients are clipped; 0 for no clipping.
            Source: run_pretraining.py and optimization.py of the release.
        mode: how the forward and backward pass is executed.
        times_input: whether to measure the wait for each batch, which
            TensorFlow's op determinism forbids.

    Attributes:
        strategy, objective, optimizer, mode: those given.
        loss_scale: for float16.
    """

    def __init__(  # noqa: PLR0913 - all but three have defaults
        self,
        strategy: tf.distribute.Strategy,
        objective: objectives.Objective,
        optimizer: optimization.AdamWeightDecayOptimizer,
        *,
        scales_loss: bool = False,
        clip_norm: float = 1.0,
        mode: compilation.ExecutionMode = compilation.ExecutionMode.FUSED,
        times_input: bool = True,
    ):
        self.strategy = strategy
        self.objective, self.optimizer = objective, optimizer
        self.loss_scale = LossScale(active=scales_loss)
        self.mode = mode
        self._clip_norm, self._times_input = clip_norm, times_input
        self._is_compiled = False
        # AutoGraph is switched off for the reason in `modeling.compilation`.
        self._compiled_step = tf.function(self._step, autograph=False)
        # It computes neither the sum over replicas nor the update. It is a
        # `tf.function` in all modes: `sum_over_parts` calls it twice, and it is
        # traced once.
        self._compiled_gradients = mode.compiled(self._gradients)

    def reset(self) -> None:
        """Sets the moments and the loss scale of a new run."""
        self.optimizer.reset()
        self.loss_scale.reset()

    def run(
        self,
        iterator: _Iterator,
        step: int,
        learning_rate: np.ndarray | np.floating,
        *,
        seed: int,
        num_accumulation_steps: int = 1,
    ) -> StepResult:
        """Runs a step on the next batch.

        Args:
            iterator: over a distributed training dataset.
            step: its number, from 0.
            learning_rate: `[]` float32.
            seed: of the run; dropout depends on it, the step and the replica.
            num_accumulation_steps: micro-batches per update, which must divide
                the rows of a replica.
        """
        if not self._is_compiled:
            logging.info(
                "Compiling the first step (execution mode %s), which takes up "
                "to minutes for a large model.",
                self.mode,
            )
        start = time.monotonic()
        result = self._compiled_step(
            iterator,
            tf.constant(step, tf.int64),
            tf.constant(learning_rate),
            tf.constant(devices.seed_words(seed)),
            num_accumulation_steps,
        )
        if not self._is_compiled:
            seconds = time.monotonic() - start
            logging.info("The first step took %.1f s.", seconds)
            self._is_compiled = True
        return result

    def _step(
        self,
        iterator: _Iterator,
        step: tf.Tensor,
        learning_rate: tf.Tensor,
        seed: tf.Tensor,
        num_parts: int,
    ) -> StepResult:
        batch, input_seconds = (
            _timed_next(iterator)
            if self._times_input
            else (next(iterator), None)
        )
        # The number is no argument: TPUStrategy converts those to tensors.
        replica_step = functools.partial(
            self._replica_step, num_parts=num_parts
        )
        # Otherwise, on one core, the step runs before the time is measured.
        with tf.control_dependencies(
            [] if input_seconds is None else [input_seconds]
        ):
            outcome, norm = _first_replica(
                self.strategy,
                self.strategy.run(
                    replica_step, args=(batch, step, learning_rate, seed)
                ),
            )
        finite = tf.math.is_finite(norm)
        self.loss_scale.update(finite)
        bad = ~tf.math.is_finite(tf.add_n(list(outcome.losses.values())))
        if not self.loss_scale.active:
            bad = bad | ~finite
        return StepResult(
            losses=outcome.losses,
            metrics=outcome.metrics,
            gradient_norm=tf.where(finite, norm, 0.0),
            learning_rate=learning_rate,
            skipped_steps=tf.cast(~finite, tf.int64),
            first_bad_step=tf.where(bad, step, -1),
            input_seconds=input_seconds,
        )

    def _replica_step(
        self,
        features: objectives.Tensors,
        step: tf.Tensor,
        learning_rate: tf.Tensor,
        seed: tf.Tensor,
        *,
        num_parts: int,
    ) -> tuple[objectives.Outcome, tf.Tensor]:
        """Makes a step on the rows of a replica.

        Returns:
            The outcome of the global batch, and the norm of its gradient before
            clipping: the same on every replica.
        """
        context = tf.distribute.get_replica_context()
        denominators = _sum_over_replicas(
            context, self.objective.denominators(features)
        )
        seed = devices.dropout_seed(
            seed, step, context.replica_id_in_sync_group
        )
        scale = tf.convert_to_tensor(self.loss_scale.scale)

        def part(index: tf.Tensor) -> _GradientsAndOutcome:
            if num_parts == 1:
                return self._compiled_gradients(
                    features, denominators, seed, scale
                )
            return self._compiled_gradients(
                part_of(features, index, num_parts),
                denominators,
                devices.dropout_seed(seed, index),
                scale,
            )

        gradients, outcome = sum_over_parts(part, num_parts)
        if self.loss_scale.active:
            gradients = {name: x / scale for name, x in gradients.items()}
        summed = _sum_over_replicas(context, list(gradients.values()))
        factor, norm = optimization.clipping_factor(summed, self._clip_norm)
        self.optimizer.apply_gradients(
            dict(zip(gradients, summed, strict=True)),
            learning_rate=learning_rate,
            step=step,
            factor=factor,
            # A gradient that is not finite changes nothing.
            only_if=tf.math.is_finite(norm),
        )
        return _sum_over_replicas(context, outcome), norm

    def _gradients(
        self,
        features: objectives.Tensors,
        denominators: objectives.Tensors,
        seed: tf.Tensor,
        scale: tf.Tensor,
    ) -> _GradientsAndOutcome:
        """Runs the forward and backward pass over some rows of a replica.

        Returns:
            The scaled dense gradients by the names of their variables, which
            omits variables without one; and the outcome of the rows.
        """
        variables = self.optimizer.variables
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(list(variables.values()))
            outcome = self.objective.outcome(features, denominators, seed)
            total = tf.add_n(list(outcome.losses.values())) * scale
        gradients = tape.gradient(total, list(variables.values()))
        dense = {
            name: tf.convert_to_tensor(gradient)
            for name, gradient in zip(variables, gradients, strict=True)
            if gradient is not None
        }
        return dense, outcome


def sum_over_parts(
    part: Callable[[tf.Tensor], _Structure], num_parts: int
) -> _Structure:
    """Sums the gradients and losses of micro-batches.

    The micro-batches of a replica run in turn, so that only one of them needs
    memory for activations. Their losses are divided by the denominators of the
    global batch, so that the sums are the losses and gradients of the batch.

    Args:
        part: takes the number of a micro-batch, `[]` int32 from 0; returns a
            structure of tensors.
        num_parts: the number of micro-batches.

    Returns:
        The sums of the structures.
    """
    first = part(tf.constant(0))
    if num_parts == 1:
        return first
    # Otherwise TensorFlow may start the next forward pass while the activations
    # of this one are still in memory.
    with tf.control_dependencies(tf.nest.flatten(first)):
        start = tf.constant(1)

    def add_part(
        index: tf.Tensor, total: _Structure
    ) -> tuple[tf.Tensor, _Structure]:
        return index + 1, tf.nest.map_structure(tf.add, total, part(index))

    _, total = tf.while_loop(
        lambda index, _: index < num_parts,
        add_part,
        (start, first),
        parallel_iterations=1,
    )
    return total


def part_of(
    features: Mapping[str, tf.Tensor], index: tf.Tensor, num_parts: int
) -> dict[str, tf.Tensor]:
    """Returns a micro-batch of a batch.

    Args:
        features: `[B, ...]` each.
        index: `[]` int32, the number of the micro-batch.
        num_parts: the number of micro-batches.

    Returns:
        `[B / num_parts, ...]` each; B is a multiple of `num_parts`.
    """

    def rows_of(value: tf.Tensor) -> tf.Tensor:
        num_rows = value.shape[0]
        if num_rows is None:  # Packed rows.
            size = tf.shape(value)[0] // num_parts
            return value[index * size : (index + 1) * size]
        # XLA does not know the size of a slice `[start:end]`.
        size = num_rows // num_parts
        start = [index * size, *[0] * (value.shape.rank - 1)]
        return tf.slice(value, start, [size, *value.shape[1:]])

    return {name: rows_of(value) for name, value in features.items()}


class Evaluator:
    """Evaluation steps compiled for a distribution strategy.

    Args:
        strategy: holds the variables.
        objective: the model, its losses and metrics.
        mode: how the forward pass is executed.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        objective: objectives.Objective,
        mode: compilation.ExecutionMode = compilation.ExecutionMode.PLAIN,
    ):
        self.strategy = strategy
        self._objective = objective
        self._compiled_step = tf.function(self._step, autograph=False)
        self._compiled_outcome = mode.compiled(self._outcome)

    def run(self, batch: objectives.Tensors) -> objectives.Outcome:
        """Returns the losses and metrics of one batch."""
        return self._compiled_step(batch)

    def average(
        self, batches: Iterable[objectives.Tensors]
    ) -> dict[str, float]:
        """Averages losses and metrics over batches.

        Returns:
            `loss`, the mean of the losses of the batches, as released; and each
            metric, a weighted mean over all batches.
        """
        losses = []
        sums: dict[str, np.ndarray] = {}
        for batch in batches:
            outcome = self.run(batch)
            losses.append(sum(float(x) for x in outcome.losses.values()))
            for name, pair in outcome.metrics.items():
                total = sums.setdefault(name, np.zeros(2))
                total += [float(part) for part in pair]
        return {
            "loss": float(np.mean(losses)),
            **{
                name: float(total / weight if weight else 0.0)
                for name, (total, weight) in sums.items()
            },
        }

    def _step(self, batch: objectives.Tensors) -> objectives.Outcome:
        return _first_replica(
            self.strategy, self.strategy.run(self._replica_step, args=(batch,))
        )

    def _replica_step(self, features: objectives.Tensors) -> objectives.Outcome:
        context = tf.distribute.get_replica_context()
        denominators = _sum_over_replicas(
            context, self._objective.denominators(features)
        )
        outcome = self._compiled_outcome(features, denominators)
        return _sum_over_replicas(context, outcome)

    def _outcome(
        self, features: objectives.Tensors, denominators: objectives.Tensors
    ) -> objectives.Outcome:
        return self._objective.outcome(features, denominators, None)


def _sum_over_replicas(
    context: tf.distribute.ReplicaContext, values: _Structure
) -> _Structure:
    """Sums a structure of tensors over the replicas in one all-reduce."""
    if context.num_replicas_in_sync == 1 or not tf.nest.flatten(values):
        return values
    return context.all_reduce(tf.distribute.ReduceOp.SUM, values)


def _first_replica(
    strategy: tf.distribute.Strategy, values: _Structure
) -> _Structure:
    """Returns the first replica's values, which all replicas share."""
    return tf.nest.map_structure(
        lambda value: strategy.experimental_local_results(value)[0], values
    )


def _timed_next(iterator: _Iterator) -> tuple[objectives.Tensors, tf.Tensor]:
    """Returns the next batch and the seconds spent waiting for it.

    On an accelerator the wait may overlap with the previous step: it is an
    upper bound on the idle time of devices.
    """
    start = tf.timestamp()
    with tf.control_dependencies([start]):
        batch = next(iterator)
    with tf.control_dependencies(
        tf.nest.flatten(batch, expand_composites=True)
    ):
        return batch, tf.timestamp() - start
