"""Exported encoders, and what the export refuses."""

import json
import pathlib
import random
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from bert.serving import exporting, loading, predicting
from bert.tasks import sentence_pairs
from tests.support import locations, serving_client
from tools import export_model
from vocab import tokenization

_VOCAB = str(locations.GOLDEN / "inputs/vocab.txt")


def _export(model, folder, **options):
    return export_model.run(
        export_model.Options(
            model_dir=str(model), export_dir=str(folder), **options
        )
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": "-3"}, "no layer -3"),
        ({}, "version_2_with_negative of the model"),
    ],
)
def test_what_does_not_fit_the_model_is_refused(tmp_path, options, message):
    model = serving_client.golden_model(tmp_path / "model")
    with pytest.raises(ValueError, match=message):
        _export(model, tmp_path / "served", **options)
    assert not (tmp_path / "served").exists()


def test_a_folder_that_cannot_be_written_is_named_before_the_model_is_read(
    tmp_path,
):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="file must be a folder"):
        _export(tmp_path, tmp_path / "file")


@pytest.mark.parametrize("layers", [None, "-1"])
def test_models_that_read_texts_in_windows_are_refused(tmp_path, layers):
    run = serving_client.golden_classifier(tmp_path / "run")
    serving_client.describe(
        run,
        task="classification",
        labels=["no", "yes"],
        problem_type="single_label",
        max_seq_length=16,
        long_text="windows",
    )
    with pytest.raises(ValueError, match="long_text=windows is not supported"):
        _export(run, tmp_path / "served", layers=layers)
    assert not (tmp_path / "served").exists()


@pytest.fixture
def described(monkeypatch):
    """Exports without networks; returns what model.json would say."""
    # An export of a network takes seconds; each has its own test.
    found = []
    monkeypatch.setattr(
        exporting,
        "write_saved_model",
        lambda *arguments: found.append(arguments[-1]),
    )
    monkeypatch.setattr(loading, "load", lambda model: None)
    return found


def test_the_description_of_an_encoder_has_its_layers_and_length(
    tmp_path, described
):
    model = serving_client.golden_model(tmp_path / "model")
    serving_client.describe(model, task="pretraining")
    # A pre-trained model is exported as an encoder, with or without --layers.
    _export(model, tmp_path / "served")
    _export(model, tmp_path / "served", layers="-1,0")
    for values, layers in zip(described, ([-1], [-1, 0]), strict=True):
        assert values == {
            "task": "embedding",
            "do_lower_case": True,
            "max_seq_length": 160,
            "checkpoint": "tiny.ckpt",
            "layers": layers,
        }


def test_the_description_of_a_sentence_encoder_has_its_pooling(
    tmp_path, described
):
    model = serving_client.golden_sentence_encoder(tmp_path / "model", "max")
    _export(model, tmp_path / "served")
    (values,) = described
    assert (
        values.items()
        >= {
            "task": "embedding",
            "max_seq_length": 9,
            "pooling": "max",
            "normalize": True,
            "similarity": "cosine",
        }.items()
    )
    assert "layers" not in values


@pytest.mark.parametrize("best", [False, True])
def test_the_best_checkpoint_is_exported_on_request(tmp_path, described, best):
    run = serving_client.golden_classifier(tmp_path / "run")
    serving_client.golden_classifier(run / "best")
    task = json.loads((run / "task.json").read_text())
    (run / "best/task.json").write_text(
        json.dumps(task | {"labels": ["no", "yes"]})
    )
    _export(run, tmp_path / "served", use_best_checkpoint=best)
    (values,) = described
    assert values["labels"] == (["no", "yes"] if best else ["0", "1"])


@pytest.mark.integration
@pytest.mark.parametrize(
    ("form", "file"),
    [("saved_model", "saved_model.pb"), ("litert", "model.tflite")],
)
def test_each_format_is_written_to_the_version_after_the_highest(
    tmp_path, form, file
):
    for version in ("2", "10", "old", "11-old"):
        (tmp_path / "served" / version).mkdir(parents=True)
    run = serving_client.golden_classifier(tmp_path / "run")
    target = _export(run, tmp_path / "served", format=form)
    assert target == str(tmp_path / "served" / "11")
    assert pathlib.Path(target, file).exists()


@pytest.mark.integration
@pytest.mark.parametrize("signature", ["ids", "ids_and_label"])
def test_clients_of_the_original_program_ask_with_ids_on_request(
    tmp_path, signature
):
    run = serving_client.golden_classifier(tmp_path / "run")
    version = _export(run, tmp_path / "served", default_signature=signature)
    tokenizer = tokenization.FullTokenizer(_VOCAB)
    tokens = ["[CLS]", *tokenizer.tokenize("it rained"), "[SEP]"]
    # The original's clients pad each row.
    rows = sentence_pairs.padded(
        tokenizer.convert_tokens_to_ids(tokens), [0] * len(tokens), 16
    )
    request = {k: [v] for k, v in rows.items()}
    if signature == "ids_and_label":
        request["label_ids"] = [0]
    (by_ids,) = serving_client.ask(version, request)
    text = {"text_a": ["it rained"]}
    (by_text,) = serving_client.ask(version, text, signature="text")
    # TensorFlow Serving leaves out the name of an only output.
    assert list(by_ids) == ["probabilities"]
    np.testing.assert_allclose(
        by_ids["probabilities"], by_text["probabilities"], atol=1e-5
    )


@pytest.mark.integration
def test_hidden_layers_are_those_of_the_release(tmp_path, caplog):
    model = serving_client.golden_model(tmp_path / "model")
    config = locations.GOLDEN / "inputs/bert_config_4layers.json"
    shutil.copy(config, model / "bert_config.json")
    serving_client.describe(model, task="pretraining", max_seq_length=32)
    lines = (
        (locations.GOLDEN / "inputs/extract_input.txt")
        .read_bytes()
        .split(b"\n")
    )
    path = locations.GOLDEN / "extract_features/default_layers.jsonl"
    released = [json.loads(line) for line in path.read_text().splitlines()]
    single = [
        record
        for record in released
        if b" ||| " not in lines[record["linex_index"]]
    ]
    version = _export(model, tmp_path / "bert", layers="-1,-2,-3,-4")
    described = json.loads(pathlib.Path(version, "model.json").read_text())
    assert described["task"] == "embedding"
    assert described["layers"] == [-1, -2, -3, -4]
    limit = f"at most 32 word pieces, the max_seq_length of {model}"
    assert any(limit in message for message in caplog.messages)
    texts = [lines[record["linex_index"]] for record in single]
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
    assert np.shape(got["pooled_output"]) == (len(single), 32)


@pytest.fixture(scope="module", name="exported")
def _exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    model = serving_client.golden_model(folder / "model")
    return _export(model, folder / "bert", layers="-1")


@pytest.mark.integration
def test_random_strings_are_cut_as_by_the_definition(exported):
    encoder = tf.saved_model.load(exported).signatures["serving_default"]
    definition = tokenization.FullTokenizer(_VOCAB)
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
            for _ in range(10_000)
        ]
        rows = encoder(text_a=tf.constant([text.encode() for text in texts]))
        for text, row in zip(texts, rows["tokens"].numpy(), strict=True):
            found = [token.decode() for token in row.tolist() if token]
            assert found == ["[CLS]", *definition.tokenize(text), "[SEP]"]


@pytest.mark.integration
def test_what_training_compiles_is_not_exported(exported):
    saved = saved_model_pb2.SavedModel()
    path = pathlib.Path(exported, "saved_model.pb")
    saved.ParseFromString(path.read_bytes())
    (graph,) = saved.meta_graphs
    functions = graph.graph_def.library.function
    assert len(functions) > 10
    assert not any(f.attr["_XlaMustCompile"].b for f in functions)


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["mean", "max", "cls"])
def test_a_sentence_encoder_embeds_as_it_predicts(tmp_path, pooling):
    model = serving_client.golden_sentence_encoder(tmp_path / "model", pooling)
    version = _export(model, tmp_path / "served")
    described = json.loads(pathlib.Path(version, "model.json").read_text())
    assert {
        k: described[k] for k in ("pooling", "normalize", "similarity")
    } == {
        "pooling": pooling,
        "normalize": True,
        "similarity": "cosine",
    }
    # The second is longer than the model reads.
    texts = ["it rained", "it rained all day and all night and all day", ""]
    predictor = predicting.Predictor(loading.read(str(model)), 2)
    expected = predictor.predict(
        [predictor.encode({"text_a": text}) for text in texts]
        + [predictor.encode({"text_a": texts[0], "text_b": texts[1]})]
    )
    (got,) = serving_client.ask(version, {"text_a": texts})
    assert got.keys() == {"embedding"}
    np.testing.assert_allclose(
        got["embedding"], [row["embedding"] for row in expected[:3]], atol=1e-5
    )
    (got,) = serving_client.ask(
        version, {"text_a": texts[:1], "text_b": texts[1:2]}, signature="pairs"
    )
    assert got.keys() == {"similarity"}
    np.testing.assert_allclose(
        got["similarity"], [expected[3]["similarity"]], atol=1e-5
    )


@pytest.mark.slow
def test_layers_of_a_sentence_encoder_are_exported_on_request(tmp_path):
    model = serving_client.golden_sentence_encoder(tmp_path / "model")
    (model / "1_Pooling/config.json").write_text('{"pooling_mode": "other"}')
    with pytest.raises(ValueError, match="the pooling is other"):
        _export(model, tmp_path / "served")
    version = _export(model, tmp_path / "served", layers="-1,-2")
    (got,) = serving_client.ask(version, {"text_a": ["it rained"]})
    assert np.shape(got["mean"]) == (1, 2, 32)
    assert "embedding" not in got


def test_a_signature_is_not_chosen_for_a_network_without_one():
    with pytest.raises(
        ValueError, match=r"--default_signature .*--format=lite"
    ):
        export_model.Options(
            model_dir="m",
            export_dir="e",
            format="litert",
            default_signature="ids",
        )
