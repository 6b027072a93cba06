import pathlib
import random
import shutil

import numpy as np
import pytest

from bert.records import framing, offsets, tfrecords

_NUM_RECORDS = offsets.LEAST_RECORDS


@pytest.fixture
def indexed(tmp_path):
    """A file of records of different lengths, with its index."""
    path = str(tmp_path / "records")
    rng = random.Random(1)
    sizes = [rng.randint(1, 60) for _ in range(_NUM_RECORDS)]
    tfrecords.write_batches(
        [path],
        [{"x": np.arange(size)[np.newaxis] * 99} for size in sizes],
        with_indices=True,
    )
    return path


def _scanned(path):
    copy = shutil.copy(path, f"{path}.copy")  # It has no index.
    return offsets.read(copy).tolist()


def test_index_has_the_offsets_that_a_scan_finds(indexed):
    expected = _scanned(indexed)
    assert len(set(np.diff(expected))) > 20
    # A scan would end here.
    with open(indexed, "r+b") as file:
        file.seek(expected[1])
        file.write(b"\xff" * 8)
    with pytest.raises(ValueError, match="record 1 at byte"):
        _scanned(indexed)
    starts = offsets.read(indexed)
    assert starts.tolist() == expected
    assert starts.dtype == np.int64


def test_offsets_above_four_gigabytes_are_right(indexed):
    offsets.write(indexed, [2**32 - 1] * _NUM_RECORDS)
    frame_sizes = np.load(offsets.index_path(indexed))
    assert np.cumsum(frame_sizes, dtype=np.int64).tolist() == [
        number * (2**32 - 1) for number in range(1, _NUM_RECORDS + 1)
    ]


def test_fingerprint_is_the_same_without_the_index(indexed):
    fingerprint = tfrecords.RecordFiles([indexed]).fingerprint()
    offsets.remove(indexed)
    assert tfrecords.RecordFiles([indexed]).fingerprint() == fingerprint


def _longer(path):
    with open(path, "ab") as file:
        file.write(framing.frame(b"one more"))


def _rewrite(path, change):
    """Replaces the bytes, which the ends of the first two records divide."""
    first, end = _scanned(path)[1:3]
    path = pathlib.Path(path)
    path.write_bytes(change(path.read_bytes(), first, end))


def _shorter(path):
    _rewrite(path, lambda content, first, _: content[first:])


def _of_other_lengths(path):
    """As long in all; the first two records change places."""
    _rewrite(path, lambda c, first, end: c[first:end] + c[:first] + c[end:])


def _exchange_sizes(path, place):
    """Exchanges a size with the first later one that differs from it."""
    path = offsets.index_path(path)
    frame_sizes = np.load(path)
    one = 1 + int(np.argmax(frame_sizes[1:] != frame_sizes[place]))
    frame_sizes[[one, place]] = frame_sizes[[place, one]]
    np.save(path, frame_sizes)


def _write_index(content):
    def write(path):
        with open(offsets.index_path(path), "wb") as file:
            file.write(content)

    return write


def _save_index(array):
    return lambda path: np.save(offsets.index_path(path), array)


@pytest.mark.parametrize(
    "change",
    [
        _longer,
        _shorter,
        _of_other_lengths,
        lambda path: _exchange_sizes(path, _NUM_RECORDS // 2),
        lambda path: _exchange_sizes(path, -1),
        *map(_write_index, (b"", b"\x93NUMPY", b"[1, 2]", b"\x80\x04N.")),
        _save_index(np.ones(3)),
        _save_index(np.ones((1, 1), np.uint32)),
        _save_index(np.ones(0, np.uint32)),
    ],
)
def test_a_damaged_index_and_that_of_other_records_are_not_used(
    indexed, caplog, change
):
    change(indexed)
    assert offsets.read(indexed).tolist() == _scanned(indexed)
    assert "records.index.npy is not the index of" in caplog.text


def test_wrong_offset_between_the_samples_is_named_when_read(indexed):
    path = offsets.index_path(indexed)
    frame_sizes = np.load(path)
    frame_sizes[4:6] += np.array([1, -1]).astype(np.uint32)
    np.save(path, frame_sizes)
    files = tfrecords.RecordFiles([indexed])
    with pytest.raises(ValueError, match=r"records, record 4 at byte"):
        files.read(range(_NUM_RECORDS))


def test_written_file_loses_its_earlier_index(indexed, tmp_path):
    def failing():
        yield {"x": np.zeros((3, 2), int)}
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        tfrecords.write_batches([indexed], failing(), with_indices=True)
    assert [path.name for path in tmp_path.iterdir()] == ["records"]


def test_index_that_a_glob_matched_is_left_out(indexed):
    path = offsets.index_path(indexed)
    assert tfrecords.RecordFiles([indexed, path]).paths == (indexed,)


def test_file_of_few_records_has_no_index(tmp_path):
    for name, number in (("few", _NUM_RECORDS - 1), ("many", _NUM_RECORDS)):
        tfrecords.write_batches(
            [str(tmp_path / name)],
            [{"x": np.zeros((number, 2), int)}],
            with_indices=True,
        )
    assert {path.name for path in tmp_path.iterdir()} == {
        *("few", "many", "many.index.npy")
    }
