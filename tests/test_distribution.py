"""Runs on several devices and in several processes, as users start them."""

import json
import signal
import socket
import time

import numpy as np
import pytest

from modeling import checkpoints
from tests.support import locations
from tests.support import toy_pretraining as toy

_SCRIPT = locations.ROOT / "run_pretraining.py"
_STEPS = 20
# Float32 sums of other orders, through twenty steps of Adam or LAMB.
_TOLERANCE = 2e-5
# Of a run that takes seconds, on a machine that others use as well.
_MOST_SECONDS = 1800
_NO_DROPOUT = {
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


_FLAGS = {
    "num_train_steps": _STEPS,
    "train_batch_size": 8,
    "learning_rate": 1e-3,
}


def _write_config(folder, *, dropout=False):
    folder.mkdir(parents=True, exist_ok=True)
    toy.write_config(
        folder / "bert_config.json", **({} if dropout else _NO_DROPOUT)
    )


def _start(folder, *, workers=1, dropout=False, **changes):
    """Starts a run; returns its processes, of which the first writes."""
    _write_config(folder, dropout=dropout)
    named = {**_FLAGS, **changes}
    return [
        toy.start(folder, environment, f"log-{index}", **named)
        for index, environment in enumerate(environments(workers))
    ]


def _run_here(folder, **changes):
    """Runs on the one device of this process."""
    _write_config(folder)
    toy.run(folder, **{**_FLAGS, **changes})


def environments(workers):
    """Lists the variables that make each process one of so many workers."""
    if workers == 1:
        return [{}]
    sockets = [socket.socket() for _ in range(workers)]
    for each in sockets:
        each.bind(("localhost", 0))
    addresses = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return [
        {
            "TF_CONFIG": json.dumps(
                {
                    "cluster": {"worker": addresses},
                    "task": {"type": "worker", "index": index},
                }
            )
        }
        for index in range(workers)
    ]


def _finish(folder, **changes):
    for number, process in enumerate(_start(folder, **changes)):
        log = folder / f"log-{number}"
        assert process.wait(_MOST_SECONDS) == 0, log.read_text()[-3000:]


def _check_alike(folder, other):
    for ours, theirs in zip(
        toy.metrics(folder), toy.metrics(other), strict=True
    ):
        assert ours.keys() == theirs.keys()
        for name in ("loss", "masked_lm_loss", "next_sentence_loss"):
            assert abs(ours[name] - theirs[name]) < _TOLERANCE, (name, ours)
    found, expected = (
        checkpoints.read(str(each / "out" / f"model.ckpt-{_STEPS}"))
        for each in (folder, other)
    )
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(
            found[name], value, rtol=0, atol=_TOLERANCE, err_msg=name
        )


@pytest.fixture(scope="module")
def one_device(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    _run_here(folder)
    return folder


@pytest.mark.integration
@pytest.mark.parametrize(
    ("run", "changes"),
    [
        (_run_here, {"num_accumulation_steps": 2}),
        (_run_here, {"recompute": True}),
        (_finish, {"num_cpu_devices": 2}),
        (_finish, {"num_cpu_devices": 2, "num_accumulation_steps": 4}),
        (_finish, {"workers": 2, "num_accumulation_steps": 2}),
    ],
)
def test_a_run_does_not_depend_on_what_shares_its_batches(
    tmp_path, one_device, run, changes
):
    run(tmp_path, **changes)
    _check_alike(tmp_path, one_device)


@pytest.mark.integration
def test_lamb_does_not_depend_on_the_devices_either(tmp_path):
    _run_here(tmp_path / "one", optimizer="lamb")
    _finish(tmp_path / "two", optimizer="lamb", num_cpu_devices=2)
    _check_alike(tmp_path / "two", tmp_path / "one")


@pytest.mark.integration
def test_a_stop_on_two_devices_changes_nothing(tmp_path):
    changes = {"num_cpu_devices": 2, "dropout": True, "num_train_steps": 150}
    _finish(tmp_path / "unbroken", **changes)
    folder = tmp_path / "stopped"
    (process,) = _start(folder, **changes)
    _wait_for_step(folder, [process], 30)
    process.kill()
    process.wait()
    _finish(folder, **changes)
    assert toy.metrics(folder) == toy.metrics(tmp_path / "unbroken")


def _wait_for_step(folder, processes, step):
    path = folder / "out" / "metrics.jsonl"
    while all(process.poll() is None for process in processes):
        lines = path.read_text().splitlines() if path.exists() else []
        if len(lines) > 1 and json.loads(lines[-2])["step"] >= step:
            return
        time.sleep(0.01)
    raise AssertionError((folder / "log-0").read_text()[-3000:])


@pytest.mark.integration
@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_worker_ends_the_other(tmp_path, lost):
    changes = {"workers": 2, "num_train_steps": 100_000, "log_every_steps": 9}
    processes = _start(tmp_path, **changes)
    _wait_for_step(tmp_path, processes, 30)
    processes[lost].kill()
    start = time.monotonic()
    assert processes[1 - lost].wait(60) not in (0, None)
    assert time.monotonic() - start < 60

    # Again, and this time one is asked to stop.
    processes = _start(tmp_path, **changes)
    _wait_for_step(tmp_path, processes, 60)
    processes[1].send_signal(signal.SIGTERM)
    for number, process in enumerate(processes):
        assert process.wait(60) == 128 + signal.SIGTERM
        text = (tmp_path / f"log-{number}").read_text()
        assert "Resumed from" in text
        assert "which is saved" in text
    steps = [line["step"] for line in toy.metrics(tmp_path)]
    assert steps == [9 * n for n in range(1, len(steps) + 1)]


@pytest.mark.integration
def test_a_folder_of_another_model_is_refused_by_all_workers(tmp_path):
    toy.write_config(tmp_path / "bert_config.json", intermediate_size=19)
    toy.run(tmp_path, num_train_steps=1)
    for number, process in enumerate(_start(tmp_path, workers=2)):
        assert process.wait(120) != 0
        text = (tmp_path / f"log-{number}").read_text()
        assert "first worker of TF_CONFIG has failed" in text or (
            "out is another one: intermediate_size" in text
        )


@pytest.mark.integration
def test_a_chief_that_cannot_write_ends_the_other_workers(tmp_path):
    (tmp_path / "out/bert_config.json").mkdir(parents=True)
    logs = []
    for number, process in enumerate(_start(tmp_path, workers=2)):
        assert process.wait(120) != 0
        logs.append((tmp_path / f"log-{number}").read_text())
    assert "bert_config.json: Is a directory" in logs[0]
    assert "first worker of TF_CONFIG has failed" in logs[1]
