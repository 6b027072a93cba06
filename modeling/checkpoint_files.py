"""Location of checkpoints: the one rule for the checkpoint of a path.

In a folder of TensorFlow's checkpoints, the file `checkpoint` names the latest
one. Without it, the checkpoint of a run's highest step counts, `model.ckpt-N`,
else the only checkpoint of the folder, else the highest of numbered ones. In
other folders, it is the file of Hugging Face's weights.

Local paths are looked up without TensorFlow, so that errors appear at once.
"""

import contextlib
import dataclasses
import os
import re
from collections.abc import Sequence

from google.protobuf import text_encoding

from files import lines, messages, paths
from modeling import huggingface

RUN_NAME = "model.ckpt"  # Source: the names of the checkpoints of a training.
STATE = "checkpoint"

_OF_A_RUN = re.compile(rf"{re.escape(RUN_NAME)}-(0|[1-9]\d*)")
_NUMBERED = re.compile(r"-(\d+)$")
_DATA_SUFFIX = re.compile(r"\.data-\d{5}-of-\d{5}$")
_LATEST = re.compile(r'model_checkpoint_path:\s*"((?:[^"\\]|\\.)*)"')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Location:
    """A checkpoint that exists.

    Attributes:
        path: the prefix of TensorFlow's files, or Hugging Face's file.
        is_latest: whether its folder says that it is the latest of a training:
            by the file `checkpoint`, or by the name `model.ckpt-N`.
    """

    path: str
    is_latest: bool = False


def locate(path: str) -> Location | None:
    """Finds the checkpoint of a path; None if there is none.

    Args:
        path: a folder, local or remote; a prefix, or one of its files; or a
            file of Hugging Face's weights.

    Raises:
        ValueError: the folder has several checkpoints, and none is the latest.
    """
    if paths.is_folder(path):
        return in_folder(path)
    prefix = _DATA_SUFFIX.sub("", path.removesuffix(".index"))
    prefix = prefix.removesuffix(".meta")
    if paths.exists(f"{prefix}.index") or paths.exists(path):
        # A file without an index may be of TensorFlow's older format, "V1".
        is_prefix = paths.exists(f"{prefix}.index")
        return Location(path=prefix if is_prefix else path)
    return None


def in_folder(folder: str) -> Location | None:
    """Finds the checkpoint of a folder, which need not exist.

    Raises:
        ValueError: the folder has several checkpoints, and none is the latest.
    """
    if not paths.is_folder(folder):
        return None
    named = _named_latest(folder)
    if named is not None:
        return Location(path=named, is_latest=True)
    steps = saved_steps(folder)
    if steps:
        path = os.path.join(folder, f"{RUN_NAME}-{steps[-1]}")
        return Location(path=path, is_latest=True)
    names = _indexed(folder)
    if names:
        return Location(path=os.path.join(folder, _highest(folder, names)))
    files = (os.path.join(folder, name) for name in huggingface.FILES)
    return next((Location(path=f) for f in files if paths.exists(f)), None)


def _highest(folder: str, names: Sequence[str]) -> str:
    """Returns the only name, or that with the highest number."""
    numbers = {
        int(match[1]): name
        for name in names
        if (match := _NUMBERED.search(name))
    }
    if len(names) == 1:
        return names[0]
    if len(numbers) < len(names):
        raise ValueError(
            f"The folder {folder!r} must contain one checkpoint, or only "
            f"numbered ones; it contains {messages.names(names)}. Pass one of "
            "them."
        )
    return numbers[max(numbers)]


def _named_latest(folder: str) -> str | None:
    """Returns the prefix that the file `checkpoint` names, if it exists."""
    state = os.path.join(folder, STATE)
    if not paths.exists(state):
        return None
    match = None
    with contextlib.suppress(ValueError):  # The file is not UTF-8.
        match = _LATEST.search("".join(lines.read_lines(state)))
    if match is None:
        return None
    named = text_encoding.CUnescape(match[1]).decode("utf-8", "replace")
    # A folder that was copied may name its origin; its own file comes first.
    name = os.path.basename(named)
    for prefix in (os.path.join(folder, name), named):
        if name and (paths.exists(f"{prefix}.index") or paths.exists(prefix)):
            return prefix
    return None


def saved_steps(folder: str) -> list[int]:
    """Lists the steps of a run's checkpoints in a folder, in order."""
    if not paths.is_folder(folder):
        return []
    matches = map(_OF_A_RUN.fullmatch, _indexed(folder))
    return sorted(int(match[1]) for match in matches if match)


def _indexed(folder: str) -> list[str]:
    """Lists the names of TensorFlow's checkpoints in a folder."""
    names = map(os.path.basename, paths.matching(folder, "*.index"))
    # Incomplete files, which a killed program left, begin with a dot.
    return [n.removesuffix(".index") for n in names if not n.startswith(".")]
