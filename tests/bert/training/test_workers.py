"""Workers of `TF_CONFIG`; tests/test_distribution.py runs several."""

import json

import pytest
import tensorflow as tf

from bert.training import workers


@pytest.mark.parametrize(
    ("cluster", "task", "count", "is_chief"),
    [
        (None, None, 1, True),
        ({"worker": ["a:1", "b:1"]}, ("worker", 0), 2, True),
        ({"worker": ["a:1", "b:1"]}, ("worker", 1), 2, False),
        # Some launchers write the index as text.
        ({"worker": ["a:1", "b:1"]}, ("worker", "0"), 2, True),
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


def _set_workers(monkeypatch, count, index=0):
    cluster = {"worker": [f"host-{i}:1" for i in range(count)]}
    config = {"cluster": cluster, "task": {"type": "worker", "index": index}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))


@pytest.mark.parametrize("kind", ["one_device", "mirrored"])
def test_the_strategy_of_one_process_is_refused_for_several_workers(
    monkeypatch, kind
):
    strategy = {
        "one_device": lambda: tf.distribute.OneDeviceStrategy("/CPU:0"),
        "mirrored": lambda: tf.distribute.MirroredStrategy(["/CPU:0"]),
    }[kind]()
    _set_workers(monkeypatch, 1)
    workers.Communicator(strategy)
    _set_workers(monkeypatch, 2, index=1)
    with pytest.raises(ValueError, match="TF_CONFIG lists 2 workers, but"):
        workers.Communicator(strategy)


@pytest.mark.parametrize("numbers", [[0, 15, 2], [15, 0, 0], [0, 0, 15]])
def test_workers_agree_on_the_largest_number(numbers):
    communicator = workers.Communicator(
        tf.distribute.OneDeviceStrategy("/CPU:0")
    )
    communicator._has_others = True
    communicator._gathered = lambda number: tf.constant(numbers)
    assert communicator.all_reduce_max(0) == 15


def test_several_workers_agree_every_ten_steps_and_one_after_each():
    communicator = workers.Communicator(
        tf.distribute.OneDeviceStrategy("/CPU:0")
    )
    assert all(map(communicator.is_sync_step, range(1, 30)))
    communicator._has_others = True
    steps = [*filter(communicator.is_sync_step, range(1, 35))]
    assert steps == [10, 20, 30]
