"""Checks of output paths before a program starts its work."""

import os
import shutil
import stat
from collections.abc import Iterable

from absl import logging

from files import paths


def check_files(names: Iterable[str], inputs: Iterable[str] = ()) -> None:
    """Checks the files that a program will write.

    Every program that writes files calls this with all of them at its start.
    No file is created.

    Args:
        names: the files to be written.
        inputs: the files that the program reads, patterns expanded.

    Raises:
        OSError: as `check_file`.
        ValueError: an output is the same file as an input or another output,
            possibly under another name.
    """
    read = {_identity(path): path for path in inputs}
    written: dict[object, str] = {}
    for path in names:
        check_file(path)
        if is_stream(path):
            continue
        identity = _identity(path)
        if identity in read:
            raise ValueError(
                f"{path} must not be written: it is the input "
                f"{read[identity]}. Choose another output."
            )
        if identity in written:
            raise ValueError(
                "Outputs must be different files; "
                f"{written[identity]} and {path} are the same file."
            )
        written[identity] = path


def check_file(path: str) -> None:
    """Checks that a file can be written, without creating it.

    Raises:
        OSError: the path is a folder, or its folder cannot be created or
            written.
    """
    if paths.is_remote(path):
        return
    if os.path.isdir(path):
        raise IsADirectoryError(
            f"{path} must be the name of a file to write; it is a folder."
        )
    if is_stream(path):
        if not os.access(path, os.W_OK):
            raise PermissionError(f"There is no permission to write to {path}.")
        return
    # The target, because links are followed.
    check_folder(os.path.dirname(os.path.realpath(path)))


def warn_of_others(names: Iterable[str]) -> None:
    """Warns of numbered files of an earlier run with more files.

    A glob over the files of this run would match them too.
    """
    for path in names:
        logging.warning(
            "%s is from an earlier run with more files. Delete it, or a glob "
            "will match the files of both runs.",
            path,
        )


def check_seekable(names: Iterable[str]) -> None:
    """Checks that files are regular, as random access requires.

    Raises:
        ValueError: a file is a device, a pipe or a socket.
    """
    for path in filter(is_stream, names):
        raise ValueError(
            f"{path} must be a regular file: this format cannot be written to "
            "a device or a pipe."
        )


def is_stream(path: str) -> bool:
    """Returns whether a path leads to a device, a pipe or a socket.

    Such a file is written in place, and never replaced by a regular file.
    """
    if paths.is_remote(path):
        return False
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _identity(path: str) -> tuple[object, ...]:
    """Returns an identity of a file, which need not exist.

    It is independent of links and of folders mounted twice.
    """
    if paths.is_remote(path):
        return (path,)
    there, missing = os.path.realpath(path), []
    while not os.path.exists(there):
        there, name = os.path.split(there)
        missing.append(name)
    found = os.stat(there)
    return (found.st_dev, found.st_ino, *missing)


def check_folder(path: str) -> None:
    """Checks that files can be written into a folder, which may be missing.

    Raises:
        OSError: it, or the folder to create it in, is not a folder or not
            writable.
    """
    if paths.is_remote(path):
        return
    there = path or "."
    while not os.path.lexists(there):
        there = os.path.dirname(there) or "."
    inside = f", so {path} cannot be created" if there != path else ""
    if not os.path.isdir(there):
        raise NotADirectoryError(
            f"{there} must be a folder to write in; it is a file{inside}."
        )
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f"No permission to write in {there}{inside}.")


def require_space(folder: str, num_bytes: int, purpose: str) -> None:
    """Checks that a folder's disk has enough free space.

    Args:
        folder: an existing folder.
        num_bytes: required free bytes.
        purpose: their use, for the message.

    Raises:
        OSError: less space is free.
    """
    free = shutil.disk_usage(folder).free
    if free < num_bytes:
        raise OSError(
            f"{purpose} needs {megabytes(num_bytes)} in "
            f"{os.path.abspath(folder)}; {megabytes(free)} are free. Make "
            "room, or write elsewhere."
        )


def megabytes(num_bytes: int) -> str:
    """Formats a number of bytes in megabytes (10^6)."""
    return f"{num_bytes / 1e6:,.1f} MB"
