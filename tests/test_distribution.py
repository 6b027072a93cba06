"""Runs on several devices and in several processes, as users start them."""

import json
import signal
import time

import numpy as np
import pytest
from tensorflow.python.eager import context

from modeling import checkpoints
from tests.support import cluster, programs, toy_config, warm
from tests.support import toy_pretraining as toy

_STEPS = 20
# Float32 sums of other orders, through twenty steps of Adam or LAMB.
_TOLERANCE = 2e-5
_FLAGS = {
    "num_train_steps": _STEPS,
    "train_batch_size": 8,
    "learning_rate": 1e-3,
}


def _write_config(folder, *, dropout=False):
    folder.mkdir(parents=True, exist_ok=True)
    toy.write_config(
        folder / "bert_config.json",
        **({} if dropout else toy_config.NO_DROPOUT),
    )


def _start(folder, *, workers=1, dropout=False, **changes):
    """Starts a run; returns its processes, of which the first writes."""
    _write_config(folder, dropout=dropout)
    named = {**_FLAGS, **changes}
    return [
        toy.start(folder, environment, f"log-{index}", **named)
        for index, environment in enumerate(cluster.environments(workers))
    ]


def _run_here(folder, **changes):
    """Runs on the one device of this process."""
    _write_config(folder)
    toy.run(folder, **{**_FLAGS, **changes})


def _finish(folder, **changes):
    for number, process in enumerate(_start(folder, **changes)):
        log = folder / f"log-{number}"
        assert process.wait() == 0, log.read_text()[-3000:]


def _same_bits(folder, other):
    """Tells whether two runs have equal weights, which other sums have not."""
    found, expected = (toy.weights(each, _STEPS) for each in (folder, other))
    return all(
        np.array_equal(found[name], value) for name, value in expected.items()
    )


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
    # The batches were shared: a flag without effect leaves every bit.
    assert not _same_bits(tmp_path, one_device)


def _num_products(folder, **changes):
    """Counts the matrix products that TensorFlow ran in a run."""
    context.enable_run_metadata()
    _run_here(folder, **changes)
    graphs = context.export_run_metadata().partition_graphs
    context.disable_run_metadata()
    return sum(
        "MatMul" in node.op
        for graph in graphs
        for nodes in (graph.node, *(f.node_def for f in graph.library.function))
        for node in nodes
    )


@pytest.mark.integration
def test_layers_that_are_computed_again_change_nothing(tmp_path, one_device):
    again = _num_products(tmp_path / "again", recompute=True)
    assert again > _num_products(tmp_path / "once") > 0
    _check_alike(tmp_path / "again", one_device)


@pytest.mark.integration
def test_one_machine_may_run_the_strategy_of_several(tmp_path, one_device):
    _finish(tmp_path, distribution_strategy="multi_worker_mirrored")
    assert "CollectiveAllReduce, 1 replica" in (tmp_path / "log-0").read_text()
    _check_alike(tmp_path, one_device)


@pytest.mark.integration
def test_lamb_does_not_depend_on_the_devices_either(tmp_path):
    _run_here(tmp_path / "one", optimizer="lamb")
    _finish(tmp_path / "two", optimizer="lamb", num_cpu_devices=2)
    _check_alike(tmp_path / "two", tmp_path / "one")
    assert not _same_bits(tmp_path / "two", tmp_path / "one")


@pytest.mark.integration
def test_a_stop_on_two_devices_changes_nothing(tmp_path):
    changes = {"num_cpu_devices": 2, "dropout": True}
    _finish(tmp_path / "unbroken", **changes)
    folder = tmp_path / "stopped"
    _finish(folder, **changes, stop_at_step=13)
    _finish(folder, **changes)
    programs.check_resumed((folder / "log-0").read_text(), 13)
    toy.check_same_run(folder, tmp_path / "unbroken", _STEPS)


def _wait_for_step(folder, processes, step):
    path = folder / "out" / "metrics.jsonl"
    deadline = time.monotonic() + warm.MOST_SECONDS
    while all(process.poll() is None for process in processes):
        lines = path.read_text().splitlines() if path.exists() else []
        if len(lines) > 1 and json.loads(lines[-2])["step"] >= step:
            return
        assert time.monotonic() < deadline, f"step {step} is not made"
        time.sleep(0.01)
    raise AssertionError((folder / "log-0").read_text()[-3000:])


_ENDLESS = {"workers": 2, "num_train_steps": 100_000, "log_every_steps": 9}


@pytest.mark.integration
@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_worker_ends_the_other(tmp_path, lost):
    processes = _start(tmp_path, **_ENDLESS)
    _wait_for_step(tmp_path, processes, 30)
    processes[lost].kill()
    assert processes[1 - lost].wait() > 0


@pytest.mark.integration
def test_workers_that_resume_stop_together_when_one_is_asked_to(tmp_path):
    _finish(tmp_path, **{**_ENDLESS, "stop_at_step": 20})
    processes = _start(tmp_path, **_ENDLESS)
    _wait_for_step(tmp_path, processes, 40)
    processes[1].send_signal(signal.SIGTERM)
    for number, process in enumerate(processes):
        assert process.wait() == 128 + signal.SIGTERM
        text = (tmp_path / f"log-{number}").read_text()
        programs.check_resumed(text, 20)
        assert "which is saved" in text
    steps = [line["step"] for line in toy.metrics(tmp_path)]
    reported = [step for step in steps if step % 9 == 0]
    assert reported == [9 * n for n in range(1, len(reported) + 1)]


@pytest.mark.integration
def test_a_folder_of_another_model_is_refused_by_all_workers(tmp_path):
    toy.write_config(tmp_path / "bert_config.json", intermediate_size=19)
    toy.run(tmp_path, num_train_steps=1)
    for number, process in enumerate(_start(tmp_path, workers=2)):
        assert process.wait() != 0
        text = (tmp_path / f"log-{number}").read_text()
        assert "out is another one: intermediate_size" in text


@pytest.mark.integration
def test_a_chief_that_cannot_write_ends_the_other_workers(tmp_path):
    (tmp_path / "out/model.ckpt-5.state.json").mkdir(parents=True)
    logs = []
    for number, process in enumerate(_start(tmp_path, workers=2)):
        assert process.wait(120) != 0
        logs.append((tmp_path / f"log-{number}").read_text())
    assert "model.ckpt-5.state.json: Is a directory" in logs[0]
    assert "first worker of TF_CONFIG has failed" in logs[1]
