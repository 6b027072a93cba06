"""TFRecord files: reading, writing, and every fault in them."""

import concurrent.futures
import gc
import gzip
import os
import random
import struct

import numpy as np
import pytest
import tensorflow as tf

from bert.records import encoding, framing, tfrecords


def _write(path, records):
    path.write_bytes(b"".join(map(framing.frame, records)))
    return str(path)


def _records(count, seed=0):
    rng = random.Random(seed)
    return [rng.randbytes(rng.randint(0, 40)) for _ in range(count)]


def test_frames_are_those_of_tensorflow(tmp_path):
    records = [b"", b"a", b"\0" * 300, *_records(20)]
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for record in records:
            writer.write(record)
    ours = _write(tmp_path / "ours", records)
    assert (tmp_path / "ours").read_bytes() == (
        tmp_path / "theirs"
    ).read_bytes()
    assert list(tf.data.TFRecordDataset(ours).as_numpy_iterator()) == records


def test_other_records_have_another_fingerprint(tmp_path):
    def fingerprint(*files):
        return tfrecords.RecordFiles(
            [_write(tmp_path / f"{n}", part) for n, part in enumerate(files)]
        ).fingerprint()

    records = [b"%03d" % number for number in range(100)]
    found = fingerprint(records[:60], records[60:])
    assert found == fingerprint(records[:60], records[60:])
    # As many records, of the same lengths, of other lengths, in other files.
    changed = [b"x" + record[1:] for record in records]
    for other in (
        (changed[:60], changed[60:]),
        (records[:59], [b"0059", *records[60:]]),
        (records[:59], records[59:]),
    ):
        assert fingerprint(*other) != found
    assert len(fingerprint([b""])) == 16
    # The sample reaches to the last record.
    last = [*records[:39], b"x39"]
    assert fingerprint(last) != fingerprint(records[:40])


def test_reads_records_of_several_files_in_any_order(tmp_path):
    parts = [_records(5, 1), _records(1, 2), _records(7, 3)]
    files = tfrecords.RecordFiles(
        [_write(tmp_path / str(n), part) for n, part in enumerate(parts)]
    )
    records = [record for part in parts for record in part]
    assert len(files) == 13
    assert files.read(range(13)) == records
    indices = [12, 0, 5, 5, 4, 6]
    assert files.read(indices) == [records[index] for index in indices]
    assert files.read(np.array([3])) == [records[3]]
    assert files.read([]) == []


def test_threads_may_share_it(tmp_path):
    records = _records(500)
    files = tfrecords.RecordFiles([_write(tmp_path / "x", records)])

    def reads_right(seed):
        indices = random.Random(seed).sample(range(500), 100)
        return files.read(indices) == [records[index] for index in indices]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(reads_right, range(40)))


def test_remote_files_are_read_alike(tmp_path, monkeypatch):
    records = _records(30)
    path = _write(tmp_path / "x", records)
    # Stands in for a store, whose files are read in blocks.
    monkeypatch.setattr(tfrecords.paths, "is_remote", lambda path: True)
    files = tfrecords.RecordFiles([path])
    assert files.read(range(30)) == records
    (tmp_path / "x").write_bytes((tmp_path / "x").read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"record 29 at byte .* truncated"):
        tfrecords.RecordFiles([path])


@pytest.fixture
def opened(monkeypatch):
    """Lists the remote files as they are opened, each a request to a store."""
    names = []
    original = tfrecords.paths.open_to_read

    def open_to_read(path):
        names.append(path.rpartition("/")[2])
        return original(path)

    monkeypatch.setattr(tfrecords.paths, "open_to_read", open_to_read)
    return names


def test_remote_records_are_read_once_in_blocks_of_all_files(tmp_path, opened):
    parts = [_records(n, n) for n in (50, 0, 3, 40, 64, 1, 130)]
    files = tfrecords.RecordFiles(
        [
            "file://" + _write(tmp_path / str(n), part)
            for n, part in enumerate(parts)
        ]
    )
    records = [record for part in parts for record in part]
    opened.clear()
    assert files.read([70, 70, 64]) == [records[70], records[70], records[64]]
    # The second block of 64: the rest of file 3, and the first of file 4.
    assert opened == ["3", "4"]
    indices = random.Random(1).choices(range(len(records)), k=2000)
    assert files.read(indices) == [records[index] for index in indices]
    # Each of the five blocks is read once, from each of its files.
    assert "".join(sorted(opened)) == "01233445666"


def test_local_files_stay_open_and_are_closed_at_last(tmp_path, monkeypatch):
    # Few, so that some are closed.
    monkeypatch.setattr(tfrecords, "_MAX_OPEN_FILES", 3)
    names = [_write(tmp_path / str(n), [b"%d" % n] * 4) for n in range(9)]
    files = tfrecords.RecordFiles(names)

    def num_open():
        return sum(
            os.path.realpath(f"/proc/self/fd/{name}") in names
            for name in os.listdir("/proc/self/fd")
        )

    assert files.read(range(36)) == [b"%d" % (n // 4) for n in range(36)]
    assert num_open() == 3
    del files
    gc.collect()
    assert num_open() == 0


def test_sidecars_that_a_glob_caught_are_left_out(tmp_path):
    path = _write(tmp_path / "x", [b"a"])
    (tmp_path / "x.meta.json").write_text("{}")
    files = tfrecords.RecordFiles([path, path + ".meta.json"])
    assert files.paths == (path,)
    assert len(files) == 1


def test_an_empty_file_among_others_is_read(tmp_path):
    empty = _write(tmp_path / "empty", [])
    full = _write(tmp_path / "full", [b"a", b"b"])
    files = tfrecords.RecordFiles([empty, full])
    assert files.read([1, 0]) == [b"b", b"a"]


def test_no_record_at_all_and_a_missing_file_are_errors(tmp_path):
    empty = _write(tmp_path / "empty", [])
    with pytest.raises(ValueError, match=r"There are no records.*empty"):
        tfrecords.RecordFiles([empty])
    with pytest.raises(ValueError, match=r"There are no records.*no file"):
        tfrecords.RecordFiles([])
    with pytest.raises(ValueError, match=r"no records.* x\.meta\.json\.$"):
        tfrecords.RecordFiles(["x.meta.json"])
    with pytest.raises(FileNotFoundError):
        tfrecords.RecordFiles([str(tmp_path / "none")])
    assert len(tfrecords.RecordFiles([empty], may_be_empty=True)) == 0


def _two_records(path):
    """Writes two records of 10 bytes: frames of 26 bytes, at 0 and 26."""
    _write(path, [b"0123456789", b"abcdefghij"])
    return bytearray(path.read_bytes())


@pytest.mark.parametrize("size", [27, 33, 34, 38, 51])
def test_a_cut_is_named(tmp_path, size):
    path = tmp_path / "x"
    path.write_bytes(_two_records(path)[:size])
    with pytest.raises(
        ValueError,
        match=rf"x, record 1 at byte 26: .* truncated at byte {size}\.",
    ):
        tfrecords.RecordFiles([str(path)])


@pytest.mark.parametrize("at", [26, 33, 34, 37])
def test_a_damaged_length_is_named(tmp_path, at):
    path = tmp_path / "x"
    data = _two_records(path)
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="x, record 1 at byte 26: the length"):
        tfrecords.RecordFiles([str(path)])


@pytest.mark.parametrize("at", [38, 47, 48, 51])
def test_a_damaged_record_is_named_when_read(tmp_path, at):
    first = _write(tmp_path / "first", [b"a"])
    path = tmp_path / "x"
    data = _two_records(path)
    data[at] ^= 0x80
    path.write_bytes(data)
    files = tfrecords.RecordFiles([first, str(path)])
    assert files.read([0, 1]) == [b"a", b"0123456789"]
    with pytest.raises(ValueError, match=r"x, record 1 at byte 26: .*checksum"):
        files.read([2])


def test_a_file_changed_meanwhile_is_named(tmp_path):
    path = tmp_path / "x"
    files = tfrecords.RecordFiles([_write(path, [b"0123456789"])])
    _write(path, [b"01234", b"5"])
    with pytest.raises(ValueError, match=r"x, record 0 at byte 0: .*changed"):
        files.read([0])


_FRAME = framing.frame(b"0123456789" * 9)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(_FRAME), r"x, .*compressed \(gzip\)"),
        (b"A sentence.\nAnother one.\n", "x, record 0 .*not a TFRecord file"),
    ],
    ids=["gzip", "text"],
)
def test_other_files_are_named(tmp_path, content, message):
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        tfrecords.RecordFiles([str(path)])


def test_a_false_length_with_a_true_checksum_is_a_cut(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(framing.frame(b"a" * 100)[:12])
    assert struct.unpack("<Q", path.read_bytes()[:8]) == (100,)
    with pytest.raises(ValueError, match=r"record 0 at byte 0: .*truncated"):
        tfrecords.RecordFiles([str(path)])


def _batches(sizes):
    """Yields batches of these sizes; record `i` has the number `i`."""
    start = 0
    for size in sizes:
        yield {"x": np.arange(start, start + size)[:, np.newaxis]}
        start += size


def test_records_go_to_the_files_in_turn(tmp_path):
    output = [str(tmp_path / name) for name in "abc"]
    counts = tfrecords.write_batches(output, _batches([256, 256, 15]))
    assert counts == [176, 176, 175]
    (batch,) = _batches([527])
    records = encoding.serialize_batch(batch)
    for turn, path in enumerate(output):
        found = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
        assert found == records[turn::3]


def test_a_failure_leaves_the_earlier_files(tmp_path):
    output = [tmp_path / "a", tmp_path / "b"]
    names = list(map(str, output))
    tfrecords.write_batches(names, _batches([1]))
    before = [path.read_bytes() for path in output]

    def batches():
        yield from _batches([3])
        assert sorted(tmp_path.glob("[ab]")) == output
        raise KeyError("the reader failed")

    with pytest.raises(KeyError, match="the reader failed"):
        tfrecords.write_batches(names, batches())
    assert [path.read_bytes() for path in output] == before
    assert len(list(tmp_path.iterdir())) == 2


def test_more_files_than_records_leave_empty_files(tmp_path):
    output = [str(tmp_path / "deep" / name) for name in "abc"]
    assert tfrecords.write_batches(output, _batches([1])) == [1, 0, 0]
    assert len(tfrecords.RecordFiles(output)) == 1
