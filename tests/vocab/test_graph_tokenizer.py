"""The in-graph tokenizer against the tokenizer's definition."""

import itertools
import json
import random
import re
import unicodedata

import hypothesis
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from tests.fuzz import harness
from tests.support import locations, offsets, programs
from vocab import graph_tokenizer, tokenization

_GOLDEN = locations.GOLDEN
_RELEASED_VOCABULARIES = locations.SHARED / "data/vocab"
_CASES = [
    json.loads(line)
    for line in (_GOLDEN / "tokenization.jsonl").read_bytes().splitlines()
]
# No UTF-8 text has a lone surrogate.
_CASES = [
    case for case in _CASES if not re.search("[\ud800-\udfff]", case["text"])
]
_TEXTS = [case["text"] for case in _CASES]
_BYTES = json.loads((_GOLDEN / "tokenization_extra.json").read_text("utf-8"))[
    "bytes"
]
_CODE_POINTS = [*range(0xD800), *range(0xE000, 0x110000)]
_CONTEXTS = ("{}", "a{}b", "x {} y")

# Code points that the rules tell apart, more often than chance gives them.
_TELLING = (
    "aA \t\n\r\x00\x0b\x1c\x85\xad\u0301\u0338\u0345\u03a3\u03a3\u03c3\u0130'?"
    "[]#$\u2028\u200d\u3000\ufffd\u4e00\uf900\uac00\u1100\u0f77\u1fb6\u226e"
    "\u037e\U00011099\U0002f800\ue000\ufeff\u302e\u1b44\ua9c0\U00016ff0\u0334"
    "\u0900\U0001d15f\U0001d160\U0001d16d\U0001d165\u1b7f\U00011f43\U0001e5ff"
)


def _tokenizer(folder, pieces, *, do_lower_case=True, strip_accents=None):
    path = folder / "vocab.txt"
    path.write_bytes("".join(f"{p}\n" for p in pieces).encode("utf-8"))
    return graph_tokenizer.GraphTokenizer(
        str(path), do_lower_case, strip_accents
    )


@pytest.fixture
def _eagerly():
    """Traces no graph, which takes seconds for each vocabulary.

    The tests of `golden` run in graphs.
    """
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def _encoded(texts):
    return tf.constant(
        [t.encode() if isinstance(t, str) else t for t in texts], tf.string
    )


def _spans(tokenizer, texts):
    """Tokenizes in a graph: a list of `(id, start, end)` per text."""
    found = tokenizer.tokenize_with_offsets(_encoded(texts))
    columns = [found[name].to_list() for name in ("ids", "starts", "ends")]
    return [list(zip(*row, strict=True)) for row in zip(*columns, strict=True)]


def _defined(tokenizer, texts):
    """Tokenizes by the definition: a list of `(id, start, end)` per text."""
    definition = tokenizer.definition
    return [
        [
            (definition.vocab[span.piece], span.start, span.end)
            for span in offsets.spans_of(definition, text)
        ]
        for text in texts
    ]


def _words(tokenizer, texts):
    # Words show a difference that unknown pieces hide.
    rules = tokenizer._splitter._rules
    return graph_tokenizer.split(_encoded(texts), rules).words.to_list()


def _differences(tokenizer, texts):
    """Returns the texts that any function cuts differently."""
    definition = tokenizer.definition
    plain = tokenizer.tokenize(_encoded(texts)).to_list()
    words = _words(tokenizer, texts)
    spans = _spans(tokenizer, texts)
    defined = _defined(tokenizer, texts)
    wrong = []
    for row, text in enumerate(texts):
        basic = definition.basic_tokenizer.tokenize(text)
        pieces = definition.tokenize(text)
        expected = definition.convert_tokens_to_ids(pieces)
        if (
            plain[row] != expected
            or spans[row] != defined[row]
            or words[row] != [word.encode() for word in basic]
        ):
            wrong.append(text)
    return wrong


def _spelling_vocabulary(chars):
    """A vocabulary that spells every character, so that none is hidden."""
    chars = [char for char in chars if not char.isspace()]
    return ["[UNK]", *chars, *(f"##{char}" for char in chars)]


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
def golden(request):
    name = "vocab.txt" if request.param else "vocab_cased.txt"
    return graph_tokenizer.GraphTokenizer(
        str(_GOLDEN / "inputs" / name), request.param
    )


_RULES = {
    "uncased": (True, True),
    "cased": (False, False),
    "lower": (True, False),
    "unaccented": (False, True),
}


@pytest.fixture(scope="module", params=_RULES.values(), ids=_RULES.keys())
def spelling(request, tmp_path_factory):
    """Knows every assigned character and some that are wrongly cut apart."""
    chars = [
        char
        for code in _CODE_POINTS
        if unicodedata.category(char := chr(code)) not in ("Cn", "Co")
        and unicodedata.category(char) != "Lo"
    ]
    more = "\u4e00\uf900\U0002f800\u1112\u1161\u11ab\u05d0\u0905\ue001\u1b7f"
    return _tokenizer(
        tmp_path_factory.mktemp("spelling"),
        _spelling_vocabulary([*chars, *more, "\U00011f43"]),
        do_lower_case=request.param[0],
        strip_accents=request.param[1],
    )


# -------------------------------------------------------- Against the release


def test_texts_give_the_ids_of_the_release(golden):
    do_lower_case = golden.definition.basic_tokenizer.do_lower_case
    key = "ids_lower" if do_lower_case else "ids_cased"
    ids = golden.tokenize(_encoded([case["text"] for case in _CASES]))
    assert ids.to_list() == [case[key] for case in _CASES]
    assert ids.dtype == tf.int32


def test_bytes_that_are_not_utf8_are_skipped(golden):
    texts = [bytes.fromhex(case["hex"]) for case in _BYTES]
    assert _differences(golden, texts) == []


# ----------------------------------------------------- Against the definition


@pytest.mark.slow
def test_every_fortieth_code_point_inside_a_word(golden):
    texts = [f"a{chr(code)}b" for code in _CODE_POINTS[::40]]
    assert _differences(golden, texts) == []


@pytest.mark.usefixtures("_eagerly")
def test_characters_that_the_rules_name_in_every_pair(spelling):
    texts = [
        f"a{one}{two}b" for one, two in itertools.product(_TELLING, repeat=2)
    ]
    assert _differences(spelling, texts) == []


@pytest.mark.slow
@pytest.mark.parametrize("context", _CONTEXTS)
def test_every_code_point(context, spelling):
    assert len(_CODE_POINTS) == 1_112_064
    texts = [context.format(chr(code)) for code in _CODE_POINTS]
    # All at once take 10 GB.
    for start in range(0, len(texts), 50_000):
        assert _differences(spelling, texts[start : start + 50_000]) == []


def _random_text(rng):
    """A string of words from a few scripts, of marks and of odd characters."""
    blocks = ((0x20, 0x7F), (0xA0, 0x250), (0x300, 0x370), (0x370, 0x530))
    blocks += ((0x590, 0x700), (0x900, 0xE00), (0x1100, 0x1200))
    blocks += ((0x1B00, 0x1C00), (0x1E00, 0x2070), (0x3000, 0x3100))
    blocks += ((0x4E00, 0x5000), (0xA980, 0xAA00), (0xAC00, 0xB000))
    blocks += ((0xF900, 0xFFFE), (0x11000, 0x11400), (0x16FE0, 0x16FF2))
    blocks += ((0x1D158, 0x1D1C0), (0x20000, 0x20100), (0x0, 0x110000))
    chosen = rng.sample(blocks, k=3)
    chars = []
    for _ in range(rng.randint(0, 40)):
        kind = rng.random()
        if kind < 0.15:
            chars.append(" ")
        elif kind < 0.4:
            chars.append(rng.choice(_TELLING))
        elif kind < 0.41:
            chars.append(rng.choice(_TELLING) * rng.randint(1, 230))
        else:
            chars.append(chr(rng.randrange(*rng.choice(chosen))))
    return "".join(chars).encode("utf-8", "ignore").decode()


@pytest.mark.usefixtures("_eagerly")
@pytest.mark.parametrize(
    "num_texts", [500, pytest.param(200_000, marks=pytest.mark.slow)]
)
def test_random_strings_of_mixed_scripts(num_texts, spelling):
    rng = random.Random(num_texts)
    for _ in range(0, num_texts, 50_000):
        texts = [_random_text(rng) for _ in range(min(num_texts, 50_000))]
        assert _differences(spelling, texts) == []


@pytest.mark.usefixtures("_eagerly")
@pytest.mark.parametrize("num_cases", harness.suites(3, 800))
def test_any_string(spelling, num_cases):
    chars = st.sampled_from(_TELLING) | st.characters(codec="utf-8")

    # Many at a time: most of the time is that of a call.
    @harness.examples(num_cases)
    @hypothesis.given(st.lists(st.text(chars), min_size=25, max_size=25))
    def claim(texts):
        assert _differences(spelling, texts) == []

    claim()


@pytest.mark.usefixtures("_eagerly")
@pytest.mark.parametrize(
    "seed",
    [
        *range(4),
        *(pytest.param(s, marks=pytest.mark.slow) for s in range(4, 150)),
    ],
)
def test_random_vocabularies(tmp_path, seed):
    rng = random.Random(seed)

    def word(most):
        chars = rng.choices("abbB#. \u4e00\u0301\ue000\u1b7f", k=most)
        return "".join(chars[: rng.randint(0, most)])

    lines = [
        rng.choice(["", "##"]) + word(4) for _ in range(rng.randint(0, 30))
    ]
    for line in ("[UNK]", "b"):
        lines.insert(rng.randint(0, len(lines)), line)
    tokenizer = _tokenizer(tmp_path, lines, do_lower_case=seed % 2 == 0)
    texts = [word(12) + rng.choice(["", "\ue001"]) for _ in range(300)]
    assert _differences(tokenizer, texts) == []


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "do_lower_case"),
    [
        ("uncased", True),
        ("cased", False),
        ("chinese", True),
        ("multilingual_cased", False),
    ],
)
@pytest.mark.parametrize(
    "num_texts", [3000, pytest.param(200_000, marks=pytest.mark.slow)]
)
def test_released_vocabularies(name, do_lower_case, num_texts):
    path = _RELEASED_VOCABULARIES / f"{name}.txt"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    tokenizer = graph_tokenizer.GraphTokenizer(str(path), do_lower_case)
    rng = random.Random(name)
    texts = [_random_text(rng) for _ in range(num_texts)]
    assert _differences(tokenizer, texts) == []


# ------------------------------------------------------------- Worked by hand


_PLACED = ("[UNK]", "a", "##a", "cafe", "##s", ".", "\u4e00", "\u1112")
_PLACED += ("##\u1161", "##\u11ab", "i", "##\u0307", "\u03c3", "##\u03c2")
_PLACES = {
    "": [],
    " \t": [],
    "a": [("a", 0, 1)],
    "  A.a": [("a", 2, 3), (".", 3, 4), ("a", 4, 5)],
    "caf\xe9s": [("cafe", 0, 4), ("##s", 4, 5)],
    # Accents written apart belong to no piece, nor do controls.
    "cafe\u0301s": [("cafe", 0, 4), ("##s", 5, 6)],
    "c\x00afe\u0301 \x00a": [("cafe", 0, 5), ("a", 8, 9)],
    "\ud55c": [("\u1112", 0, 1), ("##\u1161", 0, 1), ("##\u11ab", 0, 1)],
    "a\u4e00a": [("a", 0, 1), ("\u4e00", 1, 2), ("a", 2, 3)],
    "\u0130a": [("i", 0, 1), ("##a", 1, 2)],
    "\u03a3\u03a3.": [("\u03c3", 0, 1), ("##\u03c2", 1, 2), (".", 2, 3)],
    " qqq\u0301 a": [("[UNK]", 1, 4), ("a", 6, 7)],
    " " + "a" * 201 + ".": [("[UNK]", 1, 202), (".", 202, 203)],
    b"\xffa\xff a": [("a", 0, 1), ("a", 2, 3)],
}


@pytest.mark.usefixtures("_eagerly")
def test_places_worked_by_hand(tmp_path):
    tokenizer = _tokenizer(tmp_path, _PLACED)
    pieces = tokenizer.definition.inv_vocab
    found = _spans(tokenizer, list(_PLACES))
    assert [
        [(pieces[number], *place) for number, *place in row] for row in found
    ] == list(_PLACES.values())


@pytest.mark.usefixtures("_eagerly")
def test_marks_in_another_order_trade_places(tmp_path):
    # Class 9 comes before class 216, whatever was written first.
    pieces = ["[UNK]", "a", "##\u1b44", "##\U0001d165"]
    found = _spans(_tokenizer(tmp_path, pieces), ["a\U0001d165\u0301\u1b44"])
    assert found == [[(1, 0, 1), (2, 1, 2), (3, 3, 4)]]


@pytest.mark.usefixtures("_eagerly")
@pytest.mark.parametrize(
    ("char", "utf8_bytes"), [("a", 1), ("\u0436", 2), ("\U00010450", 4)]
)
def test_word_of_more_than_200_characters_is_unknown(
    char, utf8_bytes, tmp_path
):
    assert len(char.encode()) == utf8_bytes
    vocabulary = ["[UNK]", char, f"##{char}", f"##{char * 60}", "x"]
    tokenizer = _tokenizer(tmp_path, vocabulary)
    texts = [char * n + " x" for n in (199, 200, 201, 202, 1000)]
    spans = _spans(tokenizer, texts)
    assert min(map(len, spans[:2])) > 2
    for row, length in zip(spans[2:], (201, 202, 1000), strict=True):
        assert row == [(0, 0, length), (4, length + 1, length + 2)]
    assert _differences(tokenizer, texts) == []


def test_no_text_and_empty_texts(golden):
    for texts in ([], [""], ["", " ", "\u200b\x00"]):
        assert _spans(golden, texts) == [[] for _ in texts]
        assert golden.tokenize(_encoded(texts)).to_list() == [[] for _ in texts]
        assert _words(golden, texts) == [[] for _ in texts]


# ---------------------------------------------------------------- Vocabularies


@pytest.mark.usefixtures("_eagerly")
def test_private_use_characters_are_pieces_like_others(tmp_path):
    pieces = ["[UNK]", "\ue000", "##\u1b7f", "a", "##\ue001", "\u1b7fa"]
    tokenizer = _tokenizer(tmp_path, pieces, do_lower_case=False)
    texts = ["\ue000\u1b7f", "a\ue001\ue002", "a\ue001", "\u1b7fa", "\ue003a"]
    texts += ["\ue000\ue002", "\ue000\ue003", "\ue000\ue004", "a\u1b7f"]
    assert _differences(tokenizer, texts) == []
    assert tokenizer.tokenize(_encoded(texts[:1])).to_list() == [[1, 2]]


@pytest.mark.usefixtures("_eagerly")
@pytest.mark.parametrize(
    ("pieces", "texts"),
    [
        # Pieces that no text gives may be of any length.
        (
            ["[UNK]", "a", "##b", "\u0e01" * 201, "\u4e8c" * 90, "x y" * 200],
            ["ab", "\u0e01" * 201, "\u4e8c" * 90],
        ),
        # The longest piece of a text is the longest word.
        (["[UNK]", "a" * 200, "b" * 201], ["a" * 200, "a" * 201, "b" * 201]),
        # The second line of a piece gives its id.
        (["a", "[UNK]", "", "##", "b", "a", " "], ["a b ab"]),
        (["[UNK]", "", "##"], ["a b.", "##", "[UNK]", ""]),
    ],
)
def test_odd_vocabularies(tmp_path, pieces, texts):
    assert _differences(_tokenizer(tmp_path, pieces), texts) == []


def test_a_vocabulary_without_unk_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must have a line for each of \[UNK"):
        _tokenizer(tmp_path, ["a", "##b"])


def test_another_version_of_tensorflow_text_is_refused(monkeypatch):
    right = graph_tokenizer.folded

    def wrong(char, rules):
        return "x" if char == "\xa0" else right(char, rules)

    # Another version is not installed; this one folds as it would not.
    monkeypatch.setattr(graph_tokenizer, "folded", wrong)
    graph_tokenizer._replacements.cache_clear()
    with pytest.raises(ValueError, match=r"TensorFlow Text 2.*Install the ver"):
        graph_tokenizer.GraphTokenizer(str(_GOLDEN / "inputs/vocab.txt"))
    graph_tokenizer._replacements.cache_clear()


# -------------------------------------------------------------- Text to words

_UNCASED = tokenization.BasicTokenizer(do_lower_case=True, strip_accents=True)
_CASED = tokenization.BasicTokenizer(do_lower_case=False, strip_accents=False)
_LOWER = tokenization.BasicTokenizer(do_lower_case=True, strip_accents=False)
_UNACCENTED = tokenization.BasicTokenizer(
    do_lower_case=False, strip_accents=True
)


@pytest.mark.parametrize("rules", [_UNCASED, _CASED, _LOWER])
def test_every_assigned_character_folds_to_its_words(rules):
    chars = graph_tokenizer.assigned_characters()
    assert len(chars) > 140_000
    assert [
        char
        for char in chars
        if "".join(rules.tokenize(char))
        != graph_tokenizer.folded(char, rules).strip()
    ] == []


# Bytes that begin, continue and spoil UTF-8, and the byte order mark.
_ODD_BYTES = bytes.fromhex("004120808f909fa0bfc0c1c2dfe0e2edeebbeff0f4f5ff")


def test_invalid_bytes_are_skipped_as_python_ignores_them():
    rng = random.Random(7)
    texts = [
        bytes(rng.choices(_ODD_BYTES, k=rng.randint(0, 9)))
        for _ in range(50_000)
    ]
    valid = ["", "\0a\0", "\ufeffa\ufffe\uffff", "\ud7ff\ue000\U0010ffff"]
    texts += [text.encode() for text in valid]
    expected = [text.decode("utf-8", "ignore") for text in texts]
    valid = [e.encode() == t for e, t in zip(expected, texts, strict=True)]
    assert 1000 < sum(valid) < 49_000
    found = graph_tokenizer.drop_invalid_utf8(tf.constant(texts)).numpy()
    assert [text.decode() for text in found.tolist()] == expected


_SIGMAS = "\u03a3\u03a3\u03a3\u03c2aB'\u0301\xaa\u02b0 !\u4e00\n"
_MARKS = (
    "a\u0301\u0334\u0900\u1b44\u302e\U00016ff0\U0001d165\U0001d16d"
    "\U0001d15f\U0001d160\xad\xe9"
)


@pytest.mark.parametrize(
    ("chars", "rules"),
    [
        (_SIGMAS, _UNCASED),
        pytest.param(_SIGMAS, _LOWER, marks=pytest.mark.slow),
        pytest.param(_MARKS, _UNCASED, marks=pytest.mark.slow),
        (_MARKS, _UNACCENTED),
    ],
)
def test_sigmas_and_marks_are_those_of_python(chars, rules):
    rng = random.Random(8)
    texts = [
        "".join(rng.choices(chars, k=rng.randint(0, 12))) for _ in range(20_000)
    ]
    found = graph_tokenizer.split(tf.constant(texts), rules).words.to_list()
    expected = [[w.encode() for w in rules.tokenize(text)] for text in texts]
    wrong = zip(texts, found, expected, strict=True)
    assert [text for text, got, want in wrong if got != want] == []


# ---------------------------------------------------------------------- Graphs

_LOAD_AND_RUN = """
import json, sys
import tensorflow as tf
import tensorflow_text
loaded = tf.saved_model.load(sys.argv[1])
texts = [bytes.fromhex(line.strip()) for line in sys.stdin]
spans = loaded.tokenize_with_offsets(tf.constant(texts))
names = ("ids", "starts", "ends")
result = {name: spans[name].to_list() for name in names}
result["plain"] = loaded.tokenize(tf.constant(texts)).to_list()
ours = {"vocab", "files"} & {name.split(".")[0] for name in sys.modules}
print(json.dumps([result, sorted(ours)]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("step", [977, pytest.param(1, marks=pytest.mark.slow)])
def test_saved_model_runs_without_this_program(golden, tmp_path, step):
    tf.saved_model.save(golden, str(tmp_path / "saved"))
    texts = [text.encode() for text in _TEXTS]
    texts += [bytes.fromhex(case["hex"]) for case in _BYTES]
    texts += [f"a{chr(code)}b".encode() for code in _CODE_POINTS[::step]]
    texts += [
        "".join(pair).encode()
        for pair in zip(_TELLING, _TELLING[9:], strict=False)
    ]
    process = programs.python(
        "-c",
        _LOAD_AND_RUN,
        str(tmp_path / "saved"),
        input="\n".join(text.hex() for text in texts),
        check=True,
        cwd=tmp_path,
    )
    loaded, ours = json.loads(process.stdout.splitlines()[-1])
    assert ours == []
    defined = _defined(golden, texts)
    for index, name in enumerate(("ids", "starts", "ends")):
        expected = [[span[index] for span in row] for row in defined]
        assert loaded[name] == expected
    assert loaded["plain"] == loaded["ids"]


def test_tokenizer_is_part_of_a_graph(golden):
    dataset = tf.data.Dataset.from_tensor_slices(_TEXTS).batch(7)
    rows = [
        ids for batch in dataset.map(golden.tokenize) for ids in batch.to_list()
    ]
    assert rows == golden.tokenize(_encoded(_TEXTS)).to_list()
