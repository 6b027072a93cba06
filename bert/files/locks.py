"""Locks of files and folders, which are freed when a process ends."""

import contextlib
import os
from collections.abc import Iterator, Sequence

import filelock
from absl import logging

from bert.files import paths, writing


@contextlib.contextmanager
def lock(path: str, purpose: str) -> Iterator[None]:
    """Holds a lock file while the body runs; remote stores are not locked.

    Args:
        path: the lock file, in an existing folder.
        purpose: the locked resource, for messages, as "--output_dir=runs/1".

    Raises:
        OSError: another process holds the lock.
    """
    if paths.is_remote(path):
        yield
        return
    file_lock = filelock.FileLock(path)
    try:
        file_lock.acquire(blocking=False)
    except filelock.Timeout:
        raise OSError(
            f"{purpose} is in use by another process. Wait until it ends, or "
            "choose another."
        ) from None
    except OSError as error:  # Some file systems have no locks.
        logging.warning("%s is not locked: %s.", purpose, error.strerror)
    try:
        yield
    finally:
        # Removed while locked, so that no other process can hold it.
        with contextlib.suppress(OSError):
            os.remove(path)
        file_lock.release()


@contextlib.contextmanager
def lock_folder(folder: str, purpose: str) -> Iterator[None]:
    """Locks a folder for this process while the body runs.

    Args:
        folder: created if missing, and removed again if nothing was written.
        purpose: as for `lock`.

    Raises:
        OSError: another process has locked the folder, or it cannot be written.
    """
    writing.check_folder(folder)
    is_new = not paths.is_folder(folder)
    if not paths.is_remote(folder):
        os.makedirs(folder, exist_ok=True)
    try:
        with lock(os.path.join(folder, ".lock"), purpose):
            yield
    finally:
        if is_new:
            with contextlib.suppress(OSError):
                os.rmdir(folder)


@contextlib.contextmanager
def lock_outputs(output_paths: Sequence[str]) -> Iterator[None]:
    """Locks the first file of `--output_file` for this process.

    It keeps two programs from mixing files of the same names. Devices and pipes
    are not locked.

    Raises:
        OSError: another process has locked the file.
    """
    first = output_paths[0]
    if paths.is_remote(first) or paths.is_stream(first):
        yield
        return
    os.makedirs(os.path.dirname(first) or ".", exist_ok=True)
    with lock(f"{first}.lock", f"--output_file={first}"):
        yield
