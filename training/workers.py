"""The processes that train one model together, as `TF_CONFIG` names them.

Each machine runs the same command; `TF_CONFIG` in its environment says where
all of them are and which of them it is:

    {"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]},
     "task": {"type": "worker", "index": 0}}
"""

import dataclasses
import json
import os
import socket
import zlib
from collections.abc import Sequence

import tensorflow as tf

_VARIABLE = "TF_CONFIG"
# In the order of their ranks.
_KINDS = ("chief", "worker")
_ANSWER_SECONDS = 5.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cluster:
    """Which process this is, and of how many.

    Attributes:
        names: of all workers, such as `worker 1 (10.0.0.2:2222)`; the first is
            the chief, who alone writes.
        addresses: `host:port` of each.
        rank: the place of this process among them.
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
    """Reads `TF_CONFIG`; without it, this process is alone.

    Raises:
        ValueError: it is not what TensorFlow takes, or names parameter servers
            or evaluators.
    """
    text = os.environ.get(_VARIABLE, "")
    try:
        config = json.loads(text or "{}")
        held = config.get("cluster", {})
        if not held:
            return Cluster()
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
            '({"cluster": {"worker": ["host:port", ...]}) and which of them '
            'this is ("task": {"type": "worker", "index": 0}}); '
            f"got {text!r} ({error})."
        ) from error
    return Cluster(
        names=tuple(f"{kind} {i} ({address})" for kind, i, address in members),
        addresses=tuple(address for *_, address in members),
        rank=rank,
    )


def unreachable(members: Cluster) -> list[str]:
    """Names the other workers whose port takes no connection."""
    return [
        name
        for rank, (name, address) in enumerate(
            zip(members.names, members.addresses, strict=True)
        )
        if rank != members.rank and not _answers(address)
    ]


def chief_answers(members: Cluster) -> bool:
    """Tells whether the chief's port takes connections."""
    return _answers(members.addresses[0])


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _ANSWER_SECONDS).close()
    except OSError:
        return False
    return True


class Meeting:
    """Where the workers of a run tell each other numbers.

    Every worker must come to each meeting. A process that is alone meets
    nobody and waits for nobody.

    Args:
        strategy: of the run.
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        self._strategy = strategy
        self._members = cluster()
        self._several = self._members.has_several and isinstance(
            strategy, tf.distribute.MultiWorkerMirroredStrategy
        )
        self._gather = tf.function(self._gathered, autograph=False)

    @property
    def is_chief(self) -> bool:
        """Tells whether this process is the one that writes."""
        return not self._several or self._members.is_chief

    @property
    def has_several(self) -> bool:
        """Tells whether there is anybody to meet."""
        return self._several

    def all_of(self, number: int) -> list[int]:
        """Returns the number that each worker came with, by rank."""
        if not self._several:
            return [number]
        return self._gather(tf.constant(number, tf.int64)).numpy().tolist()

    def largest(self, number: int) -> int:
        """Returns the largest of the workers' numbers."""
        return max(self.all_of(number))

    def wait(self) -> None:
        """Returns when every worker has come."""
        self.all_of(0)

    def check_equal(self, what: str, advice: str, value: object) -> None:
        """Checks that every worker comes with the same value.

        Args:
            what: the value is called in the message.
            advice: what to do about a difference.
            value: of this worker; equal ones have the same `repr`.

        Raises:
            ValueError: a worker's differs; names it.
        """
        found = self.all_of(zlib.crc32(repr(value).encode()))
        others = [
            name
            for name, number in zip(self._members.names, found, strict=False)
            if number != found[0]
        ]
        if others:
            raise ValueError(
                f"All workers must have the same {what}; that of "
                f"{', '.join(others)} is not that of {self._members.names[0]}. "
                f"Here it is {value!r}. {advice}"
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


def share_of(names: Sequence[str], members: Cluster) -> list[str]:
    """Takes every so many-th of a list of files, for this worker alone.

    Raises:
        ValueError: there are fewer files than workers.
    """
    if len(names) < len(members.names):
        raise ValueError(
            "--shard_input_files gives each worker files of its own: there "
            f"must be at least {len(members.names)}, one for each worker; got "
            f"{len(names)}."
        )
    return list(names[members.rank :: len(members.names)])
