"""The machine's own limit as a contender: a step's matrix products alone."""

import dataclasses
import time

import numpy as np

from benchmarks import contenders


@dataclasses.dataclass(frozen=True, kw_only=True)
class Product:
    """`count` products `[batch, rows, inner] x [batch, inner, columns]`."""

    batch: int
    rows: int
    inner: int
    columns: int
    count: int

    @property
    def operations(self) -> int:
        """Additions and multiplications of all of them."""
        return (
            2 * self.batch * self.rows * self.inner * self.columns * self.count
        )


def products_of(job: contenders.Job) -> list[Product]:
    """Lists the products of a training step, forward and back."""
    sizes = job.sizes
    width, inside = sizes["hidden_size"], sizes["intermediate_size"]
    layers, heads = sizes["num_hidden_layers"], sizes["num_attention_heads"]
    tokens, length = job.batch_size * job.max_seq_length, job.max_seq_length
    size, groups = width // heads, job.batch_size * heads
    dense = [(width, 3 * width), (width, width), (width, inside)]
    dense.append((inside, width))
    found = [
        product
        for inner, outer in dense
        for product in _with_gradients(1, (tokens, inner, outer), layers)
    ]
    for inner, outer in ((size, length), (length, size)):
        found += _with_gradients(groups, (length, inner, outer), layers)
    if job.kind == "pretraining":
        rows = job.batch_size * job.max_predictions_per_seq
        found += _with_gradients(1, (rows, width, sizes["vocab_size"]), 1)
    return found


def _with_gradients(batch, shape, count) -> list[Product]:
    rows, inner, columns = shape
    return [
        Product(batch=batch, rows=r, inner=i, columns=c, count=count)
        for r, i, c in (
            (rows, inner, columns),
            (rows, columns, inner),
            (inner, rows, columns),
        )
    ]


def prepare(job: contenders.Job):
    """Makes the operands of every product."""
    if job.kind == "prediction":
        raise ImportError("no limit is computed for texts of mixed length")
    import tensorflow as tf

    dtype = tf.float32 if job.precision == "float32" else tf.bfloat16
    rng = np.random.default_rng(1)
    multiply = tf.function(tf.matmul)

    def operand(*shape):
        return tf.cast(rng.normal(size=shape).astype(np.float32), dtype)

    work = [
        (
            operand(p.batch, p.rows, p.inner)[0 if p.batch == 1 else ...],
            operand(p.batch, p.inner, p.columns)[0 if p.batch == 1 else ...],
            p.count,
        )
        for p in products_of(job)
    ]

    def run() -> float:
        total = 0.0
        for left, right, count in work:
            start = time.perf_counter()
            multiply(left, right)
            total += count * (time.perf_counter() - start)
        return total

    return run


if __name__ == "__main__":
    contenders.serve(prepare)
