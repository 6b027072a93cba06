"""The worker processes of a run, and their communication.

Each machine runs the same command; `TF_CONFIG` in its environment names all
workers and its own index. Only the chief writes to the shared folder:

    {"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]},
     "task": {"type": "worker", "index": 0}}
"""

import contextlib
import dataclasses
import json
import os
import re
import secrets
import socket
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import tensorflow as tf
from absl import logging

from files import json_text, messages, paths, writing

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_VARIABLE = "TF_CONFIG"
# In the order of their ranks.
_KINDS = ("chief", "worker")
_ANSWER_SECONDS = 5.0
# How long to look for the lost worker after a collective operation failed.
_SEARCH_SECONDS = 20.0
_TASK = re.compile(r"/job:(\w+)(?:/replica:\d+)?/task:(\d+)")
_LOOK_EVERY_SECONDS = 0.2
_LOOKS_BETWEEN_QUESTIONS = 50
# Network file systems may show a file only a few seconds after it is written.
_MOST_SECONDS_UNSEEN = 20.0
# The flag of the shared folder.
_SHARED = "output_dir"

_Made = TypeVar("_Made")


class LostWorkerError(RuntimeError):
    """Another worker process of the run has ended."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cluster:
    """The workers of a run and the rank of this process.

    Attributes:
        names: of all workers, such as `worker 1 (10.0.0.2:2222)`; the first is
            the chief, the only one that writes.
        addresses: `host:port` of each.
        rank: the index of this process in `names`.
    """

    names: tuple[str, ...] = ("the only worker",)
    addresses: tuple[str, ...] = ("",)
    rank: int = 0

    @property
    def is_chief(self) -> bool:
        return self.rank == 0

    @property
    def has_several(self) -> bool:
        return len(self.names) > 1


def cluster() -> Cluster:
    """Reads `TF_CONFIG`; without it, this process is the only one.

    Raises:
        ValueError: its format is invalid, or it names parameter servers or
            evaluators.
    """
    text = os.environ.get(_VARIABLE, "")
    try:
        config = json.loads(text or "{}")
        held = config.get("cluster", {})
        if not held:
            return Cluster()
        if not json_text.has_shape(held, {"*": [str]}):
            raise ValueError("each kind of worker needs a list of addresses")
        task = config["task"]
        members = [
            (kind, index, address)
            for kind in _KINDS
            for index, address in enumerate(held.get(kind, ()))
        ]
        places = [(kind, index) for kind, index, _ in members]
        rank = places.index((task["type"], int(task["index"])))
        foreign = sorted(set(held) - set(_KINDS))
        if foreign:
            raise ValueError(f"it names {', '.join(foreign)}")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{_VARIABLE} must be JSON that names all workers "
            '({"cluster": {"worker": ["host:port", ...]}) and the index of '
            'this one ("task": {"type": "worker", "index": 0}}); '
            f"got {text!r} ({error})."
        ) from error
    return Cluster(
        names=tuple(f"{kind} {i} ({address})" for kind, i, address in members),
        addresses=tuple(address for *_, address in members),
        rank=rank,
    )


def unreachable(members: Cluster) -> list[str]:
    """Returns the names of workers whose port refuses connections."""
    return [
        name
        for rank, (name, address) in enumerate(
            zip(members.names, members.addresses, strict=True)
        )
        if rank != members.rank and not _answers(address)
    ]


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _ANSWER_SECONDS).close()
    except OSError:
        return False
    return True


@contextlib.contextmanager
def communication_errors() -> Iterator[None]:
    """Replaces the error of a collective operation by the lost workers.

    Raises:
        LostWorkerError: its message names the workers that have ended.
    """
    try:
        yield
    except tf.errors.OpError as error:
        lost = _lost_workers(error)
        if not lost:
            raise
        raise LostWorkerError(
            f"Lost {', '.join(lost)}: it no longer answers. Start all workers "
            "again with the same command; training resumes from the last "
            "checkpoint."
        ) from error


def _lost_workers(error: Exception) -> list[str]:
    """Returns the workers that do not answer after a failed operation."""
    members = cluster()
    if not members.has_several:
        return []
    logging.error("A collective operation of the workers failed: %s", error)
    until = time.monotonic() + _SEARCH_SECONDS
    # A process that hangs still accepts connections: TensorFlow's heartbeat
    # names it.
    lost = unreachable(members) or _named(str(error), members)
    while not lost and time.monotonic() < until:
        time.sleep(1.0)
        lost = unreachable(members)
    return lost


def _named(message: str, members: Cluster) -> list[str]:
    """Lists the other workers named in a message of TensorFlow."""
    tasks = {f"{kind} {number} " for kind, number in _TASK.findall(message)}
    return [
        name
        for rank, name in enumerate(members.names)
        if rank != members.rank and name.startswith(tuple(tasks))
    ]


class Communicator:
    """Collective operations between the workers of a run.

    Every worker must take part in each of them. A single process does not
    wait.

    Args:
        strategy: the distribution strategy of the run.

    Attributes:
        has_several: whether there are other workers.
        is_chief: whether this process is the chief.
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        self._strategy = strategy
        self._members = cluster()
        self.has_several = self._members.has_several and isinstance(
            strategy, tf.distribute.MultiWorkerMirroredStrategy
        )
        self.is_chief = not self.has_several or self._members.is_chief
        self._gather = tf.function(self._gathered, autograph=False)

    def all_gather(self, number: int) -> list[int]:
        """Returns the numbers of all workers, by rank."""
        if not self.has_several:
            return [number]
        return self._gather(tf.constant(number, tf.int64)).numpy().tolist()

    def all_reduce_max(self, number: int) -> int:
        """Returns the largest of the workers' numbers."""
        return max(self.all_gather(number))

    def barrier(self) -> None:
        """Returns when every worker has called it."""
        self.all_gather(0)

    def check_equal(self, what: str, values: Mapping[str, object]) -> None:
        """Checks that every worker has the same values.

        Args:
            what: the values, for messages.
            values: of this worker, by name; equal ones have the same `repr`.

        Raises:
            ValueError: those of a worker differ from the chief's; the message
                names the worker and the values.
        """
        if not self.has_several or not self._differing(sorted(values.items())):
            return
        differing: dict[str, list[str]] = {}
        for other in self._differing(sorted(values)):
            differing[other] = ["its program"]
        if not differing:
            for name in sorted(values):
                for other in self._differing(values[name]):
                    differing.setdefault(other, []).append(name)
        listed = "; ".join(
            f"{other} differs from {self._members.names[0]} in "
            f"{messages.names(names)}"
            for other, names in differing.items()
        )
        raise ValueError(
            f"All workers must have the same {what}; {listed}. Start all "
            "workers with the same command, and with data and checkpoints that "
            "all of them can read."
        )

    def _differing(self, value: object) -> list[str]:
        """Returns the workers whose value differs from the chief's."""
        found = self.all_gather(zlib.crc32(repr(value).encode()))
        return [
            name
            for name, number in zip(self._members.names, found, strict=True)
            if number != found[0]
        ]

    @communication_errors()
    def check_same_flags(self, options: "DataclassInstance") -> None:
        """Checks that every worker has the same flags.

        All but `--output_dir`, which `check_shared` checks: the folder may have
        another path on each machine.

        Raises:
            ValueError: those of some workers differ; the message names them.
        """
        self.check_equal(
            "flags",
            {
                f"--{field.name}": getattr(options, field.name)
                for field in dataclasses.fields(options)
                if field.name != _SHARED
            },
        )

    @communication_errors()
    def check_same_weights(self, variables: Mapping[str, Any]) -> None:
        """Checks that every worker has loaded the same weights.

        Args:
            variables: the weights of this worker, by name.

        Raises:
            ValueError: those of some workers differ; the message names the
                workers and the variables.
        """
        if self.has_several:
            self.check_equal(
                "weights at the start",
                {
                    name: zlib.crc32(variable.numpy())
                    for name, variable in variables.items()
                },
            )

    @communication_errors()
    def check_shared(self, folder: str) -> None:
        """Checks that all workers see what the chief writes to a folder.

        Args:
            folder: created if missing.

        Raises:
            ValueError: some workers cannot see it; the message names them.
        """
        if not self.has_several:
            return
        number = self.all_gather(secrets.randbits(60))[0]
        # A name that `checkpointing.remove_partial_files` removes.
        path = os.path.join(folder, f".shared.{number}.partial")
        if self.is_chief:
            with writing.whole_file(path) as file:
                file.write("All workers must see this file.\n")
        self.barrier()
        seen = self.all_gather(int(_appears(path)))
        if self.is_chief:
            tf.io.gfile.remove(path)
        names = self._members.names
        unseen = [
            name for name, sees in zip(names, seen, strict=True) if not sees
        ]
        if unseen:
            raise ValueError(
                f"All workers must read and write the same folder, but "
                f"{', '.join(unseen)} cannot see what {names[0]} writes to "
                f"--output_dir={folder}. Put it on a disk that all of them "
                "share."
            )

    @communication_errors()
    def run_on_chief(self, folder: str, action: Callable[[], None]) -> None:
        """Lets the chief describe a folder while the other workers wait.

        The files that the workers load depend on it.

        Args:
            folder: the folder to describe.
            action: writes the description, or raises an OSError or a
                ValueError.

        Raises:
            OSError, ValueError: from `action`; a ValueError on the other
                workers.
        """
        fault = None
        if self.is_chief:
            try:
                action()
            except (OSError, ValueError) as error:
                fault = error  # Not before the others know of it.
        if self.all_reduce_max(int(fault is not None)):
            chief = self._members.names[0]
            raise fault or ValueError(
                f"{chief} refused {folder}: see its message."
            )

    def _gathered(self, number):
        def gather():
            context = tf.distribute.get_replica_context()
            return context.all_gather(number[tf.newaxis], axis=0)

        numbers = self._strategy.experimental_local_results(
            self._strategy.run(gather)
        )[0]  # [replicas]
        workers = len(self._members.names)
        return numbers[:: self._strategy.num_replicas_in_sync // workers]


def wait_for(what: str, find: Callable[[], _Made | None]) -> _Made:
    """Waits for a result of the chief in a shared folder.

    Args:
        what: the result, for messages, such as a path.
        find: returns the result, or None while it is not complete.

    Raises:
        LostWorkerError: the chief ended without making it.
    """
    members = cluster()
    chief, started = members.names[0], time.monotonic()
    turn = 0
    while True:
        turn += 1
        is_time_to_ask = turn % _LOOKS_BETWEEN_QUESTIONS == 0
        # Queried before `find`: the chief may end once the result is complete.
        is_gone = is_time_to_ask and not _answers(members.addresses[0])
        found = find()
        if found is not None:
            return found
        if is_gone:
            raise LostWorkerError(
                f"Lost {chief}, which was to write {what}: see its message. "
                "Start all workers again with the same command."
            )
        if is_time_to_ask:
            seconds = time.monotonic() - started
            logging.info(
                "Waiting for %s to write %s: %.0f s so far.",
                *(chief, what, seconds),
            )
        time.sleep(_LOOK_EVERY_SECONDS)


def _appears(path: str) -> bool:
    """Returns whether a file exists, waiting for network file systems."""
    until = time.monotonic() + _MOST_SECONDS_UNSEEN
    while not tf.io.gfile.exists(path):
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_EVERY_SECONDS)
    return True


def share_of(names: Sequence[str], members: Cluster) -> list[str]:
    """Selects this worker's share of record files: every N-th for N workers.

    Args:
        names: the files; sidecars among them are left out.
        members: the N workers.

    Raises:
        ValueError: there are fewer files than workers.
    """
    names = [name for name in names if not name.endswith(paths.SIDECAR_ENDING)]
    if len(names) < len(members.names):
        raise ValueError(
            "--shard_input_files gives each worker its own files: there must "
            f"be at least {len(members.names)}, one for each worker; got "
            f"{len(names)}."
        )
    return list(names[members.rank :: len(members.names)])
