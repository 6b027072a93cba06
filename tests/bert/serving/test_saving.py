"""Folders of exported models, with a model that takes no time."""

import contextlib
import logging
import os
import types

import pytest
import tensorflow as tf

from bert.files import writing
from bert.serving import exporting
from bert.tasks import signatures
from tests.support import toy_files


@pytest.fixture
def vocab_file(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("[PAD]\n")
    return str(path)


def _write(folder, vocab_file, described):
    weight = tf.Variable([2.0])

    @signatures.text_signature(text_a=[None], text_b=[None])
    def repeat(text_a, text_b):
        count = tf.cast(tf.strings.length(text_a + text_b), tf.float32)
        return {"score": count * weight}

    # Of a model, the variables alone are written.
    variable = types.SimpleNamespace(value=weight)
    exporting.write_saved_model(
        {"serving_default": repeat},
        types.SimpleNamespace(variables=[variable]),
        str(folder),
        vocab_file,
        described,
    )


_DESCRIBED = {"task": "classification", "max_seq_length": 7}


def _written(tmp_path, vocab_file):
    folder = tmp_path / "name" / "3"
    _write(folder, vocab_file, _DESCRIBED)
    return folder


def test_folders_that_cannot_be_written_are_refused(
    tmp_path, vocab_file, monkeypatch
):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="file must be a folder"):
        exporting.check_new(str(tmp_path / "file" / "3"))
    (tmp_path / "3").symlink_to(tmp_path / "nothing")
    with pytest.raises(ValueError, match="exists"):
        exporting.check_new(str(tmp_path / "3"))
    # Nobody can make a file there, not even the superuser.
    with pytest.raises(OSError, match="/proc/3x could not be written: "):
        _write("/proc/3x", vocab_file, {})
    # The superuser, who may run the tests, may write anywhere.
    monkeypatch.setattr(writing.os, "access", lambda *_: False)
    with pytest.raises(PermissionError, match="No permission to write in"):
        exporting.check_new(str(tmp_path / "4"))


def test_model_is_described_beside_it(tmp_path, vocab_file):
    folder = _written(tmp_path, vocab_file)
    described = toy_files.read_json(folder / "model.json")
    assert described.items() >= _DESCRIBED.items()
    assert described["versions"]["tensorflow"] == tf.__version__
    text = {"dtype": "string", "shape": [None]}
    assert described["signatures"]["serving_default"] == {
        "inputs": {"text_a": text, "text_b": text},
        "outputs": {"score": {"dtype": "float32", "shape": [None]}},
    }
    assert (folder / "assets/vocab.txt").read_text() == "[PAD]\n"
    requests = folder / "assets.extra/tf_serving_warmup_requests"
    assert requests.stat().st_size > 0
    assert os.listdir(tmp_path / "name") == ["3"]


def test_wrong_inputs_are_named(tmp_path, vocab_file):
    loaded = tf.saved_model.load(str(_written(tmp_path, vocab_file)))
    ask = loaded.signatures["serving_default"]
    two, one = tf.constant(["a", "bc"]), tf.constant(["d"])
    got = ask(text_a=two, text_b=two)["score"].numpy()
    assert got.tolist() == [4.0, 8.0]
    with pytest.raises(TypeError, match="text_b"):
        ask(text_a=two)
    with pytest.raises(TypeError, match="text_a"):
        ask(text=two, text_b=two)
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="text_b must have as many texts as text_a",
    ):
        ask(text_a=two, text_b=one)
    with pytest.raises(tf.errors.InvalidArgumentError, match="not compatible"):
        ask(text_a=tf.constant("a"), text_b=tf.constant("a"))


def test_what_exists_is_not_written_again_and_failure_leaves_nothing(
    tmp_path, vocab_file
):
    folder = _written(tmp_path, vocab_file)
    before = (folder / "model.json").read_bytes()
    with pytest.raises(ValueError, match=r"3 exists.* another --export_dir"):
        _write(folder, vocab_file, {})
    assert (folder / "model.json").read_bytes() == before
    with pytest.raises(TypeError):
        _write(tmp_path / "name/1", vocab_file, {"a": object()})
    assert os.listdir(tmp_path / "name") == ["3"]


@pytest.mark.parametrize("is_broken", [False, True])
def test_messages_are_hidden_only_while_a_model_is_written(
    tmp_path, vocab_file, is_broken
):
    described = {"a": object()} if is_broken else {}
    before = logging.root.manager.disable
    with pytest.raises(TypeError) if is_broken else contextlib.nullcontext():
        _write(tmp_path / "1", vocab_file, described)
    assert logging.root.manager.disable == before
