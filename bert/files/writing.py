"""Checks and atomic writing of output files and folders."""

import contextlib
import errno
import json
import math
import os
import resource
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING

from absl import logging

from bert.files import paths, tensorflow_start

if TYPE_CHECKING:
    from matplotlib import figure as figure_lib

# A full disk, an exceeded quota, and a file above the size limit.
_FURTHER_FILES = 128  # Open in a process besides its output.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def check_files(names: Iterable[str], inputs: Iterable[str] = ()) -> None:
    """Checks the files that a program will write.

    Every program that writes files calls this with all of them at its start.
    No file is created, but the folders of remote files are.

    Args:
        names: the files to be written.
        inputs: the files that the program reads, patterns expanded.

    Raises:
        OSError: an output is a folder, or its folder cannot be created or
            written.
        ValueError: an output is the same file as an input or another output,
            possibly under another name.
    """
    taken = {os.path.realpath(path): f"the input {path}" for path in inputs}
    for path in names:
        if os.path.isdir(path):
            raise IsADirectoryError(
                f"{path} must be the name of a file to write; it is a folder."
            )
        if paths.is_stream(path):
            continue
        # The target, because links are followed.
        real = path if paths.is_remote(path) else os.path.realpath(path)
        check_folder(os.path.dirname(real))
        if real in taken:
            raise ValueError(
                f"{path} must not be written: it is {taken[real]}. Choose "
                "another output."
            )
        taken[real] = f"the output {path}"


def check_folder(path: str) -> None:
    """Checks that files can be written into a folder, which may be missing.

    A remote one is created.

    Raises:
        OSError: it, or the folder to create it in, is not a folder or not
            writable.
    """
    if paths.is_remote(path):
        _make_remote_folder(path)
        return
    parent = path or "."
    while not os.path.lexists(parent):
        parent = os.path.dirname(parent) or "."
    if not os.path.isdir(parent):
        raise NotADirectoryError(
            f"{parent} must be a folder to write in; it is a file."
        )
    if not os.access(parent, os.W_OK | os.X_OK):
        raise PermissionError(f"No permission to write in {parent}.")


def _make_remote_folder(path: str) -> None:
    tensorflow_start.load()
    import tensorflow as tf

    with paths.remote_errors(path):
        tf.io.gfile.makedirs(path)


def partial_path(path: str) -> str:
    """Returns the path of the incomplete file of `path`, in the same folder.

    The next attempt to write `path` replaces it if its process was killed.
    """
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.partial")


@contextlib.contextmanager
def whole_file(path: str, mode: str = "w") -> Iterator[IO]:
    """Opens a file that is renamed to `path` once it is complete and on disk.

    If the process dies or the body raises, an earlier file of that name is
    unchanged. Links are followed and their targets replaced. Devices and pipes
    are written in place. A file for a remote store is written to a local
    temporary file and then copied.

    Args:
        path: the final name; its folder is created if missing.
        mode: "w" (UTF-8 text) or "wb".

    Raises:
        OSError: the file cannot be written.
    """
    opened = _open if paths.is_stream(path) else _replacing
    if paths.is_remote(path):
        opened = _uploading
    try:
        with opened(path, mode) as file:
            yield file
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        # The system does not name the file.
        raise OSError(error.errno, error.strerror, path) from error


@contextlib.contextmanager
def whole_files(names: Sequence[str], mode: str = "w") -> Iterator[list[IO]]:
    """Opens files at once, each as `whole_file` does.

    Raises:
        OSError: a file cannot be written.
        ValueError: the system does not allow so many open files.
    """
    needed = len(names) + _FURTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY not in (soft, hard) and needed > hard:
        raise ValueError(
            f"Writing {len(names)} files at once needs {needed} open files; "
            f"the system allows {hard} (ulimit -Hn). Write fewer files."
        )
    if soft != resource.RLIM_INFINITY and needed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(whole_file(name, mode)) for name in names]


def _open(path: str, mode: str) -> IO:
    if "b" in mode:
        return open(path, mode)
    # JSON can contain lone surrogates, which UTF-8 cannot encode: they are
    # written as escapes of JSON again.
    return open(path, mode, encoding="utf-8", errors="backslashreplace")


@contextlib.contextmanager
def _uploading(path: str, mode: str) -> Iterator[IO]:
    """Opens a local file that is copied to a remote `path` when complete."""
    tensorflow_start.load()
    import tensorflow as tf

    with tempfile.NamedTemporaryFile() as local:
        with _open(local.name, mode) as file:
            yield file
        _make_remote_folder(os.path.dirname(path))
        with paths.remote_errors(path):
            tf.io.gfile.copy(local.name, path, overwrite=True)


@contextlib.contextmanager
def _replacing(path: str, mode: str) -> Iterator[IO]:
    """Opens a temporary file that replaces `path` when it is complete."""
    path = os.path.realpath(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    partial = partial_path(path)
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
    path = os.path.abspath(path)
    partial = partial_path(path)
    shutil.rmtree(partial, ignore_errors=True)
    try:
        yield partial
        os.rename(partial, path)
        sync(os.path.dirname(path))
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def sync(path: str) -> None:
    """Syncs a file, or the renames in a folder, to disk."""
    descriptor = os.open(path or ".", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def copy_file(source: str, target: str) -> None:
    """Copies a file atomically."""
    with whole_file(target, "wb") as file:
        file.writelines(paths.chunks_of(source))


def write_files(folder: str, files: Mapping[str, Iterable[str]]) -> None:
    """Writes the lines of files by name, each atomically, and logs them."""
    for name, lines in files.items():
        with whole_file(os.path.join(folder, name)) as file:
            file.writelines(lines)
    names = ", ".join(os.path.join(folder, name) for name in files)
    logging.info("Wrote %s.", names)


def write_png(path: str, figure: "figure_lib.Figure") -> None:
    """Writes a matplotlib figure atomically."""
    with whole_file(path, "wb") as file:
        figure.savefig(file, format="png", dpi=120)


def write_json(path: str, value: object) -> None:
    """Writes a value as indented JSON, with null for non-finite numbers."""
    with whole_file(path) as file:
        json.dump(_finite(value), file, indent=2, ensure_ascii=False)
        file.write("\n")


def append_json(path: str, value: object) -> None:
    """Appends a value to JSON lines, with null for non-finite numbers."""
    line = json.dumps(_finite(value)) + "\n"
    if not paths.is_remote(path):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "ab+") as local:
            if local.tell():
                local.seek(-1, os.SEEK_END)
                # A full disk may have cut the last line.
                if local.read() != b"\n":
                    local.write(b"\n")
            local.write(line.encode())
        return
    tensorflow_start.load()
    import tensorflow as tf

    with tf.io.gfile.GFile(path, "a") as file:
        file.write(line)


def _finite(value: object) -> object:
    """Replaces infinities and NaN, which JSON lacks, by None."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
