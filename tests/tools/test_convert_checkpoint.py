"""Conversions: lossless round trips, and error messages."""

import json
import logging
import pathlib
import shutil

import h5py
import numpy as np
import pytest
import safetensors.numpy

from files import paths
from modeling import checkpoints, heads
from modeling import config as config_lib
from tools import convert_checkpoint

_GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
_CONFIG_FILE = str(_GOLDEN / "inputs/bert_config.json")
_VOCABULARY = str(_GOLDEN / "inputs/vocab.txt")
_CHECKPOINTS = {
    "model": _GOLDEN / "model/tiny.ckpt",
    "slots": _GOLDEN / "optimizer/train12.ckpt",
    "classifier": _GOLDEN / "classifier/mrpc.ckpt-24",
}
_OUTPUTS = {
    "release": "out/bert_model.ckpt",
    "keras": "out/x.weights.h5",
    "huggingface": "out",
}


def _convert(source, target, output_format, **options):
    convert_checkpoint.convert(
        convert_checkpoint.Options(
            input=str(source),
            output=str(target),
            output_format=output_format,
            **options,
        )
    )
    return str(target)


def _from_golden(name, folder, output_format, **options):
    options = {
        "bert_config_file": _CONFIG_FILE,
        "vocab_file": _VOCABULARY,
        **options,
    }
    target = folder / _OUTPUTS[output_format]
    return _convert(_CHECKPOINTS[name], target, output_format, **options)


def _assert_same(path, want):
    got = checkpoints.read(str(path))
    assert got.keys() == want.keys()
    for name, value in want.items():
        assert got[name].dtype == value.dtype, name
        assert got[name].shape == value.shape, name
        assert got[name].tobytes() == value.tobytes(), name


@pytest.mark.parametrize("name", _CHECKPOINTS)
@pytest.mark.parametrize("by_way_of", ["keras", "huggingface"])
def test_nothing_is_lost_there_and_back(tmp_path, name, by_way_of):
    want = checkpoints.read(str(_CHECKPOINTS[name]))
    there = _from_golden(name, tmp_path, by_way_of)
    _assert_same(there, want)
    back = _convert(there, tmp_path / "back/model.ckpt", "release")
    _assert_same(back, want)


def test_nothing_is_lost_between_keras_and_hugging_face(tmp_path):
    want = checkpoints.read(str(_CHECKPOINTS["slots"]))
    first = _from_golden("slots", tmp_path, "keras")
    second = _convert(first, tmp_path / "second", "huggingface")
    third = _convert(second, tmp_path / "third/y.weights.h5", "keras")
    _assert_same(third, want)


def test_taggers_of_both_kinds_survive(tmp_path):
    config = config_lib.BertConfig.from_json_file(_CONFIG_FILE)
    for number, model in enumerate(
        (
            heads.BertForTokenClassification(config, num_labels=4),
            heads.BertForTokenClassification(
                config, num_labels=4, features="sum_all"
            ),
        )
    ):
        folder = tmp_path / str(number)
        prefix = str(folder / "model.ckpt-3")
        checkpoints.save(prefix, checkpoints.variables_by_name(model))
        want = checkpoints.read(prefix)
        for form, there in _OUTPUTS.items():
            target = _convert(
                prefix,
                folder / form / there,
                form,
                bert_config_file=_CONFIG_FILE,
            )
            _assert_same(target, want)


@pytest.mark.parametrize("output_format", _OUTPUTS)
def test_the_optimizer_can_be_left_out(tmp_path, output_format):
    target = _from_golden(
        "slots", tmp_path, output_format, strip_optimizer=True
    )
    held = checkpoints.read(target)
    assert len(held) == 46
    assert not [n for n in held if n.endswith(("adam_m", "adam_v"))]
    assert "global_step" not in held
    assert not (tmp_path / "out/release_variables.safetensors").exists()


def test_the_optimizer_of_the_model_garden_can_be_left_out(tmp_path):
    source = _GOLDEN / "foreign/model_garden_pretrainer/bert_model.ckpt"
    target = tmp_path / "x.ckpt"
    _convert(source, target, "release", strip_optimizer=True)
    held = checkpoints.list_variables(str(target))
    others = [n for n in held if not n.startswith(("bert/", "cls/"))]
    pooler = "model_garden/model/encoder_network/_pooler_layer"
    assert others == [f"{pooler}/bias", f"{pooler}/kernel"]


def test_what_belongs_to_the_model_goes_along(tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        folder = pathlib.Path(_from_golden("slots", tmp_path, "huggingface"))
    assert "is a checkpoint in the release format" in caplog.text
    assert "39 of the encoder, 93 of the optimizer, 7 of heads" in caplog.text
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    assert tokenizer["do_lower_case"] is True
    assert tokenizer["model_max_length"] == 160
    assert tokenizer["tokenizer_class"] == "BertTokenizer"
    config = json.loads((folder / "config.json").read_text())
    assert config["hidden_act"] == "gelu_new"
    assert config["pad_token_id"] == 2
    config["made_by"] = "somebody"
    (folder / "config.json").write_text(json.dumps(config))
    back = _convert(folder, f"{tmp_path}/back/", "release")
    assert back.endswith("/")
    back = tmp_path / "back"
    vocabulary = pathlib.Path(_VOCABULARY).read_bytes()
    assert (back / "vocab.txt").read_bytes() == vocabulary
    assert json.loads((back / "tokenizer.json").read_text())["do_lower_case"]
    assert config_lib.BertConfig.from_json_file(
        str(back / "bert_config.json")
    ) == config_lib.BertConfig.from_json_file(_CONFIG_FILE)
    _convert(back, tmp_path / "again", "huggingface")
    again = json.loads((tmp_path / "again/config.json").read_text())
    assert again == config


def test_labels_become_those_of_hugging_face(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for file in _CHECKPOINTS["classifier"].parent.glob("mrpc.ckpt-24.*"):
        shutil.copyfile(file, folder / file.name)
    labels = {"problem_type": "single_label", "labels": ["no", "yes"]}
    (folder / "labels.json").write_text(json.dumps(labels))
    _convert(
        folder, tmp_path / "hf", "huggingface", bert_config_file=_CONFIG_FILE
    )
    config = json.loads((tmp_path / "hf/config.json").read_text())
    assert config["id2label"] == {"0": "no", "1": "yes"}
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert config["problem_type"] == "single_label_classification"
    _convert(tmp_path / "hf", tmp_path / "back/x.ckpt", "release")
    assert json.loads((tmp_path / "back/labels.json").read_text()) == labels


@pytest.mark.parametrize("problem_type", ["regression", "multi_label"])
def test_what_outputs_answer_survives_hugging_face(tmp_path, problem_type):
    config = config_lib.BertConfig.from_json_file(_CONFIG_FILE)
    names = [] if problem_type == "regression" else ["b", "a"]
    model = heads.BertForSequenceClassification(
        config, num_labels=len(names) or 1
    )
    prefix = str(tmp_path / "run/model.ckpt-3")
    checkpoints.save(prefix, checkpoints.variables_by_name(model))
    labels = {"problem_type": problem_type, "labels": names}
    (tmp_path / "run/labels.json").write_text(json.dumps(labels))
    there = tmp_path / "hf"
    _convert(prefix, there, "huggingface", bert_config_file=_CONFIG_FILE)
    _convert(there, tmp_path / "back/x.ckpt", "release")
    assert json.loads((tmp_path / "back/labels.json").read_text()) == labels


def test_the_name_of_a_score_survives(tmp_path):
    config = config_lib.BertConfig.from_json_file(_CONFIG_FILE)
    model = heads.BertForSequenceClassification(config, num_labels=1)
    prefix = str(tmp_path / "run/x.ckpt")
    checkpoints.save(prefix, checkpoints.variables_by_name(model))
    first = tmp_path / "first"
    _convert(prefix, first, "huggingface", bert_config_file=_CONFIG_FILE)
    values = json.loads((first / "config.json").read_text())
    values |= {"id2label": {"0": "stars"}, "label2id": {"stars": 0}}
    (first / "config.json").write_text(json.dumps(values))
    _convert(first, tmp_path / "back/x.ckpt", "release")
    _convert(tmp_path / "back/x.ckpt", tmp_path / "again", "huggingface")
    again = json.loads((tmp_path / "again/config.json").read_text())
    assert again == {**values, "problem_type": "regression"}


@pytest.mark.parametrize("by_way_of", ["release", "keras"])
def test_the_form_of_gelu_survives(tmp_path, by_way_of):
    first = pathlib.Path(_from_golden("model", tmp_path, "huggingface"))
    path = first / "config.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, "hidden_act": "gelu"}))
    (first / "bert_config.json").unlink()  # As Hugging Face's folders are.
    second = tmp_path / "second"
    _convert(first, f"{second}/", by_way_of)
    beside = json.loads((second / "bert_config.json").read_text())
    assert beside["hidden_act"] == "gelu_exact"
    (second / "config.json").unlink()
    _convert(second, tmp_path / "third", "huggingface")
    again = json.loads((tmp_path / "third/config.json").read_text())
    assert again["hidden_act"] == "gelu"


def test_a_run_that_tagged_words_says_so(tmp_path):
    config = config_lib.BertConfig.from_json_file(_CONFIG_FILE)
    model = heads.BertForTokenClassification(config, num_labels=3)
    prefix = str(tmp_path / "run/model.ckpt-3")
    checkpoints.save(prefix, checkpoints.variables_by_name(model))
    pathlib.Path(f"{prefix}.state.json").write_text(
        json.dumps({"identity": {"objective": "tags, fine-tuned: O B-X I-X"}})
    )
    source = prefix
    for number, form in enumerate(
        ("huggingface", "huggingface", "release", "keras", "huggingface")
    ):
        source = _convert(
            source,
            tmp_path / str(number) / _OUTPUTS[form],
            form,
            bert_config_file=_CONFIG_FILE,
        )
        path = config_lib.folder_of(source) + "/config.json"
        values = json.loads(pathlib.Path(path).read_text())
        assert values["architectures"] == ["BertForTokenClassification"]


def test_half_precision_is_widened(tmp_path, caplog):
    model = heads.BertForPreTraining(
        config_lib.BertConfig.from_json_file(_CONFIG_FILE)
    )
    arrays = {
        name: np.asarray(variable).astype(np.float16)
        for name, variable in checkpoints.variables_by_name(model).items()
    }
    checkpoints.save(str(tmp_path / "half.ckpt"), arrays)
    with caplog.at_level(logging.INFO):
        target = _convert(
            tmp_path / "half.ckpt", tmp_path / "x.weights.h5", "keras"
        )
    assert f"{len(arrays)} variables are stored in 16 bits" in caplog.text
    _assert_same(target, {n: a.astype(np.float32) for n, a in arrays.items()})


@pytest.mark.parametrize("output_format", _OUTPUTS)
def test_8_bit_weights_are_refused(tmp_path, output_format):
    folder = pathlib.Path(_from_golden("model", tmp_path, "huggingface"))
    weights = safetensors.numpy.load_file(folder / "model.safetensors")
    name = "bert.pooler.dense.bias"
    weights[name] = weights[name].astype("float8_e4m3fn")
    safetensors.numpy.save_file(weights, folder / "model.safetensors")
    target = tmp_path / "b" / _OUTPUTS[output_format]
    with pytest.raises(ValueError, match="must contain floating-point weights"):
        _convert(folder, target, output_format)


def test_nothing_is_replaced_unasked_and_the_input_never(tmp_path):
    target = _from_golden("slots", tmp_path, "huggingface")
    with pytest.raises(FileExistsError, match="already exists"):
        _from_golden("model", tmp_path, "huggingface")
    _from_golden("classifier", tmp_path, "huggingface", overwrite=True)
    # Of the moments that the first wrote nothing is left but the step.
    want = checkpoints.read(str(_CHECKPOINTS["classifier"]))
    _assert_same(target, want)
    with pytest.raises(ValueError, match="it is the input"):
        _convert(target, target, "huggingface", overwrite=True)
    # Nor are the sidecars of another model.
    folder = tmp_path / "other/out"
    folder.mkdir(parents=True)
    (folder / "bert_config.json").write_text("{}")
    with pytest.raises(FileExistsError, match="with other content"):
        _from_golden("model", folder.parent, "keras")
    assert [p.name for p in folder.iterdir()] == ["bert_config.json"]


@pytest.mark.parametrize("weights", ["model-1.safetensors", "tf_model.h5"])
def test_no_file_of_a_folder_is_removed_that_is_read(tmp_path, weights):
    folder = pathlib.Path(_from_golden("slots", tmp_path, "huggingface"))
    whole = folder / "model.safetensors"
    if weights.endswith(".h5"):  # Only its beginning is read here.
        with h5py.File(folder / weights, "w") as file:
            file["bert/pooler/dense/bias:0"] = np.zeros([2], np.float32)
        whole.unlink()
    else:
        names = safetensors.numpy.load_file(whole)
        index = {"weight_map": dict.fromkeys(names, weights)}
        whole.rename(folder / weights)
        path = folder / "model.safetensors.index.json"
        path.write_text(json.dumps(index))
    before = sorted(folder.iterdir())
    with pytest.raises(ValueError, match="must not be written: it is the inp"):
        _convert(folder, folder, "huggingface", overwrite=True)
    assert sorted(folder.iterdir()) == before


def test_the_labels_of_another_model_are_not_adopted(tmp_path):
    target = tmp_path / "out/bert_model.ckpt"
    _from_golden("classifier", tmp_path, "release")
    labels = tmp_path / "out/labels.json"
    values = {"problem_type": "single_label", "labels": ["a", "b"]}
    labels.write_text(json.dumps(values, indent=2) + "\n")
    with pytest.raises(FileExistsError, match=r"labels\.json already exists"):
        _from_golden("model", tmp_path, "keras")
    # Beside the input they are those of the model.
    _convert(target, tmp_path / "out/x.weights.h5", "keras")
    assert labels.exists()
    _from_golden("model", tmp_path, "release", overwrite=True)
    assert not labels.exists()


@pytest.mark.parametrize("output_format", _OUTPUTS)
def test_nothing_in_a_remote_store_is_replaced_unasked(tmp_path, output_format):
    options = {"bert_config_file": _CONFIG_FILE, "vocab_file": _VOCABULARY}
    target = f"ram://{tmp_path.name}/{_OUTPUTS[output_format]}"
    _convert(_CHECKPOINTS["slots"], target, output_format, **options)
    with pytest.raises(FileExistsError, match=r"ram://.* already exists"):
        _convert(_CHECKPOINTS["slots"], target, output_format, **options)


def test_old_variables_in_a_remote_folder_are_removed(tmp_path):
    options = {"bert_config_file": _CONFIG_FILE, "vocab_file": _VOCABULARY}
    folder = f"ram://{tmp_path.name}/out"
    others = f"{folder}/release_variables.safetensors"
    _convert(_CHECKPOINTS["slots"], folder, "huggingface", **options)
    assert paths.exists(others)
    options |= {"strip_optimizer": True, "overwrite": True}
    _convert(_CHECKPOINTS["slots"], folder, "huggingface", **options)
    assert not paths.exists(others)


@pytest.mark.parametrize(
    ("output_format", "target", "message"),
    [
        ("keras", "x.h5", r"must end in \.weights\.h5"),
        ("huggingface", "x.safetensors", "must be a folder"),
    ],
)
def test_an_output_is_named_for_its_form(
    tmp_path, output_format, target, message
):
    with pytest.raises(ValueError, match=message):
        _convert(_CHECKPOINTS["model"], tmp_path / target, output_format)


def test_what_does_not_fit_the_weights_is_refused(tmp_path):
    with pytest.raises(ValueError, match="pass --bert_config_file"):
        _convert(_CHECKPOINTS["model"], tmp_path / "out", "huggingface")
    cased = str(_GOLDEN / "inputs/vocab_cased.txt")
    with pytest.raises(ValueError, match="has 1250 entries, but the model's"):
        _from_golden("model", tmp_path, "huggingface", vocab_file=cased)
    values = json.loads(pathlib.Path(_CONFIG_FILE).read_text())
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**values, "hidden_size": 64}))
    with pytest.raises(ValueError, match="hidden_size is 64 in the model and"):
        _from_golden("model", tmp_path, "release", bert_config_file=str(config))
    assert not (tmp_path / "out").exists()


def test_a_blank_line_at_the_end_of_the_vocabulary_is_no_entry(tmp_path):
    vocab = tmp_path / "vocab.txt"
    vocab.write_bytes(pathlib.Path(_VOCABULARY).read_bytes() + b"\n")
    _from_golden("model", tmp_path, "huggingface", vocab_file=str(vocab))
    assert (tmp_path / "out/vocab.txt").read_bytes() == vocab.read_bytes()


def test_casing_is_as_stated_or_as_the_vocabulary_suggests(tmp_path, caplog):
    folder = _from_golden("model", tmp_path, "huggingface")
    path = tmp_path / "out/tokenizer_config.json"
    stated = json.loads(path.read_text()) | {"do_lower_case": False}
    path.write_text(json.dumps(stated))

    def converted(name, **options):
        caplog.clear()
        _convert(folder, tmp_path / name / "x.ckpt", "release", **options)
        written = (tmp_path / name / "tokenizer.json").read_text()
        return json.loads(written)["do_lower_case"]

    assert not converted("stated")
    assert "suggest True. If the model was trained so, pass" in caplog.text
    assert converted("given", do_lower_case=True)
    assert "do_lower_case is True, as the entries of" in caplog.text


def test_another_vocabulary_or_casing_than_beside_is_refused(tmp_path):
    folder = _from_golden("model", tmp_path, "huggingface")
    lines = pathlib.Path(_VOCABULARY).read_text(encoding="utf-8").split("\n")
    lines[20] = "other"
    other = tmp_path / "vocab.txt"
    other.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(ValueError, match="first in line 21: 'other', there"):
        _convert(
            folder, tmp_path / "b/x.ckpt", "release", vocab_file=str(other)
        )
    with pytest.raises(ValueError, match="do_lower_case must be True"):
        _convert(folder, tmp_path / "b/x.ckpt", "release", do_lower_case=False)


def test_a_tokenizer_other_than_berts_is_refused(tmp_path):
    folder = _from_golden("model", tmp_path, "huggingface")
    path = tmp_path / "out/tokenizer_config.json"
    values = json.loads(path.read_text())
    for option in ("strip_accents", "tokenize_chinese_chars"):
        path.write_text(json.dumps({**values, option: False}))
        with pytest.raises(ValueError, match=f"{option} must be True"):
            _convert(folder, tmp_path / "b/x.ckpt", "release")
