"""Safe unpacking of zip files into a folder."""

import os
import pathlib
import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterable

from files import writing

_JUNK_FOLDER = "__MACOSX"
_JUNK_FILES = frozenset({".DS_Store", "Icon\r", "Thumbs.db"})


class DamagedArchiveError(ValueError):
    """A file is not a zip file, or is damaged."""


def unpack(path: str, folder: str, inside: str = "") -> list[str]:
    """Unpacks a zip file, without a common top-level folder.

    Every file is checked against its CRC in the archive. Metadata of desktop
    systems (`__MACOSX`, `.DS_Store`, `Icon`) is skipped.

    Args:
        path: the zip file.
        folder: the destination; created if missing.
        inside: a folder of the archive, such as "a/b/", to which unpacking is
            limited.

    Returns:
        The names of the files below `folder`, sorted.

    Raises:
        DamagedArchiveError: the file is not a zip file, or is damaged; a part
            of it may have been unpacked.
        OSError: the disk is full, or there is no permission to write.
        ValueError: an entry is encrypted, a link, a duplicate or outside the
            folder.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [
                entry
                for entry in archive.infolist()
                if not entry.is_dir()
                and not _is_junk(entry.filename)
                and entry.filename.startswith(inside)
            ]
            names = _names(path, entries, inside.count("/"))
            os.makedirs(folder, exist_ok=True)
            total = sum(entry.file_size for entry in entries)
            writing.require_space(folder, total, f"Unpacking {path}")
            for entry, name in zip(entries, names, strict=True):
                target = os.path.join(folder, name)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with archive.open(entry) as source, open(target, "xb") as file:
                    shutil.copyfileobj(source, file, 1 << 20)
    except (
        zipfile.BadZipFile,
        EOFError,
        NotImplementedError,
        zlib.error,
    ) as error:
        raise DamagedArchiveError(
            f"{path}: not a zip file, or damaged ({error})."
        ) from error
    return sorted(names)


def _is_junk(name: str) -> bool:
    parts = name.split("/")
    return parts[0] == _JUNK_FOLDER or parts[-1] in _JUNK_FILES


def _names(
    path: str, entries: Iterable[zipfile.ZipInfo], depth: int
) -> list[str]:
    """Returns the names of entries, without `depth` leading folders.

    A common top-level folder is removed as well.
    """
    split = [_parts(path, entry)[depth:] for entry in entries]
    if not split:
        raise ValueError(
            f"{path}: the zip file must contain files; it is empty."
        )
    around = {parts[0] if len(parts) > 1 else None for parts in split}
    if len(around) == 1 and None not in around:
        split = [parts[1:] for parts in split]
    names = ["/".join(parts) for parts in split]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{path}: contains {twice!r} twice; refused.")
    return names


def _parts(path: str, entry: zipfile.ZipInfo) -> tuple[str, ...]:
    """Splits the name of an entry, after checking that it is safe."""
    # `orig_filename` is the stored name, before Python corrects it.
    name = entry.orig_filename
    parts = pathlib.PurePosixPath(name).parts
    windows = pathlib.PureWindowsPath(name)
    if (
        not parts
        or ".." in parts
        or name.startswith("/")
        or "\\" in name
        or "\0" in name
        or windows.drive
    ):
        raise ValueError(
            f"{path}: contains {name!r}, which may be outside the folder; "
            "refused."
        )
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise ValueError(f"{path}: contains {name!r}, a link; refused.")
    if entry.flag_bits & 1:
        raise ValueError(f"{path}: contains {name!r}, encrypted; refused.")
    return parts
