"""The best checkpoint of a run by a held-out metric, and when to stop."""

import os
from collections.abc import Mapping

import tensorflow as tf
from absl import logging

from files import json_text, paths, wording, writing
from training import checkpointing, model_folder

_FOLDER = "best"
_RECORD = "best.json"


def chosen(output_dir: str, *, best: bool) -> str | None:
    """Finds the checkpoint of a run that answers.

    Args:
        output_dir: the run's folder.
        best: take the best one; else the latest.

    Returns:
        The prefix; None if the folder holds no checkpoint.

    Raises:
        ValueError: the best one is asked for and none was kept.
    """
    kept = checkpointing.latest(os.path.join(output_dir, _FOLDER))
    if best and kept is None:
        raise ValueError(
            f"{output_dir} has no best checkpoint: one is kept where training "
            "evaluates (--eval_every_epoch, --eval_every_steps)."
        )
    prefix = kept if best else checkpointing.latest_readable(output_dir)
    if kept is not None:
        logging.info(
            "Using the %s checkpoint, %s%s.",
            "best" if best else "latest",
            prefix,
            "" if best else "; --use_best_checkpoint takes that in best/",
        )
    return prefix


def remove(output_dir: str) -> None:
    """Removes the best checkpoint that an earlier run left in a folder."""
    folder = os.path.join(output_dir, _FOLDER)
    record = os.path.join(folder, _RECORD)
    if paths.exists(record) or checkpointing.latest(folder):
        logging.warning(
            "%s is of an earlier run: its checkpoint is removed.", folder
        )
        checkpointing.remove_all(folder)
        paths.remove(record)


def check_origin(init_checkpoint: str, output_dir: str) -> None:
    """Checks that a fresh run does not remove what it starts from.

    Raises:
        ValueError: the checkpoint is the best one of the run's own folder.
    """
    origin = model_folder.of_checkpoint(init_checkpoint)
    folder = os.path.join(output_dir, _FOLDER)
    if os.path.realpath(origin) == os.path.realpath(folder):
        raise ValueError(
            f"--init_checkpoint={init_checkpoint} lies in a folder that a new "
            f"run in --output_dir={output_dir} replaces. Choose another "
            "--output_dir."
        )


class BestCheckpoint:
    """Keeps the weights that did best on held-out data, in `best/`.

    What lies beside the run's own checkpoints is copied there, so that the
    folder can be used, and checked, as any other with a model.

    Args:
        output_dir: the run's folder.
        metric: the name of what is compared.
        higher_is_better: False for losses.
        patience: evaluations without a new best after which to stop; 0 for
            never.
        identity: of the run, saved beside the weights.
    """

    def __init__(
        self,
        output_dir: str,
        metric: str,
        *,
        higher_is_better: bool = True,
        patience: int = 0,
        identity: Mapping[str, object] | None = None,
    ):
        self._output_dir = output_dir
        self.folder = os.path.join(output_dir, _FOLDER)
        self.metric = metric
        self._sign = 1 if higher_is_better else -1
        self._patience = patience
        self._identity = dict(identity or {})
        self._path = os.path.join(self.folder, _RECORD)
        self.record = self._read()

    def offer(
        self,
        step: int,
        results: Mapping[str, float],
        variables: Mapping[str, tf.Variable],
    ) -> None:
        """Saves the weights if they are the best so far.

        Raises:
            ValueError: the results lack the metric.
        """
        if self.metric not in results:
            raise ValueError(
                f"The best checkpoint is chosen by {self.metric!r}; the "
                f"evaluation gives {', '.join(sorted(results))}."
            )
        value = float(results[self.metric])
        best = self.record
        if best is None or self._sign * (value - best["value"]) > 0:
            # First: whoever reads the weights finds what they mean.
            model_folder.copy_description(self._output_dir, self.folder)
            prefix = checkpointing.save(
                *(self.folder, step, variables),
                state={"identity": self._identity},
                keep=1,
            )
            self._write(step=step, value=value, evaluations_since=0)
            logging.info(
                "best %s so far: %.4g, kept as %s", self.metric, value, prefix
            )
            return
        # A resumed run may make an evaluation a second time.
        if step > best["last_step"]:
            since = best["evaluations_since"] + 1
            self._write(
                step=best["step"],
                value=best["value"],
                evaluations_since=since,
                last_step=step,
            )
        if self.is_over():
            logging.info(
                "stopping early: no better %s than %.4g (step %d) in %d "
                "evaluations",
                self.metric,
                self.record["value"],
                self.record["step"],
                self.record["evaluations_since"],
            )

    def is_over(self) -> bool:
        """Tells whether `patience` evaluations brought no new best."""
        return (
            self._patience > 0
            and self.record is not None
            and self.record["evaluations_since"] >= self._patience
        )

    def prefix(self) -> str | None:
        """Returns the best checkpoint, None before the first evaluation."""
        return checkpointing.latest(self.folder) if self.record else None

    def _read(self) -> dict | None:
        if not tf.io.gfile.exists(self._path):
            return None
        record = json_text.read_object(self._path)
        for name in ("step", "value", "evaluations_since", "last_step"):
            value = record.get(name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(
                    f"{self._path}: {name} must be a number; got "
                    f"{wording.shown(value)}. Without this file the best "
                    "checkpoint is chosen anew."
                )
        return record

    def _write(
        self,
        *,
        step: int,
        value: float,
        evaluations_since: int,
        last_step: int | None = None,
    ) -> None:
        self.record = {
            "metric": self.metric,
            "step": step,
            "value": value,
            "evaluations_since": evaluations_since,
            "last_step": step if last_step is None else last_step,
        }
        writing.write_json(self._path, self.record)
