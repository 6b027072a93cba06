"""Contenders of this project, and the matrix products that they need."""

import functools
import itertools
import os
import tempfile

import keras
import numpy as np

from benchmarks import contenders
from bert.files import lines
from bert.records import reading, schema, tfrecords
from bert.tasks import task
from bert.tasks.classification import objective as classification_objective
from bert.tasks.pretraining import objective as pretraining_objective
from bert.training import (
    checkpointing,
    devices,
    optimization,
    prediction,
    steps,
)
from bert.training import options as training_options
from modeling import config as config_lib
from modeling import heads


def this_project(
    job: contenders.Job, *, jit_compile: str = training_options.AUTO
):
    """Builds a model with random weights and its input, or a tokenizer."""
    if job.kind == "tokenization":
        return _tokenization(job)
    if job.kind == "prediction":
        return _prediction(job, jit_compile)
    trainer, iterator = training(job, jit_compile=jit_compile)

    def step():
        result = trainer.run(iterator, 0, np.float32(1e-4), seed=1)
        float(result.gradient_norm)

    return step


def xla_steps(job: contenders.Job):
    """Builds `this_project` with steps that XLA compiles completely."""
    return this_project(job, jit_compile="true")


def training(
    job: contenders.Job,
    *,
    jit_compile: str = training_options.AUTO,
):
    """Returns a trainer of a model with random weights, and its batches."""
    import tensorflow as tf

    strategy, objective = _start(job)
    objective.model.bert.encoder.recompute = job.recompute
    mode = devices.execution_mode(strategy, jit_compile, num_train_steps=1)
    with strategy.scope():
        trainer = steps.Trainer(
            strategy,
            objective,
            optimization.AdamWeightDecayOptimizer(
                checkpointing.weights(objective.model), mode=mode
            ),
            mode=mode,
        )
    batch = {k: tf.constant(v) for k, v in job.rows().items()}
    batches = tf.data.Dataset.from_tensors(batch).repeat()
    return trainer, iter(strategy.experimental_distribute_dataset(batches))


def _start(job):
    """Returns the strategy and a model with its losses."""
    keras.config.set_dtype_policy(job.precision)
    devices.set_seed(1)
    strategy = devices.make_strategy(devices.DeviceOptions())
    config = config_lib.BertConfig(**job.sizes)
    with strategy.scope():
        if job.kind == "pretraining":
            return strategy, pretraining_objective.PretrainingObjective(
                heads.BertForPreTraining(config), "mlm_nsp"
            )
        model = heads.BertForSequenceClassification(
            config, num_labels=contenders.NUM_LABELS
        )
        return strategy, classification_objective.ClassificationObjective(
            model, task.SINGLE_LABEL
        )


def _prediction(job, jit_compile):
    strategy, objective = _start(job)
    features = schema.labeled_features(job.max_seq_length)
    folder = tempfile.TemporaryDirectory()
    path = os.path.join(folder.name, "texts.tfrecord")
    texts = (_text(length, job.max_seq_length) for length in job.lengths)
    tfrecords.write_rows(path, texts, features)
    source: reading.RecordSource = reading.RecordSource(
        files=tfrecords.RecordFiles([path]),
        features=features,
        vocab_size=job.sizes["vocab_size"],
    )
    predictor = prediction.RecordPredictor(
        strategy, objective, devices.execution_mode(strategy, jit_compile)
    )

    def predict(_=folder):  # The folder exists as long as the function.
        predictor.predict(
            source, batch_size=job.batch_size, by_length=job.by_length
        )

    return predict


def _text(length, max_seq_length) -> dict[str, list[int]]:
    padding = [0] * (max_seq_length - length)
    names = ("input_ids", "input_mask", "segment_ids")
    rows = {name: [1] * length + padding for name in names}
    return {**rows, "label_ids": [0], "is_real_example": [1]}


def _tokenization(job):
    from vocab import word_memory

    texts = list(lines.read_lines(job.text_file))
    # A new one in each turn, because it caches words.
    return lambda: word_memory.WordMemory(job.vocab_file).encode(texts)


# [batch, rows, inner] x [batch, inner, columns], by these four sizes.
_Product = tuple[int, int, int, int]


def products_of(job: contenders.Job) -> list[_Product]:
    """Lists the products of a training step or of all prediction batches."""
    if job.kind == "prediction":
        # As short as the longest text of a batch allows.
        batches = [(len(batch), max(batch)) for batch in job.batches()]
        return [p for batch in batches for p in _forward(job, *batch)]
    forward = _forward(job, job.batch_size, job.max_seq_length)
    if job.kind == "pretraining":
        predictions = job.batch_size * job.max_predictions_per_seq
        width, words = job.sizes["hidden_size"], job.sizes["vocab_size"]
        forward.append((1, predictions, width, words))
    by_input = [(n, rows, out, inner) for n, rows, inner, out in forward]
    by_kernel = [(n, inner, rows, out) for n, rows, inner, out in forward]
    return [*forward, *by_input, *by_kernel]


def _forward(job: contenders.Job, num_rows: int, length: int) -> list[_Product]:
    """Lists the products of all layers of a forward pass."""
    width, inside, heads, num_layers = (
        job.sizes[name]
        for name in (
            "hidden_size",
            "intermediate_size",
            "num_attention_heads",
            "num_hidden_layers",
        )
    )
    # Classification uses the last layer's output only at [CLS].
    last = length if job.kind == "pretraining" else 1
    return [
        product
        for wanted in [length] * (num_layers - 1) + [last]
        for product in (
            (1, num_rows * length, width, 2 * width),
            (1, num_rows * wanted, width, width),
            (1, num_rows * wanted, width, width),
            (1, num_rows * wanted, width, inside),
            (1, num_rows * wanted, inside, width),
            (num_rows * heads, wanted, width // heads, length),
            (num_rows * heads, wanted, length, width // heads),
        )
    ]


def floor(job: contenders.Job):
    """Creates the operands of every product."""
    import tensorflow as tf

    dtype = tf.float32 if job.precision == "float32" else tf.bfloat16
    rng = np.random.default_rng(1)

    @functools.cache
    def operand(*shape):
        values = rng.normal(size=shape).astype(np.float32)
        return tf.cast(values[0] if shape[0] == 1 else values, dtype)

    work = [
        (operand(batch, rows, inner), operand(batch, inner, columns))
        for batch, rows, inner, columns in products_of(job)
    ]

    def multiply():
        list(itertools.starmap(tf.matmul, work))[-1].numpy()

    return multiply
