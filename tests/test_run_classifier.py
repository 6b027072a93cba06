"""run_classifier.py from flags to files."""

import json
import pathlib
import shutil
import zipfile

import numpy as np
import pytest

from modeling import checkpoints
from tests import toy_sentences as toy
from tools import convert_checkpoint
from training import record_files

_ROOT = pathlib.Path(__file__).parents[1]
_GOLDEN = _ROOT / "tests/golden"
_INPUTS = _GOLDEN / "inputs"
_RELEASED = json.loads(
    (_GOLDEN / "classifier/mrpc_results.json").read_text("utf-8")
)
_TOLERANCE = 1e-5  # Source: tests/golden/README.md, "Tolerances".


def _lines(text):
    return [line.split(" = ") for line in text.splitlines()]


@pytest.mark.parametrize("bucketed", [False, True])
@pytest.mark.parametrize("batch_size", [8, 4])
def test_evaluation_is_the_release_s(tmp_path, batch_size, bucketed):
    toy.run(
        tmp_path,
        **toy.golden_flags(
            tmp_path / "mrpc",
            do_eval=True,
            eval_batch_size=batch_size,
            bucket_by_length=bucketed,
        ),
    )
    golden = _RELEASED[f"eval_batch{batch_size}"]["eval_results_txt"]
    text = (tmp_path / "mrpc/eval_results.txt").read_text()
    assert text.endswith("\n")
    added = [line for line in _lines(text) if line[0] == "eval_f1"]
    ours = [line for line in _lines(text) if line not in added]
    assert len(added) == 1
    for (key, value), (golden_key, golden_value) in zip(
        ours, _lines(golden), strict=True
    ):
        assert key == golden_key
        assert float(value) == pytest.approx(
            float(golden_value), abs=_TOLERANCE
        )
    assert ["global_step", "24"] in ours


def _evaluated(folder, **changes):
    """Evaluates a checkpoint without training; returns the results."""
    out = toy.run(folder, do_eval=True, **changes)
    return toy.results(out)


@pytest.mark.slow
def test_outputs_are_taken_by_the_names_of_their_labels(tmp_path, caplog):
    out = toy.run(tmp_path, do_train=True, do_eval=True, eval_every_epoch=True)
    want = toy.results(out)
    assert want["eval_accuracy"] > 0.9
    # Another program may name the same labels in another order.
    weights = checkpoints.read(str(out))
    for name in ("output_weights", "output_bias"):
        weights[name] = weights[name][::-1]
    other = tmp_path / "other"
    checkpoints.save(str(other / "x.ckpt"), weights)
    folder = tmp_path / "hf"
    names = {"problem_type": "single_label", "labels": ["yes", "no"]}
    (other / "labels.json").write_text(json.dumps(names))
    config = str(tmp_path / "model/bert_config.json")
    convert_checkpoint.convert(
        convert_checkpoint.Options(
            input=str(other),
            output=str(folder),
            output_format="huggingface",
            bert_config_file=config,
        )
    )
    for number, start in enumerate((folder, out / "best")):
        got = _evaluated(
            tmp_path,
            label_names="no,yes",
            init_checkpoint=str(start),
            output_dir=str(tmp_path / f"evaluated-{number}"),
        )
        assert got["eval_accuracy"] == want["eval_accuracy"]
        assert got["eval_loss"] == pytest.approx(want["eval_loss"], abs=1e-6)
    assert "reordered to the labels of this run: [1, 0]" in caplog.text


@pytest.mark.slow
def test_outputs_of_other_labels_are_not_evaluated(tmp_path):
    out = toy.run(
        tmp_path,
        do_train=True,
        do_eval=True,
        eval_every_epoch=True,
        num_train_epochs=1,
    )
    dev = toy.sentences(30, seed=2)
    renamed = [(text, {"no": "bad", "yes": "good"}[name]) for text, name in dev]
    toy.write_tsv(tmp_path / "data/dev.tsv", renamed)
    for number, start in enumerate((out, out / "best")):
        with pytest.raises(ValueError, match=r"has labels .*; this run needs"):
            _evaluated(
                tmp_path,
                label_names="bad,good",
                init_checkpoint=str(start),
                output_dir=str(tmp_path / f"evaluated-{number}"),
            )
    # Vocabulary and casing are compared with the best checkpoint's too.
    with pytest.raises(ValueError, match="do_lower_case was True and is False"):
        _evaluated(
            tmp_path,
            label_names="bad,good",
            do_lower_case=False,
            init_checkpoint=str(out / "best"),
            output_dir=str(tmp_path / "cased"),
        )


@pytest.mark.parametrize("batch_size", [8, 5])
def test_predictions_are_the_release_s(tmp_path, batch_size):
    toy.run(
        tmp_path,
        **toy.golden_flags(
            tmp_path / "mrpc",
            do_predict=True,
            predict_batch_size=batch_size,
            write_submission=str(tmp_path / "glue.zip"),
        ),
    )
    golden = _RELEASED["predict"]["test_results_tsv"].splitlines()
    text = (tmp_path / "mrpc/test_results.tsv").read_text()
    assert text.endswith("\n")
    for line, golden_line in zip(text.splitlines(), golden, strict=True):
        values = [float(cell) for cell in line.split("\t")]
        wanted = [float(cell) for cell in golden_line.split("\t")]
        np.testing.assert_allclose(values, wanted, atol=_TOLERANCE)
        # The shortest spelling of a float32, as the release prints it.
        assert line == "\t".join(str(np.float32(value)) for value in values)
    with zipfile.ZipFile(tmp_path / "glue.zip") as archive:
        answers = archive.read("MRPC.tsv").decode().splitlines()
    assert answers[:4] == ["index\tprediction", "0\t1", "1\t1", "2\t0"]
    assert len(answers) == 1 + len(golden)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model that tells the toy sentences apart."""
    folder = tmp_path_factory.mktemp("toy")
    toy.run(
        folder,
        do_train=True,
        do_eval=True,
        do_predict=True,
        eval_every_epoch=True,
        save_checkpoints_steps=15,
        keep_checkpoint_max=0,
    )
    return folder


def test_learns_the_user_s_own_data(trained):
    results = toy.results(trained / "out")
    assert results["eval_accuracy"] > 0.9
    assert results["global_step"] == 60
    assert list(results) == [
        *("eval_accuracy", "eval_loss", "eval_macro_f1"),
        *("global_step", "loss"),
    ]
    text = (trained / "out/predictions.jsonl").read_text()
    predicted = [json.loads(line) for line in text.splitlines()]
    assert [each["row"] for each in predicted] == list(range(11))
    right = sum(
        each["label"] == label
        for each, (_, label) in zip(
            predicted, toy.sentences(11, seed=3), strict=True
        )
    )
    assert right >= 10
    assert list(predicted[0]["probabilities"]) == ["no", "yes"]


def test_evaluates_after_each_epoch_and_keeps_the_best(trained):
    lines = (trained / "out/metrics.jsonl").read_text().splitlines()
    evaluations = [
        record for record in map(json.loads, lines) if "eval_accuracy" in record
    ]
    assert [record["step"] for record in evaluations] == [20, 40, 60]
    best = json.loads((trained / "out/best/best.json").read_text())
    assert best["metric"] == "accuracy"
    assert best["value"] == pytest.approx(
        max(record["eval_accuracy"] for record in evaluations)
    )
    assert (trained / f"out/best/model.ckpt-{best['step']}.index").exists()


def test_predicts_from_what_lies_beside_the_model(trained, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(trained / "out", out)
    (out / "predictions.jsonl").unlink()
    named = toy.flags_of(
        trained,
        output_dir=out,
        label_column="",
        do_predict=True,
        vocab_file=out / "vocab.txt",
        bert_config_file=out / "bert_config.json",
    )
    toy.run(trained, **named)
    assert (out / "predictions.jsonl").read_text() == (
        trained / "out/predictions.jsonl"
    ).read_text()


def test_resumed_run_ends_as_an_unbroken_one(trained, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(trained / "out", out)
    for file in (*out.glob("model.ckpt-45*"), *out.glob("model.ckpt-60*")):
        file.unlink()
    shutil.rmtree(out / "best")
    (out / "checkpoint").unlink()
    toy.run(trained, output_dir=out, do_train=True, eval_every_epoch=True)
    ours = checkpoints.read(str(out / "model.ckpt-60"))
    unbroken = checkpoints.read(str(trained / "out/model.ckpt-60"))
    assert ours.keys() == unbroken.keys()
    for name, value in unbroken.items():
        np.testing.assert_array_equal(ours[name], value, err_msg=name)


def test_another_training_file_is_warned_of(trained, tmp_path, caplog):
    shutil.copytree(trained / "out", tmp_path / "out")
    toy.write_data(tmp_path / "data", train=toy.sentences(320, seed=9))
    toy.run(tmp_path, do_train=True, eval_every_epoch=True)
    assert "records_fingerprint was" in caplog.text


@pytest.mark.slow
def test_label_sorted_file_trains_as_well(trained, tmp_path):
    rows = sorted(toy.sentences(320, seed=1), key=lambda row: row[1])
    toy.write_data(tmp_path / "data", train=rows)
    out = toy.run(tmp_path, do_train=True, do_eval=True)
    accuracy = toy.results(out)["eval_accuracy"]
    assert accuracy >= toy.results(trained / "out")["eval_accuracy"] - 0.04


def test_records_are_made_again_only_if_something_changed(trained, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(trained / "out", out)
    before = (out / "eval.tf_record").stat().st_mtime_ns
    toy.run(trained, output_dir=out, do_eval=True)
    assert (out / "eval.tf_record").stat().st_mtime_ns == before
    toy.run(trained, output_dir=out, do_eval=True, max_seq_length=20)
    assert (out / "eval.tf_record").stat().st_mtime_ns != before


@pytest.mark.slow
def test_windows_answer_once_for_a_text(trained, tmp_path):
    out = tmp_path / "windows"
    toy.run(
        trained,
        output_dir=out,
        do_train=True,
        do_eval=True,
        do_predict=True,
        max_seq_length=6,
        long_text="windows",
        num_train_epochs=0.2,
    )
    files = record_files.RecordFiles([str(out / "predict.tf_record")])
    assert len(files) > 11
    assert len((out / "test_results.tsv").read_text().splitlines()) == 11
    # A second run finds the records, and how many each text has.
    before = (out / "test_results.tsv").read_text()
    toy.run(
        trained,
        output_dir=out,
        do_predict=True,
        max_seq_length=6,
        long_text="windows",
    )
    assert (out / "test_results.tsv").read_text() == before


def test_several_labels(tmp_path):
    folder = tmp_path / "data"
    rows = [
        (text, "yes,said" if label == "yes" else "")
        for text, label in toy.sentences(20, seed=1)
    ]
    toy.write_data(folder, train=rows)
    toy.write_tsv(folder / "dev.tsv", rows[9:])
    out = toy.run(
        tmp_path,
        do_train=True,
        do_eval=True,
        do_predict=True,
        problem_type="multi_label",
        num_train_epochs=1,
        class_weights="balanced",
        tune_thresholds=True,
    )
    assert set(toy.results(out)) == {
        *("eval_loss", "loss", "global_step"),
        *("eval_micro_f1", "eval_macro_f1", "eval_exact_match"),
    }
    first = json.loads((out / "predictions.jsonl").read_text().split("\n")[0])
    assert list(first) == ["row", "labels", "probabilities"]
    assert list(first["probabilities"]) == ["said", "yes"]
    held = json.loads((out / "labels.json").read_text())
    assert len(held["thresholds"]) == 2
    report = json.loads((out / "eval_report.json").read_text())
    assert report["thresholds"] == held["thresholds"]
    # What is kept with the model decides later on.
    held["thresholds"] = [0.0, 1.0]
    (out / "labels.json").write_text(json.dumps(held))
    toy.run(tmp_path, do_predict=True, problem_type="multi_label")
    lines = (out / "predictions.jsonl").read_text().splitlines()
    assert [json.loads(line)["labels"] for line in lines] == [["said"]] * 11
    assert json.loads((out / "labels.json").read_text()) == held


def test_evaluates_on_rows_held_out_of_the_training_file(tmp_path):
    data = toy.write_data(tmp_path / "data", train=toy.sentences(80, seed=1))
    (data / "dev.tsv").unlink()
    flags = {"do_eval": True, "dev_fraction": 0.25}
    out = toy.run(
        tmp_path,
        do_train=True,
        num_train_epochs=0.5,
        class_weights="1,2",
        **flags,
    )
    results = toy.results(out)
    assert results["global_step"] == int(60 / 16 * 0.5)
    made_from = json.loads((out / "eval.tf_record.meta.json").read_text())
    rows = made_from["flags"]["held_out_rows"]
    assert len(rows) == 20
    report = json.loads((out / "eval_report.json").read_text())
    assert np.sum(report["confusion_matrix"]) == 20
    right = np.trace(report["confusion_matrix"]) / 20
    assert results["eval_accuracy"] == pytest.approx(right)
    assert (out / "eval_confusion_matrix.png").exists()
    lines = (out / "eval_highest_loss.jsonl").read_text().splitlines()
    worst = [json.loads(line) for line in lines]
    assert sorted(each["row"] for each in worst) == rows
    losses = [each["loss"] for each in worst]
    assert losses == sorted(losses, reverse=True)
    # The class weights are no part of the evaluation.
    assert np.mean(losses) == pytest.approx(results["eval_loss"], abs=1e-5)
    # A run of its own finds the same rows.
    (out / "eval.tf_record").unlink()
    toy.run(tmp_path, **flags)
    assert toy.results(out) == results


def test_scores(tmp_path):
    folder = tmp_path / "data"
    rows = [
        (text, "4.5" if label == "yes" else "-1")
        for text, label in toy.sentences(320, seed=1)
    ]
    toy.write_data(folder, train=rows)
    toy.write_tsv(folder / "dev.tsv", rows[:33])
    out = toy.run(
        tmp_path,
        do_train=True,
        do_eval=True,
        do_predict=True,
        problem_type="regression",
        bucket_by_length=True,
        num_train_epochs=3,
    )
    results = toy.results(out)
    assert results["eval_pearson"] > 0.9
    assert "eval_accuracy" not in results
    lines = (out / "predictions.jsonl").read_text().splitlines()
    assert [list(json.loads(line)) for line in lines] == [["row", "score"]] * 11


@pytest.mark.slow
def test_mnli_answers_for_all_its_sets(tmp_path):
    data = tmp_path / "MNLI"
    shutil.copytree(_INPUTS / "MNLI", data)
    shutil.copy(data / "dev_matched.tsv", data / "dev_mismatched.tsv")
    shutil.copy(data / "test_matched.tsv", data / "test_mismatched.tsv")
    out = tmp_path / "out"
    toy.run(
        tmp_path,
        task_name="mnli",
        data_dir=data,
        text_a_column="",
        label_column="",
        vocab_file=_INPUTS / "vocab.txt",
        bert_config_file=_INPUTS / "bert_config.json",
        init_checkpoint=_GOLDEN / "model/tiny.ckpt",
        output_dir=out,
        do_train=True,
        do_eval=True,
        do_predict=True,
        train_batch_size=4,
        num_train_epochs=0.5,
    )
    results = toy.results(out)
    assert results["eval_accuracy"] == results["eval_accuracy_mismatched"]
    for first, second in (
        ("test_results.tsv", "test_results_mismatched.tsv"),
        ("MNLI-m.tsv", "MNLI-mm.tsv"),
    ):
        assert (out / first).read_text() == (out / second).read_text() != ""
    assert not (out / "AX.tsv").exists()
