"""What looks wrong in pre-training data is said."""

import pathlib

import pytest

from tasks.masked_lm import pretraining, pretraining_warnings

_INPUTS = pathlib.Path(__file__).parents[2] / "golden/inputs"


def test_a_sound_corpus_gives_no_warning():
    options = pretraining.InstanceOptions()
    assert pretraining_warnings.prediction_warnings(options) == []
    assert pretraining_warnings.corpus_warnings(2) == []
    assert pretraining_warnings.balance_warnings(0.6) == []


def test_one_document_is_a_warning():
    (text,) = pretraining_warnings.corpus_warnings(1)
    assert "one document" in text


# 128 * 0.15 rounds to 19.
@pytest.mark.parametrize(("limit", "num_warnings"), [(19, 0), (18, 1)])
def test_too_few_predictions_are_a_warning(limit, num_warnings):
    found = pretraining_warnings.prediction_warnings(
        pretraining.InstanceOptions(max_predictions_per_seq=limit)
    )
    assert len(found) == num_warnings
    for text in found:
        assert "max_predictions_per_seq=18" in text
        assert "asks for 19" in text


def test_too_many_random_pairs_are_a_warning():
    (text,) = pretraining_warnings.balance_warnings(0.61)
    assert text.startswith("61% of the pairs")


def test_share_of_random_pairs():
    assert pretraining_warnings.random_next_share(1, 4) == 0.25
    assert pretraining_warnings.random_next_share(0, 0) == 0.0


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
    found = pretraining_warnings.casing_warnings(
        words, do_lower_case=do_lower_case
    )
    assert len(found) == (warning is not None)
    for text in found:
        assert warning in text


def test_special_tokens_have_no_casing():
    words = ["[CLS]", "<S>"]
    for do_lower_case in (True, False):
        assert (
            pretraining_warnings.casing_warnings(
                words, do_lower_case=do_lower_case
            )
            == []
        )
