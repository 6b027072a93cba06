r"""A pre-training step of the same network on JAX, compiled as a whole.

  KERAS_BACKEND=jax python -m benchmarks.jax_step \
    --bert_config_file=modeling/configs/bert_base_uncased.json

`modeling/` runs on any Keras backend; training does not. This times what a
loop on JAX would repeat: forward, backward and a plain update of the weights
(gradient descent, no moments), by `jax.jit` over Keras' `stateless_call`. Meant
for a GPU; on a CPU give it a small model.
"""

import json
import pathlib
import statistics
import time

from absl import flags, logging

from commands import flag_groups, program

_LEARNING_RATE = 1e-3


@flag_groups.under(flag_groups.Group.MEASUREMENT)
def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of this benchmark."""
    flags.DEFINE_string(
        "bert_config_file", None, "The model's sizes.",
        required=True, flag_values=values)  # fmt: skip
    flags.DEFINE_enum(
        "precision", "mixed_bfloat16", ["float32", "mixed_bfloat16"],
        "Of the arithmetic.", flag_values=values)  # fmt: skip
    for name, default in (
        ("batch_size", 32),
        ("max_seq_length", 128),
        ("max_predictions_per_seq", 20),
        ("rounds", 10),
    ):
        flags.DEFINE_integer(
            name, default, "Of each step; rounds: steps, of which the median "
            "counts.", lower_bound=1, flag_values=values)  # fmt: skip


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


def rows_of(values: flags.FlagValues, vocab_size: int) -> dict:
    """Makes a batch of random words."""
    import numpy as np

    rng = np.random.default_rng(1)
    shape = (values.batch_size, values.max_seq_length)
    picked = (values.batch_size, values.max_predictions_per_seq)
    rows = {
        "input_ids": rng.integers(1, vocab_size, shape),
        "input_mask": np.ones(shape),
        "segment_ids": np.zeros(shape),
        "masked_lm_positions": rng.integers(1, shape[1], picked),
        "masked_lm_ids": rng.integers(1, vocab_size, picked),
    }
    return {name: value.astype(np.int32) for name, value in rows.items()}


def measure(values: flags.FlagValues) -> list[float]:
    """Returns the loss of each step; logs the median time.

    Raises:
        RuntimeError: Keras runs on another backend.
    """
    import keras

    if keras.backend.backend() != "jax":
        raise RuntimeError(
            "Keras must run on JAX here; it runs on "
            f"{keras.backend.backend()}. Set KERAS_BACKEND=jax."
        )
    import jax
    import numpy as np

    from modeling import config as config_lib
    from modeling import heads

    keras.config.set_dtype_policy(values.precision)
    sizes = json.loads(pathlib.Path(values.bert_config_file).read_text())
    config = config_lib.BertConfig(**sizes)
    model = heads.BertForPreTraining(config)
    step, rows = make_step(model), rows_of(values, config.vocab_size)
    weights = [variable.value for variable in model.trainable_variables]
    seconds, losses = [], []
    for number in range(values.rounds + 1):
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
        values.precision,
        median * 1e3,
        values.batch_size * values.max_seq_length / median,
        seconds[0],
    )
    return losses


def main(_: list[str]) -> None:
    """Measures what the flags say."""
    try:
        import jax  # noqa: F401
    except ImportError:
        logging.info("Left out: jax is not installed.")
        return
    measure(flags.FLAGS)


if __name__ == "__main__":
    program.start(define_flags, main)
