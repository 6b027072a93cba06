"""The fast tokenizer against the definition, which other tests pin."""

import itertools
import json
import pathlib
import pickle
import random
import subprocess
import sys
import unicodedata

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from serving import fast_model, fast_tokenization
from vocab import offsets

_ROOT = pathlib.Path(__file__).parents[2]
_GOLDEN = _ROOT / "tests" / "golden"
_RELEASED_VOCABULARIES = _ROOT.parent / "shared" / "data" / "vocab"
_CASES = [
    json.loads(line)
    for line in (_GOLDEN / "tokenization.jsonl").read_bytes().splitlines()
]
_WITHOUT_SURROGATES = [
    case["text"]
    for case in _CASES
    if not any("\ud800" <= char < "\ue000" for char in case["text"])
]
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


def _tokenizer(folder, pieces, *, do_lower_case=True):
    path = folder / "vocab.txt"
    path.write_bytes("".join(f"{p}\n" for p in pieces).encode("utf-8"))
    return fast_tokenization.FastTokenizer(str(path), do_lower_case)


def _defined(tokenizer, texts):
    """Tokenizes by the definition: a list of `(id, start, end)` per text."""
    return [
        [
            (tokenizer.definition.vocab[span.piece], span.start, span.end)
            for span in offsets.tokenize_with_offsets(
                tokenizer.definition, text
            )
        ]
        for text in texts
    ]


def _rows(values, row_lengths):
    ends = np.cumsum(row_lengths).tolist()
    return [values[e - n : e] for e, n in zip(ends, row_lengths, strict=True)]


def _differences(tokenizer, texts):
    """Returns the texts that either function cuts differently."""
    assert tokenizer.is_fast, tokenizer.slow_reason
    plain = tokenizer.encode(texts)
    spans = tokenizer.encode_with_offsets(texts)
    fast = zip(
        spans.ids.tolist(),
        spans.starts.tolist(),
        spans.ends.tolist(),
        strict=True,
    )
    fast = _rows(list(fast), spans.row_lengths.tolist())
    ids = _rows(plain.ids.tolist(), plain.row_lengths.tolist())
    vocab = tokenizer.definition.vocab
    wrong = []
    for text, got, got_ids in zip(texts, fast, ids, strict=True):
        tokens = tokenizer.definition.tokenize(text)
        expected = [vocab[token] for token in tokens]
        (defined,) = _defined(tokenizer, [text])
        if got_ids != expected or got != defined:
            wrong.append(text)
    return wrong


def _spelling_vocabulary(chars):
    """A vocabulary that spells every character, so that none is hidden."""
    chars = [char for char in chars if not char.isspace()]
    return ["[UNK]", *chars, *(f"##{char}" for char in chars)]


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
def golden(request):
    name = "vocab.txt" if request.param else "vocab_cased.txt"
    return fast_tokenization.FastTokenizer(
        str(_GOLDEN / "inputs" / name), request.param
    )


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
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
        do_lower_case=request.param,
    )


# -------------------------------------------------------- Against the release


def test_texts_give_the_ids_of_the_release(golden):
    do_lower_case = golden.definition.basic_tokenizer.do_lower_case
    key = "ids_lower" if do_lower_case else "ids_cased"
    encoded = golden.encode([case["text"] for case in _CASES])
    assert [row.tolist() for row in encoded.rows()] == [c[key] for c in _CASES]
    assert encoded.ids.dtype == np.int32
    assert encoded.row_lengths.shape == (len(_CASES),)


def test_bytes_that_are_not_utf8_are_skipped(golden):
    texts = [bytes.fromhex(case["hex"]) for case in _BYTES]
    assert _differences(golden, texts) == []


# ----------------------------------------------------- Against the definition


def test_every_fortieth_code_point_inside_a_word(golden):
    texts = [f"a{chr(code)}b" for code in _CODE_POINTS[::40]]
    assert _differences(golden, texts) == []


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
    assert _differences(spelling, texts) == []


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
    return "".join(chars)


@pytest.mark.parametrize(
    "num_texts", [2000, pytest.param(200_000, marks=pytest.mark.slow)]
)
def test_random_strings_of_mixed_scripts(num_texts, spelling):
    rng = random.Random(num_texts)
    texts = [_random_text(rng) for _ in range(num_texts)]
    assert _differences(spelling, texts) == []


@hypothesis.given(
    text=st.text(
        st.one_of(st.sampled_from(_TELLING), st.characters(codec=None))
    )
)
@hypothesis.settings(max_examples=200, deadline=None)
def test_any_string(spelling, text):
    assert _differences(spelling, [text]) == []


@pytest.mark.parametrize(
    "seed",
    [
        *range(3),
        *(pytest.param(s, marks=pytest.mark.slow) for s in range(3, 150)),
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
    texts = [
        word(12) + rng.choice(["", "\ue001", "\ud800"]) for _ in range(300)
    ]
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
    tokenizer = fast_tokenization.FastTokenizer(str(path), do_lower_case)
    rng = random.Random(name)
    texts = [_random_text(rng) for _ in range(num_texts)]
    assert _differences(tokenizer, texts) == []


# ------------------------------------------------------------- Worked by hand


def test_ids_and_offsets_worked_by_hand(tmp_path):
    tokenizer = _tokenizer(
        tmp_path, ["[UNK]", "cafe", "##s", ".", "\u1112", "##\u1161\u11ab"]
    )
    spans = tokenizer.encode_with_offsets(
        ["", " Caf\u00e9s.", "cafe\u0301s \ud55c", b"\xffcafe\xff zzz"]
    )
    assert [row.tolist() for row in spans.rows()] == [
        [],
        [1, 2, 3],
        [1, 2, 4, 5],
        [1, 0],
    ]
    assert spans.starts.tolist() == [1, 5, 6, 0, 5, 7, 7, 0, 5]
    assert spans.ends.tolist() == [5, 6, 7, 4, 6, 8, 8, 4, 8]


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
    spans = tokenizer.encode_with_offsets(["x", *texts])
    assert spans.row_lengths[3:].tolist() == [2, 2, 2]
    assert spans.ids[-6:].tolist() == [0, 4] * 3
    assert spans.starts[-2:].tolist() == [0, 1001]
    assert spans.ends[-2:].tolist() == [1000, 1002]
    assert _differences(tokenizer, texts) == []


def test_no_text_and_empty_texts(golden):
    for texts in ([], [""], ["", " ", "\u200b\x00"]):
        encoded = golden.encode_with_offsets(texts)
        assert encoded.row_lengths.tolist() == [0] * len(texts)
        assert encoded.ids.tolist() == encoded.starts.tolist() == []
        assert len(golden.encode(texts).rows()) == len(texts)


def test_batches_do_not_show(golden, monkeypatch):
    texts = [case["text"] for case in _CASES]
    whole = golden.encode_with_offsets(texts)
    monkeypatch.setattr(fast_tokenization, "_BATCH_CHARACTERS", 100)
    parts = golden.encode_with_offsets(iter(texts))
    for name in ("ids", "row_lengths", "starts", "ends"):
        np.testing.assert_array_equal(
            getattr(whole, name), getattr(parts, name)
        )


# ---------------------------------------------------------------- Vocabularies


def test_aliases_that_the_vocabulary_has_are_not_used(tmp_path):
    # U+E000 is the first choice for an alias, U+1B7F needs one.
    pieces = ["[UNK]", "\ue000", "##\u1b7f", "a", "##\ue001", "\u1b7fa"]
    tokenizer = _tokenizer(tmp_path, pieces, do_lower_case=False)
    texts = ["\ue000\u1b7f", "a\ue001\ue002", "a\ue001", "\u1b7fa", "\ue003a"]
    texts += ["\ue000\ue002", "\ue000\ue003", "\ue000\ue004", "a\u1b7f"]
    assert _differences(tokenizer, texts) == []
    assert tokenizer.encode(texts[:1]).ids.tolist() == [1, 2]


def test_pieces_that_no_text_gives_may_be_of_any_length(tmp_path):
    pieces = ["[UNK]", "a", "##b", "\u0e01" * 201, "\u4e8c" * 90, "x y" * 200]
    tokenizer = _tokenizer(tmp_path, pieces)
    assert _differences(tokenizer, ["ab", "\u0e01" * 201, "\u4e8c" * 90]) == []


def test_vocabulary_must_leave_characters_for_aliases(monkeypatch):
    monkeypatch.setattr(fast_model, "_PRIVATE_USE", ((0xE000, 0xE002),))
    for fits in (["[UNK]", "\u1b7f"], ["[UNK]", "\ue001"]):
        vocab = {piece: number for number, piece in enumerate(fits)}
        model = fast_model.build(vocab, do_lower_case=False)
        assert model.unknown_character == "\ue000"
    with pytest.raises(
        fast_model.UnsupportedVocabularyError,
        match="must leave 2 private-use characters unused",
    ):
        fast_model.build(
            {"[UNK]": 0, "\ue001": 1, "\u1b7f": 2}, do_lower_case=False
        )


def test_second_line_of_a_piece_gives_its_id(tmp_path):
    tokenizer = _tokenizer(tmp_path, ["a", "[UNK]", "", "##", "b", "a", " "])
    assert tokenizer.is_fast
    assert tokenizer.encode(["a b ab"]).ids.tolist() == [5, 4, 1]


@pytest.mark.parametrize(
    ("pieces", "reason"),
    [
        (["a", "##b"], r"must have the entry \[UNK\]"),
        ([], r"must have the entry \[UNK\]"),
        (["[UNK]", "a", "##b", "\u0e01" * 100], "exceeds the max"),
        (["[UNK]", "", "##"], "No valid vocab tokens"),
    ],
)
def test_definition_does_what_tensorflow_text_cannot(tmp_path, pieces, reason):
    tokenizer = _tokenizer(tmp_path, pieces)
    assert not tokenizer.is_fast
    with pytest.raises(ValueError, match=reason):
        fast_tokenization.graph_tokenizer(str(tmp_path / "vocab.txt"))
    if "a" in pieces:
        spans = tokenizer.encode_with_offsets([" ab", "a"])
        assert spans.ids.tolist() == [
            pieces.index(p) for p in ("a", "##b", "a")
        ]
        assert spans.row_lengths.tolist() == [2, 1]
        assert spans.starts.tolist() == [1, 2, 0]
        assert spans.ends.tolist() == [2, 3, 1]
        assert tokenizer.encode([" ab", "a"]).ids.tolist() == [
            *spans.ids.tolist()
        ]
    if "[UNK]" not in pieces:
        with pytest.raises(KeyError, match=r"'\[UNK\]' is not in the vocab"):
            tokenizer.encode(["q"])


def test_another_version_that_cuts_otherwise_is_noticed(golden, monkeypatch):
    path = golden.definition.vocab_file
    do_lower_case = golden.definition.basic_tokenizer.do_lower_case
    right = fast_model._common_replacements(do_lower_case=do_lower_case)
    wrong = {**right, "\x0b": " "}
    monkeypatch.setattr(
        fast_model, "_common_replacements", lambda do_lower_case: wrong
    )
    fast_tokenization._check_rules.cache_clear()
    tokenizer = fast_tokenization.FastTokenizer(path, do_lower_case)
    assert "TensorFlow Text 2" in tokenizer.slow_reason
    assert "as the definition does" in tokenizer.slow_reason
    assert tokenizer.encode(["a\x0bb"]).rows()[0].tolist() == (
        golden.encode(["ab"]).ids.tolist()
    )
    with pytest.raises(ValueError, match="Install the version"):
        fast_tokenization.graph_tokenizer(path, do_lower_case)


def test_tokenizer_survives_pickling(golden):
    copy = pickle.loads(pickle.dumps(golden))
    text = "H\xc5KANSSON's \u03a3\u03a3"
    np.testing.assert_array_equal(
        copy.encode([text]).ids, golden.encode([text]).ids
    )


def test_text_of_another_type_is_refused(golden):
    for encode in (golden.encode, golden.encode_with_offsets):
        with pytest.raises(ValueError, match="must be str or bytes; got int"):
            encode(["a", 7])


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
    definition = golden.definition
    module = fast_tokenization.graph_tokenizer(
        definition.vocab_file, definition.basic_tokenizer.do_lower_case
    )
    tf.saved_model.save(module, str(tmp_path / "saved"))
    texts = [text.encode() for text in _WITHOUT_SURROGATES]
    texts += [bytes.fromhex(case["hex"]) for case in _BYTES]
    texts += [f"a{chr(code)}b".encode() for code in _CODE_POINTS[::step]]
    texts += [
        "".join(pair).encode()
        for pair in zip(_TELLING, _TELLING[9:], strict=False)
    ]
    process = subprocess.run(
        [sys.executable, "-c", _LOAD_AND_RUN, str(tmp_path / "saved")],
        input="\n".join(text.hex() for text in texts),
        capture_output=True,
        text=True,
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
    module = fast_tokenization.graph_tokenizer(
        golden.definition.vocab_file,
        golden.definition.basic_tokenizer.do_lower_case,
    )
    texts = _WITHOUT_SURROGATES
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(7)
    rows = [
        ids for batch in dataset.map(module.tokenize) for ids in batch.to_list()
    ]
    assert rows == [row.tolist() for row in golden.encode(texts).rows()]
