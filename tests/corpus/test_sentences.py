"""Splitting into sentences."""

import hypothesis
import pytest
from hypothesis import strategies

from corpus import cleaning


@pytest.mark.parametrize(
    ("language", "paragraph", "expected"),
    [
        (
            "en",
            "Mr. Smith met Dr. J. R. Brown at 5 p.m. They spoke, e.g. of the "
            "U.S. budget.\nIt cost $3.50.",
            [
                "Mr. Smith met Dr. J. R. Brown at 5 p.m.",
                "They spoke, e.g. of the U.S. budget.",
                "It cost $3.50.",
            ],
        ),
        ("en", '"Really?" she said. "Yes!"', ['"Really?" she said.', '"Yes!"']),
        (
            "de",
            "Das ist z.B. so. Am 3. Mai.",
            ["Das ist z.B. so.", "Am 3. Mai."],
        ),
        ("zh", "他说。然后走了！", ["他说。", "然后走了！"]),
        ("hi", "वह गया।वह आया। अंत॥", ["वह गया।", "वह आया।", "अंत॥"]),
        ("ar", "هل ذهبت؟ نعم ذهبت.", ["هل ذهبت؟", "نعم ذهبت."]),
        ("ur", "وہ گیا۔ وہ آیا۔", ["وہ گیا۔", "وہ آیا۔"]),
        ("am", "ሄደ። መጣ፧ አዎ", ["ሄደ።", "መጣ፧", "አዎ"]),
        ("km", "ទៅ។ មក៕ «បាទ។» ទៅ", ["ទៅ។", "មក៕", "«បាទ។»", "ទៅ"]),
        ("bo", "བོད། ། ཡིག། ཡིག།", ["བོད། །", "ཡིག།", "ཡིག།"]),
        ("en", "It is སེང་གེ།་གཙང in Tibetan.", ["It is སེང་གེ།་གཙང in Tibetan."]),
        ("en", "", []),
        ("en", " \u00a0\n ", []),
        ("en", "no end", ["no end"]),
        ("en", " a \t\u2028 b\u00a0c. ", ["a b c."]),
    ],
)
def test_splits_at_the_ends_of_sentences(language, paragraph, expected):
    assert cleaning.split_paragraph(paragraph, language) == expected


def test_quotation_that_never_ends_does_not_swallow_the_rest():
    paragraph = '"Come in, she said. ' + "He came in and sat down. " * 50
    split = cleaning.split_paragraph(paragraph, "en")
    assert split[0] == '"Come in, she said.'
    assert split[1:] == ["He came in and sat down."] * 50


def test_opening_mark_stays_with_the_sentence_that_it_opens():
    split = cleaning._split_inside_quotations(
        '"He said yes. "Then he left (home).  ( So it was." No.', "en"
    )
    assert split == [
        '"He said yes. ',
        '"Then he left (home).  ',
        '( So it was." ',
        "No.",
    ]


@hypothesis.settings(deadline=None)
@hypothesis.given(
    strategies.text(alphabet="aB. !?\"'“”()\n\u00a0é。།។।", max_size=1500)
)
def test_words_and_their_order_are_kept(paragraph):
    split = cleaning.split_paragraph(paragraph, "en")
    assert "".join("".join(split).split()) == "".join(paragraph.split())
    assert all(s and s == " ".join(s.split()) for s in split)


@pytest.mark.parametrize("end", cleaning._ENDS)
def test_every_mark_that_ends_a_line_ends_a_sentence(end):
    assert cleaning.ends_sentence(f"ab{end}»")
    if end not in ":…":  # They may stand within a sentence.
        expected = [f"ab cd{end}", "ef gh"]
        assert cleaning.split_paragraph(" ".join(expected), "en") == expected
    assert not cleaning.ends_sentence(f"ab{end}c")
    assert not cleaning.ends_sentence("")


def test_time_grows_with_the_length_of_a_text_without_ends():
    text = "word " * 700_000
    assert cleaning.split_paragraph(text, "en") == [text.strip()]
