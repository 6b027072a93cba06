"""Lock files, which the operating system frees when their process ends."""

import contextlib
import errno
import fcntl
import json
import os
import platform
import sys
from collections.abc import Iterator
from typing import BinaryIO

from absl import logging

from files import json_text, paths

# What `flock` fails with on file systems that have no locks.
_WITHOUT_LOCKS = (
    errno.ENOLCK,
    errno.ENOSYS,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
)


class LockedError(OSError):
    """Another process holds a lock; the message names it and its host."""


@contextlib.contextmanager
def lock(path: str, purpose: str, *, wait: bool = False) -> Iterator[None]:
    """Holds a lock file as long as the body runs.

    A process that dies frees its locks, so that a lock file that it left is
    taken over. Nothing is locked in a remote store, nor on a file system that
    has no locks, which a warning says.

    Args:
        path: of the lock file. Its folder must exist.
        purpose: the locked thing, for messages, such as "--output_dir=runs/1".
        wait: wait until the lock is free, however long that takes.

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
            "command": " ".join(sys.argv),
        }
        file.truncate(0)
        file.write(json.dumps(holder).encode())
        file.flush()
        try:
            yield
        finally:
            # Removed while it is locked: nobody else can hold it.
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)


def _locked_file(path: str, purpose: str, wait: bool) -> BinaryIO:
    while True:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        try:
            _take(file, path, purpose, wait)
            if _is_at(path, file):
                return file
        except BaseException:
            file.close()
            raise
        file.close()  # The process that held it removed it meanwhile.


def _take(file: BinaryIO, path: str, purpose: str, wait: bool) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held = f"{purpose} is in use by {_holder(file, path)}."
        if not wait:
            raise LockedError(
                f"{held} Wait until it ends, or choose another."
            ) from None
        logging.info("%s Waiting until it ends.", held)
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in _WITHOUT_LOCKS:
            raise
        logging.warning(
            "%s is not locked, for its file system has no locks (%s): let no "
            "other process write there at the same time.",
            purpose,
            error.strerror,
        )


def _is_at(path: str, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _holder(file: BinaryIO, path: str) -> str:
    try:
        holder = json_text.parse(file.read(), path)
        return "process {process} on {host} ({command})".format(**holder)
    except (ValueError, KeyError, TypeError):
        return "another process"  # Which is about to write its name.
