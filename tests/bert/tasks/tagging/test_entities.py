import collections

import hypothesis
import pytest
from hypothesis import strategies

from bert.tasks.tagging import entities


def _found(tags):
    return [(e.start, e.end, e.kind) for e in entities.find_entities(tags)]


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ("", []),
        ("O O", []),
        ("B-A", [(0, 1, "A")]),
        ("O B-A I-A O", [(1, 3, "A")]),
        # B always begins an entity.
        ("B-A B-A", [(0, 1, "A"), (1, 2, "A")]),
        ("I-A B-A I-A", [(0, 1, "A"), (1, 3, "A")]),
        # I begins one after O, at the start, and after another type.
        ("I-A I-A", [(0, 2, "A")]),
        ("O I-A", [(1, 2, "A")]),
        ("B-A I-B", [(0, 1, "A"), (1, 2, "B")]),
        ("I-A I-B I-A", [(0, 1, "A"), (1, 2, "B"), (2, 3, "A")]),
        ("B-A O I-A", [(0, 1, "A"), (2, 3, "A")]),
        # An entity ends with the sentence.
        ("O B-A I-A", [(1, 3, "A")]),
        # Types may be absent, and may hold hyphens.
        ("B I O I", [(0, 2, "ENTITY"), (3, 4, "ENTITY")]),
        ("B-a-b I-a-b I-a-c", [(0, 2, "a-b"), (2, 3, "a-c")]),
    ],
)
def test_entities_by_hand(tags, found):
    assert _found(tags.split()) == found


def _score(gold, predicted):
    return entities.score(
        [line.split() for line in gold], [line.split() for line in predicted]
    )


def _counts(scores):
    return {
        kind: (own.gold, own.predicted, own.correct)
        for kind, own in scores.by_type.items()
    }


@pytest.mark.parametrize(
    ("gold", "predicted", "counts"),
    [
        ("B-A I-A O", "B-A I-A O", {"A": (1, 1, 1)}),
        # Too short, too long, shifted, of another type: all wrong.
        ("B-A I-A O", "B-A O O", {"A": (1, 1, 0)}),
        ("B-A O O", "B-A I-A O", {"A": (1, 1, 0)}),
        ("B-A I-A O", "O B-A I-A", {"A": (1, 1, 0)}),
        ("B-A O", "B-B O", {"A": (1, 0, 0), "B": (0, 1, 0)}),
        # One in two pieces, two in one.
        ("B-A I-A", "B-A B-A", {"A": (1, 2, 0)}),
        ("B-A B-A", "B-A I-A", {"A": (2, 1, 0)}),
        # Ill-formed predictions count where they name the same words.
        ("B-A I-A O", "I-A I-A O", {"A": (1, 1, 1)}),
        ("O B-A B-B", "O I-A I-B", {"A": (1, 1, 1), "B": (1, 1, 1)}),
        ("B-A I-A I-A", "B-A I-B I-A", {"A": (1, 2, 0), "B": (0, 1, 0)}),
    ],
)
def test_counts_by_hand(gold, predicted, counts):
    assert _counts(_score([gold], [predicted])) == counts


def test_scores_and_report_by_hand():
    # Gold: A A B; found: A A B B; right: one A and the B.
    scores = _score(
        ["B-A I-A O B-B", "B-A O O O"], ["B-A I-A O B-B", "B-B O I-A O"]
    )
    assert _counts(scores) == {"A": (2, 2, 1), "B": (1, 2, 1)}
    overall = scores.overall
    assert (overall.gold, overall.predicted, overall.correct) == (3, 4, 2)
    assert overall.precision == pytest.approx(50)
    assert overall.recall == pytest.approx(200 / 3)
    assert overall.f1 == pytest.approx(2 * 2 / (3 + 4) * 100)
    assert scores.accuracy == pytest.approx(600 / 8)
    assert scores.report() == (
        "processed 8 tokens with 3 phrases; found: 4 phrases; correct: 2.\n"
        "accuracy:  75.00%; precision:  50.00%; recall:  66.67%; FB1:  57.14\n"
        "                A: precision:  50.00%; recall:  50.00%; "
        "FB1:  50.00  2\n"
        "                B: precision:  50.00%; recall: 100.00%; "
        "FB1:  66.67  2\n"
    )


def test_metrics_are_fractions_by_name():
    metrics = _score(["B-A O B-B"], ["B-A B-A O"]).metrics()
    assert metrics == {
        "accuracy": pytest.approx(1 / 3),
        "f1": pytest.approx(0.5),
        "precision": pytest.approx(0.5),
        "recall": pytest.approx(0.5),
        "f1_A": pytest.approx(2 / 3),
        "precision_A": pytest.approx(0.5),
        "recall_A": pytest.approx(1.0),
        "f1_B": 0.0,
        "precision_B": 0.0,
        "recall_B": 0.0,
    }


def test_entities_without_types_have_a_name_in_scores():
    scores = _score(["B I O B B"], ["B I O B I"])
    assert _counts(scores) == {"ENTITY": (3, 2, 1)}
    names = ("f1", "precision", "recall")
    assert scores.metrics().keys() == {
        "accuracy",
        *names,
        *(f"{name}_ENTITY" for name in names),
    }
    assert scores.metrics()["f1_ENTITY"] == scores.metrics()["f1"] > 0


def test_nothing_found_and_nothing_there_score_0():
    scores = _score(["O O"], ["O O"])
    assert scores.overall.f1 == scores.overall.precision == 0.0
    assert scores.accuracy == 100.0
    assert "FB1:   0.00\n" in scores.report()
    # Accuracy counts letters too.
    assert _score(["B-A O"], ["I-A O"]).accuracy == pytest.approx(50)
    # An entity does not go on in the next sentence.
    scores = _score(["O B-A", "B-A O"], ["O B-A", "I-A O"])
    assert _counts(scores) == {"A": (2, 2, 2)}
    with pytest.raises(ValueError, match="shorter"):
        _score(["O", "O O"], ["O", "O"])


def test_a_right_tag_after_a_wrong_one_is_right():
    gold = [("DT", "NN"), ("DT", "NN", "VB")]
    predicted = [("NN", "NN"), ("DT", "NN", "VB")]
    assert entities.accuracy(gold, predicted) == pytest.approx(80)
    assert entities.accuracy([], []) == 0
    with pytest.raises(ValueError, match="longer"):
        entities.accuracy([("A",)], [("A", "B")])


def _streamed(pairs):
    """Counts as the script does: word by word, with one flag."""
    golds, founds, corrects = (collections.Counter() for _ in range(3))
    last = (("O", ""), ("O", ""))
    is_correct_so_far = False

    def parted(tag):
        letter, _, kind = tag.partition("-")
        return letter, kind or ("" if tag == "O" else "ENTITY")

    def ends(before, now):
        return before[0] != "O" and (
            now[0] in ("B", "O") or before[1] != now[1]
        )

    def starts(before, now):
        return now[0] != "O" and (
            now[0] == "B" or before[0] == "O" or before[1] != now[1]
        )

    for gold, guess in [*pairs, ("O", "O")]:
        now = (parted(gold), parted(guess))
        if is_correct_so_far:
            ended = [ends(b, n) for b, n in zip(last, now, strict=True)]
            if all(ended):
                corrects[last[0][1]] += 1
            if any(ended):
                is_correct_so_far = False
        started = [starts(b, n) for b, n in zip(last, now, strict=True)]
        golds[now[0][1]] += started[0]
        founds[now[1][1]] += started[1]
        if all(started) and now[0][1] == now[1][1]:
            is_correct_so_far = True
        last = now
    return {
        kind: (golds[kind], founds[kind], corrects[kind])
        for kind in golds.keys() | founds.keys()
        if golds[kind] or founds[kind]
    }


_tag = strategies.sampled_from(["O", "B-A", "I-A", "B-B", "I-B", "I", "B"])


@hypothesis.given(strategies.lists(strategies.tuples(_tag, _tag), max_size=10))
def test_sets_of_entities_count_as_the_script_does_word_by_word(pairs):
    gold, predicted = [a for a, _ in pairs], [b for _, b in pairs]
    assert _counts(entities.score([gold], [predicted])) == _streamed(pairs)
