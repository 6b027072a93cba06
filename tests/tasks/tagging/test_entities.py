import collections
import dataclasses

import hypothesis
import pytest
from hypothesis import strategies

from tasks.tagging import conll, entities


@pytest.mark.parametrize(
    ("scheme", "tags", "iob2"),
    [
        # Two entities of a type side by side, and one that follows another.
        ("iob", "I-A I-A B-A O I-B", "B-A I-A B-A O B-B"),
        ("iob", "I-A I-B B-B", "B-A B-B B-B"),
        ("iob", "B-A I-A B-A O B-B", "B-A I-A B-A O B-B"),
        ("iob", "I-A I-A O I-B I-A", "B-A I-A O B-B B-A"),
        ("iob", "B-A I-A E-A S-A S-A O", "B-A I-A I-A B-A B-A O"),
        ("iob", "B-A E-A B-A E-A", "B-A I-A B-A I-A"),
        ("iob", "B-A I-A L-A U-A U-B", "B-A I-A I-A B-A B-B"),
        ("iob", "B-A M-A E-A W-A O", "B-A I-A I-A B-A O"),
        ("iob", "B-A M-A E-A S-A", "B-A I-A I-A B-A"),
        ("raw", "A A O B A", "B-A I-A O B-B B-A"),
        # Penn tags of brackets begin and end with a hyphen.
        ("raw", "-LRB- NN NN -RRB-", "B--LRB- B-NN I-NN B--RRB-"),
        ("raw", "- -- B-", "B-- B--- B-B-"),
        ("raw", "B_A I_A", "B-B_A B-I_A"),
        # Underscores in place of hyphens.
        ("iob", "B_A I_A B_B-C I_B-C", "B-A I-A B-B-C I-B-C"),
        ("iob", "B_A E-A S_B_C", "B-A I-A B-B_C"),
        # Without types.
        ("iob", "B I O B", "B I O B"),
        # Ill-formed: an end, or an inside, without a beginning.
        ("iob", "O I-A I-B", "O B-A B-B"),
        ("iob", "E-A E-A I-A O", "B-A B-A B-A O"),
        ("iob", "U-A I-A L-A L-A", "B-A B-A I-A B-A"),
        # Types may hold hyphens.
        ("iob", "B-a-b I-a-b", "B-a-b I-a-b"),
    ],
)
def test_conversion_by_hand(scheme, tags, iob2):
    assert entities.to_iob2(tags.split(), scheme) == tuple(iob2.split())


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        ("O B-A I-A", "iob"),
        ("I-A", "iob"),
        ("B-A E-A S-A O", "iob"),
        ("B_A I_A-B E_A S_A_B", "iob"),
        ("PER LOC O", "raw"),
        ("O", "raw"),
        # Letters without types are no scheme.
        ("I E O", "raw"),
        ("S M", "raw"),
        ("B I O", "raw"),
        ("NN -LRB-", "raw"),
    ],
)
def test_detected_scheme(tags, scheme):
    assert entities.detect(_file(tags)) == scheme


def test_tags_of_two_kinds_are_refused():
    for tags in ("B-A X-A", "B-A NN", "B_A Q_A"):
        with pytest.raises(ValueError, match=r"f.txt: all tags .*--scheme=raw"):
            entities.detect(_file(tags))
    # A tag of any length makes no long message.
    with pytest.raises(ValueError, match="all tags but O") as caught:
        entities.detect(_file("B-PER O" + "x" * 100_000))
    assert len(str(caught.value)) < 500


def test_labels_have_both_letters_of_every_type():
    found = entities.labels_of([("O", "B-Z"), ("B-A", "I-A")])
    assert found == ("O", "B-A", "I-A", "B-Z", "I-Z")


def _file(*sentences):
    return conll.ColumnFile(
        path="f.txt",
        has_documents=True,
        sentences=tuple(
            conll.Sentence(
                words=tuple("wxyz"[: len(tags.split())]),
                tags=tuple(tags.split()),
                lines=tuple(range(7, 7 + len(tags.split()))),
                document=1,
            )
            for tags in sentences
        ),
    )


def test_wrong_tag_names_file_and_line():
    file = _file("S-A B-A E-A", "B-A I-A E-A")
    assert entities.convert_file(file, "iob").tags == [
        ("B-A", "B-A", "I-A"),
        ("B-A", "I-A", "I-A"),
    ]
    for tag in ("B-", "B_", "Q-A", "NN"):
        with pytest.raises(ValueError, match=f"f.txt, line 7: '{tag}' is not"):
            entities.convert_file(_file(f"{tag} I-A"), "iob")
    message = r"f.txt, line 9: the tag 'I-C' of 'y' .*O, B-A, I-A"
    with pytest.raises(ValueError, match=message):
        entities.convert_file(_file("O I-A I-C"), "iob", ("O", "B-A", "I-A"))
    sentence = conll.Sentence(words=("a",), tags=None, lines=(1,), document=1)
    file = dataclasses.replace(_file(), sentences=(sentence,))
    with pytest.raises(ValueError, match=r"f.txt: must have a column of tags"):
        entities.convert_file(file, "iob")


_tags = strategies.lists(
    strategies.sampled_from(["O", "B-A", "I-A", "B-B", "I-B", "B", "I"]),
    max_size=9,
)


@hypothesis.given(_tags)
def test_conversion_keeps_the_entities_and_is_well_formed(tags):
    converted = entities.to_iob2(tags)
    assert list(entities.find_entities(converted)) == list(
        entities.find_entities(tags)
    )
    assert entities.to_iob2(converted) == converted
    previous = "O"
    for tag in converted:
        if tag.startswith("I"):
            assert previous[1:] == tag[1:] and previous != "O"
        previous = tag


def _iobes(tags):
    """Writes well-formed IOB2 tags as IOBES."""
    for tag, after in zip(tags, [*tags, "O"][1:], strict=True):
        goes_on = after.startswith("I")
        letter = {"B": "BS", "I": "IE", "O": "OO"}[tag[0]][not goes_on]
        yield letter + tag[1:]


@hypothesis.given(_tags)
def test_iobes_comes_back(tags):
    iob2 = entities.to_iob2(tags)
    assert entities.to_iob2(list(_iobes(iob2))) == iob2


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
        ("B I O I", [(0, 2, ""), (3, 4, "")]),
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
        kind: (own.gold, own.found, own.correct)
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
    assert (overall.gold, overall.found, overall.correct) == (3, 4, 2)
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


def _streamed(pairs):
    """Counts as the script does: word by word, with one flag."""
    golds, founds, corrects = (collections.Counter() for _ in range(3))
    last = (("O", ""), ("O", ""))
    is_correct_so_far = False

    def parted(tag):
        letter, _, kind = tag.partition("-")
        return letter, kind

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
