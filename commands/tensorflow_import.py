"""The import of TensorFlow without notices about the machine.

TensorFlow's C++ code notes which CPU instructions it uses and that it looked
for a GPU. `TF_CPP_MIN_LOG_LEVEL` hides that later, but not while TensorFlow is
being imported.
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
# Lines of information and warnings, with what absl says of them.
_NOTICES = r"^[IW][0-9]{4} |^WARNING: All log messages before absl::Init"
# On a machine without a GPU of NVIDIA's this is called an error.
_NO_GPU = r"|failed call to cuInit"
_GPU_DEVICES = "nvidia[0-9]*"


def hide_notices() -> None:
    """Hides all but errors of TensorFlow's C++ code, unless told otherwise.

    A level that the user set stays; with TF_CPP_MIN_LOG_LEVEL=0 nothing is
    hidden.
    """
    if os.environ.setdefault(_LEVEL, _ERRORS) == _EVERYTHING:
        return
    if _TENSORFLOW not in sys.modules:
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds TensorFlow, once, as a module whose import hides notices."""

    def find_spec(self, fullname, path, target=None):
        if fullname != _TENSORFLOW:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module):
            with _without_notices():
                run(module)
                # Which looks for GPUs, and says so, once in a process.
                module.config.list_physical_devices()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


@contextlib.contextmanager
def _without_notices() -> Iterator[None]:
    """Filters what is written to stderr meanwhile, also by C++ code.

    The filter is a process of its own: where the import ends the program, as
    on a processor that TensorFlow was not compiled for, it shows why.
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
