"""The start of TensorFlow without the notices of its C++ code."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

_SHOWING_LEVELS = ("0", "1")  # Of TF_CPP_MIN_LOG_LEVEL: everything, warnings.
_ALL_IS_WELL = b"\0"
_STDERR = 2
# Shows what it has read unless told that all is well, also if the process that
# wrote it was aborted.
_READER = f"""
import sys
read = sys.stdin.buffer.read()
if not read.endswith({_ALL_IS_WELL!r}):
    sys.stderr.buffer.write(read)
"""


def load() -> None:
    """Imports TensorFlow and lists the devices.

    TensorFlow 2.21 writes some lines before its log level applies, one of them
    an error about CUDA on machines without a GPU. They are shown if the start
    fails, or if TF_CPP_MIN_LOG_LEVEL asks for warnings.
    """
    if "tensorflow" in sys.modules:
        return
    level = os.environ.get("TF_CPP_MIN_LOG_LEVEL", "0")
    is_shown = level in _SHOWING_LEVELS
    with contextlib.nullcontext() if is_shown else _kept_back():
        import tensorflow as tf

        tf.config.list_physical_devices()


@contextlib.contextmanager
def _kept_back() -> Iterator[None]:
    """Keeps what is written to the standard error, to show it on failure."""
    sys.stderr.flush()
    read_end, write_end = os.pipe()
    reader = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _READER], stdin=read_end
    )
    os.close(read_end)
    before = os.dup(_STDERR)
    os.dup2(write_end, _STDERR)
    try:
        yield
        os.write(write_end, _ALL_IS_WELL)
    finally:
        os.dup2(before, _STDERR)
        os.close(before)
        os.close(write_end)
        reader.wait()
