"""Where a program is to write, looked at before it has done its work."""

import os
from collections.abc import Iterable

from files import paths


def check_files(names: Iterable[str]) -> None:
    """Checks that files may be written, as `check_file` does."""
    for name in names:
        check_file(name)


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
    check_folder(os.path.dirname(path))


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
        raise PermissionError(
            f"There must be leave to write in {there}; there is none{inside}."
        )
