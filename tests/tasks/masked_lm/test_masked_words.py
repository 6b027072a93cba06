import numpy as np

from tasks.masked_lm import masked_words

_TOKENS = dict(
    enumerate(
        ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "run", "##ning", "a", "##b"]
    )
)
_STYLES = {
    masked_words.PLAIN: "{text}",
    masked_words.SPECIAL: "<{text}>",
    masked_words.HIDDEN: "?{text}",
    masked_words.SAME: "={text}",
    masked_words.REPLACED: "{shown}!{text}",
}


def _text(**record):
    arrays = {name: np.array(values) for name, values in record.items()}
    return masked_words.as_text(masked_words.pieces(arrays, _TOKENS), _STYLES)


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


def test_a_text_that_begins_within_a_word_shows_it():
    text = _text(input_ids=[1, 5, 2, 7, 5, 2], input_mask=[1] * 6)
    assert text == "<[CLS]> ##ning <[SEP]> ##bning <[SEP]>"


def test_an_id_without_a_token_is_shown_as_a_number():
    assert _text(input_ids=[6, 99], input_mask=[1, 1]) == "a <[id 99]>"


def test_braces_in_a_text_are_text():
    tokens = {0: "{text}", 1: "{0}"}
    record = {"input_ids": np.array([0, 1]), "input_mask": np.array([1, 1])}
    pieces = masked_words.pieces(record, tokens)
    assert masked_words.as_text(pieces, _STYLES) == "{text} {0}"
