"""Lines of text, read as the original reads them."""

import codecs
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import IO

from bert.files import paths

BYTE_ORDER_MARK = "\ufeff"

# The first bytes of files that are not text.
_SIGNATURES = {
    "gzip": rb"\x1f\x8b\x08",
    "xz": rb"\xfd7zXZ\0",
    "bzip2": rb"BZh[1-9](1AY&SY|\x17rE8P)",
    "zip": rb"PK(\x03\x04|\x05\x06)",
    "zstd": rb"\x28\xb5\x2f\xfd",
    "7z": rb"7z\xbc\xaf\x27\x1c",
    "rar": rb"Rar!\x1a\x07",
    "PDF": rb"%PDF-",
    "Parquet": rb"PAR1[\0-\x1f]",
    "tar": rb".{257}ustar(\0|  \0)",
}
_SIGNATURE_BYTES = 265
_CHUNK_BYTES = 1 << 20


def kind_of(file: IO[bytes]) -> str | None:
    """Returns the kind of a compressed file or archive.

    Args:
        file: at its start, where it stays.

    Returns:
        For example "gzip" or "zip"; None if it may be text.
    """
    if hasattr(file, "peek"):
        head = file.peek(_SIGNATURE_BYTES)
    else:  # A remote file.
        head = file.read(_SIGNATURE_BYTES)
        file.seek(0)
    for kind, signature in _SIGNATURES.items():
        if re.match(signature, head, re.DOTALL):
            return kind
    return None


def read_lines(path: str) -> Iterator[str]:
    """Yields the lines of a UTF-8 file as `decoded` does.

    Raises:
        OSError: the file cannot be opened.
        ValueError: a line, which the message names, is not UTF-8; or the file
            is compressed.
    """
    yield from decoded(read_raw_lines(path), path)


def read_raw_lines(path: str) -> Iterator[bytes]:
    """Yields the lines of a file as `raw_lines` does.

    Raises:
        OSError: the file cannot be opened.
        ValueError: the file is compressed.
    """
    with paths.open_to_read(path) as file:
        if kind := kind_of(file):
            raise ValueError(
                f"{path}: must be text; it is a {kind} file. Extract the text "
                "first."
            )
        yield from raw_lines(file)


def to_answer(
    texts: Sequence[str], path: str | None, standard_input: Iterable[bytes]
) -> Iterator[tuple[str, str | ValueError]]:
    """Yields texts to answer, each after its origin; or what is wrong with it.

    Args:
        texts: of a command.
        path: of a file of them, if there are none; "-" or None for lines of
            the standard input.
        standard_input: of the program.

    Raises:
        OSError: the file cannot be opened.
        ValueError: the file is compressed.
    """
    if texts:
        yield from ((f"text {n}", x) for n, x in enumerate(texts, start=1))
        return
    raw, name = standard_input, "standard input"
    if path not in (None, "-"):
        raw, name = read_raw_lines(path), path
    for number, line in enumerate(raw, start=1):
        text: str | ValueError
        try:
            text = utf8(without_end(line), name, number)
        except ValueError as error:
            text = error
        yield f"{name}, line {number}", text


def decoded(raw: Iterable[bytes], name: str) -> Iterator[str]:
    """Yields lines of UTF-8 text, without their line ends.

    As released (`tf.gfile.GFile.readline`): lines end at "\\n" and nowhere
    else (not at U+2028, U+0085 or a form feed), and every "\\r" is dropped,
    which joins the texts around it.

    Args:
        raw: as yielded by an open file, with or without "\\n".
        name: of the file, for messages.

    Raises:
        ValueError: a line, which the message names, is not UTF-8.
    """
    for number, line in enumerate(raw, start=1):
        yield utf8(without_end(line), name, number)


def without_end(line: bytes) -> bytes:
    """Removes the end of a line, and every "\\r", as released."""
    return line.removesuffix(b"\n").replace(b"\r", b"")


def utf8(line: bytes, name: str, number: int) -> str:
    """Decodes a line of a file.

    Raises:
        ValueError: it is not UTF-8; the message names it.
    """
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name}, line {number}: not UTF-8 (byte "
            f"{line[error.start]:#04x})."
            + _conversion(name, line if number == 1 else b"")
        ) from error


def _conversion(path: str, first_line: bytes) -> str:
    """Returns the command that converts a file, which need not have a name.

    The command is one of Python, since Windows has no tool for it.
    """
    if not paths.exists(path):
        return " Convert the text first."
    origin, encoding = "of Western European Windows", "cp1252"
    if first_line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        origin, encoding = "that begins with the mark of UTF-16", "utf-16"
    return (
        f' In Excel, save as "CSV UTF-8". A file {origin} is converted by: '
        f"python -c \"import os; text = open({path!r}, 'rb').read()"
        f".decode('{encoding}'); os.replace({path!r}, {path + '.old'!r}); "
        f"open({path!r}, 'wb').write(text.encode())\""
    )


def raw_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yields the lines of an open file, without "\\n"."""
    # `readline` of remote files decodes and drops bytes, so bytes are iterated.
    # Lines may be of any length: their parts are joined once.
    parts: list[bytes] = []
    while chunk := file.read(_CHUNK_BYTES):
        *ended, rest = chunk.split(b"\n")
        if ended:
            ended[0] = b"".join([*parts, ended[0]])
            parts.clear()
            yield from ended
        parts.append(rest)
    last = b"".join(parts)
    # As released: a rest of carriage returns alone is not a line.
    if last.replace(b"\r", b""):
        yield last
