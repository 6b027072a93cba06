"""Damaged checkpoints: the release's, and tf_model.h5."""

import itertools

import h5py
import numpy as np
import pytest

from modeling import checkpoints
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


_H5 = {
    "bert/embeddings/word_embeddings/weight:0": _RNG.random([4, 3], np.float32),
    "classifier/classifier/kernel:0": _RNG.random([3, 2], np.float32),
    "classifier/classifier/bias:0": np.ones([2], np.float32),
}


def test_h5_files_hold_arrays_or_an_error(check, tmp_path):
    path = tmp_path / "tf_model.h5"
    with h5py.File(path, "w") as file:
        for name, value in _H5.items():
            file[name] = value
    cases = _cases(path.read_bytes())

    def is_right(found, content):
        return all(array.dtype.kind in "fiub" for array in found.values())

    check(checkpoints.read, path.name, cases, is_right)


def _virtual(file, other):
    layout = h5py.VirtualLayout(shape=(3,), dtype="f4")
    layout[:] = h5py.VirtualSource(other, "secret", shape=(3,))
    file.create_virtual_dataset("bert/x", layout)


def _outside(file, other):
    file.create_dataset("bert/x", (3,), "f4", external=[(other, 0, 12)])


def _huge(file, other):
    file.create_dataset("bert/x", (2**40,), "f4")


def _objects(file, other):
    file.create_dataset("bert/x", data=[b"a"], dtype=h5py.string_dtype())


@pytest.fixture
def paths_of_h5(tmp_path):
    other = str(tmp_path / "other.h5")
    with h5py.File(other, "w") as file:
        file["secret"] = np.ones([3], np.float32)
    return str(tmp_path / "tf_model.h5"), other


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (_virtual, "x is stored in another file"),
        (_outside, "x is stored in another file"),
        (_huge, "x declares 4398046511104 bytes; 0 are stored"),
        (_objects, "x must be numeric"),
    ],
)
def test_h5_files_hold_their_own_data(paths_of_h5, write, message):
    path, other = paths_of_h5
    with h5py.File(path, "w") as file:
        write(file, other)
    with pytest.raises(ValueError, match=rf"tf_model\.h5.*{message}"):
        checkpoints.list_variables(path)


def test_links_and_loops_in_h5_files_are_not_followed(paths_of_h5):
    path, other = paths_of_h5
    with h5py.File(path, "w") as file:
        file["classifier/bias:0"] = np.ones([2], np.float32)
        file["classifier/again"] = file["classifier"]
        file["bert/x"] = h5py.ExternalLink(other, "secret")
    assert checkpoints.list_variables(path) == {
        "output_bias": ((2,), "float32")
    }
