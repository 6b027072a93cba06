"""Files and folders that appear whole or not at all."""

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

# A full disk, a quota, and a file larger than may be.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def aside(path: str) -> str:
    """Names the temporary file beside `path`.

    The name is of this process alone, also where machines share a folder.
    """
    folder, name = os.path.split(path)
    return os.path.join(
        folder, f".{name}.{platform.node()}.{os.getpid()}.partial"
    )


def remove_remains(path: str) -> None:
    """Removes what processes that have ended left half-written of a path.

    Files, folders, and files whose names go on, such as those of a checkpoint
    whose prefix the path is. What a running process, or another machine,
    writes stays.
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
    """Opens a file that takes its name only once it is whole and on disk.

    A run that dies, or a body that raises, leaves the earlier file of that
    name as it was; the next to write it removes what is left. Links are
    followed: the file that a link leads to is replaced. Devices and pipes are
    written in place. Remote stores publish a file when it is closed, so there
    the file is written under its own name.

    Args:
        path: the final name; its folder is made if missing.
        mode: "w" (UTF-8 text, line ends written as given) or "wb".

    Raises:
        OSError: the file cannot be written; where the disk is full, the
            message says so and names the file.
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
            f"There is no room to write it ({error.strerror}). Make room, "
            "then run the same command again",
            path,
        ) from error


def _open(path: str, mode: str) -> IO:
    if "b" in mode:
        return open(path, mode)
    return open(path, mode, encoding="utf-8", newline="")


@contextlib.contextmanager
def _replacing(path: str, mode: str) -> Iterator[IO]:
    """Opens a temporary file that replaces `path` when it is whole."""
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
    """Gives a folder its name only once it is complete.

    In a remote store, which cannot rename, the files are written in place.

    Args:
        path: the final name; nothing, or an empty folder, is there yet.

    Yields:
        The name of the folder to make and fill.
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
    """Names a folder to make beside `path`; removes it at the end."""
    path = os.path.abspath(path)
    remove_remains(path)
    partial = aside(path)
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def sync(path: str) -> None:
    """Waits until a file, or the renames made in a folder, are on disk."""
    descriptor = os.open(path or ".", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: str, value: Any) -> None:
    """Writes a value as indented JSON; numbers that it lacks are null."""
    with whole_file(path) as file:
        json.dump(json_text.finite(value), file, indent=2, ensure_ascii=False)
        file.write("\n")
