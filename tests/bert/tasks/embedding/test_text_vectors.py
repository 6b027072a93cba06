"""Lines, their separator, words and pooled vectors, by hand."""

import io
import json
import time

import numpy as np
import pytest

from bert.tasks import sentence_pairs
from bert.tasks.embedding import text_vectors

_PIECES = {"playing": ["play", "##ing"], "it's": ["it", "'", "s"]}
_IDS = {"[CLS]": 1, "[SEP]": 2}
_SOFT_HYPHEN = "\xad"
_L, _D = 2, 3


class _Tokenizer:
    """Cuts the words it knows, drops soft hyphens, keeps other words."""

    def tokenize(self, text):
        words = text.replace(_SOFT_HYPHEN, "").split()
        return [piece for w in words for piece in _PIECES.get(w, [w])]

    def convert_tokens_to_ids(self, tokens):
        return [_IDS.get(token, 10 + len(token)) for token in tokens]


def _prepare(text, max_seq_length=20, **options):
    return text_vectors.prepare(
        5,
        sentence_pairs.split_pair(text),
        sentence_pairs.Truncation(max_seq_length=max_seq_length),
        _Tokenizer(),
        **options,
    )


def _values(num_tokens):
    """Numbers the tokens: `[T, L, D]`, 100 t + 10 l + d."""
    t, layer, d = np.ogrid[:num_tokens, :_L, :_D]
    return (100 * t + 10 * layer + d).astype(np.float32)


def test_pair_has_two_segments_and_ids_of_its_tokens():
    line = _prepare("playing ||| it's so")
    assert line.index == 5
    assert line.tokens == (
        *("[CLS]", "play", "##ing", "[SEP]"),
        *("it", "'", "s", "so", "[SEP]"),
    )
    assert line.segment_ids == (0, 0, 0, 0, 1, 1, 1, 1, 1)
    assert line.input_ids == (1, 14, 15, 2, 12, 11, 11, 12, 2)
    assert line.words is None


def test_words_know_their_tokens_in_both_texts():
    line = _prepare("so playing ||| it's on", with_words=True)
    assert line.words == ("so", "playing", "it's", "on")
    assert line.first_tokens == (1, 2, 5, 8)
    assert [line.tokens[place] for place in line.first_tokens] == [
        *("so", "play", "it", "on"),
    ]


def test_words_cut_off_or_without_characters_have_no_token():
    line = _prepare(
        f"so {_SOFT_HYPHEN} playing it's on", max_seq_length=6, with_words=True
    )
    assert line.tokens == ("[CLS]", "so", "play", "##ing", "it", "[SEP]")
    assert line.first_tokens == (1, -1, 2, 4, -1)
    # The first piece of "on" would be [SEP]'s.
    line = _prepare("so playing on it's", max_seq_length=5, with_words=True)
    assert line.tokens == ("[CLS]", "so", "play", "##ing", "[SEP]")
    assert line.first_tokens == (1, 2, -1, -1)
    line = _prepare("so ||| playing on it's", max_seq_length=6, with_words=True)
    assert line.tokens == ("[CLS]", "so", "[SEP]", "play", "##ing", "[SEP]")
    assert line.first_tokens == (1, 3, -1, -1)


def test_words_end_at_white_space_of_the_tokenizer_alone():
    line = _prepare("a\xa0b\u2028c d\x1ce", with_words=True)
    assert line.words == ("a", "b", "c", "d\x1ce")


def test_reduction_names_what_it_makes():
    line = _prepare("so playing", with_words=True)
    values = _values(5)
    words = text_vectors.reduce(line, values, "none")
    assert words.names == ("so", "playing")
    np.testing.assert_array_equal(words.values, values[[1, 2]])
    cut = _prepare(f"so {_SOFT_HYPHEN}", with_words=True)
    words = text_vectors.reduce(cut, values[:3], "none")
    np.testing.assert_array_equal(words.values[0], values[1])
    assert np.isnan(words.values[1]).all()
    for pooling, expected in (
        ("mean", [[200, 201, 202], [210, 211, 212]]),
        ("max", [[400, 401, 402], [410, 411, 412]]),
        ("cls", [[0, 1, 2], [10, 11, 12]]),
    ):
        pooled = text_vectors.reduce(line, values, pooling)
        assert pooled.names is None
        np.testing.assert_array_equal(pooled.values, expected)
    tokens = text_vectors.reduce(_prepare("a"), values[:3], "none")
    assert tokens.names == ("[CLS]", "a", "[SEP]")
    np.testing.assert_array_equal(tokens.values, values[:3])
    values[1, 0, 2] = np.nan
    with pytest.raises(ValueError, match=r"Line 6 .* must be finite"):
        text_vectors.reduce(_prepare("a"), values[:3], "none")


def test_layers_are_read_and_checked():
    assert text_vectors.parse_layers("-1, 0,11") == [-1, 0, 11]
    text_vectors.check_layers([-2, 1], 2)
    with pytest.raises(ValueError, match=r"2 layer\(s\).*no layer -3\."):
        text_vectors.check_layers([-1, -3, 0, 2], 2)
    with pytest.raises(ValueError, match=r"2 layer\(s\).*no layer 2\."):
        text_vectors.check_layers([2], 2)
    with pytest.raises(ValueError, match=r"whole numbers.*got '-1,top'"):
        text_vectors.parse_layers("-1,top")


_LAYERS = (-1, 0)


def _vectors(index, names, seed=0):
    rng = np.random.default_rng(seed)
    shape = (2, 3) if names is None else (len(names), 2, 3)
    values = rng.normal(size=shape).astype(np.float32)
    return text_vectors.Vectors(index=index, names=names, values=values)


def read_npz(file):
    """Reads a file as its description says: layers, then lines in order."""
    lines = []
    with np.load(file) as arrays:
        for part in range(arrays["num_parts"]):
            prefix = f"part{part}/"
            values, offsets = (
                arrays[prefix + "values"],
                arrays[prefix + "offsets"],
            )
            names = None
            if prefix + "tokens" in arrays:
                text = arrays[prefix + "tokens"].tobytes().decode("utf-8")
                names = text.split("\n")[:-1]
            for line, index in enumerate(arrays[prefix + "linex_index"]):
                rows = slice(offsets[line], offsets[line + 1])
                lines.append((index, names and names[rows], values[rows]))
        return arrays["layers"], lines


def test_json_line_is_laid_out_as_released():
    vectors = text_vectors.Vectors(
        index=3,
        names=("[CLS]", "é"),
        values=np.array([[[0.5], [-1e-7]], [[1 / 3], [12345.678]]], "float32"),
    )
    assert text_vectors.json_line(vectors, _LAYERS) == (
        '{"linex_index": 3, "features": ['
        '{"token": "[CLS]", "layers": [{"index": -1, "values": [0.5]}, '
        '{"index": 0, "values": [-0.0]}]}, '
        '{"token": "\\u00e9", "layers": [{"index": -1, "values": [0.333333]}, '
        '{"index": 0, "values": [12345.677734]}]}]}\n'
    )


def test_json_line_of_one_vector_or_of_no_token():
    vectors = text_vectors.Vectors(
        index=0, names=None, values=np.array([[2.0], [3.0]], "float32")
    )
    assert json.loads(text_vectors.json_line(vectors, _LAYERS)) == {
        "linex_index": 0,
        "layers": [
            {"index": -1, "values": [2.0]},
            {"index": 0, "values": [3.0]},
        ],
    }
    vectors = _vectors(0, ("a", "b"))
    vectors.values[0] = np.nan
    record = json.loads(text_vectors.json_line(vectors, _LAYERS))
    assert record["features"][0] == {"token": "a", "layers": []}
    assert len(record["features"][1]["layers"]) == 2


def _npz(*parts):
    file = io.BytesIO()
    text_vectors.write_npz(file, _LAYERS, iter(parts))
    return file.getvalue()


def test_npz_parts_hold_every_line_in_order(monkeypatch):
    parts = [
        [_vectors(0, ("[CLS]", "é\u2028x", "[SEP]"), 1), _vectors(1, (), 2)],
        [_vectors(2, ("a",), 3)],
    ]
    content = _npz(*parts)
    with monkeypatch.context() as another_day:
        # An archive has the time of its files.
        another_day.setattr(time, "time", lambda: 1e9)
        assert content == _npz(*parts)
    layers, lines = read_npz(io.BytesIO(content))
    assert layers.tolist() == list(_LAYERS)
    for vectors, (index, names, values) in zip(
        parts[0] + parts[1], lines, strict=True
    ):
        assert (index, tuple(names)) == (vectors.index, vectors.names)
        np.testing.assert_array_equal(values, vectors.values)
    assert read_npz(io.BytesIO(_npz()))[1] == []


def test_npz_of_pooled_lines_has_no_tokens():
    part = [_vectors(i, None, i) for i in range(3)]
    _, lines = read_npz(io.BytesIO(_npz(part)))
    assert [names for _, names, _ in lines] == [None] * 3
    for vectors, (_, _, values) in zip(part, lines, strict=True):
        assert values.shape == (1, 2, 3)
        np.testing.assert_array_equal(values[0], vectors.values)


@pytest.mark.parametrize("most", [-1, 0, 3])
def test_numbers_are_those_of_round(most):
    rng = np.random.default_rng(most + 5)
    sizes = 10.0 ** rng.uniform(-8, most, (40, 30))
    values = (rng.normal(size=sizes.shape) * sizes).astype(np.float32)
    # An odd number of 128ths has seven decimals, the last of them a 5.
    ties = (2 * np.arange(-15, 15, dtype=np.float32) + 1) / 128
    values = np.concatenate([values, ties[np.newaxis], 0 * values[:1]])
    vectors = text_vectors.Vectors(index=0, names=None, values=values)
    text = text_vectors.json_line(vectors, range(len(values)))
    for row, layer in zip(values, json.loads(text)["layers"], strict=True):
        expected = [round(float(value), 6) for value in row]
        assert str(layer["values"]) == str(expected)
