"""Training reports: the log, `metrics.jsonl`, TensorBoard and curves.

Importing this module does not import TensorFlow, so that tools can read
reports.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from absl import logging

from bert.files import json_text, paths, progress, writing
from bert.training import failures
from bert.training import length as length_lib

if TYPE_CHECKING:
    import tensorflow as tf

    from bert.training import steps

METRICS_FILE = "metrics.jsonl"
PLOT_FILE = "loss.png"
# The prefix of metrics on held-out data.
HELD_OUT = "eval_"

# The first line appears after this time, whatever --log_every_steps.
_FIRST_LINE_SECONDS = 30.0
_PANEL_INCHES = (7.0, 2.2)
_LEARNING_RATE, _SPEED = "learning_rate", "examples_per_second"
# Values that do not show the quality of a run.
_NOT_DRAWN = {"step", _SPEED, "input_wait", "gradient_norm", "skipped_steps"}


class _Numbers(NamedTuple):
    """A `StepResult` that was read from the device."""

    losses: Mapping[str, float]
    metrics: Mapping[str, tuple[float, float]]
    gradient_norm: float
    learning_rate: float
    skipped_steps: int


class Reporter(contextlib.AbstractContextManager):
    """The reports of a run: log, `metrics.jsonl`, TensorBoard and plot.

    The results of steps are read from the device when they are reported or
    saved, so that the host does not wait for each step. At the exit of the
    context the reports are plotted.

    Args:
        output_dir: the run's folder; None on a worker that writes no files.
        length: the steps of the run.
        first_step: the step from which a resumed run starts. Reports of later
            steps are removed, because these steps are repeated.
        log_every_steps: steps between reports, of which the last one is at
            the end.
        describe: names the records of a step's batch.
        repeats_evaluation: whether the evaluation at `first_step` is repeated,
            so its record is dropped.
    """

    def __init__(
        self,
        output_dir: str | None,
        length: length_lib.Length,
        first_step: int,
        *,
        log_every_steps: int,
        describe: Callable[[int], str],
        repeats_evaluation: bool = False,
    ):
        self._length = length
        self._total = length.num_train_steps
        self._log_every_steps = log_every_steps
        self._describe = describe
        # The steps since the last report: those that were read from the device,
        # and those that follow.
        self._numbers: list[_Numbers] = []
        self._results: list[steps.StepResult] = []
        # The time of these steps, and their waits for batches. The first step
        # of the process, which includes compilation, is left out.
        self._seconds = 0.0
        self._waits: list[tf.Tensor] = []
        self._num_steps = 0  # Of this process.
        self._started = self._lapped = time.monotonic()
        self._is_first_line_due = True
        self._bar = progress.bar(
            self._total, initial=first_step, title="training"
        )
        self._path = output_dir and os.path.join(output_dir, METRICS_FILE)
        self._events = None
        if output_dir and self._path:
            # Late, because tools read reports without TensorBoard.
            from bert.training import tensorboard_events

            self._events = tensorboard_events.EventWriter(
                output_dir, first_step
            )
            remove_later_metrics(
                self._path, first_step, and_evaluation=repeats_evaluation
            )

    def __exit__(self, *_: object) -> None:
        """Ends the reports; plots them, unless all are of one step."""
        self._bar.close()
        if self._events is None or self._path is None:
            return
        self._events.close()
        records = read_metrics(self._path)
        path = os.path.join(os.path.dirname(self._path), PLOT_FILE)
        if len({record["step"] for record in records}) > 1:
            draw_curves(records, path)
        else:
            paths.remove(path)  # An earlier run has drawn it.

    def add(self, step: int, result: "steps.StepResult") -> None:
        """Adds the result of a step, counted from 1; reports if it is due.

        Raises:
            NonFiniteLossError: the loss of a step to report is not finite.
        """
        self._results.append(result)
        seconds = self._lap()
        if self._num_steps:
            self._waits.append(result.input_seconds)
            self._seconds += seconds
        self._num_steps += 1
        self._bar.update()
        late = time.monotonic() - self._started > _FIRST_LINE_SECONDS
        if progress.in_terminal():
            # A bar shows the loss of steps 1, 2, 4, 8 and so on: few waits.
            is_shown = self._num_steps.bit_count() == 1
        else:
            is_shown = self._is_first_line_due and late
        if is_shown:
            self._show(step, *self._values(step))
        if self._length.is_due(step, self._log_every_steps):
            self.report_training(step)

    def report_training(self, step: int) -> None:
        """Reports the steps since the last report.

        Raises:
            NonFiniteLossError: the loss of one of them is not finite.
        """
        values, seconds_left = self._values(step)
        self._show(step, values, seconds_left)
        if values.get("skipped_steps") == len(self._numbers):
            logging.warning(
                "step %d: all %d steps since the last report were skipped: "
                "their float16 gradients overflowed, and no weight changed. If "
                "this continues, pass --precision=mixed_bfloat16 or "
                "--precision=float32.",
                step,
                len(self._numbers),
            )
        self._record(step, values)
        self._numbers, self._waits, self._seconds = [], [], 0.0

    def report_evaluation(self, step: int, values: Mapping[str, float]) -> None:
        """Reports an evaluation made while training."""
        shown = "  ".join(f"{name} {x:.4g}" for name, x in values.items())
        logging.info("evaluation at step %d: %s", step, shown)
        self._record(step, values, is_evaluation=True)

    def check_losses(self) -> None:
        """Checks the losses of the steps since the last check or report.

        Raises:
            NonFiniteLossError: the loss of one of them is not finite.
        """
        for result in self._results:
            step = int(result.first_bad_step)
            if step >= 0:
                raise failures.NonFiniteLossError(
                    f"The loss of step {step + 1}, or its gradient, is not "
                    "finite; nothing was saved after it. Its batch: "
                    f"{self._describe(step)}. Try a lower learning rate or a "
                    "longer warm-up; instead of mixed_float16, mixed_bfloat16."
                )
            self._numbers.append(_read(result))
        self._results = []

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Excludes the time of a block from the speed."""
        self._seconds += self._lap() if self._waits else 0.0
        yield
        self._lap()

    def _lap(self) -> float:
        now = time.monotonic()
        seconds, self._lapped = now - self._lapped, now
        return seconds

    def _values(self, step: int) -> tuple[dict[str, float], float | None]:
        """Returns the means since the last report, and the seconds left."""
        self.check_losses()
        values = _means(self._numbers)
        num_steps = len(self._waits)
        if not num_steps:
            self._lap()  # It was of compilation.
            return values, None
        self._seconds = seconds = max(self._seconds + self._lap(), 1e-9)
        values[_SPEED] = num_steps * self._length.batch_size / seconds
        waits = [float(wait) for wait in self._waits if wait is not None]
        if waits:
            values["input_wait"] = 100 * sum(waits) / seconds
        return values, (self._total - step) * seconds / num_steps

    def _show(
        self,
        step: int,
        values: Mapping[str, float],
        seconds_left: float | None,
    ) -> None:
        self._is_first_line_due = False
        if not progress.in_terminal():
            line = console_line(step, self._total, values, seconds_left)
            logging.info("%s", line)
            return
        self._bar.set_postfix_str(
            f"loss {values['loss']:.4g}, rate {values[_LEARNING_RATE]:.2e}"
        )

    def _record(
        self,
        step: int,
        values: Mapping[str, float],
        is_evaluation: bool = False,
    ) -> None:
        if self._events is None or self._path is None:
            return
        folder, prefix = ("eval/", HELD_OUT) if is_evaluation else ("", "")
        rounded: dict[str, float] = {"step": step}
        for name, value in values.items():
            self._events.scalar(f"{folder}{name}", value, step)
            is_float = isinstance(value, float)
            rounded[prefix + name] = (
                float(f"{value:.7g}") if is_float else value
            )
        self._events.flush()
        writing.append_json(self._path, rounded)


def console_line(
    step: int,
    num_train_steps: int,
    values: Mapping[str, float],
    seconds_left: float | None = None,
) -> str:
    """Formats one line of progress; `metrics.jsonl` has all values.

    Args:
        step: the number of completed steps.
        num_train_steps: the last step.
        values: means by name.
        seconds_left: until the last step; None if not known.
    """
    import tqdm

    line = (
        f"step {step:,}/{num_train_steps:,} {step / num_train_steps:.0%}  "
        f"loss {values['loss']:.4g}  rate {values[_LEARNING_RATE]:.2e}"
    )
    if seconds_left is None:
        return line
    left = tqdm.tqdm.format_interval(seconds_left)
    return f"{line}  {values[_SPEED]:.1f} examples/s  {left} left"


def _read(result: "steps.StepResult") -> _Numbers:
    """Reads the result of a step from the device."""
    return _Numbers(
        losses={name: float(loss) for name, loss in result.losses.items()},
        metrics={
            name: (float(total), float(weight))
            for name, (total, weight) in result.metrics.items()
        },
        gradient_norm=float(result.gradient_norm),
        learning_rate=float(result.learning_rate),
        skipped_steps=int(result.skipped_steps),
    )


def _means(numbers: Sequence[_Numbers]) -> dict[str, float]:
    """Averages the results of steps, at least one; the last learning rate."""
    count = len(numbers)
    num_skipped = sum(step.skipped_steps for step in numbers)
    losses = [
        sum(step.losses[name] for step in numbers) for name in numbers[0].losses
    ]
    values = {"loss": sum(losses) / count}
    for name in numbers[0].metrics:
        pairs = [step.metrics[name] for step in numbers]
        weight = sum(weight for _, weight in pairs)
        total = sum(total for total, _ in pairs)
        values[name] = total / weight if weight else 0.0
    if num_updates := count - num_skipped:
        norm = sum(step.gradient_norm for step in numbers)
        values["gradient_norm"] = norm / num_updates
    values[_LEARNING_RATE] = numbers[-1].learning_rate
    if num_skipped:
        values["skipped_steps"] = num_skipped
    return values


def read_metrics(path: str) -> list[json_text.Object]:
    """Reads all reports; lines that are none are left out.

    Returns:
        The reports; an empty list if there is no file. Each has `step`, then
        metrics by name, all numbers; None for infinity and NaN.
    """
    return [
        record
        for record in json_text.read_log(path)
        if type(record.get("step")) is int
    ]


def remove_later_metrics(
    path: str, step: int, *, and_evaluation: bool = False
) -> None:
    """Removes the records of later steps, and what is no record.

    Args:
        path: of the records.
        step: the last step whose records are kept.
        and_evaluation: remove the evaluation of `step` too.
    """
    if not paths.exists(path):
        return
    kept = [
        record
        for record in read_metrics(path)
        if record["step"] <= step
        and not (
            and_evaluation
            and record["step"] == step
            and any(name.startswith(HELD_OUT) for name in record)
        )
    ]
    with writing.whole_file(path) as file:
        file.writelines(f"{json.dumps(record)}\n" for record in kept)


def draw_curves(records: Sequence[json_text.Object], path: str) -> None:
    """Plots every metric against the step, in training and held out.

    Args:
        records: the reports, at least one, as `read_metrics` returns them.
        path: the PNG file to write.
    """
    from matplotlib.figure import Figure

    metrics = (
        name.removeprefix(HELD_OUT) for record in records for name in record
    )
    names = [name for name in dict.fromkeys(metrics) if name not in _NOT_DRAWN]
    width, height = _PANEL_INCHES
    figure = Figure((width, height * len(names)), layout="constrained")
    axes = figure.subplots(len(names), sharex=True, squeeze=False)[:, 0]
    for axis, name in zip(axes, names, strict=True):
        for column, label, style in (
            (name, "training", "-"),
            (f"{HELD_OUT}{name}", "held out", "o-"),
        ):
            points = [
                (record["step"], record[column])
                for record in records
                if record.get(column) is not None
            ]
            if points:
                axis.plot(
                    *zip(*points, strict=True), style, markersize=3, label=label
                )
        axis.set_ylabel(name.replace("_", " "))
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small")
    axes[-1].set_xlabel("step")
    writing.write_png(path, figure)
