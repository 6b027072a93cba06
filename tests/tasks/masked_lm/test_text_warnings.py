import pytest

from tasks.masked_lm import text_warnings


@pytest.mark.parametrize(
    ("warnings", "words"),
    [
        (text_warnings.document_warnings(6, 10), "6 of 10 documents"),
        (text_warnings.sentence_warnings(65.0, 128), "are they paragraphs"),
        (text_warnings.word_warnings(1000, 1200, 11), "1.1% of the words"),
        (text_warnings.word_warnings(100, 201, 0), "2.0 pieces each"),
        (
            text_warnings.case_warnings(1, 2000, do_lower_case=False),
            "lower-cased already",
        ),
        (
            text_warnings.case_warnings(1900, 2000, do_lower_case=False),
            "95% of the letters are capitals",
        ),
        (text_warnings.repetition_warnings(11, 100), "11% of the lines"),
        (text_warnings.balance_warnings(61, 100, 128), "blank line between"),
        (text_warnings.balance_warnings(61, 100, 32), "Longer sequences"),
    ],
)
def test_what_looks_wrong_is_said_once(warnings, words):
    (warning,) = warnings
    assert words in warning


@pytest.mark.parametrize(
    "warnings",
    [
        text_warnings.document_warnings(5, 10),
        text_warnings.sentence_warnings(64.0, 128),
        text_warnings.word_warnings(1000, 1200, 10),
        text_warnings.word_warnings(0, 0, 0),
        text_warnings.case_warnings(0, 10, do_lower_case=False),
        text_warnings.case_warnings(0, 5000, do_lower_case=True),
        text_warnings.case_warnings(250, 5000, do_lower_case=False),
        text_warnings.repetition_warnings(10, 100),
        text_warnings.balance_warnings(60, 100, 32),
        text_warnings.balance_warnings(0, 0, 32),
    ],
)
def test_what_is_usual_is_left_alone(warnings):
    assert warnings == []
