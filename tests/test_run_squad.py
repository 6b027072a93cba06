"""run_squad.py against the release, and from start to end on toy questions."""

import gzip
import json
import pathlib
import re
import shutil

import numpy as np
import pytest

import run_squad
from files import writing
from modeling import checkpoints
from tests import programs, toy_squad
from training import record_files, records

_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_SHARED = pathlib.Path(__file__).parents[2] / "shared" / "data"


def _golden_cases():
    path = toy_squad.GOLDEN / "squad" / "cli_predictions.json.gz"
    with gzip.open(path, "rt") as file:
        return json.load(file)


def _golden_flags(case, **changes):
    named = {
        name: str(toy_squad.GOLDEN / value) if isinstance(value, str) else value
        for name, value in case["flags"].items()
    }
    return {**named, **changes}


def _run_golden(case, folder, **changes):
    named = _golden_flags(case, output_dir=str(folder), **changes)
    toy_squad.run_squad.run(toy_squad.parse(named))


@pytest.fixture(scope="module", params=["v1.1", "v2.0"])
def golden(request, tmp_path_factory):
    """A golden case and the folder in which it was answered."""
    case = _golden_cases()[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    _run_golden(case, folder)
    return case, folder


def test_answers_are_the_release_s(golden):
    case, folder = golden
    written = {path.name for path in folder.glob("*.json")}
    assert set(case["files"]) <= written
    assert ("null_odds.json" in written) == ("null_odds.json" in case["files"])
    for name, expected in case["files"].items():
        text = (folder / name).read_text()
        # Keys, texts, order and layout; numbers by value.
        assert _NUMBER.sub("#", text) == _NUMBER.sub("#", expected), name
        np.testing.assert_allclose(
            [float(number) for number in _NUMBER.findall(text)],
            [float(number) for number in _NUMBER.findall(expected)],
            rtol=0,
            atol=1e-5,
            err_msg=name,
        )


def test_records_to_predict_are_those_of_the_release(golden):
    case, folder = golden
    files = record_files.RecordFiles([str(folder / "eval.tf_record")])
    features = records.squad_features(
        case["flags"]["max_seq_length"], is_training=False
    )
    batch = records.parse(files.read(range(len(files))), features)
    assert batch["unique_ids"][:, 0].numpy().tolist() == list(
        range(1000000000, 1000000000 + len(files))
    )


def test_one_system_combined_gives_its_own_answers(golden, tmp_path):
    case, folder = golden
    nbest = str(folder / "nbest_predictions.json")
    _run_golden(case, tmp_path, ensemble=f"{nbest},{nbest}")
    name = "predictions.json"
    assert (tmp_path / name).read_text() == (folder / name).read_text()


@pytest.mark.slow
def test_answers_without_padding_do_not_depend_on_the_batch(golden, tmp_path):
    case, _ = golden
    answers = []
    for batch_size in (3, 8):
        _run_golden(
            case,
            tmp_path,
            packing=True,
            predict_batch_size=batch_size,
        )
        text = (tmp_path / "nbest_predictions.json").read_text()
        answers.append(_NUMBER.sub("#", text))
    assert answers[0] == answers[1]


_TRAINING = {
    "num_train_epochs": 4,
    "eval_every_steps": 9,
    "packing": True,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A toy run of SQuAD 1.1, trained, evaluated as it went."""
    folder = tmp_path_factory.mktemp("toy")
    toy_squad.run(folder, **programs.STAGES, **_TRAINING)
    return folder


def test_a_small_model_learns_to_answer(trained):
    results = toy_squad.results(trained / "out")
    assert list(results) == ["exact_match", "f1", "global_step"]
    assert results["f1"] > 95
    # 40 questions in 64 windows: steps count questions, as released.
    assert results["global_step"] == 40
    losses = toy_squad.losses(trained / "out")
    assert len(losses) == 40
    assert losses[0] > 10 * losses[-1]
    # The pooler learns nothing.
    last = checkpoints.read(str(trained / "out"))
    first = checkpoints.read(str(trained / "out" / "best"))
    name = "bert/pooler/dense/kernel"
    assert np.array_equal(last[name], first[name])
    assert not np.any(last[f"{name}/adam_m"])
    head = "cls/squad/output_weights"
    assert not np.array_equal(last[head], first[head])


def test_evaluations_keep_the_best_checkpoint_which_can_predict(trained):
    best = toy_squad.read_json(trained / "out" / "best" / "best.json")
    assert best["metric"] == "f1"
    lines = (trained / "out" / "metrics.jsonl").read_text().splitlines()
    evaluations = [
        (record["step"], record["eval_f1"])
        for record in map(json.loads, lines)
        if "eval_f1" in record
    ]
    assert [step for step, _ in evaluations] == [9, 18, 27, 36, 40]
    assert best["value"] == max(f1 for _, f1 in evaluations)
    toy_squad.run(
        trained, do_predict=True, do_eval=True, use_best_checkpoint=True
    )
    results = toy_squad.results(trained / "out")
    assert results["global_step"] == best["step"]
    assert results["f1"] == pytest.approx(best["value"], abs=1e-4)


def test_given_predictions_are_scored_without_a_model(trained, tmp_path):
    answers = toy_squad.read_json(trained / "out" / "predictions.json")
    wrong = dict.fromkeys(list(answers)[:3], "nowhere")
    path = toy_squad.write_json(tmp_path / "given.json", {**answers, **wrong})
    out = toy_squad.run(
        trained,
        do_eval=True,
        predictions_file=path,
        output_dir=tmp_path / "scores",
        bert_config_file="not read",
        vocab_file="not read",
    )
    assert toy_squad.results(out) == {
        "exact_match": pytest.approx(100 * 6 / 9),
        "f1": pytest.approx(100 * 6 / 9),
    }


def _about_empty_paragraphs(version_2):
    """Two questions on two paragraphs without a word."""
    questions = [
        {"id": name, "question": "which place ?", "answers": []}
        for name in ("a", "b")
    ]
    if version_2:
        for question in questions:
            question["is_impossible"] = True
    else:
        for question in questions:
            question["answers"] = [{"text": "paris", "answer_start": 0}]
    paragraphs = [
        {"context": context, "qas": [question]}
        for context, question in zip(["", " \u200b\n"], questions, strict=True)
    ]
    return {"data": [{"title": "", "paragraphs": paragraphs}]}


@pytest.mark.parametrize(
    ("version_2", "answer", "score"), [(False, "empty", 0), (True, "", 100)]
)
def test_questions_on_empty_paragraphs_alone_are_answered(
    trained, tmp_path, caplog, version_2, answer, score
):
    path = toy_squad.write_json(
        tmp_path / "empty.json", _about_empty_paragraphs(version_2)
    )
    out = tmp_path / "out"
    shutil.copytree(trained / "out", out)
    for _ in range(2):
        toy_squad.run(
            trained,
            do_predict=True,
            do_eval=True,
            predict_file=path,
            version_2_with_negative=version_2,
            output_dir=out,
        )
        answers = toy_squad.read_json(out / "predictions.json")
        assert answers == {"a": answer, "b": answer}
        assert toy_squad.results(out)["f1"] == score
    assert "damaged" not in caplog.text
    assert "reusing 0 records" in caplog.text


def test_training_on_empty_paragraphs_alone_is_refused(tmp_path):
    path = toy_squad.write_json(
        tmp_path / "empty.json", _about_empty_paragraphs(True)
    )
    for _ in range(2):
        with pytest.raises(ValueError, match="none of 2 examples has a record"):
            toy_squad.run(
                tmp_path,
                do_train=True,
                train_file=path,
                version_2_with_negative=True,
            )


_SCORING = """
import sys, run_squad
from tests import programs
run_squad.main(programs.parse(run_squad.Options, *sys.argv[1:]))
print("tensorflow" in sys.modules)
"""


def test_scoring_needs_no_tensorflow(tmp_path):
    named = toy_squad.flags_of(
        tmp_path, do_eval=True, version_2_with_negative=True
    )
    out = tmp_path / "out"
    out.mkdir()
    answers = {f"d{number}": "" for number in range(9)}
    toy_squad.write_json(out / "predictions.json", answers)
    arguments = [f"--{name}={value}" for name, value in named.items()]
    done = programs.python("-c", _SCORING, *arguments, check=True)
    assert done.stdout == "False\n"  # TensorFlow takes seconds.
    assert toy_squad.results(out)["f1"] == pytest.approx(100 * 3 / 9)


def test_scoring_holds_the_lock_of_its_folder(tmp_path):
    options = toy_squad.parse(toy_squad.flags_of(tmp_path, do_eval=True))
    with (
        writing.lock_folder(options.output_dir, "training"),
        pytest.raises(OSError, match="is in use by another"),
    ):
        run_squad.main(options)


@pytest.mark.slow
def test_a_resumed_run_is_the_unbroken_one(trained, tmp_path):
    whole, parts = trained / "out", tmp_path / "parts"
    shutil.copytree(whole, parts)
    for step in (35, 40):
        for path in parts.glob(f"model.ckpt-{step}.*"):
            path.unlink()
    (parts / "checkpoint").unlink()
    toy_squad.run(trained, do_train=True, output_dir=parts, **_TRAINING)
    assert toy_squad.losses(parts) == toy_squad.losses(whole)
    a, b = checkpoints.read(str(whole)), checkpoints.read(str(parts))
    assert a.keys() == b.keys()
    assert all(np.array_equal(a[name], b[name]) for name in a)


@pytest.mark.slow
def test_the_best_threshold_is_found_and_used(tmp_path):
    out = toy_squad.run(
        tmp_path,
        **programs.STAGES,
        version_2_with_negative=True,
        null_score_diff_threshold="auto",
    )
    results = toy_squad.results(out)
    odds = toy_squad.read_json(out / "null_odds.json")
    answers = toy_squad.read_json(out / "predictions.json")
    threshold = results["null_score_diff_threshold"]
    assert {k for k, text in answers.items() if not text} == {
        k for k, value in odds.items() if value > threshold
    }
    assert results["f1"] >= results["NoAns_total"] / results["total"] * 100
    # As the official script finds it, for answers chosen at the threshold.
    assert results["best_f1"] == pytest.approx(results["f1"], abs=1e-4)

    # Combined with itself the system answers the same at the same threshold.
    combined = toy_squad.run(
        tmp_path,
        do_predict=True,
        do_eval=True,
        version_2_with_negative=True,
        null_score_diff_threshold="auto",
        ensemble=f"{out}/nbest_predictions.json",
        output_dir=tmp_path / "combined",
    )
    assert toy_squad.read_json(combined / "predictions.json") == answers
    assert toy_squad.results(combined)["f1"] == results["f1"]


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("version", ["v1.1", "v2.0"])
def test_the_development_set_runs_to_the_end(version, tmp_path):
    toy_squad.write_config(
        tmp_path / "bert_config.json",
        vocab_size=30522,
        max_position_embeddings=384,
    )
    train = toy_squad.read_json(_SHARED / "squad" / "train-subset-4000q.json")
    if version == "v2.0":
        for article in train["data"]:
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    question["is_impossible"] = False
    toy_squad.write_json(tmp_path / "train.json", train)
    out = toy_squad.run(
        tmp_path,
        vocab_file=_SHARED / "vocab" / "uncased.txt",
        train_file=tmp_path / "train.json",
        predict_file=_SHARED / "squad" / f"dev-{version}.json",
        **programs.STAGES,
        num_train_epochs=0.01,
        max_seq_length=384,
        max_query_length=64,
        doc_stride=128,
        predict_batch_size=32,
        version_2_with_negative=version == "v2.0",
    )
    assert len(toy_squad.read_json(out / "predictions.json")) > 10000


def test_names_and_defaults_are_the_release_s():
    values = programs.defined(run_squad.Options)
    released = {
        "bert_config_file": None,
        "vocab_file": None,
        "output_dir": None,
        "train_file": None,
        "predict_file": None,
        "init_checkpoint": None,
        "do_lower_case": True,
        "max_seq_length": 384,
        "doc_stride": 128,
        "max_query_length": 64,
        "do_train": False,
        "do_predict": False,
        "train_batch_size": 32,
        "predict_batch_size": 8,
        "learning_rate": 5e-5,
        "num_train_epochs": 3.0,
        "warmup_proportion": 0.1,
        "save_checkpoints_steps": 1000,
        "iterations_per_loop": 1000,
        "n_best_size": 20,
        "max_answer_length": 30,
        **programs.TPU_DEFAULTS,
        "verbose_logging": False,
        "version_2_with_negative": False,
        "null_score_diff_threshold": 0.0,
    }
    assert {name: values[name].default for name in released} == released
