"""What the chief of several workers makes, and the others find."""

import json
import os
import socket
import threading
import time

import pytest

from training import checkpointing, failures, sharing, workers


def _be(monkeypatch, rank, chief="localhost:1"):
    cluster = {"worker": [chief, "localhost:2"]}
    task = {"type": "worker", "index": rank}
    config = {"cluster": cluster, "task": task}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))


def _fail():
    raise AssertionError("It must not be made here.")


def test_the_chief_finds_or_makes(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    for _ in range(2):  # Alone, then as the first of two.
        assert sharing.find_or_make("x", lambda: 3, _fail) == 3
        assert sharing.find_or_make("x", lambda: None, lambda: 4) == 4
        _be(monkeypatch, 0)


def test_others_wait_until_it_is_there(monkeypatch):
    monkeypatch.setattr(sharing, "_LOOK_EVERY_SECONDS", 0.001)
    monkeypatch.setattr(sharing, "_LOOKS_BETWEEN_QUESTIONS", 2)
    looks = []
    with socket.create_server(("localhost", 0)) as server:
        _be(monkeypatch, 1, f"localhost:{server.getsockname()[1]}")

        def find():
            looks.append(1)
            return "made" if len(looks) == 5 else None

        assert sharing.find_or_make("x", find, _fail) == "made"


def test_others_name_a_chief_that_is_gone(monkeypatch):
    monkeypatch.setattr(sharing, "_LOOK_EVERY_SECONDS", 0.001)
    with socket.create_server(("localhost", 0)) as server:
        address = f"localhost:{server.getsockname()[1]}"
    _be(monkeypatch, 1, address)
    with pytest.raises(
        failures.LostWorkerError,
        match=f"Lost worker 0 .{address}., which was to write a/file",
    ):
        sharing.find_or_make("a/file", lambda: None, _fail)


class _Meeting:
    """Two threads that meet, as two workers do."""

    has_several = True

    def __init__(self, rank, barrier, said):
        self.is_chief = rank == 0
        self._rank, self._barrier, self._said = rank, barrier, said

    def all_of(self, number):
        self._said[self._rank] = number
        self._barrier.wait()
        found = list(self._said)
        self._barrier.wait()
        return found

    def wait(self):
        self.all_of(0)


def _check(monkeypatch, folders):
    """Checks as two workers at once; returns what each of them raised."""
    _be(monkeypatch, 0)
    monkeypatch.setattr(sharing, "_LOOK_EVERY_SECONDS", 0.001)
    monkeypatch.setattr(sharing, "_MOST_SECONDS_UNSEEN", 0.01)
    barrier, said, raised = threading.Barrier(2), [0, 0], [None, None]

    def run(rank):
        try:
            sharing.check_shared(
                _Meeting(rank, barrier, said), str(folders[rank])
            )
        except ValueError as error:
            raised[rank] = str(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def test_workers_must_share_the_folder(monkeypatch, tmp_path):
    shared = tmp_path / "out"
    assert _check(monkeypatch, [shared, shared]) == [None, None]
    assert os.listdir(shared) == []
    for message in _check(monkeypatch, [shared, tmp_path / "other"]):
        assert "worker 1 (localhost:2) cannot see what worker 0" in message
        assert "on a disk that all of them share" in message
    assert os.listdir(shared) == []


def test_a_process_that_is_alone_is_not_checked(tmp_path):
    import tensorflow as tf

    meeting = workers.Meeting(tf.distribute.get_strategy())
    sharing.check_shared(meeting, str(tmp_path / "absent"))
    assert not (tmp_path / "absent").exists()


def test_what_a_killed_check_leaves_is_removed_later(tmp_path):
    (tmp_path / f".meeting.{time.time_ns()}.partial").touch()
    checkpointing.remove_partial_files(str(tmp_path))
    assert os.listdir(tmp_path) == []
