"""Damaged checkpoints: the release's, Keras' and Hugging Face's folders."""

import itertools
import json

import h5py
import numpy as np
import pytest

from modeling import checkpoints, huggingface, keras_format
from tests import toy_checkpoint
from tests.fuzz import harness, mutations

_RNG = np.random.default_rng(10)
_ARRAYS = {
    "bert/embeddings/word_embeddings": _RNG.random([4, 3], np.float32),
    "bert/encoder/layer_0/output/dense/bias": _RNG.random([3], np.float32),
    "global_step": np.asarray(7, np.int64),
}


def _cases(content: bytes):
    return mutations.endless(10, [content], mutations.BINARY_WORDS)


@pytest.mark.parametrize("part", [".index", ".data-00000-of-00001"])
def test_release_checkpoints_hold_what_was_saved_or_an_error(
    tmp_path, part, num_cases
):
    # Opening one takes TensorFlow a millisecond and more.
    prefix = str(tmp_path / "model.ckpt")
    checkpoints.save(prefix, _ARRAYS)
    path = tmp_path / f"model.ckpt{part}"
    cases = itertools.islice(_cases(path.read_bytes()), num_cases)

    def read(_):
        try:
            return checkpoints.read(prefix)
        except ValueError as error:
            # The message names the checkpoint, which its files begin with.
            raise ValueError(f"{path}: {error}") from error

    def is_right(found, content):
        return found.keys() <= _ARRAYS.keys() and all(
            np.array_equal(found[name], _ARRAYS[name]) for name in _ARRAYS
        )

    outcome = harness.read_all(read, path, cases, is_right)
    assert outcome.num_refused > outcome.num_read


def test_keras_files_hold_arrays_or_an_error(check, tmp_path):
    path = tmp_path / "model.weights.h5"
    toy_checkpoint.write(keras_format, path, _ARRAYS, ["BertModel"])
    cases = _cases(path.read_bytes())

    def is_right(found, content):
        return all(array.dtype.kind in "fiub" for array in found.values())

    check(checkpoints.read, path.name, cases, is_right)


def test_indices_name_files_of_their_folder_or_an_error(check, tmp_path):
    (tmp_path / "a.safetensors").write_bytes(b"")
    good = {"metadata": {"size": 1}, "weight_map": {"x": "a.safetensors"}}

    def read(path):
        try:
            return huggingface.files(str(tmp_path))
        except FileNotFoundError as error:
            # Names the folder, and the index in it.
            assert f"{str(tmp_path)!r} must contain all files" in str(error)
            raise ValueError(f"{path}: {error}") from error

    def is_right(found, content):
        return {*found} <= {str(tmp_path / "a.safetensors")}

    check(read, huggingface.INDEX, mutations.of_json(10, good), is_right)


def _link(file, other):
    file["bert/x"] = h5py.ExternalLink(other, "secret")


def _virtual(file, other):
    layout = h5py.VirtualLayout(shape=(3,), dtype="f4")
    layout[:] = h5py.VirtualSource(other, "secret", shape=(3,))
    file.create_virtual_dataset("bert/x", layout)


def _outside(file, other):
    file.create_dataset("bert/x", (3,), "f4", external=[(other, 0, 12)])


def _huge(file, other):
    file.create_dataset("bert/x", (2**40,), "f4")


def _loop(file, other):
    file.create_group("bert/x")
    file["bert/x/again"] = file["bert"]


def _objects(file, other):
    file.create_dataset("bert/x", data=[b"a"], dtype=h5py.string_dtype())


def _named(name):
    def write(file, other):
        file["release_variables/0"] = np.ones([3], np.float32)
        file["release_variables/0"].attrs["name"] = name

    return write


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (_link, "x is a link"),
        (_virtual, "x is stored in another file"),
        (_outside, "x is stored in another file"),
        (_huge, "x declares 4398046511104 bytes; 0 are stored"),
        (_loop, "a group that contains itself"),
        (_objects, "x must be numeric"),
        # HDF5 never came back from reading such a name in a damaged file.
        (_named("text of any length"), "0 is not a text of fixed length"),
        (_named(5), "0 is not a text of fixed length"),
        (_named([b"a", b"b"]), "0 is not a text of fixed length"),
        (_named(np.bytes_(b"\xff")), "invalid start byte"),
    ],
)
def test_keras_files_hold_their_own_data(tmp_path, write, message):
    other = str(tmp_path / "other.h5")
    with h5py.File(other, "w") as file:
        file["secret"] = np.ones([3], np.float32)
    path = tmp_path / "model.weights.h5"
    with h5py.File(path, "w") as file:
        file["bert/embeddings/vars/0"] = np.ones([2, 2], np.float32)
        write(file, other)
    with pytest.raises(ValueError, match=rf"model\.weights\.h5.*{message}"):
        checkpoints.list_variables(str(path))


@pytest.mark.parametrize("name", ["../x.safetensors", "/etc/passwd", 3, ""])
def test_parts_outside_of_the_folder_are_refused(tmp_path, name):
    path = tmp_path / huggingface.INDEX
    path.write_text(json.dumps({"weight_map": {"x": name}}))
    with pytest.raises(ValueError, match=r"weight_map to \.safetensors files"):
        huggingface.files(str(tmp_path))
