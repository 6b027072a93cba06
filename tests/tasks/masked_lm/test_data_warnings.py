"""Warnings about pre-training data."""

import pathlib

import pytest

from tasks.masked_lm import (
    masked_pairs,
    record_contents,
)

_INPUTS = pathlib.Path(__file__).parents[2] / "golden/inputs"


def test_a_sound_corpus_gives_no_warning():
    options = masked_pairs.InstanceOptions()
    assert record_contents.prediction_warnings(options) == []
    assert record_contents.corpus_warnings(2) == []
    assert record_contents.balance_warnings(60, 100) == []
    assert record_contents.balance_warnings(0, 0) == []


def test_one_document_is_a_warning():
    (text,) = record_contents.corpus_warnings(1)
    assert "one document" in text


# 128 * 0.15 rounds to 19.
@pytest.mark.parametrize(("limit", "num_warnings"), [(19, 0), (18, 1)])
def test_too_few_predictions_are_a_warning(limit, num_warnings):
    found = record_contents.prediction_warnings(
        masked_pairs.InstanceOptions(max_predictions_per_seq=limit)
    )
    assert len(found) == num_warnings
    for text in found:
        assert "max_predictions_per_seq=18" in text
        assert "needs 19" in text


def test_too_many_random_pairs_are_a_warning():
    (text,) = record_contents.balance_warnings(61, 100)
    assert text.startswith("61% of the pairs")


@pytest.mark.parametrize(
    ("name", "do_lower_case", "warning"),
    [
        ("vocab.txt", True, None),
        ("vocab.txt", False, "looks uncased"),
        ("vocab_cased.txt", False, None),
        ("vocab_cased.txt", True, "looks cased"),
    ],
)
def test_casing_that_contradicts_the_vocabulary(name, do_lower_case, warning):
    words = (_INPUTS / name).read_text("utf-8").split()
    found = record_contents.casing_warnings(words, do_lower_case=do_lower_case)
    assert len(found) == (warning is not None)
    for text in found:
        assert warning in text


def test_special_tokens_have_no_casing():
    words = ["[CLS]", "<S>"]
    for do_lower_case in (True, False):
        assert (
            record_contents.casing_warnings(words, do_lower_case=do_lower_case)
            == []
        )


def test_short_sequences_explain_random_pairs():
    assert record_contents.balance_warnings(60, 100, 32) == []
    (short,) = record_contents.balance_warnings(61, 100, 32)
    assert "Longer sequences" in short
    (usual,) = record_contents.balance_warnings(61, 100, 128)
    assert "blank line between" in usual
