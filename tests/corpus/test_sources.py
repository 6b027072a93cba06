"""Compressed files, archives and encodings."""

import bz2
import gzip
import io
import lzma
import tarfile
import time

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


def test_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        _lines(tmp_path / "missing.txt")


def test_first_bytes_tell_what_is_compressed_not_the_name(tmp_path):
    content = gzip.compress(bz2.compress(_TEXT.encode()))
    for name in ("text.GZ", "text.txt", "text"):
        path = tmp_path / name
        path.write_bytes(content)
        assert _lines(path) == _LINES
        assert _lines(path, "latin-1")[0] == "first"


def test_compressed_members_of_an_archive_are_read(tmp_path):
    path = tmp_path / "books.TAR.GZ"
    members = {
        "a.txt.gz": gzip.compress(_TEXT.encode()),
        "b.xz": lzma.compress(b"B\n"),
        "c.txt": b"C\n",
    }
    _write_archive(path, members)
    assert _lines(path, "utf-8") == [*_LINES, "B", "C"]


def _write_archive(path, members):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


_NOT_TEXT = {
    "zip": b"PK\x03\x04\x14\0",
    "zstd": b"\x28\xb5\x2f\xfd\x04",
    "7z": b"7z\xbc\xaf\x27\x1c",
    "rar": b"Rar!\x1a\x07\x00",
    "PDF": b"%PDF-1.4\n",
}


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
@pytest.mark.parametrize("kind", _NOT_TEXT)
def test_binary_files_are_refused_in_every_encoding(tmp_path, kind, encoding):
    path = tmp_path / "text.txt"
    path.write_bytes(_NOT_TEXT[kind])
    message = rf"text\.txt: must be text.*it is a {kind} file\. Extract"
    with pytest.raises(ValueError, match=message) as error:
        _lines(path, encoding)
    assert "latin-1" not in str(error.value)


def test_archive_in_an_archive_is_refused_by_its_name(tmp_path):
    inner = tmp_path / "inner.tar.gz"
    _write_archive(inner, {"a.txt": b"A\n"})
    for member in ("b.zip", "inner.tar.gz"):
        content = inner.read_bytes() if "tar" in member else _NOT_TEXT["zip"]
        _write_archive(tmp_path / "x.tgz", {"a.txt": b"A\n", member: content})
        with pytest.raises(ValueError, match=rf"x\.tgz!{member}: must be text"):
            _lines(tmp_path / "x.tgz", "latin-1")


@pytest.mark.parametrize("suffix", ["gz", "xz", "bz2", "GZ"])
def test_compressed_file_that_is_cut_or_something_else_is_damaged(
    tmp_path, suffix
):
    path = tmp_path / f"text.{suffix}"
    compress = {"xz": lzma.compress, "bz2": bz2.compress}
    whole = compress.get(suffix, gzip.compress)(_TEXT.encode() * 1000)
    for content in (whole[:-9], b"", b"plain text\n"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"text\.{suffix}: damaged or"):
            _lines(path)


def test_hidden_files_and_links_of_an_archive_are_reported(tmp_path, caplog):
    path = tmp_path / "books.tar"
    with tarfile.open(path, "w") as archive:
        archive.addfile(_directory("books"))
        for name in ("a.txt", "._a.txt"):
            info = tarfile.TarInfo(name)
            info.size = 2
            archive.addfile(info, io.BytesIO(b"A\n"))
        link = tarfile.TarInfo("b.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "a.txt"
        archive.addfile(link)
    assert _lines(path) == ["A"]
    assert "skipped hidden files and links: '._a.txt', 'b.txt'" in (caplog.text)


def test_a_line_may_be_of_any_length(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"x" * (64 << 20) + b"\nlast")
    start = time.process_time()
    assert list(map(len, _lines(path))) == [64 << 20, 4]
    assert time.process_time() - start < 4
