import json
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.squad import squad_text
from vocab import tokenization

_FUNCTIONS = (
    pathlib.Path(__file__).parents[2] / "golden" / "squad" / "functions.json"
)


def _released_cases():
    return json.loads(_FUNCTIONS.read_text())["get_final_text"]


@pytest.mark.parametrize("case", _released_cases())
def test_final_text_is_that_of_the_release(case):
    text = squad_text.get_final_text(
        case["pred_text"],
        case["orig_text"],
        tokenization.BasicTokenizer(case["do_lower_case"]),
    )
    assert text == case["final_text"]


@pytest.mark.parametrize(
    ("pred_text", "orig_text", "final_text"),
    [
        ("steve smith", "Steve Smith's", "Steve Smith"),
        ("smith ' s", "Steve Smith's", "Smith's"),
        # Nothing to find, nothing found, nothing to find it in.
        ("", "Smith", "Smith"),
        ("jones", "Smith", "Smith"),
        ("smith", "", ""),
        # Lower case of U+0130 is two characters, of which NFD drops one.
        ("istanbul", "(İstanbul)", "İstanbul"),
        # A removed character changes the count: all is given back.
        ("smith", "(Sm\u00adith)", "(Sm\u00adith)"),
    ],
)
def test_final_text_is_counted_without_spaces(pred_text, orig_text, final_text):
    tokenizer = tokenization.BasicTokenizer()
    assert (
        squad_text.get_final_text(pred_text, orig_text, tokenizer) == final_text
    )


def test_pieces_join_to_words():
    pieces = ["un", "##aff", "##able", ",", "#", "[UNK]", "##s"]
    assert squad_text.join_pieces(pieces) == "unaffable , # [UNK]s"
    assert squad_text.join_pieces(["##able", "."]) == "able ."
    assert squad_text.join_pieces([]) == ""


@given(
    st.lists(
        st.text(st.characters(exclude_characters=" "), min_size=1), max_size=8
    ),
    st.booleans(),
)
def test_words_tokenized_alone_are_those_of_the_text(words, do_lower_case):
    tokenizer = tokenization.BasicTokenizer(do_lower_case)
    basic_text = squad_text.BasicText(tokenizer)
    expected = " ".join(tokenizer.tokenize(" ".join(words)))
    assert basic_text(words) == expected
    assert basic_text(words) == expected  # From memory.
