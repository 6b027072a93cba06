"""Hugging Face's folders: names old and new, ties, other models."""

import json
import pathlib
import re
import sys
import types
import zipfile

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from modeling import (
    bert,
    checkpoints,
    heads,
    huggingface,
    huggingface_config,
)
from modeling import config as config_lib
from tests.support import toy_config

_CONFIG = toy_config.config(num_hidden_layers=2)


def _write(path, arrays, metadata=None):
    safetensors.numpy.save_file(
        {n: np.ascontiguousarray(a) for n, a in arrays.items()}, path, metadata
    )


def _folder(folder, arrays, **config):
    """Writes a folder; returns its path."""
    values = {
        **_CONFIG.to_dict(),
        "model_type": "bert",
        "hidden_act": "gelu_new",
        **config,
    }
    (folder / "config.json").write_text(json.dumps(values))
    _write(folder / "model.safetensors", arrays)
    return str(folder)


def _encoder(prefix="bert.", weight="weight", bias="bias", dtype=np.float32):
    """Makes an encoder under Hugging Face's names, by hand."""
    rng = np.random.default_rng(1)
    d, f = 12, 17
    norm = {weight: (d,), bias: (d,)}
    shapes = {
        "embeddings.word_embeddings": {"weight": (31, d)},
        "embeddings.token_type_embeddings": {"weight": (2, d)},
        "embeddings.position_embeddings": {"weight": (16, d)},
        "embeddings.LayerNorm": norm,
        "pooler.dense": {"weight": (d, d), "bias": (d,)},
    }
    for i in range(2):
        layer = f"encoder.layer.{i}."
        for name, size in (
            *((f"attention.self.{n}", (d, d)) for n in ("query", "key")),
            ("attention.self.value", (d, d)),
            ("attention.output.dense", (d, d)),
            ("intermediate.dense", (f, d)),
            ("output.dense", (d, f)),
        ):
            shapes[layer + name] = {"weight": size, "bias": size[:1]}
        for name in ("attention.output", "output"):
            shapes[f"{layer}{name}.LayerNorm"] = norm
    return {
        f"{prefix}{module}.{name}": rng.normal(size=shape).astype(dtype)
        for module, held in shapes.items()
        for name, shape in held.items()
    }


def test_weights_come_in_the_release_s_order_of_axes(tmp_path):
    weights = _encoder()
    held = checkpoints.read(_folder(tmp_path, weights))
    assert held.keys() == {
        *checkpoints.variables_by_name(bert.BertModel(_CONFIG))
    }
    theirs = weights["bert.encoder.layer.1.intermediate.dense.weight"]  # [F, D]
    np.testing.assert_array_equal(
        held["bert/encoder/layer_1/intermediate/dense/kernel"], theirs.T
    )
    np.testing.assert_array_equal(
        held["bert/embeddings/LayerNorm/gamma"],
        weights["bert.embeddings.LayerNorm.weight"],
    )


def _shard(folder, weights, *, index="model.safetensors.index.json"):
    """Writes weights into two files and their index, as transformers does."""
    names = sorted(weights)
    parts = {"model-1-of-2": names[::2], "model-2-of-2": names[1::2]}
    files = {}
    for stem, part in parts.items():
        file = f"{stem}.safetensors"
        _write(folder / file, {n: weights[n] for n in part}, {"format": "pt"})
        files |= dict.fromkeys(part, file)
    (folder / index).write_text(
        json.dumps({"metadata": {"total_size": 1}, "weight_map": files})
    )
    return files


def test_sharded_weights_are_those_of_one_file(tmp_path):
    weights = _encoder(prefix="")
    want = checkpoints.read(_folder(tmp_path, weights))
    (tmp_path / "model.safetensors").unlink()
    _shard(tmp_path, weights)
    # Of a copy that another program left beside them.
    (tmp_path / "pytorch_model.bin").write_bytes(b"a pickle is read last")
    for path in (tmp_path, tmp_path / "model.safetensors.index.json"):
        assert checkpoints.find(str(path)).endswith(".index.json")
        values = checkpoints.read(str(path))
        assert values.keys() == want.keys()
        for name, value in values.items():
            np.testing.assert_array_equal(value, want[name])
    report = checkpoints.load(bert.BertModel(_CONFIG), str(tmp_path))
    assert report.missing == report.unexpected == ()


def test_the_file_that_the_index_names_has_the_weight(tmp_path):
    weights = _encoder()
    _folder(tmp_path, weights)
    (tmp_path / "model.safetensors").unlink()
    files = _shard(tmp_path, weights)
    name = "bert.pooler.dense.bias"
    other = {*files.values()} - {files[name]}
    path = tmp_path / other.pop()
    arrays = safetensors.numpy.load_file(path)
    _write(path, {**arrays, name: weights[name] + 1})
    values = checkpoints.read(str(tmp_path))
    np.testing.assert_array_equal(
        values["bert/pooler/dense/bias"], weights[name]
    )


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        ({}, ValueError, "weight_map must name the file of each weight; got N"),
        ({"weight_map": {}}, ValueError, "weight_map must name the file"),
        ({"weight_map": ["a"]}, ValueError, "weight_map must name the file"),
        (
            {"weight_map": {"a": "../model-1-of-2.safetensors"}},
            ValueError,
            r"the file of 'a' must be a \.safetensors file in the same folder",
        ),
        (
            {"weight_map": {"a": "x.bin"}},
            ValueError,
            r"be a \.safetensors file",
        ),
        ({"weight_map": {"a": 1}}, ValueError, r"same folder; got 1"),
        (
            {"weight_map": {"a": "model-3-of-2.safetensors"}},
            FileNotFoundError,
            r"model-3-of-2\.safetensors is missing, which .*index\.json names",
        ),
        (
            {"weight_map": {"a": "model-1-of-2.safetensors"}},
            ValueError,
            r"index\.json: model-1-of-2\.safetensors must have the weight a\.",
        ),
    ],
)
def test_a_broken_index_is_refused(tmp_path, index, error, message):
    weights = _encoder()
    _folder(tmp_path, weights)
    (tmp_path / "model.safetensors").unlink()
    _shard(tmp_path, weights)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(error, match=message):
        checkpoints.read(str(tmp_path))


@pytest.mark.parametrize(
    "names",
    [
        {"prefix": ""},
        {"weight": "gamma", "bias": "beta"},
        {"prefix": "", "weight": "gamma", "bias": "beta"},
    ],
)
def test_old_and_bare_names_mean_the_same(tmp_path, names):
    want = {}
    for folder, changes in ((tmp_path / "a", {}), (tmp_path / "b", names)):
        folder.mkdir()
        held = checkpoints.read(_folder(folder, _encoder(**changes)))
        assert want.keys() in (set(), held.keys())
        for name, value in want.items():
            np.testing.assert_array_equal(held[name], value)
        want = held


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_sixteen_bit_weights_are_widened(tmp_path, dtype):
    weights = _encoder(dtype=dtype)
    model = bert.BertModel(_CONFIG)
    checkpoints.load(model, _folder(tmp_path, weights))
    np.testing.assert_array_equal(
        model.pooler.dense.kernel,
        weights["bert.pooler.dense.weight"].T.astype(np.float32),
    )


class _Tensor:
    """Stands in for a tensor of PyTorch, which tests do not install."""

    def __init__(self, array, dtype="float32"):
        self.array, self.dtype = array, dtype

    def detach(self):
        return self

    def view(self, dtype):
        return _Tensor(self.array.view(dtype))

    def numpy(self):
        assert self.dtype != "bfloat16"  # NumPy has no such type.
        return self.array


@pytest.mark.parametrize("is_zip", [True, False])
def test_weights_of_pytorch_are_those_of_safetensors(
    tmp_path, monkeypatch, is_zip
):
    weights = _encoder(dtype=ml_dtypes.bfloat16)
    want = checkpoints.read(_folder(tmp_path, weights))
    (tmp_path / "model.safetensors").unlink()
    with zipfile.ZipFile(tmp_path / "pytorch_model.bin", "w") as file:
        file.writestr("data", b"")
    if not is_zip:  # As PyTorch wrote before 1.6.
        (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\2")
    calls = []

    def load(path, **options):
        calls.append((path, options))
        tensors = {n: _Tensor(a, "bfloat16") for n, a in weights.items()}
        name = "bert.pooler.dense.bias"
        return tensors | {name: _Tensor(weights[name].astype(np.float32))}

    torch = types.SimpleNamespace(
        load=load, bfloat16="bfloat16", int16="int16", __version__="2.10.0+cpu"
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    values = checkpoints.read(str(tmp_path))
    assert values.keys() == want.keys()
    for name, value in values.items():
        np.testing.assert_array_equal(value, want[name], name)
    assert values["bert/pooler/dense/bias"].dtype == np.float32
    assert values["bert/pooler/dense/kernel"].dtype == ml_dtypes.bfloat16
    # Only files of the newer format can be mapped into memory.
    options = {"map_location": "cpu", "weights_only": True, "mmap": is_zip}
    assert calls == [(str(tmp_path / "pytorch_model.bin"), options)]


@pytest.mark.parametrize(
    ("version", "is_safe"),
    [("1.13.1", False), ("2.5.1", False), ("2.6.0", True), ("3.0.0", True)],
)
def test_an_old_pytorch_which_may_run_code_reads_nothing(
    tmp_path, monkeypatch, version, is_safe
):
    """Each version would be another installation."""
    _folder(tmp_path, {})
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "pytorch_model.bin").touch()
    tensors = {"a": _Tensor(np.ones(2, np.float32))}
    torch = types.SimpleNamespace(
        load=lambda *_, **__: tensors, bfloat16="", __version__=version
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    if is_safe:
        assert [*checkpoints.read(str(tmp_path))] == ["a"]
        return
    with pytest.raises(ValueError, match=f"torch 2.6 or later; got {version}"):
        checkpoints.read(str(tmp_path))


def test_a_weight_under_two_names_has_one_value(tmp_path):
    weights = _encoder()
    norm = "embeddings.LayerNorm."
    weights[f"{norm}gamma"] = weights[f"bert.{norm}weight"]
    checkpoints.read(_folder(tmp_path, weights))
    weights[f"{norm}gamma"] = weights[f"bert.{norm}weight"] + 1
    with pytest.raises(
        ValueError, match=r"gamma in .* must equal|must equal .*gamma"
    ):
        checkpoints.read(_folder(tmp_path, weights))


def test_buffers_and_ties_are_no_variables(tmp_path):
    weights = _encoder()
    words = weights["bert.embeddings.word_embeddings.weight"]
    bias = np.arange(31, dtype=np.float32)
    more = {
        "bert.embeddings.position_ids": np.arange(16)[None],
        "bert.embeddings.token_type_ids": np.zeros([1, 16], np.int64),
        "cls.predictions.decoder.weight": words,
        "cls.predictions.decoder.bias": bias,
        "cls.predictions.bias": bias,
    }
    held = checkpoints.read(_folder(tmp_path, weights | more))
    assert [name for name in held if not name.startswith("bert/")] == [
        "cls/predictions/output_bias"
    ]
    # The alias alone is the variable.
    del more["cls.predictions.bias"]
    held = checkpoints.read(_folder(tmp_path, weights | more))
    np.testing.assert_array_equal(held["cls/predictions/output_bias"], bias)
    more["cls.predictions.decoder.weight"] = words + 1
    with pytest.raises(ValueError, match="they are one weight"):
        checkpoints.read(_folder(tmp_path, weights | more))


@pytest.mark.parametrize(
    ("architecture", "names"),
    [
        ("BertForSequenceClassification", ["output_bias", "output_weights"]),
        # Their bias of choices has no effect.
        ("BertForMultipleChoice", ["cls/multiple_choice/output_weights"]),
    ],
)
def test_a_classifier_is_what_the_architecture_says(
    tmp_path, architecture, names
):
    weights = _encoder() | {
        "classifier.weight": np.ones([1, 12], np.float32),
        "classifier.bias": np.ones([1], np.float32),
    }
    folder = _folder(tmp_path, weights, architectures=[architecture])
    held = checkpoints.read(folder)
    assert [n for n in sorted(held) if not n.startswith("bert/")] == names


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("gelu", "gelu_exact"),
        ("gelu_python", "gelu_exact"),
        ("gelu_new", "gelu"),
        ("gelu_pytorch_tanh", "gelu"),
        ("gelu_fast", "gelu"),
        ("gelu_accurate", "gelu"),
        ("gelu_python_tanh", "gelu"),
        ("relu", "relu"),
        ("tanh", "tanh"),
        ("linear", "linear"),
    ],
)
def test_activations_are_what_hugging_face_computes(tmp_path, theirs, ours):
    folder = _folder(tmp_path, _encoder(), hidden_act=theirs)
    path = f"{folder}/config.json"
    assert config_lib.BertConfig.from_checkpoint(folder).hidden_act == ours
    # Also where the file itself is given as --bert_config_file.
    assert config_lib.BertConfig.from_json_file(path).hidden_act == ours
    values = json.loads(pathlib.Path(path).read_text())
    pathlib.Path(path).write_text(json.dumps({**values, "hidden_act": "silu"}))
    with pytest.raises(ValueError, match=r"must be one of .* got 'silu'"):
        checkpoints.load(bert.BertModel(_CONFIG), folder)
    del values["hidden_act"]
    pathlib.Path(path).write_text(json.dumps(values))
    assert (
        config_lib.BertConfig.from_checkpoint(folder).hidden_act == "gelu_exact"
    )
    # The name that is written is of the form computed.
    config = {**_CONFIG.to_dict(), "hidden_act": ours}
    values = huggingface_config.from_release(config, ["BertModel"], {}, 0)
    names = {"gelu": "gelu_new", "gelu_exact": "gelu"}
    assert values["hidden_act"] == names.get(ours, ours)
    values = huggingface_config.to_release(values, "c", is_release=False)
    assert values["hidden_act"] == ours


@pytest.mark.parametrize(
    ("config", "want"),
    [
        ({}, 0.1),
        ({"hidden_dropout_prob": 0.2}, 0.2),
        ({"hidden_dropout_prob": 0.2, "classifier_dropout": None}, 0.2),
        ({"hidden_dropout_prob": 0.2, "classifier_dropout": 0.0}, 0.0),
    ],
)
def test_the_dropout_of_the_classifier_is_theirs(tmp_path, config, want):
    folder = _folder(tmp_path, _encoder(), **config)
    config = config_lib.BertConfig.from_checkpoint(folder)
    assert config.classifier_dropout_prob == want
    # Also through the file that is written here.
    again = config_lib.BertConfig.from_dict(config.to_dict())
    assert again == config
    values = huggingface_config.from_release(
        config.to_dict(), ["BertModel"], {}, 0
    )
    assert values["classifier_dropout"] == want


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"model_type": "roberta", "architectures": ["RobertaForMaskedLM"]},
            r"model_type must be 'bert'.*'roberta' \(RobertaForMaskedLM\)",
        ),
        # An old one names another network by its class.
        (
            {"model_type": None, "architectures": ["DistilBertModel"]},
            "DistilBertModel",
        ),
        ({"auto_map": {"AutoModel": "m.Net"}}, "auto_map must be {}"),
        ({"quantization_config": {"bits": 4}}, "quantization_config must be"),
        ({"layer_norm_eps": 1e-5}, "layer_norm_eps must be 1e-12.* got 1e-05"),
        ({"position_embedding_type": "relative_key"}, "must be 'absolute'"),
        ({"embedding_size": 3}, "embedding_size must be 12, as in BERT"),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads must be {}"),
        ({"pooler_type": "mean"}, "pooler_type must be 'first_token_trans"),
        ({"directionality": "ltr"}, "directionality must be 'bidi'"),
        ({"is_decoder": True}, "is_decoder must be False"),
        ({"add_cross_attention": True}, "add_cross_attention must be False"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings must be True"),
    ],
)
def test_no_network_or_option_is_read_as_another(tmp_path, config, message):
    folder = _folder(tmp_path, _encoder(), **config)
    path = f"{folder}/config.json"
    with pytest.raises(ValueError, match=message):
        checkpoints.read(folder)
    with pytest.raises(ValueError, match=message):
        config_lib.BertConfig.from_json_file(path)
    with pytest.raises(ValueError, match=message):
        config_lib.BertConfig.from_dict({**_CONFIG.to_dict(), **config})


def test_integer_weights_are_refused(tmp_path):
    weights = _encoder()
    name = "bert.encoder.layer.0.output.dense.weight"
    weights[name] = (weights[name] * 50).astype(np.int8)
    folder = _folder(tmp_path, weights)
    with pytest.raises(ValueError, match=r"layer_0/output/dense/kernel \(int8"):
        checkpoints.load(bert.BertModel(_CONFIG), folder)


def test_what_is_written_is_what_they_wrote(tmp_path):
    weights = _encoder()
    (tmp_path / "source").mkdir()
    held = checkpoints.read(_folder(tmp_path / "source", weights))
    assert huggingface.write(str(tmp_path), held, 2, ["BertModel"]) == []
    path = tmp_path / "model.safetensors"
    got = safetensors.numpy.load_file(path)
    with safetensors.safe_open(path, "numpy") as file:
        # Without this entry, transformers does not load the file.
        assert file.metadata() == {"format": "pt"}
    assert got.keys() == weights.keys()
    for name, value in weights.items():
        np.testing.assert_array_equal(got[name], value, name)


def test_variables_without_a_name_there_are_returned(tmp_path):
    held = checkpoints.read(_folder(tmp_path, _encoder()))
    held["cls/multiple_choice/output_weights"] = np.ones([1, 12], np.float32)
    others = {
        "bert/encoder/layer_2/output/dense/bias": np.ones(12, np.float32),
        "crf.transitions": np.ones([2, 2], np.float32),
    }
    written = huggingface.write(
        str(tmp_path), held | others, 2, ["BertForMultipleChoice"]
    )
    assert written == sorted(others)
    weights = safetensors.numpy.load_file(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(weights["classifier.bias"], [0])
    np.testing.assert_array_equal(
        weights["classifier.weight"], np.ones([1, 12])
    )


def test_config_by_hand():
    values = huggingface_config.from_release(
        _CONFIG.to_dict(),
        ["BertForSequenceClassification"],
        {"problem_type": "multi_label", "labels": ["no", "yes"]},
        0,
    )
    assert values == {
        "architectures": ["BertForSequenceClassification"],
        "model_type": "bert",
        "vocab_size": 31,
        "hidden_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 17,
        "max_position_embeddings": 16,
        "type_vocab_size": 2,
        "initializer_range": 0.02,
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "hidden_act": "gelu_new",
        "layer_norm_eps": 1e-12,
        "position_embedding_type": "absolute",
        "classifier_dropout": 0.1,
        "pad_token_id": 0,
        "id2label": {"0": "no", "1": "yes"},
        "label2id": {"no": 0, "yes": 1},
        "problem_type": "multi_label_classification",
    }
    released = huggingface_config.to_release(values, "c", is_release=False)
    assert config_lib.BertConfig.from_dict(released) == _CONFIG
    assert huggingface_config.labels_of(values) == {
        "problem_type": "multi_label",
        "labels": ["no", "yes"],
    }
    released = huggingface_config.to_release(
        {"vocab_size": 3}, "c", is_release=False
    )
    with pytest.raises(ValueError, match="must contain hidden_size, num"):
        config_lib.BertConfig.from_dict(released)


def test_the_problem_type_is_a_setting_of_sequence_classifiers_alone():
    values = huggingface_config.from_release(
        _CONFIG.to_dict(),
        ["BertForTokenClassification"],
        {"problem_type": "single_label", "labels": ["O", "B-X"]},
        0,
    )
    assert values["id2label"] == {"0": "O", "1": "B-X"}
    assert "problem_type" not in values


def test_default_label_names_are_ignored():
    names = huggingface_config.label_names(3, ["a", "b"])
    assert names == ["LABEL_0", "LABEL_1", "LABEL_2"]
    assert huggingface_config.label_names(2, ["a", "b"]) == ["a", "b"]
    labels = {str(i): name for i, name in enumerate(names)}
    assert huggingface_config.labels_of({"id2label": labels}) == {}
    assert huggingface_config.labels_of({}) == {}


@pytest.mark.parametrize(
    ("config", "want"),
    [
        ({"problem_type": "regression"}, ("regression", [])),
        (
            {"problem_type": "regression", "id2label": {"0": "LABEL_0"}},
            ("regression", []),
        ),
        # One output of a text is a score to their class.
        ({"id2label": {"0": "LABEL_0"}}, ("regression", [])),
        (
            {"problem_type": "multi_label_classification"},
            ("multi_label", None),
        ),
        (
            {"problem_type": "single_label_classification"},
            ("single_label", None),
        ),
        ({"id2label": {"0": "b", "1": "a"}}, ("single_label", ["b", "a"])),
        ({"id2label": {"0": 1, "1": 0}}, ("single_label", ["1", "0"])),
    ],
)
def test_the_problem_type_is_that_of_the_config_if_any(config, want):
    config = {"architectures": ["BertForSequenceClassification"], **config}
    found = huggingface_config.labels_of(config)
    assert (found["problem_type"], found.get("labels")) == want


@pytest.mark.parametrize(
    "architectures",
    [["BertForTokenClassification"], ["BertForMultipleChoice"], [], None],
)
def test_one_output_of_another_class_is_no_score(architectures):
    config = {"architectures": architectures, "id2label": {"0": "LABEL_0"}}
    assert huggingface_config.labels_of(config) == {}
    named = {**config, "id2label": {"0": "O"}}
    assert huggingface_config.labels_of(named) == {
        "problem_type": "single_label",
        "labels": ["O"],
    }


@pytest.mark.parametrize("kind", ["multi_label", "multi_class", "", ["x"]])
def test_an_unknown_problem_type_is_refused(kind):
    config = {"problem_type": kind, "id2label": {"0": "a", "1": "b"}}
    message = r"x.json: problem_type must be one of .*multi_label_classif"
    with pytest.raises(ValueError, match=message):
        huggingface_config.labels_of(config, "x.json")


@pytest.mark.parametrize("names", [{"0": "no", "2": "yes"}, ["no"], -1.5])
def test_labels_of_other_numbers_are_refused(names):
    with pytest.raises(ValueError, match=r"x.json: id2label must name"):
        huggingface_config.labels_of({"id2label": names}, "x.json")


@pytest.mark.parametrize(
    ("do_lower_case", "strip_accents", "stated"),
    [(True, True, None), (False, False, None), (True, False, False)],
)
def test_a_tokenizer_states_accents_that_differ_from_its_casing(
    do_lower_case, strip_accents, stated
):
    values = huggingface_config.tokenizer(
        do_lower_case=do_lower_case,
        strip_accents=strip_accents,
        model_max_length=8,
    )
    assert values["do_lower_case"] is do_lower_case
    assert values["strip_accents"] is stated
    assert values["model_max_length"] == 8


_CLASSIFIER = {
    "classifier.weight": np.ones([2, 12], np.float32),
    "classifier.bias": np.ones([2], np.float32),
}


@pytest.mark.parametrize(
    ("name", "is_of_encoder"),
    [
        ("bert.encoder.layer.0.attention.self.layer_norm_q.weight", True),
        ("encoder.layer.0.output.adapters.task.adapter_up.weight", True),
        ("bert.embeddings.visual_projection.weight", True),
        ("classifier.dense.weight", False),
        ("crf.transitions", False),
    ],
)
def test_weights_without_a_place_are_refused_where_they_would_matter(
    tmp_path, name, is_of_encoder
):
    extra = {name: np.ones([3, 3], np.float32)}
    weights = {**_encoder(), **_CLASSIFIER, **extra}
    folder = _folder(
        tmp_path, weights, architectures=["BertForSequenceClassification"]
    )
    message = f"is of another network.*{re.escape(name)}"
    with pytest.raises(ValueError, match=message):
        checkpoints.load(
            heads.BertForSequenceClassification(_CONFIG, num_labels=2), folder
        )
    if is_of_encoder:
        with pytest.raises(ValueError, match=message):
            checkpoints.load(bert.BertModel(_CONFIG), folder)
    else:
        checkpoints.load(bert.BertModel(_CONFIG), folder)
