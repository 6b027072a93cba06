"""run_swag.py from CSV files to predictions, on a small model."""

import csv
import shutil

import numpy as np
import pytest
import tensorflow as tf

import run_swag
from modeling import checkpoints
from tests.support import programs, tool_runs
from tests.support import toy_swag as toy

# Six steps, longer than every interval.
_TRAINING = {
    "do_train": True,
    "save_checkpoints_steps": 2,
    "log_every_steps": 1,
}


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    toy.run(folder, **_TRAINING)
    return folder


@pytest.fixture
def trained(trained_once, tmp_path):
    """A folder in which a run has ended, to do something to."""
    shutil.copytree(trained_once, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.mark.integration
def test_learns_what_a_right_ending_is(tmp_path):
    toy.write(tmp_path / "train.csv", toy.copying(400, seed=1))
    toy.write(tmp_path / "val.csv", toy.copying(100, seed=2))
    test_rows = toy.copying(60, seed=3)
    toy.write(tmp_path / "test.csv", test_rows, with_labels=False)
    toy.run(
        tmp_path,
        **programs.STAGES,
        train_batch_size=16,
        num_train_epochs=15,
        learning_rate=2e-3,
        packing=True,
    )
    results = programs.results(tmp_path / "out/eval_results.txt")
    assert sorted(results) == [
        *("eval_accuracy", "eval_loss", "global_step", "loss"),
    ]
    assert results["global_step"] == 375
    # One in four by chance.
    assert results["eval_accuracy"] >= 0.75
    with open(tmp_path / "out/predictions.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["", "pred"]
    assert [int(row[0]) for row in rows[1:]] == list(range(60))
    right = [
        int(r[1]) == t[3] for r, t in zip(rows[1:], test_rows, strict=True)
    ]
    assert np.mean(right) >= 0.7
    probs = np.loadtxt(tmp_path / "out/test_results.tsv")
    assert probs.shape == (60, 4)
    np.testing.assert_allclose(probs.sum(1), 1, atol=1e-5)
    assert probs.argmax(1).tolist() == [int(row[1]) for row in rows[1:]]


@pytest.mark.integration
def test_the_encoder_of_a_trained_model_is_exported(trained):
    version = tool_runs.exported(
        trained / "out", trained / "served", layers="-1"
    )
    encode = tf.saved_model.load(version).signatures["serving_default"]
    got = encode(text_a=tf.constant(["wa then wb"]))["pooled_output"]
    assert got.shape == (1, 32) and np.isfinite(got).all()


def test_an_evaluation_alone_writes_no_answers(trained):
    toy.run(trained, do_eval=True)
    results = programs.results(trained / "out/eval_results.txt")
    assert 0 <= results["eval_accuracy"] <= 1
    assert not (trained / "out/test_results.tsv").exists()
    assert not (trained / "out/predictions.csv").exists()


def test_a_test_file_with_labels_has_a_score_until_another_is_predicted(
    trained, caplog
):
    rows = toy.copying(10, seed=3)
    toy.write(trained / "labeled.csv", rows)
    toy.run(trained, do_predict=True, predict_file="labeled.csv")
    score = programs.results(trained / "out/test_results.txt")
    with open(trained / "out/predictions.csv", newline="") as file:
        chosen = [int(row[1]) for row in [*csv.reader(file)][1:]]
    right = [c == row[3] for c, row in zip(chosen, rows, strict=True)]
    assert score["test_accuracy"] == pytest.approx(np.mean(right))
    labeled = (trained / "out/test_results.tsv").read_bytes()
    toy.run(trained, do_predict=True)
    assert (trained / "out/test_results.tsv").read_bytes() == labeled
    assert not (trained / "out/test_results.txt").exists()
    assert "test_results.txt, the scores of another file" in caplog.text
    # No choice has this number.
    toy.write(trained / "labeled.csv", [*rows[:-1], (*rows[-1][:3], 4)])
    toy.run(trained, do_predict=True, predict_file="labeled.csv")
    assert "line 11, column 'label'" in caplog.text
    assert not (trained / "out/test_results.txt").exists()


@pytest.mark.integration
def test_results_do_not_depend_on_bucketing_or_batches(trained):
    toy.run(trained, do_eval=True, do_predict=True)
    before = programs.results(trained / "out/eval_results.txt")
    probs = np.loadtxt(trained / "out/test_results.tsv")
    toy.run(
        trained,
        do_eval=True,
        do_predict=True,
        packing=True,
        eval_batch_size=5,
        predict_batch_size=3,
    )
    after = programs.results(trained / "out/eval_results.txt")
    for name in ("eval_accuracy", "eval_loss"):
        assert before[name] == pytest.approx(after[name], abs=1e-5)
    np.testing.assert_allclose(
        np.loadtxt(trained / "out/test_results.tsv"), probs, atol=1e-5
    )


@pytest.mark.integration
def test_other_sets_of_choices_work_by_their_columns(tmp_path):
    text = "label,sent1,sent2,A,B\n1,wa,,wb,wa\n0,wc,,wc,wd\n"
    for name in ("train.csv", "dev.csv"):
        (tmp_path / name).write_text(text)
    toy.run(
        tmp_path,
        do_train=True,
        do_predict=True,
        predict_file="dev.csv",
        ending_columns="A,B",
        train_batch_size=2,
    )
    lines = (tmp_path / "out/predictions.csv").read_text().splitlines()
    assert [line[:2] for line in lines] == [",p", "0,", "1,"]
    assert {line[2:] for line in lines[1:]} <= {"0", "1"}
    # A later run knows the choices.
    (tmp_path / "out/predictions.csv").unlink()
    toy.run(tmp_path, do_predict=True, predict_file="dev.csv")
    again = (tmp_path / "out/predictions.csv").read_text()
    assert again.splitlines() == lines


def test_records_depend_on_the_data_and_the_choices(tmp_path):
    text = "label,sent1,sent2,A,B,C\n1,wa,,wb,wa,wc\n"
    (tmp_path / "train.csv").write_text(text)

    def made_from(choices):
        options = toy.parse(
            toy.flags_of(tmp_path, do_train=True, ending_columns=choices)
        )
        (data_set,) = run_swag.learning.MultipleChoiceTask(
            options, None
        ).data_sets("train")
        return str(data_set.made_from)

    first = made_from("A,B")
    assert made_from("A,B") == first
    assert made_from("A,C") != first
    (tmp_path / "train.csv").write_text(text.replace("1,wa", "0,wa"))
    assert made_from("A,B") != first


@pytest.mark.integration
def test_starts_from_a_pretrained_checkpoint_without_its_vector(trained):
    stored = checkpoints.read(str(trained / "out"))
    new = "cls/multiple_choice/output_weights"
    encoder = {
        name: value
        for name, value in stored.items()
        if name.startswith("bert/") and "adam" not in name
    }
    checkpoints.save(str(trained / "bert.ckpt"), encoder)
    toy.run(
        trained,
        do_train=True,
        output_dir=trained / "next",
        init_checkpoint=trained / "bert.ckpt",
        learning_rate=0.0,
    )
    after = checkpoints.read(str(trained / "next"))
    assert new in after
    for name, value in encoder.items():
        np.testing.assert_array_equal(after[name], value, err_msg=name)
    with pytest.raises(ValueError, match=f"1 missing: {new}"):
        toy.run(
            trained,
            do_eval=True,
            output_dir=trained / "none",
            init_checkpoint=trained / "bert.ckpt",
        )


def test_defaults_are_the_papers():
    names = ("data_dir", "output_dir", "vocab_file", "bert_config_file")
    options = programs.parse(
        run_swag.Options, do_eval=True, **dict.fromkeys(names, "x")
    )
    assert options.train_batch_size == 16
    (setting,) = options.grid
    assert setting["learning_rate"] == 2e-5
    assert options.num_train_epochs == 3.0
