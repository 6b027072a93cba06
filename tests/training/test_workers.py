import json
import os
import socket
import threading
import time

import pytest
import tensorflow as tf

from training import checkpointing, workers
from training import flags as training_flags


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
        '{"cluster": {"worker": "a:1"}, "task": {"type": "worker", '
        '"index": 0}}',
        '{"cluster": {"worker": [1]}, "task": {"type": "worker", "index": 0}}',
    ],
)
def test_a_faulty_tf_config_is_shown(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match="TF_CONFIG must be JSON") as caught:
        workers.cluster()
    assert repr(text) in str(caught.value)


def test_an_unreachable_worker_is_named():
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
    with_sidecars = ["1", "1.meta.json", "2", "2.meta.json"]
    assert workers.share_of(with_sidecars, members) == ["2"]
    with pytest.raises(ValueError, match="at least 2, one for each worker"):
        workers.share_of(["1"], members)


def test_a_single_process_does_not_wait(monkeypatch, tmp_path):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    communicator = workers.Communicator(
        tf.distribute.OneDeviceStrategy("/CPU:0")
    )
    assert communicator.is_chief
    assert communicator.all_gather(3) == [3]
    assert communicator.all_reduce_max(3) == 3
    communicator.barrier()
    communicator.check_equal("settings", {"a": 1})
    communicator.check_shared(str(tmp_path / "absent"))
    assert not (tmp_path / "absent").exists()


def _be(monkeypatch, rank, chief="localhost:1"):
    cluster = {"worker": [chief, "localhost:2"]}
    task = {"type": "worker", "index": rank}
    config = {"cluster": cluster, "task": task}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))


def test_others_wait_until_it_is_there(monkeypatch):
    monkeypatch.setattr(workers, "_LOOK_EVERY_SECONDS", 0.001)
    monkeypatch.setattr(workers, "_LOOKS_BETWEEN_QUESTIONS", 2)
    looks = []
    with socket.create_server(("localhost", 0)) as server:
        _be(monkeypatch, 1, f"localhost:{server.getsockname()[1]}")

        def find():
            looks.append(1)
            return "made" if len(looks) == 5 else None

        assert workers.wait_for("x", find) == "made"


def test_workers_name_a_chief_that_has_ended(monkeypatch):
    monkeypatch.setattr(workers, "_LOOK_EVERY_SECONDS", 0.001)
    with socket.create_server(("localhost", 0)) as server:
        address = f"localhost:{server.getsockname()[1]}"
    _be(monkeypatch, 1, address)
    with pytest.raises(
        workers.LostWorkerError,
        match=f"Lost worker 0 .{address}., which was to write a/file",
    ):
        workers.wait_for("a/file", lambda: None)


class _Communicator(workers.Communicator):
    """Two threads that communicate, as two workers do."""

    def __init__(self, rank, barrier, said):
        self.has_several, self.is_chief = True, rank == 0
        self._members = workers.cluster()
        self._rank, self._barrier, self._said = rank, barrier, said

    def all_gather(self, number):
        self._said[self._rank] = number
        self._barrier.wait()
        found = list(self._said)
        self._barrier.wait()
        return found


def _check(monkeypatch, check, arguments):
    """Checks as two workers at once; returns what each of them raised."""
    _be(monkeypatch, 0)
    monkeypatch.setattr(workers, "_LOOK_EVERY_SECONDS", 0.001)
    monkeypatch.setattr(workers, "_MOST_SECONDS_UNSEEN", 0.01)
    barrier, said, raised = threading.Barrier(2), [0, 0], [None, None]

    def run(rank):
        try:
            check(_Communicator(rank, barrier, said), arguments[rank])
        except ValueError as error:
            raised[rank] = str(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def test_workers_must_share_the_folder(monkeypatch, tmp_path):
    shared, other = str(tmp_path / "out"), str(tmp_path / "other")
    check = workers.Communicator.check_shared
    assert _check(monkeypatch, check, [shared, shared]) == [None, None]
    assert os.listdir(shared) == []
    for message in _check(monkeypatch, check, [shared, other]):
        assert "worker 1 (localhost:2) cannot see what worker 0" in message
        assert "on a disk that all of them share" in message
    assert os.listdir(shared) == []


def _options(**changes):
    named = {"bert_config_file": "c", "output_dir": "o", "input_file": "i"}
    return training_flags.PretrainingOptions(**{**named, **changes})


def test_workers_must_have_the_same_flags(monkeypatch):
    ours, check = _options(), workers.Communicator.check_same_flags
    same = _options(output_dir="the same folder elsewhere")
    assert _check(monkeypatch, check, [ours, same]) == [None, None]
    other = _options(steps_per_loop=3, init_checkpoint="x")
    for message in _check(monkeypatch, check, [ours, other]):
        assert (
            "the same flags; worker 1 (localhost:2) differs from worker 0 "
            "(localhost:1) in --init_checkpoint, --steps_per_loop." in message
        )


def test_workers_must_run_the_same_program(monkeypatch):
    other = training_flags.TpuOptions()
    check = workers.Communicator.check_same_flags
    for message in _check(monkeypatch, check, [_options(), other]):
        assert "worker 0 (localhost:1) in its program." in message


def test_workers_must_load_the_same_weights(monkeypatch):
    ours = {"kernel": tf.Variable([1.0, 2.0]), "bias": tf.Variable([3.0])}
    other = {**ours, "kernel": tf.Variable([1.0, 2.5])}
    check = workers.Communicator.check_same_weights
    assert _check(monkeypatch, check, [ours, dict(ours)]) == [None, None]
    for message in _check(monkeypatch, check, [ours, other]):
        assert "the same weights at the start; worker 1 (local" in message
        assert "from worker 0 (localhost:1) in kernel." in message


def test_files_of_a_killed_check_are_removed_later(tmp_path):
    (tmp_path / f".shared.{time.time_ns()}.partial").touch()
    checkpointing.remove_partial_files(str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_other_errors_stay_what_they_are(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with (
        pytest.raises(tf.errors.InvalidArgumentError),
        workers.communication_errors(),
    ):
        raise tf.errors.InvalidArgumentError(None, None, "wrong id")


@pytest.mark.parametrize(
    ("unreachable", "message"),
    [
        (["worker 1 (b:1)"], "Socket closed"),
        # Of a process that hangs, whose port is open.
        ([], "are unhealthy:\n/job:worker/replica:0/task:1\nThe tasks"),
    ],
)
def test_a_lost_worker_is_named(monkeypatch, unreachable, message):
    members = workers.Cluster(
        names=("worker 0 (a:1)", "worker 1 (b:1)", "worker 11 (c:1)"),
        addresses=("a:1", "b:1", "c:1"),
        rank=0,
    )
    monkeypatch.setattr(workers, "cluster", lambda: members)
    monkeypatch.setattr(workers, "unreachable", lambda _: unreachable)
    with (
        pytest.raises(
            workers.LostWorkerError, match=r"Lost worker 1 \(b:1\): "
        ),
        workers.communication_errors(),
    ):
        raise tf.errors.UnavailableError(None, None, message)
