"""This project as a contender: its training step, predictor and tokenizers."""

import functools
import pathlib
import re
import tempfile

import numpy as np

from benchmarks import contenders
from files import lines
from modeling import config as config_lib
from modeling import heads
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

_NUM_LABELS = 2
_TEXTS_PER_CALL = 2000  # Of the tokenizer in the graph.


def prepare(job: contenders.Job):
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
    devices.set_precision(job.precision)
    devices.set_seed(1)
    strategy = devices.make_strategy(devices.DeviceOptions())
    config = config_lib.BertConfig(**job.sizes)
    with strategy.scope():
        if job.kind == "pretraining":
            model = heads.BertForPreTraining(config)
            objective = objectives.Pretraining(model, "mlm_nsp")
        else:
            model = heads.BertForSequenceClassification(
                config, num_labels=_NUM_LABELS
            )
            objective = objectives.Classification(
                model, objectives.SINGLE_LABEL
            )
    if job.kind == "prediction":
        return _prediction(strategy, objective, job)
    return _training(strategy, objective, job)


def memory_bytes(field: str) -> int:
    """Reads the memory of this process: VmRSS now, VmHWM at its peak.

    Not `ru_maxrss`, which begins with the memory of the parent.
    """
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) * 1024


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
    batch = {k: tf.constant(v) for k, v in training_rows(job).items()}
    batches = tf.data.Dataset.from_tensors(batch).repeat()
    iterator = iter(strategy.experimental_distribute_dataset(batches))

    def step():
        result = trainer.run(
            iterator, 0, 1, num_accumulation_steps=job.num_parts
        )
        float(result["gradient_norm"])

    return step


def training_rows(job: contenders.Job) -> dict[str, np.ndarray]:
    """Makes a batch of random words without padding.

    Returns:
        By feature: `[B, T]`, `[B, P]` or `[B, 1]` int32; weights float32.
    """
    rng = np.random.default_rng(1)
    shape = (job.batch_size, job.max_seq_length)
    words = job.sizes["vocab_size"]
    rows = {
        "input_ids": rng.integers(1, words, shape),
        "input_mask": np.ones(shape),
        "segment_ids": np.arange(shape[1]) * np.ones(shape) > shape[1] // 2,
    }
    if job.kind == "pretraining":
        shape = (job.batch_size, job.max_predictions_per_seq)
        rows |= {
            "masked_lm_positions": rng.integers(1, job.max_seq_length, shape),
            "masked_lm_ids": rng.integers(1, words, shape),
            "next_sentence_labels": rng.integers(0, 2, (shape[0], 1)),
        }
    else:
        rows["label_ids"] = rng.integers(0, _NUM_LABELS, (shape[0], 1))
    rows = {name: values.astype(np.int32) for name, values in rows.items()}
    if job.kind == "pretraining":
        rows["masked_lm_weights"] = np.ones(shape, np.float32)
    return rows


def _prediction(strategy, objective, job):
    import tensorflow as tf

    features = records.classification_features(job.max_seq_length)
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "texts.tfrecord")
        with tf.io.TFRecordWriter(path) as writer:
            for length in job.lengths:
                writer.write(_text(length, job, features))
        files = record_files.RecordFiles([path])
        serialized = files.read(range(len(files)))
    source = input_pipeline.RecordSource(
        files=_InMemory(serialized),
        features=features,
        vocab_size=job.sizes["vocab_size"],
        length_step=input_pipeline.TRAINING_LENGTH_STEP,
    )
    predictor = prediction.Predictor(strategy, objective)
    order = np.array(job.order())
    if job.by_length:
        source, order = prediction.longest_first(source)

    def predict():
        predictor.predict(source, batch_size=job.batch_size, order=order)

    return predict


class _InMemory:
    """Records as `record_files.RecordFiles` gives them, without the files."""

    def __init__(self, serialized: list[bytes]):
        self._serialized = serialized

    def __len__(self) -> int:
        return len(self._serialized)

    def read(self, indices) -> list[bytes]:
        return [self._serialized[index] for index in indices]


def _text(length, job, features) -> bytes:
    def padded(value):
        return [value] * length + [0] * (job.max_seq_length - length)

    return records.serialize(
        {
            "input_ids": padded(2),
            "input_mask": padded(1),
            "segment_ids": padded(0),
            "label_ids": [0],
            "is_real_example": [1],
        },
        features,
    )


def _tokenization(job):
    from serving import graph_tokenizer
    from vocab import word_memory

    texts = list(lines.read_lines(job.text_file))
    if job.kind == "tokenization":

        def encode() -> float:
            # A new one at each turn: its memory would know all words.
            memory = word_memory.WordMemory(job.vocab_file)
            return contenders.processor_seconds(lambda: memory.encode(texts))

        return encode
    import tensorflow as tf

    tokenize = graph_tokenizer.GraphTokenizer(job.vocab_file).tokenize
    batches = [
        tf.constant(texts[start : start + _TEXTS_PER_CALL])
        for start in range(0, len(texts), _TEXTS_PER_CALL)
    ]
    return functools.partial(
        contenders.processor_seconds,
        lambda: [tokenize(batch) for batch in batches],
    )


if __name__ == "__main__":
    contenders.serve(prepare)
