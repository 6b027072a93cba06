"""Lock files that the operating system releases when their process ends."""

import contextlib
import errno
import fcntl
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from absl import logging

from files import json_text, paths, writing

_FOLDER_LOCK = ".lock"
_MOMENT_SECONDS = 0.1
# The errors of `flock` on file systems that have no locks.
_WITHOUT_LOCKS = (
    errno.ENOLCK,
    errno.ENOSYS,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
)


class LockedError(OSError):
    """Another process holds a lock; the message names it and its host."""


@contextlib.contextmanager
def lock(
    path: str, purpose: str, *, wait: bool = False, group: str = ""
) -> Iterator[None]:
    """Holds a lock file while the body runs.

    When a process dies, its locks are released and its lock files can be
    reused. Remote stores, and file systems without locks, are not locked; the
    latter cause a warning.

    Args:
        path: the lock file, in an existing folder.
        purpose: the locked resource, for messages, as "--output_dir=runs/1".
        wait: whether to wait until the lock is free, without a limit.
        group: the group of processes that share it; see `check_folder`.

    Raises:
        LockedError: another process holds the lock, and `wait` is False.
        OSError: the file cannot be written.
    """
    if paths.is_remote(path):
        yield
        return
    with _locked_file(path, purpose, wait) as file:
        holder = {
            "host": platform.node(),
            "process": os.getpid(),
            "program": os.path.basename(sys.argv[0]),
            "group": group,
        }
        file.seek(0)
        file.truncate()
        file.write(json.dumps(holder).encode())
        file.flush()
        try:
            yield
        finally:
            # Removed while locked, so that no other process can hold it.
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)


@contextlib.contextmanager
def lock_folder(
    folder: str, purpose: str, *, group: str = ""
) -> Iterator[None]:
    """Locks a folder for this process while the body runs.

    Args:
        folder: created if missing, and removed again if nothing was written.
        purpose, group: as for `lock`.

    Raises:
        LockedError: another process has locked the folder.
        OSError: the folder cannot be written.
    """
    if paths.is_remote(folder):
        yield
        return
    writing.check_folder(folder)
    made, there = [], folder
    while there and not os.path.isdir(there):
        made.append(there)
        there = os.path.dirname(there)
    os.makedirs(folder, exist_ok=True)
    try:
        path = os.path.join(folder, _FOLDER_LOCK)
        with lock(path, purpose, group=group):
            yield
    finally:
        with contextlib.suppress(OSError):
            for each in made:
                os.rmdir(each)


@contextlib.contextmanager
def lock_outputs(output_paths: Sequence[str]) -> Iterator[None]:
    """Locks the files of `--output_file` for this process.

    It keeps two programs from mixing files of the same names. Only the first
    file is locked; devices and pipes are not.

    Args:
        output_paths: the files; their folder is created if missing.

    Raises:
        LockedError: another process has locked the first file.
        OSError: its folder cannot be written.
    """
    first = output_paths[0]
    if paths.is_remote(first) or paths.is_stream(first):
        yield
        return
    writing.check_file(first)
    os.makedirs(os.path.dirname(first) or ".", exist_ok=True)
    with lock(f"{first}.lock", f"--output_file={first}"):
        yield


def check_folder(folder: str, purpose: str, group: str) -> None:
    """Checks that no process outside a group has locked a folder.

    Args:
        folder: as for `lock_folder`.
        purpose: as for `lock`.
        group: a group of processes, of which one locks the folder for all.

    Raises:
        LockedError: a process of another group has locked the folder.
    """
    path = os.path.join(folder, _FOLDER_LOCK)
    if not paths.exists(path) or paths.is_remote(path):
        return
    with open(path, "rb") as file:
        if _holder(file, path).get("group") == group:
            return
        try:
            _take(file, path, purpose, fcntl.LOCK_SH)
        except LockedError:
            # A process of the group may have taken over the lock meanwhile.
            if _holder(file, path).get("group") != group:
                raise


def _locked_file(path: str, purpose: str, wait: bool) -> BinaryIO:
    while True:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        try:
            _take(file, path, purpose, wait=wait)
            if os.path.samestat(os.stat(path), os.fstat(file.fileno())):
                return file
        except FileNotFoundError:
            pass  # The process with the lock removed it meanwhile.
        except BaseException:
            file.close()
            raise
        file.close()


def _take(
    file: BinaryIO,
    path: str,
    purpose: str,
    operation: int = fcntl.LOCK_EX,
    *,
    wait: bool = False,
) -> None:
    try:
        try:
            fcntl.flock(file, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            # It may be the short lock of `check_folder`.
            time.sleep(_MOMENT_SECONDS)
            fcntl.flock(file, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _holder(file, path)
        who = "another process"
        if holder:
            who = "process {process} on {host} ({program})".format(**holder)
        held = f"{purpose} is in use by {who}."
        if not wait:
            raise LockedError(
                f"{held} Wait until it ends, or choose another."
            ) from None
        logging.info("%s Waiting until it ends.", held)
        fcntl.flock(file, operation)
    except OSError as error:
        if error.errno not in _WITHOUT_LOCKS:
            raise
        logging.warning(
            "%s is not locked, because its file system has no locks (%s): do "
            "not let another process write there at the same time.",
            purpose,
            error.strerror,
        )


def _holder(file: BinaryIO, path: str) -> dict[str, Any]:
    """Reads the holder of a lock; empty if it is not written yet."""
    file.seek(0)
    try:
        return json_text.parse(file.read(), path)
    except ValueError:
        return {}
