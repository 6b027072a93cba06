"""Readers of raw text files: plain, compressed or in archives.

Archives are streamed from a local disk or a remote store; nothing is extracted
to disk.
"""

import bz2
import codecs
import contextlib
import dataclasses
import functools
import gzip
import itertools
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO

from absl import logging

from files import lines, messages, paths

_CHUNK_BYTES = 1 << 20
_OPENERS: dict[str | None, Callable[..., IO]] = {
    "xz": lzma.open,
    "gzip": gzip.open,
    "bzip2": bz2.open,
}
_SUFFIXES = {".xz": "xz", ".gz": "gzip", ".bz2": "bzip2"}
_PARQUET = "Parquet"
_ARCHIVES = (".tar", ".tgz", ".txz", ".tbz2", ".tar.gz", ".tar.xz", ".tar.bz2")
_DAMAGE = (lzma.LZMAError, zlib.error, EOFError, gzip.BadGzipFile)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """An opened text file or archive member.

    Attributes:
        name: for messages, a path or `archive!member`.
        file: uncompressed bytes; valid until the next source is requested.
        is_seekable: whether it supports random access.
    """

    name: str
    file: IO[bytes]
    is_seekable: bool = False


def open_sources(path: str) -> Iterator[Source]:
    """Yields a file, or the members of a tar archive.

    Tar archives are recognized by the suffix, `.tar` or `.tar.gz` and the
    like; other compression by the first bytes, in an archive too. Members
    come in archive order; folders, links and hidden files (`._name`) are
    skipped.

    Raises:
        OSError: the file cannot be opened.
        ValueError: the file is damaged, truncated, or in an unsupported format
            such as zip; names the file.
    """
    with paths.open_to_read(path) as raw, naming_damage(path):
        if not path.lower().endswith(_ARCHIVES):
            file = _uncompressed(path, raw)
            yield Source(name=path, file=file, is_seekable=file is raw)
            return
        try:
            archive = tarfile.open(fileobj=raw, mode="r|*")  # noqa: SIM115
        except TypeError as error:
            # Raised by tarfile for a truncated gzip header.
            raise EOFError("no whole header") from error
        with archive:
            yield from _members(path, archive)


def _members(path: str, archive: tarfile.TarFile) -> Iterator[Source]:
    skipped = []
    for member in archive:
        is_hidden = member.name.rsplit("/", 1)[-1].startswith(".")
        is_text = member.isfile() and not is_hidden
        content = archive.extractfile(member) if is_text else None
        if content is not None:
            name = f"{path}!{member.name}"
            with naming_damage(name):
                file = _uncompressed(name, content)
            yield Source(name=name, file=file)
        elif not member.isdir():
            skipped.append(member.name)
    if skipped:
        logging.warning(
            "%s: skipped hidden files and links: %s.",
            path,
            messages.listed(skipped),
        )


def _uncompressed(name: str, file: IO[bytes]) -> IO[bytes]:
    """Opens a file and decompresses it if necessary."""
    kind = lines.kind_of(_head(file))
    promised = _SUFFIXES.get(name[name.rfind(".") :].lower())
    if promised and kind is None:
        raise EOFError(f"it does not begin like a {promised} file")
    while kind in _OPENERS:
        file = _OPENERS[kind](file, "rb")
        kind = lines.kind_of(_head(file))
    if kind and kind != _PARQUET:
        raise ValueError(
            f"{name}: must be text, or text compressed by gzip, xz or bzip2; "
            f"it is a {kind} file. Extract the text first"
            + (", or name it as .tar." if kind == "tar" else ".")
        )
    return file


def _head(file: IO[bytes]) -> bytes:
    if hasattr(file, "peek"):
        return file.peek(lines.SIGNATURE_BYTES)[: lines.SIGNATURE_BYTES]
    head = file.read(lines.SIGNATURE_BYTES)  # A remote file has no `peek`.
    file.seek(0)
    return head


def read_lines(source: Source, encoding: str) -> Iterator[str]:
    """Yields the decoded lines of a source, without line ends.

    Lines end at "\\n" or "\\r\\n"; a byte-order mark at the start is dropped.

    Raises:
        ValueError: invalid bytes in `encoding`, or a damaged archive; names
            the file and the line.
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    # Lines may have any length: their parts are joined only once.
    parts: list[str] = []
    number = 0
    with naming_damage(source.name):
        while True:
            chunk = source.file.read(_CHUNK_BYTES)
            if not number and lines.kind_of(chunk) == _PARQUET:
                raise ValueError(
                    f"{source.name}: this is a Parquet file; pass "
                    "--input_format=parquet."
                )
            try:
                text = decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                good = error.object[: error.start].decode(encoding, "ignore")
                number += good.count("\n") + 1
                raise ValueError(
                    f"{source.name}, line {number}: not {encoding} "
                    f"(byte {error.object[error.start]:#04x}). Name the "
                    "encoding of the file, for example --encoding=latin-1."
                ) from error
            if not (number or parts):
                text = text.removeprefix(lines.BYTE_ORDER_MARK)
            *ended, rest = text.split("\n")
            if ended:
                ended[0] = "".join([*parts, ended[0]])
                parts.clear()
                number += len(ended)
                for line in ended:
                    yield line.removesuffix("\r")
            if rest:
                parts.append(rest)
            if not chunk:
                break
    if last := "".join(parts):
        yield last.removesuffix("\r")


def utf8_chunks(source: Source, encoding: str, size: int) -> Iterator[bytes]:
    """Yields a source in UTF-8, without a byte-order mark.

    Args:
        source: the source.
        encoding: of the source.
        size: number of bytes read at a time.
    """
    chunks = iter(functools.partial(source.file.read, size), b"")
    texts = codecs.iterdecode(chunks, encoding)
    first = next(texts, "").removeprefix("\ufeff")
    yield from codecs.iterencode(itertools.chain([first], texts), "utf-8")


@contextlib.contextmanager
def naming_damage(name: str) -> Iterator[None]:
    """Converts errors of damaged files to ValueError naming the file."""
    try:
        yield
    except (*_DAMAGE, OSError, tarfile.TarError, OverflowError) as error:
        # bz2 raises OSError without errno for damaged data.
        if getattr(error, "errno", None) is not None:
            raise
        raise ValueError(
            f"{name}: damaged or truncated ({error}). Download it again."
        ) from error
