"""Configs: the release's fields and file format, and the shipped files."""

import dataclasses
import json
import math
import pathlib
import shutil

import pytest

from modeling import bert, checkpoints, heads
from modeling import config as config_lib
from tests.support import locations

_FIELDS = json.loads((locations.GOLDEN / "inputs/bert_config.json").read_text())
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
    with pytest.raises(TypeError, match="vocab_size"):
        config_lib.BertConfig()


def test_json_round_trip(tmp_path):
    config = config_lib.BertConfig.from_dict(_FIELDS)
    path = tmp_path / "bert_config.json"
    path.write_text(json.dumps(config.to_dict()))
    assert config_lib.BertConfig.from_json_file(str(path)) == config
    assert json.loads(path.read_text()) == _FIELDS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "must be JSON"),
        ("[1]", "must be a JSON object; got list"),
        (
            '{"vocab_size": 5, "hidden_size": 4}',
            "must contain num_hidden_layers, num_att.*initializer_range; got h",
        ),
    ],
)
def test_file_that_is_no_config_is_named(tmp_path, text, message):
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        config_lib.BertConfig.from_json_file(str(path))
    assert str(path) in str(caught.value)


def test_every_size_and_every_share_must_be_given():
    for name in _FIELDS:
        others = {k: v for k, v in _FIELDS.items() if k != name}
        with pytest.raises(ValueError, match=f"must contain {name}; got"):
            config_lib.BertConfig.from_dict(others)


def test_unknown_keys_are_warned_about_by_name(caplog):
    # Keys of published configs that do nothing pass silently.
    inert = {"directionality": "bidi", "pooler_fc_size": 768}
    config = config_lib.BertConfig.from_dict(_FIELDS | inert)
    assert config == config_lib.BertConfig.from_dict(_FIELDS)
    assert caplog.text == ""
    config_lib.BertConfig.from_dict(_FIELDS | {"zebra": 1, "ant": 2})
    assert "ant, zebra" in caplog.text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab_size": None}, "vocab_size must be a positive integer; got N"),
        ({"hidden_size": 8.0}, "hidden_size must be a positive .* got 8.0"),
        ({"num_hidden_layers": True}, "must be a positive integer; got True"),
        ({"num_hidden_layers": 0}, "must be a positive integer; got 0"),
        ({"hidden_size": 33}, "multiple of num_attention_heads; got 33 and 4"),
        ({"hidden_dropout_prob": 1}, r"must be in \[0, 1\); got 1"),
        ({"attention_probs_dropout_prob": -0.1}, r"got -0.1"),
        ({"hidden_dropout_prob": "0.1"}, r"got '0.1'"),
        ({"initializer_range": float("nan")}, "initializer_range must be fin"),
        ({"initializer_range": float("inf")}, "initializer_range must be fin"),
        (
            {"initializer_range": -0.1},
            "initializer_range must be fin.*got -0.1",
        ),
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


def test_a_text_has_as_many_positions_as_the_model_at_most():
    sizes = config_lib.BertConfig(vocab_size=11, max_position_embeddings=9)
    sizes.check_length(9)
    with pytest.raises(
        ValueError, match=r"length 10 because the BERT.*--max_seq_length=9 or"
    ):
        sizes.check_length(10)


def test_a_pair_needs_a_model_of_two_types_of_segment():
    sizes = config_lib.BertConfig(vocab_size=11, type_vocab_size=1)
    sizes.check_segments([0, 0])
    with pytest.raises(ValueError, match="type_vocab_size of this one is 1"):
        sizes.check_segments([0, 1])


def test_a_vocabulary_must_fit_the_model(caplog):
    sizes = config_lib.BertConfig(vocab_size=11)
    with pytest.raises(ValueError, match=r"v.txt has 12 entries, but"):
        sizes.check_vocab_size(12, "v.txt")
    sizes.check_vocab_size(11, "v.txt")
    assert not caplog.records
    sizes.check_vocab_size(10, "v.txt")
    assert "v.txt has 10 entries" in caplog.text


def test_no_more_layers_are_frozen_than_the_model_has():
    sizes = config_lib.BertConfig(vocab_size=11, num_hidden_layers=3)
    sizes.check_frozen_layers(3)
    with pytest.raises(ValueError, match=r"at most 3, the number .*; got 4"):
        sizes.check_frozen_layers(4)


@pytest.fixture
def prefix(tmp_path):
    for file in (locations.GOLDEN / "model").glob("tiny.ckpt.*"):
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
    folder = str(pathlib.Path(prefix).parent)
    assert config_lib.BertConfig.from_checkpoint(folder) == want


_RELEASE, _HUGGING_FACE = ("gelu", 0.1), ("gelu_exact", 0.3)


@pytest.mark.parametrize("name", ["bert_config.json", "config.json"])
@pytest.mark.parametrize(
    ("weights", "mark", "network"),
    [
        (None, {}, _RELEASE),
        (None, {"transformers_version": "4.57.0"}, _HUGGING_FACE),
        ("bert_model.ckpt.index", {}, _RELEASE),
        ("bert_model.ckpt.index", {"model_type": "bert"}, _RELEASE),
        ("model.safetensors", {"architectures": ["BertModel"]}, _HUGGING_FACE),
        ("pytorch_model.bin", {"model_type": "bert"}, _HUGGING_FACE),
    ],
)
def test_hugging_face_s_network_needs_its_mark_and_no_weights_of_tensorflow(
    tmp_path, name, weights, mark, network
):
    _put_beside(tmp_path / "x", name, hidden_dropout_prob=0.3, **mark)
    if weights:
        (tmp_path / weights).touch()
    read = [
        config_lib.BertConfig.from_json_file(str(tmp_path / name)),
        config_lib.BertConfig.from_checkpoint(str(tmp_path)),
    ]
    if weights:
        checkpoint = str(tmp_path / weights.removesuffix(".index"))
        read.append(config_lib.BertConfig.from_checkpoint(checkpoint))
    for config in read:
        assert (config.hidden_act, config.classifier_dropout_prob) == network


@pytest.mark.parametrize(
    ("name", "network"),
    [("bert_config.json", _RELEASE), ("config.json", _HUGGING_FACE)],
)
def test_an_unmarked_file_beside_hugging_face_s_weights_means_its_name(
    tmp_path, name, network
):
    _put_beside(tmp_path / "x", name, hidden_dropout_prob=0.3)
    (tmp_path / "model.safetensors").touch()
    config = config_lib.BertConfig.from_checkpoint(str(tmp_path))
    assert (config.hidden_act, config.classifier_dropout_prob) == network


def test_every_gelu_of_a_file_for_tensorflow_s_weights_is_the_release_s(
    tmp_path,
):
    _put_beside(tmp_path / "x", model_type="bert", hidden_act="gelu_python")
    path = str(tmp_path / "bert_config.json")
    read = config_lib.BertConfig.from_json_file
    assert read(path).hidden_act == "gelu_exact"
    assert read(path, is_release=True) == _GOLDEN_CONFIG


def test_other_attention_heads_are_refused(prefix):
    _put_beside(prefix, num_attention_heads=8)
    with pytest.raises(
        ValueError, match=r"num_attention_heads must be .* 4 in the model and 8"
    ):
        checkpoints.load(bert.BertModel(_GOLDEN_CONFIG), prefix)


def test_attention_heads_in_the_weights_are_before_those_beside_them(prefix):
    _put_beside(prefix, num_attention_heads=8)
    _GOLDEN_CONFIG.check_checkpoint(prefix, 4)
    _put_beside(prefix)
    with pytest.raises(ValueError, match="4 in the model and 2 in "):
        _GOLDEN_CONFIG.check_checkpoint(prefix, 2)


def test_another_activation_or_depth_is_a_warning(prefix, caplog):
    model = bert.BertModel(_GOLDEN_CONFIG)
    _put_beside(prefix, hidden_act="GELU", hidden_dropout_prob=0.5)
    checkpoints.load(model, prefix)
    assert not caplog.records
    _put_beside(prefix, hidden_act="relu", num_hidden_layers=4)
    checkpoints.load(model, prefix)
    assert "hidden_act was 'relu' and is 'gelu' in the model" in caplog.text
    assert "num_hidden_layers was 4 and is 2 in the model" in caplog.text


_CONFIGS = pathlib.Path(config_lib.__file__).parent / "configs"
_FILES = sorted(_CONFIGS.glob("*.json"))
_SHARED = locations.SHARED / "data" / "vocab"


def _shipped(name):
    return config_lib.BertConfig.from_json_file(str(_CONFIGS / f"{name}.json"))


def _shape(values):
    return (
        values.num_hidden_layers,
        values.hidden_size,
        values.num_attention_heads,
    )


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_every_file_is_written_as_the_release_writes_them(path):
    values = config_lib.BertConfig.from_json_file(str(path))
    written = json.dumps(values.to_dict(), indent=2, sort_keys=True) + "\n"
    assert path.read_text(encoding="utf-8") == written
    assert values.intermediate_size == 4 * values.hidden_size
    assert values.type_vocab_size == 2
    assert values.max_position_embeddings == 512


def test_file_named_by_its_sizes_has_them():
    named = [path for path in _FILES if path.stem.startswith("uncased_L-")]
    assert len(named) == 22
    for path in named:
        layers, width, num_heads = _shape(_shipped(path.stem))
        assert path.stem == f"uncased_L-{layers}_H-{width}_A-{num_heads}"
        assert _shipped(path.stem).vocab_size == 30522


@pytest.mark.parametrize(
    ("name", "expected"),
    # Worked from the published configurations, pooler included.
    [
        ("bert_base_uncased", 109_482_240),
        ("bert_large_uncased", 335_141_888),
    ],
)
def test_shapes_have_the_published_number_of_parameters(name, expected):
    shapes = _shipped(name).encoder_shapes()
    assert sum(map(math.prod, shapes.values())) == expected


def test_pretraining_models_have_the_published_number_of_parameters():
    mini = heads.BertForPreTraining(_shipped("bert_mini"))
    # Source: Turc et al. 2019, in millions.
    assert round(mini.count_params() / 1e6, 1) == 11.3


@pytest.mark.shared
@pytest.mark.parametrize("size", ["base", "large"])
@pytest.mark.parametrize("casing", ["cased", "uncased"])
def test_file_is_the_released_one(size, casing):
    if not _SHARED.is_dir():
        pytest.skip("no shared data beside the checkout")
    released = _SHARED / f"bert_config_{size}_{casing}.json"
    shipped = _CONFIGS / f"bert_{size}_{casing}.json"
    assert shipped.read_bytes() == released.read_bytes()
