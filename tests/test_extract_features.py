"""extract_features.py against the release, and its additions."""

import json

import numpy as np
import pytest

import extract_features
from modeling import checkpoints
from tests.bert.tasks.embedding import test_text_vectors
from tests.support import locations, programs, toy_files

_INPUT = locations.INPUTS / "extract_input.txt"
_EXPECTED = locations.GOLDEN / "extract_features/default_layers.jsonl"
# Values are rounded to six places after differences of some 2e-6.
_TOLERANCE = 1e-5


def _flags(folder, **changes):
    return {
        "input_file": _INPUT,
        "output_file": folder / "out",
        "vocab_file": locations.INPUTS / "vocab.txt",
        "bert_config_file": locations.INPUTS / "bert_config_4layers.json",
        "init_checkpoint": locations.CHECKPOINT,
        "max_seq_length": 32,
        "batch_size": 4,
        **changes,
    }


def _run(folder, **changes):
    named = _flags(folder, **changes)
    extract_features.run(programs.parse(extract_features.Options, **named))
    return folder / "out"


def _records(path):
    return toy_files.read_json_lines(path)


def _is_laid_out_alike(found, expected):
    """Compares everything but numbers, and those to the tolerance."""
    assert type(found) is type(expected)
    if isinstance(found, dict):
        assert list(found) == list(expected)
        found, expected = list(found.values()), list(expected.values())
    if isinstance(found, list):
        assert len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            _is_laid_out_alike(*pair)
    elif isinstance(found, float):
        assert abs(found - expected) <= _TOLERANCE
        assert found == round(found, 6)
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("changes", "window_bytes"),
    [
        ({}, 40_000),
        # A window has one batch at least.
        ({}, 1),
        (
            {
                "batch_size": 3,
                "use_one_hot_embeddings": True,  # Accepted, without effect.
            },
            None,
        ),
    ],
)
def test_lines_are_those_of_the_release_in_any_batches_and_windows(
    tmp_path, monkeypatch, changes, window_bytes
):
    if window_bytes:
        # Small, so that there are several windows.
        monkeypatch.setattr(extract_features, "_WINDOW_BYTES", window_bytes)
    found = _run(tmp_path, **changes).read_text("ascii")
    expected = _EXPECTED.read_text("ascii")
    assert found.endswith("\n")
    for line, golden in zip(
        found.splitlines(), expected.splitlines(), strict=True
    ):
        _is_laid_out_alike(json.loads(line), json.loads(golden))
        # The same white space around keys and numbers.
        assert json.dumps(json.loads(line)) == line


def _expected_values():
    """Reads `[T, 4, 32]` for each golden line."""
    return [
        np.array(
            [[x["values"] for x in f["layers"]] for f in record["features"]]
        )
        for record in _records(_EXPECTED)
    ]


def test_npz_holds_the_same_vectors_which_need_no_pooler(tmp_path, monkeypatch):
    stored = checkpoints.read(str(locations.CHECKPOINT))
    small = tmp_path / "small.ckpt"
    checkpoints.save(
        str(small),
        {n: v for n, v in stored.items() if not n.startswith("bert/pooler")},
    )
    # Small, so that there are several windows.
    monkeypatch.setattr(extract_features, "_WINDOW_BYTES", 40_000)
    path = _run(tmp_path, output_format="npz", init_checkpoint=small)
    with np.load(path) as arrays:
        assert arrays["num_parts"] > 1
    layers, lines = test_text_vectors.read_npz(tmp_path / "out")
    assert layers.tolist() == [-1, -2, -3, -4]
    for (index, names, values), record, expected in zip(
        lines, _records(_EXPECTED), _expected_values(), strict=True
    ):
        assert index == record["linex_index"]
        assert names == [f["token"] for f in record["features"]]
        np.testing.assert_allclose(values, expected, atol=_TOLERANCE)


# tests/bert/tasks/test_text_vectors.py has the other pools.
def test_pooled_vectors_are_made_of_all_tokens(tmp_path):
    _, lines = test_text_vectors.read_npz(
        _run(tmp_path, output_format="npz", pooling="mean")
    )
    for (_, names, values), expected in zip(
        lines, _expected_values(), strict=True
    ):
        assert names is None
        np.testing.assert_allclose(values[0], expected.mean(0), atol=_TOLERANCE)


@pytest.mark.integration
def test_words_have_the_vector_of_their_first_token(tmp_path, caplog):
    tokens = _records(_EXPECTED)[1]["features"]
    places = {"never": 4, "pitch,": 10}
    pieces = [token["token"] for token in tokens[10:15]]
    assert pieces == ["p", "##i", "##t", "##ch", ","]
    lines = _records(_run(tmp_path, pooling="word"))
    words = {f["token"]: f["layers"] for f in lines[1]["features"]}
    for word, place in places.items():
        expected = [x["values"] for x in tokens[place]["layers"]]
        np.testing.assert_allclose(
            [layer["values"] for layer in words[word]],
            expected,
            atol=_TOLERANCE,
        )
    # A word beyond the length has no layers.
    whole = _INPUT.read_text("utf-8").splitlines()[4].split()
    cut = lines[4]["features"]
    assert [feature["token"] for feature in cut] == whole
    assert cut[0]["layers"] != []
    assert cut[-1]["layers"] == []
    missing = sum(not f["layers"] for line in lines for f in line["features"])
    assert f"{missing} words have no vector: they were truncated" in caplog.text


@pytest.fixture
def calls(monkeypatch):
    """Stands in for the model; notes the shapes, which no output has."""
    noted = []

    class Layers:
        def compute(self, ids, segment_ids, length, *, pad_to_max_length):
            noted.append((len(ids), length, pad_to_max_length))
            return np.zeros([len(ids), length, 4, 32], np.float32)

    monkeypatch.setattr(extract_features, "_load_model", lambda *_: Layers())
    return noted


@pytest.mark.parametrize("use_tpu", [False, True])
def test_a_tpu_computes_lines_of_one_length(tmp_path, calls, use_tpu):
    _run(tmp_path, use_tpu=use_tpu)
    assert {call[1:] for call in calls} == {(32, use_tpu)}


def test_a_run_that_fails_leaves_the_earlier_vectors(tmp_path, monkeypatch):
    class Layers:
        def compute(self, *_, **__):
            # As no toy model does.
            raise OSError("out of memory")

    monkeypatch.setattr(extract_features, "_load_model", lambda *_: Layers())
    (tmp_path / "out").write_bytes(b"earlier")
    with pytest.raises(OSError, match="out of memory"):
        _run(tmp_path)
    (path,) = tmp_path.iterdir()
    assert (path.name, path.read_bytes()) == ("out", b"earlier")


def test_empty_file_gives_no_line(tmp_path):
    (tmp_path / "empty.txt").write_bytes(b"")
    assert _run(tmp_path, input_file=tmp_path / "empty.txt").read_bytes() == b""


@pytest.mark.parametrize("pooling", ["none", "mean"])
def test_one_line_of_a_run_counts_the_lines_that_are_cut(
    tmp_path, caplog, pooling
):
    text = tmp_path / "text.txt"
    text.write_text("a b\n" + "a " * 9 + "\n" + "a b ||| " + "c " * 9 + "\n")
    _run(tmp_path, input_file=text, max_seq_length=8, pooling=pooling)
    (line,) = [r.message for r in caplog.records if r.levelname == "WARNING"]
    # Of 9 pieces 6 are kept, and of 11 in two texts 5.
    assert line == (
        f"{text}: 2 of 3 examples are longer than 8 word pieces and are cut: "
        "9 of 22 pieces (40.9%) are dropped. See --max_seq_length"
    )


def test_a_table_is_read_by_its_columns_or_refused(tmp_path):
    (tmp_path / "x.csv").write_text('a,b\n"it ||| rained",it\nit,""\n')
    (tmp_path / "x.txt").write_text("it ||| it\n")
    changes = {"layers": "-1", "pooling": "mean"}
    table = {"input_file": tmp_path / "x.csv", **changes}
    with pytest.raises(ValueError, match=r"x\.csv: a table .*--text_a_column"):
        _run(tmp_path, **table)
    with pytest.raises(ValueError, match=r"x\.txt: a table .*no columns"):
        _run(
            tmp_path,
            **{**table, "input_file": tmp_path / "x.txt", "text_a_column": "a"},
        )
    (_, single) = _records(_run(tmp_path, **table, text_a_column="a"))
    (_, pair) = _records(
        _run(tmp_path, **table, text_a_column="a", text_b_column="b")
    )
    assert single == pair
    (tmp_path / "y.csv").write_text("it,it\n")
    (of_table,) = _records(
        _run(
            tmp_path,
            **{**table, "input_file": tmp_path / "y.csv"},
            text_a_column="0",
            text_b_column="1",
        )
    )
    (of_line,) = _records(
        _run(tmp_path, input_file=tmp_path / "x.txt", **changes)
    )
    assert of_table == of_line
