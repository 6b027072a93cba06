"""Checkpoints of steps, and the best one."""

import math
import os
import pathlib
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

from modeling import checkpoints
from training import checkpointing


def _save(folder, step, keep=5, value=1.0, keep_every=0):
    variables = {"w": tf.Variable([value, 2.0]), "w/adam_m": tf.Variable([3.0])}
    state = {"identity": {"a": step}}
    return checkpointing.save(
        str(folder), step, variables, state, keep, keep_every
    )


def _steps(folder):
    return sorted(
        checkpointing.step_of(path.name.removesuffix(".index"))
        for path in folder.glob("*.index")
    )


def test_what_is_saved_is_found_again(tmp_path):
    assert checkpointing.latest(str(tmp_path)) is None
    prefix = _save(tmp_path, 7)
    assert prefix == str(tmp_path / "model.ckpt-7")
    assert checkpointing.latest(str(tmp_path)) == prefix
    assert tf.train.latest_checkpoint(str(tmp_path)) == prefix
    assert checkpointing.load_step(prefix) == 7
    assert checkpointing.load_state(prefix) == {"identity": {"a": 7}}
    values = checkpoints.read(prefix)
    assert set(values) == {"w", "w/adam_m", "global_step"}
    np.testing.assert_array_equal(values["w"], [1.0, 2.0])
    assert values["global_step"].dtype == np.int64


def _peak():
    """Reads the peak of this process's memory; ru_maxrss has the parent's."""
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(re.findall(r"^VmHWM:\s+(\d+) kB", status, re.M)[0])


def _peak_growth(action):
    """Measures by how many bytes the process grows; Linux resets the peak."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = _peak()
    action()
    return _peak() - before


def test_saving_and_loading_need_no_memory_for_copies(tmp_path):
    shape = [1 << 20]
    slots = {
        f"w/{i}/adam_m": tf.Variable(tf.random.uniform(shape))
        for i in range(20)
    }
    num_bytes = 4 * len(slots) << 20

    def save():
        checkpointing.save(str(tmp_path), 1, slots, {}, 1)

    def load():
        checkpointing.load_slots(str(tmp_path / "model.ckpt-1"), slots)

    assert _peak_growth(save) < num_bytes / 2
    assert _peak_growth(load) < num_bytes / 2


def test_only_the_last_ones_stay(tmp_path):
    for step in (2, 10, 9, 11):
        _save(tmp_path, step, keep=2)
    # Nine came after ten: a run that was set back removes nothing later.
    assert _steps(tmp_path) == [10, 11]
    names = {path.name for path in tmp_path.iterdir()}
    assert not [name for name in names if "-2." in name or "-9." in name]
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert [p.rpartition("-")[2] for p in state.all_model_checkpoint_paths] == [
        "10",
        "11",
    ]
    # A run that was set back keeps what it saves.
    prefix = _save(tmp_path, 6, keep=1)
    assert checkpointing.latest(str(tmp_path)) == prefix
    assert _steps(tmp_path) == [6, 10, 11]


def test_multiples_of_a_step_stay_for_good_and_all_without_a_limit(tmp_path):
    for step in range(1, 12):
        _save(tmp_path, step, keep=2, keep_every=4)
    assert _steps(tmp_path) == [4, 8, 10, 11]
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert len(state.all_model_checkpoint_paths) == 4
    for step in range(12, 20):
        _save(tmp_path, step, keep=0)
    assert _steps(tmp_path) == [4, 8, *range(10, 20)]


@pytest.mark.parametrize(
    "content",
    [
        *(None, b"", b'model_checkpoint_path: "\xff"'),
        b'model_checkpoint_path: "gone-3"\n',
    ],
)
def test_without_a_sound_listing_the_highest_step_is_the_latest(
    tmp_path, content
):
    for step in (9, 10):
        _save(tmp_path, step)
    (tmp_path / "checkpoint").unlink()
    if content is not None:
        (tmp_path / "checkpoint").write_bytes(content)
    assert checkpointing.latest(str(tmp_path)).endswith("-10")


def test_only_numbered_checkpoints_are_those_of_steps(tmp_path):
    prefix = _save(tmp_path, 5)
    for ending in ("best", "-7", "007"):
        shutil.copy(f"{prefix}.index", tmp_path / f"model.ckpt-{ending}.index")
    assert checkpointing.saved_steps(str(tmp_path)) == [5]
    assert checkpointing.saved_steps(str(tmp_path / "none")) == []


@pytest.mark.parametrize("name", ["run (v2)", "a*", "a?"])
def test_a_folder_may_have_any_name(tmp_path, name):
    folder = tmp_path / name
    for step in (1, 2, 3):
        prefix = _save(folder, step, keep=2)
    assert _steps(folder) == [2, 3]
    assert checkpointing.latest(str(folder)) == prefix
    assert checkpointing.load_step(prefix) == 3


def test_a_failed_save_leaves_the_earlier_checkpoint(tmp_path, monkeypatch):
    _save(tmp_path, 5)

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        _save(tmp_path, 6, value=9.0)
    monkeypatch.undo()
    prefix = checkpointing.latest(str(tmp_path))
    assert checkpointing.load_step(prefix) == 5
    np.testing.assert_array_equal(checkpoints.read(prefix)["w"], [1.0, 2.0])


def test_step_of_a_checkpoint_without_one_is_in_its_name(tmp_path):
    prefix = str(tmp_path / "model.ckpt-12")
    checkpoints.save(prefix, {"w": np.zeros(2, np.float32)})
    assert checkpointing.load_step(prefix) == 12
    assert checkpointing.load_state(prefix) is None
    assert checkpointing.step_of("model.ckpt") == 0


def test_moments_that_are_missing_start_at_zero(tmp_path, caplog):
    prefix = _save(tmp_path, 3)
    slots = {"w/adam_m": tf.Variable([0.0]), "w/adam_v": tf.Variable([0.0])}
    checkpointing.load_slots(prefix, slots)
    assert slots["w/adam_m"].numpy() == 3.0
    assert slots["w/adam_v"].numpy() == 0.0
    assert "lacks 1 of 2 optimizer moments, which start at 0: w/adam_v" in (
        caplog.text
    )


def test_what_a_killed_save_left_is_removed_by_the_next(tmp_path):
    stay = ["model.ckpt-0.index", ".hidden", "a.partial"]
    go = [
        ".model.ckpt-2.31.partial.index",
        ".model.ckpt-2.31.partial.data-00000-of-00001",
    ]
    for name in stay + go:
        (tmp_path / name).write_text("x")
    _save(tmp_path, 3)
    names = {path.name for path in tmp_path.iterdir()}
    assert names >= set(stay) and not names & set(go)


def _offer(best, step, value):
    weights = {"w": tf.Variable(float(step))}
    best.offer(step, {"f1": value, "loss": -value}, weights)


def _held(folder):
    return checkpoints.read(str(folder / "best"))["w"]


def test_keeps_the_best_weights_alone(tmp_path):
    best = checkpointing.BestCheckpoint(str(tmp_path), "f1")
    assert best.record is None
    for step, value in ((1, 0.5), (2, 0.7), (3, 0.6), (4, 0.7)):
        _offer(best, step, value)
    # Of equal ones the first.
    assert _held(tmp_path) == 2.0
    assert best.record["value"] == 0.7
    assert len(list((tmp_path / "best").glob("*.index"))) == 1
    assert not best.is_over(4)
    # Lower may be better.
    best = checkpointing.BestCheckpoint(
        str(tmp_path / "lower"), "loss", higher_is_better=False
    )
    _offer(best, 1, 0.5)
    _offer(best, 2, 0.9)
    assert _held(tmp_path / "lower") == 2.0
    # The values of another metric are not compared.
    best = checkpointing.BestCheckpoint(str(tmp_path / "lower"), "f1")
    assert best.record is None


def test_is_over_after_as_many_evaluations_as_patience(tmp_path):
    best = checkpointing.BestCheckpoint(str(tmp_path), "f1", patience=2)
    over = []
    for step, value in ((1, 0.5), (2, 0.4), (3, 0.6), (4, 0.6), (5, 0.1)):
        _offer(best, step, value)
        over.append(best.is_over(step))
    assert over == [False, False, False, False, True]


def test_a_value_that_is_not_finite_is_never_the_best(tmp_path, caplog):
    best = checkpointing.BestCheckpoint(str(tmp_path), "f1", patience=2)
    for step, value in ((1, math.nan), (2, math.inf)):
        _offer(best, step, value)
    assert best.record is None
    assert "f1 is nan" in caplog.text
    for step, value in ((3, 0.2), (4, math.nan), (5, 0.4)):
        _offer(best, step, value)
    assert (best.record["step"], best.record["value"]) == (5, 0.4)


def test_a_resumed_run_counts_an_evaluation_once(tmp_path):
    best = checkpointing.BestCheckpoint(str(tmp_path), "f1", patience=2)
    _offer(best, 1, 0.5)
    _offer(best, 2, 0.4)
    resumed = checkpointing.BestCheckpoint(str(tmp_path), "f1", patience=2)
    _offer(resumed, 2, 0.4)
    assert not resumed.is_over(2)
    _offer(resumed, 3, 0.4)
    assert resumed.is_over(3)


def test_steps_that_were_not_saved_are_repeated_up_to_the_last(tmp_path):
    best = checkpointing.BestCheckpoint(str(tmp_path), "f1", patience=2)
    values = {1: 0.5, 2: 0.4, 3: 0.3}
    for step, value in values.items():
        _offer(best, step, value)
    resumed = checkpointing.BestCheckpoint(str(tmp_path), "f1", patience=2)
    over = [resumed.is_over(0)]
    for step, value in values.items():
        _offer(resumed, step, value)
        over.append(resumed.is_over(step))
    assert over == [False, False, False, True]


def test_the_best_weights_have_beside_them_what_they_mean(tmp_path):
    best = checkpointing.BestCheckpoint(str(tmp_path), "f1")
    names = ("bert_config.json", "task.json", "vocab.txt")
    for name in names:
        (tmp_path / name).write_text(f"{name} of the run")
    _offer(best, 1, 0.5)
    for name in names:
        assert (tmp_path / "best" / name).read_text() == f"{name} of the run"


def test_a_new_run_removes_the_best_of_an_earlier_one(tmp_path):
    folder = str(tmp_path)
    checkpointing.remove_best(folder)
    for step, value in ((1, 0.5), (2, 0.7)):
        _offer(
            checkpointing.BestCheckpoint(folder, "f1", patience=1), step, value
        )
    (tmp_path / "best/notes.txt").write_text("of the user")
    checkpointing.remove_best(folder)
    assert [path.name for path in (tmp_path / "best").iterdir()] == [
        "notes.txt"
    ]
    assert checkpointing.BestCheckpoint(folder, "f1").record is None
