"""Damaged TFRecord files: their checksums leave no room for wrong answers."""

import itertools
import random
import struct

import pytest

from bert.records import framing, tfrecords
from tests.fuzz import harness, mutations

_RNG = random.Random(7)
_RECORDS = [_RNG.randbytes(n) for n in (0, 1, 17, 40, 40, 3)]
_FRAMES = [framing.frame(record) for record in _RECORDS]
_GOOD = b"".join(_FRAMES)


def _read(path):
    files = tfrecords.RecordFiles([path])
    return files.read(range(len(files)))


def _is_right(found, content):
    return b"".join(map(framing.frame, found)) == content


def test_records_are_those_of_the_bytes_or_an_error(tmp_path, num_cases):
    goods = [_GOOD, _FRAMES[2], b""]
    cases = mutations.endless(8, goods, mutations.BINARY_WORDS)
    outcome = harness.read_all(
        _read,
        tmp_path / "x.tfrecord",
        itertools.islice(cases, num_cases),
        _is_right,
    )
    assert outcome.num_refused > outcome.num_read


def test_every_flipped_bit_is_found(tmp_path):
    cases = (mutations.flipped(_GOOD, bit) for bit in range(8 * len(_GOOD)))
    outcome = harness.read_all(_read, tmp_path / "x", cases, _is_right)
    assert outcome.num_read == 0


def test_every_cut_inside_a_record_is_found(tmp_path):
    cases = (_GOOD[:end] for end in range(1, len(_GOOD)))
    outcome = harness.read_all(_read, tmp_path / "x", cases, _is_right)
    assert outcome.num_read == len(_FRAMES) - 1


@pytest.mark.parametrize("length", [2**31, 2**60, 2**63 - 1, 2**64 - 1])
def test_an_absurd_length_is_an_error_even_with_its_checksum(tmp_path, length):
    header = struct.pack("<Q", length)
    frame = framing.frame(header)
    # A checksum of eight bytes stands at the end of their frame.
    content = header + frame[-4:] + b"x" * 50
    outcome = harness.read_all(_read, tmp_path / "x", [content], _is_right)
    assert outcome.num_refused == 1
