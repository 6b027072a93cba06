"""Text files, compressed or not, and their lines."""

import bz2
import gzip
import lzma
import time

import pytest

from bert.files import text_files

_TEXT = "first\nsecond ä\r\nlast"
_LINES = ["first", "second ä", "last"]


def _lines(path):
    return list(text_files.read_lines(str(path)))


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [
        ("", bytes),
        (".gz", gzip.compress),
        (".xz", lzma.compress),
        (".bz2", bz2.compress),
    ],
)
def test_compressed_file_reads_as_its_content(tmp_path, suffix, compress):
    path = tmp_path / f"text.txt{suffix}"
    path.write_bytes(compress(_TEXT.encode()))
    assert _lines(path) == _LINES


def test_byte_order_mark_is_dropped_at_the_start_only(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes("\ufeffone\n\ufefftwo\n".encode())
    assert _lines(path) == ["one", "\ufefftwo"]
    path.write_bytes(b"")
    assert _lines(path) == []


@pytest.mark.parametrize("num_lines", [0, 2, 1_000_000])
def test_invalid_utf8_names_file_and_line(tmp_path, num_lines):
    path = tmp_path / "text.txt"
    path.write_bytes(b"fine\n" * num_lines + b"na\xefve\n")
    line = rf"text\.txt, line {num_lines + 1}: not UTF-8 \(byte 0xef\)"
    with pytest.raises(ValueError, match=line):
        _lines(path)


def test_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        _lines(tmp_path / "missing.txt")


def test_first_bytes_tell_what_is_compressed_not_the_name(tmp_path):
    content = gzip.compress(bz2.compress(_TEXT.encode()))
    for name in ("text.GZ", "text.txt", "text"):
        path = tmp_path / name
        path.write_bytes(content)
        assert _lines(path) == _LINES


_NOT_TEXT = {
    "zip": b"PK\x03\x04\x14\0",
    "zstd": b"\x28\xb5\x2f\xfd\x04",
    "7z": b"7z\xbc\xaf\x27\x1c",
    "rar": b"Rar!\x1a\x07\x00",
    "PDF": b"%PDF-1.4\n",
    "tar": gzip.compress(b"\0" * 257 + b"ustar\0"),
}


@pytest.mark.parametrize("kind", _NOT_TEXT)
def test_binary_files_are_refused(tmp_path, kind):
    path = tmp_path / "text.txt"
    path.write_bytes(_NOT_TEXT[kind])
    message = rf"text\.txt: must be text.*it is a {kind} file\. Extract"
    with pytest.raises(ValueError, match=message):
        _lines(path)


@pytest.mark.parametrize("suffix", ["gz", "xz", "bz2", "GZ"])
def test_compressed_file_that_is_not_whole_is_damaged(tmp_path, suffix):
    path = tmp_path / f"text.{suffix}"
    compress = {"xz": lzma.compress, "bz2": bz2.compress}
    whole = compress.get(suffix, gzip.compress)(_TEXT.encode() * 1000)
    middle = len(whole) // 2
    inside = whole[:middle] + b"\xff\0\xff" + whole[middle + 3 :]
    for content in (whole[:-9], inside, b"", b"plain text\n"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"text\.{suffix}: damaged or"):
            _lines(path)


def test_a_line_may_be_of_any_length(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"x" * (64 << 20) + b"\nlast")
    start = time.process_time()
    assert list(map(len, _lines(path))) == [64 << 20, 4]
    assert time.process_time() - start < 4
