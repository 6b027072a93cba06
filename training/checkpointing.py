"""Checkpoint saving: the latest ones, and the best by a held-out metric.

A run's folder contains `model.ckpt-N` with the release's variable names, with
moments and step; for each, additional state for an exact resume in
`model.ckpt-N.state.json`; and the best weights in `best/`. `initialization`
restores them.
"""

import contextlib
import math
import os
import re
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from files import json_text, messages, paths, run_files, writing
from modeling import checkpoint_files, checkpoints
from modeling import config as config_lib

_NAME = "model.ckpt"
# The files with which `model_folder` describes a model.
_COMPANIONS = (config_lib.FILE, run_files.VOCABULARY, run_files.TASK)
_SAVED = re.compile(rf"{re.escape(_NAME)}-(0|[1-9]\d*)\.index")
_PARTS = (".index", ".data-00000-of-00001", ".state.json", ".meta")


def prefix_of(output_dir: str, step: int) -> str:
    """Names the checkpoint of a step."""
    return os.path.join(output_dir, f"{_NAME}-{step}")


def step_of(prefix: str) -> int:
    """Returns the step in a checkpoint's name, 0 if there is none."""
    match = re.search(r"-(\d+)$", prefix)
    return int(match.group(1)) if match else 0


def latest(output_dir: str) -> str | None:
    """Finds the checkpoint from which a run in this folder resumes.

    Returns:
        The prefix named in the folder's `checkpoint` file, else that of the
        highest step, else None.
    """
    location = checkpoint_files.in_folder(output_dir)
    return location.path if location and location.is_latest else None


def newest_first(output_dir: str) -> list[str]:
    """Lists the checkpoint to resume from, then those of earlier steps."""
    newest = latest(output_dir)
    if newest is None:
        return []
    before = [s for s in saved_steps(output_dir) if s < step_of(newest)]
    return [newest, *(prefix_of(output_dir, s) for s in before[::-1])]


def save(
    output_dir: str,
    step: int,
    variables: Mapping[str, tf.Variable],
    state: Mapping[str, object],
    keep: int,
    keep_every: int = 0,
) -> str:
    """Writes the checkpoint of a step and removes the oldest.

    Files appear under their names when they are complete; the `checkpoint`
    file, which readers follow, is changed last.

    Args:
        output_dir: the run's folder.
        step: the number of completed steps.
        variables: weights and slots, by release name.
        state: the state that `load_state` returns later.
        keep: the number of recent checkpoints to keep; 0 for all.
        keep_every: additionally keep every multiple of this step; 0 for none.

    Returns:
        The checkpoint's prefix.
    """
    prefix = prefix_of(output_dir, step)
    # The variables themselves: copies would need as much memory again.
    tensors = {**variables, "global_step": np.int64(step)}
    writing.write_json(f"{prefix}.state.json", dict(state))
    try:
        checkpoints.save(prefix, tensors)
    except BaseException:
        if not tf.io.gfile.exists(f"{prefix}.index"):
            _remove(prefix)
        raise
    # Later checkpoints belong to a run that was set back: they are neither
    # counted nor removed.
    steps = [saved for saved in saved_steps(output_dir) if saved <= step]
    kept = [
        saved
        for saved in steps
        if not keep
        or saved in steps[-keep:]
        or (keep_every and saved % keep_every == 0)
    ]
    with writing.whole_file(os.path.join(output_dir, "checkpoint")) as file:
        file.write(f'model_checkpoint_path: "{_NAME}-{step}"\n')
        for other in kept:
            file.write(f'all_model_checkpoint_paths: "{_NAME}-{other}"\n')
    for old in set(steps) - set(kept):
        _remove(prefix_of(output_dir, old))
    # Incomplete files of a killed run: this run has locked the folder.
    for path in paths.matching(output_dir, f".{_NAME}-*.partial*"):
        paths.remove(path)
    return prefix


def weights(model: keras.Model) -> dict[str, tf.Variable]:
    """Maps release names to the weights of a model."""
    return {
        name: variable.value
        for name, variable in checkpoints.variables_by_name(model).items()
    }


def load_step(prefix: str) -> int:
    """Reads the number of completed steps from the checkpoint."""
    if "global_step" in checkpoints.list_variables(prefix):
        return int(checkpoints.read(prefix, ["global_step"])["global_step"])
    return step_of(prefix)


def load_state(prefix: str) -> dict[str, Any] | None:
    """Reads the state file of a checkpoint; None if there is none."""
    path = f"{prefix}.state.json"
    return json_text.read_object(path) if paths.exists(path) else None


def latest_state(output_dir: str) -> dict[str, Any]:
    """Reads the state of the checkpoint to resume; empty if there is none.

    `load_state`, with which the run resumes, reports a file that is damaged.
    """
    prefix = latest(output_dir)
    with contextlib.suppress(ValueError):
        return (load_state(prefix) if prefix else None) or {}
    return {}


def load_slots(prefix: str, slots: Mapping[str, tf.Variable]) -> None:
    """Fills the optimizer's moments from a checkpoint.

    Missing moments stay 0, with a warning: the release has none for a variable
    without a gradient, such as the pooler of a span model.
    """
    with checkpoints.opened(prefix) as source:
        missing = sorted(set(slots) - set(source.variables))
        for name in set(slots) - set(missing):
            slots[name].assign(source.read(name))
    if missing:
        logging.warning(
            "%s lacks %d of %d optimizer moments, which start at 0: %s",
            prefix,
            len(missing),
            len(slots),
            messages.names(missing),
        )


def saved_steps(output_dir: str) -> list[int]:
    """Lists the steps of the checkpoints in a folder, in order."""
    if not tf.io.gfile.isdir(output_dir):
        return []
    found = map(_SAVED.fullmatch, tf.io.gfile.listdir(output_dir))
    return sorted(int(match[1]) for match in found if match)


def _remove(prefix: str) -> None:
    # The index first: without it, readers ignore the other files.
    for part in _PARTS:
        paths.remove(prefix + part)


def best_folder(output_dir: str) -> str:
    """Names the folder of a run's best checkpoint."""
    return os.path.join(output_dir, run_files.BEST)


def remove_best(output_dir: str) -> None:
    """Removes the best checkpoint that an earlier run left in a folder."""
    folder = best_folder(output_dir)
    paths.remove(os.path.join(folder, run_files.BEST_RECORD))
    paths.remove(os.path.join(folder, "checkpoint"))
    for step in saved_steps(folder):
        _remove(prefix_of(folder, step))


class BestCheckpoint:
    """Keeps the weights with the best held-out metric in `best/`.

    The files that describe the model are copied, so that the folder can be
    used like any other model folder.

    Args:
        output_dir: the run's folder.
        metric: the name of the metric.
        higher_is_better: False for losses.
        patience: evaluations without improvement after which to stop; 0 for
            never.
    """

    def __init__(
        self,
        output_dir: str,
        metric: str,
        *,
        higher_is_better: bool = True,
        patience: int = 0,
    ):
        self._output_dir = output_dir
        self.folder = best_folder(output_dir)
        self._metric = metric
        self._sign = 1 if higher_is_better else -1
        self._patience = patience
        self._path = os.path.join(self.folder, run_files.BEST_RECORD)
        self.record: dict[str, Any] | None = None
        if paths.exists(self._path):
            record = json_text.read_object(self._path)
            # The values of another metric are not compared.
            self.record = record if record["metric"] == metric else None

    def offer(
        self,
        step: int,
        results: Mapping[str, float],
        variables: Mapping[str, tf.Variable],
    ) -> None:
        """Saves the weights if they are the best so far."""
        value, best = float(results[self._metric]), self.record
        if math.isfinite(value) and (
            best is None or self._sign * (value - best["value"]) > 0
        ):
            # First, so that the weights are never without their description.
            for name in _COMPANIONS:
                path = os.path.join(self._output_dir, name)
                if paths.exists(path):
                    writing.copy_file(path, os.path.join(self.folder, name))
            save(self.folder, step, variables, state={}, keep=1)
            self._write(
                metric=self._metric,
                step=step,
                value=value,
                evaluations_since=0,
                last_step=step,
            )
            logging.info(
                "best %s so far: %.4g, kept in %s",
                self._metric,
                value,
                self.folder,
            )
        elif best is None:
            logging.warning("%s is %s, so it is not kept.", self._metric, value)
        # A resumed run may repeat an evaluation.
        elif step > best["last_step"]:
            since = best["evaluations_since"] + 1
            self._write(
                **best | {"evaluations_since": since, "last_step": step}
            )

    def is_over(self, step: int) -> bool:
        """Returns whether training ends at a step.

        It ends if `patience` evaluations brought no improvement. A run that was
        killed before it saved its last step repeats the steps up to that one.
        """
        return (
            self._patience > 0
            and self.record is not None
            and self.record["evaluations_since"] >= self._patience
            and step >= self.record["last_step"]
        )

    def _write(self, **record: Any) -> None:
        self.record = record
        writing.write_json(self._path, record)
