"""Lines as the release reads them (BEHAVIOUR of tf.gfile, measured)."""

import bz2
import gzip
import io
import lzma
import shlex
import subprocess
import sys
import tarfile

import pytest

from bert.files import lines


def _read(tmp_path, content: bytes) -> list[str]:
    path = tmp_path / "text"
    path.write_bytes(content)
    return list(lines.read_lines(str(path)))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\rb\n", ["ab"]),
        (b"a\n\r", ["a"]),
        (b"a\n\r\n", ["a", ""]),
        ("a\u2028b\x0bc\x85d\n".encode(), ["a\u2028b\x0bc\x85d"]),
        (b"\xef\xbb\xbfa\n", ["\ufeffa"]),
    ],
)
def test_lines_end_at_line_feeds_alone(tmp_path, content, expected):
    assert _read(tmp_path, content) == expected


@pytest.mark.parametrize(
    "content", [b"", b"a\n\r", b"\r\r", b"a\rb\nc\r", b"x\n\ny", "é\n".encode()]
)
def test_lines_are_those_of_gfile(tmp_path, content):
    tf = pytest.importorskip("tensorflow")
    path = tmp_path / "text"
    path.write_bytes(content)
    with tf.io.gfile.GFile(str(path)) as file:
        expected = [line.removesuffix("\n") for line in iter(file.readline, "")]
    assert list(lines.read_lines(str(path))) == expected


def test_a_remote_file_has_all_its_lines_and_its_kind_is_told(tmp_path):
    (tmp_path / "text").write_text("a\nb\n")
    (tmp_path / "zipped").write_bytes(gzip.compress(b"text"))
    folder = f"file://{tmp_path}"  # Through TensorFlow.
    assert list(lines.read_lines(f"{folder}/text")) == ["a", "b"]
    with pytest.raises(ValueError, match=r"zipped: .* is a gzip file"):
        list(lines.read_lines(f"{folder}/zipped"))


def test_lines_may_span_chunks(tmp_path):
    long = "x" * (3 << 20)
    assert _read(tmp_path, f"{long}\ny".encode()) == [long, "y"]


def test_invalid_utf8_is_named_where_carriage_returns_are_dropped(tmp_path):
    with pytest.raises(ValueError, match=r"line 1: not UTF-8 .*0xe9"):
        _read(tmp_path, b"abc\rd\xe9f\n")


def test_invalid_utf8_is_named_by_file_and_line(tmp_path):
    with pytest.raises(ValueError, match=r"text, line 2: not UTF-8 .*0xff"):
        _read(tmp_path, b"good\nb\xffd\n")


@pytest.mark.parametrize(
    ("encoding", "end"), [("cp1252", "\r\n"), ("utf-16", "\n")]
)
def test_command_of_the_message_converts_the_file(tmp_path, encoding, end):
    text = f"niño “1”{end}señal{end}"
    with pytest.raises(ValueError, match="is converted by: python ") as error:
        _read(tmp_path, text.encode(encoding))
    command = str(error.value).partition("is converted by: python ")[2]
    subprocess.run([sys.executable, *shlex.split(command)], check=True)
    path = tmp_path / "text"
    assert list(lines.read_lines(str(path))) == text.split(end)[:-1]
    assert (tmp_path / "text.old").read_bytes() == text.encode(encoding)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (gzip.compress(b"text", mtime=0), "gzip"),
        (bz2.compress(b"text"), "bzip2"),
        (bz2.compress(b""), "bzip2"),
        (lzma.compress(b"text"), "xz"),
        (b"PK\x03\x04", "zip"),
        (b"PK\x05\x06", "zip"),
        (b"PAR1\x15\x04", "Parquet"),
        (b"\x28\xb5\x2f\xfdtext", "zstd"),
        (b"7z\xbc\xaf\x27\x1c", "7z"),
        (b"Rar!\x1a\x07\0", "rar"),
        (b"%PDF-1.7", "PDF"),
        (tarfile.TarInfo("text").tobuf(), "tar"),
    ],
)
def test_compressed_file_is_told_by_its_first_bytes(tmp_path, content, kind):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"text\.txt: .* is a {kind} file"):
        list(lines.read_lines(str(path)))


@pytest.mark.parametrize(
    "text", [b"BZh9 is text", b"PK", b"7z", b"%PDF", b"PAR1 is a receptor", b""]
)
def test_text_is_not_taken_for_a_compressed_file(text):
    assert lines.kind_of(io.BytesIO(text)) is None
