"""Checkpoints of steps, and the best one."""

import dataclasses
import math
import os
import pathlib
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

from bert.models import folder as folder_lib
from bert.training import checkpointing, resuming
from bert.training import length as length_lib
from modeling import bert, checkpoint_files, checkpoints, release_format
from tests.support import toy_config


def _save(folder, step, keep=5, value=1.0, keep_every=0):
    variables = {"w": tf.Variable([value, 2.0]), "w/adam_m": tf.Variable([3.0])}
    state = {"identity": {"a": step}}
    return checkpointing.save(
        str(folder), step, variables, state, keep, keep_every
    )


def _open(folder):
    return folder_lib.ModelFolder.open(str(folder), is_folder=True)


def _latest(folder):
    return _open(folder).checkpoint


def _stored_step(prefix):
    return checkpoints.read(prefix)["global_step"]


def _steps(folder):
    return sorted(
        checkpoint_files.step_of(path.name.removesuffix(".index"))
        for path in folder.glob("*.index")
    )


def test_what_is_saved_is_found_again(tmp_path):
    assert _latest(tmp_path) is None
    prefix = _save(tmp_path, 7)
    assert prefix == str(tmp_path / "model.ckpt-7")
    assert _latest(tmp_path) == prefix
    assert tf.train.latest_checkpoint(str(tmp_path)) == prefix
    assert _stored_step(prefix) == 7
    assert resuming.load_state(prefix) == {"identity": {"a": 7}}
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
        source = release_format.Reader(str(tmp_path / "model.ckpt-1"))
        checkpointing.load_slots(source, slots)

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
    assert _latest(tmp_path) == prefix
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
    assert _latest(tmp_path).endswith("-10")


def test_only_numbered_checkpoints_are_those_of_steps(tmp_path):
    prefix = _save(tmp_path, 5)
    for ending in ("best", "-7", "007"):
        shutil.copy(f"{prefix}.index", tmp_path / f"model.ckpt-{ending}.index")
    assert checkpoint_files.saved_steps(str(tmp_path)) == [5]
    assert checkpoint_files.saved_steps(str(tmp_path / "none")) == []


@pytest.mark.parametrize("name", ["run (v2)", "a*", "a?"])
def test_a_folder_may_have_any_name(tmp_path, name):
    folder = tmp_path / name
    for step in (1, 2, 3):
        prefix = _save(folder, step, keep=2)
    assert _steps(folder) == [2, 3]
    assert _latest(folder) == prefix
    assert _stored_step(prefix) == 3


@pytest.mark.parametrize("step", [5, 6])
def test_a_failed_save_leaves_the_earlier_checkpoint(
    tmp_path, monkeypatch, step
):
    _save(tmp_path, 5)

    def fail(*_):
        raise OSError("disk full")

    # As a full disk does, before any file has its name.
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        _save(tmp_path, step, value=9.0)
    prefix = _latest(tmp_path)
    assert _stored_step(prefix) == 5
    np.testing.assert_array_equal(checkpoints.read(prefix)["w"], [1.0, 2.0])
    # Of a step that was never saved nothing is left.
    assert not [*tmp_path.glob("model.ckpt-6*")]


def test_step_of_a_checkpoint_without_one_is_in_its_name(tmp_path):
    prefix = str(tmp_path / "model.ckpt-12")
    checkpoints.save(prefix, {"w": np.zeros(2, np.float32)})
    (checkpoint,) = _open(tmp_path).training_checkpoints
    with _open(tmp_path).open_weights() as source:
        assert checkpointing.step_of(source, checkpoint) == 12
    assert resuming.load_state(prefix) is None
    assert checkpoint_files.step_of("model.ckpt") == 0


def test_moments_that_are_missing_start_at_zero(tmp_path, caplog):
    prefix = _save(tmp_path, 3)
    slots = {"w/adam_m": tf.Variable([0.0]), "w/adam_v": tf.Variable([0.0])}
    checkpointing.load_slots(release_format.Reader(prefix), slots)
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


# ---- Resuming


_STATE = resuming.RunState(
    flags={"learning_rate": 5e-5, "random_seed": 3, "features": (1, 2)},
    data={"num_records": 7},
    execution={"device": "CPU", "execution_mode": "plain"},
    loss_scale={"loss_scale": 64.0, "finite_steps": 3},
)


@pytest.fixture
def model():
    """A model with two variables and the moments of one."""
    made = bert.BertModel(toy_config.config())
    for variable in made.weights:
        variable.assign(np.full(variable.shape, 7.0))
    return made


def _save_run(folder, model, step, state=_STATE, value=1.0):
    """Saves a model whose weights have a value, and a moment of twice it."""
    weights = {
        name: tf.Variable(np.full(variable.shape, value, np.float32))
        for name, variable in checkpoints.variables_by_name(model).items()
    }
    slots = {"w/adam_m": tf.Variable([2 * value])}
    content = state if isinstance(state, dict) else state.as_json()
    return checkpointing.save(str(folder), step, weights | slots, content, 0)


def _resume(folder, model):
    slots = {"w/adam_m": tf.Variable([0.0])}
    resumed = checkpointing.resume(_open(folder), model, slots)
    return resumed, slots["w/adam_m"].numpy().item()


def _value(model):
    values = {float(x) for v in model.weights for x in np.ravel(v)}
    (value,) = values
    return value


def test_a_folder_without_a_checkpoint_resumes_nothing(tmp_path, model):
    assert _resume(tmp_path / "none", model) == (None, 0.0)
    assert _value(model) == 7.0


def test_a_run_resumes_with_its_weights_moments_step_and_state(
    tmp_path, model, caplog
):
    _save_run(tmp_path, model, 3, value=5.0)
    prefix = _save_run(tmp_path, model, 4)
    resumed, moment = _resume(tmp_path, model)
    assert (resumed.prefix, resumed.step) == (prefix, 4)
    assert resumed.state == _STATE.as_json()
    assert (_value(model), moment) == (1.0, 2.0)
    assert f"Resumed from {prefix} at step 4." in caplog.text


def _damage(path):
    path.write_bytes(path.read_bytes()[:-9])


@pytest.mark.parametrize(
    "part", [".index", ".data-00000-of-00001", ".state.json"]
)
def test_a_damaged_checkpoint_falls_back_to_the_newest_one_before(
    tmp_path, model, caplog, part
):
    for step in (2, 3, 10):
        _save_run(tmp_path, model, step, value=float(step))
    _damage(tmp_path / f"model.ckpt-10{part}")
    resumed, moment = _resume(tmp_path, model)
    assert (resumed.step, _value(model), moment) == (3, 3.0, 6.0)
    assert "model.ckpt-10 cannot be read: " in caplog.text
    for step in (2, 3):
        _damage(tmp_path / f"model.ckpt-{step}{part}")
    with pytest.raises(ValueError, match=r"model\.ckpt-10"):
        _resume(tmp_path, model)


def test_a_damaged_state_says_no_execution(tmp_path, model):
    assert resuming.execution_of(_open(tmp_path)) == {}
    _save_run(tmp_path, model, 3)
    assert resuming.execution_of(_open(tmp_path)) == _STATE.execution
    _damage(tmp_path / "model.ckpt-3.state.json")
    assert resuming.execution_of(_open(tmp_path)) == {}


def test_a_run_resumes_at_the_step_in_the_name_if_none_is_stored(
    tmp_path, model
):
    checkpoints.save(
        str(tmp_path / "model.ckpt-12"),
        {
            name: tf.constant(variable.numpy())
            for name, variable in checkpoints.variables_by_name(model).items()
        },
    )
    resumed, _ = _resume(tmp_path, model)
    assert resumed.step == 12


def _check_same_run(resumed, now, *, is_over=False):
    length = length_lib.Length(num_train_steps=resumed.step + (not is_over))
    return resuming.check_same_run(resumed, now, length)


def test_other_flags_and_data_are_one_warning(tmp_path, model, caplog):
    _save_run(tmp_path, model, 4)
    resumed, _ = _resume(tmp_path, model)
    scale = _check_same_run(resumed, _STATE)
    assert scale == _STATE.loss_scale
    now = dataclasses.replace(
        _STATE,
        flags={**_STATE.flags, "learning_rate": 1e-3},
        data={"num_records": 8, "masking": None},
        execution={"device": "CPU", "execution_mode": "xla"},
    )
    # Nothing is trained.
    _check_same_run(resumed, now, is_over=True)
    assert "other settings" not in caplog.text
    _check_same_run(resumed, now)
    (record,) = [r for r in caplog.records if r.levelname == "WARNING"]
    assert (
        "with other settings: learning_rate was 5e-05 and is 0.001, "
        "execution_mode was 'plain' and is 'xla', num_records was 7 and is "
        "8. The result will not be"
    ) in record.getMessage()


def test_a_checkpoint_without_a_state_is_resumed_and_weights_alone_are_not(
    tmp_path, model
):
    prefix = _save_run(tmp_path, model, 4)
    (tmp_path / "model.ckpt-4.state.json").unlink()
    resumed, _ = _resume(tmp_path, model)
    assert (resumed.step, resumed.state) == (4, None)
    assert _check_same_run(resumed, _STATE) == {}
    _save_run(tmp_path, model, 4, state={})
    resumed, _ = _resume(tmp_path, model)
    with pytest.raises(ValueError, match=f"{prefix} .* has weights only"):
        _check_same_run(resumed, _STATE)


# ---- The best weights


def _best(folder, first_step=0, *, name="f1", patience=0, **metric):
    return checkpointing.BestCheckpoint(
        str(folder),
        resuming.HeldOutMetric(name=name, **{"held_out": {}, **metric}),
        length_lib.Length(num_train_steps=100, eval_every_steps=2),
        first_step,
        patience,
    )


def _offer(best, step, value):
    weights = {"w": tf.Variable(float(step))}
    best.offer(step, {"f1": value, "loss": -value}, weights)


def _held(folder):
    return checkpoints.read(str(folder / "best"))["w"]


def test_keeps_the_best_weights_alone(tmp_path):
    best = _best(tmp_path)
    assert best.record is None
    for step, value in ((1, 0.5), (2, 0.7), (3, 0.6), (4, 0.7)):
        _offer(best, step, value)
    # Of equal ones the first.
    assert _held(tmp_path) == 2.0
    assert best.record.value == 0.7
    assert len(list((tmp_path / "best").glob("*.index"))) == 1
    assert not best.is_over
    # Lower may be better.
    best = _best(tmp_path / "lower", name="loss", higher_is_better=False)
    _offer(best, 1, 0.5)
    _offer(best, 2, 0.9)
    assert _held(tmp_path / "lower") == 2.0
    # The values of another metric are not compared.
    best = _best(tmp_path / "lower")
    assert best.record is None


def test_is_over_after_as_many_evaluations_as_patience(tmp_path):
    best = _best(tmp_path, patience=2)
    over = []
    for step, value in ((1, 0.5), (2, 0.4), (3, 0.6), (4, 0.6), (5, 0.1)):
        _offer(best, step, value)
        over.append(best.is_over)
    assert over == [False, False, False, False, True]


def test_a_value_that_is_not_finite_is_never_the_best(tmp_path, caplog):
    best = _best(tmp_path, patience=2)
    _offer(best, 1, math.nan)
    assert best.record.value is None and not best.is_over
    assert "f1 is nan" in caplog.text
    for step, value in ((3, 0.2), (4, math.nan), (5, 0.4)):
        _offer(best, step, value)
    assert (best.record.step, best.record.value) == (5, 0.4)


def test_patience_ends_a_run_without_a_finite_value(tmp_path):
    best = _best(tmp_path, patience=2)
    _offer(best, 2, math.nan)
    # Also if it is resumed between.
    best = _best(tmp_path, 2, patience=2)
    assert not best.lacks_evaluation
    _offer(best, 4, math.inf)
    assert best.is_over
    assert not list((tmp_path / "best").glob("model.ckpt*"))


def test_a_resumed_run_goes_on_counting_evaluations(tmp_path):
    best = _best(tmp_path, patience=2)
    _offer(best, 2, 0.5)
    _offer(best, 4, 0.4)
    assert _best(tmp_path, 6).lacks_evaluation
    assert not _best(tmp_path, 4).lacks_evaluation
    assert not _best(tmp_path, 5).lacks_evaluation
    resumed = _best(tmp_path, 5, patience=2)
    assert resumed.record == best.record
    _offer(resumed, 6, 0.4)
    assert resumed.is_over and _best(tmp_path, 6, patience=2).is_over


def test_evaluations_that_are_repeated_do_not_count(tmp_path):
    best = _best(tmp_path)
    for step, value in ((2, 0.5), (4, 0.4), (6, 0.3), (8, 0.3)):
        _offer(best, step, value)
    for first_step, since in ((2, 0), (3, 0), (5, 1), (6, 2), (8, 3)):
        resumed = _best(tmp_path, first_step)
        assert resumed.record.evaluations_since == since
        assert not resumed.lacks_evaluation
    resumed = _best(tmp_path, 3)
    _offer(resumed, 4, 0.4)
    assert resumed.record == resuming.BestRecord(
        metric="f1",
        held_out={},
        step=2,
        value=0.5,
        evaluations_since=1,
        last_step=4,
    )


def test_the_best_of_steps_that_are_repeated_stays_until_it_is_replaced(
    tmp_path, caplog
):
    best = _best(tmp_path)
    _offer(best, 2, 0.5)
    _offer(best, 4, 0.9)
    _best(tmp_path, 4)
    assert "replaces" not in caplog.text
    resumed = _best(tmp_path, 3)
    assert "the weights of step 4 in" in caplog.text
    assert (tmp_path / "best/model.ckpt-4.index").exists()
    assert resumed.record is None
    # A lower value is the best of the steps that are left.
    _offer(resumed, 3, 0.6)
    assert resumed.record.value == 0.6
    (left,) = (tmp_path / "best").glob("*.index")
    assert left.name == "model.ckpt-3.index"


def test_a_damaged_best_json_names_the_file(tmp_path):
    (tmp_path / "best").mkdir()
    (tmp_path / "best/best.json").write_text('{"steps": 1}')
    with pytest.raises(ValueError, match=r"best.json is damaged .*'steps'"):
        _best(tmp_path)


def test_the_best_weights_have_beside_them_what_they_mean(tmp_path):
    best = _best(tmp_path)
    names = ("bert_config.json", "task.json", "vocab.txt")
    for name in names:
        (tmp_path / name).write_text(f"{name} of the run")
    _offer(best, 1, 0.5)
    for name in names:
        assert (tmp_path / "best" / name).read_text() == f"{name} of the run"
