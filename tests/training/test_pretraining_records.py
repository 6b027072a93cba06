"""Names of shards, and the completed ones."""

import os

import numpy as np
import pytest

from files import writing
from tests import toy_pretraining
from training import pretraining_records, record_files, records

_MADE_WITH = toy_pretraining.metadata_of(
    num_records=0,
    flags={"random_seed": 40, "masking": (80.0, 10.0, 10.0)},
)


def _store(*record_paths, is_sharded=True):
    return pretraining_records.PretrainingRecords(
        record_paths=record_paths, made_with=_MADE_WITH, is_sharded=is_sharded
    )


def _batches(num_records=3):
    return [{"x": np.arange(num_records)[:, np.newaxis]}]


def test_names_of_shards():
    store = _store("a/x.rec", "b/y")
    assert store.paths_of(7) == ["a/x-00007.rec", "b/y-00007"]
    assert _store("a/x.rec", is_sharded=False).paths_of(0) == ["a/x.rec"]


def test_outputs_are_all_that_may_be_replaced(tmp_path):
    (tmp_path / "x-00007.rec").touch()
    store = _store(str(tmp_path / "x.rec"))
    assert {os.path.basename(path) for path in store.outputs()} == {
        *("x-00000.rec", "x-00000.rec.meta.json"),
        *("x-00007.rec", "x-00007.rec.meta.json"),
    }
    store = _store(str(tmp_path / "x.rec"), is_sharded=False)
    names = [str(tmp_path / "x.rec"), str(tmp_path / "x.rec.meta.json")]
    assert store.outputs() == names


def test_holds_what_it_wrote(tmp_path):
    paths = [str(tmp_path / name) for name in "ab"]
    store = _store(*paths)
    assert not store.holds(2, "text")
    assert store.write(2, _batches(), "text") == {
        f"{paths[0]}-00002": 2,
        f"{paths[1]}-00002": 1,
    }
    assert store.holds(2, "text")
    assert not store.holds(2, "other text")
    assert not store.holds(1, "text")
    metadata = records.read_metadata(f"{paths[0]}-00002")
    assert metadata.flags["random_seed"] == 42
    assert metadata.text_sha256 == "text"
    assert metadata.num_records == 2
    os.remove(f"{paths[1]}-00002")
    assert not store.holds(2, "text")


def test_a_failure_leaves_no_sidecar_for_other_records(tmp_path):
    store = _store(str(tmp_path / "a"))
    store.write(0, _batches(), "text")

    def failing():
        yield from _batches(5)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        store.write(0, failing(), "text")
    assert [path.name for path in tmp_path.iterdir()] == ["a-00000"]
    assert len(record_files.RecordFiles([str(tmp_path / "a-00000")])) == 3
    assert not store.holds(0, "text")


@pytest.mark.parametrize("is_there", [False, True], ids=["made", "held"])
def test_remains_of_killed_runs_go_and_others_stay(tmp_path, is_there):
    store = _store(str(tmp_path / "a"))
    if is_there:
        store.write(0, _batches(), "text")
    path = str(tmp_path / "a-00000")
    own = writing.aside(path)
    # No process has this number: it is beyond what systems allow.
    dead = own.replace(f".{os.getpid()}.", ".99999999.")
    alive = own.replace(f".{os.getpid()}.", f".{os.getppid()}.")
    foreign = own.replace(f".{os.getpid()}.", ".name.")
    for name in (dead, alive, foreign):
        open(name, "w").close()
    if is_there:
        assert not store.holds(0, "another text") and os.path.exists(dead)
        assert store.holds(0, "text")
    else:
        store.write(0, _batches(), "text")
    assert not os.path.exists(dead)
    assert os.path.exists(alive)
    assert os.path.exists(foreign)


def test_others_are_the_numbered_files_not_written(tmp_path):
    store = _store(str(tmp_path / "a.rec"))
    for shard in range(3):
        store.write(shard, _batches(), "text")
    (tmp_path / "a-notes.rec").touch()
    (tmp_path / "a-7.rec").touch()
    names = [str(tmp_path / f"a-{k:05d}.rec") for k in range(3)]
    assert store.others(names) == []
    assert store.others(names[:1]) == names[1:]
    assert _store("gs://bucket/a.rec").others([]) == []
