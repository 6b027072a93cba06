"""Checkpoint saving and resuming: the latest ones, and the best.

A run's folder contains `model.ckpt-N` with the original's variable names, with
moments and step; for each, the state for an exact resume in
`model.ckpt-N.state.json`; and the best weights by a held-out metric in `best/`.
"""

import dataclasses
import functools
import math
import os
from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from bert.files import messages, paths, run_files, writing
from bert.models import folder as folder_lib
from bert.training import length as length_lib
from bert.training import options as training_options
from bert.training import resuming, workers
from bert.training import steps as steps_lib
from modeling import checkpoint_files, checkpoints, release_format
from modeling import config as config_lib

# The files that describe a model.
_COMPANIONS = (config_lib.FILE, run_files.VOCABULARY, run_files.TASK)
_PARTS = (".index", ".data-00000-of-00001", resuming.STATE_SUFFIX, ".meta")


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
    writing.write_json(f"{prefix}{resuming.STATE_SUFFIX}", dict(state))
    try:
        checkpoints.save(prefix, tensors)
    except BaseException:
        if not tf.io.gfile.exists(f"{prefix}.index"):
            _remove(prefix)
        raise
    # Checkpoints of later steps exist if the user pointed `checkpoint` at an
    # earlier one: they are neither counted nor removed.
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


def step_of(
    source: checkpoints.Source, checkpoint: checkpoint_files.TrainingCheckpoint
) -> int:
    """Returns the number of completed steps of an open checkpoint."""
    step = checkpoints.step_of(source)
    return checkpoint.step if step is None else step


# ------------------------------------------------------------------- Resuming


def resume(
    run: folder_lib.ModelFolder,
    model: keras.Model,
    slots: Mapping[str, tf.Variable],
) -> resuming.Resumed | None:
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
    for checkpoint in run.training_checkpoints:
        prefix = checkpoint.prefix
        try:
            state = resuming.load_state(prefix)
            source = release_format.Reader(prefix)
            checkpoints.load_from(model, source)
            load_slots(source, slots)
            step = step_of(source, checkpoint)
        except (OSError, ValueError) as error:
            logging.warning("%s cannot be read: %s", prefix, error)
            faults.append(error)
            continue
        logging.info("Resumed from %s at step %d.", prefix, step)
        return resuming.Resumed(prefix, step, state)
    if faults:
        raise faults[0]
    return None


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


# ---------------------------------------------------------------------- Saving


@dataclasses.dataclass(eq=False)
class Saver:
    """The checkpoints of a run, at their intervals.

    Attributes:
        folder: of the run.
        planned: described in it with the first checkpoint.
        trainer: the weights, moments and loss scale.
        communicator: connects the workers, of which the chief writes.
        state: of the run; the loss scale is that of the trainer.
        length: the steps of the run.
        options: the intervals.
    """

    folder: folder_lib.ModelFolder
    planned: folder_lib.PlannedModel
    trainer: steps_lib.Trainer
    communicator: workers.Communicator
    state: resuming.RunState
    length: length_lib.Length
    options: training_options.TrainingOptions
    _is_described: bool = False

    @property
    def keeps_start(self) -> bool:
        """Whether the weights before the first step are saved."""
        return self.options.keep_checkpoint_every_n_steps > 0

    def is_due(self, step: int) -> bool:
        """Returns whether a checkpoint is due after a step."""
        return self.length.evaluates_at(step) or self.length.is_due(
            step,
            self.options.save_checkpoints_steps,
            self.options.keep_checkpoint_every_n_steps,
        )

    def save(self, step: int) -> None:
        """Writes the checkpoint of a step; the first call describes it."""
        self.communicator.chief_first(functools.partial(self._write, step))

    def _write(self, step: int) -> None:
        if not self._is_described:
            self.planned.write(self.folder)
            self._is_described = True
        trainer = self.trainer
        save(
            self.folder.path,
            step,
            {**weights(trainer.objective.model), **trainer.optimizer.slots()},
            dataclasses.replace(
                self.state, loss_scale=trainer.loss_scale.state()
            ).as_json(),
            keep=self.options.keep_checkpoint_max,
            keep_every=self.options.keep_checkpoint_every_n_steps,
        )


# ------------------------------------------------------------------------ Best


class BestCheckpoint:
    """The weights with the best held-out metric, in `best/`.

    The files that describe the model are copied, so that the folder can be
    used like any other model folder.

    Args:
        output_dir: the run's folder.
        metric: the held-out metric. Values of another one, or of other data,
            are not compared.
        length: the steps of the run.
        first_step: the step at which the run starts or resumes. Evaluations of
            later steps are repeated, so they do not count.
        patience: evaluations without improvement after which to stop; 0 for
            never.

    Attributes:
        record: of the best weights; None if no evaluation counts yet.
        lacks_evaluation: whether a run was killed between the checkpoint of
            `first_step` and its evaluation.
    """

    def __init__(
        self,
        output_dir: str,
        metric: resuming.HeldOutMetric,
        length: length_lib.Length,
        first_step: int = 0,
        patience: int = 0,
    ):
        self._output_dir = output_dir
        self.folder = resuming.best_folder(output_dir)
        self._metric = metric
        self._patience = patience
        self.record = record = resuming.read_best(output_dir)
        changes = metric.changes(record) if record else {}
        if record and (changes or record.step > first_step):
            logging.warning(
                "The next evaluation replaces the weights of step %d in %s: %s",
                record.step,
                self.folder,
                ", ".join(changes.values()) or "the step is repeated.",
            )
            self.record = None
        elif record and record.last_step > first_step:
            count = length.num_evaluations
            is_evaluated = count(first_step) > count(first_step - 1)
            self.record = dataclasses.replace(
                record,
                evaluations_since=count(first_step) - count(record.step),
                last_step=first_step if is_evaluated else record.step,
            )
        last_step = self.record.last_step if self.record else -1
        self.lacks_evaluation = (
            length.evaluates_at(first_step)
            and not changes
            and last_step < first_step
        )

    def offer(
        self,
        step: int,
        results: Mapping[str, float],
        variables: Mapping[str, tf.Variable],
    ) -> None:
        """Saves the weights if they are the best so far."""
        name = self._metric.name
        value = float(results[name])
        best = self.record or resuming.BestRecord(
            metric=name,
            held_out=self._metric.held_out,
            step=0,
            value=None,
            evaluations_since=0,
            last_step=0,
        )
        if math.isfinite(value) and (
            best.value is None or self._metric.is_better(value, best.value)
        ):
            # First, so that the weights are never without their description.
            for file in _COMPANIONS:
                path = os.path.join(self._output_dir, file)
                if paths.exists(path):
                    writing.copy_file(path, os.path.join(self.folder, file))
            save(self.folder, step, variables, state={}, keep=1)
            self._write(
                dataclasses.replace(
                    best,
                    step=step,
                    value=value,
                    evaluations_since=0,
                    last_step=step,
                )
            )
            # Those of steps that were given up.
            for other in checkpoint_files.saved_steps(self.folder):
                if other != step:
                    _remove(checkpoint_files.prefix_of(self.folder, other))
            logging.info(
                "best %s so far: %.4g, kept in %s",
                name,
                value,
                self.folder,
            )
            return
        if best.value is None:
            logging.warning("%s is %s, so it is not kept.", name, value)
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

    def _write(self, record: resuming.BestRecord) -> None:
        self.record = record
        path = os.path.join(self.folder, run_files.BEST_RECORD)
        writing.write_json(path, dataclasses.asdict(record))
