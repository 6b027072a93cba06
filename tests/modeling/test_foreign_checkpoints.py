"""Checkpoints that other programs wrote give the outputs that those computed.

`tests/golden/foreign` holds one of each form; the peer tests write all anew, by
the programs in `tests/foreign`, with interpreters that variables of the
environment name.
"""

import json
import os
import pathlib
import shutil
import subprocess

import h5py
import ml_dtypes
import numpy as np
import pytest

from modeling import bert, checkpoints, hdf5, heads
from modeling import config as config_lib
from tools import convert_checkpoint

_TESTS = pathlib.Path(__file__).parents[1]
_GOLDEN = _TESTS / "golden/foreign"
_POOLER = "bert/pooler/.*"


def _model(config, case):
    if case["class"] == "BertModel":
        return bert.BertModel(config)
    is_labeler = case["class"] in (
        "BertForSequenceClassification",
        "BertForTokenClassification",
    )
    options = {"num_labels": case["num_labels"]} if is_labeler else {}
    return getattr(heads, case["class"])(config, **options)


def _check_outputs(folder, checkpoint=None):
    """Loads a checkpoint and compares its outputs with those beside it."""
    case = json.loads((folder / "case.json").read_text())
    config = config_lib.BertConfig.from_checkpoint(str(folder))
    model = _model(config, case)
    # Classes of Hugging Face's that use no pooler have none.
    unused = case["class"] in (
        "BertForQuestionAnswering",
        "BertForTokenClassification",
    )
    report = checkpoints.load(
        model, str(checkpoint or folder), new=[_POOLER] if unused else []
    )
    strange = [n for n in report.unexpected if n.startswith(("bert/", "cls/"))]
    assert not strange
    with np.load(folder / "case.npz") as file:
        arrays = dict(file)
    inputs = ["input_ids", "input_mask", "segment_ids"]
    if case["class"] == "BertForPreTraining":
        inputs.append("masked_lm_positions")
    outputs = model(*(arrays[name].astype(np.int32) for name in inputs))
    is_real = arrays["input_mask"] == 1
    names = [n.removeprefix("out/") for n in arrays if n.startswith("out/")]
    assert names
    for name in names:
        got, want = np.asarray(outputs[name]), arrays[f"out/{name}"]
        if case["class"] == "BertForMultipleChoice":
            # Theirs has a bias, which moves all choices alike.
            got, want = got - got[:, :1], want - want[:, :1]
        if want.shape[: is_real.ndim] == is_real.shape:
            got, want = got[is_real], want[is_real]
        np.testing.assert_allclose(got, want, atol=2e-5, rtol=0, err_msg=name)


@pytest.mark.parametrize(
    "name", sorted(path.name for path in _GOLDEN.iterdir() if path.is_dir())
)
def test_a_foreign_checkpoint_gives_its_program_s_outputs(name):
    _check_outputs(_GOLDEN / name)


def test_unknown_variables_keep_their_names():
    held = checkpoints.list_variables(str(_GOLDEN / "model_garden_pretrainer"))
    # The pooler of the head is that which was used and trained.
    unused = "model_garden/model/encoder_network/_pooler_layer/kernel"
    assert unused in held
    assert "model_garden/global_step" in held
    assert not [name for name in held if "OBJECT_GRAPH" in name]


def test_the_heads_of_a_model_garden_checkpoint_are_compared(tmp_path):
    prefix = _GOLDEN / "model_garden_span_labeler/bert_model.ckpt"
    for part in prefix.parent.glob("bert_model.ckpt.*"):
        shutil.copyfile(part, tmp_path / part.name)
    sizes = json.loads((prefix.parent / "bert_config.json").read_text())
    config = config_lib.BertConfig.from_dict(sizes | {"num_attention_heads": 4})
    with pytest.raises(ValueError, match=r"is 4 in the model and 3 in"):
        checkpoints.load(bert.BertModel(config), str(tmp_path))


def test_a_preset_of_another_model_is_refused(tmp_path):
    source = _GOLDEN / "keras_hub_classifier"
    values = json.loads((source / "config.json").read_text())
    shutil.copy(source / "model.weights.h5", tmp_path)
    values["class_name"] = "RobertaBackbone"
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match="class_name must be 'BertBackbone'"):
        checkpoints.list_variables(str(tmp_path))


def test_the_files_of_keras_2_have_another_group_of_layers(tmp_path):
    source = _GOLDEN / "keras_hub_classifier"
    shutil.copy(source / "config.json", tmp_path)
    shutil.copy(source / "model.weights.h5", tmp_path)
    with h5py.File(tmp_path / "model.weights.h5", "a") as file:
        file.move("layers", "_layer_checkpoint_dependencies")
    held = checkpoints.list_variables(str(source))
    heads_of_task = {"output_weights", "output_bias"}
    got = checkpoints.list_variables(str(tmp_path))
    assert got.keys() == held.keys() - heads_of_task


def test_a_preset_in_bfloat16_is_read_and_converted(tmp_path):
    source = _GOLDEN / "keras_hub_classifier"
    preset = tmp_path / "preset"
    shutil.copytree(source, preset)
    with h5py.File(preset / "model.weights.h5", "a") as file:
        for path, array in hdf5.find_arrays(file).items():
            value = array[()].astype(ml_dtypes.bfloat16)
            del file[path]
            # Source: keras.src.saving.saving_lib.H5Entry.
            file[path] = value
            file[path].attrs["dtype"] = "bfloat16"
    want = checkpoints.read(str(source))
    got = checkpoints.read(str(preset))
    assert got.keys() == want.keys()
    encoder = [name for name in want if name.startswith("bert/")]
    for name in encoder:
        assert got[name].dtype == ml_dtypes.bfloat16, name
        rounded = want[name].astype(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(got[name], rounded, name)
    output = str(tmp_path / "x.weights.h5")
    convert_checkpoint.convert(
        convert_checkpoint.Options(
            input=str(preset), output=output, output_format="keras"
        )
    )
    converted = checkpoints.read(output)
    for name in encoder:
        assert converted[name].dtype == np.float32, name
        np.testing.assert_array_equal(converted[name], got[name], name)


def test_a_quantized_preset_is_refused_by_name(tmp_path):
    source = _GOLDEN / "keras_hub_classifier"
    shutil.copytree(source, tmp_path, dirs_exist_ok=True)
    query = "transformer_encoder/_self_attention_layer/query_dense/vars"
    with h5py.File(tmp_path / "model.weights.h5", "a") as file:
        variables = file[f"layers/{query}"]
        kernel = np.round(variables["0"][()] * 100).astype(np.int8)
        del variables["0"]
        variables["0"] = kernel
        variables["2"] = np.ones(kernel.shape[1:], np.float32)  # The scale.
    config = config_lib.BertConfig.from_checkpoint(str(tmp_path))
    with pytest.raises(ValueError, match=r"query/kernel .*Quantized weights"):
        checkpoints.load(bert.BertModel(config), str(tmp_path))


def test_a_preset_converts_with_its_vocabulary_and_casing(tmp_path):
    source = _GOLDEN / "keras_hub_classifier"
    convert_checkpoint.convert(
        convert_checkpoint.Options(
            input=str(source),
            output=str(tmp_path / "x"),
            output_format="huggingface",
        )
    )
    written = json.loads((tmp_path / "x/config.json").read_text())
    assert written["architectures"] == ["BertForSequenceClassification"]
    assert written["hidden_act"] == "gelu_new"
    casing = json.loads((tmp_path / "x/tokenizer_config.json").read_text())
    assert casing["do_lower_case"] is True
    assert (tmp_path / "x/vocab.txt").read_bytes() == (
        source / "assets/tokenizer/vocabulary.txt"
    ).read_bytes()
    for name in ("case.json", "case.npz"):
        shutil.copy(source / name, tmp_path / "x")
    _check_outputs(tmp_path / "x")


_PEERS = {
    "model_garden": "BERT_PEER_MODEL_GARDEN",
    "keras_hub": "BERT_PEER_KERAS_HUB",
    "transformers": "BERT_PEER_TRANSFORMERS_4",
}

_COPY = """
import sys
from modeling import checkpoints
checkpoints.save(sys.argv[2], checkpoints.read(sys.argv[1]))
"""


def _run(python, *arguments, **environment):
    done = subprocess.run(
        [python, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=_TESTS.parent,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.peer
@pytest.mark.parametrize("program", _PEERS)
def test_what_a_program_writes_anew_gives_its_outputs(tmp_path, program):
    python = os.environ.get(_PEERS[program])
    if not python:
        pytest.skip(f"{_PEERS[program]} must name a Python with {program}")
    # Keras 2 where the program is built on it.
    is_keras_hub = program == "keras_hub"
    version = {} if is_keras_hub else {"TF_USE_LEGACY_KERAS": "1"}
    writer = f"tests.foreign.write_{program}"
    _run(python, "-m", writer, tmp_path, KERAS_BACKEND="tensorflow", **version)
    cases = sorted(path.parent for path in tmp_path.rglob("case.json"))
    assert len(cases) > 2
    for folder in cases:
        checkpoint = folder
        if list(folder.glob("pytorch_model*.bin")):
            # Read where torch is, and written as the release does.
            checkpoint = folder / "release/bert_model.ckpt"
            _run(python, "-c", _COPY, folder, checkpoint)
        _check_outputs(folder, checkpoint)
