"""Ends of a run from outside: signals, a lack of memory, a full disk."""

import contextlib
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator

import tensorflow as tf
from absl import logging

from files import paths
from training import checkpointing, input_pipeline

# Source: what TensorFlow says when a device has no room.
_NO_MEMORY = (tf.errors.ResourceExhaustedError, MemoryError)


class OutOfMemoryError(RuntimeError):
    """A step needs more memory than there is."""


class WritingError(RuntimeError):
    """What the run writes has no room, or cannot be written."""


@contextlib.contextmanager
def of_memory(
    strategy: tf.distribute.Strategy, phase: input_pipeline.BatchPhase
) -> Iterator[None]:
    """Explains why there was no room for a step.

    Args:
        strategy: of the run.
        phase: how the batches are shaped.

    Raises:
        OutOfMemoryError: says with what to try again.
    """
    try:
        yield
    except _NO_MEMORY as error:
        raise OutOfMemoryError(
            f"There is not enough memory. {less_memory(strategy, phase)}"
        ) from error


def less_memory(
    strategy: tf.distribute.Strategy, phase: input_pipeline.BatchPhase
) -> str:
    """Says which flags give the same update with less memory."""
    rows = phase.batch_size // strategy.num_replicas_in_sync
    parts = phase.num_accumulation_steps
    state = (
        f"A device goes through {rows // parts} of the {phase.batch_size} "
        "examples of a batch at once. "
    )
    more = next((n for n in range(parts + 1, rows + 1) if rows % n == 0), None)
    if more is None:
        return (
            f"{state}That is the least: pass --recompute, or a smaller "
            "--max_seq_length or model."
        )
    return (
        f"{state}The same update takes less with "
        f"--num_accumulation_steps={more} ({rows // more} at once); so it does "
        "with --recompute. Run the same command with it: it goes on from the "
        "last checkpoint."
    )


@contextlib.contextmanager
def of_writing(folder: str) -> Iterator[None]:
    """Explains why something could not be written to a run's folder.

    Raises:
        WritingError: says what was kept and what to do.
    """
    try:
        yield
    except (OSError, tf.errors.OpError) as error:
        last = checkpointing.latest(folder)
        raise WritingError(
            f"{folder} could not be written to{_room(folder)}: {error}. "
            + (
                f"The last checkpoint, {last}, is whole. "
                if last
                else "There is no checkpoint yet. "
            )
            + "Make room, then run the same command again to go on."
        ) from error


def _room(folder: str) -> str:
    if paths.is_remote(folder) or not os.path.isdir(folder):
        return ""
    free = shutil.disk_usage(folder).free
    return f" ({free / 1e6:,.0f} MB are free)"


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
            "%s: saving after this step. Once more to stop at once.",
            signal.Signals(number).name,
        )
        self.requested = number
        self._restore()

    def _restore(self):
        for number, handler in self._before.items():
            signal.signal(number, handler)


def exit_by_signal(number: int, step: int) -> None:
    """Ends the program as a signal would have done.

    Args:
        number: of the signal.
        step: the last one made, which is saved.
    """
    logging.warning(
        "Stopped by %s after step %d, which is saved. Run the same command "
        "again to go on from there.",
        signal.Signals(number).name,
        step,
    )
    sys.exit(128 + number)
