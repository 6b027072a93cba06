"""Configs: the release's fields, defaults and file format."""

import dataclasses
import io
import json
import pathlib
import shutil

import numpy as np
import pytest

from files import paths
from modeling import bert, checkpoints, kernels
from modeling import config as config_lib

_GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
_FIELDS = json.loads((_GOLDEN / "inputs/bert_config.json").read_text())
_GOLDEN_CONFIG = config_lib.BertConfig.from_dict(_FIELDS)


def test_defaults_are_the_release_s():
    assert config_lib.BertConfig(vocab_size=11).to_dict() == {
        "vocab_size": 11,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "max_position_embeddings": 512,
        "type_vocab_size": 16,
        "initializer_range": 0.02,
    }


def test_vocab_size_is_required():
    with pytest.raises(TypeError, match="vocab_size"):
        config_lib.BertConfig()


def test_json_round_trip(tmp_path):
    config = config_lib.BertConfig.from_dict(_FIELDS)
    path = tmp_path / "bert_config.json"
    path.write_text(config.to_json_string())
    assert config_lib.BertConfig.from_json_file(str(path)) == config
    assert json.loads(path.read_text()) == _FIELDS


def test_json_is_sorted_indented_by_two_and_ends_in_a_newline():
    text = config_lib.BertConfig.from_dict(_FIELDS).to_json_string()
    assert text.startswith('{\n  "attention_probs_dropout_prob": 0.1,\n')
    assert text.endswith('\n  "vocab_size": 1200\n}\n')


def test_all_missing_keys_are_named_with_the_file(tmp_path):
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"vocab_size": 5, "hidden_size": 4}))
    with pytest.raises(
        ValueError, match="must contain num_hidden_layers, num_att"
    ):
        config_lib.BertConfig.from_json_file(str(path))
    with pytest.raises(ValueError, match="initializer_range; got hidden_"):
        config_lib.BertConfig.from_json_file(str(path))


def test_unknown_keys_are_warned_about_by_name(caplog):
    config_lib.BertConfig.from_dict(_FIELDS | {"zebra": 1, "ant": 2})
    assert "ant, zebra" in caplog.text


def test_keys_of_published_configs_that_do_nothing_pass_silently(caplog):
    inert = {"directionality": "bidi", "pooler_fc_size": 768}
    config = config_lib.BertConfig.from_dict(_FIELDS | inert)
    assert config == config_lib.BertConfig.from_dict(_FIELDS)
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "must be JSON"), ("[1]", "must be a JSON object; got list")],
)
def test_file_that_is_no_json_object_is_named(tmp_path, text, message):
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        config_lib.BertConfig.from_json_file(str(path))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab_size": None}, "vocab_size must be an integer; got None"),
        ({"hidden_size": 8.0}, "hidden_size must be an integer; got 8.0"),
        ({"num_hidden_layers": True}, "must be an integer; got True"),
        ({"num_hidden_layers": 0}, "must be positive; got 0"),
        ({"hidden_size": 33}, "multiple of num_attention_heads; got 33 and 4"),
        ({"hidden_dropout_prob": 1}, r"must be in \[0, 1\); got 1"),
        ({"attention_probs_dropout_prob": -0.1}, r"got -0.1"),
        ({"hidden_dropout_prob": "0.1"}, r"got '0.1'"),
        ({"initializer_range": float("nan")}, "initializer_range must be fin"),
        ({"hidden_act": "swish"}, "must be one of .*; got 'swish'"),
        ({"hidden_act": 3}, "hidden_act must be one of"),
    ],
)
def test_impossible_values_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        config_lib.BertConfig.from_dict(_FIELDS | change)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("gelu", "gelu"),
        ("GELU", "gelu"),
        ("Relu", "relu"),
        ("tanh", "tanh"),
        ("linear", "linear"),
        ("", "linear"),
        (None, "linear"),
    ],
)
def test_activation_names_are_the_release_s(name, meant):
    assert config_lib.activation(name) == meant


def test_activation_may_be_a_function_but_not_in_json():
    config = config_lib.BertConfig(vocab_size=5, hidden_act=abs)
    assert config_lib.activation(abs) is abs
    with pytest.raises(ValueError, match="must be a name to be written"):
        config.to_json_string()


def test_every_activation_name_has_a_function():
    for name in config_lib.ACTIVATIONS:
        ones = kernels.ops.ones([1, 2])
        assert kernels.activate(ones, ones[0], name).shape == (1, 2)


def test_file_may_be_remote(monkeypatch):
    def open_to_read(path):
        assert path == "gs://bucket/c.json"
        return io.BytesIO(json.dumps(_FIELDS).encode())

    monkeypatch.setattr(paths, "open_to_read", open_to_read)
    config = config_lib.BertConfig.from_json_file("gs://bucket/c.json")
    assert config.to_dict() == _FIELDS


def test_a_vocabulary_must_fit_the_model(caplog):
    sizes = config_lib.BertConfig(vocab_size=11)
    with pytest.raises(ValueError, match=r"v.txt has 12 entries, but"):
        sizes.check_vocabulary(12, "v.txt")
    sizes.check_vocabulary(11, "v.txt")
    assert not caplog.records
    sizes.check_vocabulary(10, "v.txt")
    assert "v.txt has 10 entries" in caplog.text


@pytest.fixture
def prefix(tmp_path):
    for file in (_GOLDEN / "model").glob("tiny.ckpt.*"):
        shutil.copyfile(file, tmp_path / file.name)
    return str(tmp_path / "tiny.ckpt")


def _put_beside(prefix, name="bert_config.json", **changes):
    values = {**_GOLDEN_CONFIG.to_dict(), **changes}
    (pathlib.Path(prefix).parent / name).write_text(json.dumps(values))


def test_either_file_is_read_from_prefix_or_folder(prefix):
    with pytest.raises(FileNotFoundError, match="must be a bert_config"):
        config_lib.BertConfig.from_checkpoint(prefix)
    _put_beside(prefix, "config.json", model_type="bert", hidden_act="gelu_new")
    assert config_lib.BertConfig.from_checkpoint(prefix) == _GOLDEN_CONFIG
    _put_beside(prefix, hidden_act="relu")
    want = dataclasses.replace(_GOLDEN_CONFIG, hidden_act="relu")
    assert (
        config_lib.BertConfig.from_checkpoint(str(pathlib.Path(prefix).parent))
        == want
    )


def test_a_file_of_that_name_that_is_no_model_s_is_left_alone(prefix):
    path = pathlib.Path(prefix).parent / "config.json"
    path.write_text('{"editor": "dark"}')
    assert config_lib.BertConfig.find(prefix) is None


def test_other_attention_heads_are_refused(prefix):
    _put_beside(prefix, num_attention_heads=8)
    with pytest.raises(
        ValueError, match=r"num_attention_heads must be .* 4 in the model and 8"
    ):
        checkpoints.load(bert.BertModel(_GOLDEN_CONFIG), prefix)


def test_another_activation_is_reported(prefix):
    _put_beside(prefix, hidden_act="relu")
    report = checkpoints.load(bert.BertModel(_GOLDEN_CONFIG), prefix)
    assert "hidden_act is gelu here and relu in" in str(report)
    _put_beside(prefix, hidden_act="GELU", hidden_dropout_prob=0.5)
    assert checkpoints.load(bert.BertModel(_GOLDEN_CONFIG), prefix).notes == ()


def test_three_lines_are_enough(prefix):
    _put_beside(prefix)
    model = bert.BertModel(config_lib.BertConfig.from_checkpoint(prefix))
    checkpoints.load(model, prefix)
    outputs = model(np.array([[3, 5, 7]]))
    assert outputs["sequence_output"].shape == (1, 3, 32)


def test_finds_the_folder_of_a_checkpoint(tmp_path):
    folder = str(tmp_path)
    for ending in ("", "/model.ckpt-1", "/model.ckpt-1.index"):
        assert config_lib.folder_of(f"{folder}{ending}") == folder
