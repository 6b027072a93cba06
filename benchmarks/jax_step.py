r"""A compiled pre-training step of the same network on JAX.

  KERAS_BACKEND=jax python -m benchmarks.jax_step \
    --bert_config_file=modeling/configs/bert_base_uncased.json

`modeling/` runs on any Keras backend; training does not. This measures the body
of a JAX training loop: forward pass, backward pass and gradient descent without
moments, by `jax.jit` over Keras' `stateless_call`. It is intended for a GPU; on
a CPU use a small model.
"""

import dataclasses
import statistics
import time

from absl import logging

from benchmarks import contenders, speed
from commands import flags, program

_MEASUREMENT = flags.Heading("Measurement")
_GROUP = _MEASUREMENT
_LEARNING_RATE = 1e-3
_INPUTS = (
    *("input_ids", "input_mask", "segment_ids"),
    *("masked_lm_positions", "masked_lm_ids"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this program."""

    bert_config_file: str = _GROUP.required(
        "JSON file with the configuration of the model."
    )
    precision: str = _GROUP.flag(
        "mixed_bfloat16",
        "Data type of the arithmetic.",
        choices=("float32", "mixed_bfloat16"),
    )
    batch_size: int = flags.redeclare(speed.Options, "batch_size")
    max_seq_length: int = flags.redeclare(speed.Options, "max_seq_length")
    max_predictions_per_seq: int = flags.redeclare(
        speed.Options, "max_predictions_per_seq"
    )
    rounds: int = _GROUP.count(10, "Measured steps; the median is reported.")


def make_step(model):
    """Compiles `(weights, rows, seed) -> (weights, loss)`."""
    import jax
    import jax.numpy as jnp
    from keras import ops

    def loss_of(weights, rows, seed):
        outputs, _ = model.stateless_call(
            weights, [], **rows, dropout_seed=seed
        )
        pairs = outputs["next_sentence_logits"]  # [B, 2]
        return jnp.mean(outputs["masked_lm_losses"]) + jnp.mean(
            ops.logsumexp(pairs, axis=-1) - pairs[:, 0]
        )

    def step(weights, rows, seed):
        loss, gradients = jax.value_and_grad(loss_of)(weights, rows, seed)
        weights = [
            weight - _LEARNING_RATE * gradient
            for weight, gradient in zip(weights, gradients, strict=True)
        ]
        return weights, loss

    return jax.jit(step, donate_argnums=0)


def measure(options: Options) -> list[float]:
    """Returns the loss of each step; logs the median time.

    Raises:
        RuntimeError: Keras uses another backend.
    """
    import keras

    if keras.backend.backend() != "jax":
        raise RuntimeError(
            "This benchmark requires Keras on JAX; it runs on "
            f"{keras.backend.backend()}. Set KERAS_BACKEND=jax."
        )
    import jax
    import numpy as np

    from modeling import config as config_lib
    from modeling import heads

    keras.config.set_dtype_policy(options.precision)
    config = config_lib.BertConfig.from_json_file(options.bert_config_file)
    model = heads.BertForPreTraining(config)
    step = make_step(model)
    job = contenders.Job(
        kind="pretraining",
        sizes=config.to_dict(),
        batch_size=options.batch_size,
        max_seq_length=options.max_seq_length,
        max_predictions_per_seq=options.max_predictions_per_seq,
    )
    rows = {k: v for k, v in job.rows().items() if k in _INPUTS}
    weights = [variable.value for variable in model.trainable_variables]
    seconds, losses = [], []
    for number in range(options.rounds + 1):
        start = time.perf_counter()
        seed = np.array([1, number], np.int32)
        weights, loss = step(weights, rows, seed)
        losses.append(float(loss))
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds[1:])  # The first compiles.
    logging.info(
        "JAX %s on %s, %s: %.1f ms a step, %.0f tokens/s; compiled in %.1f s",
        jax.__version__,
        jax.devices()[0].device_kind,
        options.precision,
        median * 1e3,
        options.batch_size * options.max_seq_length / median,
        seconds[0],
    )
    return losses


def main(options: Options) -> None:
    """Runs the program with its flags."""
    try:
        import jax  # noqa: F401
    except ImportError:
        logging.info("Skipped: jax is not installed.")
        return
    measure(options)


if __name__ == "__main__":
    program.start(Options, main)
