import os

import numpy as np
import pytest

from bert.records import offsets, shard_files, sidecars, tfrecords
from tests.support import toy_pretraining as toy

_MADE_WITH = toy.metadata_of(
    num_records=0,
    flags={"random_seed": 40, "masking": (80.0, 10.0, 10.0)},
)


def _store(*record_paths, is_sharded=True):
    return shard_files.ShardFiles(
        record_paths=record_paths, made_with=_MADE_WITH, is_sharded=is_sharded
    )


def _batches(num_records=3):
    return [{"x": np.arange(num_records)[:, np.newaxis]}]


def test_names_of_shards_and_all_that_may_be_replaced(tmp_path):
    store = _store("a/x.rec", "b/y")
    assert store.paths_of(7) == ["a/x-00007.rec", "b/y-00007"]
    path = str(tmp_path / "x.rec")
    (tmp_path / "x-00007.rec").touch()
    assert {os.path.basename(path) for path in _store(path).outputs()} == {
        *("x-00000.rec", "x-00000.rec.meta.json"),
        *("x-00007.rec", "x-00007.rec.meta.json"),
    }
    store = _store(path, is_sharded=False)
    assert store.paths_of(0) == [path]
    assert store.outputs() == [path, f"{path}.meta.json"]


@pytest.mark.parametrize("name", ["a[1].rec", "a*", "a?"])
def test_shards_may_have_any_name_and_others_are_not_theirs(tmp_path, name):
    for stem in (name.removesuffix(".rec"), "a1", "ab"):
        ending = name[name.index(".") :] if "." in name else ""
        (tmp_path / f"{stem}-00007{ending}").touch()
    stem, ending = os.path.splitext(str(tmp_path / name))
    records_of = [f"{stem}-0000{number}{ending}" for number in (0, 7)]
    assert _store(str(tmp_path / name)).outputs() == [
        *records_of,
        *(f"{path}.meta.json" for path in records_of),
    ]


def test_holds_what_it_wrote(tmp_path):
    paths = [str(tmp_path / name) for name in "ab"]
    store = _store(*paths)
    assert not store.holds(2, "text")
    assert store.write(2, _batches(), "text") == {
        f"{paths[0]}-00002": 2,
        f"{paths[1]}-00002": 1,
    }
    assert store.holds(2, "text")
    assert (store.num_records(2), store.num_records(1)) == (3, 0)
    assert not store.holds(2, "other text")
    assert not store.holds(1, "text")
    metadata = sidecars.read_metadata(f"{paths[0]}-00002")
    assert (metadata.flags["random_seed"], metadata.flags["shard"]) == (42, 2)
    assert metadata.text_sha256 == "text"
    assert metadata.num_records == 2
    os.remove(f"{paths[1]}-00002")
    assert not store.holds(2, "text")


def test_index_is_written_with_the_records_and_removed_with_them(tmp_path):
    store = _store(str(tmp_path / "a"))
    store.write(0, _batches(offsets.LEAST_RECORDS), "text")
    assert {path.name for path in tmp_path.iterdir()} == {
        *("a-00000", "a-00000.index.npy", "a-00000.meta.json")
    }
    store.remove(0)
    assert list(tmp_path.iterdir()) == []


def test_a_shard_with_a_damaged_sidecar_is_not_held(tmp_path, caplog):
    store = _store(str(tmp_path / "a"))
    store.write(0, _batches(), "text")
    (tmp_path / "a-00000.meta.json").write_text("{")
    assert not store.holds(0, "text")
    assert "Creating shard 0 again: " in caplog.text
    assert "a-00000.meta.json" in caplog.text
    store.write(0, _batches(), "text")
    assert store.holds(0, "text")


def test_a_failure_leaves_no_sidecar_for_other_records(tmp_path):
    store = _store(str(tmp_path / "a"))
    store.write(0, _batches(), "text")

    def failing():
        yield from _batches(5)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        store.write(0, failing(), "text")
    assert [path.name for path in tmp_path.iterdir()] == ["a-00000"]
    assert len(tfrecords.RecordFiles([str(tmp_path / "a-00000")])) == 3
    assert not store.holds(0, "text")
