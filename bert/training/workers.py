"""The worker processes of a run, and what they agree on.

Each machine runs the same command; `TF_CONFIG` in its environment names all
workers and its own index. Only the chief writes to the shared folder:

    {"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]},
     "task": {"type": "worker", "index": 0}}

Importing this module does not import TensorFlow.
"""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bert.files import json_text, messages

if TYPE_CHECKING:
    import tensorflow as tf

# The order is that of their ranks.
_KINDS = ("chief", "worker")
# An agreement waits for the devices of all workers; after every step, it would
# keep the host from preparing the next ones.
_STEPS_PER_AGREEMENT = 10


class _Cluster(NamedTuple):
    """The machines of `TF_CONFIG`.

    Attributes:
        num_workers: their number.
        rank: of this process, 0 for the chief.
    """

    num_workers: int = 1
    rank: int = 0


def _cluster() -> _Cluster:
    """Reads `TF_CONFIG`, which services also set for a single machine.

    Raises:
        ValueError: its form is another one, or it has the roles of another
            program.
    """
    text = os.environ.get("TF_CONFIG", "").strip()
    if not text:
        return _Cluster()
    return _read_cluster(json_text.parse(text, "TF_CONFIG"))


def _read_cluster(config: json_text.Object) -> _Cluster:
    try:
        cluster, task = config.get("cluster") or {}, config.get("task")
        sizes = {kind: len(_addresses(cluster[kind])) for kind in cluster}
        if task is None:
            kind, index = next(iter(sizes), _KINDS[0]), 0
        else:
            kind, index = task["type"], int(task["index"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            'TF_CONFIG must have the form {"cluster": {"worker": '
            '["host:port", ...]}, "task": {"type": "worker", '
            f'"index": 0}}}}; got {messages.short(config)}.'
        ) from error
    if not cluster:
        return _Cluster()
    if not 0 <= index < sizes.get(kind, 0):
        raise ValueError(
            f"TF_CONFIG must list this process, {kind} {index}, in its "
            f"cluster, which has {messages.short(cluster)}. Unset TF_CONFIG to "
            "train on this machine alone."
        )
    if sum(sizes.values()) == 1:
        return _Cluster()
    others = sizes.keys() - {*_KINDS}
    if others:
        raise ValueError(
            f"TF_CONFIG has the roles {messages.names(sorted(sizes))}; this "
            "program has chief and worker. Unset TF_CONFIG to train on this "
            "machine alone."
        )
    before = sum(sizes.get(k, 0) for k in _KINDS[: _KINDS.index(kind)])
    return _Cluster(sum(sizes.values()), before + index)


def _addresses(value: object) -> Sequence[object]:
    if not isinstance(value, list):
        raise TypeError
    return value


def count() -> int:
    """Counts the workers of `TF_CONFIG`; 1 without it."""
    return _cluster().num_workers


def is_chief() -> bool:
    """Returns whether this process is the chief, which writes all files."""
    return _cluster().rank == 0


class Communicator:
    """Collective operations between the workers of a run.

    Every worker must take part in each of them. A single process does not
    wait. If a worker ends, the operation fails with TensorFlow's message.

    Args:
        strategy: the distribution strategy of the run.

    Raises:
        ValueError: there are several workers, and the strategy is for one.
    """

    def __init__(self, strategy: "tf.distribute.Strategy"):
        import tensorflow as tf

        self._has_others = count() > 1 and isinstance(
            strategy, tf.distribute.MultiWorkerMirroredStrategy
        )
        # Each worker would train a model of its own, in the same folder.
        is_for_one = isinstance(
            strategy,
            tf.distribute.OneDeviceStrategy | tf.distribute.MirroredStrategy,
        )
        if count() > 1 and is_for_one:
            raise ValueError(
                f"TF_CONFIG lists {count()} workers, but the distribution "
                "strategy is for one of them. Pass "
                "--distribution_strategy=multi_worker_mirrored, or unset "
                "TF_CONFIG."
            )

        def gather(number: tf.Tensor) -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            return context.all_gather(number[tf.newaxis], axis=0)  # [replicas]

        @tf.function(autograph=False)
        def gathered(number: tf.Tensor) -> tf.Tensor:
            results = strategy.run(gather, args=(number,))
            return strategy.experimental_local_results(results)[0]

        self._gathered = gathered

    def is_sync_step(self, step: int) -> bool:
        """Returns whether the workers agree on a stop after a step."""
        return not self._has_others or step % _STEPS_PER_AGREEMENT == 0

    def all_reduce_max(self, number: int) -> int:
        """Returns the largest of the workers' numbers."""
        if not self._has_others:
            return number
        return int(self._gathered(np.array(number)).numpy().max())

    def chief_first(self, write: Callable[[], None]) -> None:
        """Lets the chief write, then returns on every worker.

        Raises:
            RuntimeError: the chief could not write; its own error is another.
        """
        has_failed = 1
        try:
            if is_chief():
                write()
            has_failed = 0
        finally:  # Otherwise the others would wait for a chief that has ended.
            has_failed = self.all_reduce_max(has_failed)
        if has_failed:
            raise RuntimeError(
                "The first worker of TF_CONFIG has failed; its message names "
                "the reason."
            )

    def barrier(self) -> None:
        """Returns when every worker has called it."""
        self.all_reduce_max(0)
