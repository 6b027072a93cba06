"""The worker processes of a run, and what they agree on.

Each machine runs the same command; `TF_CONFIG` in its environment names all
workers and its own index. Only the chief writes to the shared folder:

    {"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]},
     "task": {"type": "worker", "index": 0}}
"""

import tensorflow as tf

# In the order of their ranks.
_KINDS = ("chief", "worker")
_resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver


def _members() -> list[tuple[str, int]]:
    """Lists the kind and index of every worker, the chief first."""
    spec = _resolver().cluster_spec().as_dict()
    return [
        (kind, index)
        for kind in _KINDS
        for index in range(len(spec.get(kind, ())))
    ]


def count() -> int:
    """Counts the workers of `TF_CONFIG`; 1 without it."""
    return max(len(_members()), 1)


def is_chief() -> bool:
    """Returns whether this process is the chief, which writes all files."""
    members, resolver = _members(), _resolver()
    return not members or members[0] == (
        resolver.task_type,
        resolver.task_id,
    )


class Communicator:
    """Collective operations between the workers of a run.

    Every worker must take part in each of them. A single process does not
    wait. If a worker ends, the operation fails with TensorFlow's message.

    Args:
        strategy: the distribution strategy of the run.
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        self._strategy = strategy
        self._has_others = count() > 1 and isinstance(
            strategy, tf.distribute.MultiWorkerMirroredStrategy
        )
        self._gather = tf.function(self._gathered, autograph=False)

    def all_reduce_max(self, number: int) -> int:
        """Returns the largest of the workers' numbers."""
        if not self._has_others:
            return number
        return int(self._gather(tf.constant(number, tf.int64)).numpy().max())

    def barrier(self) -> None:
        """Returns when every worker has called it."""
        self.all_reduce_max(0)

    def _gathered(self, number):
        def gather():
            context = tf.distribute.get_replica_context()
            return context.all_gather(number[tf.newaxis], axis=0)

        return self._strategy.experimental_local_results(
            self._strategy.run(gather)
        )[0]  # [replicas]
