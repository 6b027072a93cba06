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


@pytest.mark.parametrize(
    "config",
    [
        "",
        "{}",
        '{"cluster": {}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"chief": ["h"]}, "task": {"type": "chief", "index": 0}}',
        # Vertex AI calls a single machine so.
        '{"cluster": {"master": ["h:1"]}, "task": {"type": "master", '
        '"index": 0}, "environment": "cloud"}',
    ],
)
def test_a_single_machine_is_no_cluster(monkeypatch, config):
    monkeypatch.setenv("TF_CONFIG", config)
    assert workers.count() == 1 and workers.is_chief()


_TWO = '"cluster": {"worker": ["h:1", "h:2"]}'


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("null", "TF_CONFIG must have the form .*; got None"),
        ("[]", "TF_CONFIG must have the form"),
        ("{'cluster': {}}", "TF_CONFIG: must be JSON"),
        ('{"cluster": {"worker": "h:1"}}', "TF_CONFIG must have the form"),
        ('{"cluster": {"worker": 2}}', "TF_CONFIG must have the form"),
        (f'{{{_TWO}, "task": "worker"}}', "TF_CONFIG must have the form"),
        (f'{{{_TWO}, "task": {{"type": "worker"}}}}', "must have the form"),
        (
            f'{{{_TWO}, "task": {{"type": "worker", "index": 7}}}}',
            "TF_CONFIG must list this process, worker 7",
        ),
        (
            '{"cluster": {"chief": ["h:1"]}, "task": {"type": "evaluator", '
            '"index": 0}}',
            "TF_CONFIG must list this process, evaluator 0",
        ),
        (
            '{"cluster": {"chief": ["h:1"], "ps": ["h:2"], "worker": ["h:3"]}, '
            '"task": {"type": "chief", "index": 0}}',
            "TF_CONFIG has the roles chief, ps, worker; this program has chief",
        ),
        (
            '{"cluster": {"master": ["h:1"], "worker": ["h:2"]}, '
            '"task": {"type": "master", "index": 0}}',
            "TF_CONFIG has the roles master, worker",
        ),
    ],
)
def test_a_cluster_of_another_program_is_refused_by_name(
    monkeypatch, config, message
):
    monkeypatch.setenv("TF_CONFIG", config)
    for question in (workers.count, workers.is_chief):
        with pytest.raises(ValueError, match=message):
            question()


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
