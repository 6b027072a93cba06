"""Recognition of checkpoint formats, and errors for other files."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from modeling import checkpoints, huggingface

_GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
_CHECKPOINT = str(_GOLDEN / "model/tiny.ckpt")


def _find(path):
    place = checkpoints.find(str(path))
    return place.format, place.path


def _touch(folder, *names):
    for name in names:
        (folder / name).write_bytes(b"")


def test_each_form_is_found_by_file_and_by_folder(tmp_path):
    assert _find(_CHECKPOINT) == ("release", _CHECKPOINT)
    for form, name in (
        ("keras", "x.weights.h5"),
        ("huggingface", "model.safetensors"),
        ("huggingface", "model.safetensors.index.json"),
        ("huggingface", "tf_model.h5"),
        ("huggingface", "tf_model.h5.index.json"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        _touch(folder, name, "config.json", "vocab.txt")
        want = (form, str(folder / name if form == "keras" else folder))
        assert _find(folder / name) == want
        assert _find(folder) == want


def test_a_folder_of_several_is_not_guessed(tmp_path):
    _touch(tmp_path, "x.weights.h5", "model.safetensors")
    with pytest.raises(ValueError, match=r"\(keras\).*\(huggingface\).*Pass"):
        _find(tmp_path)


def test_safetensors_are_read_unless_another_file_is_named(tmp_path):
    _touch(tmp_path, "model.safetensors", "tf_model.h5", "pytorch_model.bin")
    assert _find(tmp_path) == ("huggingface", str(tmp_path))
    assert _find(tmp_path / "model.safetensors")[1] == str(tmp_path)
    named = str(tmp_path / "tf_model.h5")
    assert _find(named) == ("huggingface", named)
    assert checkpoints.files(named) == [named]


def test_converted_copies_do_not_hide_the_release_s_checkpoint(tmp_path):
    _touch(tmp_path, "x.ckpt.index", "tf_model.h5", "pytorch_model.bin")
    assert _find(tmp_path) == ("release", str(tmp_path / "x.ckpt"))


def test_a_pickle_is_read_where_torch_is(tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface, "has_torch", lambda: True)
    for name in ("pytorch_model.bin", "pytorch_model.bin.index.json"):
        folder = tmp_path / name
        folder.mkdir()
        _touch(folder, name)
        assert _find(folder) == ("huggingface", str(folder))
    (tmp_path / "model.pt").touch()
    with pytest.raises(ValueError, match="PyTorch's pickled weights"):
        _find(tmp_path / "model.pt")


def test_a_preset_of_keras_hub_is_a_folder(tmp_path):
    _touch(tmp_path, "model.weights.h5", "task.weights.h5")
    (tmp_path / "config.json").write_text(
        '{"registered_name": "keras_hub>BertBackbone"}'
    )
    want = ("keras_hub", str(tmp_path))
    assert _find(tmp_path) == _find(tmp_path / "model.weights.h5") == want


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("pytorch_model.bin", "PyTorch's pickled weights"),
        ("pytorch_model.bin.index.json", "PyTorch's pickled weights"),
        ("model.pt", "PyTorch's pickled weights"),
        ("saved_model.pb", "a TensorFlow SavedModel"),
        ("tfhub_module.pb", "a TensorFlow Hub module"),
        ("flax_model.msgpack", "Hugging Face's weights for Flax"),
        ("bert.keras", "a full Keras model"),
        ("bert.h5", "a full Keras model, or weights of Keras 2"),
        ("x.weights.json", "the index of sharded Keras weights"),
        ("bert.onnx", "an ONNX graph"),
    ],
)
def test_other_kinds_are_named_by_file_and_by_folder(
    tmp_path, monkeypatch, name, kind
):
    monkeypatch.setattr(huggingface, "has_torch", lambda: False)
    _touch(tmp_path, name)
    with pytest.raises(ValueError, match=kind):
        _find(tmp_path)
    with pytest.raises(ValueError, match=kind):
        _find(tmp_path / name)


def test_a_pickle_s_message_says_how_to_get_safetensors(tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface, "has_torch", lambda: False)
    _touch(tmp_path, "pytorch_model.bin")
    with pytest.raises(ValueError, match="save_pretrained"):
        _find(tmp_path)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"PK\x03\x04rest", "PyTorch's pickled weights"),
        (b"\x80\x02rest", "PyTorch's pickled weights"),
        (b"\x89HDF\r\n", "a full Keras model, or weights of Keras 2"),
    ],
)
def test_other_kinds_are_named_by_content(tmp_path, content, kind):
    (tmp_path / "model.ckpt").write_bytes(content)
    with pytest.raises(ValueError, match=kind):
        _find(tmp_path / "model.ckpt")


def test_safetensors_of_another_name_are_refused(tmp_path):
    _touch(tmp_path, "lora.safetensors")
    with pytest.raises(ValueError, match=r"must be named model.safetensors"):
        _find(tmp_path / "lora.safetensors")


def test_the_older_format_is_read(tmp_path):
    path = str(tmp_path / "old.ckpt")
    arrays = {"bert/pooler/dense/bias": np.arange(3, dtype=np.float32)}
    tf.raw_ops.Save(
        filename=path,
        tensor_names=list(arrays),
        data=[tf.constant(a) for a in arrays.values()],
    )
    ((name, value),) = checkpoints.read(path).items()
    np.testing.assert_array_equal(value, arrays[name])
    assert checkpoints.files(path) == [path]


def test_files_are_those_of_the_variables(tmp_path):
    names = ("x.ckpt-1.index", "x.ckpt-1.data-00000-of-00001")
    _touch(tmp_path, *names, "x.ckpt-1.state.json", "x.ckpt-10.index")
    assert checkpoints.files(str(tmp_path / "x.ckpt-1")) == [
        str(tmp_path / name) for name in sorted(names)
    ]
    _touch(tmp_path, "x.weights.h5")
    path = str(tmp_path / "x.weights.h5")
    assert checkpoints.files(path) == [path]


@pytest.mark.parametrize(
    ("attribute", "whose"),
    [("transformer_layers", "Model Garden"), ("v", "tf.train.Checkpoint")],
)
def test_object_checkpoints_are_told_apart(tmp_path, attribute, whose):
    module = tf.Module()
    setattr(module, attribute, [tf.Variable(1.0)])
    prefix = str(tmp_path / "c")
    tf.train.Checkpoint(encoder=module).write(prefix)
    with pytest.raises(ValueError, match=f"object checkpoint .*{whose}"):
        checkpoints.list_variables(prefix)
