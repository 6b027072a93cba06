"""run_classifier.py from flags to files, on toy sentences."""

import csv
import json
import re
import shutil

import numpy as np
import pytest

import run_classifier
from bert.models import folder as folder_lib
from bert.records import tfrecords
from modeling import checkpoints
from tests.support import locations, programs, tool_runs, toy_files
from tests.support import toy_sentences as toy


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model that tells the toy sentences apart."""
    folder = tmp_path_factory.mktemp("toy")
    # One layer to freeze, and one to train.
    toy.write_model(folder / "model", num_hidden_layers=2)
    toy.run(
        folder,
        **programs.STAGES,
        eval_every_epoch=True,
        save_checkpoints_steps=15,
        keep_checkpoint_max=0,
    )
    return folder


@pytest.fixture
def out(trained, tmp_path):
    """A copy of what was trained, to be changed."""
    return shutil.copytree(trained / "out", tmp_path / "out")


def test_learns_the_user_s_own_data(trained):
    results = toy.results(trained / "out")
    assert results["eval_accuracy"] > 0.9
    assert results["global_step"] == 60
    assert list(results) == [
        *("eval_accuracy", "eval_loss", "eval_macro_f1"),
        *("global_step", "loss"),
    ]
    predicted = toy_files.read_json_lines(trained / "out/predictions.jsonl")
    assert [each["row"] for each in predicted] == list(range(11))
    right = sum(
        each["label"] == label
        for each, (_, label) in zip(
            predicted, toy.sentences(11, seed=3), strict=True
        )
    )
    assert right >= 10
    assert list(predicted[0]["probabilities"]) == ["no", "yes"]
    # Other runs of this file draw no pictures.
    picture = (trained / "out/eval_confusion_matrix.png").read_bytes()
    assert picture.startswith(b"\x89PNG")


def test_evaluates_after_each_epoch_and_keeps_the_best(trained):
    evaluations = [
        record
        for record in toy_files.read_json_lines(trained / "out/metrics.jsonl")
        if "eval_accuracy" in record
    ]
    assert [record["step"] for record in evaluations] == [20, 40, 60]
    best = toy_files.read_json(trained / "out/best/best.json")
    assert best["metric"] == "accuracy"
    assert best["value"] == pytest.approx(
        max(record["eval_accuracy"] for record in evaluations)
    )
    assert (trained / f"out/best/model.ckpt-{best['step']}.index").exists()


def test_predicts_with_the_files_beside_the_model(trained, out):
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


def test_test_file_with_labels_has_scores_and_a_report(trained, out, tmp_path):
    rows = toy.sentences(20, seed=4)
    labels = ["-", *(label for _, label in rows[1:])]
    data = tmp_path / "data"
    data.mkdir()
    with open(data / "test.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows(zip((x for x, _ in rows), labels, strict=True))
    before = toy.results(out)
    toy.run(trained, output_dir=out, data_dir=data, do_predict=True)
    with open(
        out / "predictions.csv", newline="", encoding="utf-8-sig"
    ) as file:
        table = list(csv.DictReader(file))
    assert [row["text_a"] for row in table] == [text for text, _ in rows]
    assert [row["label"] for row in table] == ["", *labels[1:]]
    right = sum(row["label"] == row["prediction"] for row in table)
    results = programs.results(out / "test_results.txt")
    # The row without a label is predicted, and has no score.
    assert results["test_accuracy"] == pytest.approx(right / 19)
    assert set(results) == {
        *("test_accuracy", "test_loss", "test_macro_f1", "global_step"),
    }
    report = (out / "test_report.txt").read_text()
    count = max(map(labels.count, ("no", "yes")))
    assert f"{count} of 19 ({count / 19:.1%})" in report
    assert len((out / "test_highest_loss.jsonl").read_text().splitlines()) == 19
    assert toy.results(out) == before
    # The next file has no labels, and takes the place of the answers.
    toy.run(trained, output_dir=out, label_column="", do_predict=True)
    assert sorted(path.name for path in out.glob("test_*")) == [
        "test_results.tsv"
    ]
    assert toy.results(out) == before


def test_weights_that_are_not_finite_are_not_evaluated(trained, tmp_path):
    weights = checkpoints.read(str(trained / "out/model.ckpt-60"))
    weights["bert/pooler/dense/bias"][0] = np.nan
    start = str(tmp_path / "x.ckpt")
    checkpoints.save(start, weights)
    with pytest.raises(ValueError, match=r"must be finite.*pooler"):
        toy.run(
            trained,
            output_dir=tmp_path / "evaluation",
            do_eval=True,
            label_names="no,yes",
            init_checkpoint=start,
        )


@pytest.mark.integration
def test_resumed_run_ends_as_an_unbroken_one(trained, out):
    for file in out.glob("model.ckpt-60*"):
        file.unlink()
    shutil.rmtree(out / "best")
    (out / "checkpoint").unlink()
    toy.resume(
        45, trained, output_dir=out, do_train=True, eval_every_epoch=True
    )
    ours = checkpoints.read(str(out / "model.ckpt-60"))
    unbroken = checkpoints.read(str(trained / "out/model.ckpt-60"))
    np.testing.assert_equal(ours, unbroken)


def test_labels_are_read_beside_the_initial_checkpoint(trained, tmp_path):
    start, out = trained / "out", tmp_path / "new"
    toy.run(trained, output_dir=out, init_checkpoint=start, do_predict=True)
    predictions = (out / "predictions.jsonl").read_text()
    assert predictions == (start / "predictions.jsonl").read_text()
    # Hugging Face's config has them.
    theirs = tool_runs.converted(start, tmp_path / "theirs", "huggingface")
    again = tmp_path / "again"
    toy.run(trained, output_dir=again, init_checkpoint=theirs, do_predict=True)
    assert (again / "predictions.jsonl").read_text() == predictions


def test_records_are_made_again_only_if_something_changed(trained, out):
    before = (out / "eval.tf_record").stat().st_mtime_ns
    toy.run(trained, output_dir=out, do_eval=True)
    assert (out / "eval.tf_record").stat().st_mtime_ns == before
    toy.run(trained, output_dir=out, do_eval=True, max_seq_length=20)
    assert (out / "eval.tf_record").stat().st_mtime_ns != before


@pytest.mark.integration
def test_windows_answer_once_for_a_text(trained, tmp_path):
    out = tmp_path / "windows"
    windows = {"max_seq_length": 6, "long_text": "windows", "output_dir": out}
    toy.run(trained, **windows, **programs.STAGES, num_train_epochs=0.2)
    files = tfrecords.RecordFiles([str(out / "predict.tf_record")])
    assert len(files) > 11
    assert len((out / "test_results.tsv").read_text().splitlines()) == 11
    # A second run finds the records, and how many each text has.
    before = (out / "test_results.tsv").read_text()
    toy.run(trained, **windows, do_predict=True)
    assert (out / "test_results.tsv").read_text() == before


def _write_labels(folder, count, labels):
    """Writes data of other labels; dev.tsv begins train.tsv."""
    rows = [(text, labels[name]) for text, name in toy.sentences(count, seed=1)]
    toy.write_data(folder / "data", train=rows)
    toy.write_tsv(folder / "data/dev.tsv", rows[:33])


@pytest.mark.integration
def test_several_labels_are_chosen_by_average_precision(tmp_path):
    _write_labels(tmp_path, 20, {"yes": "yes,said", "no": ""})
    out = toy.run(
        tmp_path,
        **programs.STAGES,
        problem_type="multi_label",
        num_train_epochs=1,
        class_weights="balanced",
        eval_every_epoch=True,
        use_best_checkpoint=True,
    )
    assert set(toy.results(out)) == {
        *("eval_loss", "loss", "global_step", "eval_average_precision"),
        *("eval_micro_f1", "eval_macro_f1", "eval_exact_match"),
    }
    best = toy_files.read_json(out / "best/best.json")
    assert best["metric"] == "average_precision"
    for row in toy_files.read_json_lines(out / "predictions.jsonl"):
        assert list(row) == ["row", "labels", "probabilities", "text_a"]
        assert list(row["probabilities"]) == ["said", "yes"]
        likely = [k for k, p in row["probabilities"].items() if p >= 0.5]
        assert row["labels"] == likely


@pytest.mark.integration
def test_evaluates_on_rows_held_out_of_the_training_file(tmp_path):
    data = toy.write_data(tmp_path / "data", train=toy.sentences(80, seed=1))
    (data / "dev.tsv").unlink()
    flags = {"do_eval": True, "dev_fraction": 0.25}
    out = toy.run(
        tmp_path,
        do_train=True,
        num_train_epochs=0.5,
        label_names="no,yes,unsure",
        class_weights="1,2,1",
        **flags,
    )
    results = toy.results(out)
    assert results["global_step"] == int(60 / 16 * 0.5)
    report = (out / "eval_report.txt").read_text().splitlines()
    averages = {row.rsplit(maxsplit=4)[0].strip(): row for row in report if row}
    # Both count the label that does not occur.
    *_, macro_f1, support = averages["macro avg"].split()
    assert float(macro_f1) == pytest.approx(results["eval_macro_f1"], abs=1e-4)
    assert support == "20"
    worst = toy_files.read_json_lines(out / "eval_highest_loss.jsonl")
    assert len({each["row"] for each in worst}) == 20
    right = sum(each["label"] == each["prediction"] for each in worst)
    assert results["eval_accuracy"] == pytest.approx(right / 20)
    losses = [each["loss"] for each in worst]
    assert losses == sorted(losses, reverse=True)
    # The class weights are no part of the evaluation.
    assert np.mean(losses) == pytest.approx(results["eval_loss"], abs=1e-5)
    # A run of its own finds the same rows.
    (out / "eval.tf_record").unlink()
    toy.run(tmp_path, **flags)
    assert toy.results(out) == results


def test_scores(tmp_path):
    _write_labels(tmp_path, 320, {"yes": "4.5", "no": "-1"})
    out = toy.run(
        tmp_path,
        **programs.STAGES,
        problem_type="regression",
        num_train_epochs=5,
    )
    results = toy.results(out)
    assert results["eval_pearson"] > 0.9
    assert "eval_accuracy" not in results
    rows = toy_files.read_json_lines(out / "predictions.jsonl")
    assert list(map(list, rows)) == [["row", "score", "text_a"]] * 11


def test_labels_are_in_the_order_of_the_folder(trained, tmp_path):
    want = toy.results(trained / "out")
    # Another program may name the same labels in another order.
    weights = checkpoints.read(str(trained / "out"))
    for name in ("output_weights", "output_bias"):
        weights[name] = weights[name][::-1]
    other = tmp_path / "other"
    checkpoints.save(str(other / "x.ckpt"), weights)
    config = {
        **toy_files.read_json(trained / "out/bert_config.json"),
        "hidden_act": "gelu_new",
        "architectures": ["BertForSequenceClassification"],
        "id2label": {"0": "yes", "1": "no"},
    }
    toy_files.write_json(other / "config.json", config)
    out = tmp_path / "a"
    toy.run(trained, do_eval=True, init_checkpoint=other, output_dir=out)
    found = toy.results(out)
    assert found["eval_accuracy"] == want["eval_accuracy"]
    assert found["eval_loss"] == pytest.approx(want["eval_loss"], abs=1e-6)
    with pytest.raises(ValueError, match=r"\['yes', 'no'\] there"):
        toy.run(
            trained,
            do_eval=True,
            label_names="no,yes",
            init_checkpoint=other,
            output_dir=tmp_path / "b",
        )


_NLI = ("contradiction", "entailment", "neutral")
_NAMED = {"MNLI": _NLI, "XNLI": _NLI, "MRPC": ("0", "1")}


def _evaluation(folder, task_name, **changes):
    """Makes the task of a run that evaluates the model in a folder."""
    flags = toy.golden_flags(
        folder / "new",
        **{
            "task_name": task_name,
            "data_dir": str(locations.INPUTS / task_name),
            "init_checkpoint": str(folder),
            "output_dir": str(folder / "out"),
            "do_eval": True,
            **changes,
        },
    )
    return run_classifier.learning.ClassificationTask(
        toy.parse(flags), None, folder_lib.ModelFolder.open(str(folder))
    )


@pytest.mark.parametrize("task_name", [*_NAMED])
@pytest.mark.parametrize("config", [{}, {"id2label": "placeholders"}])
def test_the_order_of_unnamed_outputs_is_asked_for(tmp_path, task_name, config):
    names = _NAMED[task_name]
    numbered = {str(i): f"LABEL_{i}" for i in range(len(names))}
    config = dict.fromkeys(config, numbered)
    kind = {"architectures": ["BertForSequenceClassification"]}
    toy_files.write_json(tmp_path / "config.json", {**config, **kind})
    (tmp_path / "model.safetensors").touch()
    message = re.escape(f"{tmp_path} does not say the labels of its model. ")
    message += f"Pass --label_names: {', '.join(names)}, in the order"
    with pytest.raises(ValueError, match=message):
        _evaluation(tmp_path, task_name)
    # Either way of saying them works.
    backwards = names[::-1]
    asked = _evaluation(tmp_path, task_name, label_names=",".join(backwards))
    assert asked.label_set.names == backwards
    description = json.dumps({"labels": backwards})
    (tmp_path / "task.json").write_text(description)
    assert _evaluation(tmp_path, task_name).label_set.names == backwards


def test_scores_and_models_of_the_release_have_one_order(tmp_path):
    (tmp_path / "bert_config.json").write_text("{}")
    assert _evaluation(tmp_path, "MNLI").label_set.names == _NLI
    (tmp_path / "config.json").write_text('{"id2label": {"0": "LABEL_0"}}')
    rows = [("a", "b", "2.5"), ("c", "d", "1")]
    header = ("sentence1", "sentence2", "score")
    toy.write_tsv(tmp_path / "dev.tsv", rows, header)
    scores = _evaluation(tmp_path, "STS-B", data_dir=str(tmp_path))
    assert scores.label_set.problem_type == "regression"


def test_records_depend_on_data_labels_and_truncation(tmp_path):
    toy.write_data(tmp_path / "data")

    def made_from(**changes):
        flags = toy.flags_of(tmp_path, do_train=True, **changes)
        model = run_classifier.learning.ClassificationTask(
            toy.parse(flags), None
        )
        (data_set,) = model.data_sets("train")
        return json.dumps(data_set.made_from, sort_keys=True)

    others = [
        made_from(**changes)
        for changes in (
            {},
            {"long_text": "windows"},
            {"max_seq_length": 23},
            {"label_names": "yes,no"},
            {"dev_fraction": "0.5"},
            {"text_b_column": "label"},
        )
    ]
    assert others[0] == made_from(learning_rate=1.0)
    toy.write_tsv(tmp_path / "data/train.tsv", toy.sentences(9, seed=9))
    others.append(made_from())
    assert len({*others}) == len(others)


def test_labels_are_weighed_from_the_training_file_in_training_alone(tmp_path):
    (tmp_path / "data").mkdir()
    rows = [("good", "yes"), ("bad", "no"), ("bad", "no")]
    toy.write_tsv(tmp_path / "data/dev.tsv", rows)
    flags = toy.flags_of(
        tmp_path, class_weights="balanced", label_names="no,yes", do_eval=True
    )
    (tmp_path / "data/train.tsv").unlink(missing_ok=True)
    evaluating = run_classifier.learning.ClassificationTask(
        toy.parse(flags), None
    )
    # They show in the loss of a training only, among all else.
    assert evaluating._class_weights == ()
    toy.write_tsv(tmp_path / "data/train.tsv", rows)
    training = toy.parse({**flags, "do_train": True})
    weights = run_classifier.learning.ClassificationTask(training, None)
    assert weights._class_weights == pytest.approx((0.75, 1.5))


def test_a_folder_of_trials_predicts_with_the_best_one(trained, tmp_path):
    out = tmp_path / "trials"
    shutil.copytree(trained / "out", out / "trial-2")
    (out / "trials.json").write_text('{"best_trial": "trial-2"}')
    (out / "trial-2/predictions.jsonl").unlink()
    toy.run(trained, output_dir=out, do_predict=True)
    best = (out / "trial-2/predictions.jsonl").read_text()
    assert best == (trained / "out/predictions.jsonl").read_text()


_RATES = ("1e+30", "0.001")


@pytest.mark.integration
@pytest.mark.parametrize("num_runs", [1, 2])
def test_trials_go_on_after_one_whose_loss_is_not_finite(
    tmp_path, caplog, num_runs
):
    out = tmp_path / "out"
    named = toy.flags_of(
        tmp_path,
        **programs.STAGES,
        num_train_epochs=0.5,
        learning_rates=",".join(_RATES),
        save_checkpoints_steps=1,
    )
    bad, good = (f"trial-lr{rate}-bs16-ep0.5-seed12345" for rate in _RATES)
    # Trials that resume fail again.
    for _ in range(num_runs):
        caplog.clear()
        toy.run(tmp_path, **named)
        failures = [r for r in caplog.messages if "has failed" in r]
        assert [r.partition(" ")[0] for r in failures] == [bad]
        assert all("The loss of step" in r for r in failures)
        assert caplog.messages[-1].endswith(f"--model={out / good}")
        summary = toy_files.read_json(out / "trials.json")
        assert summary["best_trial"] == good
        metrics = [trial["metrics"] for trial in summary["trials"]]
        assert metrics[0] == {} and "eval_accuracy" in metrics[1]
    assert not (out / bad / "eval_results.txt").exists()
    assert (out / bad / "model.ckpt-1.index").exists()
    answers = out.glob("*/predictions.jsonl")
    assert [path.parent.name for path in answers] == [good]


@pytest.mark.integration
def test_trials_of_a_grid(trained, tmp_path):
    out = tmp_path / "trials"
    toy.run(
        trained,
        output_dir=out,
        **programs.STAGES,
        num_trials=2,
        learning_rates="1e-3,1e-9",
        num_train_epochs=2,
        random_seed=12345,
    )
    summary = toy_files.read_json(out / "trials.json")
    scores = [trial["metrics"]["eval_accuracy"] for trial in summary["trials"]]
    # At a rate of nearly nothing, nothing is learnt.
    assert max(scores[2:]) < max(scores[:2])
    best = out / summary["best_trial"]
    found = toy.results(best)["eval_accuracy"]
    assert found == pytest.approx(max(scores))
    assert len((best / "predictions.jsonl").read_text().splitlines()) == 11
    assert len(list(out.glob("*/predictions.jsonl"))) == 1
    # Trials share a network, and are as if each were alone.
    toy.run(
        trained,
        output_dir=tmp_path / "alone",
        do_train=True,
        do_eval=True,
        learning_rate=1e-9,
        num_train_epochs=2,
        random_seed=12346,
    )
    fourth = out / summary["trials"][3]["name"]
    alone = checkpoints.read(str(tmp_path / "alone"))
    np.testing.assert_equal(alone, checkpoints.read(str(fourth)))
    assert toy.results(tmp_path / "alone") == toy.results(fourth)


@pytest.mark.integration
def test_stops_early_and_uses_the_best(tmp_path):
    out = toy.run(
        tmp_path,
        do_train=True,
        do_eval=True,
        learning_rate=1e-12,
        eval_every_steps=3,
        early_stopping_patience=2,
        use_best_checkpoint=True,
    )
    assert toy.results(out)["global_step"] == 3
    assert (out / "model.ckpt-9.index").exists()

    # The best one holds no moments: nothing resumes there.
    with pytest.raises(ValueError, match=r"has weights only.* --output_dir"):
        toy.run(tmp_path, output_dir=out / "best", do_train=True)

    # Without checkpoints it would be a new run, which replaces the best one.
    for path in out.glob("model.ckpt-*"):
        path.unlink()
    (out / "checkpoint").unlink()
    with pytest.raises(ValueError, match="best has the weights of step 3"):
        toy.run(tmp_path, do_train=True, num_train_epochs=0.15)
    assert list((out / "best").glob("model.ckpt-3.index"))


@pytest.mark.integration
def test_frozen_layers_stay_and_others_learn(trained, tmp_path):
    start = str(trained / "out/model.ckpt-60")
    out = toy.run(
        trained,
        output_dir=tmp_path / "out",
        do_train=True,
        init_checkpoint=start,
        freeze_layers=1,
        num_train_epochs=0.15,
    )
    before, after = checkpoints.read(start), checkpoints.read(str(out))
    weights = [n for n in after if "adam" not in n and n != "global_step"]
    for name in weights:
        is_frozen = "embeddings" in name or "layer_0" in name
        same = np.array_equal(before[name], after[name])
        # The exact gradient of a key's bias is 0.
        if not name.endswith("key/bias"):
            assert same == is_frozen, name
    assert not any("layer_0" in name for name in after if "adam" in name)


def test_data_and_models_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(ValueError, match="make less than one step"):
        toy.run(tmp_path, do_train=True, num_train_epochs=0.01)
    toy.write_model(tmp_path / "model", vocab_size=9)
    with pytest.raises(ValueError, match="has 22 entries, but the model's"):
        toy.run(tmp_path, do_train=True)
    named = toy.golden_flags(
        tmp_path / "x", init_checkpoint=locations.CHECKPOINT
    )
    shutil.rmtree(tmp_path / "x")
    with pytest.raises(ValueError, match="output_weights, output_bias"):
        toy.run(tmp_path, **{**named, "do_eval": True})


def test_fewer_epochs_than_were_made_are_refused(trained, out):
    message = r"complete at step 60, .*num_train_epochs was 3\.0 and is 1\.0"
    with pytest.raises(ValueError, match=message):
        toy.run(trained, output_dir=out, do_train=True, num_train_epochs=1)
