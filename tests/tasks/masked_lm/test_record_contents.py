"""What records hold, and warnings about pre-training data."""

import dataclasses
import pathlib
import re

import numpy as np
import pytest

from tasks.masked_lm import masked_pairs, record_contents

_VOCAB = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "a": 9}


def _batch(**changes):
    batch = {
        "input_ids": [[2, 4, 6, 3, 7, 3], [2, 5, 3, 9, 3, 0]],
        "input_mask": [[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0]],
        "masked_lm_positions": [[1, 2, 4], [3, 0, 0]],
        "masked_lm_ids": [[8, 6, 5], [1, 0, 0]],
        "masked_lm_weights": [[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]],
        "next_sentence_labels": [[1], [0]],
    }
    return {name: np.array(v) for name, v in {**batch, **changes}.items()}


def test_contents_by_hand():
    contents = record_contents.measure([_batch()], _VOCAB)
    assert contents.num_records == 2
    assert (contents.seq_length, contents.max_predictions) == (6, 3)
    assert (contents.lengths.mean, contents.lengths.largest) == (5.5, 6)
    assert contents.num_full == 1
    assert contents.num_random_next == 1
    assert contents.num_words == 5
    assert contents.num_predicted == 4
    assert contents.num_hidden == 1
    assert contents.num_same == 1
    assert contents.num_replaced == 2
    assert contents.num_full_predictions == 1
    assert contents.num_unknown == 1
    assert contents.num_repeated == 0
    assert contents.faults == {}
    assert record_contents.contents_warnings(contents) == []


def test_masking_is_undone():
    assert record_contents.original_ids(_batch()).tolist() == [
        [2, 8, 6, 3, 5, 3],
        [2, 5, 3, 1, 3, 0],
    ]


def test_the_same_text_masked_otherwise_is_a_repetition():
    again = _batch(
        input_ids=[[2, 8, 6, 3, 4, 3], [2, 5, 3, 4, 3, 0]],
        masked_lm_positions=[[4, 0, 0], [3, 0, 0]],
        masked_lm_ids=[[5, 0, 0], [1, 0, 0]],
        masked_lm_weights=[[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]],
    )
    contents = record_contents.measure([_batch(), again], _VOCAB)
    assert contents.num_repeated == 2
    assert contents.num_records == 4


def test_a_mask_of_bytes_has_no_fault():
    mask = np.array([[1, 1, 1, 1, 1, 0]] * 2, np.uint8)  # As made from text.
    contents = record_contents.measure([_batch(input_mask=mask)], _VOCAB)
    assert "padding between tokens" not in contents.faults


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"input_ids": [[2, 4, 6, 3, 10, 3]] * 2}, "beyond the vocabulary"),
        ({"masked_lm_ids": [[8, 6, 99]] * 2}, "beyond the vocabulary"),
        ({"input_ids": [[5, 4, 6, 3, 7, 3]] * 2}, r"no \[CLS\] at the start"),
        ({"input_mask": [[1, 1, 0, 1, 1, 1]] * 2}, "padding between tokens"),
        (
            {"input_mask": [[1, 1, 1, 1, 0, 0]] * 2},
            "a prediction in the padding",
        ),
        (
            {"masked_lm_positions": [[1, 1, 4], [3, 0, 0]]},
            "a place predicted twice",
        ),
        (
            {"masked_lm_positions": [[1, 2, 6], [3, 0, 0]]},
            "1 of 2 records have a prediction beyond the sequence",
        ),
        ({"masked_lm_ids": [[8, 3, 5]] * 2}, r"\[PAD\], \[CLS\] or \[SEP\]"),
        ({"masked_lm_weights": [[0.0] * 3] * 2}, "nothing to predict"),
    ],
)
def test_faults_are_named(changes, fault):
    contents = record_contents.measure([_batch(**changes)], _VOCAB)
    warnings = "\n".join(record_contents.contents_warnings(contents))

    assert re.search(fault, warnings)


def test_visible_answers_are_named():
    contents = record_contents.measure([_batch()], _VOCAB)
    seen = dataclasses.replace(contents, num_same=3)
    (warning,) = record_contents.contents_warnings(seen)
    assert "75% of the predicted tokens are unchanged" in warning


def test_there_must_be_records():
    with pytest.raises(ValueError, match="at least one record"):
        record_contents.measure([], _VOCAB)


_TOKENS = dict(
    enumerate(
        ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "run", "##ning", "a", "##b"]
    )
)
_STYLES = {
    record_contents.PLAIN: "{text}",
    record_contents.SPECIAL: "<{text}>",
    record_contents.HIDDEN: "?{text}",
    record_contents.SAME: "={text}",
    record_contents.REPLACED: "{shown}!{text}",
}


def _text(**record):
    arrays = {name: np.array(values) for name, values in record.items()}
    return record_contents.as_text(arrays, _TOKENS, _STYLES)


def test_what_is_masked_is_told_apart():
    assert (
        _text(
            input_ids=[1, 3, 5, 6, 4, 2, 0],
            input_mask=[1, 1, 1, 1, 1, 1, 0],
            masked_lm_positions=[1, 3, 4, 0],
            masked_lm_ids=[4, 6, 7, 0],
            masked_lm_weights=[1.0, 1.0, 1.0, 0.0],
        )
        == "<[CLS]> ?running =arun!b <[SEP]>"
    )


def test_a_text_shows_where_it_begins_and_what_is_no_token():
    text = _text(input_ids=[1, 5, 2, 7, 5, 2], input_mask=[1] * 6)
    assert text == "<[CLS]> ##ning <[SEP]> ##bning <[SEP]>"
    assert _text(input_ids=[6, 99], input_mask=[1, 1]) == "a <[id 99]>"


def test_braces_in_a_text_are_text():
    tokens = {0: "{text}", 1: "{0}"}
    record = {"input_ids": np.array([0, 1]), "input_mask": np.array([1, 1])}
    assert record_contents.as_text(record, tokens, _STYLES) == "{text} {0}"


def test_numbers_in_a_few_numbers():
    found = record_contents.summarize(np.arange(101)[::-1])
    assert found == record_contents.Distribution(
        count=101, mean=50.0, median=50.0, percentile_95=95.0, largest=100.0
    )


def test_no_numbers_are_zeros():
    nothing = record_contents.Distribution(
        count=0, mean=0.0, median=0.0, percentile_95=0.0, largest=0.0
    )
    for values in ([], np.zeros(0)):
        assert record_contents.summarize(values) == nothing


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


def test_too_many_random_pairs_are_a_warning():
    (text,) = record_contents.balance_warnings(61, 100)
    assert text.startswith("61% of the pairs")
    assert record_contents.balance_warnings(60, 100, 32) == []
    (short,) = record_contents.balance_warnings(61, 100, 32)
    assert "Longer sequences" in short
    (usual,) = record_contents.balance_warnings(61, 100, 128)
    assert "blank line between" in usual
