"""What records hold, and warnings about pre-training data."""

import pathlib

import numpy as np
import pytest

from tasks.masked_lm import masked_pairs, record_contents

_TOKENS = dict(
    enumerate(
        ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "run", "##ning", "a", "##b"]
    )
)


def _text(**record):
    arrays = {name: np.array(values) for name, values in record.items()}
    return record_contents.as_text(arrays, _TOKENS)


def test_what_is_masked_is_told_apart():
    assert (
        _text(
            input_ids=[1, 3, 5, 6, 4, 2, 0],
            input_mask=[1, 1, 1, 1, 1, 1, 0],
            masked_lm_positions=[1, 3, 4, 0],
            masked_lm_ids=[4, 6, 7, 0],
            masked_lm_weights=[1.0, 1.0, 1.0, 0.0],
        )
        == "[CLS] [MASK: run]ning [same: a][run: b] [SEP]"
    )


def test_a_text_shows_where_it_begins_and_what_is_no_token():
    text = _text(input_ids=[1, 5, 2, 7, 5, 2], input_mask=[1] * 6)
    assert text == "[CLS] ##ning [SEP] ##bning [SEP]"
    assert _text(input_ids=[6, 99], input_mask=[1, 1]) == "a [id 99]"


_INPUTS = pathlib.Path(__file__).parents[2] / "golden/inputs"


def test_a_sound_corpus_gives_no_warning():
    options = masked_pairs.InstanceOptions()
    assert record_contents.prediction_warnings(options) == []
    assert record_contents.corpus_warnings(2) == []


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


def test_a_script_without_capitals_has_accents_only_in_a_cased_vocabulary():
    # Vowel signs, which lower-casing strips like accents.
    words = [first + sign for first in "कखगघ" for sign in "ािीुू"]
    cased = record_contents.casing_warnings(words, do_lower_case=False)
    assert cased == []
    (text,) = record_contents.casing_warnings(words, do_lower_case=True)
    assert "8 of 20 tokens of the vocabulary have capitals or accents" in text
    stripped = ["क", "ख", "ग", "घ", "a"]
    for do_lower_case in (True, False):
        assert not record_contents.casing_warnings(
            stripped, do_lower_case=do_lower_case
        )
