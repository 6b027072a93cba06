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
    """One text to read.

    Attributes:
        name: what errors call it: a path, or `archive!member`.
        file: its bytes, uncompressed; good until the next source is asked for.
        is_seekable: whether it can be read in any order.
    """

    name: str
    file: IO[bytes]
    is_seekable: bool = False


def open_sources(path: str) -> Iterator[Source]:
    """Yields the text of a file, or those of the files in a tar archive.

    The suffix tells a tar archive, `.tar` or tar compressed as `.tar.gz` and
    the like; the first bytes tell what else is compressed, in an archive too.
    Members of an archive come in its order; folders, links and hidden files
    (`._name`) are passed over.

    Raises:
        OSError: the file cannot be opened.
        ValueError: the file is damaged or cut short, or a zip file or the
            like; names it.
    """
    with paths.open_to_read(path) as raw, naming_damage(path):
        if not path.lower().endswith(_ARCHIVES):
            file = _uncompressed(path, raw)
            yield Source(name=path, file=file, is_seekable=file is raw)
            return
        try:
            archive = tarfile.open(fileobj=raw, mode="r|*")  # noqa: SIM115
        except TypeError as error:
            # What tarfile makes of a gzip header that is cut short.
            raise EOFError("no whole header") from error
        with archive:
            yield from _members(path, archive)


def _members(path: str, archive: tarfile.TarFile) -> Iterator[Source]:
    passed_over = []
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
            passed_over.append(member.name)
    if passed_over:
        logging.warning(
            "%s: passed over hidden files and links: %s.",
            path,
            messages.listed(passed_over),
        )


def _uncompressed(name: str, file: IO[bytes]) -> IO[bytes]:
    """Opens what a file holds, compressed or not.

    Raises:
        ValueError: it holds an archive, or not what its suffix says.
    """
    kind = lines.kind_of(_head(file))
    promised = _SUFFIXES.get(name[name.rfind(".") :].lower())
    if promised and kind is None:
        raise EOFError(f"it begins as no {promised} file does")
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
    head = file.read(lines.SIGNATURE_BYTES)  # Of a remote file.
    file.seek(0)
    return head


def read_lines(source: Source, encoding: str) -> Iterator[str]:
    """Yields the decoded lines of a source, without line ends.

    Lines end at "\\n" or "\\r\\n"; a byte-order mark at the start is dropped.

    Raises:
        ValueError: bytes that are not in `encoding`, or a damaged archive;
            names the file and the line.
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    # Lines may be of any length: their parts are joined once.
    parts: list[str] = []
    number = 0
    with naming_damage(source.name):
        while True:
            chunk = source.file.read(_CHUNK_BYTES)
            if not number and lines.kind_of(chunk) == _PARQUET:
                raise ValueError(
                    f"{source.name}: is a Parquet file; pass "
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
                text = text.removeprefix("\ufeff")
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


@contextlib.contextmanager
def naming_damage(name: str) -> Iterator[None]:
    """Makes a ValueError, which names the file, of what damage to it raises."""
    try:
        yield
    except (*_DAMAGE, OSError, tarfile.TarError, OverflowError) as error:
        # Without a number, it is bz2's word for damage, not the system's.
        if getattr(error, "errno", None) is not None:
            raise
        raise ValueError(
            f"{name}: damaged or cut short ({error}). Fetch it again."
        ) from error
