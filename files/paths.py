"""File paths: globs, comma-separated lists, remote stores."""

import glob
import hashlib
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

# Of the files beside records, which a glob over their folder also finds.
SIDECAR_ENDING = ".meta.json"


def is_remote(path: str) -> bool:
    """Returns whether a path names a remote store, such as `gs://bucket/x`."""
    return "://" in path


def expand(patterns: str) -> list[str]:
    """Lists the files that comma-separated glob patterns name.

    Files come in the order of the patterns; those of one pattern are sorted,
    so that a run does not depend on the file system.

    Raises:
        ValueError: a pattern matches no file.
    """
    paths = []
    for pattern in filter(None, (p.strip() for p in patterns.split(","))):
        matches = sorted(_matches(pattern))
        if not matches:
            raise ValueError(f"No file matches {pattern!r}.")
        paths.extend(matches)
    if not paths:
        raise ValueError(f"No file is named in {patterns!r}.")
    return paths


def _matches(pattern: str) -> list[str]:
    if is_remote(pattern):
        return _gfile().glob(pattern)
    # A file whose own name holds a bracket is not a pattern.
    return [pattern] if os.path.isfile(pattern) else glob.glob(pattern)


def matching(folder: str, pattern: str) -> list[str]:
    """Lists what a glob pattern finds in a folder, sorted; nothing, if nothing.

    Args:
        folder: local or remote, taken as it is written.
        pattern: of names within the folder.
    """
    if not is_remote(folder):
        folder = glob.escape(folder)
    return sorted(_matches(os.path.join(folder, pattern)))


def numbered(before: str, after: str, num_digits: int = 5) -> list[str]:
    """Lists the local files whose names are a number between two texts.

    Args:
        before: the name up to the number, with its folder.
        after: the name from the number on.
        num_digits: the number is filled up to so many with zeros.

    Returns:
        The names, sorted; none in a remote store.
    """
    if is_remote(before):
        return []
    found = []
    for path in glob.glob(f"{glob.escape(before)}*{glob.escape(after)}"):
        number = path.removeprefix(before).removesuffix(after)
        if number.isdecimal() and number == f"{int(number):0{num_digits}d}":
            found.append(path)
    return sorted(found)


def exists(path: str) -> bool:
    """Returns whether a path, local or remote, is a file."""
    if not is_remote(path):
        return os.path.isfile(path)
    try:
        expand(path)
    except ValueError:
        return False
    return True


def is_folder(path: str) -> bool:
    """Returns whether a path, local or remote, is a folder."""
    if not is_remote(path):
        return os.path.isdir(path)
    return _gfile().isdir(path)


def open_to_read(path: str) -> BinaryIO:
    """Opens a local or remote file as bytes.

    Raises:
        OSError: the file cannot be opened.
    """
    if is_remote(path):
        return _gfile().GFile(path, "rb")
    return open(path, "rb")


def check_readable(path: str) -> None:
    """Checks that a file can be opened; a pipe is not, which would wait.

    Raises:
        OSError: the file cannot be opened.
    """
    if is_remote(path) or not stat.S_ISFIFO(os.stat(path).st_mode):
        open_to_read(path).close()


def remove(path: str) -> None:
    """Removes a local or remote file; does nothing where there is none."""
    if exists(path):
        (_gfile() if is_remote(path) else os).remove(path)


def chunks_of(path: str, size: int = 1 << 20) -> Iterator[bytes]:
    """Yields the bytes of a file, `size` at a time."""
    with open_to_read(path) as file:
        while chunk := file.read(size):
            yield chunk


def sha256(path: str) -> str:
    """Hashes the bytes of a file."""
    digest = hashlib.sha256()
    for chunk in chunks_of(path):
        digest.update(chunk)
    return digest.hexdigest()


def _gfile():
    # Imported late: TensorFlow takes seconds, and local files need none of it.
    import tensorflow as tf

    return tf.io.gfile
