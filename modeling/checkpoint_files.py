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
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from google.protobuf import text_encoding

from bert.files import lines, messages, paths
from modeling import huggingface

RUN_NAME = "model.ckpt"  # Source: the names of the checkpoints of a training.
STATE = "checkpoint"
# Only this project writes a state of the run beside a checkpoint.
RUN_STATE_SUFFIX = ".state.json"

_OF_A_RUN = re.compile(rf"{re.escape(RUN_NAME)}-(0|[1-9]\d*)")
_NUMBERED = re.compile(r"-(\d+)$")
_DATA_SUFFIX = re.compile(r"\.data-\d{5}-of-\d{5}$")
_LATEST = re.compile(r'model_checkpoint_path:\s*"((?:[^"\\]|\\.)*)"')


class TrainingCheckpoint(NamedTuple):
    """A checkpoint of a training.

    Attributes:
        prefix: of its files.
        step: the number in its name, 0 if there is none.
    """

    prefix: str
    step: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Location:
    """A checkpoint that exists.

    Attributes:
        path: the prefix of TensorFlow's files, or Hugging Face's file.
        training_checkpoints: those of a training, from the latest to the
            earliest, if its folder says that `path` is the latest: by the file
            `checkpoint`, or by the name `model.ckpt-N`.
        is_ours: whether this project trained the model.
    """

    path: str
    training_checkpoints: tuple[TrainingCheckpoint, ...] = ()
    is_ours: bool = False


def is_huggingface(checkpoint: str) -> bool:
    """Returns whether a checkpoint is a file of Hugging Face's weights."""
    return os.path.basename(checkpoint) in huggingface.FILES


def has_release_weights(folder: str) -> bool | None:
    """Returns whether a folder has weights of TensorFlow's format.

    Returns:
        False if it has Hugging Face's alone; None if it has neither.
    """
    names = paths.names_in(folder)
    if _indexed(names):
        return True
    return None if {*huggingface.FILES}.isdisjoint(names) else False


def prefix_of(folder: str, step: int) -> str:
    """Names the checkpoint of a training's step."""
    return os.path.join(folder, f"{RUN_NAME}-{step}")


def step_of(prefix: str) -> int:
    """Returns the step in a checkpoint's name, 0 if there is none."""
    match = _NUMBERED.search(prefix)
    return int(match[1]) if match else 0


def locate(path: str) -> Location | None:
    """Finds the checkpoint of a path; None if there is none.

    Args:
        path: a folder, local or remote; its file `checkpoint`; a prefix, or
            one of its files; or a file of Hugging Face's weights.

    Raises:
        ValueError: the folder has several checkpoints, and none is the latest.
    """
    if paths.is_folder(path):
        return in_folder(path)
    if os.path.basename(path) == STATE and paths.exists(path):
        return in_folder(os.path.dirname(path) or os.curdir)
    prefix = _DATA_SUFFIX.sub("", path.removesuffix(".index"))
    prefix = prefix.removesuffix(".meta")
    if paths.exists(f"{prefix}.index"):
        return Location(path=prefix)
    # A file without an index may be of TensorFlow's older format, "V1".
    return Location(path=path) if paths.exists(path) else None


def in_folder(folder: str) -> Location | None:
    """Finds the checkpoint of a folder, which need not exist.

    Raises:
        ValueError: the folder has several checkpoints, and none is the latest.
    """
    names = paths.names_in(folder)
    steps = _steps(names)
    latest = _named_latest(folder, names)
    if latest is None and steps:
        latest = prefix_of(folder, steps[-1])
    if latest is not None:
        number = step_of(latest)
        earlier = [step for step in reversed(steps) if step < number]
        return Location(
            path=latest,
            training_checkpoints=(
                TrainingCheckpoint(latest, number),
                *(
                    TrainingCheckpoint(prefix_of(folder, step), step)
                    for step in earlier
                ),
            ),
            is_ours=any(name.endswith(RUN_STATE_SUFFIX) for name in names),
        )
    prefixes = _indexed(names)
    if prefixes:
        return Location(path=os.path.join(folder, _highest(folder, prefixes)))
    files = [name for name in huggingface.FILES if name in names]
    return Location(path=os.path.join(folder, files[0])) if files else None


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


def _named_latest(folder: str, names: Collection[str]) -> str | None:
    """Returns the prefix that the file `checkpoint` names, if it exists."""
    if STATE not in names:
        return None
    match = None
    with contextlib.suppress(ValueError):  # The file is not UTF-8.
        text = "".join(lines.read_lines(os.path.join(folder, STATE)))
        match = _LATEST.search(text)
    if match is None:
        return None
    named = text_encoding.CUnescape(match[1]).decode("utf-8", "replace")
    # A folder that was copied may name its origin; its own file comes first.
    name = os.path.basename(named)
    if not name:
        return None
    if name in names or f"{name}.index" in names:
        return os.path.join(folder, name)
    exists = paths.exists(f"{named}.index") or paths.exists(named)
    return named if exists else None


def saved_steps(folder: str) -> list[int]:
    """Lists the steps of a training's checkpoints in a folder, in order."""
    return _steps(paths.names_in(folder))


def _steps(names: Iterable[str]) -> list[int]:
    matches = map(_OF_A_RUN.fullmatch, _indexed(names))
    return sorted(int(match[1]) for match in matches if match)


def _indexed(names: Iterable[str]) -> list[str]:
    """Lists TensorFlow's checkpoints by the names of their indices."""
    # Incomplete files, which a killed program left, begin with a dot.
    return [
        name.removesuffix(".index")
        for name in names
        if name.endswith(".index") and not name.startswith(".")
    ]
