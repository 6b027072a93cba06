"""Training reports: the log, `metrics.jsonl`, TensorBoard and curves.

Importing this module does not import TensorFlow, so that tools can read
reports.
"""

import contextlib
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from absl import logging

from files import json_text, paths, progress, writing

METRICS_FILE = "metrics.jsonl"
PLOT_FILE = "loss.png"
# The prefix of metrics on held-out data.
HELD_OUT = "eval_"

_SPEEDS = ("examples_per_second", "input_wait")
_RECORD_SHAPE = {"step": int, "*": (int, float, type(None))}

_PANEL_INCHES = (7.0, 2.2)
_LEARNING_RATE = "learning_rate"
# Values that do not show the quality of a run.
_NOT_DRAWN = {"step", *_SPEEDS, "gradient_norm", "skipped_steps"}

# One line of `metrics.jsonl`: `step`, then metrics by name, all numbers; None
# for infinity and NaN.
Record = Mapping[str, Any]
# The step and metrics of a report -> warnings.
SanityCheck = Callable[[int, Mapping[str, float]], Iterable[str]]


class Reporter:
    """The reports of a run: log, `metrics.jsonl`, TensorBoard and plot.

    Args:
        output_dir: the run's folder.
        num_train_steps: the last step of the run.
        first_step: the step a resumed run starts from; reports of later steps
            are removed, because these steps are repeated.
        sanity_check: called with every training report; its warnings are
            logged.
    """

    def __init__(
        self,
        output_dir: str,
        num_train_steps: int,
        first_step: int,
        sanity_check: SanityCheck | None = None,
    ):
        self._output_dir = output_dir
        self._num_train_steps = num_train_steps
        self._sanity_check = sanity_check
        # The last training report: step, values and seconds left.
        self._last: tuple[int, Mapping[str, float], float | None] | None = None
        self._events = _Events(output_dir, first_step)
        self._path = metrics_path(output_dir)
        remove_later_metrics(self._path, first_step)

    def training(
        self,
        step: int,
        values: Mapping[str, float],
        seconds_left: float | None = None,
    ) -> None:
        """Reports training progress since the last report.

        Args:
            step: the number of completed steps.
            values: means by name; the speed is `examples_per_second`, without
                pauses, and `input_wait`, the percentage of time spent waiting
                for batches.
            seconds_left: until the last step, at this speed; None if the time
                of all steps since the last report includes compilation.
        """
        self._last = (step, values, seconds_left)
        total = self._num_train_steps
        progress.report(console_line(step, total, values, seconds_left))
        self._record(step, values)
        if self._sanity_check:
            for warning in self._sanity_check(step, values):
                logging.warning("step %d: %s", step, warning)

    def animate(self, step: int) -> None:
        """Updates the progress line of a terminal between two reports."""

        def text() -> str:
            total = self._num_train_steps
            reported, values, left = self._last or (0, {}, None)
            if left is not None:
                left *= (total - step) / (total - reported)
            return console_line(step, total, values, left)

        progress.animate(text)

    def evaluation(self, step: int, values: Mapping[str, float]) -> None:
        """Reports an evaluation made while training."""
        shown = "  ".join(f"{name} {x:.4g}" for name, x in values.items())
        logging.info("evaluation at step %d: %s", step, shown)
        self._record(step, values, is_evaluation=True)

    def has_evaluation(self, step: int) -> bool:
        """Returns whether an evaluation at this step was reported."""
        return any(
            record["step"] == step and _is_evaluation(record)
            for record in read_metrics(self._path)
        )

    def close(self) -> None:
        """Writes buffered events and the plot; a single step has none."""
        progress.keep()
        self._events.close()
        records = read_metrics(self._path)
        path = os.path.join(self._output_dir, PLOT_FILE)
        if len({record["step"] for record in records}) > 1:
            draw_curves({"": records}, path)
        else:
            paths.remove(path)  # Of an earlier run.

    def _record(
        self,
        step: int,
        values: Mapping[str, float],
        is_evaluation: bool = False,
    ) -> None:
        import tensorflow as tf

        folder, prefix = ("eval/", HELD_OUT) if is_evaluation else ("", "")
        self._events.write(
            step, {f"{folder}{name}": value for name, value in values.items()}
        )
        rounded: dict[str, float] = {"step": step}
        for name, value in values.items():
            is_float = isinstance(value, float)
            rounded[prefix + name] = (
                float(f"{value:.7g}") if is_float else value
            )
        with tf.io.gfile.GFile(self._path, "a") as file:
            file.write(json.dumps(json_text.finite(rounded)) + "\n")


class _Events:
    """The TensorBoard events of a run from the given step on.

    The first event is "session started": events files are never truncated, and
    because of it TensorBoard ignores the repeated steps in earlier files. It
    stands in the file of the scalars, since TensorBoard orders the files of one
    second by chance.
    """

    def __init__(self, output_dir: str, first_step: int):
        from tensorboard.compat.proto import event_pb2
        from tensorboard.summary.writer import event_file_writer

        self._writer = event_file_writer.EventFileWriter(output_dir)
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._add(first_step + 1, session_log=start)

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        from tensorboard.plugins.scalar import summary_v2

        for name, value in scalars.items():
            self._add(step, summary=summary_v2.scalar_pb(name, value))
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()

    def _add(self, step: int, **content) -> None:
        from tensorboard.compat.proto import event_pb2

        self._writer.add_event(
            event_pb2.Event(wall_time=time.time(), step=step, **content)
        )


def console_line(
    step: int,
    num_train_steps: int,
    values: Mapping[str, float],
    seconds_left: float | None = None,
) -> str:
    """Formats one line of progress; arguments as in `Reporter.training`.

    `metrics.jsonl` has all values.
    """
    parts = [f"step {step:,}/{num_train_steps:,} {step / num_train_steps:.0%}"]
    if "loss" in values:
        parts.append(f"loss {values['loss']:.4g}")
    if _LEARNING_RATE in values:
        parts.append(f"rate {values[_LEARNING_RATE]:.2e}")
    if seconds_left is not None:
        parts.append(f"{values['examples_per_second']:.1f} examples/s")
        parts.append(f"{progress.duration(seconds_left)} left")
    return "  ".join(parts)


def metrics_path(folder: str) -> str:
    """Returns the path of `metrics.jsonl` in a run's folder."""
    return os.path.join(folder, METRICS_FILE)


def read_metrics(path: str) -> list[dict[str, Any]]:
    """Reads all reports, except a last line truncated by a crash.

    Returns:
        The reports; an empty list if there is no file.

    Raises:
        ValueError: a line is not a report; names the line.
    """
    if not paths.exists(path):
        return []
    with paths.open_to_read(path) as file:
        *lines, _ = file.read().split(b"\n")
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json_text.parse(line, path)
        except ValueError:
            record = None
        if not json_text.has_shape(record, _RECORD_SHAPE):
            raise ValueError(
                f"{path}:{number}: must be a JSON object of numbers with "
                f"`step`; got {line[:60]!r}."
            )
        records.append(record)
    return records


def remove_later_metrics(path: str, step: int) -> None:
    """Removes the records of later steps, and a line truncated by a crash."""
    if not paths.exists(path):
        return
    kept = [r for r in read_metrics(path) if r["step"] <= step]
    content = "".join(f"{json.dumps(record)}\n" for record in kept).encode()
    if content != b"".join(paths.chunks_of(path)):
        with writing.whole_file(path, "wb") as file:
            file.write(content)


def summarize(records: Sequence[Record]) -> dict[str, Any]:
    """Summarizes the reports of a run.

    Returns:
        `last_step`; the medians of `examples_per_second` and `input_wait`
        (percent of the time); `last_training` and `last_evaluation`, metrics by
        name and their steps. Values that were not reported are left out.
    """
    if not records:
        return {}
    summary: dict[str, Any] = {
        "last_step": max(record["step"] for record in records)
    }
    for name in _SPEEDS:
        speeds = [r[name] for r in records if r.get(name) is not None]
        if speeds:
            summary[name] = statistics.median(speeds)
    evaluations = [r for r in records if _is_evaluation(r)]
    reports = [r for r in records if not _is_evaluation(r)]
    if reports:
        summary["last_training"] = reports[-1]
    if evaluations:
        summary["last_evaluation"] = evaluations[-1]
    return summary


def _is_evaluation(record: Record) -> bool:
    return any(name.startswith(HELD_OUT) for name in record)


def draw_curves(runs: Mapping[str, Sequence[Record]], path: str) -> None:
    """Plots every metric of one or several runs against the step.

    Each metric has a panel: losses first, the learning rate last. Training and
    evaluation share it, and so do all runs, each in its color. Without reports,
    no file is written.

    Args:
        runs: the reports of each run, by its name in the legend.
        path: the PNG file to write.
    """
    names = _panels(runs)
    if not names:
        return
    from matplotlib.backends import backend_agg
    from matplotlib.figure import Figure

    width, height = _PANEL_INCHES
    figure = Figure((width, height * len(names)), layout="constrained")
    axes = figure.subplots(len(names), sharex=True, squeeze=False)[:, 0]
    for axis, name in zip(axes, names, strict=True):
        for number, (run, records) in enumerate(runs.items()):
            colors = (f"C{number}",) * 2 if len(runs) > 1 else ("C0", "C1")
            label = run if len(runs) > 1 else ""
            if label.startswith("_"):  # Else matplotlib omits it.
                label = os.path.join(os.curdir, label)
            _draw_run(axis, name, records, label, colors)
        axis.set_ylabel(name.replace("_", " "))
        axis.grid(alpha=0.3)
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize="small")
    axes[-1].set_xlabel("step")
    backend_agg.FigureCanvasAgg(figure)
    with writing.whole_file(path, "wb") as file:
        writing.save_png(figure, file)


def _panels(runs: Mapping[str, Sequence[Record]]) -> list[str]:
    """Lists the metrics to plot: losses, then others, then the rate."""
    names = {
        name.removeprefix(HELD_OUT)
        for records in runs.values()
        for record in records
        for name in record
    } - _NOT_DRAWN

    def place(name: str) -> tuple[object, ...]:
        is_rate, is_loss = name == _LEARNING_RATE, name.endswith("loss")
        # The total loss comes before its terms.
        return is_rate, name != "loss", not is_loss, name

    return sorted(names, key=place)


def _draw_run(
    axis, name: str, records: Sequence[Record], run: str, colors
) -> None:
    """Plots the two curves of a metric, each in its color."""
    for column, kind, style, color in (
        (name, "training", "-", colors[0]),
        (f"{HELD_OUT}{name}", "held out", "o:" if run else "o-", colors[1]),
    ):
        points = [
            (r["step"], r[column]) for r in records if r.get(column) is not None
        ]
        if points:
            label: str | None = f"{run}, {kind}" if run else kind
            if name == _LEARNING_RATE:
                label = run or None
            axis.plot(
                *zip(*points, strict=True),
                style,
                color=color,
                markersize=3,
                label=label,
            )


class Clock:
    """A stopwatch for the time between reports, without pauses."""

    def __init__(self):
        self._start = time.monotonic()
        self._paused = 0.0

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Excludes the time of a block from the current lap."""
        started = time.monotonic()
        try:
            yield
        finally:
            self._paused += time.monotonic() - started

    def lap(self) -> float:
        """Returns the seconds since the last lap, and starts a new one."""
        now = time.monotonic()
        seconds = max(now - self._start - self._paused, 1e-9)
        self._start, self._paused = now, 0.0
        return seconds


@contextlib.contextmanager
def log_cost(name: str) -> Iterator[None]:
    """Logs the duration of a block and the peak memory so far."""
    started = time.monotonic()
    yield
    logging.info(
        "%s took %.1f s; peak memory so far %s MB",
        name,
        time.monotonic() - started,
        f"{peak_host_bytes() / (1 << 20):,.0f}",
    )


def peak_host_bytes() -> int:
    """Returns the peak host memory of this process in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts kilobytes, macOS bytes.
    return peak if sys.platform == "darwin" else peak << 10
