"""Text files, compressed or not, and their lines."""

import bz2
import contextlib
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import IO

from bert.files import lines, paths

# The endings of the names of compressed files.
COMPRESSIONS = {".gz": "gzip", ".xz": "xz", ".bz2": "bzip2"}
_OPENERS: dict[str | None, Callable[..., IO]] = {
    "xz": lzma.open,
    "gzip": gzip.open,
    "bzip2": bz2.open,
}
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
            kind = lines.kind_of(file)
            promised = COMPRESSIONS.get(path[path.rfind(".") :].lower())
            if promised and kind is None:
                raise EOFError(f"it does not begin like a {promised} file")
            while kind in _OPENERS:
                file = _OPENERS[kind](file, "rb")
                kind = lines.kind_of(file)
            if kind:
                raise ValueError(
                    f"{path}: must be text, or text compressed by gzip, xz or "
                    f"bzip2; it is a {kind} file. "
                    + (
                        "Pass --input_format=parquet, or for a task end its "
                        "name in .parquet."
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


def read_lines(path: str) -> Iterator[str]:
    """Yields the lines of a UTF-8 file, without line ends.

    Lines end at "\\n" or "\\r\\n"; a byte-order mark at the start is dropped.

    Raises:
        OSError, ValueError: as when it is opened; or a line is not UTF-8, which
            the message names.
    """
    with open_to_read(path) as file:
        for number, line in enumerate(lines.raw_lines(file), start=1):
            text = lines.utf8(line.removesuffix(b"\r"), path, number)
            if number == 1:
                text = text.removeprefix(lines.BYTE_ORDER_MARK)
            yield text
