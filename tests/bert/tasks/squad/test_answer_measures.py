import pytest

from bert.tasks.squad import answer_measures, answer_scores


@pytest.mark.parametrize(
    ("gold", "prediction", "exact", "f1"),
    [
        # The longest common run of 1998 年 5 月 and 1998 年.
        ("1998年5月", "1998年", 0, 2 * 1 * (2 / 4) / (1 + 2 / 4)),
        # A run, not a bag: 北京 of 北京大学 and 大学北京.
        ("北京大学", "大学北京", 0, 1 / 2),
        ("北京", "上海", 0, 0),
        # Chinese marks and case do not count, and a full stop does.
        ("《Titanic》。", "titanic", 1, 1),
        ("北京.", "北京", 0, 2 * 1 * (2 / 3) / (1 + 2 / 3)),
        # Words and numbers in Chinese text are units.
        ("约3.5 km", "3.5km", 0, 0),
        ("约3.5 km", "3.5 km", 0, 2 * 1 * (2 / 3) / (1 + 2 / 3)),
        ("1,000人", "000人", 0, 1 / 2),
        # Marks within a word leave one word.
        ("a-b", "ab", 1, 1),
        # Beyond U+9FA5 a character is part of a word.
        ("\u9fa6\u9fa7", "\u9fa6", 0, 0),
        # Frequent characters of long answers count too.
        ("是" + "的" * 250, "的" * 250, 0, 500 / 501),
        ("", "", 1, 0),
        ("北京", "", 0, 0),
    ],
)
def test_chinese_answers_by_the_measure_of_cmrc_2018(
    gold, prediction, exact, f1
):
    measure = answer_measures.MEASURES["cmrc2018"]
    assert measure.exact_match(gold, prediction) == exact
    assert measure.f1(gold, prediction) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("gold", "prediction", "exact", "f1"),
    [
        ("서울특별시", "서울특별시에서", 0, 2 * 1 * (5 / 7) / (1 + 5 / 7)),
        # A bag of characters, without the spaces.
        ("파리 시", "시파리", 0, 1),
        ("서울", "부산", 0, 0),
        # Quotes are spaces, other ASCII marks go.
        ("《날개》", "날개", 1, 1),
        ("'이상'의 날개", "이상 의 날개", 1, 1),
        ("A.I.", "ai", 1, 1),
        ("the cat", "cat", 0, 2 * 1 * (3 / 6) / (1 + 3 / 6)),
        ("", "", 1, 0),
    ],
)
def test_korean_answers_by_the_measure_of_korquad(gold, prediction, exact, f1):
    measure = answer_measures.MEASURES["korquad"]
    assert measure.exact_match(gold, prediction) == exact
    assert measure.f1(gold, prediction) == pytest.approx(f1)


def test_measures_are_of_version_2_too():
    gold = {"q1": ("1998年5月",), "q2": (), "q3": ("。",)}
    predictions = {"q1": "1998年", "q2": "", "q3": ""}
    measure = answer_measures.MEASURES["cmrc2018"]
    scores = answer_scores.evaluate_v2(gold, predictions, measure=measure)
    assert scores["f1"] == pytest.approx(100 * (2 / 3 + 1 + 1) / 3)
    assert scores["exact"] == pytest.approx(100 * 2 / 3)
    # Answering pays by characters, and not by words.
    odds = {"q1": 1.0, "q2": 2.0, "q3": 2.0}
    best = answer_scores.best_null_threshold
    assert best(gold, predictions, odds, measure) == 2.0
    assert best(gold, predictions, odds) == 0.0
