"""Checkpoints in the release's format: writing, and damaged files."""

import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from bert.files import writing
from modeling import checkpoints, release_format
from tests.support import locations

_CHECKPOINT = str(locations.GOLDEN / "model/tiny.ckpt")
_DATA = ".data-00000-of-00001"


def _copy(folder):
    for suffix in (".index", _DATA):
        shutil.copyfile(_CHECKPOINT + suffix, folder / f"c{suffix}")
    return str(folder / "c")


def test_no_index_is_beside_data_of_another_checkpoint(tmp_path, monkeypatch):
    prefix = str(tmp_path / "c")
    release_format.write(prefix, {"a": np.zeros(3)})
    events, replace = [], os.replace

    def watch(source, target):
        # A process that dies here leaves no index of the earlier data.
        assert not os.path.exists(f"{prefix}.index")
        events.append(f"rename to {os.path.basename(target)}")
        replace(source, target)

    monkeypatch.setattr(os, "replace", watch)
    monkeypatch.setattr(
        writing,
        "sync",
        lambda path: events.append(f"sync {os.path.relpath(path, tmp_path)}"),
    )
    release_format.write(prefix, {"b": np.ones(5)})
    # On disk before their names, and their names at the end.
    assert events == [
        f"sync .c.partial{_DATA}",
        "sync .c.partial.index",
        f"rename to c{_DATA}",
        "rename to c.index",
        "sync .",
    ]


def test_saving_again_replaces_the_earlier_one_unless_it_fails(
    tmp_path, monkeypatch
):
    prefix = str(tmp_path / "c")
    checkpoints.save(prefix, {"a": np.zeros(3)})
    checkpoints.save(prefix, {"b": np.ones(5, np.int32)})

    # As a full disk does.
    def fail(descriptor):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        checkpoints.save(prefix, {"a": np.ones(3)})
    with pytest.raises(ValueError, match="would have no variables"):
        checkpoints.save(prefix, {})
    np.testing.assert_equal(checkpoints.read(prefix), {"b": np.ones(5)})
    assert len(list(tmp_path.iterdir())) == 2


def test_a_checkpoint_of_links_is_replaced_where_its_files_are(tmp_path):
    disk, run = tmp_path / "disk", tmp_path / "run"
    release_format.write(str(disk / "c"), {"a": np.zeros(3)})
    run.mkdir()
    links = [run / f"c{suffix}" for suffix in (".index", _DATA)]
    for link in links:
        link.symlink_to(disk / link.name)
    release_format.write(str(run / "c"), {"b": np.ones(5)})
    assert all(link.is_symlink() for link in links)
    np.testing.assert_equal(
        checkpoints.read(str(disk / "c")), {"b": np.ones(5)}
    )


def test_a_checkpoint_may_be_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    release_format.write("c", {"a": np.ones(3)})
    np.testing.assert_equal(checkpoints.read("c"), {"a": np.ones(3)})


def test_a_checkpoint_in_a_remote_store_is_written_in_place(tmp_path):
    prefix = f"ram://{tmp_path.name}/run/c"
    for value in (np.zeros(3), np.ones(3)):
        release_format.write(prefix, {"a": value})
        (stored,) = tf.raw_ops.RestoreV2(
            prefix=prefix,
            tensor_names=["a"],
            shape_and_slices=[""],
            dtypes=[tf.float64],
        )
        np.testing.assert_equal(stored.numpy(), value)
    assert len(tf.io.gfile.listdir(os.path.dirname(prefix))) == 2


@pytest.mark.parametrize("text", ["", "hello " * 500])
@pytest.mark.parametrize("name", ["c", "c.index"])
def test_file_that_is_no_checkpoint_is_refused(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    if name.endswith(".index"):
        (tmp_path / f"c{_DATA}").write_text(text)
    with pytest.raises(
        ValueError, match="is truncated, or not a valid checkpoint"
    ):
        checkpoints.read(str(tmp_path / "c"))


@pytest.mark.parametrize("suffix", [".index", _DATA])
def test_truncated_file_is_refused(tmp_path, suffix):
    prefix = _copy(tmp_path)
    file = pathlib.Path(prefix + suffix)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(
        ValueError, match="is truncated, or not a valid checkpoint"
    ):
        checkpoints.read(prefix)


def test_missing_shard_is_named(tmp_path):
    prefix = _copy(tmp_path)
    pathlib.Path(prefix + _DATA).unlink()
    with pytest.raises(ValueError, match=r"truncated.*data-00000-of-00001"):
        checkpoints.read(prefix)


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
