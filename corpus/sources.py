"""Reader of plain and compressed text files, local or remote."""

import bz2
import contextlib
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import IO

from files import lines, paths

_CHUNK_BYTES = 1 << 20
_OPENERS: dict[str | None, Callable[..., IO]] = {
    "xz": lzma.open,
    "gzip": gzip.open,
    "bzip2": bz2.open,
}
_SUFFIXES = {".xz": "xz", ".gz": "gzip", ".bz2": "bzip2"}
_DAMAGE = (lzma.LZMAError, zlib.error, EOFError, gzip.BadGzipFile)


@contextlib.contextmanager
def open_to_read(path: str) -> Iterator[IO[bytes]]:
    """Opens a file, decompressed; compression is known by the first bytes.

    Raises:
        OSError: the file cannot be opened.
        ValueError: the file is damaged, truncated, or in an unsupported format
            such as zip; names the file. This includes errors of reading it.
    """
    try:
        with paths.open_to_read(path) as raw:
            file: IO[bytes] = raw
            kind = lines.kind_of(_head(file))
            promised = _SUFFIXES.get(path[path.rfind(".") :].lower())
            if promised and kind is None:
                raise EOFError(f"it does not begin like a {promised} file")
            while kind in _OPENERS:
                file = _OPENERS[kind](file, "rb")
                kind = lines.kind_of(_head(file))
            if kind:
                raise ValueError(
                    f"{path}: must be text, or text compressed by gzip, xz or "
                    f"bzip2; it is a {kind} file. "
                    + (
                        "Pass --input_format=parquet."
                        if kind == "Parquet"
                        else "Extract the text first."
                    )
                )
            yield file
    except (*_DAMAGE, OSError) as error:
        # bz2 raises OSError without errno for damaged data.
        if getattr(error, "errno", None) is not None:
            raise
        raise ValueError(
            f"{path}: damaged or truncated ({error}). Download it again."
        ) from error


def _head(file: IO[bytes]) -> bytes:
    if hasattr(file, "peek"):
        return file.peek(lines.SIGNATURE_BYTES)[: lines.SIGNATURE_BYTES]
    head = file.read(lines.SIGNATURE_BYTES)  # A remote file has no `peek`.
    file.seek(0)
    return head


def read_lines(path: str) -> Iterator[str]:
    """Yields the lines of a UTF-8 file, without line ends.

    Lines end at "\\n" or "\\r\\n"; a byte-order mark at the start is dropped.

    Raises:
        OSError, ValueError: as `open_to_read`; or a line is not UTF-8, which
            the message names.
    """
    with open_to_read(path) as file:
        for number, line in enumerate(_raw_lines(file), start=1):
            try:
                text = line.removesuffix(b"\r").decode("utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path}, line {number}: not UTF-8 (byte "
                    f"{line[error.start]:#04x}). Convert the text first, for "
                    "example with iconv."
                ) from error
            if number == 1:
                text = text.removeprefix(lines.BYTE_ORDER_MARK)
            yield text


def _raw_lines(file: IO[bytes]) -> Iterator[bytes]:
    # Lines may have any length: their parts are joined only once.
    parts: list[bytes] = []
    while chunk := file.read(_CHUNK_BYTES):
        *ended, rest = chunk.split(b"\n")
        if ended:
            ended[0] = b"".join([*parts, ended[0]])
            parts.clear()
            yield from ended
        parts.append(rest)
    if last := b"".join(parts):
        yield last
