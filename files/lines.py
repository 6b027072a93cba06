"""Lines of text, read as the release reads them."""

import re
from collections.abc import Iterable, Iterator

from files import paths

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
SIGNATURE_BYTES = 265


def kind_of(head: bytes) -> str | None:
    """Returns the kind of a compressed file or archive.

    Args:
        head: its first `SIGNATURE_BYTES` bytes.

    Returns:
        For example "gzip" or "zip"; None if it may be text.
    """
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
    with paths.open_to_read(path) as file:
        yield from decoded(_raw_lines(file, path), path)


def decoded(raw_lines: Iterable[bytes], name: str) -> Iterator[str]:
    """Yields lines of UTF-8 text, without their line ends.

    As released (`tf.gfile.GFile.readline`): lines end at "\\n" and nowhere
    else (not at U+2028, U+0085 or a form feed), and every "\\r" is dropped,
    which joins the texts around it.

    Args:
        raw_lines: as yielded by an open file, with or without "\\n".
        name: of the file, for messages.

    Raises:
        ValueError: a line, which the message names, is not UTF-8.
    """
    for number, line in enumerate(raw_lines, start=1):
        text = line.removesuffix(b"\n").replace(b"\r", b"")
        try:
            yield text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{name}, line {number}: not UTF-8 "
                f"(byte {text[error.start]:#04x}). Convert the text first, "
                "for example with iconv."
            ) from error


def _raw_lines(file, path: str) -> Iterator[bytes]:
    # `readline` of remote files decodes and drops bytes, so bytes are iterated.
    # Lines may be of any length: their parts are joined once.
    parts: list[bytes] = []
    is_first = True
    while chunk := file.read(1 << 20):
        if is_first and (kind := kind_of(chunk[:SIGNATURE_BYTES])):
            raise ValueError(
                f"{path}: must be text; it is a {kind} file. Extract the text "
                "first."
            )
        is_first = False
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
