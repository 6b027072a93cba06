"""Ranked answers, decisions and scores, and the files they are read from."""

import pytest

from bert.tasks.squad import answer_files, answer_ranking
from tests.support import toy_files

_GOLD = {"a": ("oslo",), "b": (), "c": ("lima",)}


def _answer(qas_id, text, null_odds):
    entry = answer_ranking.Candidate(
        text=text, probability=1.0, start_logit=1.0, end_logit=2.0
    )
    return answer_ranking.RankedAnswers(
        qas_id=qas_id, nbest=(entry,), null_odds=null_odds
    )


def _version_2():
    return [
        _answer("a", "oslo", -3.0),
        _answer("b", "rome", 0.5),
        _answer("c", "lima", 0.25),
    ]


def test_a_threshold_decides():
    decisions = answer_files.decide(_version_2(), 0.3)
    assert decisions.texts == {"a": "oslo", "b": "", "c": "lima"}
    assert decisions.null_odds == {"a": -3.0, "b": 0.5, "c": 0.25}
    assert decisions.threshold == 0.3


def test_the_best_threshold_is_that_of_the_measure():
    answers = [_answer("a", "1998年", 1.0), _answer("b", "", 2.0)]
    gold = {"a": ("1998年5月",), "b": ()}
    for scoring, text in (("squad", ""), ("cmrc2018", "1998年")):
        decisions = answer_files.decide(answers, "auto", gold, scoring)
        assert decisions.texts["a"] == text


def test_texts_are_scored_as_they_are():
    # The official script at its default, 1.0, would blank "a".
    decisions = answer_files.Decisions(
        texts={"a": "oslo", "b": "", "c": "lima"},
        null_odds={"a": 2.0, "b": 3.0, "c": -1.0},
        threshold=2.5,
    )
    scores = answer_files.score(_GOLD, decisions, version_2_with_negative=True)
    assert scores["exact"] == scores["f1"] == 100
    assert scores["best_f1"] == 100
    assert scores["null_score_diff_threshold"] == 2.5
    scores = answer_files.score(
        {"a": ("oslo",)},
        answer_files.Decisions(texts={"a": "x"}),
        version_2_with_negative=False,
    )
    assert scores == {"exact_match": 0, "f1": 0}


def test_answers_are_read_as_they_are_written(tmp_path):
    decisions = answer_files.decide(_version_2(), "auto", _GOLD)
    answer_files.write(str(tmp_path), _version_2(), decisions)
    path = str(tmp_path / "predictions.json")
    given = answer_files.read(path, version_2_with_negative=True)
    assert given.texts == decisions.texts
    assert given.null_odds == decisions.null_odds
    (tmp_path / "null_odds.json").unlink()
    given = answer_files.read(path, version_2_with_negative=True)
    assert given.null_odds is None
    # Version 1 has none, whatever is in the folder.
    (tmp_path / "null_odds.json").write_text("{}")
    given = answer_files.read(path, version_2_with_negative=False)
    assert given.null_odds is None


def test_files_have_the_order_of_the_questions_and_of_the_release(tmp_path):
    answers = [_answer("b", "é", -1.0), _answer("a", "oslo", 2.0)]
    decisions = answer_files.decide(answers, 0.0)
    answer_files.write(str(tmp_path), answers, decisions)
    text = (tmp_path / "predictions.json").read_text()
    assert text == '{\n    "b": "\\u00e9",\n    "a": ""\n}\n'
    text = (tmp_path / "null_odds.json").read_text()
    assert text == '{\n    "b": -1.0,\n    "a": 2.0\n}\n'
    nbest = toy_files.read_json(tmp_path / "nbest_predictions.json")
    names = ["text", "probability", "start_logit", "end_logit"]
    assert [*nbest] == ["b", "a"] and [*nbest["a"][0]] == names


@pytest.mark.parametrize("threshold", [0.0, None])
def test_a_threshold_is_reported_where_it_is_known(threshold):
    decisions = answer_files.Decisions(
        texts=dict.fromkeys(_GOLD, ""), threshold=threshold
    )
    scores = answer_files.score(_GOLD, decisions, version_2_with_negative=True)
    assert scores.get("null_score_diff_threshold") == threshold


def test_every_question_needs_null_odds():
    decisions = answer_files.Decisions(
        texts=dict.fromkeys(_GOLD, ""), null_odds={"a": 1.0, "c": 2.0}
    )
    with pytest.raises(ValueError, match="must have null odds; 'b' have none"):
        answer_files.score(_GOLD, decisions, version_2_with_negative=True)
