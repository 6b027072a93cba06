"""Kinds of characters, worked by hand, and how many Unicode has of each."""

import pytest

from vocab import characters


@pytest.mark.parametrize(
    ("claim", "true_of", "false_of"),
    [
        (
            characters.is_whitespace,
            " \t\n\r\xa0\u1680\u2003\u202f\u3000",
            "a-\x0b\x0c\x1c\x85\u200b\u2028\u2029",
        ),
        (
            characters.is_removed,
            "\0\x05\x0b\x0c\x1c\x7f\x85\xad\u200b\u200d\ufeff\ufffd",
            "a \t\n\r\xa0\u2028\ue000\ufffe\ud800\U0010ffff",
        ),
        (
            characters.is_combining_mark,
            "\u0301\u0345\u0e31\u20d0",
            "a^\xe9\u0903\u20dd",  # Mc and Me are kept.
        ),
        (
            characters.is_punctuation,
            "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\xa1\xb7\u2019\u3001\u0e4f",
            "aZ09 \t\n\x7f\xa3\xb4\xb1\u20ac\u2192\u2212\U0001f642",
        ),
        (
            characters.is_cjk_ideograph,
            "\u3400\u4dbf\u4e00\u9fff\uf900\ufaff"
            "\U00020000\U0002a6df\U0002a700\U0002ceaf\U0002f800\U0002fa1f",
            "a\u3042\u30a2\uac00\u3007\u33ff\u4dc0\ua000\ufb00"
            "\U0002a6e0\U0002ceb0\U0002f7ff\U0002fa20\U00030000",
        ),
    ],
)
def test_each_kind_has_its_members(claim, true_of, false_of):
    assert [char for char in true_of if not claim(char)] == []
    assert [char for char in false_of if claim(char)] == []


def test_cleaning_has_one_answer_for_each_character():
    assert not any(
        characters.is_removed(char)
        and (
            characters.is_whitespace(char) or characters.is_cjk_ideograph(char)
        )
        for char in map(chr, range(0x110000))
    )
