"""What a run stands on: versions, code, machine, memory."""

import importlib.metadata
import os
import platform
import resource
import subprocess
import sys
from typing import Any

# What decides numbers and speed.
_PACKAGES = ("tensorflow", "tensorflow-text", "keras", "numpy")
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_GIT_SECONDS = 5
_KILOBYTE = 1024


def describe() -> dict[str, Any]:
    """Names versions, code and machine."""
    import keras
    import tensorflow as tf

    return {
        "python": platform.python_version(),
        "packages": {
            name: version
            for name in _PACKAGES
            if (version := _version(name)) is not None
        },
        "code": code(),
        "platform": platform.platform(),
        "cpu_cores": os.cpu_count(),
        "precision": keras.config.dtype_policy().name,
        "devices": sorted(
            device.name.removeprefix("/physical_device:")
            for device in tf.config.list_physical_devices()
        ),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def code() -> dict[str, Any] | None:
    """Names the commit of this checkout, and whether files differ from it.

    Returns:
        None where this is no checkout, or there is no git.
    """
    commit = _git("rev-parse", "HEAD")
    if commit is None:
        return None
    changed = _git("status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "is_modified": bool(changed)}


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", _ROOT, *arguments],
            capture_output=True,
            check=True,
            text=True,
            timeout=_GIT_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def peak_memory() -> dict[str, int]:
    """Measures the most memory used so far, in bytes: `host`, and each GPU."""
    import tensorflow as tf

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts kilobytes, macOS bytes.
    used = {"host": peak if sys.platform == "darwin" else peak * _KILOBYTE}
    for gpu in tf.config.list_logical_devices("GPU"):
        info = tf.config.experimental.get_memory_info(gpu.name)
        used[gpu.name.removeprefix("/device:")] = info["peak"]
    return used
