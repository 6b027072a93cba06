"""Import of TensorFlow without its log messages about the machine.

TensorFlow's C++ code logs the CPU instructions in use and its search for GPUs.
`TF_CPP_MIN_LOG_LEVEL` hides such messages, but not those of the import itself:
TensorFlow 2.21 writes them at any level, before its logging starts, and absl
reads no environment variable. So stderr is filtered during the import.
"""

import contextlib
import importlib.abc
import importlib.util
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_EVERYTHING, _ERRORS = "0", "2"
_TENSORFLOW = "tensorflow"
# Information, warnings, and absl's line before them.
_NOTICES = r"^[IW][0-9]{4} |^WARNING: All log messages before absl::Init"
# On a machine without an NVIDIA GPU this is logged as an error.
_NO_GPU = r"|failed call to cuInit"
_GPU_DEVICES = "nvidia[0-9]*"


def hide_notices() -> None:
    """Hides all messages of TensorFlow's C++ code except errors.

    A TF_CPP_MIN_LOG_LEVEL set by the user is kept; 0 hides nothing.
    """
    if os.environ.setdefault(_LEVEL, _ERRORS) == _EVERYTHING:
        return
    if _TENSORFLOW not in sys.modules:
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """A finder that makes the import of TensorFlow hide its notices."""

    def find_spec(self, fullname, path, target=None):
        if fullname != _TENSORFLOW:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec and spec.loader:
            self._execute = spec.loader.exec_module
            spec.loader.exec_module = self._import  # type: ignore[method-assign]
        return spec

    def _import(self, module):
        with _without_notices():
            self._execute(module)
            # Searches for GPUs, and logs it, once per process.
            module.config.list_physical_devices()


@contextlib.contextmanager
def _without_notices() -> Iterator[None]:
    """Filters notices from stderr, also those of C++ code.

    A separate process filters, so that the error message appears even if the
    import kills the program, as on an unsupported processor.
    """
    has_gpu = any(pathlib.Path("/dev").glob(_GPU_DEVICES))
    pattern = _NOTICES if has_gpu else _NOTICES + _NO_GPU
    stderr = os.dup(2)
    read, write = os.pipe()
    with subprocess.Popen(
        ["grep", "-v", "-E", pattern], stdin=read, stdout=stderr
    ):
        os.dup2(write, 2)
        os.close(read)
        os.close(write)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
