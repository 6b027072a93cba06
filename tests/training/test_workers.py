"""Workers of `TF_CONFIG`; tests/test_distribution.py runs several."""

import json

import pytest
import tensorflow as tf

from training import workers


@pytest.mark.parametrize(
    ("cluster", "task", "count", "is_chief"),
    [
        (None, None, 1, True),
        ({"worker": ["a:1", "b:1"]}, ("worker", 0), 2, True),
        ({"worker": ["a:1", "b:1"]}, ("worker", 1), 2, False),
        ({"chief": ["c:1"], "worker": ["a:1"]}, ("chief", 0), 2, True),
        ({"chief": ["c:1"], "worker": ["a:1"]}, ("worker", 0), 2, False),
    ],
)
def test_the_first_worker_is_the_chief(
    monkeypatch, cluster, task, count, is_chief
):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if cluster:
        kind, index = task
        config = {"cluster": cluster, "task": {"type": kind, "index": index}}
        monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    assert workers.count() == count
    assert workers.is_chief() == is_chief


def test_a_single_process_does_not_wait():
    strategy = tf.distribute.OneDeviceStrategy("/CPU:0")
    communicator = workers.Communicator(strategy)
    assert communicator.all_reduce_max(3) == 3
    communicator.barrier()
