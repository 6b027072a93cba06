"""Zip files unpacked into a folder, with nothing outside it."""

import os
import pathlib
import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterable

from files import destinations

_JUNK_FOLDER = "__MACOSX"
_JUNK_FILES = frozenset({".DS_Store", "Icon\r", "Thumbs.db"})


class DamagedArchiveError(ValueError):
    """A file is no zip file, or not whole."""


def unpack(path: str, folder: str, inside: str = "") -> list[str]:
    """Unpacks a zip file, without the folder that may be around everything.

    Every file is checked against the CRC that the archive holds. What a
    desktop left in it (`__MACOSX`, `.DS_Store`, `Icon`) stays out.

    Args:
        path: of the zip file.
        folder: where to; made if missing.
        inside: a folder of the archive, such as "a/b/": only its files.

    Returns:
        The names of the files below `folder`, sorted.

    Raises:
        DamagedArchiveError: the file is no zip file, or damaged; a part of it
            may have been unpacked.
        OSError: there is no room, or no right to write.
        ValueError: an entry is encrypted, a link, given twice or outside of
            the folder.
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
            destinations.require_space(folder, total, f"Unpacking {path}")
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
            f"{path}: no zip file, or a damaged one ({error})."
        ) from error
    return sorted(names)


def _is_junk(name: str) -> bool:
    parts = name.split("/")
    return parts[0] == _JUNK_FOLDER or parts[-1] in _JUNK_FILES


def _names(
    path: str, entries: Iterable[zipfile.ZipInfo], depth: int
) -> list[str]:
    """Lists the names of entries, without the one folder around them all.

    Args:
        path: of the zip file.
        entries: of it.
        depth: folders around them that are left out in any case.
    """
    split = [_parts(path, entry)[depth:] for entry in entries]
    if not split:
        raise ValueError(f"{path}: the zip file must hold files; it has none.")
    around = {parts[0] if len(parts) > 1 else None for parts in split}
    if len(around) == 1 and None not in around:
        split = [parts[1:] for parts in split]
    names = ["/".join(parts) for parts in split]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{path}: holds {twice!r} twice; refused.")
    return names


def _parts(path: str, entry: zipfile.ZipInfo) -> tuple[str, ...]:
    """Splits the name of an entry, if it may be unpacked."""
    # `orig_filename` is as stored, before Python mends it.
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
            f"{path}: holds {name!r}, which may lie outside of its folder; "
            "refused."
        )
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise ValueError(f"{path}: holds {name!r}, a link; refused.")
    if entry.flag_bits & 1:
        raise ValueError(f"{path}: holds {name!r}, encrypted; refused.")
    return parts
