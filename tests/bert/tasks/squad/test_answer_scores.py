import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert.files import run_files
from bert.tasks.squad import answer_ranking, answer_scores
from tests.support import programs

# Worked by hand: given answer, prediction, exact match, F1 in 1.1, in 2.0.
_HAND_WORKED = [
    # Articles, case and punctuation do not count.
    ("The Eiffel Tower", "eiffel tower.", 1, 1, 1),
    ("the Broncos", "Denver Broncos", 0, 2 / 3, 2 / 3),
    ("an apple a day", "apple day", 1, 1, 1),
    # An article is a whole word; "Athens" and "theatre" hold none.
    ("Athens theatre", "athens", 0, 2 / 3, 2 / 3),
    # Punctuation goes without a space: these become one word.
    ("state-of-the-art", "state of the art", 0, 0, 0),
    ("state-of-the-art", "stateoftheart", 1, 1, 1),
    ("$3.50", "350", 1, 1, 1),
    # "a." becomes "a", which is an article only once the full stop is gone.
    ("A. Smith", "Smith", 1, 1, 1),
    # Any white space separates; none counts.
    ("10\u00a0000", "10 000", 1, 1, 1),
    ("  two\tmen ", "two men", 1, 1, 1),
    # Unicode: case folds by `lower`; typographic quotes are not punctuation.
    ("ÉTOILE", "étoile", 1, 1, 1),
    ("“étoile”", "étoile", 0, 0, 0),
    ("STRASSE", "straße", 0, 0, 0),
    ("café", "cafe\u0301", 0, 0, 0),
    # Repeated words count as often as in both: 2 of 3, 2 of 6.
    ("to be or not to be", "to to to", 0, 4 / 9, 4 / 9),
    # Empty on one side or on both, also after normalizing.
    ("cat", "", 0, 0, 0),
    ("", "cat", 0, 0, 0),
    ("", "", 1, 0, 1),
    ("the", "a", 1, 0, 1),
    ("!", "", 1, 0, 1),
]


@pytest.mark.parametrize(
    ("gold", "prediction", "exact", "f1_v1", "f1_v2"), _HAND_WORKED
)
def test_hand_worked_pairs(gold, prediction, exact, f1_v1, f1_v2):
    texts = {"q": (gold,)}, {"q": prediction}
    scores = answer_scores.evaluate_v1(*texts)
    assert scores["exact_match"] == 100 * exact
    assert scores["f1"] == pytest.approx(100 * f1_v1)
    assert answer_scores.score_v2(*texts)[1]["q"] == pytest.approx(f1_v2)


def test_version_1_takes_the_best_of_several_answers(caplog):
    gold = {"q1": ("red house", "house"), "q2": ("1895",), "q3": ("cat",)}
    predictions = {"q1": "the house", "q2": "in 1895", "other": "x"}
    scores = answer_scores.evaluate_v1(gold, predictions)
    # 1, 0 and missing; 1, 2/3 and missing.
    assert scores == {
        "exact_match": pytest.approx(100 / 3),
        "f1": pytest.approx(100 * (1 + 2 / 3) / 3),
    }
    assert list(scores) == ["exact_match", "f1"]
    assert "1 questions have no prediction and score 0: 'q3'" in caplog.text


# Exact and F1: q1 1 and 1, q2 0 and 0, q3 0 and 2/3, q4 1 and 1.
_GOLD = {"q1": ("cat",), "q2": (), "q3": ("red house",), "q4": ()}
_PREDICTIONS = {"q1": "cat", "q2": "dog", "q3": "house", "q4": ""}
_ODDS = {"q1": -2.0, "q2": -1.0, "q3": 0.5, "q4": 3.0}


def test_version_2_scores_both_kinds_apart():
    scores = answer_scores.evaluate_v2(_GOLD, _PREDICTIONS)
    assert scores == {
        "exact": 50,
        "f1": pytest.approx(100 * (2 + 2 / 3) / 4),
        "total": 4,
        "HasAns_exact": 50,
        "HasAns_f1": pytest.approx(100 * (1 + 2 / 3) / 2),
        "HasAns_total": 2,
        "NoAns_exact": 50,
        "NoAns_f1": 50,
        "NoAns_total": 2,
    }


def test_version_2_finds_the_best_thresholds():
    scores = answer_scores.evaluate_v2(_GOLD, _PREDICTIONS, _ODDS)
    assert list(scores)[-4:] == [
        "best_exact",
        "best_exact_thresh",
        "best_f1",
        "best_f1_thresh",
    ]
    # From 2 of 4 right; q1 adds 1, q2 takes 1, q3 adds 0 and 2/3, q4 nothing.
    assert scores["best_exact"] == 75
    assert scores["best_exact_thresh"] == -2
    assert scores["best_f1"] == 75
    assert scores["best_f1_thresh"] == -2


def test_version_2_leaves_out_a_kind_that_is_not_there():
    only_answers = {"q1": ("cat",)}
    scores = answer_scores.evaluate_v2(only_answers, {"q1": "cat"})
    assert list(scores) == [
        "exact",
        "f1",
        "total",
        "HasAns_exact",
        "HasAns_f1",
        "HasAns_total",
    ]


def test_answers_of_articles_alone_do_not_count_but_are_answers():
    exact, _ = answer_scores.score_v2({"q1": ("the", "cat")}, {"q1": "a"})
    assert exact == {"q1": 0}
    scores = answer_scores.evaluate_v2({"q1": ("the",)}, {"q1": ""})
    assert scores["exact"] == scores["HasAns_exact"] == 100


def _plain_official_best(scores, gold, predictions, odds):
    """Tries "no answer" above every place in the order of the odds."""
    order = sorted(odds, key=lambda qas_id: odds[qas_id])
    best = sum(not answers for answers in gold.values()), 0.0
    for count in range(1, len(order) + 1):
        total = sum(
            scores[qas_id]
            if i < count and predictions[qas_id]
            else not gold[qas_id]
            if not gold[qas_id] or not predictions[qas_id]
            else 0
            for i, qas_id in enumerate(order)
        )
        if total > best[0]:
            best = total, odds[order[count - 1]]
    return 100.0 * best[0] / len(scores), best[1]


_QUESTION = st.tuples(
    st.sampled_from([(), ("cat",), ("dog",)]),
    st.sampled_from(["", "cat", "dog"]),
    st.sampled_from([-1.5, 0.0, 0.5, 2.0, 7.0]),
)


@given(st.lists(_QUESTION, min_size=1, max_size=8))
def test_best_exact_is_that_of_trying_every_place(questions):
    gold = {str(i): answers for i, (answers, _, _) in enumerate(questions)}
    texts = {str(i): text for i, (_, text, _) in enumerate(questions)}
    odds = {str(i): value for i, (_, _, value) in enumerate(questions)}
    exact, _ = answer_scores.score_v2(gold, texts)
    scores = answer_scores.evaluate_v2(gold, texts, odds)
    assert (scores["best_exact"], scores["best_exact_thresh"]) == (
        _plain_official_best(exact, gold, texts, odds)
    )


def _f1_at(threshold, gold, texts, odds):
    predictions = {
        qas_id: "" if odds[qas_id] > threshold else text
        for qas_id, text in texts.items()
    }
    return answer_scores.evaluate_v2(gold, predictions)["f1"]


@given(st.lists(_QUESTION, min_size=1, max_size=8))
def test_no_threshold_is_better_than_the_best(questions):
    gold = {str(i): answers for i, (answers, _, _) in enumerate(questions)}
    texts = {str(i): text for i, (_, text, _) in enumerate(questions)}
    odds = {str(i): value for i, (_, _, value) in enumerate(questions)}
    best = answer_scores.best_null_threshold(gold, texts, odds)
    best_f1 = _f1_at(best, gold, texts, odds)
    for threshold in (-math.inf, *odds.values()):
        assert _f1_at(threshold, gold, texts, odds) <= best_f1 + 1e-9


def test_equal_odds_are_answered_all_or_none():
    gold = {"q1": ("cat",), "q2": (), "q3": ()}
    texts = {"q1": "cat", "q2": "dog", "q3": "dog"}
    odds = dict.fromkeys(gold, 0.25)
    # The official search stops after q1, where no threshold can stop.
    assert answer_scores.evaluate_v2(gold, texts, odds)["best_f1"] == 100
    best = answer_scores.best_null_threshold(gold, texts, odds)
    assert best < 0.25
    assert _f1_at(best, gold, texts, odds) == pytest.approx(200 / 3)


def test_the_best_threshold_is_halfway_between_two_questions():
    gold = {"q1": ("cat",), "q2": (), "q3": ()}
    texts = {"q1": "cat", "q2": "dog", "q3": ""}
    odds = {"q1": 1.0, "q2": 4.0, "q3": answer_ranking.NO_ANSWER_ODDS}
    best = answer_scores.best_null_threshold
    assert best(gold, texts, odds) == 2.5
    assert best({**gold, "q1": ()}, texts, odds) == 0.0  # Below q1.
    # "the" is no text once it is normalized, so "no answer" is right.
    assert best({**gold, "q1": ("the",), "q2": ("dog",)}, texts, odds) == 0.0
    # Above q2, but not halfway to the odds without text.
    assert best({**gold, "q2": ("dog",)}, texts, odds) == 5.0
    assert best(gold, dict.fromkeys(gold, ""), odds) == 0.0


def _reported(threshold, folder):
    """Returns the threshold as it is read from eval_results.txt."""
    path = folder / "eval_results.txt"
    run_files.write_results(str(path), {"threshold": threshold})
    return programs.results(path)["threshold"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([(), ("cat",)]),
            st.floats(-30, 30, width=16)
            | st.integers(-3, 3).map(lambda n: 4 + n * 1e-6),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_the_reported_threshold_gives_the_same_answers(
    tmp_path_factory, questions
):
    folder = tmp_path_factory.getbasetemp()
    gold = {str(i): answers for i, (answers, _) in enumerate(questions)}
    odds = {str(i): value for i, (_, value) in enumerate(questions)}
    texts = dict.fromkeys(gold, "cat")
    best = answer_scores.best_null_threshold(gold, texts, odds)
    assert _reported(best, folder) == best
    below = max((v for v in odds.values() if v <= best), default=-math.inf)
    above = min((v for v in odds.values() if v > best), default=math.inf)
    if above - below > 4e-5:  # Noise changes no answer.
        assert below + 1e-5 < best < above - 1e-5
