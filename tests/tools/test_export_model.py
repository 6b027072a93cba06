"""Exported encoders and masked models, and what the export refuses."""

import json
import pathlib
import random

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from tests import serving_client
from tools import export_model, predict_masked
from vocab import tokenization

_ROOT = pathlib.Path(__file__).parents[2]
_GOLDEN = _ROOT / "tests/golden"
_FILES = {
    "bert_config_file": str(_GOLDEN / "inputs/bert_config.json"),
    "vocab_file": str(_GOLDEN / "inputs/vocab.txt"),
    "init_checkpoint": str(_GOLDEN / "model/tiny.ckpt"),
}


def _refused(match, **options):
    folder = pathlib.Path(__file__).with_name("served")
    with pytest.raises(ValueError, match=match):
        export_model.run(
            export_model.Options(export_dir=str(folder), **options)
        )
    assert not folder.exists()


def test_folder_without_a_model_is_refused(tmp_path):
    _refused(
        "must be the --output_dir.*is not a folder",
        model_dir=str(tmp_path / "absent"),
    )
    _refused(f"^{tmp_path} contains no checkpoint", model_dir=str(tmp_path))
    (tmp_path / "trials.json").write_text("{}")
    _refused("several trials. Pass the folder of one", model_dir=str(tmp_path))
    _refused("--model_dir, or a checkpoint, --init_checkpoint; got neither")


def test_what_does_not_fit_the_checkpoint_or_is_missing_is_refused():
    _refused("--task=score .* task is answer", task="score", **_FILES)
    _refused("--task=tag .* task is answer", task="tag", **_FILES)
    _refused("Cannot use sequence length 161", max_seq_length=161, **_FILES)
    for name in ("bert_config_file", "vocab_file"):
        files = {key: path for key, path in _FILES.items() if key != name}
        _refused(f"--{name} must be given; or a folder", **files)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"doc_stride": 3}, "doc_stride is for --task=answer; .* is embed"),
        ({"top_k": 9}, "--top_k is for --task=fill_mask"),
        ({"task": "answer", "layers": "0"}, "--layers is for --task=embed"),
        ({"task": "answer", "long_text": "tail"}, "classify or score or embed"),
        ({"window_stride": 3}, "for --long_text=windows; got --long_text=head"),
        ({"layers": "0", "format": "litert"}, "is for --format=saved_model"),
        ({"use_best_checkpoint": True}, "both name weights"),
    ],
)
def test_flags_without_effect_are_refused(options, message):
    _refused(message, **{"task": "embed", **_FILES, **options})


@pytest.mark.slow
def test_layers_that_the_model_lacks_windows_and_vocabulary_are_refused(
    tmp_path,
):
    _refused("no layer -3", task="embed", layers="-3", **_FILES)
    _refused("must have one row", task="embed", long_text="windows", **_FILES)
    vocab = tmp_path / "vocab.txt"
    vocab.write_text((_GOLDEN / "inputs/vocab.txt").read_text() + "more\n")
    _refused("1201 entries", **_FILES | {"vocab_file": str(vocab)})


@pytest.mark.parametrize(
    ("beside", "message"),
    [
        ({"labels.json": ["1", "0"]}, "the labels are in another order"),
        ({"labels.json": ["a", "b"]}, "this run needs"),
        ({"tokenizer.json": False}, "do_lower_case was False and is True"),
        ({"vocab.txt": "[PAD]\na\n"}, r"first in line 1: .* there '\[PAD\]'"),
        (
            {"state.json": "tags, fine-tuned: 0 1"},
            "--task=classify .* task is tag",
        ),
    ],
)
def test_a_checkpoint_is_compared_with_the_run_it_is_exported_as(
    tmp_path, beside, message
):
    run, other = (
        serving_client.golden_classifier(tmp_path / name)
        for name in ("run", "other")
    )
    for name in ("vocab.txt", "bert_config.json"):
        (other / name).unlink()
    labels = json.loads((other / "labels.json").read_text())
    labels["labels"] = beside.get("labels.json", labels["labels"])
    (other / "labels.json").write_text(json.dumps(labels))
    lower = {"do_lower_case": beside.get("tokenizer.json", True)}
    (other / "tokenizer.json").write_text(json.dumps(lower))
    if "vocab.txt" in beside:
        (other / "vocab.txt").write_text(beside["vocab.txt"])
    if "state.json" in beside:
        identity = {"identity": {"objective": beside["state.json"]}}
        state = other / "mrpc.ckpt-24.state.json"
        state.write_text(json.dumps(identity))
    _refused(
        message,
        model_dir=str(run),
        task="classify",
        init_checkpoint=str(other),
    )


# float32 in graphs that are put together in different ways.
_TOLERANCE = 1e-5
_FOUR_LAYERS = "inputs/bert_config_4layers.json"
_INDEX = "linex_index"
_BATCH = 10_000


def _json_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_hidden_layers_are_those_of_the_release(tmp_path):
    path = _GOLDEN / "extract_features/default_layers.jsonl"
    lines = (_GOLDEN / "inputs/extract_input.txt").read_bytes().split(b"\n")
    released = [json.loads(line) for line in path.read_text().splitlines()]
    config = {"bert_config_file": str(_GOLDEN / _FOUR_LAYERS)}
    version = export_model.run(
        export_model.Options(
            task="embed",
            export_dir=str(tmp_path / "bert"),
            layers="-1,-2,-3,-4",
            max_seq_length=32,
            **_FILES | config,
        )
    )
    single = [
        record for record in released if b" ||| " not in lines[record[_INDEX]]
    ]
    texts = [lines[record[_INDEX]] for record in single]
    (got,) = serving_client.ask(version, {"text_a": texts})
    for row, record in enumerate(single):
        tokens = [feature["token"] for feature in record["features"]]
        count = len(tokens)
        assert got["tokens"][row][:count] == tokens
        assert set(got["tokens"][row][count:]) <= {""}
        values = [
            [layer["values"] for layer in feature["layers"]]
            for feature in record["features"]
        ]
        # Rounded to six decimals.
        layers = np.array(got["layers"][row])
        np.testing.assert_allclose(layers[:count], values, atol=1e-5)
        assert not layers[count:].any()
        np.testing.assert_allclose(
            got["mean"][row], np.mean(values, axis=0), atol=1e-5
        )
        np.testing.assert_array_equal(got["sequence_output"][row], layers[:, 0])
    (vectors,) = serving_client.ask(
        version, {"text_a": texts}, signature="vectors"
    )
    for name in ("mean", "pooled_output"):
        np.testing.assert_allclose(vectors[name], got[name], atol=1e-6)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """An exported encoder, loaded."""
    folder = tmp_path_factory.mktemp("served") / "bert"
    version = export_model.run(
        export_model.Options(task="embed", export_dir=str(folder), **_FILES)
    )
    return tf.saved_model.load(version)


def _wrongly_cut(encoder, texts):
    """Returns the texts whose tokens are not those of the definition."""
    definition = tokenization.FullTokenizer(_FILES["vocab_file"])
    rows = encoder.signatures["serving_default"](
        text_a=tf.constant([text.encode() for text in texts])
    )["tokens"].numpy()
    return [
        text
        for text, row in zip(texts, rows.tolist(), strict=True)
        if [token.decode() for token in row if token]
        != ["[CLS]", *definition.tokenize(text), "[SEP]"]
    ]


@pytest.mark.slow
def test_random_strings_are_cut_as_by_the_definition(encoder):
    rng = random.Random(8)
    codes = [*range(0xD800), *range(0xE000, 0x30000)]
    common = "aA \t\u0301\u03a3\xad'.-\u4e2d\uac00\u0130"
    for _ in range(10):
        texts = [
            "".join(
                rng.choice(common)
                if rng.random() < 0.7
                else chr(rng.choice(codes))
                for _ in range(rng.randint(0, 12))
            )
            for _ in range(_BATCH)
        ]
        assert _wrongly_cut(encoder, texts) == []


def _assert_nothing_compiled(version):
    """What training compiles is not exported."""
    saved = saved_model_pb2.SavedModel()
    path = pathlib.Path(version, "saved_model.pb")
    saved.ParseFromString(path.read_bytes())
    (graph,) = saved.meta_graphs
    functions = graph.graph_def.library.function
    assert len(functions) > 10
    assert not any(f.attr["_XlaMustCompile"].b for f in functions)


@pytest.mark.slow
def test_masks_are_filled_as_the_tool_fills_them(tmp_path):
    version = export_model.run(
        export_model.Options(
            task="fill_mask", export_dir=str(tmp_path / "bert"), **_FILES
        )
    )
    texts = ["a [MASK] b", "[MASK][MASK] the", "no mask [mask]", ""]
    (got,) = serving_client.ask(version, {"text_a": texts})
    assert got["num_masks"] == [1, 2, 0, 0]
    second = {"text_a": texts[:2], "text_b": ["[MASK]", ""]}
    (pairs,) = serving_client.ask(version, second, signature="pairs")
    path = tmp_path / "masked.jsonl"
    (tmp_path / "in.txt").write_text(
        f"{texts[0]}\n{texts[1]}\na [MASK] b ||| [MASK]\n"
    )
    predict_masked.run(
        predict_masked.Options(
            input_file=str(tmp_path / "in.txt"), output_file=str(path), **_FILES
        )
    )
    found = [(got, 0), (got, 1), (pairs, 0)]
    for (outputs, row), line in zip(found, _json_lines(path), strict=True):
        for place, candidates in enumerate(line["masks"]):
            assert outputs["tokens"][row][place] == [
                candidate["token"] for candidate in candidates
            ]
            np.testing.assert_allclose(
                outputs["probabilities"][row][place],
                [candidate["probability"] for candidate in candidates],
                atol=_TOLERANCE,
            )
    _assert_nothing_compiled(version)
    assert np.shape(got["tokens"]) == (4, 2, 5)
    assert set(np.ravel(got["tokens"][2])) == {""}
    too_long = {"text_a": ["[MASK] " + "a " * 158]}
    with pytest.raises(AssertionError, match="at most 160 word pieces"):
        serving_client.ask(version, too_long)
