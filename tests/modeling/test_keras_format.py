"""Keras' files of weights: read by plain Keras, nothing lost, broken files."""

import functools
import pathlib

import h5py
import keras
import numpy as np
import pytest

from modeling import bert, checkpoints, heads, keras_format
from modeling import config as config_lib
from tests import toy_checkpoint

_CONFIG = config_lib.BertConfig.from_json_file(
    str(pathlib.Path(__file__).parents[1] / "golden/inputs/bert_config.json")
)
_write = functools.partial(toy_checkpoint.write, keras_format)


def _arrays(model):
    rng = np.random.default_rng(1)
    return {
        name: rng.normal(size=variable.shape).astype(np.float32)
        for name, variable in checkpoints.variables_by_name(model).items()
    }


def _check(model, arrays):
    for name, variable in checkpoints.variables_by_name(model).items():
        np.testing.assert_array_equal(variable, arrays[name], name)


def test_plain_keras_loads_the_model_and_its_encoder(tmp_path):
    model = heads.BertForPreTraining(_CONFIG)
    arrays = _arrays(model)
    state = {
        "global_step": np.array(7, np.int64),
        "cls/seq_relationship/output_bias/adam_m": np.ones(2, np.float32),
        "cls/squad/output_bias": np.zeros(2, np.float32),
    }
    path = _write(
        tmp_path / "x.weights.h5", arrays | state, ["BertForPreTraining"]
    )
    model.load_weights(path)
    _check(model, arrays)
    encoder = bert.BertModel(_CONFIG)
    encoder.load_weights(path)
    _check(encoder, arrays)
    got = checkpoints.read(path)
    assert got.keys() == (arrays | state).keys()
    for name, want in (arrays | state).items():
        assert got[name].dtype == want.dtype
        np.testing.assert_array_equal(got[name], want)


def test_a_bare_encoder_loads_under_both_layouts(tmp_path):
    model = bert.BertModel(_CONFIG)
    arrays = _arrays(model)
    path = _write(tmp_path / "x.weights.h5", arrays, ["BertModel"])
    model.load_weights(path)
    _check(model, arrays)
    # What plain Keras writes has no group for the encoder.
    model.save_weights(str(tmp_path / "y.weights.h5"))
    assert checkpoints.list_variables(path) == checkpoints.list_variables(
        str(tmp_path / "y.weights.h5")
    )


def test_the_encoder_of_a_class_of_hugging_face_s_alone_loads(tmp_path):
    arrays = {
        name: array
        for name, array in _arrays(heads.BertForPreTraining(_CONFIG)).items()
        if not name.startswith("cls/seq_relationship/")
    }
    path = _write(tmp_path / "x.weights.h5", arrays, ["BertForMaskedLM"])
    encoder = bert.BertModel(_CONFIG)
    encoder.load_weights(path)
    _check(encoder, arrays)
    got = checkpoints.read(path)
    assert got.keys() == arrays.keys()
    for name, want in arrays.items():
        np.testing.assert_array_equal(got[name], want, name)


def test_what_save_weights_wrote_is_read(tmp_path):
    model = heads.BertForSequenceClassification(_CONFIG, num_labels=3)
    model.save_weights(str(tmp_path / "x.weights.h5"))
    other = heads.BertForSequenceClassification(_CONFIG, num_labels=3)
    report = checkpoints.load(other, str(tmp_path))
    assert report.missing == report.unexpected == ()
    for one, two in zip(model.weights, other.weights, strict=True):
        np.testing.assert_array_equal(one, two)


def test_variables_that_only_the_file_has_keep_their_path(tmp_path):
    path = tmp_path / "x.weights.h5"
    arrays = _arrays(bert.BertModel(_CONFIG))
    _write(path, arrays, ["BertModel"])
    with h5py.File(path, "a") as file:
        file["extra/vars/0"] = np.arange(3)
    got = checkpoints.read(str(path))
    np.testing.assert_array_equal(got.pop("keras/extra/vars/0"), [0, 1, 2])
    assert got.keys() == arrays.keys()


@pytest.mark.parametrize(
    "group",
    ["bert", "cls", "embeddings", "layers", "release_variables", "vars"],
)
def test_foreign_arrays_in_a_group_of_ours_are_kept(tmp_path, group):
    model = bert.BertModel(_CONFIG)
    arrays = _arrays(model)
    name = f"keras/{group}/extra/vars/0"
    foreign = {name: np.arange(3), "keras/extra/vars/0": np.arange(2)}
    path = _write(tmp_path / "x.weights.h5", arrays | foreign, ["BertModel"])
    got = checkpoints.read(path)
    assert got.keys() == (arrays | foreign).keys()
    np.testing.assert_array_equal(got[name], foreign[name])
    model.load_weights(path)
    _check(model, arrays)


def test_weights_of_another_model_are_named(tmp_path):
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(3)])
    path = str(tmp_path / "x.weights.h5")
    model.save_weights(path)
    with pytest.raises(ValueError, match=r"got the groups .*layers.*another"):
        checkpoints.list_variables(path)


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.99])
def test_a_file_cut_short_is_refused(tmp_path, share):
    path = tmp_path / "x.weights.h5"
    _write(path, _arrays(bert.BertModel(_CONFIG)), ["BertModel"])
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(
        ValueError, match="is truncated, or not a valid HDF5 file"
    ):
        checkpoints.read(str(path))
