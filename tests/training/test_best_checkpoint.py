import pytest
import tensorflow as tf

from modeling import checkpoints
from training import checkpointing


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


def test_lower_may_be_better(tmp_path):
    best = checkpointing.BestCheckpoint(
        str(tmp_path), "loss", higher_is_better=False
    )
    _offer(best, 1, 0.5)
    _offer(best, 2, 0.9)
    assert _held(tmp_path) == 2.0


def test_is_over_after_as_many_evaluations_as_patience(tmp_path):
    best = checkpointing.BestCheckpoint(str(tmp_path), "f1", patience=2)
    over = []
    for step, value in ((1, 0.5), (2, 0.4), (3, 0.6), (4, 0.6), (5, 0.1)):
        _offer(best, step, value)
        over.append(best.is_over(step))
    assert over == [False, False, False, False, True]


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


def test_refuses_a_metric_that_is_not_there(tmp_path):
    best = checkpointing.BestCheckpoint(str(tmp_path), "accuracy")
    with pytest.raises(ValueError, match=r"'accuracy'.* gives f1, loss"):
        _offer(best, 1, 0.5)


def test_chooses_the_latest_or_the_best(tmp_path):
    assert checkpointing.best_or_latest(str(tmp_path), best=False) is None
    folder = str(tmp_path)
    weights = {"w": tf.Variable(1.0)}
    checkpointing.save(folder, 5, weights, state={}, keep=1)
    with pytest.raises(ValueError, match="has no best checkpoint"):
        checkpointing.best_or_latest(folder, best=True)
    _offer(checkpointing.BestCheckpoint(folder, "f1"), 3, 0.5)
    assert (
        checkpointing.best_or_latest(folder, best=False)
        == f"{folder}/model.ckpt-5"
    )
    assert (
        checkpointing.best_or_latest(folder, best=True)
        == f"{folder}/best/model.ckpt-3"
    )


def test_the_best_weights_have_beside_them_what_they_mean(tmp_path):
    best = checkpointing.BestCheckpoint(str(tmp_path), "f1")
    names = ("bert_config.json", "labels.json", "tokenizer.json", "vocab.txt")
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
