import pytest

from vocab import extending, tokenization

_ENTRIES = [
    *("[PAD]", "[unused0]", "[UNK]", "[unused1]", "un", "##able", "##ed"),
    *("able", "a", "##b", "[unused2]", "[unusedx]"),
]


@pytest.fixture
def tokenizer(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(_ENTRIES) + "\n")
    return tokenization.FullTokenizer(str(path), do_lower_case=True)


def test_free_places_are_the_numbered_ones():
    assert extending.free_places(_ENTRIES) == [1, 3, 10]


def test_words_that_save_most_come_first(tokenizer):
    counts = {
        "unable": 5,  # un ##able: saves 1 each.
        "unableed": 4,  # un ##able ##ed: saves 2 each.
        "xyz": 2,  # unknown: counts as three letters.
        "able": 100,  # an entry already.
        "ab": 1,  # too rare.
        "12": 50,  # no letter.
    }
    chosen = extending.choose_words(
        counts, tokenizer.wordpiece_tokenizer, num_words=9, min_count=2
    )
    assert [(word.word, word.num_saved) for word in chosen] == [
        ("unableed", 8),
        ("xyz", 6),
        ("unable", 5),
    ]
    assert chosen[0].pieces == ("un", "##able", "##ed")
    first = extending.choose_words(
        counts, tokenizer.wordpiece_tokenizer, num_words=1, min_count=2
    )
    assert first == chosen[:1]


def test_equals_come_by_the_alphabet(tokenizer):
    chosen = extending.choose_words(
        {"uned": 2, "abed": 1, "unb": 2},
        tokenizer.wordpiece_tokenizer,
        num_words=9,
        min_count=1,
    )
    assert [word.word for word in chosen] == ["abed", "unb", "uned"]


def test_words_take_free_places_and_no_id_changes():
    filled = extending.fill(_ENTRIES, ["new", "words"])
    assert filled[1] == "new"
    assert filled[3] == "words"
    assert [e for i, e in enumerate(filled) if i not in (1, 3)] == [
        e for i, e in enumerate(_ENTRIES) if i not in (1, 3)
    ]


def test_a_word_that_is_put_in_is_one_piece(tokenizer, tmp_path):
    path = tmp_path / "more.txt"
    path.write_text("\n".join(extending.fill(_ENTRIES, ["unableed"])) + "\n")
    extended = tokenization.FullTokenizer(str(path))
    assert tokenizer.tokenize("Unableed") == ["un", "##able", "##ed"]
    assert extended.tokenize("Unableed unable") == ["unableed", "un", "##able"]


def test_there_must_be_room():
    with pytest.raises(ValueError, match="each of 4 words; it has 3"):
        extending.fill(_ENTRIES, ["a1", "a2", "a3", "a4"])


def test_given_words_are_taken_once_and_in_order(tokenizer):
    words = [" new ", "", "able", "word", "new"]
    assert extending.check_words(words, tokenizer) == ["new", "word"]


@pytest.mark.parametrize("word", ["covid-19", "Upper", "two words", "é"])
def test_a_given_word_must_be_one_to_the_tokenizer(tokenizer, word):
    with pytest.raises(ValueError, match="must be one word as the tokenizer"):
        extending.check_words([word], tokenizer)
