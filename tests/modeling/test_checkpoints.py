"""Checkpoints: their formats, round trips, and errors for other files."""

import dataclasses
import pathlib
import re
import shutil
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import bert, checkpoints, heads
from modeling import config as config_lib
from tests.support import locations, toy_files

_CHECKPOINT = str(locations.CHECKPOINT)
_CONFIG = config_lib.BertConfig.from_json_file(locations.CONFIG_FILE)
_DATA = ".data-00000-of-00001"


def _copy(folder, name="model.ckpt-7"):
    for suffix in (".index", _DATA):
        shutil.copyfile(_CHECKPOINT + suffix, folder / (name + suffix))
    return str(folder / name)


def _pretraining(**changes):
    return heads.BertForPreTraining(dataclasses.replace(_CONFIG, **changes))


def test_a_checkpoint_is_found_by_prefix_by_file_and_by_folder(tmp_path):
    for suffix in ("", ".index", _DATA):
        assert checkpoints.find(_CHECKPOINT + suffix) == _CHECKPOINT
    assert checkpoints.find(str(locations.GOLDEN / "model")) == _CHECKPOINT
    # Of several the one of the highest step, as a number.
    first = _copy(tmp_path, "model.ckpt-999")
    want = _copy(tmp_path, "model.ckpt-1000")
    assert checkpoints.find(str(tmp_path)) == want
    graph = tmp_path / "model.ckpt-999.meta"  # TensorFlow 1 writes one.
    graph.touch()
    assert checkpoints.find(str(graph)) == first
    # The checkpoint file is obeyed, unless it is damaged.
    for content, found in (
        (b'model_checkpoint_path: "model.ckpt-999"', first),
        *((b'model_checkpoint_path: "\xff"', want), (b"", want)),
        *((b'model_checkpoint_path: ""', want), (b"?", want)),
    ):
        (tmp_path / "checkpoint").write_bytes(content)
        assert checkpoints.find(str(tmp_path)) == found


@pytest.mark.parametrize("path", [".", "./", "../b"])
def test_a_folder_may_be_given_relative_to_the_current_one(
    tmp_path, monkeypatch, path
):
    (tmp_path / "b").mkdir()
    _copy(tmp_path / "b", "model.ckpt-7")
    monkeypatch.chdir(tmp_path / "b")
    found = pathlib.Path(checkpoints.find(path))
    assert found.resolve() == tmp_path / "b" / "model.ckpt-7"


def test_no_checkpoint_and_several_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no checkpoint at .*nowhere"):
        checkpoints.find(str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="There is no checkpoint at"):
        checkpoints.find(str(tmp_path))
    _copy(tmp_path, "a")
    _copy(tmp_path, "b")
    with pytest.raises(ValueError, match="must contain one checkpoint"):
        checkpoints.find(str(tmp_path))


def test_list_variables_has_every_name_shape_and_type():
    contents = toy_files.read_json(locations.GOLDEN / "model/variables.json")
    want = {
        name: (tuple(shape), "float32")
        for part in contents.values()
        for name, shape in part
    }
    assert checkpoints.list_variables(_CHECKPOINT) == want


def test_load_puts_every_value_in_its_place():
    model = _pretraining()
    report = checkpoints.load(model, _CHECKPOINT)
    variables = checkpoints.variables_by_name(model)
    stored = tf.train.load_checkpoint(_CHECKPOINT)
    for name, variable in variables.items():
        np.testing.assert_array_equal(variable, stored.get_tensor(name))
    assert report.loaded == tuple(sorted(variables))
    assert report.missing == ()
    contents = toy_files.read_json(locations.GOLDEN / "model/variables.json")
    others = contents["squad_head"] + contents["extra_layers"]
    assert report.unexpected == tuple(sorted(name for name, _ in others))


def test_a_report_names_what_was_loaded_and_what_was_not():
    report = checkpoints.LoadReport(
        origin="x.ckpt",
        step=5,
        loaded=("a", "b"),
        missing=("c",),
        unexpected=("d", "e", "f"),
    )
    assert str(report) == (
        "2 variables loaded from x.ckpt, step 5; 1 new, as initialized: c; "
        "3 in the checkpoint only: d, e, f"
    )
    nothing = {"step": None, "missing": (), "unexpected": ()}
    report = dataclasses.replace(report, **nothing)
    assert str(report) == "2 variables loaded from x.ckpt"


@pytest.mark.parametrize("name", ["bert", "encoder"])
def test_bare_encoder_loads_under_any_name(name):
    model = bert.BertModel(_CONFIG, name=name)
    report = checkpoints.load(model, _CHECKPOINT)
    assert len(report.loaded) == 39
    assert "cls/predictions/output_bias" in report.unexpected


def test_names_are_those_after_the_model_s_own():
    model = heads.BertForSequenceClassification(
        _CONFIG, num_labels=2, name="bert"
    )
    names = checkpoints.variables_by_name(model)
    assert {"output_weights", "bert/pooler/dense/bias"} < set(names)


def test_saved_model_loads_into_one_of_another_seed(tmp_path):
    prefix = str(tmp_path / "new/model.ckpt-5")
    keras.utils.set_random_seed(1)
    model = _pretraining()
    state = checkpoints.variables_by_name(model) | {
        "bert/pooler/dense/kernel/adam_m": np.full([32, 32], 0.5, np.float32),
        "global_step": np.int64(5),
    }
    checkpoints.save(prefix, state)
    keras.utils.set_random_seed(2)
    other = _pretraining()
    report = checkpoints.load(other, str(tmp_path / "new"))
    assert (report.origin, report.step) == (prefix, 5)
    for ours, theirs in zip(model.weights, other.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert report.missing == report.unexpected == ()
    assert checkpoints.list_variables(prefix)["global_step"] == ((), "int64")
    reader = tf.train.load_checkpoint(prefix)
    assert reader.get_tensor("global_step") == 5
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == [
        f"model.ckpt-5{_DATA}",
        "model.ckpt-5.index",
    ]


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16, tf.float64])
def test_values_of_another_precision_load_as_float32(tmp_path, dtype):
    model = bert.BertModel(_CONFIG)
    names = list(checkpoints.variables_by_name(model))
    arrays = checkpoints.read(_CHECKPOINT, names)
    prefix = str(tmp_path / "half")
    checkpoints.save(prefix, {k: tf.cast(v, dtype) for k, v in arrays.items()})
    checkpoints.load(model, prefix)
    kernel = model.pooler.dense.kernel
    assert kernel.dtype == "float32"
    want = arrays["bert/pooler/dense/kernel"]
    np.testing.assert_array_equal(
        kernel, tf.cast(tf.cast(want, dtype), tf.float32)
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_must_be_finite(value):
    layer = keras.layers.Dense(2, name="output")
    layer.build((None, 3))
    checkpoints.check_finite(layer, "model.ckpt-7")
    kernel = np.ones((3, 2), np.float32)
    kernel[2, 1] = value
    layer.kernel.assign(kernel)
    with pytest.raises(
        ValueError, match=r"those of output/kernel in model\.ckpt-7 are not"
    ):
        checkpoints.check_finite(layer, "model.ckpt-7")


def test_read_takes_names_and_names_an_absent_one():
    got = checkpoints.read(_CHECKPOINT, ["cls/squad/output_bias"])
    assert {k: v.shape for k, v in got.items()} == {
        "cls/squad/output_bias": (2,)
    }
    with pytest.raises(ValueError, match="zero not found"):
        checkpoints.read(_CHECKPOINT, ["zero"])


def test_variables_named_as_new_may_be_missing():
    model = heads.BertForSequenceClassification(_CONFIG, num_labels=2)
    before = model.output_weights.numpy()
    report = checkpoints.load(model, _CHECKPOINT, new=["output_.*"])
    assert report.missing == ("output_bias", "output_weights")
    np.testing.assert_array_equal(model.output_weights, before)
    listed = r"2 missing: output_weights, output_b"
    with pytest.raises(ValueError, match=rf"of the model; {listed}"):
        checkpoints.load(model, _CHECKPOINT)
    # Patterns match whole names.
    listed = rf"except new ones \(output, weights\); {listed}"
    with pytest.raises(ValueError, match=listed):
        checkpoints.load(model, _CHECKPOINT, new=["output", "weights"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab_size": 1201}, "vocab_size is 1201 in the model and 1200 in"),
        ({"hidden_size": 64}, "hidden_size is 64 in the model and 32 in"),
        ({"intermediate_size": 40}, "intermediate_size is 40 .* and 37 in"),
        ({"type_vocab_size": 16}, "type_vocab_size is 16 .* and 2 in"),
        (
            {"max_position_embeddings": 99},
            "max_position_embeddings is 99 .*160",
        ),
        ({"num_hidden_layers": 5}, "num_hidden_layers is 5 .* and 4 in"),
    ],
)
def test_wrong_size_names_the_field_alone(changes, message):
    model = _pretraining(**changes)
    before = model.weights[-1].numpy()
    with pytest.raises(ValueError, match=message) as caught:
        checkpoints.load(model, _CHECKPOINT)
    assert len(re.findall(" in the model and ", str(caught.value))) == 1
    np.testing.assert_array_equal(model.weights[-1], before)


def test_wrong_number_of_labels_is_named(tmp_path):
    three, two = (
        heads.BertForSequenceClassification(_CONFIG, num_labels=n)
        for n in (3, 2)
    )
    prefix = str(tmp_path / "c")
    checkpoints.save(prefix, checkpoints.variables_by_name(three))
    with pytest.raises(ValueError, match="num_labels is 2 in the model and 3"):
        checkpoints.load(two, prefix)


def test_checkpoint_of_something_else_is_refused(tmp_path):
    prefix = str(tmp_path / "c")
    checkpoints.save(prefix, {"dense/kernel": np.zeros([2, 3])})
    with pytest.raises(ValueError, match="It has dense/kernel"):
        checkpoints.load(_pretraining(), prefix, new=[".*"])


def test_a_pickle_without_torch_is_refused(tmp_path, monkeypatch):
    (tmp_path / "pytorch_model.bin").touch()
    # As where it is not installed.
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ValueError, match="only where PyTorch is installed"):
        checkpoints.read(str(tmp_path))


def test_state_of_another_optimizer_is_no_other_network(tmp_path):
    tensors = checkpoints.read(_CHECKPOINT)
    name = "bert/embeddings/word_embeddings"
    slots = {
        f"OptimizeLoss/{name}/Adam": tensors[name],
        f"{name}/ExponentialMovingAverage": tensors[name],
        "OptimizeLoss/cls/predictions/output_bias/Adam_1": np.zeros(3),
        "OptimizeLoss/beta1_power": np.float32(0.9),
    }
    checkpoints.save(str(tmp_path / "x"), tensors | slots)
    checkpoints.load(_pretraining(), str(tmp_path / "x"))
    checkpoints.save(str(tmp_path / "y"), tensors | {"crf/trans": np.zeros(3)})
    with pytest.raises(ValueError, match="no place for crf/trans"):
        checkpoints.load(_pretraining(), str(tmp_path / "y"))
