"""Files of raw text: plain, compressed or in archives, as decoded lines.

Nothing is unpacked to disk: archives are read as streams, from a local disk or
from a remote store.
"""

import bz2
import codecs
import contextlib
import dataclasses
import gzip
import lzma
import tarfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from files import paths

_CHUNK_BYTES = 1 << 20
_OPENERS = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}
_ARCHIVES = (".tar", ".tgz", ".txz", ".tbz2", ".tar.gz", ".tar.xz", ".tar.bz2")
_DAMAGE = (lzma.LZMAError, zlib.error, EOFError, gzip.BadGzipFile)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """One text to read.

    Attributes:
        name: what errors call it: a path, or `archive!member`.
        file: its bytes, uncompressed; good until the next source is asked for.
    """

    name: str
    file: BinaryIO


def open_sources(path: str) -> Iterator[Source]:
    """Yields the text of a file, or those of the files in a tar archive.

    The suffix tells how to read: `.xz`, `.gz`, `.bz2`, `.tar` and tar
    compressed by any of them. Members of an archive come in its order;
    folders, links and hidden files (`._name`) are passed over.

    Raises:
        OSError: the file cannot be opened.
        ValueError: the archive is damaged or cut short; names the file.
    """
    with paths.open_to_read(path) as raw, _naming_damage(path):
        if path.endswith(_ARCHIVES):
            try:
                archive = tarfile.open(fileobj=raw, mode="r|*")  # noqa: SIM115
            except TypeError as error:
                # What tarfile makes of a gzip header that is cut short.
                raise EOFError("no whole header") from error
            with archive:
                yield from _members(path, archive)
            return
        suffix = path[path.rfind(".") :]
        file = _OPENERS[suffix](raw, "rb") if suffix in _OPENERS else raw
        yield Source(name=path, file=file)


def _members(path: str, archive: tarfile.TarFile) -> Iterator[Source]:
    for member in archive:
        is_hidden = member.name.rsplit("/", 1)[-1].startswith(".")
        if member.isfile() and not is_hidden:
            file = archive.extractfile(member)
            yield Source(name=f"{path}!{member.name}", file=file)


def read_lines(source: Source, encoding: str) -> Iterator[str]:
    """Yields the decoded lines of a source, without line ends.

    Lines end at "\\n" or "\\r\\n"; a byte-order mark at the start is dropped.

    Raises:
        ValueError: bytes that are not in `encoding`, or a damaged archive;
            names the file and the line.
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    rest, number = "", 0
    with _naming_damage(source.name):
        while True:
            chunk = source.file.read(_CHUNK_BYTES)
            try:
                text = decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                good = error.object[: error.start].decode(encoding, "ignore")
                line = number + good.count("\n") + 1
                raise ValueError(
                    f"{source.name}, line {line}: not {encoding} "
                    f"(byte {error.object[error.start]:#04x}). Name the "
                    "encoding of the file, for example --encoding=latin-1."
                ) from error
            lines = (rest + text).split("\n")
            if number == 0:
                lines[0] = lines[0].removeprefix("\ufeff")
            rest = lines.pop()
            number += len(lines)
            for line in lines:
                yield line.removesuffix("\r")
            if not chunk:
                break
    if rest:
        yield rest.removesuffix("\r")


@contextlib.contextmanager
def _naming_damage(name: str) -> Iterator[None]:
    try:
        yield
    except (*_DAMAGE, OSError, tarfile.TarError, OverflowError) as error:
        # Without a number, it is bz2's word for damage, not the system's.
        if getattr(error, "errno", None) is not None:
            raise
        raise ValueError(
            f"{name}: damaged or cut short ({error}). Fetch it again."
        ) from error
