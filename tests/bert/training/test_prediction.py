"""Scores in file order, and hidden layers of ragged batches."""

from concurrent import futures

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert.records import reading, schema, tfrecords
from bert.tasks import task
from bert.tasks.classification import objective as classification_objective
from bert.training import prediction
from modeling import bert, checkpoints, compilation, heads
from modeling import config as config_lib
from tests.support import locations, programs, toy_config

_MAX_LENGTH = 32
_ROOT = locations.ROOT
_CONFIG = toy_config.config(num_hidden_layers=2, max_position_embeddings=64)


@pytest.mark.usefixtures("_bfloat16")
def test_kernels_are_cast_for_each_prediction():
    model = heads.BertForSequenceClassification(_CONFIG, num_labels=2)
    words = {"input_ids": tf.constant([[2, 5, 9, 3]])}

    def logits(rows):
        return {"logits": model(**rows)["logits"]}

    forward = prediction.ForwardPass(
        tf.distribute.get_strategy(),
        model,
        logits,
        compilation.ExecutionMode.PLAIN,
    )
    without_copies = tf.function(logits)
    changed = model.bert.encoder.stack[0].intermediate.dense.kernel
    for value in (changed.numpy(), tf.zeros(changed.shape)):
        changed.assign(value)
        forward.refresh()
        np.testing.assert_array_equal(
            forward.run(words)["logits"], without_copies(words)["logits"]
        )
    graph = forward.run.get_concrete_function(words).graph
    functions = graph.as_graph_def(add_shapes=True).library.function
    cast = [
        tf.TensorShape(node.attr["_output_shapes"].list.shape[0])
        for function in functions
        for node in function.node_def
        if node.op == "Cast" and node.attr["SrcT"].type == tf.float32
    ]
    assert cast  # Embeddings, biases.
    assert changed.shape not in cast, cast


@pytest.fixture
def _bfloat16():
    """Products are not fused with what follows."""
    keras.config.set_dtype_policy("mixed_bfloat16")
    yield
    keras.config.set_dtype_policy("float32")


def _source(folder, lengths):
    """Records of the given lengths, in one file."""
    features = schema.labeled_features(_MAX_LENGTH)
    path = str(folder / "texts.tfrecord")
    masks = [[1] * n + [0] * (_MAX_LENGTH - n) for n in lengths]
    texts = (
        {
            "input_ids": [5 * x for x in mask],
            "input_mask": mask,
            "segment_ids": [0] * _MAX_LENGTH,
            "label_ids": [0],
            "is_real_example": [1],
        }
        for mask in masks
    )
    tfrecords.write_rows(path, texts, features)
    return reading.RecordSource(
        files=tfrecords.RecordFiles([path]),
        features=features,
        vocab_size=_CONFIG.vocab_size,
    )


class _Lengths:
    """Answers the length of a text."""

    def __init__(self):
        layers = [keras.Input((1,)), keras.layers.Dense(1)]
        self.model = keras.Sequential(layers)

    def predictions(self, features):
        return {"length": tf.reduce_sum(features["input_mask"], axis=1)}


@pytest.mark.parametrize("by_length", [False, True])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_answers_are_in_the_order_of_the_file(tmp_path, by_length, batch_size):
    lengths = [3, 30, 9, 24, 16, 30]
    predictor = prediction.RecordPredictor(
        tf.distribute.get_strategy(), _Lengths()
    )
    answers = predictor.predict(
        _source(tmp_path, lengths), batch_size=batch_size, by_length=by_length
    )
    assert answers["length"].tolist() == lengths


@pytest.mark.parametrize(
    ("precision", "mode"),
    [
        ("float32", "plain"),
        pytest.param(*("float32", "xla"), marks=pytest.mark.integration),
        ("mixed_bfloat16", "fused"),
        pytest.param(*("mixed_bfloat16", "xla"), marks=pytest.mark.integration),
    ],
)
def test_rows_of_all_lengths_are_answered_in_their_order(
    precision, mode, tmp_path
):
    keras.config.set_dtype_policy(precision)
    try:
        model = heads.BertForSequenceClassification(_CONFIG, num_labels=2)
        objective = classification_objective.ClassificationObjective(
            model, task.SINGLE_LABEL
        )
        predictor = prediction.RecordPredictor(
            tf.distribute.get_strategy(),
            objective,
            compilation.ExecutionMode(mode),
        )
        source = _source(tmp_path, [3, 30, 9, 24, 16, 30])
        by_length, padded = (
            predictor.predict(source, batch_size=2, by_length=sorts)["outputs"]
            for sorts in (True, False)
        )
    finally:
        keras.config.set_dtype_policy("float32")
    np.testing.assert_allclose(by_length, padded, atol=1e-2)


@pytest.mark.usefixtures("_bfloat16")
def test_predictions_are_those_of_the_current_weights(tmp_path):
    model = heads.BertForSequenceClassification(_CONFIG, num_labels=2)
    source = _source(tmp_path, [3, 30, 9])

    def predictor():
        return prediction.RecordPredictor(
            tf.distribute.get_strategy(),
            classification_objective.ClassificationObjective(
                model, task.SINGLE_LABEL
            ),
        )

    used = predictor()
    before = used.predict(source, batch_size=2)["outputs"]
    for weight in model.weights:
        weight.assign(weight + 0.1)
    after = used.predict(source, batch_size=2)["outputs"]
    new = predictor().predict(source, batch_size=2)["outputs"]
    np.testing.assert_array_equal(after, new)
    assert np.any(after != before)


@pytest.mark.parametrize(
    ("strategy", "num_threads"),
    [
        (tf.distribute.OneDeviceStrategy("/CPU:0"), 2),
        # Replicas must start the same batch at the same time.
        (tf.distribute.MirroredStrategy(["CPU:0"]), 1),
    ],
)
def test_one_cpu_alone_computes_two_batches_at_once(
    strategy, num_threads, tmp_path, monkeypatch
):
    started, pool = [], futures.ThreadPoolExecutor

    def noted(count):
        started.append(count)
        return pool(count)

    # One thread gives the same answers, more slowly.
    monkeypatch.setattr(futures, "ThreadPoolExecutor", noted)
    with strategy.scope():
        model = heads.BertForSequenceClassification(_CONFIG, num_labels=2)
    objective = classification_objective.ClassificationObjective(
        model, task.SINGLE_LABEL
    )
    predictor = prediction.RecordPredictor(strategy, objective)
    predictor.predict(_source(tmp_path, [3, 30, 9]), batch_size=2)
    assert started == [num_threads]


def test_batches_by_length_are_padded_to_the_longest_text():
    order, chosen = prediction.longest_first(
        np.array([3, 5, 9, 7, 4, 8]), 2, compilation.ExecutionMode.PLAIN
    )
    assert order.tolist() == [2, 5, 3, 1, 4, 0]
    assert chosen == [4, 7, 9]


@pytest.mark.parametrize("mode", ["fused", "xla"])
@pytest.mark.parametrize(
    ("num_batches", "num_lengths"), [(1, 1), (13, 4), (100, 10), (400, 16)]
)
def test_where_lengths_are_compiled_there_are_few(
    num_batches, num_lengths, mode
):
    lengths = np.arange(500, 500 - num_batches, -1)
    _, chosen = prediction.longest_first(lengths, 1, mode)
    assert len(chosen) == num_lengths


_GOLDEN = _ROOT / "tests/golden"
_TOLERANCE = 1e-5
_ROWS = [[4, 700, 31, 10], [4, 10], [4, *range(300, 312), 10]]
_SEGMENTS = [[0, 0, 1, 1], [0, 0], [0] * 7 + [1] * 7]


@pytest.fixture(scope="module")
def encoder():
    config = config_lib.BertConfig.from_json_file(
        str(_GOLDEN / "inputs/bert_config.json")
    )
    model = bert.BertModel(config)
    checkpoints.load(model, str(_GOLDEN / "model/tiny.ckpt"))
    return model


@pytest.fixture(scope="module")
def hidden(encoder):
    """The last and the first layer, in batches that rows need not fill."""
    strategy = tf.distribute.get_strategy()
    return prediction.HiddenLayers(strategy, encoder, (-1, 0), batch_size=5)


def test_layers_are_those_of_each_sequence_alone(encoder, hidden):
    values = hidden.compute(_ROWS, _SEGMENTS, 24)
    assert values.shape == (3, 16, 2, 32)  # 14 tokens, rounded up
    for row, (ids, segments) in enumerate(zip(_ROWS, _SEGMENTS, strict=True)):
        outputs = encoder(
            tf.constant([ids]), segment_ids=tf.constant([segments])
        )["all_encoder_layers"]
        for place, layer in enumerate((-1, 0)):
            np.testing.assert_allclose(
                values[row, : len(ids), place],
                outputs[layer][0],
                atol=_TOLERANCE,
            )


@pytest.mark.usefixtures("_bfloat16")
def test_layers_are_float32_in_every_precision():
    model = bert.BertModel(_CONFIG)
    strategy = tf.distribute.get_strategy()
    layers = prediction.HiddenLayers(strategy, model, (-1,), batch_size=1)
    values = layers.compute([[2, 5, 3]], [[0, 0, 0]], 8)
    assert model(tf.constant([[2]]))["sequence_output"].dtype == tf.bfloat16
    assert values.dtype == np.float32


def test_padding_and_missing_rows_change_nothing(hidden):
    values = hidden.compute(_ROWS, _SEGMENTS, 24)
    whole = hidden.compute(_ROWS, _SEGMENTS, 24, pad_to_max_length=True)
    assert whole.shape == (3, 24, 2, 32)
    alone = hidden.compute(_ROWS[1:2], _SEGMENTS[1:2], 24)
    assert alone.shape == (1, 8, 2, 32)
    for row, ids in enumerate(_ROWS):
        length = len(ids)
        np.testing.assert_allclose(
            whole[row, :length], values[row, :length], atol=_TOLERANCE
        )
    np.testing.assert_allclose(alone[0, :2], values[1, :2], atol=_TOLERANCE)
    # No batch is longer than asked.
    assert hidden.compute([[4] * 9], [[0] * 9], 9).shape == (1, 9, 2, 32)


@pytest.mark.integration
@pytest.mark.parametrize(
    "num_replicas",
    [2, 5, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 6, 7))],
)
def test_replicas_share_a_batch(num_replicas):
    """Several devices need a process of their own: they are set at start."""
    script = (
        f"num_replicas = {num_replicas}\n"
        + """
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * num_replicas)
import numpy as np
from modeling import bert
from modeling import config as config_lib
from bert.training import prediction
config = config_lib.BertConfig(
    vocab_size=11, hidden_size=12, num_hidden_layers=1, num_attention_heads=3,
    intermediate_size=17, max_position_embeddings=8, type_vocab_size=2)
devices = [f"CPU:{i}" for i in range(num_replicas)]
strategy = tf.distribute.MirroredStrategy(devices)
with strategy.scope():
    model = bert.BertModel(config)
texts = [[1 + row % 10] * (1 + row % 8) for row in range(32)]
# A batch that does not divide among the replicas, and fewer rows than replicas.
for batch_size, rows in ((32, texts), (32, texts[:1]), (1, texts[5:6])):
    hidden = prediction.HiddenLayers(strategy, model, [0], batch_size)
    values = hidden.compute(rows, [[0] * len(row) for row in rows], 8)
    assert values.shape == (len(rows), 8, 1, 12), values.shape
    for row, ids in enumerate(rows):
        alone = model(tf.constant([ids]))["sequence_output"][0]
        np.testing.assert_allclose(values[row, :len(ids), 0], alone, atol=1e-5)
"""
    )
    ended = programs.invoke("-c", script)
    assert ended.exit_code == 0, ended.stderr[-2000:]
