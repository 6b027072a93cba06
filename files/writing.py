"""Atomic writing of files and folders."""

import contextlib
import errno
import json
import os
import platform
import re
import shutil
from collections.abc import Iterator
from typing import IO, Any

from files import destinations, json_text, paths

# A full disk, an exceeded quota, and a file above the size limit.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def aside(path: str) -> str:
    """Returns the path of the temporary file for `path`, in the same folder.

    It is unique to this process, even if machines share the folder.
    """
    folder, name = os.path.split(path)
    return os.path.join(
        folder, f".{name}.{platform.node()}.{os.getpid()}.partial"
    )


def remove_remains(path: str) -> None:
    """Removes incomplete files of a path that ended processes left.

    These are files, folders, and files with further suffixes, such as those of
    a checkpoint prefix. Files of running processes and other machines are kept.
    """
    if paths.is_remote(path):
        return
    folder, name = os.path.split(os.path.realpath(path))
    if not os.path.isdir(folder):
        return
    pattern = re.compile(
        rf"\.{re.escape(name)}\.(?:{re.escape(platform.node())}\.)?"
        r"(?P<process>\d{1,9})\.partial(?:[._].*)?"
    )
    with os.scandir(folder) as entries:
        found = [(e, pattern.fullmatch(e.name)) for e in entries]
    for entry, match in found:
        if match is None or _is_running(int(match["process"])):
            continue
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.remove(entry.path)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextlib.contextmanager
def whole_file(path: str, mode: str = "w") -> Iterator[IO]:
    """Opens a file that is renamed to `path` once it is complete and on disk.

    If the process dies or the body raises, an earlier file of that name is
    unchanged; the next writer removes the incomplete one. Links are followed
    and their targets replaced. Devices and pipes are written in place, as are
    files in remote stores, which publish a file only when it is closed.

    Args:
        path: the final name; its folder is created if missing.
        mode: "w" (UTF-8 text, line ends written as given) or "wb".

    Raises:
        OSError: the file cannot be written; the message names it if the disk is
            full.
    """
    if paths.is_remote(path):
        import tensorflow as tf

        with tf.io.gfile.GFile(path, mode) as file:
            yield file
        return
    is_stream = destinations.is_stream(path)
    try:
        with _open(path, mode) if is_stream else _replacing(path, mode) as file:
            yield file
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise OSError(
            error.errno,
            f"Not enough disk space ({error.strerror}). Free some "
            "space, then run the same command again",
            path,
        ) from error


def _open(path: str, mode: str) -> IO:
    if "b" in mode:
        return open(path, mode)
    # JSON can contain lone surrogates, which UTF-8 cannot encode: they are
    # written as escapes of JSON again.
    return open(
        path, mode, encoding="utf-8", newline="", errors="backslashreplace"
    )


@contextlib.contextmanager
def _replacing(path: str, mode: str) -> Iterator[IO]:
    """Opens a temporary file that replaces `path` when it is complete."""
    path = os.path.realpath(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    remove_remains(path)
    partial = aside(path)
    try:
        with _open(partial, mode) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(partial)
        raise
    sync(os.path.dirname(path))


@contextlib.contextmanager
def whole_folder(path: str) -> Iterator[str]:
    """Creates a folder that is renamed to `path` once it is complete.

    In a remote store, which cannot rename, the files are written in place.

    Args:
        path: the final name, which is missing or an empty folder.

    Yields:
        The path of the folder to create and fill.
    """
    if paths.is_remote(path):
        yield path
        return
    with temporary_folder(path) as partial:
        yield partial
        os.rename(partial, path)
        sync(os.path.dirname(os.path.abspath(path)))


@contextlib.contextmanager
def temporary_folder(path: str) -> Iterator[str]:
    """Yields a temporary folder name next to `path`; removes it at the end."""
    path = os.path.abspath(path)
    remove_remains(path)
    partial = aside(path)
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def sync(path: str) -> None:
    """Syncs a file, or the renames in a folder, to disk."""
    descriptor = os.open(path or ".", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: str, value: Any) -> None:
    """Writes a value as indented JSON, with null for non-finite numbers."""
    with whole_file(path) as file:
        json.dump(json_text.finite(value), file, indent=2, ensure_ascii=False)
        file.write("\n")
