"""Folders that several tests only read, made once in a run of pytest.

The processes of `pytest -n` share them. A test that changes a file copies the
folder first.
"""

import fcntl
import hashlib
import pathlib
import shutil
from collections.abc import Callable
from typing import Any


class Folders:
    """The folders of a run.

    Args:
        root: holds them; it is the same for all processes of the run.
    """

    def __init__(self, root: pathlib.Path):
        self._root = root

    def __call__(
        self, make: Callable[..., Any], *arguments: Any, **named: Any
    ) -> pathlib.Path:
        """Returns a folder that a function made, now or for another test.

        Args:
            make: is called with the folder, which is to be made, and the
                rest. It and its arguments are the key of the folder.
            *arguments: of the function.
            **named: of the function.
        """
        key = f"{make.__module__}.{make.__qualname__} {arguments} {named}"
        name = hashlib.sha256(key.encode()).hexdigest()[:16]
        self._root.mkdir(parents=True, exist_ok=True)
        folder = self._root / name / "run"
        with open(self._root / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = self._root / f"{name}.done"
            if not done.exists():
                shutil.rmtree(folder.parent, ignore_errors=True)
                folder.parent.mkdir()
                make(folder, *arguments, **named)
                done.touch()
        return folder
