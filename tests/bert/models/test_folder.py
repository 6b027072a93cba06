"""What the files of a folder say about its model."""

import dataclasses
import shutil

import pytest

from bert.models import folder as folder_lib
from modeling import config as config_lib
from tests.bert.models import toy_folders
from tests.support import locations
from vocab import tokenization

_INPUTS = locations.GOLDEN / "inputs"
_open = folder_lib.ModelFolder.open


def _said(path):
    return _open(str(path)).description.to_json()


def test_a_described_folder_is_read_as_it_was_written(tmp_path):
    words = toy_folders.put_entries(tmp_path / "words.txt", ["[PAD]", "a"])
    run = tmp_path / "run"
    folder_lib.write(str(run), toy_folders.CONFIG, toy_folders.TAGGER, words)
    model = _open(str(run))
    assert model.description == toy_folders.TAGGER
    assert model.config == toy_folders.CONFIG
    assert model.entries == ("[PAD]", "a")
    assert (run / "vocab.txt").read_text() == "[PAD]\na\n"
    assert {*model.sources.values()} == {"task.json"}
    assert model.source("labels") == str(run / "task.json")


def test_a_checkpoint_is_found_once(tmp_path):
    assert _open(str(tmp_path)).checkpoint is None
    model = toy_folders.trained(tmp_path)
    assert model.checkpoint == str(tmp_path / "model.ckpt-3")
    assert model.has_training_state
    by_prefix = _open(str(tmp_path / "model.ckpt-3"))
    assert (by_prefix.path, by_prefix.checkpoint) == (
        str(tmp_path),
        model.checkpoint,
    )
    assert by_prefix.description == model.description


def test_a_stray_checkpoint_is_none_of_a_training(tmp_path):
    (tmp_path / "bert_model.ckpt.index").touch()
    model = _open(str(tmp_path))
    assert model.checkpoint == str(tmp_path / "bert_model.ckpt")
    assert not model.has_training_state


def test_a_model_of_the_hub_without_weights_is_named_by_its_folder(tmp_path):
    model = dataclasses.replace(_open(str(tmp_path)), name="hf://lab/bert")
    with pytest.raises(FileNotFoundError, match=f"at '{tmp_path}'"):
        model.find_checkpoint()


def test_our_files_come_before_those_of_hugging_face(tmp_path):
    toy_folders.put_entries(tmp_path / "vocab.txt", ["[PAD]", "a"])
    vocab = {"[PAD]": 0, "b": 1}
    toy_folders.put(tmp_path, "tokenizer.json", {"model": {"vocab": vocab}})
    toy_folders.put(tmp_path, "config.json", {"hidden_act": "relu"})
    model = toy_folders.trained(tmp_path)
    assert model.config == toy_folders.CONFIG
    assert model.entries == ("[PAD]", "a")


def test_folders_of_other_programs_are_read_as_far_as_they_say(tmp_path):
    assert _said(tmp_path) == {}
    shutil.copyfile(_INPUTS / "vocab.txt", tmp_path / "vocab.txt")
    assert _said(tmp_path) == {"do_lower_case": True, "strip_accents": True}
    # Statements are not mixed with the look of the vocabulary.
    toy_folders.put(
        tmp_path, "tokenizer.json", {"normalizer": {"lowercase": False}}
    )
    assert _said(tmp_path) == {"do_lower_case": False}
    toy_folders.put(
        tmp_path,
        "tokenizer_config.json",
        {"do_lower_case": True, "strip_accents": False},
    )
    toy_folders.put(
        tmp_path,
        "config.json",
        {
            "architectures": ["BertForTokenClassification"],
            "id2label": {"0": "O", "1": "B-X"},
        },
    )
    assert _said(tmp_path) == {
        "task": "tagging",
        "labels": ["O", "B-X"],
        "problem_type": "single_label",
        "do_lower_case": True,
        "strip_accents": False,
    }
    kind = {"problem_type": "multi_label_classification"}
    toy_folders.put(
        tmp_path, "config.json", {"id2label": {"0": "LABEL_0"}, **kind}
    )
    assert "labels" not in _said(tmp_path)
    assert _said(tmp_path)["problem_type"] == "multi_label"
    toy_folders.put(tmp_path, "config.json", {"problem_type": "regression"})
    assert _said(tmp_path)["labels"] == []


def test_our_description_is_first_and_others_complete_it(tmp_path):
    toy_folders.put(tmp_path, "task.json", {"labels": ["no", "yes"]})
    toy_folders.put(
        tmp_path,
        "config.json",
        {
            "architectures": ["BertForSequenceClassification"],
            "id2label": {"0": "NO", "1": "YES"},
            "max_position_embeddings": 64,
        },
    )
    toy_folders.put(tmp_path, "tokenizer_config.json", {"do_lower_case": False})
    model = _open(str(tmp_path))
    assert model.description.to_json() == {
        "labels": ["no", "yes"],
        "task": "classification",
        "problem_type": "single_label",
        "do_lower_case": False,
        "max_seq_length": 64,
    }
    assert model.sources == {
        "labels": "task.json",
        "task": "config.json",
        "problem_type": "config.json",
        "do_lower_case": "tokenizer_config.json",
        "max_seq_length": "config.json",
    }


@pytest.mark.parametrize(
    ("files", "length", "source"),
    [
        ({}, None, None),
        ({"tokenizer_config": {"model_max_length": 32}}, 32, "tokenizer_conf"),
        ({"config": {"max_position_embeddings": 64}}, 64, "config.json"),
        # transformers writes this number where nobody said a length.
        (
            {
                "tokenizer_config": {"model_max_length": int(1e30)},
                "config": {"max_position_embeddings": 64},
            },
            64,
            "config.json",
        ),
        # No text is longer than the network.
        (
            {
                "tokenizer_config": {"model_max_length": 128},
                "config": {"max_position_embeddings": 64},
            },
            64,
            "config.json",
        ),
        (
            {
                "sentence_bert_config": {"max_seq_length": 48},
                "tokenizer_config": {"model_max_length": 512},
                "config": {"max_position_embeddings": 64},
            },
            48,
            "sentence_bert_config.json",
        ),
        (
            {
                "task": {"max_seq_length": 16},
                "tokenizer_config": {"model_max_length": 32},
                "config": {"max_position_embeddings": 8},
            },
            16,
            "task.json",
        ),
    ],
)
def test_the_length_is_that_of_the_first_file_that_says_one(
    tmp_path, files, length, source
):
    for name, values in files.items():
        toy_folders.put(tmp_path, f"{name}.json", values)
    model = _open(str(tmp_path))
    assert model.description.max_seq_length == length
    if source:
        assert model.sources["max_seq_length"].startswith(source)


def test_the_vocabulary_may_be_in_tokenizer_json_alone(tmp_path):
    vocab = {"[PAD]": 0, "b": 2, "a": 1}
    toy_folders.put(tmp_path, "tokenizer.json", {"model": {"vocab": vocab}})
    model = _open(str(tmp_path))
    assert model.vocab_file == str(tmp_path / "tokenizer.json")
    assert model.entries == ("[PAD]", "a", "b")
    out = tmp_path / "out"
    folder_lib.write(
        str(out), toy_folders.CONFIG, model.description, model.vocab_file
    )
    assert (out / "vocab.txt").read_text() == "[PAD]\na\nb\n"


def test_a_vocabulary_in_the_folder_is_not_written_again(tmp_path):
    words = tmp_path / "vocab.txt"
    toy_folders.put_entries(words, ["[PAD]", "a"])
    before = words.stat().st_ino
    folder_lib.write(
        str(tmp_path), toy_folders.CONFIG, toy_folders.TAGGER, str(words)
    )
    assert words.stat().st_ino == before


@pytest.mark.parametrize("is_cased", [False, True])
def test_the_casing_of_a_sentence_encoder_is_that_of_its_tokenizer(
    tmp_path, is_cased
):
    modules = [
        {"type": "models.Transformer", "path": ""},
        {"type": "models.Pooling", "path": "1_Pooling"},
    ]
    toy_folders.put(tmp_path, "modules.json", modules)
    (tmp_path / "1_Pooling").mkdir()
    toy_folders.put(tmp_path, "1_Pooling/config.json", {})
    lowered = {"do_lower_case": True}
    toy_folders.put(tmp_path, "sentence_bert_config.json", lowered)
    casing = {"do_lower_case": not is_cased}
    toy_folders.put(tmp_path, "tokenizer_config.json", casing)
    model = _open(str(tmp_path))
    if not is_cased:
        assert model.sentence_encoder is not None
        return
    with pytest.raises(ValueError, match="the tokenizer keeps case"):
        model.sentence_encoder  # noqa: B018


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("BertForPreTraining", "pretraining"),
        ("BertForMaskedLM", "pretraining"),
        ("BertForSequenceClassification", "classification"),
        ("BertForTokenClassification", "tagging"),
        ("BertForQuestionAnswering", "question_answering"),
        ("BertForMultipleChoice", "multiple_choice"),
    ],
)
def test_the_class_of_hugging_face_is_the_task(tmp_path, name, task):
    toy_folders.put(tmp_path, "config.json", {"architectures": [name]})
    assert _said(tmp_path) == {"task": task}


def test_an_encoder_of_hugging_face_has_no_task(tmp_path):
    classes = {"architectures": ["BertModel"]}
    toy_folders.put(tmp_path, "config.json", classes)
    assert "task" not in _said(tmp_path)


def test_a_mistake_in_our_description_is_named(tmp_path):
    toy_folders.put(tmp_path, "task.json", {"max_seq_length": "128"})
    with pytest.raises(ValueError, match=r"task\.json: 'max_seq_length' must"):
        _open(str(tmp_path))


def test_chosen_values_are_updated_and_others_stay(tmp_path):
    toy_folders.trained(tmp_path, null_score_diff_threshold="auto")
    folder_lib.update(str(tmp_path), null_score_diff_threshold=-1.5)
    description = _open(str(tmp_path)).description
    assert description == dataclasses.replace(
        toy_folders.TAGGER, null_score_diff_threshold=-1.5
    )
    empty = tmp_path / "empty"
    empty.mkdir()
    folder_lib.update(str(empty), null_score_diff_threshold=1.0)
    assert [*empty.iterdir()] == []


def test_a_folder_that_does_not_exist_says_nothing(tmp_path):
    toy_folders.trained(tmp_path)
    model = _open(str(tmp_path / "new"), is_folder=True)
    assert model.path == str(tmp_path / "new")
    assert (model.checkpoint, model.vocab_file) == (None, None)
    assert model.description.to_json() == {}


@pytest.mark.parametrize("name", ["vocab.txt", "tokenizer.json"])
def test_a_vocabulary_that_is_not_the_described_one_is_refused(tmp_path, name):
    entries = ["[PAD]", "a", "b"]
    tokens = tokenization.vocab_sha256(entries)
    toy_folders.put(tmp_path, "task.json", {"vocab_sha256": tokens})
    for changed in (entries, ["[PAD]", "b", "a"], entries[:2], [*entries, "c"]):
        if name == "vocab.txt":
            toy_folders.put_entries(tmp_path / name, changed)
        else:
            vocab = {entry: i for i, entry in enumerate(changed)}
            toy_folders.put(tmp_path, name, {"model": {"vocab": vocab}})
        if changed == entries:
            assert _open(str(tmp_path)).entries == tuple(entries)
            continue
        with pytest.raises(ValueError, match="not the vocabulary") as refusal:
            _open(str(tmp_path))
        assert str(tmp_path / name) in str(refusal.value)
        assert str(tmp_path / "task.json") in str(refusal.value)


@pytest.mark.parametrize(
    ("stated", "act"), [(None, "gelu"), ("gelu", "gelu"), ("gelu_exact",) * 2]
)
def test_a_configuration_of_elsewhere_means_the_network_of_the_weights(
    tmp_path, stated, act
):
    theirs = {**toy_folders.CONFIG.to_dict(), "model_type": "bert"}
    toy_folders.put(tmp_path, "theirs.json", theirs)
    path, folder = str(tmp_path / "theirs.json"), tmp_path / "folder"
    folder.mkdir()
    assert _open(str(folder)).read_config(path).hidden_act == "gelu_exact"
    (folder / "bert_model.ckpt.index").touch()
    if stated is not None:
        own = {**toy_folders.CONFIG.to_dict(), "hidden_act": stated}
        toy_folders.put(folder, "bert_config.json", own)
    assert _open(str(folder)).read_config(path).hidden_act == act


def test_an_adapter_is_no_model_with_or_without_weights(tmp_path):
    base = {"base_model_name_or_path": "bert-base-uncased"}
    toy_folders.put(tmp_path, "adapter_config.json", base)
    for name in ("adapter_model.safetensors", "model.safetensors"):
        (tmp_path / name).touch()
        with pytest.raises(ValueError, match=r"adapter .*'bert-base-uncased'"):
            _open(str(tmp_path))


@pytest.mark.parametrize("package", ["keras_hub", "keras_nlp"])
def test_a_preset_of_keras_hub_is_named_and_not_read(tmp_path, package):
    config = {"module": "m", "registered_name": f"{package}>BertBackbone"}
    toy_folders.put(tmp_path, "config.json", config)
    toy_folders.put(tmp_path, "tokenizer.json", {"class_name": "x"})
    (tmp_path / "model.weights.h5").touch()
    message = rf"keras-hub \({package}>BertBackbone\).*docs/keras\.md"
    with pytest.raises(ValueError, match=message):
        _open(str(tmp_path))
    with pytest.raises(ValueError, match=message):
        config_lib.BertConfig.from_checkpoint(str(tmp_path))


@pytest.mark.parametrize(
    ("statement", "activation"),
    [
        ({"sentence_transformers": {"version": "5.1.0"}}, None),
        (
            {"sentence_transformers": {"activation_fn": "a.b.Sigmoid"}},
            "sigmoid",
        ),
        ({"sbert_ce_default_activation_function": "x.Identity"}, "identity"),
        ({"sbert_ce_default_activation_function": "x.Tanh"}, "tanh"),
    ],
)
def test_the_activation_of_a_cross_encoder_is_stated(
    tmp_path, statement, activation
):
    toy_folders.put(tmp_path, "config.json", statement)
    assert _open(str(tmp_path)).description.activation == activation


def test_the_names_of_several_scores_are_kept(tmp_path):
    names = {"0": "latitude", "1": "longitude"}
    config = {"problem_type": "regression", "id2label": names}
    toy_folders.put(tmp_path, "config.json", config)
    described = _open(str(tmp_path)).description
    assert described.problem_type == "regression"
    assert described.labels == ("latitude", "longitude")
