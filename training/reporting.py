"""Training reports: the log, `metrics.jsonl`, TensorBoard and curves.

Importing this module does not import TensorFlow, so that tools can read
reports.
"""

import contextlib
import json
import operator
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from absl import logging

from files import json_text, paths, progress, writing

if TYPE_CHECKING:
    from training import steps

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


class NonFiniteLossError(RuntimeError):
    """The loss of a step was infinite or not a number."""


class Reporter:
    """The reports of a run: log, `metrics.jsonl`, TensorBoard and plot.

    The results of steps are read from the device when they are reported or
    saved, so that the host does not wait for each step.

    Args:
        output_dir: the run's folder; None on a worker that writes no files.
        num_train_steps: the last step of the run.
        first_step: the step a resumed run starts from; reports of later steps
            are removed, because these steps are repeated.
        batch_size: the examples of a step.
        describe: names the records of a step's batch.
        sums: those at `first_step`, of an earlier run.
    """

    def __init__(
        self,
        output_dir: str | None,
        num_train_steps: int,
        first_step: int,
        *,
        batch_size: int,
        describe: Callable[[int], str],
        sums: Mapping[str, Any] | None = None,
    ):
        self._total = num_train_steps
        self._batch_size = batch_size
        self._describe = describe
        # Since the last report: the sums over processed steps, and the results
        # of later ones; the seconds, and the waits for batches, of the steps
        # after the first, which includes compilation.
        self._sums = dict(sums or {})
        self._results: list[steps.StepResult] = []
        self._seconds = 0.0
        self._waits: list[Any] = []
        self._is_compiled = False
        self._started = self._lapped = time.monotonic()
        self._is_first_line_due = True
        self._bar = progress.bar(
            num_train_steps, initial=first_step, title="training"
        )
        self._path = output_dir and os.path.join(output_dir, METRICS_FILE)
        self._writer = None
        if self._path:
            import tensorflow as tf

            self._writer = tf.summary.create_file_writer(output_dir)
            remove_later_metrics(self._path, first_step)

    def add(self, step: int, result: "steps.StepResult") -> None:
        """Adds the result of `Trainer.run`, of the step before `step`."""
        self._results.append(result)
        seconds = self._lap()
        if self._is_compiled:
            self._waits.append(result.input_seconds)
            self._seconds += seconds
        self._is_compiled = True
        self._bar.update()
        late = time.monotonic() - self._started > _FIRST_LINE_SECONDS
        if self._is_first_line_due and late:
            self._show(step, *self._values(step))

    def training(self, step: int) -> None:
        """Reports the steps since the last report.

        Raises:
            NonFiniteLossError: the loss of one of them is not finite.
        """
        values, seconds_left = self._values(step)
        self._show(step, values, seconds_left)
        if values.get("skipped_steps") == self._sums["steps"]:
            logging.warning(
                "step %d: all %d steps since the last report were skipped: "
                "their float16 gradients overflowed, and no weight changed. If "
                "this continues, pass --precision=mixed_bfloat16 or "
                "--precision=float32.",
                step,
                self._sums["steps"],
            )
        self._record(step, values)
        self._sums, self._waits, self._seconds = {}, [], 0.0

    def evaluation(self, step: int, values: Mapping[str, float]) -> None:
        """Reports an evaluation made while training."""
        shown = "  ".join(f"{name} {x:.4g}" for name, x in values.items())
        logging.info("evaluation at step %d: %s", step, shown)
        self._record(step, values, is_evaluation=True)

    def has_evaluation(self, step: int) -> bool:
        """Returns whether this worker has reported an evaluation of a step."""
        return self._path is not None and any(
            record["step"] == step
            and any(n.startswith(HELD_OUT) for n in record)
            for record in read_metrics(self._path)
        )

    def sums(self) -> dict[str, Any]:
        """Returns the sums over the steps since the last report.

        Raises:
            NonFiniteLossError: as `training`.
        """
        import tensorflow as tf

        for result in self._results:
            numbers = tf.nest.map_structure(lambda x: x.numpy().item(), result)
            step = numbers.first_bad_step
            if step >= 0:
                raise NonFiniteLossError(
                    f"The loss of step {step}, or its gradient, is not finite; "
                    "nothing was saved after it. Its batch: "
                    f"{self._describe(step)}. Try a lower learning rate or a "
                    "longer warm-up; instead of mixed_float16, mixed_bfloat16."
                )
            values = {
                "steps": 1,
                "losses": numbers.losses,
                "metrics": numbers.metrics,
                "gradient_norm": numbers.gradient_norm,
                "skipped_steps": numbers.skipped_steps,
                _LEARNING_RATE: numbers.learning_rate,
            }
            self._sums = _plus(self._sums, values)
        self._results = []
        return self._sums

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Excludes the time of a block from the speed."""
        self._seconds += self._lap() if self._waits else 0.0
        yield
        self._lap()

    def close(self) -> None:
        """Ends the reports; plots them, unless all are of one step."""
        self._bar.close()
        if self._writer is None or self._path is None:
            return
        self._writer.close()
        records = read_metrics(self._path)
        path = os.path.join(os.path.dirname(self._path), PLOT_FILE)
        if len({record["step"] for record in records}) > 1:
            draw_curves(records, path)
        else:
            paths.remove(path)  # Of an earlier run.

    def _lap(self) -> float:
        now = time.monotonic()
        seconds, self._lapped = now - self._lapped, now
        return seconds

    def _values(self, step: int) -> tuple[dict[str, float], float | None]:
        """Returns the means since the last report, and the seconds left."""
        values = _means(self.sums())
        num_steps = len(self._waits)
        if not num_steps:
            self._lap()  # It was of compilation.
            return values, None
        self._seconds = seconds = max(self._seconds + self._lap(), 1e-9)
        values[_SPEED] = num_steps * self._batch_size / seconds
        waited = sum(float(wait) for wait in self._waits)
        values["input_wait"] = 100 * waited / seconds
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
        if self._writer is None or self._path is None:
            return
        import tensorflow as tf

        folder, prefix = ("eval/", HELD_OUT) if is_evaluation else ("", "")
        rounded: dict[str, float] = {"step": step}
        with self._writer.as_default(step):
            for name, value in values.items():
                tf.summary.scalar(f"{folder}{name}", value)
                is_float = isinstance(value, float)
                rounded[prefix + name] = (
                    float(f"{value:.7g}") if is_float else value
                )
        self._writer.flush()
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


def _plus(sums: Mapping, values: Mapping) -> dict:
    """Adds the values of later steps; keeps the learning rate of the last."""
    if not sums:
        return dict(values)
    import tensorflow as tf

    added = tf.nest.map_structure(
        operator.add, dict(sums), dict(values), check_types=False
    )
    return {**added, _LEARNING_RATE: values[_LEARNING_RATE]}


def _means(sums: Mapping) -> dict[str, float]:
    """Converts sums over steps to the reported values."""
    count = sums["steps"]
    made = count - sums["skipped_steps"]
    values = {
        "loss": sum(sums["losses"].values()) / count,
        **{
            name: total / weight if weight else 0.0
            for name, (total, weight) in sums["metrics"].items()
        },
        **({"gradient_norm": sums["gradient_norm"] / made} if made else {}),
        _LEARNING_RATE: sums[_LEARNING_RATE],
    }
    if sums["skipped_steps"]:
        values["skipped_steps"] = sums["skipped_steps"]
    return values


def read_metrics(path: str) -> list[dict[str, Any]]:
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


def remove_later_metrics(path: str, step: int) -> None:
    """Removes the records of later steps, and what is no record."""
    if not paths.exists(path):
        return
    kept = [r for r in read_metrics(path) if r["step"] <= step]
    with writing.whole_file(path) as file:
        file.writelines(f"{json.dumps(record)}\n" for record in kept)


def draw_curves(records: Sequence[Mapping[str, Any]], path: str) -> None:
    """Plots every metric against the step, in training and held out.

    Args:
        records: the reports, at least one, as `read_metrics` returns them.
        path: the PNG file to write.
    """
    from matplotlib.figure import Figure

    found = (name.removeprefix(HELD_OUT) for each in records for name in each)
    names = [name for name in dict.fromkeys(found) if name not in _NOT_DRAWN]
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
