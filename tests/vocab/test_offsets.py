"""The places of word pieces in a text, worked by hand."""

import itertools

import hypothesis
import pytest
from hypothesis import strategies as st

from vocab import tokenization

_PIECES = ("[UNK]", "a", "##a", "cafe", "##s", ".", "\u4e00", "\u1112")
_PIECES += ("##\u1161", "##\u11ab", "i", "##\u0307", "\u03c3", "##\u03c2")


def _tokenizer(folder, pieces=_PIECES, *, do_lower_case=True):
    path = folder / "vocab.txt"
    path.write_text("\n".join(pieces) + "\n", encoding="utf-8")
    return tokenization.FullTokenizer(str(path), do_lower_case)


def _spans(tokenizer, text):
    return tokenization.tokenize_with_offsets(
        tokenizer.basic_tokenizer, tokenizer.wordpiece_tokenizer, text
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \t", []),
        ("a", [("a", 0, 1)]),
        ("  A.a", [("a", 2, 3), (".", 3, 4), ("a", 4, 5)]),
        ("caf\xe9s", [("cafe", 0, 4), ("##s", 4, 5)]),
        # Accents written apart belong to no piece, nor do controls.
        ("cafe\u0301s", [("cafe", 0, 4), ("##s", 5, 6)]),
        ("c\x00afe\u0301 \x00a", [("cafe", 0, 5), ("a", 8, 9)]),
        ("\ud55c", [("\u1112", 0, 1), ("##\u1161", 0, 1), ("##\u11ab", 0, 1)]),
        ("a\u4e00a", [("a", 0, 1), ("\u4e00", 1, 2), ("a", 2, 3)]),
        ("\u0130a", [("i", 0, 1), ("##a", 1, 2)]),
        ("\u03a3\u03a3.", [("\u03c3", 0, 1), ("##\u03c2", 1, 2), (".", 2, 3)]),
        (" qqq\u0301 a", [("[UNK]", 1, 4), ("a", 6, 7)]),
        (" " + "a" * 201 + ".", [("[UNK]", 1, 202), (".", 202, 203)]),
        (b"\xffa\xff a", [("a", 0, 1), ("a", 2, 3)]),
    ],
)
def test_places_worked_by_hand(tmp_path, text, expected):
    spans = _spans(_tokenizer(tmp_path), text)
    assert [(s.piece, s.start, s.end) for s in spans] == expected


def test_marks_in_another_order_trade_places(tmp_path):
    # Class 9 comes before class 216, whatever was written first.
    pieces = ["[UNK]", "a", "##\u1b44", "##\U0001d165"]
    spans = _spans(_tokenizer(tmp_path, pieces), "a\U0001d165\u0301\u1b44")
    assert [(s.piece, s.start, s.end) for s in spans] == [
        ("a", 0, 1),
        ("##\u1b44", 1, 2),
        ("##\U0001d165", 3, 4),
    ]


@hypothesis.given(
    text=st.text(st.sampled_from("aAq.\u0301\x00 \u4e00\ud55c\u0130\u03a3s")),
    do_lower_case=st.booleans(),
)
@hypothesis.settings(deadline=None)
def test_pieces_are_the_tokenizers_and_places_ascend(
    tmp_path_factory, text, do_lower_case
):
    tokenizer = _tokenizer(
        tmp_path_factory.mktemp("any"), do_lower_case=do_lower_case
    )
    spans = _spans(tokenizer, text)
    assert [span.piece for span in spans] == tokenizer.tokenize(text)
    assert all(0 <= s.start < s.end <= len(text) for s in spans)
    assert all(
        one.start <= two.start and one.end <= two.end
        for one, two in itertools.pairwise(spans)
    )


def test_text_of_another_type_is_refused(tmp_path):
    with pytest.raises(ValueError, match="must be str or bytes; got int"):
        _spans(_tokenizer(tmp_path), 7)
