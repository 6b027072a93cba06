import random

import numpy as np
import pytest

from bert.records import framing, offsets, tfrecords


@pytest.fixture(autouse=True)
def _always_indexed(monkeypatch):
    monkeypatch.setattr(offsets, "LEAST_RECORDS", 1)


@pytest.fixture
def indexed(tmp_path):
    """A file of 40 records of different lengths, with its index."""
    path = str(tmp_path / "records")
    rng = random.Random(1)
    sizes = [rng.randint(1, 60) for _ in range(40)]
    tfrecords.write_batches(
        [path],
        [{"x": np.arange(size)[np.newaxis] * 99} for size in sizes],
        with_indices=True,
    )
    return path


def _scanned(path):
    return offsets._scan(path).tolist()


def test_index_has_the_offsets_that_a_scan_finds(indexed, monkeypatch):
    expected = _scanned(indexed)
    assert len(set(np.diff(expected))) > 20
    monkeypatch.setattr(offsets, "_scan", None)
    starts = offsets.read(indexed)
    assert starts.tolist() == expected
    assert starts.dtype == np.int64


def test_offsets_above_four_gigabytes_are_right(indexed):
    offsets.write(indexed, [2**32 - 1] * 3)
    (frame_sizes,) = (np.load(offsets.index_path(indexed)),)
    assert np.cumsum(frame_sizes, dtype=np.int64).tolist() == [
        number * (2**32 - 1) for number in (1, 2, 3)
    ]


def test_fingerprint_is_the_same_without_the_index(indexed):
    fingerprint = tfrecords.RecordFiles([indexed]).fingerprint()
    offsets.remove(indexed)
    assert tfrecords.RecordFiles([indexed]).fingerprint() == fingerprint


def _longer(path):
    with open(path, "ab") as file:
        file.write(framing.frame(b"one more"))


def _shorter(path):
    # The first record is left out.
    starts = _scanned(path)
    with open(path, "rb") as file:
        content = file.read()
    with open(path, "wb") as file:
        file.write(content[starts[1] :])


def _of_other_lengths(path):
    # As long in all; the first two records change places.
    starts = _scanned(path)
    with open(path, "rb") as file:
        content = file.read()
    first, second = content[: starts[1]], content[starts[1] : starts[2]]
    assert len(first) != len(second)
    with open(path, "wb") as file:
        file.write(second + first + content[starts[2] :])


@pytest.mark.parametrize("change", [_longer, _shorter, _of_other_lengths])
def test_index_of_an_earlier_file_is_not_used(indexed, caplog, change):
    change(indexed)
    assert offsets.read(indexed).tolist() == _scanned(indexed)
    assert "records.index.npy is not the index of" in caplog.text


@pytest.mark.parametrize("place", ["middle", "last"])
def test_index_of_other_sizes_after_the_first_record_is_not_used(
    indexed, caplog, place
):
    path = offsets.index_path(indexed)
    frame_sizes = np.load(path)
    other = {"middle": len(frame_sizes) // 2, "last": -1}[place]
    # Exchanged with the first later one of another size: the sum is the same.
    one = 1 + int(np.argmax(frame_sizes[1:] != frame_sizes[other]))
    frame_sizes[[one, other]] = frame_sizes[[other, one]]
    np.save(path, frame_sizes)
    assert offsets.read(indexed).tolist() == _scanned(indexed)
    assert "records.index.npy is not the index of" in caplog.text


@pytest.mark.parametrize(
    "content", [b"", b"\x93NUMPY", b"[1, 2]", b"\x80\x04N."], ids=repr
)
def test_damaged_index_is_not_used(indexed, caplog, content):
    with open(offsets.index_path(indexed), "wb") as file:
        file.write(content)
    assert offsets.read(indexed).tolist() == _scanned(indexed)
    assert "records.index.npy is not the index of" in caplog.text


@pytest.mark.parametrize(
    "array", [np.ones(3), np.ones((1, 1), np.uint32), np.ones(0, np.uint32)]
)
def test_another_array_is_not_used(indexed, caplog, array):
    np.save(offsets.index_path(indexed), array)
    assert offsets.read(indexed).tolist() == _scanned(indexed)
    assert "records.index.npy is not the index of" in caplog.text


def test_wrong_offset_between_the_samples_is_named_when_read(indexed):
    path = offsets.index_path(indexed)
    frame_sizes = np.load(path)
    frame_sizes[4:6] += np.array([1, -1]).astype(np.uint32)
    np.save(path, frame_sizes)
    files = tfrecords.RecordFiles([indexed])
    with pytest.raises(ValueError, match=r"records, record 4 at byte"):
        files.read(range(40))


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


def test_file_of_few_records_has_no_index(tmp_path, monkeypatch):
    monkeypatch.setattr(offsets, "LEAST_RECORDS", 4)
    for name, number in (("few", 3), ("many", 4)):
        tfrecords.write_batches(
            [str(tmp_path / name)],
            [{"x": np.zeros((number, 2), int)}],
            with_indices=True,
        )
    assert {path.name for path in tmp_path.iterdir()} == {
        *("few", "many", "many.index.npy")
    }
