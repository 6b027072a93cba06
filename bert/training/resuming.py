"""The one rule for resuming: a command compared with the run in its folder.

A run with nothing left to train must be that of the command; else its scores
would appear under flags that it was not trained with. A run that trains further
may differ in any flag, which is one line. Weights are never deleted without
being replaced. Importing this module does not import TensorFlow.
"""

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from absl import logging

from bert.commands import flags
from bert.files import json_text, messages, paths, run_files
from bert.models import folder as folder_lib
from bert.training import length as length_lib
from bert.training import options as training_options
from modeling import checkpoint_files

STATE_SUFFIX = checkpoint_files.RUN_STATE_SUFFIX


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunState:
    """The state of a run besides its variables, in `model.ckpt-N.state.json`.

    Attributes:
        flags: the values of the flags that change the result.
        data: identifies the training data, as JSON.
        execution: `devices.saved_execution` of the steps.
        num_examples: the examples of an epoch; 0 if flags count steps.
        loss_scale: that of float16 when it is saved; else empty.
    """

    flags: Mapping[str, object]
    data: Mapping[str, object]
    execution: Mapping[str, str]
    num_examples: int = 0
    loss_scale: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def as_json(self) -> json_text.Object:
        """Returns the content of the file, with tuples as lists."""
        return _as_json(dataclasses.asdict(self))


@dataclasses.dataclass(frozen=True, kw_only=True)
class BestRecord:
    """The content of best.json.

    Attributes:
        metric: the name of the held-out metric.
        held_out: identifies the held-out data, as JSON; None in the files of
            earlier versions.
        step: the step of the best weights; 0 if there are none yet.
        value: the value of the metric; None if none was finite yet.
        evaluations_since: the number of evaluations after `step`.
        last_step: the step of the last evaluation.
    """

    metric: str
    held_out: Mapping[str, object] | None = None
    step: int
    value: float | None
    evaluations_since: int
    last_step: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeldOutMetric:
    """The metric that selects the weights in `best/`.

    Attributes:
        name: of the metric.
        higher_is_better: False for losses.
        held_out: identifies the data that it is of, as JSON.
    """

    name: str
    higher_is_better: bool = True
    held_out: Mapping[str, object]

    def is_better(self, value: float, than: float) -> bool:
        """Returns whether a value is better than another one."""
        return value > than if self.higher_is_better else value < than

    def changes(self, record: BestRecord) -> Mapping[str, str]:
        """Describes why the value of a record is not comparable, if so."""
        return messages.changes(
            {"metric": record.metric, **(record.held_out or {})},
            {"metric": self.name, **_as_json(self.held_out)},
        )


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


def load_state(prefix: str) -> json_text.Object | None:
    """Reads the state file of a checkpoint; None if there is none.

    Raises:
        ValueError: it is damaged.
    """
    path = f"{prefix}{STATE_SUFFIX}"
    return json_text.read_object(path) if paths.exists(path) else None


def execution_of(run: folder_lib.ModelFolder) -> Mapping[str, str]:
    """Reads how the steps of the run to resume were executed, if it says so."""
    _, state = _latest_state(run)
    return state.get("execution", {})


def best_folder(output_dir: str) -> str:
    """Names the folder of a run's best checkpoint."""
    return os.path.join(output_dir, run_files.BEST)


def read_best(output_dir: str) -> BestRecord | None:
    """Reads best.json of a run; None if there is none.

    Raises:
        ValueError: it is damaged.
    """
    path = os.path.join(best_folder(output_dir), run_files.BEST_RECORD)
    if not paths.exists(path):
        return None
    try:
        return BestRecord(**json_text.read_object(path))
    except TypeError as error:
        raise ValueError(
            f"{path} is damaged ({error}). Remove it: the next evaluation "
            "writes it again."
        ) from error


def check(
    run: folder_lib.ModelFolder,
    options: training_options.TrainingOptions,
    data: Callable[[], Mapping[str, object]],
) -> None:
    """Checks that a training may use its folder, before anything is written.

    Args:
        run: the folder.
        options: the flags of the training.
        data: identifies its training data, as in `RunState`.

    Raises:
        ValueError: the folder has a complete run with other flags or data; or
            `best/` has the only weights of a run.
    """
    if not options.do_train:
        return
    if not run.has_training_state:
        _check_best_is_not_alone(run.path)
        return
    step, state = _latest_state(run)
    if not state or not _is_complete(run.path, step, state, options):
        return
    now = _as_json(flags.changing_result(options))
    if options.precision == training_options.AUTO:
        del now["precision"]  # The state has that of the device.
    changes = messages.changes(state.get("flags", {}), now)
    if not changes:
        changes = messages.changes(state.get("data", {}), _as_json(data()))
    if changes:
        raise ValueError(
            f"The training in {run.path} is complete at step {step}, so "
            "nothing would be trained with other values: "
            f"{', '.join(changes.values())}. Choose another --output_dir, or "
            "pass the values of that training."
        )


def _is_complete(
    output_dir: str,
    step: int,
    state: json_text.Object,
    options: training_options.TrainingOptions,
) -> bool:
    """Returns whether a run in a folder leaves nothing to train."""
    saved = state.get("data", {})
    num_examples = state.get("num_examples") or saved.get("num_records", 0)
    if step >= options.length(num_examples).end:
        return True
    best, patience = read_best(output_dir), options.early_stopping_patience
    return bool(patience and best and best.evaluations_since >= patience)


def _check_best_is_not_alone(output_dir: str) -> None:
    folder = best_folder(output_dir)
    steps = checkpoint_files.saved_steps(folder)
    if steps:
        raise ValueError(
            f"{folder} has the weights of step {steps[-1]} of a training of "
            f"which {output_dir} has no checkpoint. A new training would "
            f"replace them: choose another --output_dir, or remove {folder}. "
            "Without --do_train, --use_best_checkpoint evaluates them."
        )


def _latest_state(
    run: folder_lib.ModelFolder,
) -> tuple[int, json_text.Object]:
    """Returns the step and state of the checkpoint from which a run resumes.

    The state is empty if another program wrote the checkpoint, or if the file
    is damaged, which `checkpointing.resume` reports.
    """
    for prefix, step in run.training_checkpoints[:1]:
        with contextlib.suppress(ValueError):
            return step, load_state(prefix) or {}
    return 0, {}


def check_same_run(
    resumed: Resumed, now: RunState, length: length_lib.Length
) -> Mapping[str, float]:
    """Compares the run that saved a checkpoint with the one that resumes it.

    A difference that makes the checkpoint unusable is an error; the others are
    one warning.

    Args:
        resumed: the checkpoint.
        now: the state of this run.
        length: the steps of this run.

    Returns:
        The loss scale that was saved, in the form of `RunState`.

    Raises:
        ValueError: the checkpoint has weights only.
    """
    if resumed.step > length.num_train_steps:
        logging.warning(
            "The results are those of step %d, which an earlier run in this "
            "folder made, although this command is for %d steps. For a shorter "
            "run choose another --output_dir.",
            resumed.step,
            length.num_train_steps,
        )
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
    if differing and resumed.step < length.end:
        logging.warning(
            "Resuming from %s with other settings: %s. The result will not be "
            "that of an uninterrupted run.",
            resumed.prefix,
            ", ".join(differing.values()),
        )
    return saved["loss_scale"]


def _compared(state: json_text.Object) -> dict[str, object]:
    """Returns the values of a state on which the result depends, by name."""
    values = dict(state.get("flags", {}))
    # It tells more than the flag, which may be "auto".
    values.pop("jit_compile", None)
    return {**values, **state.get("execution", {}), **state.get("data", {})}


def _as_json(values: Mapping[str, object]) -> json_text.Object:
    return json.loads(json.dumps(values))
