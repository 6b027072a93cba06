"""Checkpoint saving and resuming: the latest ones, and the best.

A run's folder contains `model.ckpt-N` with the original's variable names, with
moments and step; for each, the state for an exact resume in
`model.ckpt-N.state.json`; and the best weights by a held-out metric in `best/`.
"""

import contextlib
import dataclasses
import json
import math
import os
from collections.abc import Mapping
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from bert.files import json_text, messages, paths, run_files, writing
from bert.models import folder as folder_lib
from modeling import checkpoint_files, checkpoints, release_format
from modeling import config as config_lib

# The files that describe a model.
_COMPANIONS = (config_lib.FILE, run_files.VOCABULARY, run_files.TASK)
_STATE_SUFFIX = checkpoint_files.RUN_STATE_SUFFIX
_PARTS = (".index", ".data-00000-of-00001", _STATE_SUFFIX, ".meta")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunState:
    """The state of a run besides its variables, in `model.ckpt-N.state.json`.

    Attributes:
        flags: the values of the flags that change the result.
        data: identifies the training data, as JSON.
        execution: `devices.saved_execution` of the steps.
        loss_scale: that of float16 when it is saved; else empty.
    """

    flags: Mapping[str, object]
    data: Mapping[str, object]
    execution: Mapping[str, str]
    loss_scale: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def as_json(self) -> json_text.Object:
        """Returns the content of the file, with tuples as lists."""
        return json.loads(json.dumps(dataclasses.asdict(self)))


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
    prefix = checkpoint_files.prefix_of(output_dir, step)
    # The variables themselves: copies would need as much memory again.
    tensors = {**variables, "global_step": np.int64(step)}
    writing.write_json(f"{prefix}{_STATE_SUFFIX}", dict(state))
    try:
        checkpoints.save(prefix, tensors)
    except BaseException:
        if not tf.io.gfile.exists(f"{prefix}.index"):
            _remove(prefix)
        raise
    # Checkpoints of later steps exist if the user made an earlier one the
    # latest: they are neither counted nor removed.
    steps = [
        saved
        for saved in checkpoint_files.saved_steps(output_dir)
        if saved <= step
    ]
    kept = [
        saved
        for saved in steps
        if not keep
        or saved in steps[-keep:]
        or (keep_every and saved % keep_every == 0)
    ]
    path = os.path.join(output_dir, checkpoint_files.STATE)
    name = checkpoint_files.RUN_NAME
    with writing.whole_file(path) as file:
        file.write(f'model_checkpoint_path: "{name}-{step}"\n')
        for other in kept:
            file.write(f'all_model_checkpoint_paths: "{name}-{other}"\n')
    for old in set(steps) - set(kept):
        _remove(checkpoint_files.prefix_of(output_dir, old))
    # Incomplete files of a killed run: this run has locked the folder.
    for path in paths.matching(output_dir, f".{name}-*.partial*"):
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
    step = checkpoints.step_of(release_format.Reader(prefix))
    return checkpoint_files.step_of(prefix) if step is None else step


def load_state(prefix: str) -> json_text.Object | None:
    """Reads the state file of a checkpoint; None if there is none."""
    path = f"{prefix}{_STATE_SUFFIX}"
    return json_text.read_object(path) if paths.exists(path) else None


def execution_of(run: folder_lib.ModelFolder) -> Mapping[str, str]:
    """Reads how the steps of the run to resume were executed, if it says so.

    `resume` reports a file that is damaged.
    """
    for prefix in run.of_training[:1]:
        with contextlib.suppress(ValueError):
            return (load_state(prefix) or {}).get("execution", {})
    return {}


# ------------------------------------------------------------------- Resuming


class Resumed(NamedTuple):
    """The checkpoint from which a run resumes.

    Attributes:
        prefix: its path.
        step: the number of completed steps.
        state: the content of its state file; None if it has none, as one of
            the original program.
    """

    prefix: str
    step: int
    state: json_text.Object | None


def resume(
    run: folder_lib.ModelFolder,
    model: keras.Model,
    slots: Mapping[str, tf.Variable],
) -> Resumed | None:
    """Loads the latest checkpoint of a run; if damaged, the one before.

    Args:
        run: the folder of the run.
        model: receives the weights.
        slots: the optimizer's moments by release name, which are filled.

    Returns:
        None if the folder has no checkpoint.

    Raises:
        OSError, ValueError: none of the checkpoints can be read.
    """
    faults = []
    for prefix in run.of_training:
        try:
            state = load_state(prefix)
            source = release_format.Reader(prefix)
            report = checkpoints.load_from(model, source)
            load_slots(source, slots)
        except (OSError, ValueError) as error:
            logging.warning("%s cannot be read: %s", prefix, error)
            faults.append(error)
            continue
        step = report.step
        if step is None:
            step = checkpoint_files.step_of(prefix)
        logging.info("Resumed from %s at step %d.", prefix, step)
        return Resumed(prefix, step, state)
    if faults:
        raise faults[0]
    return None


def check_same_run(resumed: Resumed, now: RunState) -> Mapping[str, float]:
    """Compares the run that saved a checkpoint with the one that resumes it.

    A difference that makes the checkpoint unusable is an error; the others are
    one warning.

    Args:
        resumed: the checkpoint.
        now: the state of this run.

    Returns:
        The loss scale that was saved, in the form of `RunState`.

    Raises:
        ValueError: the checkpoint has weights only.
    """
    saved = resumed.state
    if saved is None:
        return {}
    if "loss_scale" not in saved:
        raise ValueError(
            f"{resumed.prefix} cannot be resumed: it has weights only, like "
            "the best checkpoint of a run. To resume that run, pass its "
            "--output_dir. To start from these weights, pass them as "
            "--init_checkpoint with another --output_dir."
        )
    before, after = _compared(saved), _compared(now.as_json())
    differing = messages.changes(before, after)
    if differing:
        logging.warning(
            "Resuming from %s with other settings: %s. The result will not be "
            "that of an uninterrupted run.",
            resumed.prefix,
            ", ".join(differing.values()),
        )
    return saved["loss_scale"]


def _compared(state: json_text.Object) -> dict[str, object]:
    """Returns the values of a state on which the result depends, by name."""
    flags = dict(state.get("flags", {}))
    # It tells more than the flag, which may be "auto".
    flags.pop("jit_compile", None)
    return {**flags, **state.get("execution", {}), **state.get("data", {})}


def load_slots(
    source: checkpoints.Source, slots: Mapping[str, tf.Variable]
) -> None:
    """Fills the optimizer's moments from a checkpoint.

    Missing moments stay 0, with a warning: the release has none for a variable
    without a gradient, such as the pooler of a span model.
    """
    missing = sorted(set(slots) - set(source.variables))
    for name in set(slots) - set(missing):
        slots[name].assign(source.read(name))
    if missing:
        logging.warning(
            "%s lacks %d of %d optimizer moments, which start at 0: %s",
            source.origin,
            len(missing),
            len(slots),
            messages.names(missing),
        )


def _remove(prefix: str) -> None:
    # The index first: without it, readers ignore the other files.
    for part in _PARTS:
        paths.remove(prefix + part)


# ------------------------------------------------------------------------ Best


@dataclasses.dataclass(frozen=True, kw_only=True)
class BestRecord:
    """The content of best.json.

    Attributes:
        metric: the name of the held-out metric.
        step: the step of the best weights.
        value: the value of the metric.
        evaluations_since: the number of evaluations after `step`.
        last_step: the step of the last evaluation.
    """

    metric: str
    step: int
    value: float
    evaluations_since: int
    last_step: int


def best_folder(output_dir: str) -> str:
    """Names the folder of a run's best checkpoint."""
    return os.path.join(output_dir, run_files.BEST)


def _read_best(output_dir: str) -> BestRecord | None:
    path = os.path.join(best_folder(output_dir), run_files.BEST_RECORD)
    if not paths.exists(path):
        return None
    return BestRecord(**json_text.read_object(path))


def remove_best(output_dir: str, *, after: int = 0) -> None:
    """Removes the best checkpoint if it is of steps that were given up.

    Args:
        output_dir: the run's folder.
        after: the step at which the run starts or resumes. Later steps are
            repeated; at 0, a best checkpoint is of an earlier run.
    """
    folder = best_folder(output_dir)
    if after:
        record = _read_best(output_dir)
        if record is None or record.step <= after:
            return
        logging.warning(
            "The weights in %s are removed: they are of step %d, which is "
            "repeated.",
            folder,
            record.step,
        )
    paths.remove(os.path.join(folder, run_files.BEST_RECORD))
    paths.remove(os.path.join(folder, checkpoint_files.STATE))
    for step in checkpoint_files.saved_steps(folder):
        _remove(checkpoint_files.prefix_of(folder, step))


class BestCheckpoint:
    """The weights with the best held-out metric, in `best/`.

    The files that describe the model are copied, so that the folder can be
    used like any other model folder.

    Args:
        output_dir: the run's folder.
        metric: the name of the metric.
        first_step: the step at which the run starts or resumes. Evaluations of
            later steps are repeated, so they do not count.
        higher_is_better: False for losses.
        eval_every_steps: the steps between evaluations.
        patience: evaluations without improvement after which to stop; 0 for
            never.

    Attributes:
        record: that of the best weights; None if there are none yet.
    """

    def __init__(
        self,
        output_dir: str,
        metric: str,
        first_step: int = 0,
        *,
        higher_is_better: bool = True,
        eval_every_steps: int = 1,
        patience: int = 0,
    ):
        self._output_dir = output_dir
        self.folder = best_folder(output_dir)
        self._metric = metric
        self._sign = 1 if higher_is_better else -1
        self._patience = patience
        record = _read_best(output_dir)
        # The values of another metric are not compared.
        if record is not None and record.metric != metric:
            record = None
        if record is not None and record.last_step > first_step:
            every = eval_every_steps
            record = dataclasses.replace(
                record,
                evaluations_since=first_step // every - record.step // every,
                last_step=max(first_step // every * every, record.step),
            )
        self.record = record

    def has_evaluation(self, step: int) -> bool:
        """Returns whether the last evaluation was at this step or later."""
        return self.record is not None and self.record.last_step >= step

    def offer(
        self,
        step: int,
        results: Mapping[str, float],
        variables: Mapping[str, tf.Variable],
    ) -> None:
        """Saves the weights if they are the best so far."""
        value, best = float(results[self._metric]), self.record
        if math.isfinite(value) and (
            best is None or self._sign * (value - best.value) > 0
        ):
            # First, so that the weights are never without their description.
            for name in _COMPANIONS:
                path = os.path.join(self._output_dir, name)
                if paths.exists(path):
                    writing.copy_file(path, os.path.join(self.folder, name))
            save(self.folder, step, variables, state={}, keep=1)
            self._write(
                BestRecord(
                    metric=self._metric,
                    step=step,
                    value=value,
                    evaluations_since=0,
                    last_step=step,
                )
            )
            logging.info(
                "best %s so far: %.4g, kept in %s",
                self._metric,
                value,
                self.folder,
            )
        elif best is None:
            logging.warning("%s is %s, so it is not kept.", self._metric, value)
        else:
            self._write(
                dataclasses.replace(
                    best,
                    evaluations_since=best.evaluations_since + 1,
                    last_step=step,
                )
            )

    @property
    def is_over(self) -> bool:
        """Whether `patience` evaluations brought no improvement."""
        return (
            self._patience > 0
            and self.record is not None
            and self.record.evaluations_since >= self._patience
        )

    def _write(self, record: BestRecord) -> None:
        self.record = record
        path = os.path.join(self.folder, run_files.BEST_RECORD)
        writing.write_json(path, dataclasses.asdict(record))
