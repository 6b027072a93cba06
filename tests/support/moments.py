"""A folder as a kill would leave it, at each moment of a piece of work.

What Python is about to do to the names in a folder, it announces to audit
hooks: a file opened to be written, a name given, replaced or removed. A
process that is killed leaves what is there at one of these moments, or a file
that is partly written, under a name that it has at the next of them.
"""

import contextlib
import hashlib
import os
import pathlib
import shutil
import sys
from collections.abc import Iterator

_CHANGES = ("os.rename", "os.mkdir", "os.remove", "os.rmdir")
_WRITING = os.O_WRONLY | os.O_RDWR


class _Recorder:
    def __init__(self, folder: pathlib.Path, into: pathlib.Path):
        self._folder, self._into = folder, into
        self._is_copying = False
        self.moments: list[pathlib.Path] = []
        self._last = ""

    def note(self, event: str, arguments: tuple) -> None:
        if self._is_copying or not self._changes(event, arguments):
            return
        self._is_copying = True
        try:
            content = digest(self._folder)
            if content != self._last:
                self._last = content
                moment = self._into / f"{len(self.moments):03}"
                shutil.copytree(self._folder, moment, symlinks=True)
                self.moments.append(moment)
        finally:
            self._is_copying = False

    def _changes(self, event: str, arguments: tuple) -> bool:
        if event == "open":
            is_change = bool((arguments[2] or 0) & _WRITING)
        else:
            is_change = event in _CHANGES
        return (
            is_change
            and isinstance(arguments[0], str | os.PathLike)
            and self._folder.exists()
            and any(
                self._folder in pathlib.Path(name).parents
                for name in arguments[: 1 + (event == "os.rename")]
            )
        )


_active: list[_Recorder] = []


def _hook(event: str, arguments: tuple) -> None:
    if _active and (event == "open" or event in _CHANGES):
        _active[-1].note(event, arguments)


sys.addaudithook(_hook)  # It cannot be taken away.


@contextlib.contextmanager
def recorded(
    folder: pathlib.Path, into: pathlib.Path
) -> Iterator[list[pathlib.Path]]:
    """Copies a folder before each change that the block makes in it.

    Yields:
        The copies; they are in `into`, and no two in a row are the same.
    """
    recorder = _Recorder(folder, into)
    _active.append(recorder)
    try:
        yield recorder.moments
    finally:
        _active.remove(recorder)


def digest(folder: pathlib.Path) -> str:
    """Returns a hash of the names in a folder, and of what is in the files."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        total.update(str(path.relative_to(folder)).encode() + b"\0")
        if path.is_file():
            total.update(path.read_bytes())
    return total.hexdigest()


def put_back(moment: pathlib.Path, folder: pathlib.Path) -> None:
    """Makes a folder what it was at a moment."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(moment, folder, symlinks=True)
