"""Trained models as their folders describe them."""

import json
import math
import re

import pytest
import tensorflow as tf

from bert.serving import loading
from tests.support import golden_models, toy_files


def _described(folder, **entries):
    return loading.read(str(golden_models.bert(folder, **entries)))


def test_a_described_model_is_read_as_it_was_trained(tmp_path):
    model = _described(
        tmp_path / "run",
        task="question_answering",
        max_seq_length=64,
        doc_stride=7,
        max_query_length=9,
        n_best_size=3,
        max_answer_length=5,
        version_2_with_negative=True,
        null_score_diff_threshold="-inf",
    )
    assert model.kind == "question_answering"
    assert vars(model.windows) == {
        "max_seq_length": 64,
        "doc_stride": 7,
        "max_query_length": 9,
    }
    assert vars(model.answers) == {
        "n_best_size": 3,
        "max_answer_length": 5,
        "version_2_with_negative": True,
    }
    assert model.threshold == -math.inf


def test_a_best_checkpoint_has_a_description_of_its_own(tmp_path):
    run = golden_models.classifier(tmp_path / "run")
    best = golden_models.classifier(run / "best", labels=["no", "yes"])
    assert loading.read(str(run)).label_set.names == ("0", "1")
    found = loading.read(str(run), best=True)
    assert found.label_set.names == ("no", "yes")
    assert found.model.checkpoint == str(best / "mrpc.ckpt-24")


@pytest.mark.parametrize(
    ("described", "message"),
    [
        (
            {"problem_type": "multi_label_classification"},
            r"must be one of regr",
        ),
        ({"labels": ["a", "a"]}, "all of them different; got 'a', 'a'"),
    ],
)
def test_a_description_that_no_classifier_has_is_named(
    tmp_path, described, message
):
    run = golden_models.classifier(tmp_path / "run", **described)
    with pytest.raises(ValueError, match=rf"^{run}: .*{message}"):
        _ = loading.read(str(run)).label_set


def test_layers_that_the_configuration_leaves_out_are_a_warning(
    tmp_path, caplog
):
    run = golden_models.classifier(tmp_path / "run")
    config = toy_files.read_json(run / "bert_config.json")
    depth = config["num_hidden_layers"]
    loading.read(str(run))
    assert "layers" not in caplog.text
    toy_files.write_json(
        run / "bert_config.json", {**config, "num_hidden_layers": depth - 1}
    )
    loading.read(str(run))
    assert f"has {depth} layers, and num_hidden_layers is " in caplog.text


def test_accents_are_kept_as_the_folder_states(tmp_path):
    model = _described(
        tmp_path / "run", task="pretraining", strip_accents=False
    )
    basic = model.model.tokenizer.basic_tokenizer
    assert (basic.do_lower_case, basic.strip_accents) == (True, False)


def _written(message):
    """Returns the task.json that a message suggests."""
    return json.loads(re.search(r"task\.json: (\{.*\})\. ", message)[1])


def test_squad_of_the_original_program_is_not_taken_for_version_1(tmp_path):
    folder = golden_models.bert(tmp_path / "squad")
    with pytest.raises(ValueError, match="_length, version_2") as e:
        loading.read(str(folder))
    written = _written(str(e.value))
    assert written["task"] == "question_answering"
    toy_files.write_json(folder / "task.json", written)
    model = loading.read(str(folder))
    assert model.answers.version_2_with_negative is True
    assert model.threshold == 0.0  # The default of the release.


def test_a_classifier_of_the_original_program_is_completed_in_one_step(
    tmp_path,
):
    folder = golden_models.classifier(tmp_path / "mrpc")
    (folder / "task.json").unlink()
    with pytest.raises(ValueError, match="_type, task of") as e:
        loading.read(str(folder))
    written = _written(str(e.value))
    assert written["labels"] == ["name of output 0", "name of output 1"]
    toy_files.write_json(
        folder / "task.json", {**written, "labels": ["a", "b"]}
    )
    found = loading.read(str(folder))
    assert (found.kind, found.label_set.names) == ("classification", ("a", "b"))


def _huggingface(folder, **config):
    """Makes a folder that has the files of a Hugging Face classifier."""
    golden_models.classifier(folder)
    (folder / "task.json").unlink()
    sizes = toy_files.read_json(folder / "bert_config.json")
    theirs = {
        "model_type": "bert",
        "architectures": ["BertForSequenceClassification"],
        **sizes,
        **config,
    }
    toy_files.write_json(folder / "config.json", theirs)
    tokenizer = {"do_lower_case": True, "strip_accents": False}
    toy_files.write_json(folder / "tokenizer_config.json", tokenizer)
    return str(folder)


def test_the_labels_of_a_hugging_face_folder_are_used(tmp_path):
    folder = _huggingface(tmp_path / "hf", id2label={"0": "bad", "1": "good"})
    found = loading.read(folder)
    assert (found.kind, found.label_set.names) == (
        "classification",
        ("bad", "good"),
    )
    assert found.model.tokenizer.basic_tokenizer.strip_accents is False
    folder = _huggingface(tmp_path / "unnamed")
    with pytest.raises(ValueError, match="states labels, problem_type of"):
        loading.read(folder)


def test_masks_are_filled_at_all_positions_of_the_network(tmp_path):
    folder = golden_models.bert(
        tmp_path / "run", task="pretraining", max_seq_length=16
    )
    config = toy_files.read_json(folder / "bert_config.json")
    positions = config["max_position_embeddings"]
    model = loading.read(str(folder))
    text = " it" * (positions - 3) + " [MASK]"
    (row,) = model.encode({"text": text}, None)
    assert row.num_tokens == positions > 16
    # Its vectors are those of sequences as long as in the training.
    encoder = loading.read(str(folder), layers=(-1,))
    assert encoder.truncation.max_seq_length == 16


def test_a_released_model_is_pre_trained_and_its_vocabulary_shows_the_casing(
    tmp_path,
):
    folder = golden_models.bert(tmp_path / "bert", lambda k: "squad" not in k)
    model = loading.read(str(folder))
    assert model.kind == "pretraining"
    assert model.model.tokenizer.basic_tokenizer.do_lower_case is True
    lines = toy_files.read_lines(folder / "vocab.txt")
    few = [x if "[" in x or len(x) == 1 else f"[{x}]" for x in lines]
    toy_files.write_lines(folder / "vocab.txt", few)
    with pytest.raises(ValueError, match="states do_lower_case of the model"):
        loading.read(str(folder))


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"attention": "causal"}, "left-to-right attention is not served"),
        (
            {"bilstm_head": True},
            "a BiLSTM below .* is not served",
        ),
        ({"max_seq_length": 161}, "Cannot use sequence length 161"),
        (
            {"null_score_diff_threshold": "auto"},
            "not known before run_squad.py --do_predict --do_eval",
        ),
    ],
)
def test_what_is_not_served_is_refused(tmp_path, description, message):
    question = {
        "task": "question_answering",
        "version_2_with_negative": True,
        "max_seq_length": 64,
    }
    with pytest.raises(ValueError, match=message):
        _described(tmp_path / "run", **question | description)


@pytest.mark.parametrize("entry", [{"bilstm_head": True}, {"features": "last"}])
def test_the_encoder_below_a_bilstm_is_served(tmp_path, entry):
    folder = golden_models.bert(
        tmp_path / "run", task="tagging", max_seq_length=64, **entry
    )
    model = loading.read(str(folder), layers=(-1,))
    assert (model.kind, model.model.max_seq_length) == ("embedding", 64)


def test_folders_without_one_model_are_refused(tmp_path):
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(ValueError, match=f"^{path} contains no checkpoint"):
            loading.read(str(path))
    (tmp_path / "model.onnx").touch()
    with pytest.raises(
        ValueError, match=r"model.onnx .an ONNX file.*output_dir"
    ):
        loading.read(str(tmp_path))


@pytest.mark.parametrize("has_pooler", [True, False])
def test_an_encoder_has_a_pooled_output_if_its_pooler_is_stored(
    tmp_path, has_pooler
):
    folder = golden_models.bert(
        tmp_path / "run",
        lambda k: has_pooler or "/pooler/" not in k,
        task="pretraining",
        max_seq_length=8,
    )
    model = loading.read(str(folder), layers=(-1,))
    names = ("input_ids", "input_mask", "segment_ids")
    rows = dict.fromkeys(names, tf.ones([2, 5], tf.int32))
    outputs = model.outputs(loading.load(model), rows)
    assert ("pooled_output" in outputs) == has_pooler
    assert outputs["sequence_output"].shape == (2, 5, 32)


def test_an_encoder_alone_fills_no_masks(tmp_path):
    folder = golden_models.bert(
        tmp_path / "run", lambda k: k.startswith("bert/"), task="pretraining"
    )
    with pytest.raises(ValueError, match="no output layer for masked words"):
        loading.load(loading.read(str(folder)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (None, r"must have vocab\.txt, or"),
        (
            lambda text: text.replace("[SEP]\n", "[sep]\n"),
            r"it lacks \[SEP\]\.",
        ),
        (lambda text: f"{text}another\n", "has 1201 entries, but the model's"),
    ],
)
def test_a_vocabulary_that_is_not_the_model_s_is_refused(
    tmp_path, change, message
):
    path = golden_models.classifier(tmp_path / "run") / "vocab.txt"
    text = path.read_text(encoding="utf-8")
    path.unlink()
    if change:
        path.write_text(change(text), encoding="utf-8")
    with pytest.raises((OSError, ValueError), match=message):
        loading.read(str(path.parent))


@pytest.mark.parametrize("kind", ["dot", "cosine", None])
def test_embeddings_are_compared_as_their_encoder_states(tmp_path, kind):
    folder = golden_models.sentence_encoder(tmp_path / "run")
    path = folder / "config_sentence_transformers.json"
    toy_files.write_json(path, {"similarity_fn_name": kind})
    assert loading.read(str(folder)).similarity == (kind or "cosine")
    # An encoder that no file describes.
    assert loading.read(str(folder), layers=(-1,)).similarity == "cosine"
