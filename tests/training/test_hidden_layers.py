"""Hidden layers of ragged batches, and their records."""

import dataclasses
import io
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from modeling import bert, checkpoints
from modeling import config as config_lib
from tests import programs
from training import prediction, records

_ROOT = pathlib.Path(__file__).parents[2]
_GOLDEN = _ROOT / "tests/golden"
_MAX_LENGTH = 24
_TOLERANCE = 1e-5
_ROWS = [[4, 700, 31, 10], [4, 10], [4, *range(300, 312), 10]]
_SEGMENTS = [[0, 0, 1, 1], [0, 0], [0] * 7 + [1] * 7]


def _model():
    config = config_lib.BertConfig.from_json_file(
        str(_GOLDEN / "inputs/bert_config.json")
    )
    model = bert.BertModel(config)
    checkpoints.load(model, str(_GOLDEN / "model/tiny.ckpt"))
    return model


def _compute(layers=(-1, 0), batch_size=3, rows=_ROWS, **options):
    strategy = tf.distribute.get_strategy()
    hidden = prediction.HiddenLayers(strategy, _model(), layers, batch_size)
    segments = [_SEGMENTS[_ROWS.index(row)] for row in rows]
    return hidden.compute(rows, segments, _MAX_LENGTH, **options)


def test_layers_are_those_of_each_sequence_alone():
    values = _compute()
    assert values.shape == (3, 16, 2, 32)  # 14 tokens, rounded up
    model = _model()
    for row, (ids, segments) in enumerate(zip(_ROWS, _SEGMENTS, strict=True)):
        outputs = model(
            tf.constant([ids]), segment_ids=tf.constant([segments])
        )["all_encoder_layers"]
        for place, layer in enumerate((-1, 0)):
            np.testing.assert_allclose(
                values[row, : len(ids), place],
                outputs[layer][0],
                atol=_TOLERANCE,
            )


def test_padding_and_missing_rows_change_nothing():
    values = _compute()
    whole = _compute(pad_to_max_length=True)
    assert whole.shape == (3, _MAX_LENGTH, 2, 32)
    alone = _compute(batch_size=5, rows=_ROWS[1:2])
    assert alone.shape == (1, 8, 2, 32)
    for row, ids in enumerate(_ROWS):
        length = len(ids)
        np.testing.assert_allclose(
            whole[row, :length], values[row, :length], atol=_TOLERANCE
        )
    np.testing.assert_allclose(alone[0, :2], values[1, :2], atol=_TOLERANCE)


def test_embeddings_may_be_the_first_layer():
    strategy = tf.distribute.get_strategy()
    hidden = prediction.HiddenLayers(
        strategy, _model(), [0, 1], 1, embeddings_first=True
    )
    values = hidden.compute([_ROWS[0]], [_SEGMENTS[0]], 4)
    outputs = _model()(
        tf.constant([_ROWS[0]]), segment_ids=tf.constant([_SEGMENTS[0]])
    )
    expected = (outputs["embedding_output"], outputs["all_encoder_layers"][0])
    for place, layer in enumerate(expected):
        np.testing.assert_allclose(
            values[0, :4, place], layer[0], atol=_TOLERANCE
        )


def test_no_batch_is_longer_than_asked():
    strategy = tf.distribute.get_strategy()
    hidden = prediction.HiddenLayers(strategy, _model(), [1], 1)
    assert hidden.compute([[4] * 9], [[0] * 9], 9).shape == (1, 9, 1, 32)


@pytest.mark.slow
def test_replicas_share_a_batch():
    """Two devices need a process of their own, as they are set at start."""
    script = """
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2)
import numpy as np
from modeling import bert
from modeling import config as config_lib
from training import prediction
config = config_lib.BertConfig(
    vocab_size=11, hidden_size=12, num_hidden_layers=1, num_attention_heads=3,
    intermediate_size=17, max_position_embeddings=8, type_vocab_size=2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = bert.BertModel(config)
rows = [[1, 2, 3], [4, 5], [6, 7, 8, 9, 10]]
values = prediction.HiddenLayers(strategy, model, [0], 4).compute(
    rows, [[0] * len(row) for row in rows], 8)
assert values.shape == (3, 8, 1, 12), values.shape
for row, ids in enumerate(rows):
    alone = model(tf.constant([ids]))["sequence_output"][0]
    np.testing.assert_allclose(values[row, :len(ids), 0], alone, atol=1e-5)
"""
    ended = programs.python("-c", script)
    assert ended.returncode == 0, ended.stderr[-2000:]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Vectors:
    index: int
    names: tuple[str, ...] | None
    values: np.ndarray


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_records_hold_every_line(dtype, tmp_path):
    rng = np.random.default_rng(1)
    part = [
        _Vectors(
            index=7,
            names=("[CLS]", "é", "[SEP]"),
            values=rng.normal(size=(3, 2, 4)).astype(dtype),
        ),
        _Vectors(
            index=8, names=None, values=rng.normal(size=(2, 4)).astype(dtype)
        ),
    ]
    file = io.BytesIO()
    output = records.FeatureRecords(file, [-1, 0])
    output.write(part)
    output.close()
    path = tmp_path / "features.tfrecord"
    path.write_bytes(file.getvalue())
    for vectors, record in zip(
        part, tf.data.TFRecordDataset(str(path)), strict=True
    ):
        stored = tf.io.parse_single_example(
            record,
            {
                "linex_index": tf.io.FixedLenFeature([], tf.int64),
                "layers": tf.io.FixedLenFeature([2], tf.int64),
                "shape": tf.io.VarLenFeature(tf.int64),
                "dtype": tf.io.FixedLenFeature([], tf.string),
                "values": tf.io.FixedLenFeature([], tf.string),
                "tokens": tf.io.VarLenFeature(tf.string),
            },
        )
        assert stored["linex_index"] == vectors.index
        assert stored["layers"].numpy().tolist() == [-1, 0]
        assert stored["dtype"] == dtype.encode()
        values = tf.reshape(
            tf.io.decode_raw(stored["values"], dtype), stored["shape"].values
        )
        np.testing.assert_array_equal(values, vectors.values)
        tokens = [t.decode("utf-8") for t in stored["tokens"].values.numpy()]
        assert tokens == list(vectors.names or ())
