"""Checks of output files, made before a program does its work."""

import os
import shutil
import stat
from collections.abc import Iterable

from absl import logging

from files import paths


def check_files(names: Iterable[str], inputs: Iterable[str] = ()) -> None:
    """Checks the files that a program will write.

    Every program that writes files calls this with all of them, before it
    does its work. Nothing is made.

    Args:
        names: the files to be written.
        inputs: the files that the program reads, patterns expanded.

    Raises:
        OSError: as `check_file`.
        ValueError: a file to be written is, under whatever name, one of the
            inputs or another one of the files to be written.
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
                "Each output must be a file of its own; "
                f"{written[identity]} and {path} are the same file."
            )
        written[identity] = path


def check_file(path: str) -> None:
    """Checks that a file may be written; nothing is made.

    Raises:
        OSError: the path is a folder, or its folder cannot be made or written.
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
    # Where a link leads, for links are followed.
    check_folder(os.path.dirname(os.path.realpath(path)))


def warn_of_others(names: Iterable[str]) -> None:
    """Warns of numbered files that an earlier run wrote, and this one did not.

    A pattern that names the files of this run names those too.
    """
    for path in names:
        logging.warning(
            "%s is not of this run: an earlier one wrote more files. Delete "
            "it, or a pattern will read both.",
            path,
        )


def check_seekable(names: Iterable[str]) -> None:
    """Checks that files are none that can only be written from start to end.

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

    Such a file is written in place; it must never be replaced by a regular
    one.
    """
    if paths.is_remote(path):
        return False
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _identity(path: str) -> tuple[object, ...]:
    """Identifies a file, which need not exist, whatever its name here.

    Links, and folders mounted in two places, make no difference.
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
    """Checks that files may be written into a folder; it may be missing.

    Raises:
        OSError: it, or what it would be made in, is no folder or may not be
            written.
    """
    if paths.is_remote(path):
        return
    there = path or "."
    while not os.path.lexists(there):
        there = os.path.dirname(there) or "."
    inside = f", so that {path} cannot be made" if there != path else ""
    if not os.path.isdir(there):
        raise NotADirectoryError(
            f"{there} must be a folder to write in; it is a file{inside}."
        )
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f"No permission to write in {there}{inside}.")


def require_space(folder: str, num_bytes: int, purpose: str) -> None:
    """Checks that a folder's disk has room for so many bytes more.

    Args:
        folder: an existing one.
        num_bytes: needed.
        purpose: what they are for, for the message.

    Raises:
        OSError: there is less room.
    """
    free = shutil.disk_usage(folder).free
    if free < num_bytes:
        raise OSError(
            f"{purpose} needs {megabytes(num_bytes)} in "
            f"{os.path.abspath(folder)}; {megabytes(free)} are free. Make "
            "room, or write elsewhere."
        )


def megabytes(num_bytes: int) -> str:
    """Writes a number of bytes for people, in units of 10^6."""
    return f"{num_bytes / 1e6:,.1f} MB"
