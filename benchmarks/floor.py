"""The matrix products of a job alone, as a lower bound of its time."""

import collections
import dataclasses
import time
from collections.abc import Iterator

import numpy as np

from benchmarks import contenders


@dataclasses.dataclass(frozen=True, kw_only=True)
class Product:
    """A product `[batch, rows, inner] x [batch, inner, columns]`."""

    batch: int
    rows: int
    inner: int
    columns: int

    def gradients(self) -> tuple["Product", "Product"]:
        """Returns the two products of the backward pass."""
        rows, inner, columns = self.rows, self.inner, self.columns
        return (
            dataclasses.replace(self, inner=columns, columns=inner),
            dataclasses.replace(self, rows=inner, inner=rows),
        )


def products_of(job: contenders.Job) -> collections.Counter[Product]:
    """Counts the products of a training step or of all prediction batches."""
    if job.kind == "prediction":
        # As short as the longest text of a batch allows.
        return sum(
            (
                collections.Counter(_encoder(job, len(batch), max(batch)))
                for batch in job.batches()
            ),
            collections.Counter(),
        )
    forward = [*_encoder(job, job.batch_size, job.max_seq_length)]
    if job.kind == "pretraining":
        forward.append(
            Product(
                batch=1,
                rows=job.batch_size * job.max_predictions_per_seq,
                inner=job.sizes["hidden_size"],
                columns=job.sizes["vocab_size"],
            )
        )
    backward = [each for product in forward for each in product.gradients()]
    return collections.Counter([*forward, *backward])


def _encoder(
    job: contenders.Job, num_rows: int, length: int
) -> Iterator[Product]:
    """Yields the forward products of all layers."""
    sizes = job.sizes
    width, inside = sizes["hidden_size"], sizes["intermediate_size"]
    heads = sizes["num_attention_heads"]
    dense = ((width, width), (width, inside), (inside, width))
    of_heads = ((width // heads, length), (length, width // heads))
    last = sizes["num_hidden_layers"] - 1
    for layer in range(last + 1):
        # Classification uses the last layer's output only at [CLS].
        wanted = 1 if job.kind != "pretraining" and layer == last else length
        projections = [(length, 2 * width), (wanted, width)]
        if wanted == length:
            projections = [(length, 3 * width)]
        for positions, columns in projections:
            yield Product(
                batch=1,
                rows=num_rows * positions,
                inner=width,
                columns=columns,
            )
        for inner, columns in dense:
            yield Product(
                batch=1, rows=num_rows * wanted, inner=inner, columns=columns
            )
        for inner, columns in of_heads:
            yield Product(
                batch=num_rows * heads,
                rows=wanted,
                inner=inner,
                columns=columns,
            )


def prepare(job: contenders.Job):
    """Creates the operands of every product."""
    import tensorflow as tf

    dtype = tf.float32 if job.precision == "float32" else tf.bfloat16
    rng = np.random.default_rng(1)

    def operand(*shape):
        values = rng.normal(size=shape).astype(np.float32)
        return tf.cast(values[0] if shape[0] == 1 else values, dtype)

    work = [
        (
            operand(product.batch, product.rows, product.inner),
            operand(product.batch, product.inner, product.columns),
            count,
        )
        for product, count in products_of(job).items()
    ]

    def run() -> float:
        total = 0.0
        for left, right, count in work:
            start = time.perf_counter()
            tf.matmul(left, right)
            total += count * (time.perf_counter() - start)
        return total

    return run
