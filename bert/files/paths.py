"""File paths: globs, comma-separated lists, remote stores."""

import contextlib
import errno
import glob
import hashlib
import os
import re
import stat
import types
from collections.abc import Iterator
from typing import BinaryIO

from bert.files import tensorflow_start

# Names that a shell replaces by others.
_SHELL_NAME = re.compile(r"\$[^/,]*|\{.*\}|`.*`")
_ONE_SLASH = re.compile(r"([A-Za-z][\w+.-]+):/(?!/)")
_QUOTED = re.compile(r"([\"']).*\1")


def from_flag(text: str) -> str:
    """Returns the value of a path flag, with home folders in place of `~`.

    Args:
        text: a path, or comma-separated paths and patterns.

    Raises:
        ValueError: a name would be replaced by a shell only, or a remote
            address has one slash; as a path it would be a folder of that name;
            or the locale lacks a letter of a name.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(
            "Python cannot read the letters of this path in the locale of the "
            "terminal; set PYTHONUTF8=1"
        ) from None
    parts = [_with_home(part) for part in text.split(",")]
    value = ",".join(parts)
    if os.path.lexists(value):
        return value
    for part in map(str.strip, parts):
        if _ONE_SLASH.match(part):
            raise ValueError(
                "an address has two slashes, as "
                f"{part.replace(':/', '://', 1)}; a local path starts with ./"
            )
    if _QUOTED.fullmatch(value):
        raise ValueError(
            "the quotes are a part of this path: outside of a shell, as in a "
            "flag file, nothing removes them"
        )
    # The name of an existing file or folder may contain any character.
    match = _SHELL_NAME.search(",".join(map(_missing_part, parts)))
    if match:
        raise ValueError(
            f"{match[0]} stays as it is written: only a shell replaces it, "
            "not in single quotes, and nothing does in a flag file"
        )
    return value


def _with_home(path: str) -> str:
    path = path.strip() if path.lstrip().startswith("~") else path
    if not path.startswith("~"):
        return path
    expanded = os.path.expanduser(path)
    if expanded.startswith("~") and not os.path.lexists(path):
        raise ValueError(
            f"there is no user {path[1:].partition('/')[0]!r}; a local path "
            "starts with ./"
        )
    return expanded


def _missing_part(path: str) -> str:
    """Returns the end of a path below the lowest folder that exists."""
    if is_remote(path):
        return path
    # A checkpoint is named by the start of its files' names.
    if glob.glob(f"{glob.escape(path)}*"):
        return ""
    folder = path
    while folder and not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    return path[len(folder) :]


def is_remote(path: str) -> bool:
    """Returns whether a path names a remote store, such as `gs://bucket/x`."""
    return "://" in path


def absolute(path: str) -> str:
    """Returns a path that does not depend on the working folder."""
    return path if is_remote(path) else os.path.abspath(path)


def expand(patterns: str) -> list[str]:
    """Lists the files that match comma-separated glob patterns.

    Files are in the order of the patterns; those of one pattern are sorted, so
    that results do not depend on the file system.

    Raises:
        ValueError: a pattern matches no file, or is a folder.
    """
    paths = []
    for pattern in filter(None, (p.strip() for p in patterns.split(","))):
        if is_folder(pattern):
            raise ValueError(
                f"{pattern} is a folder; name its files, as "
                f"{os.path.join(pattern, '*')}."
            )
        matches = sorted(_matches(pattern))
        if not matches:
            raise ValueError(f"No file matches {pattern!r}.")
        paths.extend(matches)
    if not paths:
        raise ValueError(f"No file is named in {patterns!r}.")
    return paths


def _matches(pattern: str) -> list[str]:
    # The name of an existing file may contain a bracket.
    if exists(pattern):
        return [pattern]
    if not is_remote(pattern):
        return glob.glob(pattern)
    with remote_errors(pattern):
        return _gfile().glob(pattern)


def matching(folder: str, pattern: str) -> list[str]:
    """Lists the files in a folder that match a glob pattern, sorted.

    Args:
        folder: local or remote, not a pattern itself.
        pattern: of names within the folder.
    """
    if not is_remote(folder):
        folder = glob.escape(folder)
    return sorted(_matches(os.path.join(folder, pattern)))


def names_in(folder: str) -> list[str]:
    """Lists the names of the files in a folder, sorted; none if it is missing.

    Args:
        folder: local or remote.
    """
    if not is_remote(folder):
        if not os.path.isdir(folder):
            return []
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_file())
    with contextlib.suppress(FileNotFoundError), remote_errors(folder):
        names = _gfile().listdir(folder)
        # The names of folders end in a slash.
        return sorted(name for name in names if not name.endswith("/"))
    return []


def exists(path: str) -> bool:
    """Returns whether a path, local or remote, is a file."""
    if not is_remote(path):
        return os.path.isfile(path)
    with remote_errors(path):
        return _gfile().exists(path) and not _gfile().isdir(path)


def is_folder(path: str) -> bool:
    """Returns whether a path, local or remote, is a folder."""
    if not is_remote(path):
        return os.path.isdir(path)
    return _gfile().isdir(path)


def open_to_read(path: str) -> BinaryIO:
    """Opens a local or remote file in binary mode.

    Raises:
        OSError: the file cannot be opened.
    """
    if not is_remote(path):
        return open(path, "rb")
    with remote_errors(path):
        file = _gfile().GFile(path, "rb")
        file.read(1)  # Opens it, also on Google Cloud Storage.
        file.seek(0)
        return file


def is_stream(path: str) -> bool:
    """Returns whether a path leads to a device, a pipe or a socket.

    Such a file is written in place, never replaced by a regular file, and can
    be read only once.
    """
    if is_remote(path):
        return False
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def check_readable(path: str) -> None:
    """Opens a file, unless it is a pipe, which could not be read again.

    Raises:
        OSError: the file cannot be opened.
    """
    if not is_stream(path):
        open_to_read(path).close()


def remove(path: str) -> None:
    """Removes a local or remote file, if it exists."""
    if exists(path):
        (_gfile() if is_remote(path) else os).remove(path)


def chunks_of(path: str) -> Iterator[bytes]:
    """Yields the bytes of a file in blocks."""
    with open_to_read(path) as file:
        while chunk := file.read(1 << 20):
            yield chunk


def sha256(path: str) -> str:
    """Returns a hash of a file's bytes.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it is a pipe, which would be empty when it is read again.
    """
    if is_stream(path):
        raise ValueError(f"{path} must be a regular file: it is read twice.")
    digest = hashlib.sha256()
    for chunk in chunks_of(path):
        digest.update(chunk)
    return digest.hexdigest()


@contextlib.contextmanager
def remote_errors(path: str) -> Iterator[None]:
    """Converts TensorFlow's errors on a remote path to OSError."""
    tensorflow_start.load()
    import tensorflow as tf

    try:
        yield
    except tf.errors.NotFoundError as error:
        message = os.strerror(errno.ENOENT)
        raise FileNotFoundError(errno.ENOENT, message, path) from error
    except tf.errors.OpError as error:
        raise OSError(f"{path}: {error.message.rstrip('.')}.") from error


def _gfile() -> types.ModuleType:
    # Imported late: importing TensorFlow takes seconds.
    tensorflow_start.load()
    import tensorflow as tf

    return tf.io.gfile
