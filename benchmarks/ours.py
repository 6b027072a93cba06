"""Contenders of this project, and the matrix products that they need.

The products of a job alone are a lower bound of its time.
"""

import collections
import functools
import itertools
import os
import pathlib
import re
import tempfile
import time
from collections.abc import Iterator
from typing import NamedTuple

import keras
import numpy as np

from benchmarks import contenders
from files import lines
from modeling import config as config_lib
from modeling import heads
from tasks import task
from training import (
    checkpointing,
    devices,
    input_pipeline,
    objectives,
    optimization,
    prediction,
    record_files,
    records,
    steps,
)

_TEXTS_PER_CALL = 2000  # Of the tokenizer in the graph.


def this_project(job: contenders.Job):
    """Builds a model with random weights, and random rows; or a tokenizer."""
    import tensorflow as tf

    tf.zeros([1]).numpy()  # The devices are set up by the first operation.
    before = memory_bytes("VmRSS")
    work = _work(job)
    if not job.of_memory:
        return work

    def peak() -> int:
        work()
        return memory_bytes("VmHWM") - before

    return peak


def _work(job):
    if job.kind.endswith("tokenization"):
        return _tokenization(job)
    keras.config.set_dtype_policy(job.precision)
    devices.set_seed(1)
    strategy = devices.make_strategy(devices.DeviceOptions())
    config = config_lib.BertConfig(**job.sizes)
    with strategy.scope():
        if job.kind == "pretraining":
            model = heads.BertForPreTraining(config)
            objective: objectives.Objective = objectives.Pretraining(
                model, "mlm_nsp"
            )
        elif job.kind == "span_extraction":
            objective = objectives.SpanExtraction(
                heads.BertForQuestionAnswering(config)
            )
        else:
            model = heads.BertForSequenceClassification(
                config, num_labels=contenders.NUM_LABELS
            )
            objective = objectives.Classification(model, task.SINGLE_LABEL)
    if job.kind == "prediction":
        return _prediction(strategy, objective, job)
    return _training(strategy, objective, job)


def memory_bytes(field: str) -> int:
    """Reads the memory of this process: VmRSS now, VmHWM at its peak.

    `ru_maxrss` is not used because it includes the memory of the parent.
    """
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    (found,) = re.findall(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)
    return int(found) * 1024


def _training(strategy, objective, job):
    import tensorflow as tf

    objective.model.bert.encoder.recompute = job.recompute
    with strategy.scope():
        state = steps.TrainState(
            objective=objective,
            optimizer=optimization.AdamWeightDecayOptimizer(
                checkpointing.weights(objective.model)
            ),
            schedule=optimization.Schedule(init_lr=1e-4, num_train_steps=10**6),
            loss_scale=steps.LossScale(active=False),
            seed=1,
        )
    trainer = steps.Trainer(strategy, state)
    batch = {k: tf.constant(v) for k, v in job.rows().items()}
    batches = tf.data.Dataset.from_tensors(batch).repeat()
    iterator = iter(strategy.experimental_distribute_dataset(batches))

    def step():
        result = trainer.run(
            iterator, 0, 1, num_accumulation_steps=job.num_parts
        )
        float(result["gradient_norm"])

    return step


def _prediction(strategy, objective, job):
    features = records.classification_features(job.max_seq_length)
    folder = tempfile.TemporaryDirectory()
    path = os.path.join(folder.name, "texts.tfrecord")
    texts = (_text(length, job.max_seq_length) for length in job.lengths)
    records.write_records(path, texts, features)
    source: input_pipeline.Source = input_pipeline.RecordSource(
        files=record_files.RecordFiles([path]),
        features=features,
        vocab_size=job.sizes["vocab_size"],
        length_step=input_pipeline.TRAINING_LENGTH_STEP,
    )
    predictor = prediction.Predictor(strategy, objective)

    def predict(_=folder):  # The folder exists as long as the function.
        predictor.predict(
            source, batch_size=job.batch_size, by_length=job.by_length
        )

    return predict


def _text(length, max_seq_length) -> dict[str, list[int]]:
    def padded(value):
        return [value] * length + [0] * (max_seq_length - length)

    return {
        "input_ids": padded(2),
        "input_mask": padded(1),
        "segment_ids": padded(0),
        "label_ids": [0],
        "is_real_example": [1],
    }


def _tokenization(job):
    from serving import graph_tokenizer
    from vocab import word_memory

    texts = list(lines.read_lines(job.text_file))
    if job.kind == "tokenization":

        def encode() -> float:
            # A new one in each turn, because it caches words.
            memory = word_memory.WordMemory(job.vocab_file)
            return contenders.processor_seconds(lambda: memory.encode(texts))

        return encode
    import tensorflow as tf

    tokenizer = graph_tokenizer.GraphTokenizer(job.vocab_file)
    batches = [
        tf.constant(texts[start : start + _TEXTS_PER_CALL])
        for start in range(0, len(texts), _TEXTS_PER_CALL)
    ]
    return functools.partial(
        contenders.processor_seconds,
        lambda: [tokenizer.tokenize(batch) for batch in batches],
    )


class Product(NamedTuple):
    """A product `[batch, rows, inner] x [batch, inner, columns]`."""

    batch: int
    rows: int
    inner: int
    columns: int

    def gradients(self) -> tuple["Product", "Product"]:
        """Returns the two products of the backward pass."""
        batch, rows, inner, columns = self
        return (
            Product(batch, rows, columns, inner),
            Product(batch, inner, rows, columns),
        )


def products_of(job: contenders.Job) -> collections.Counter[Product]:
    """Counts the products of a training step or of all prediction batches."""
    if job.kind == "prediction":
        # As short as the longest text of a batch allows.
        return collections.Counter(
            itertools.chain.from_iterable(
                _encoder(job, len(batch), max(batch)) for batch in job.batches()
            )
        )
    forward = [*_encoder(job, job.batch_size, job.max_seq_length)]
    if job.kind == "pretraining":
        predictions = job.batch_size * job.max_predictions_per_seq
        width, words = job.sizes["hidden_size"], job.sizes["vocab_size"]
        forward.append(Product(1, predictions, width, words))
    backward = [each for product in forward for each in product.gradients()]
    return collections.Counter([*forward, *backward])


def _encoder(
    job: contenders.Job, num_rows: int, length: int
) -> Iterator[Product]:
    """Yields the forward products of all layers."""
    sizes = job.sizes
    width, inside = sizes["hidden_size"], sizes["intermediate_size"]
    heads = sizes["num_attention_heads"]
    last = sizes["num_hidden_layers"] - 1
    for layer in range(last + 1):
        # Classification uses the last layer's output only at [CLS].
        wanted = 1 if job.kind != "pretraining" and layer == last else length
        if wanted == length:
            yield Product(1, num_rows * length, width, 3 * width)
        else:
            yield Product(1, num_rows * length, width, 2 * width)
            yield Product(1, num_rows * wanted, width, width)
        yield Product(1, num_rows * wanted, width, width)
        yield Product(1, num_rows * wanted, width, inside)
        yield Product(1, num_rows * wanted, inside, width)
        yield Product(num_rows * heads, wanted, width // heads, length)
        yield Product(num_rows * heads, wanted, length, width // heads)


def floor(job: contenders.Job):
    """Creates the operands of every product."""
    import tensorflow as tf

    dtype = tf.float32 if job.precision == "float32" else tf.bfloat16
    rng = np.random.default_rng(1)

    def operand(*shape):
        values = rng.normal(size=shape).astype(np.float32)
        return tf.cast(values[0] if shape[0] == 1 else values, dtype)

    work = [
        (operand(batch, rows, inner), operand(batch, inner, columns), count)
        for (batch, rows, inner, columns), count in products_of(job).items()
    ]

    def run() -> float:
        total = 0.0
        for left, right, count in work:
            start = time.perf_counter()
            tf.matmul(left, right)
            total += count * (time.perf_counter() - start)
        return total

    return run
