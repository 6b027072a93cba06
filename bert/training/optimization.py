"""The original's learning-rate schedule and its Adam with weight decay."""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from modeling import compilation


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
    """A linear warm-up and a linear decay.

    Source: optimization.py of the release; Devlin et al. 2019, App. A.2.

    Attributes:
        init_lr: the peak rate.
        num_train_steps: the step from which the rate is 0.
        num_warmup_steps: the steps of the warm-up; 0 for none.
        kind: "release" starts the decay at step 0, so that the rate drops from
            `init_lr` to `init_lr * (1 - warmup / total)` at the end of the
            warm-up; "continuous" starts it at the end of the warm-up.
    """

    init_lr: float
    num_train_steps: int
    num_warmup_steps: int = 0
    kind: str = "release"

    def summary(self) -> str:
        """Describes the rates of a run in words."""
        warmup, total = self.num_warmup_steps, self.num_train_steps
        rise = f"0 to {self.init_lr:.3g} over {warmup:,} steps"
        if warmup >= total:
            return f"{rise}, of which the run makes {total:,}"
        first = float(self.learning_rate(warmup))
        fall = f"{first:.3g} falling to 0 at step {total:,}"
        return f"{rise}, then {fall}" if warmup else fall

    def learning_rate(self, step: np.ndarray | int) -> np.ndarray:
        """Computes the rates of steps, counted from 0.

        As released: with a warm-up rate(0) is 0, and rate(warmup) is below the
        peak (google-research/bert#193).

        >>> steps = np.array([0, 1, 2, 5, 10])
        >>> schedule = Schedule(
        ...     init_lr=1.0, num_train_steps=10, num_warmup_steps=2
        ... )
        >>> schedule.learning_rate(steps).astype(float).round(4).tolist()
        [0.0, 0.5, 0.8, 0.5, 0.0]
        >>> schedule = dataclasses.replace(schedule, kind="continuous")
        >>> schedule.learning_rate(steps).astype(float).round(4).tolist()
        [0.0, 0.5, 1.0, 0.625, 0.0]

        Args:
            step: `[...]` integer.

        Returns:
            `[...]` float32. As in a graph of TensorFlow, constant divisors are
            inverted first.
        """
        float32 = np.float32
        one, step = float32(1), np.asarray(step, float32)
        total, warmup = map(
            float32, (self.num_train_steps, self.num_warmup_steps)
        )
        peak = float32(self.init_lr)
        if self.kind == "release":
            share = np.minimum(step, total) * (one / total)
            decayed = peak * (one - share)
        else:
            slope = peak * (one / np.maximum(total - warmup, one))
            decayed = slope * np.maximum(total - step, 0)
        if not self.num_warmup_steps:
            return decayed
        return np.where(step < warmup, peak * (step * (one / warmup)), decayed)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdamOptions:
    """Hyper-parameters of `AdamWeightDecayOptimizer`.

    Source: create_optimizer of the release.

    Attributes:
        exclude_from_weight_decay: regular expressions to search in the full
            name of a variable; case-sensitive.
        bias_correction: divide the moments by `1 - beta ** t` (Kingma and Ba
            2015). As released: off (google-research/bert#153).
        layer_adaptation: LAMB (You et al. 2020, algorithm 2): the update of
            each variable is scaled to the norm of its weights, except for
            variables without weight decay, as in its authors' experiments.
    """

    weight_decay_rate: float = 0.01
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-6
    exclude_from_weight_decay: tuple[str, ...] = (
        "LayerNorm",
        "layer_norm",
        "bias",
    )
    bias_correction: bool = False
    layer_adaptation: bool = False


class AdamWeightDecayOptimizer:
    """Adam with decoupled weight decay.

    The update is `lr * (m / (sqrt(v) + epsilon) + decay * weight)`; both
    moments start at 0. With layer adaptation (LAMB) the factor of `lr` is first
    scaled to the norm of the weight. Construct and call it inside the scope of
    the distribution strategy that created the variables.

    Args:
        variables: trainable variables by their release names. The slots of all
            are created at once.
        options: see `AdamOptions`.
        mode: in `XLA` one compiled function updates all variables, in `FUSED`
            one for each variable.

    Attributes:
        options: those given.
    """

    def __init__(
        self,
        variables: Mapping[str, tf.Variable],
        options: AdamOptions | None = None,
        mode: compilation.ExecutionMode = compilation.ExecutionMode.FUSED,
    ):
        self.variables = dict(variables)
        self.options = options or AdamOptions()
        self._mode = mode
        self._moments = {
            name: (_zeros_like(variable), _zeros_like(variable))
            for name, variable in self.variables.items()
        }

    def reset(self) -> None:
        """Sets the moments back to 0."""
        for slot in self.slots().values():
            slot.assign(tf.zeros(slot.shape, slot.dtype))

    def slots(self) -> dict[str, tf.Variable]:
        """Maps `<variable>/adam_m` and `<variable>/adam_v` to the moments."""
        slots = {}
        for name, (m, v) in self._moments.items():
            slots[f"{name}/adam_m"] = m
            slots[f"{name}/adam_v"] = v
        return slots

    def decays(self, name: str) -> bool:
        """Returns whether weight decay and layer adaptation apply to it."""
        return not any(
            re.search(pattern, name)
            for pattern in self.options.exclude_from_weight_decay
        )

    def apply_gradients(
        self,
        gradients: Mapping[str, tf.Tensor],
        *,
        learning_rate: tf.Tensor,
        step: tf.Tensor,
        factor: tf.Tensor,
        only_if: tf.Tensor,
    ) -> None:
        """Updates the variables, in replica context.

        Args:
            gradients: by the names of their variables, already summed over the
                replicas. As released: a variable without a gradient and its
                slots stay unchanged, without decay.
            learning_rate: `[]` float32.
            step: `[]` int64, counted from 0; only bias correction uses it.
            factor: `[]` float32, of all gradients; see `clipping_factor`.
            only_if: `[]` bool; if False, nothing changes.
        """
        rates = (learning_rate, factor, *self._corrections(step))
        names = list(gradients)
        # Every compiled function is a launch, which a GPU waits for. On a CPU
        # one function for all variables is as fast and compiles in three times
        # the time, because variables of one shape no longer share it.
        as_one = self._mode is compilation.ExecutionMode.XLA
        is_compiled = self._mode is not compilation.ExecutionMode.PLAIN
        update = _compiled_update if is_compiled else _update

        def apply() -> tf.Tensor:
            for group in [names] if as_one else [[name] for name in names]:
                update(
                    # The handles of this replica: TensorFlow 2.21 reads the
                    # wrong variables if a compiled function has those of two
                    # devices as arguments.
                    [self._handles(name) for name in group],
                    [gradients[name] for name in group],
                    rates,
                    options=self.options,
                    decays=tuple(map(self.decays, group)),
                )
            return tf.constant(True)

        tf.cond(only_if, apply, lambda: tf.constant(False))

    def _handles(self, name: str) -> list[tf.Tensor]:
        return [x.handle for x in (self.variables[name], *self._moments[name])]

    def _corrections(self, step: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Returns the divisors of the two moments."""
        options = self.options
        if not options.bias_correction:
            return tf.constant(1.0), tf.constant(1.0)
        t = tf.cast(step + 1, tf.float32)
        # 1 - beta ** t without the cancellation of float32.
        return tuple(
            -tf.math.expm1(t * math.log(beta)) if beta else tf.constant(1.0)
            for beta in (options.beta_1, options.beta_2)
        )


def _update(
    handles: Sequence[Sequence[tf.Tensor]],
    gradients: Sequence[tf.Tensor],
    rates: tuple[tf.Tensor, ...],
    *,
    options: AdamOptions,
    decays: tuple[bool, ...],
) -> None:
    """Updates weights and their moments.

    Args:
        handles: of each weight and its two moments, all float32.
        gradients: of the weights.
        rates: the learning rate, the factor of the gradients, and the divisors
            of the moments, each `[]` float32.
        options: the hyper-parameters.
        decays: whether weight decay and layer adaptation apply to each weight.
    """
    for resources, gradient, decay in zip(
        handles, gradients, decays, strict=True
    ):
        before = [
            tf.ensure_shape(
                tf.raw_ops.ReadVariableOp(resource=resource, dtype=tf.float32),
                gradient.shape,
            )
            for resource in resources
        ]
        after = _adam(before, gradient, rates, options, decay)
        for resource, value in zip(resources, after, strict=True):
            tf.raw_ops.AssignVariableOp(resource=resource, value=value)


# One pass over memory instead of ten: an update of 23 million weights takes
# 24 ms when compiled and 60 ms otherwise. XLA writes the results in place,
# which saves three copies of the largest variable.
_compiled_update = tf.function(_update, autograph=False, jit_compile=True)


def _adam(
    before: Sequence[tf.Tensor],
    gradient: tf.Tensor,
    rates: tuple[tf.Tensor, ...],
    options: AdamOptions,
    decay: bool,
) -> tuple[tf.Tensor, ...]:
    """Returns a weight and its moments after a step: float32, of one shape."""
    weight, m, v = before
    learning_rate, factor, correction_1, correction_2 = rates
    gradient *= factor
    # As released: 1 - beta is computed in double precision. In float32,
    # 1 - 0.999 has a relative error of 1.3e-5.
    m = options.beta_1 * m + (1.0 - options.beta_1) * gradient
    v = options.beta_2 * v + (1.0 - options.beta_2) * tf.square(gradient)
    update = (m / correction_1) / (
        tf.sqrt(v / correction_2) + options.epsilon
    ) + (options.weight_decay_rate if decay else 0.0) * weight
    if options.layer_adaptation and decay:
        update *= _trust_ratio(weight, update)
    return weight - learning_rate * update, m, v


def _trust_ratio(weight: tf.Tensor, update: tf.Tensor) -> tf.Tensor:
    """Divides the norm of a weight by that of its update; 1 if either is 0.

    Source: You et al. 2020, "Large Batch Optimization for Deep Learning",
    algorithm 2, with the identity for phi.
    """
    weight_norm, update_norm = tf.norm(weight), tf.norm(update)
    both = (weight_norm > 0) & (update_norm > 0)
    return tf.where(both, tf.math.divide_no_nan(weight_norm, update_norm), 1.0)


def clipping_factor(
    gradients: Sequence[tf.Tensor], clip_norm: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes the factor that limits the global norm to `clip_norm`, if any.

    Differs: the release computes the norm of a sparse gradient before it sums
    the rows of repeated ids; here every gradient is dense, so the norm is the
    true one.

    Returns:
        The factor, at most 1, and the norm before clipping: `[]` float32.
    """
    norm = tf.linalg.global_norm(gradients)
    if not clip_norm:
        return tf.constant(1.0), norm
    return clip_norm / tf.maximum(norm, clip_norm), norm


def _zeros_like(variable: tf.Variable) -> tf.Variable:
    with tf.distribute.get_strategy().extended.colocate_vars_with(variable):
        return tf.Variable(
            tf.zeros(variable.shape, tf.float32), trainable=False
        )
