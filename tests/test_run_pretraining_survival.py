"""Pre-training runs that are killed, fill the disk or change batch sizes."""

import os
import resource
import shutil
import time

import pytest
import tensorflow as tf

from modeling import checkpoints
from tests.support import moments as moments_lib
from tests.support import programs, toy_files
from tests.support import toy_pretraining as toy


def _check_no_file_is_partial(out):
    for path in out.glob("[!.]*"):
        if path.name.endswith(".json"):
            toy_files.read_json(path)
        if path.name.endswith(".index"):
            # Checks every byte.
            checkpoints.read(str(path))
            # A run that resumes from it is compared with this.
            assert path.with_suffix(".state.json").exists()
        if path.name == "checkpoint":
            latest = os.path.basename(checkpoints.find(str(out)))
            assert f'model_checkpoint_path: "{latest}"' in path.read_text()


@pytest.fixture(scope="module")
def moments(tmp_path_factory):
    """Makes a run of two checkpoints, and a copy of it at each moment."""
    folder = tmp_path_factory.mktemp("moments")
    whole, copies = folder / "whole", folder / "copies"
    with moments_lib.recorded(whole / "out", copies) as made:
        toy.run(whole, **_SHORT)
    return whole, made


# Two checkpoints, each evaluated, of which the better one is kept as the best.
_SHORT = {
    "do_eval": True,
    "max_eval_steps": 1,
    "eval_every_steps": 2,
    "save_checkpoints_steps": 2,
    "keep_checkpoint_max": 1,
    "num_train_steps": 4,
}


@pytest.mark.integration
def test_a_kill_leaves_no_file_that_is_partial(moments):
    _, copies = moments
    # Weights, index, state, list and reports of two checkpoints.
    assert len(copies) > 20
    for copy in copies:
        _check_no_file_is_partial(copy)


@pytest.mark.integration
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))]
)
def test_a_kill_at_any_moment_changes_nothing(tmp_path, moments, part):
    whole, copies = moments
    for copy in copies[part::4]:
        saved = tf.train.latest_checkpoint(str(copy))
        moments_lib.put_back(copy, tmp_path / "out")
        if saved is None:
            toy.run(tmp_path, **_SHORT)
        else:
            toy.resume(int(saved.rpartition("-")[2]), tmp_path, **_SHORT)
        toy.check_same_run(tmp_path, whole, 4)
        ours, theirs = (
            {
                x.name
                for x in (each / "out").iterdir()
                # A kill may spare files of the checkpoint before the last.
                if "tfev" not in x.name and "ckpt-2" not in x.name
            }
            for each in (tmp_path, whole)
        )
        assert ours == theirs, copy


def _wait_for(path):
    until = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < until, f"{path} does not appear."
        time.sleep(0.01)


class _Killed(BaseException):
    """Stands in for a kill."""


def _run_until(folder, name, number=1, **named):
    """Runs until a file is to be replaced for so many times."""
    replace, left = os.replace, number

    def until(source, target):
        nonlocal left
        left -= str(target) == str(folder / "out" / name)
        if not left:
            raise _Killed(target)
        replace(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", until)
        with pytest.raises(_Killed):
            toy.run(folder, **named)


@pytest.mark.integration
def test_kills_while_saving_do_not_change_when_a_run_stops_early(tmp_path):
    named = {
        "do_eval": True,
        "max_eval_steps": 0,
        "eval_every_steps": 2,
        "save_checkpoints_steps": 4,
        "learning_rate": 0.3,  # At this rate the loss soon rises.
        "early_stopping_patience": 2,
    }
    unbroken, folder = tmp_path / "unbroken", tmp_path / "killed"
    toy.run(unbroken, **named)
    # After step 4, which is saved, was evaluated.
    _run_until(folder, "best/best.json", 2, **named)
    # Before the step of the last evaluation is saved, and in this evaluation.
    _run_until(folder, "model.ckpt-6.index", **named)
    _run_until(folder, "best/best.json", **named)
    toy.resume(6, folder, **named)
    toy.check_same_run(folder, unbroken, 6)
    best = [each / "out/best/best.json" for each in (folder, unbroken)]
    assert best[0].read_text() == best[1].read_text()


@pytest.mark.integration
def test_a_folder_takes_one_run_at_a_time(tmp_path):
    lock = tmp_path / "out" / ".lock"
    endless = {"num_train_steps": 10**6, "save_checkpoints_steps": 10**6}
    first = toy.start(tmp_path, **endless)
    try:
        _wait_for(lock)
        # A cold start, as of a user.
        named = toy.flags_of(tmp_path, learning_rate=0.02)
        second = programs.python(
            "run_pretraining.py", *(f"--{k}={v}" for k, v in named.items())
        )
        assert second.returncode == 1
        said = second.stderr
        assert f"--output_dir={tmp_path / 'out'} is in use by another" in said
        assert len(said.splitlines()) == 1
    finally:
        first.kill()
    first.wait()
    assert lock.exists()
    # The lock of a process that was killed holds nobody up.
    assert toy.start(tmp_path, num_train_steps=1).wait() == 0
    assert not lock.exists()


@pytest.mark.integration
def test_two_commands_in_a_folder_share_one_schedule(tmp_path, caplog):
    longer = toy.random_examples(num_examples=30, seq_length=14, seed=2)
    toy.write_records(tmp_path / "long", longer)
    named = {"num_train_steps": 10, "save_checkpoints_steps": 100}
    second = {
        "max_seq_length": 14,
        "train_batch_size": 2,
        "input_file": tmp_path / "long",
    }
    toy.run(tmp_path, **named, stop_at_step=6)
    assert (tmp_path / "out/model.ckpt-6.index").exists()
    # Without more steps, the first command changes nothing.
    toy.run(tmp_path, **named, stop_at_step=6)
    toy.run(tmp_path, **named, **second)
    assert "max_seq_length was 10 and is 14" in caplog.text
    reported = toy.metrics(tmp_path)
    assert [line["step"] for line in reported] == list(range(1, 11))
    # One schedule: 0.01 * (1 - 9 / 10) in the last step.
    assert reported[-1]["learning_rate"] == pytest.approx(1e-3)


@pytest.mark.integration
def test_a_stop_of_the_second_command_changes_nothing(tmp_path):
    for name in ("unbroken", "stopped"):
        toy.run(tmp_path / name, num_train_steps=10, stop_at_step=4)
    toy.run(tmp_path / "unbroken", num_train_steps=10)
    toy.stop(tmp_path / "stopped", 7, num_train_steps=10)
    toy.resume(7, tmp_path / "stopped", num_train_steps=10)
    toy.check_same_run(tmp_path / "stopped", tmp_path / "unbroken", 10)


def _flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _cut(path):
    path.write_bytes(path.read_bytes()[:-9])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Makes a run of 13 steps."""
    folder = tmp_path_factory.mktemp("whole")
    toy.run(folder)
    return folder


@pytest.fixture(scope="module")
def of_ten(tmp_path_factory):
    """Makes its first ten steps."""
    folder = tmp_path_factory.mktemp("ten")
    toy.run(folder, stop_at_step=10)
    return folder


@pytest.mark.integration
@pytest.mark.parametrize(
    ("part", "damage"),
    [
        (".data-00000-of-00001", _flip_a_bit),
        (".index", _cut),
        (".index", _flip_a_bit),
        (".data-00000-of-00001", _cut),
        (".state.json", _cut),
    ],
)
def test_a_damaged_checkpoint_falls_back_to_the_one_before(
    tmp_path, caplog, whole, of_ten, part, damage
):
    shutil.copytree(of_ten, tmp_path, dirs_exist_ok=True)
    damage(tmp_path / "out" / f"model.ckpt-10{part}")
    toy.resume(5, tmp_path)
    assert "model.ckpt-10 cannot be read: " in caplog.text
    toy.check_same_run(tmp_path, whole, 13)
    for path in (tmp_path / "out").glob("model.ckpt-*.data*"):
        _cut(path)
    with pytest.raises(ValueError, match=r"model\.ckpt-13"):
        toy.run(tmp_path)


@pytest.mark.integration
def test_a_full_disk_leaves_the_last_checkpoint_whole(tmp_path):
    toy.run(tmp_path, num_train_steps=10)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Room for reports, not for the 25 KB of the weights and their moments.
    resource.setrlimit(resource.RLIMIT_FSIZE, (15_000, before[1]))
    try:
        with pytest.raises(OSError, match=r"model\.ckpt-13"):
            toy.run(tmp_path, num_train_steps=13)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    out = tmp_path / "out"
    assert checkpoints.find(str(out)).endswith("-10")
    assert not list(out.glob(".*partial*"))
    assert not list(out.glob("model.ckpt-13*"))
    toy.run(tmp_path, num_train_steps=13)
    assert [line["step"] for line in toy.metrics(tmp_path)][-3:] == [11, 12, 13]
