"""Compressed files, archives and encodings."""

import bz2
import gzip
import io
import lzma
import tarfile

import pytest

from corpus import sources

_TEXT = "first\nsecond ä\r\nlast"
_LINES = ["first", "second ä", "last"]


def _lines(path, encoding="utf-8"):
    return [
        line
        for source in sources.open_sources(str(path))
        for line in sources.read_lines(source, encoding)
    ]


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


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "w:bz2"])
def test_archive_gives_its_files_in_its_order(tmp_path, mode):
    path = tmp_path / f"books.tar{mode[1:].replace(':', '.')}"
    with tarfile.open(path, mode) as archive:
        archive.addfile(_directory("books"))
        for name, text in [
            ("books/b.txt", "B\n"),
            ("books/._b.txt", "hidden\n"),
            ("books/a.txt", "A\n"),
        ]:
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    assert _lines(path) == ["B", "A"]


def _directory(name):
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE
    return info


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
def test_lines_decode_from_any_encoding(tmp_path, encoding):
    path = tmp_path / "text.txt"
    path.write_bytes(_TEXT.encode(encoding))
    assert _lines(path, encoding) == _LINES


def test_byte_order_mark_is_dropped_at_the_start_only(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes("\ufeffone\n\ufefftwo\n".encode())
    assert _lines(path) == ["one", "\ufefftwo"]


def test_empty_file_has_no_lines(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"")
    assert _lines(path) == []


def test_lines_and_characters_survive_the_edge_of_a_chunk(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(sources, "_CHUNK_BYTES", 3)
    path = tmp_path / "text.txt"
    path.write_bytes(_TEXT.encode())
    assert _lines(path) == _LINES


@pytest.mark.parametrize("chunk", [1, 4, 1 << 20])
def test_wrong_encoding_names_file_and_line(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(sources, "_CHUNK_BYTES", chunk)
    path = tmp_path / "text.txt"
    path.write_bytes(b"fine\nfine\nna\xefve\n")
    with pytest.raises(
        ValueError, match=r"text\.txt, line 3: not utf-8 \(byte 0xef\)"
    ):
        _lines(path)


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_file_cut_short_is_an_error_that_names_it(tmp_path, suffix):
    compress = {".gz": gzip.compress, ".xz": lzma.compress}[suffix]
    path = tmp_path / f"cut{suffix}"
    path.write_bytes(compress(_TEXT.encode() * 1000)[:-9])
    with pytest.raises(ValueError, match=f"cut{suffix}: damaged or cut short"):
        _lines(path)


def test_archive_that_is_none_is_an_error_that_names_it(tmp_path):
    path = tmp_path / "books.tar.xz"
    path.write_bytes(b"not an archive at all")
    with pytest.raises(ValueError, match=r"books\.tar\.xz: damaged"):
        _lines(path)


def test_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        _lines(tmp_path / "missing.txt")
