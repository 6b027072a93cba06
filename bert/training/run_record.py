"""The record of the programs that ran in a folder, `run.jsonl`.

Each program appends a line when it starts, after the checks of its options,
with its command, flags, versions and commit; and a line when it ends, with its
outcome. A later program never changes the lines of an earlier one.
"""

import contextlib
import dataclasses
import datetime
import functools
import importlib.metadata
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import ClassVar, Protocol, TypeVar

from absl import logging

from bert.files import locks, run_files, writing
from bert.training import workers

# Packages whose versions affect results and speed.
_PACKAGES = ("tensorflow", "keras", "numpy", "tensorflow-text")
# Any folder of the clone.
_ROOT = os.path.dirname(os.path.abspath(__file__))
_GIT = ("describe", "--always", "--exclude=*", "--abbrev=40", "--dirty")
# The folders in which this process has started a run.
_started: set[str] = set()


class _RunOptions(Protocol):
    """The options of a run, a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field]]

    @property
    def output_dir(self) -> str: ...


_Options = TypeVar("_Options", bound=_RunOptions)


def recorded(run: Callable[[_Options], None]) -> Callable[[_Options], None]:
    """Makes a script record its outcome, and lock its folder meanwhile.

    Args:
        run: takes options, a dataclass with `output_dir`, and calls
            `write_start` after its checks.
    """

    @functools.wraps(run)
    def run_recorded(options: _Options) -> None:
        started = time.monotonic()
        with locked(options.output_dir):
            try:
                run(options)
            except (KeyboardInterrupt, SystemExit):
                write_end("interrupted")
                raise
            except Exception as error:
                write_end(f"{type(error).__name__}: {error}")
                raise
            write_end("finished")
        seconds = int(time.monotonic() - started)
        logging.info("Finished in %s.", datetime.timedelta(seconds=seconds))

    return run_recorded


@contextlib.contextmanager
def locked(folder: str) -> Iterator[None]:
    """Locks the folder of a run; the chief locks it for all workers."""
    if not workers.is_chief():
        yield
        return
    with locks.lock_folder(folder, f"--output_dir={folder}"):
        yield


def write_start(options: _RunOptions) -> None:
    """Appends the command, flags, versions and commit of a run."""
    _started.add(options.output_dir)
    _append(
        options.output_dir,
        {
            "started": _now(),
            "command": sys.argv,
            "flags": dataclasses.asdict(options),
            "python": platform.python_version(),
            "packages": _versions(),
            "commit": _commit(),
        },
    )


def write_end(outcome: str) -> None:
    """Appends the outcome of a run: "finished", "interrupted" or an error.

    It is written where the run started, which is the folder of a trial if an
    experiment only predicts. A command that was refused before it started
    leaves no line.
    """
    while _started:
        # The error of the run matters, a full disk for example.
        with contextlib.suppress(OSError):
            _append(_started.pop(), {"ended": _now(), "outcome": outcome})


def _append(folder: str, values: dict[str, object]) -> None:
    if not workers.is_chief():
        return
    writing.append_json(os.path.join(folder, run_files.RECORD), values)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _versions() -> dict[str, str]:
    versions = {}
    for name in _PACKAGES:
        # TensorFlow has several packages.
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def _commit() -> str | None:
    """Returns the commit of this clone, with `-dirty` if files are modified."""
    try:
        done = subprocess.run(
            ["git", "-C", _ROOT, *_GIT],
            capture_output=True,
            check=True,
            text=True,
            timeout=5,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
