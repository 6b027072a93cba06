"""JSON lines and npz files of vectors."""

import io
import json
import random

import numpy as np
import pytest

from tasks import feature_files, features

_LAYERS = (-1, 0)


def _vectors(index, names, seed=0, dtype="float32"):
    rng = np.random.default_rng(seed)
    shape = (2, 3) if names is None else (len(names), 2, 3)
    values = rng.normal(size=shape).astype(dtype)
    return features.Vectors(index=index, names=names, values=values)


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
    vectors = features.Vectors(
        index=3,
        names=("[CLS]", "é"),
        values=np.array([[[0.5], [-1e-7]], [[1 / 3], [12345.678]]], "float32"),
    )
    assert feature_files.json_line(vectors, _LAYERS) == (
        '{"linex_index": 3, "features": ['
        '{"token": "[CLS]", "layers": [{"index": -1, "values": [0.5]}, '
        '{"index": 0, "values": [-0.0]}]}, '
        '{"token": "\\u00e9", "layers": [{"index": -1, "values": [0.333333]}, '
        '{"index": 0, "values": [12345.677734]}]}]}\n'
    )


def test_json_line_of_one_vector_has_layers_alone():
    vectors = features.Vectors(
        index=0, names=None, values=np.array([[2.0], [3.0]], "float32")
    )
    assert json.loads(feature_files.json_line(vectors, _LAYERS)) == {
        "linex_index": 0,
        "layers": [
            {"index": -1, "values": [2.0]},
            {"index": 0, "values": [3.0]},
        ],
    }


def test_json_word_without_a_token_has_no_layers():
    vectors = _vectors(0, ("a", "b"))
    vectors.values[0] = np.nan
    record = json.loads(feature_files.json_line(vectors, _LAYERS))
    assert record["features"][0] == {"token": "a", "layers": []}
    assert len(record["features"][1]["layers"]) == 2


def test_values_are_rounded_as_python_rounds():
    rng = random.Random(4)
    numbers = [rng.gauss(0, 10 ** rng.uniform(-7, 3)) for _ in range(20000)]
    # Ties: an odd number over 2**7 times what has no more than six decimals.
    numbers += [(2 * k + 1) / 128 for k in range(-2000, 2000)]
    values = np.array(numbers, np.float32)
    vectors = features.Vectors(
        index=0, names=None, values=values[np.newaxis, :]
    )
    record = json.loads(feature_files.json_line(vectors, [0]))
    expected = [round(float(value), 6) for value in values]
    assert record["layers"][0]["values"] == expected


def test_npz_parts_hold_every_line_in_order():
    parts = [
        [_vectors(0, ("[CLS]", "é\u2028x", "[SEP]"), 1), _vectors(1, (), 2)],
        [_vectors(2, ("a",), 3)],
    ]
    file = io.BytesIO()
    output = feature_files.Npz(file, _LAYERS)
    for part in parts:
        output.write(part)
    output.close()
    layers, lines = read_npz(io.BytesIO(file.getvalue()))
    assert layers.tolist() == list(_LAYERS)
    for vectors, (index, names, values) in zip(
        parts[0] + parts[1], lines, strict=True
    ):
        assert (index, tuple(names)) == (vectors.index, vectors.names)
        np.testing.assert_array_equal(values, vectors.values)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_npz_of_pooled_lines_has_no_tokens(dtype):
    part = [_vectors(i, None, i, dtype) for i in range(3)]
    file = io.BytesIO()
    output = feature_files.Npz(file, _LAYERS)
    output.write(part)
    output.close()
    _, lines = read_npz(io.BytesIO(file.getvalue()))
    assert [names for _, names, _ in lines] == [None] * 3
    for vectors, (_, _, values) in zip(part, lines, strict=True):
        assert values.dtype == dtype and values.shape == (1, 2, 3)
        np.testing.assert_array_equal(values[0], vectors.values)


def test_npz_without_lines_says_so():
    file = io.BytesIO()
    feature_files.Npz(file, _LAYERS).close()
    assert read_npz(io.BytesIO(file.getvalue()))[1] == []


def test_equal_vectors_make_equal_bytes():
    written = []
    for _ in range(2):
        file = io.BytesIO()
        output = feature_files.Npz(file, _LAYERS)
        output.write([_vectors(0, ("a",))])
        output.close()
        written.append(file.getvalue())
    assert written[0] == written[1]
