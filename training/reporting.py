"""What a run tells while it goes on, to people and to programs."""

import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import tensorflow as tf
from absl import logging

from files import json_text, writing
from files import progress as progress_lib
from training import curves, metrics_log

PLOT_FILE = "loss.png"

# Step and metrics of a report -> what looks wrong about them, in words.
Watch = Callable[[int, Mapping[str, float]], Iterable[str]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Speed:
    """How fast a run went on since the last report.

    Attributes:
        examples_per_second: pauses left out.
        input_wait: percent of that time in which a batch was waited for.
        seconds_left: until the last step, at this speed.
    """

    examples_per_second: float
    input_wait: float
    seconds_left: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Progress:
    """What happened since the last report.

    Attributes:
        step: how many steps were made in all.
        values: means since the last report, by name.
        speed: since the last report; None where nothing but the first steps
            was made, whose time is that of compiling them.
    """

    step: int
    values: Mapping[str, float]
    speed: Speed | None = None


class Reporter:
    """Reports a run to people and to programs.

    Args:
        output_dir: the run's folder.
        num_train_steps: the last step of the run.
        first_step: the step a resumed run starts from; what was reported of
            later steps, which are made again, is removed.
        watch: is shown every report; what it returns is logged as warnings.
    """

    def __init__(
        self,
        output_dir: str,
        num_train_steps: int,
        first_step: int,
        watch: Watch | None = None,
    ):
        self._output_dir = output_dir
        self._num_train_steps = num_train_steps
        self._watch = watch
        announce_start(output_dir, first_step)
        self._writer = tf.summary.create_file_writer(output_dir)
        self._path = metrics_log.path_in(output_dir)
        metrics_log.keep_until(self._path, first_step)

    def training(self, progress: Progress) -> None:
        """Reports training progress."""
        logging.info("%s", console_line(progress, self._num_train_steps))
        record = {"step": progress.step, **progress.values}
        if progress.speed is not None:
            record["examples_per_second"] = progress.speed.examples_per_second
            record["input_wait"] = progress.speed.input_wait
        self._record(record, prefix="")
        if self._watch:
            for warning in self._watch(progress.step, progress.values):
                logging.warning("step %d: %s", progress.step, warning)

    def evaluation(self, step: int, values: Mapping[str, float]) -> None:
        """Reports an evaluation made while training."""
        logging.info("evaluation at step %d: %s", step, _in_words(values))
        self._record(
            {
                "step": step,
                **{f"{metrics_log.HELD_OUT}{k}": v for k, v in values.items()},
            },
            prefix="eval/",
        )

    def has_evaluation(self, step: int) -> bool:
        """Tells whether an evaluation at this step was reported."""
        return any(
            record["step"] == step and metrics_log.is_evaluation(record)
            for record in metrics_log.read(self._path)
        )

    def close(self) -> None:
        """Writes what is buffered, and the plot."""
        self._writer.close()
        records = metrics_log.read(self._path)
        curves.draw({"": records}, os.path.join(self._output_dir, PLOT_FILE))

    def _record(self, record: Mapping[str, float], prefix: str) -> None:
        step = record["step"]
        with self._writer.as_default(step=step):
            for name, value in record.items():
                if name != "step":
                    tf.summary.scalar(
                        prefix + name.removeprefix(metrics_log.HELD_OUT), value
                    )
        self._writer.flush()
        rounded = {
            name: float(f"{value:.7g}") if isinstance(value, float) else value
            for name, value in record.items()
        }
        with tf.io.gfile.GFile(self._path, "a") as file:
            file.write(json.dumps(json_text.finite(rounded)) + "\n")


def console_line(progress: Progress, num_train_steps: int) -> str:
    """Formats one line of progress."""
    done = progress.step / num_train_steps
    bar = "█" * int(10 * done) + "·" * (10 - int(10 * done))
    line = (
        f"{bar} step {progress.step:,}/{num_train_steps:,}  "
        f"{_in_words(progress.values)}"
    )
    if progress.speed is None:
        return line
    return (
        f"{line}  {progress.speed.examples_per_second:.1f} examples/s  "
        f"input wait {progress.speed.input_wait:.1f} %  "
        f"{progress_lib.duration(progress.speed.seconds_left)} left"
    )


def _in_words(values: Mapping[str, float]) -> str:
    return "  ".join(
        f"{name} {value:.2e}"
        if name == "learning_rate"
        else f"{name} {value:.4g}"
        for name, value in values.items()
    )


def write_results(path: str, results: Mapping[str, float]) -> None:
    """Writes and logs results, one `key = value` a line, keys sorted.

    As released: numbers with a fraction are printed as float32.
    """
    logging.info("***** Eval results *****")
    with writing.whole_file(path) as file:
        for key in sorted(results):
            value = results[key]
            if isinstance(value, float):
                value = np.float32(value)
            logging.info("  %s = %s", key, value)
            file.write(f"{key} = {value!s}\n")


def announce_start(output_dir: str, step: int) -> None:
    """Tells TensorBoard that the steps after this one are made now, or again.

    Events files are only ever added to; from the second "session started" event
    on, each has what earlier files say of its step and later ones left out.
    """
    from tensorboard.compat.proto import event_pb2
    from tensorboard.summary.writer import event_file_writer

    writer = event_file_writer.EventFileWriter(output_dir)
    writer.add_event(
        event_pb2.Event(
            wall_time=time.time(),
            step=step + 1,
            session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START),
        )
    )
    writer.close()


class Clock:
    """Measures speed between reports, leaving pauses out."""

    def __init__(self):
        self._start = time.monotonic()
        self._paused = 0.0

    def pause(self) -> "_Pause":
        """Returns a context whose time does not count."""
        return _Pause(self)

    def lap(self) -> float:
        """Returns the seconds since the last lap, and starts a new one."""
        now = time.monotonic()
        seconds = max(now - self._start - self._paused, 1e-9)
        self._start, self._paused = now, 0.0
        return seconds

    def add_pause(self, seconds: float) -> None:
        """Leaves seconds out of the present lap."""
        self._paused += seconds


class _Pause:
    def __init__(self, clock: Clock):
        self._clock = clock

    def __enter__(self):
        self._start = time.monotonic()

    def __exit__(self, *_):
        self._clock.add_pause(time.monotonic() - self._start)
