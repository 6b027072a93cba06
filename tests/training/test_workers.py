import json
import socket

import pytest
import tensorflow as tf

from training import workers


def _set(monkeypatch, **config):
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))


def test_without_tf_config_a_process_is_alone(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    members = workers.cluster()
    assert members.is_chief
    assert not members.has_several
    _set(monkeypatch, task={"type": "worker", "index": 0})
    assert workers.cluster() == members


def test_workers_are_ranked_chief_first(monkeypatch):
    cluster = {"worker": ["b:2", "c:3"], "chief": ["a:1"]}
    _set(monkeypatch, cluster=cluster, task={"type": "worker", "index": "1"})
    members = workers.cluster()
    assert members.names == (
        "chief 0 (a:1)",
        "worker 0 (b:2)",
        "worker 1 (c:3)",
    )
    assert members.addresses == ("a:1", "b:2", "c:3")
    assert members.rank == 2
    assert members.has_several
    assert not members.is_chief
    _set(monkeypatch, cluster=cluster, task={"type": "chief", "index": 0})
    assert workers.cluster().is_chief
    del cluster["chief"]
    _set(monkeypatch, cluster=cluster, task={"type": "worker", "index": 0})
    assert workers.cluster().is_chief


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[1]",
        '{"cluster": {"worker": ["a:1"]}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", '
        '"index": 1}}',
        '{"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": '
        '{"type": "worker", "index": 0}}',
    ],
)
def test_a_faulty_tf_config_is_shown(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match="TF_CONFIG must be JSON") as caught:
        workers.cluster()
    assert repr(text) in str(caught.value)


def test_who_takes_no_connection_is_named():
    with socket.socket() as listening, socket.socket() as closed:
        listening.bind(("localhost", 0))
        listening.listen()
        # Bound and not listening: nobody else can take the port meanwhile.
        closed.bind(("localhost", 0))
        addresses = [
            f"localhost:{each.getsockname()[1]}" for each in (listening, closed)
        ]
        members = workers.Cluster(
            names=("worker 0", "worker 1", "worker 2"),
            addresses=("localhost:1", *addresses),
            rank=0,
        )
        assert workers.unreachable(members) == ["worker 2"]


def test_files_are_shared_out():
    members = workers.Cluster(
        names=("a", "b"), addresses=("a:1", "b:1"), rank=1
    )
    assert workers.share_of(["1", "2", "3", "4", "5"], members) == ["2", "4"]
    assert workers.share_of(["1", "2"], workers.Cluster()) == ["1", "2"]
    with pytest.raises(ValueError, match="at least 2, one for each worker"):
        workers.share_of(["1"], members)


def test_a_process_alone_meets_nobody(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    meeting = workers.Meeting(tf.distribute.OneDeviceStrategy("/CPU:0"))
    assert meeting.is_chief
    assert meeting.all_of(3) == [3]
    assert meeting.largest(3) == 3
    meeting.wait()
    meeting.check_equal("flags", "Pass the same.", {"a": 1})
