"""Handling of signals, out-of-memory errors and full disks."""

import contextlib
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Iterator

import tensorflow as tf
from absl import logging

from files import paths
from training import checkpointing, input_pipeline

# Source: TensorFlow's message when a device is out of memory.
_NO_MEMORY = (tf.errors.ResourceExhaustedError, MemoryError)
# An error of a Python function within TensorFlow follows its traceback.
_OF_PYTHON = re.compile(
    r"\n(?:ValueError|OSError): (.+?)\n+\t \[\[\{\{node PyFunc", re.DOTALL
)


class OutOfMemoryError(RuntimeError):
    """A step exceeded the available memory."""


class WritingError(RuntimeError):
    """Output of the run cannot be written, for example on a full disk."""


@contextlib.contextmanager
def of_memory(
    strategy: tf.distribute.Strategy,
    phase: input_pipeline.BatchPhase,
    *,
    recompute: bool = False,
    in_phases: bool = False,
) -> Iterator[None]:
    """Replaces an out-of-memory error of TensorFlow by advice.

    Args:
        strategy: the distribution strategy of the run.
        phase: the shape of the batches.
        recompute: whether activations are recomputed.
        in_phases: whether the phase is one of `--phases`, which may have its
            own `num_accumulation_steps`.

    Raises:
        OutOfMemoryError: its message names flags that compute the same update
            with less memory.
    """
    try:
        yield
    except _NO_MEMORY as error:
        rows = phase.batch_size // strategy.num_replicas_in_sync
        parts = phase.num_accumulation_steps
        ways = [] if recompute else ["--recompute"]
        advice = (
            "That is the minimum: pass "
            f"{', or '.join([*ways, 'a smaller --max_seq_length or model'])}."
        )
        more = [n for n in range(parts + 1, rows + 1) if rows % n == 0]
        if more:
            flag = f"num_accumulation_steps={more[0]}"
            flag = (
                f"{flag} in that phase of --phases"
                if in_phases
                else f"--{flag}"
            )
            ways.insert(0, f"{flag} ({rows // more[0]} at once)")
            advice = (
                "The same update needs less memory with "
                f"{', or with '.join(ways)}. Run the command again with it: "
                "training resumes from the last checkpoint."
            )
        raise OutOfMemoryError(
            f"There is not enough memory. A device processes {rows // parts} "
            f"of the {phase.batch_size} examples of a batch at once. {advice}"
        ) from error


@contextlib.contextmanager
def of_reading() -> Iterator[None]:
    """Replaces the error of TensorFlow for a record that cannot be read.

    Raises:
        ValueError: with the message of `record_files` or `records` alone.
    """
    try:
        yield
    except tf.errors.OpError as error:
        found = _OF_PYTHON.search(error.message)
        if not found:
            raise
        raise ValueError(found[1]) from error


@contextlib.contextmanager
def of_writing(folder: str) -> Iterator[None]:
    """Replaces a write error in a run's folder by advice.

    Raises:
        WritingError: its message names the last complete checkpoint.
    """
    try:
        yield
    except (OSError, tf.errors.OpError) as error:
        last, room = checkpointing.latest(folder), ""
        if os.path.isdir(folder) and not paths.is_remote(folder):
            free = shutil.disk_usage(folder).free
            room = f" ({free / 1e6:,.0f} MB are free)"
        reason = str(error).removesuffix(".")
        raise WritingError(
            f"{folder} could not be written to{room}: {reason}. "
            + (
                f"The last checkpoint, {last}, is complete. "
                if last
                else "There is no checkpoint yet. "
            )
            + "Free disk space and run the same command again to resume."
        ) from error


class Interruption:
    """Turns SIGTERM and Ctrl-C into a request, while it is entered."""

    _SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self):
        self.requested = None

    def __enter__(self):
        self._before = {}
        # Only the main thread of a program may handle signals.
        if threading.current_thread() is threading.main_thread():
            for number in self._SIGNALS:
                self._before[number] = signal.signal(number, self._request)
        return self

    def __exit__(self, *_):
        self._restore()

    def _request(self, number, frame):
        logging.warning(
            "%s: saving after this step or evaluation. Repeat the signal to "
            "stop at once.",
            signal.Signals(number).name,
        )
        self.requested = number
        self._restore()

    def _restore(self):
        # Once: a signal may replace the handlers that were restored.
        while self._before:
            signal.signal(*self._before.popitem())


def exit_by_signal(number: int, step: int) -> None:
    """Ends the program with the exit status of a signal.

    Args:
        number: the signal.
        step: the last completed step, which is saved.
    """
    logging.warning(
        "Stopped by %s after step %d, which is saved. Run the same command "
        "again to resume.",
        signal.Signals(number).name,
        step,
    )
    sys.exit(128 + number)
