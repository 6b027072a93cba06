"""The tokenizer against the release's measured outputs and restated rules."""

import dataclasses
import itertools
import json
import pickle
import unicodedata

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.support import locations
from vocab import tokenization

_GOLDEN = locations.GOLDEN
_RELEASED_VOCABULARIES = locations.SHARED / "data/vocab"
_EXTRA = json.loads((_GOLDEN / "tokenization_extra.json").read_text("utf-8"))
_CASES = [
    json.loads(line)
    for line in (_GOLDEN / "tokenization.jsonl").read_bytes().splitlines()
]


@pytest.fixture(scope="module")
def uncased():
    return tokenization.FullTokenizer(str(_GOLDEN / "inputs" / "vocab.txt"))


@pytest.fixture(scope="module")
def cased():
    return tokenization.FullTokenizer(
        str(_GOLDEN / "inputs" / "vocab_cased.txt"), do_lower_case=False
    )


def _vocab_file(folder, text):
    path = folder / "vocab.txt"
    path.write_bytes(text.encode("utf-8"))
    return str(path)


# ---------------------------------------------------- The release's outputs


@pytest.mark.parametrize("case", _CASES, ids=lambda c: f"{c['i']}-{c['tag']}")
def test_text_gives_the_tokens_and_ids_of_the_release(case, uncased, cased):
    text = case["text"]
    assert uncased.basic_tokenizer.tokenize(text) == case["basic_lower"]
    assert cased.basic_tokenizer.tokenize(text) == case["basic_cased"]
    for tokenizer, name in (uncased, "lower"), (cased, "cased"):
        tokens = tokenizer.tokenize(text)
        assert tokens == case[f"full_{name}"]
        assert tokenizer.convert_tokens_to_ids(tokens) == case[f"ids_{name}"]
        assert tokenizer.convert_ids_to_tokens(case[f"ids_{name}"]) == tokens


@pytest.mark.parametrize("case", _EXTRA["bytes"], ids=lambda c: c["hex"])
def test_bytes_are_decoded_as_the_release_does(case, uncased):
    text = bytes.fromhex(case["hex"])
    assert tokenization.convert_to_unicode(text) == case["unicode"]
    assert tokenization.printable_text(text) == case["printable"]
    assert uncased.tokenize(text) == case["full_lower"]


@pytest.mark.parametrize("case", _EXTRA["wordpiece"]["cases"])
def test_word_gives_the_pieces_of_the_release(case):
    tokenizer = tokenization.WordpieceTokenizer(
        vocab=_EXTRA["wordpiece"]["vocab"], **case["kwargs"]
    )
    for _ in range(2):  # The second answer comes from memory.
        assert tokenizer.tokenize(case["text"]) == case["tokens"]


def test_vocabulary_file_gives_the_items_of_the_release(tmp_path):
    path = _vocab_file(tmp_path, _EXTRA["load_vocab"]["file_text"])
    items = [tuple(item) for item in _EXTRA["load_vocab"]["items"]]
    assert list(tokenization.load_vocab(path).items()) == items


def test_a_blank_line_keeps_the_ids_of_the_entries_after_it(tmp_path):
    path = _vocab_file(tmp_path, "[UNK]\n\nrain\n\n")
    entries = tokenization.read_entries(path)
    assert entries == ["[UNK]", "", "rain"]
    vocab = tokenization.load_vocab(path)
    assert vocab["rain"] == entries.index("rain") == 2


@pytest.mark.parametrize(
    ("do_lower_case", "init_checkpoint", "outcome"),
    [*_EXTRA["validate_case"], (True, None, "ok"), (False, "", "ok")],
)
def test_case_check_knows_the_checkpoints_the_release_knows(
    do_lower_case, init_checkpoint, outcome
):
    check = tokenization.validate_case_matches_checkpoint
    if outcome == "ok":
        check(do_lower_case, init_checkpoint)
        return
    with pytest.raises(ValueError, match=f"do_lower_case={not do_lower_case}"):
        check(do_lower_case, init_checkpoint)


@dataclasses.dataclass(frozen=True)
class _Options:
    vocab_file: str
    do_lower_case: bool = True
    strip_accents: bool | None = None
    init_checkpoint: str | None = None


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("strip", [True, False, None])
def test_the_tokenizer_of_a_run_has_its_casing(lower, strip):
    vocab_file = str(_GOLDEN / "inputs/vocab.txt")
    options = _Options(vocab_file, lower, strip)
    rules = tokenization.open_tokenizer(options).basic_tokenizer
    assert rules == tokenization.BasicTokenizer(lower, strip)
    name = f"{'' if lower else 'un'}cased_L-12_H-768_A-12/bert_model.ckpt"
    other = dataclasses.replace(options, init_checkpoint=f"/models/{name}")
    with pytest.raises(ValueError, match=f"do_lower_case is {lower}, but acc"):
        tokenization.open_tokenizer(other)


def test_the_tokenizer_of_a_run_has_the_tokens_that_it_needs(tmp_path):
    options = _Options(_vocab_file(tmp_path, "[UNK]\n[CLS]\n"))
    tokenization.open_tokenizer(options, "[CLS]")
    with pytest.raises(ValueError, match=r"it lacks \[SEP\]\."):
        tokenization.open_tokenizer(options)
    with pytest.raises(ValueError, match=r"it lacks \[MASK\]\."):
        tokenization.open_tokenizer(options, "[CLS]", "[MASK]")


# ------------------------------------- Every code point, the rules restated


def _restated(text, *, do_lower_case):
    """The rules one at a time, a word at a time, with nothing shared."""
    words = []
    for word in "".join(map(_restated_cleaning, text)).split():
        folded = _restated_folding(word) if do_lower_case else word
        for is_mark, run in itertools.groupby(folded, _restated_punctuation):
            chars = list(run)
            words += chars if is_mark else ["".join(chars)]
    return words


def _restated_folding(word):
    decomposed = unicodedata.normalize("NFD", word.lower())
    return "".join(c for c in decomposed if unicodedata.category(c) != "Mn")


def _restated_cleaning(char):
    code = ord(char)
    category = unicodedata.category(char)
    if category == "Zs" or char in "\t\n\r":
        return " "
    if category in ("Cc", "Cf") or code in (0, 0xFFFD):
        return ""
    if (
        0x3400 <= code < 0x4DC0
        or 0x4E00 <= code < 0xA000
        or 0xF900 <= code < 0xFB00
        or 0x20000 <= code < 0x2A6E0
        or 0x2A700 <= code < 0x2CEB0
        or 0x2F800 <= code < 0x2FA20
    ):
        return f" {char} "
    return char


def _restated_punctuation(char):
    return char in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~" or (
        ord(char) > 127 and unicodedata.category(char)[0] == "P"
    )


_CONTEXTS = ["a{}b", "{}", " {} ", "A{}", "\u03a3{}\u0301?", "?{}\u4e00"]


@pytest.mark.parametrize("do_lower_case", [True, False])
@pytest.mark.parametrize(
    ("context", "step"),
    [
        ("a{}b", 97),
        *(pytest.param(c, 1, marks=pytest.mark.slow) for c in _CONTEXTS),
    ],
)
def test_every_code_point_follows_the_rules(context, step, do_lower_case):
    tokenize = tokenization.BasicTokenizer(do_lower_case).tokenize
    codes = [*range(0xD800), *range(0xE000, 0x110000)]
    assert len(codes) == 1_112_064
    # Every assigned one, and one in so many of those for private use or none.
    codes = [
        code
        for code in codes
        if code % step == 0
        or unicodedata.category(chr(code)) not in ("Cn", "Co")
    ]
    texts = [context.format(chr(code)) for code in codes]
    assert [
        hex(code)
        for code, text in zip(codes, texts, strict=True)
        if tokenize(text) != _restated(text, do_lower_case=do_lower_case)
    ] == []


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_every_surrogate_is_kept(do_lower_case):
    tokenize = tokenization.BasicTokenizer(do_lower_case).tokenize
    assert all(
        tokenize(f"a{chr(code)}b ") == [f"a{chr(code)}b"]
        for code in range(0xD800, 0xE000)
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a\x0bb\x1cc\x85d\u200be", ["abcde"]),
        ("a\u2028b\u2029c\u3000d\u202fe", ["a", "b", "c", "d", "e"]),
        ("\u20ac5 + $5", ["\u20ac5", "+", "$", "5"]),
        ("\U0002ceb0\U0002ceaf", ["\U0002ceb0", "\U0002ceaf"]),
        ("\u226e\u037e", ["<", ";"]),
        ("\u0399\u03a3 \u03a3", ["\u03b9\u03c2", "\u03c3"]),
        ("\u0301 \u200d \ufffd", []),
        ("\u0130\u00c5\u017f", ["ia\u017f"]),
        ("[MASK]", ["[", "mask", "]"]),
    ],
)
def test_words_worked_by_hand(text, words):
    assert tokenization.BasicTokenizer().tokenize(text) == words


# ----------------------------------------------------------- Random strings

# Code points that the rules tell apart, more often than chance gives them.
_TELLING = (
    "aA \t\n\r\x00\x0b\x1c\x85\xad\u0301\u0338\u0345\u03a3\u03c3\u0130'?[]#$"
    "\u2028\u200d\u3000\ufffd\u4e00\uf900\uac00\u1100\u0f77\u1fb6\u226e\u037e"
    "\U00011099\U0002f800\ud800\udfff"
)
_TEXTS = st.text(
    st.one_of(st.sampled_from(_TELLING), st.characters(codec=None))
)


@hypothesis.given(text=_TEXTS, do_lower_case=st.booleans())
@hypothesis.settings(max_examples=1000)
def test_any_string_follows_the_rules(text, do_lower_case):
    words = tokenization.BasicTokenizer(do_lower_case).tokenize(text)
    assert words == _restated(text, do_lower_case=do_lower_case)


@hypothesis.given(texts=st.lists(_TEXTS, max_size=4))
def test_texts_joined_by_spaces_give_their_words_in_turn(texts):
    tokenize = tokenization.BasicTokenizer().tokenize
    assert tokenize(" ".join(texts)) == [
        word for text in texts for word in tokenize(text)
    ]


_PIECES = st.sets(st.text("abc#", min_size=1, max_size=4), max_size=12)


@hypothesis.given(pieces=_PIECES, word=st.text("abc#", min_size=1, max_size=9))
def test_pieces_are_the_longest_that_fit_and_spell_the_word(pieces, word):
    result = tokenization.WordpieceTokenizer(pieces).tokenize(word)
    rest, expected = word, []
    while rest:
        mark = "##" if expected else ""
        fitting = [
            rest[:end]
            for end in range(1, len(rest) + 1)
            if mark + rest[:end] in pieces
        ]
        if not fitting:
            expected = ["[UNK]"]
            break
        expected.append(mark + fitting[-1])
        rest = rest[len(fitting[-1]) :]
    assert result == expected


# ------------------------------------------------------ Lengths and objects


def test_word_of_more_than_200_code_points_is_unknown():
    tokenizer = tokenization.WordpieceTokenizer({"a", "##a"})
    assert tokenizer.tokenize("a" * 200) == ["a"] + ["##a"] * 199
    assert tokenizer.tokenize("a" * 201) == ["[UNK]"]


def test_length_is_counted_after_decomposition(tmp_path):
    # One hangul syllable decomposes to three letters.
    path = _vocab_file(tmp_path, "[UNK]\n\u1112\n##\u1112\n##\u1161\n##\u11ab")
    tokenizer = tokenization.FullTokenizer(path)
    assert len(tokenizer.tokenize("\ud55c" * 66)) == 198
    assert tokenizer.tokenize("\ud55c" * 67) == ["[UNK]"]


def test_tokenizer_survives_pickling(uncased):
    copy = pickle.loads(pickle.dumps(uncased))
    text = "H\xc5KANSSON's tidetables"
    assert copy.tokenize(text) == uncased.tokenize(text)
    assert copy.vocab == uncased.vocab


def test_empty_text_and_empty_vocabulary(uncased, tmp_path):
    assert uncased.tokenize("") == []
    empty = tokenization.FullTokenizer(_vocab_file(tmp_path, ""))
    assert empty.vocab == {}
    assert empty.tokenize("a b") == ["[UNK]", "[UNK]"]
    # Blank lines at the end need no embedding.
    path = _vocab_file(tmp_path, "[UNK]\n\na\n\n \n")
    tokenizer = tokenization.FullTokenizer(path)
    assert tokenizer.vocab == {"[UNK]": 0, "a": 2, "": 4}
    assert tokenizer.vocab_size == 3
    # The second of two equal lines has the id.
    path = _vocab_file(tmp_path, "[UNK]\na\nb\na\n")
    assert tokenization.FullTokenizer(path).vocab_size == 4


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "entries"),
    [
        ("uncased", 30522),
        ("cased", 28996),
        ("chinese", 21128),
        ("multilingual_cased", 119547),
    ],
)
def test_released_vocabularies_load_whole(name, entries):
    path = _RELEASED_VOCABULARIES / f"{name}.txt"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    tokenizer = tokenization.FullTokenizer(str(path))
    tokenizer.require_tokens("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    assert list(tokenizer.vocab.values()) == list(range(entries))
    assert tokenizer.inv_vocab[0] == "[PAD]"


# ------------------------------------------------------------------- Errors


def test_text_of_another_type_is_refused(uncased):
    for function in (
        tokenization.convert_to_unicode,
        tokenization.printable_text,
        uncased.tokenize,
        uncased.wordpiece_tokenizer.tokenize,
    ):
        with pytest.raises(ValueError, match="must be str or bytes; got int"):
            function(7)


def test_unknown_token_or_id_is_named(uncased):
    with pytest.raises(
        KeyError, match="'qzx' is not in the vocabulary of 1200"
    ):
        uncased.convert_tokens_to_ids(["the", "qzx"])
    with pytest.raises(KeyError, match="1200 is not in the vocabulary of 1200"):
        uncased.convert_ids_to_tokens([0, 1200])


def test_missing_special_tokens_are_named(tmp_path):
    path = _vocab_file(tmp_path, "[CLS]\n[UNK]\na\n")
    tokenizer = tokenization.FullTokenizer(path)
    tokenizer.require_tokens("[CLS]", "[UNK]")
    with pytest.raises(
        ValueError, match=r"vocab\.txt .* lacks \[SEP\], \[MASK\]"
    ):
        tokenizer.require_tokens("[CLS]", "[SEP]", "[MASK]")


def test_vocabulary_must_be_a_file_in_utf8(tmp_path):
    path = tmp_path / "latin1.txt"
    path.write_bytes(b"[UNK]\ncaf\xe9\n")
    with pytest.raises(ValueError, match=r"latin1\.txt, line 2: not UTF-8"):
        tokenization.FullTokenizer(str(path))
    with pytest.raises(FileNotFoundError):
        tokenization.FullTokenizer(str(tmp_path / "none.txt"))


# ------------------------------------------------------- Kinds of characters


@pytest.mark.parametrize(
    ("claim", "true_of", "false_of"),
    [
        (
            tokenization.is_whitespace,
            " \t\n\r\xa0\u1680\u2003\u202f\u3000",
            "a-\x0b\x0c\x1c\x85\u200b\u2028\u2029",
        ),
        (
            tokenization.is_removed,
            "\0\x05\x0b\x0c\x1c\x7f\x85\xad\u200b\u200d\ufeff\ufffd",
            "a \t\n\r\xa0\u2028\ue000\ufffe\ud800\U0010ffff",
        ),
        (
            tokenization.is_combining_mark,
            "\u0301\u0345\u0e31\u20d0",
            "a^\xe9\u0903\u20dd",  # Mc and Me are kept.
        ),
        (
            tokenization.is_punctuation,
            "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\xa1\xb7\u2019\u3001\u0e4f",
            "aZ09 \t\n\x7f\xa3\xb4\xb1\u20ac\u2192\u2212\U0001f642",
        ),
        (
            tokenization.is_cjk_ideograph,
            "\u3400\u4dbf\u4e00\u9fff\uf900\ufaff"
            "\U00020000\U0002a6df\U0002a700\U0002ceaf\U0002f800\U0002fa1f"
            # Ends and starts of extensions C to E.
            "\U0002b73f\U0002b740\U0002b81f\U0002b820",
            "a\u3042\u30a2\uac00\u3007\u33ff\u4dc0\ua000\ufb00"
            "\U0002a6e0\U0002ceb0\U0002f7ff\U0002fa20\U00030000",
        ),
    ],
)
def test_each_kind_has_its_members(claim, true_of, false_of):
    assert [char for char in true_of if not claim(char)] == []
    assert [char for char in false_of if claim(char)] == []


@pytest.mark.parametrize(
    ("rules", "folded"),
    [
        ((True, True), "stra\xdfe ca\u0142 e"),
        ((True, False), "stra\xdfe ca\u0142 \xe9"),
        ((False, True), "Stra\xdfe CA\u0141 E"),
        ((False, False), "Stra\xdfe CA\u0141 \xc9"),
    ],
)
def test_folding_lower_cases_and_strips_as_the_rules_say(rules, folded):
    text = "Stra\xdfe CA\u0141 \xc9"
    assert tokenization.BasicTokenizer(*rules).fold(text) == folded


def test_cleaning_has_one_answer_for_each_character():
    assert not any(
        tokenization.is_removed(char)
        and (
            tokenization.is_whitespace(char)
            or tokenization.is_cjk_ideograph(char)
        )
        for char in map(chr, range(0x110000))
    )
