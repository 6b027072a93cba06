"""Scores and ensembles of SQuAD predictions, without a model."""

import pytest

from bert.files import locks
from tests.support import locations, programs, toy_files, toy_squad
from tools import evaluate_squad

_NBEST = "nbest_predictions.json"


def _options(folder, **named):
    named = {"output_dir": folder / "out", **named}
    return programs.parse(evaluate_squad.Options, **named)


def _run(folder, **named):
    evaluate_squad.run(_options(folder, **named))
    return folder / "out"


def _questions(folder, *, version_2):
    """Writes nine questions; returns the file and the right answers."""
    every = 3 if version_2 else 0
    content = toy_squad.dataset(9, unanswerable_every=every)
    path = toy_files.write_json(folder / "dev.json", content)
    answers = {
        qa["id"]: qa["answers"][0]["text"] if qa["answers"] else ""
        for paragraph in content["data"][0]["paragraphs"]
        for qa in paragraph["qas"]
    }
    return path, answers


def _entry(text, probability, start_logit, end_logit):
    return {
        "text": text,
        "probability": probability,
        "start_logit": start_logit,
        "end_logit": end_logit,
    }


@pytest.mark.parametrize("version", ["v1.1", "v2.0"])
def test_systems_that_agree_give_their_answers(version, tmp_path):
    path = locations.GOLDEN / "squad/cli_predictions.json.gz"
    case = toy_files.read_json(path)[version]
    for name, text in case["files"].items():
        (tmp_path / name).write_text(text)
    named = {
        name: case["flags"].get(name)
        for name in (
            "n_best_size",
            "version_2_with_negative",
            "null_score_diff_threshold",
        )
    }
    out = _run(
        tmp_path,
        predict_file=locations.GOLDEN / case["flags"]["predict_file"],
        ensemble=f"{tmp_path / _NBEST},{tmp_path}/nbest_*.json",
        **named,
    )
    predictions = (out / "predictions.json").read_text()
    assert predictions == case["files"]["predictions.json"]
    is_version_2 = version == "v2.0"
    assert (out / "null_odds.json").exists() == is_version_2
    results = toy_squad.results(out)
    assert ("best_f1" in results) == is_version_2
    assert ("exact_match" in results) != is_version_2


def test_odds_of_another_run_are_refused(tmp_path):
    path, answers = _questions(tmp_path, version_2=True)
    odds = dict.fromkeys(answers, 0.5)
    named = {
        "predict_file": path,
        "version_2_with_negative": True,
        "predictions_file": toy_files.write_json(
            tmp_path / "predictions.json", answers
        ),
    }
    toy_files.write_json(tmp_path / "null_odds.json", odds)
    assert toy_squad.results(_run(tmp_path, **named))["best_f1"] == 100
    odds["another"] = odds.pop(next(iter(answers)))
    toy_files.write_json(tmp_path / "null_odds.json", odds)
    with pytest.raises(ValueError, match=r"null_odds\.json"):
        _run(tmp_path, **named)


def test_predictions_are_scored_without_a_model(tmp_path):
    path, answers = _questions(tmp_path, version_2=False)
    wrong = dict.fromkeys([*answers][:3], "nowhere")
    predictions = toy_files.write_json(
        tmp_path / "some.json", {**answers, **wrong}
    )
    out = _run(tmp_path, predict_file=path, predictions_file=predictions)
    assert toy_squad.results(out) == {
        "exact_match": pytest.approx(100 * 6 / 9),
        "f1": pytest.approx(100 * 6 / 9),
    }
    # Those of the folder itself, by default.
    toy_files.write_json(out / "predictions.json", answers)
    _run(tmp_path, predict_file=path)
    assert toy_squad.results(out) == {"exact_match": 100, "f1": 100}


def test_the_best_threshold_of_an_ensemble_is_found(tmp_path):
    path, answers = _questions(tmp_path, version_2=True)

    def entry(text, score):
        return _entry(text, 0.5, score, 0.0)

    nbest = {  # Null odds of 7 without an answer, 5 with one.
        qas_id: [entry("paris", 0.0), entry("", 7.0)]
        if not text
        else [entry(text, 0.0), entry("", 5.0)]
        for qas_id, text in answers.items()
    }
    system = toy_files.write_json(tmp_path / _NBEST, nbest)
    named = {
        "predict_file": path,
        "ensemble": system,
        "version_2_with_negative": True,
    }
    out = _run(tmp_path, **named)
    assert set(toy_files.read_json(out / "predictions.json").values()) == {""}
    out = _run(tmp_path, **named, null_score_diff_threshold="auto")
    assert toy_files.read_json(out / "predictions.json") == answers
    results = toy_squad.results(out)
    assert (results["f1"], results["null_score_diff_threshold"]) == (100, 6)
    # The threshold needs the ground truth, whether it is scored or not.
    named |= {"do_eval": False, "output_dir": tmp_path / "unscored"}
    _run(tmp_path, **named, null_score_diff_threshold="auto")
    assert toy_files.read_json(named["output_dir"] / "predictions.json") == (
        answers
    )


def test_an_ensemble_lists_as_many_answers_as_asked_for(tmp_path):
    path, answers = _questions(tmp_path, version_2=False)
    shares = (("a", 0.5), ("b", 0.3), ("c", 0.2))
    entries = [_entry(word, share, share, share) for word, share in shares]
    system = toy_files.write_json(
        tmp_path / _NBEST, dict.fromkeys(answers, entries)
    )
    for size in (2, 3):
        out = _run(
            tmp_path, predict_file=path, ensemble=system, n_best_size=size
        )
        listed = toy_files.read_json(out / _NBEST)
        assert {len(nbest) for nbest in listed.values()} == {size}


@pytest.mark.parametrize("version_2", [False, True])
def test_the_null_odds_beside_predictions_are_of_version_2(tmp_path, version_2):
    path, answers = _questions(tmp_path, version_2=version_2)
    (tmp_path / "run").mkdir()
    predictions = toy_files.write_json(
        tmp_path / "run/predictions.json", answers
    )
    toy_files.write_json(
        tmp_path / "run/null_odds.json", dict.fromkeys(answers, 0.5)
    )
    out = _run(
        tmp_path,
        predict_file=path,
        predictions_file=predictions,
        version_2_with_negative=version_2,
    )
    assert ("best_f1_thresh" in toy_squad.results(out)) == version_2


def test_questions_without_ground_truth_are_combined(tmp_path):
    question = {"id": "a", "question": "?"}
    paragraphs = [{"context": "it rained", "qas": [question]}]
    path = toy_files.write_json(
        tmp_path / "test.json", {"data": [{"paragraphs": paragraphs}]}
    )
    system = toy_files.write_json(
        tmp_path / _NBEST, {"a": [_entry("it", 1.0, 0.0, 0.0)]}
    )
    named = {"predict_file": path, "ensemble": system}
    with pytest.raises(ValueError, match="answers is missing"):
        _run(tmp_path, **named)
    out = _run(tmp_path, **named, do_eval=False)
    assert toy_files.read_json(out / "predictions.json") == {"a": "it"}
    assert not (out / "eval_results.txt").exists()


@pytest.mark.parametrize(
    ("named", "message"),
    [
        (
            {"ensemble": "a", "predictions_file": "b"},
            "one of --ensemble and --predictions_file",
        ),
        ({"do_eval": False}, "--nodo_eval needs --ensemble"),
    ],
)
def test_flags_without_effect_are_refused(tmp_path, named, message):
    with pytest.raises(ValueError, match=message):
        _options(tmp_path, predict_file="x.json", **named)


_SCORING = """
import sys
from tests.support import programs
from tools import evaluate_squad
options = programs.parse(evaluate_squad.Options, *sys.argv[1:])
evaluate_squad.run(options)
print("tensorflow" in sys.modules)
"""


def test_scoring_needs_no_tensorflow(tmp_path):
    path, answers = _questions(tmp_path, version_2=True)
    toy_files.write_json(tmp_path / "predictions.json", answers)
    done = programs.python(
        "-c",
        _SCORING,
        f"--predict_file={path}",
        f"--output_dir={tmp_path}",
        "--version_2_with_negative",
        check=True,
    )
    assert done.stdout == "False\n"  # TensorFlow takes seconds.
    assert toy_squad.results(tmp_path)["f1"] == 100


def test_scoring_holds_the_lock_of_its_folder(tmp_path):
    path, _ = _questions(tmp_path, version_2=False)
    options = _options(tmp_path, predict_file=path)
    with (
        locks.lock_folder(options.output_dir, "training"),
        pytest.raises(OSError, match="is in use by another"),
    ):
        evaluate_squad.run(options)


@pytest.mark.parametrize(
    ("scoring", "f1"),
    [("squad", 0), ("cmrc2018", 200 / 3), ("korquad", 250 / 3)],
)
def test_scores_are_by_characters_on_request(tmp_path, scoring, f1):
    question = {
        "id": "q",
        "question": "何时？",
        "answers": [{"text": "1998年5月", "answer_start": 0}],
    }
    paragraph = {"context": "1998年5月。", "qas": [question]}
    content = {"data": [{"paragraphs": [paragraph]}]}
    path = toy_files.write_json(tmp_path / "dev.json", content)
    answers = toy_files.write_json(tmp_path / "p.json", {"q": "1998年"})
    named = {"predict_file": path, "predictions_file": answers}
    out = _run(tmp_path, **named, scoring=scoring)
    results = toy_squad.results(out)
    assert results == {"exact_match": 0, "f1": pytest.approx(f1)}
