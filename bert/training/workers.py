"""The worker processes of a run, and what they agree on.

Each machine runs the same command; `TF_CONFIG` in its environment names all
workers and its own index. Only the chief writes to the shared folder:

    {"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]},
     "task": {"type": "worker", "index": 0}}

Importing this module does not import TensorFlow.
"""

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from bert.files import json_text

if TYPE_CHECKING:
    import tensorflow as tf

# The order is that of their ranks.
_KINDS = ("chief", "worker")
# An agreement waits for the devices of all workers; after every step, it would
# keep the host from preparing the next ones.
_STEPS_PER_AGREEMENT = 10


def _config() -> json_text.Object:
    return json.loads(os.environ.get("TF_CONFIG") or "{}")


def _members() -> list[tuple[str, int]]:
    """Lists the kind and index of every worker, the chief first."""
    cluster = _config().get("cluster", {})
    return [
        (kind, index)
        for kind in _KINDS
        for index in range(len(cluster.get(kind, ())))
    ]


def count() -> int:
    """Counts the workers of `TF_CONFIG`; 1 without it."""
    return max(len(_members()), 1)


def is_chief() -> bool:
    """Returns whether this process is the chief, which writes all files."""
    members, task = _members(), _config().get("task", {})
    return not members or members[0] == (
        task.get("type"),
        int(task.get("index", 0)),
    )


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
