"""Exported models, and what the export refuses."""

import pathlib
import random
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from bert.serving import loading, predicting
from bert.tasks import sentence_pairs
from tests.support import (
    golden_models,
    locations,
    serving_client,
    tool_runs,
    toy_files,
)
from vocab import tokenization

_export = tool_runs.exported


@pytest.mark.parametrize(
    ("make", "entries", "options", "message"),
    [
        (golden_models.bert, {}, {"layers": "-3"}, "no layer -3"),
        (golden_models.bert, {}, {}, "version_2_with_negative of the model"),
        *(
            (
                golden_models.classifier,
                {"max_seq_length": 16, "long_text": "windows"},
                {"layers": layers},
                "long_text=windows is not supported",
            )
            for layers in (None, "-1")
        ),
    ],
)
def test_what_cannot_be_served_is_refused(
    tmp_path, make, entries, options, message
):
    model = make(tmp_path / "model", **entries)
    with pytest.raises(ValueError, match=message):
        _export(model, tmp_path / "served", **options)
    assert not (tmp_path / "served").exists()


def test_a_folder_that_cannot_be_written_is_named_before_the_model_is_read(
    tmp_path,
):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="file must be a folder"):
        _export(tmp_path, tmp_path / "file")


def _described(version):
    return toy_files.read_json(pathlib.Path(version, "model.json"))


@pytest.mark.integration
@pytest.mark.parametrize(
    ("best", "form", "file"),
    [
        (False, "saved_model", "saved_model.pb"),
        (True, "litert", "model.tflite"),
    ],
)
def test_each_format_is_written_to_the_version_after_the_highest(
    tmp_path, best, form, file
):
    for version in ("2", "10", "old", "11-old"):
        (tmp_path / "served" / version).mkdir(parents=True)
    run = golden_models.classifier(tmp_path / "run")
    golden_models.classifier(run / "best", labels=["no", "yes"])
    target = _export(
        run, tmp_path / "served", format=form, use_best_checkpoint=best
    )
    assert target == str(tmp_path / "served" / "11")
    assert pathlib.Path(target, file).exists()
    labels = _described(target)["labels"]
    assert labels == (["no", "yes"] if best else ["0", "1"])


@pytest.mark.integration
@pytest.mark.parametrize("signature", ["ids", "ids_and_label"])
def test_clients_of_the_original_program_ask_with_ids_on_request(
    tmp_path, signature
):
    run = golden_models.classifier(tmp_path / "run")
    version = _export(run, tmp_path / "served", default_signature=signature)
    tokenizer = tokenization.FullTokenizer(locations.VOCAB_FILE)
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
    model = golden_models.bert(
        tmp_path / "model", task="pretraining", max_seq_length=32
    )
    config = locations.INPUTS / "bert_config_4layers.json"
    shutil.copy(config, model / "bert_config.json")
    lines = (locations.INPUTS / "extract_input.txt").read_bytes().split(b"\n")
    single = [
        record
        for record in toy_files.read_json_lines(
            locations.GOLDEN / "extract_features/default_layers.jsonl"
        )
        if b" ||| " not in lines[record["linex_index"]]
    ]
    version = _export(model, tmp_path / "bert", layers="-1,-2,-3,-4")
    described = _described(version)
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
def _exported(made_once):
    # A pre-trained model is exported as an encoder, without --layers too.
    made = made_once(tool_runs.export_golden, "bert", task="pretraining")
    return made / "served/1"


@pytest.mark.integration
def test_the_description_of_an_encoder_has_its_layers_and_length(exported):
    wanted = {
        "task": "embedding",
        "do_lower_case": True,
        "max_seq_length": 160,
        "checkpoint": "tiny.ckpt",
        "layers": [-1],
    }
    assert _described(exported).items() >= wanted.items()


@pytest.mark.integration
def test_random_strings_are_cut_as_by_the_definition(exported):
    encoder = tf.saved_model.load(str(exported)).signatures["serving_default"]
    definition = tokenization.FullTokenizer(locations.VOCAB_FILE)
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


@pytest.mark.integration
@pytest.mark.parametrize(
    "pooling",
    [
        "max",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("mean", "cls")
        ),
    ],
)
def test_a_sentence_encoder_embeds_as_it_predicts(made_once, pooling):
    made = made_once(tool_runs.export_golden, "sentence_encoder", pooling)
    model, version = made / "model", made / "served/1"
    wanted = {
        "task": "embedding",
        "max_seq_length": 9,
        "pooling": pooling,
        "normalize": True,
        "similarity": "cosine",
    }
    described = _described(version)
    assert described.items() >= wanted.items()
    assert "layers" not in described
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
    model = golden_models.sentence_encoder(tmp_path / "model")
    (model / "1_Pooling/config.json").write_text('{"pooling_mode": "other"}')
    with pytest.raises(ValueError, match="the pooling is other"):
        _export(model, tmp_path / "served")
    version = _export(model, tmp_path / "served", layers="-1,-2")
    (got,) = serving_client.ask(version, {"text_a": ["it rained"]})
    assert np.shape(got["mean"]) == (1, 2, 32)
    assert "embedding" not in got


@pytest.mark.parametrize("signature", ["ids", "ids_and_label"])
def test_a_signature_is_not_chosen_for_a_network_without_one(signature):
    with pytest.raises(
        ValueError, match=r"--default_signature .*--format=lite"
    ):
        _export("m", "e", format="litert", default_signature=signature)
