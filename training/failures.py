"""What ends a run from outside, in words: memory, disks, lost workers."""

import contextlib
import os
import re
import shutil
import time
from collections.abc import Iterator

import tensorflow as tf
from absl import logging

from files import paths
from training import batch_phases, checkpointing, workers

# How long to look for the worker whose loss made an exchange fail.
_SEARCH_SECONDS = 20.0
_TASK = re.compile(r"/job:(\w+)(?:/replica:\d+)?/task:(\d+)")
# Source: what TensorFlow says when a device has no room.
_NO_MEMORY = (tf.errors.ResourceExhaustedError, MemoryError)


class OutOfMemoryError(RuntimeError):
    """A step needs more memory than there is."""


class LostWorkerError(RuntimeError):
    """Another process of the run is gone."""


class WritingError(RuntimeError):
    """What the run writes has no room, or cannot be written."""


@contextlib.contextmanager
def of_memory(
    strategy: tf.distribute.Strategy, phase: batch_phases.Phase
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


@contextlib.contextmanager
def of_workers() -> Iterator[None]:
    """Explains why the workers could not exchange what they computed.

    Raises:
        LostWorkerError: names the workers that are gone.
    """
    try:
        yield
    except tf.errors.OpError as error:
        lost = _lost_workers(error)
        if not lost:
            raise
        raise LostWorkerError(
            f"Lost {', '.join(lost)}: it no longer answers. Start all workers "
            "again with the same command; they go on from the last checkpoint."
        ) from error


def less_memory(
    strategy: tf.distribute.Strategy, phase: batch_phases.Phase
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


def _lost_workers(error: Exception) -> list[str]:
    """Names the workers that do not answer after an exchange failed."""
    members = workers.cluster()
    if not members.has_several:
        return []
    logging.error("An exchange between the workers failed: %s", error)
    until = time.monotonic() + _SEARCH_SECONDS
    # A process that hangs still takes connections: TensorFlow's own heartbeat
    # names it.
    lost = workers.unreachable(members) or _named(str(error), members)
    while not lost and time.monotonic() < until:
        time.sleep(1.0)
        lost = workers.unreachable(members)
    return lost


def _named(message: str, members: workers.Cluster) -> list[str]:
    """Lists the other workers that a message of TensorFlow names."""
    tasks = {f"{kind} {number} " for kind, number in _TASK.findall(message)}
    return [
        name
        for rank, name in enumerate(members.names)
        if rank != members.rank and name.startswith(tuple(tasks))
    ]


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
