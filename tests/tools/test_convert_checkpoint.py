"""Conversions: round trips, what goes along, and error messages."""

import io
import json
import logging
import pathlib

import numpy as np
import pytest
import safetensors.numpy

from bert.models import folder as folder_lib
from modeling import checkpoints, heads
from modeling import config as config_lib
from tests.support import locations
from tools import convert_checkpoint, predict

_CONFIG_FILE = str(locations.GOLDEN / "inputs/bert_config.json")
_VOCABULARY = str(locations.GOLDEN / "inputs/vocab.txt")
_CLASSIFIER = locations.GOLDEN / "classifier"
_CHECKPOINTS = {
    "model": locations.GOLDEN / "model/tiny.ckpt",
    "slots": locations.GOLDEN / "optimizer/train12.ckpt",
    "classifier": _CLASSIFIER / "mrpc.ckpt-24",
}
_FORMATS = ("release", "huggingface")


def _convert(source, target, output_format, **options):
    convert_checkpoint.convert(
        convert_checkpoint.Options(
            input=str(source),
            output=str(target),
            output_format=output_format,
            **options,
        )
    )
    return target


def _from_golden(name, target, output_format, **options):
    options = {
        "bert_config_file": _CONFIG_FILE,
        "vocab_file": _VOCABULARY,
        # The model has output layers of several tasks.
        "task": "pretraining" if name == "model" else None,
        **options,
    }
    return _convert(_CHECKPOINTS[name], target, output_format, **options)


def _saved(folder, model, **sidecars):
    """Saves a model as a run does; returns its folder."""
    checkpoints.save(
        str(folder / "model.ckpt-3"), checkpoints.variables_by_name(model)
    )
    (folder / "bert_config.json").write_text(json.dumps(model.config.to_dict()))
    for name, values in sidecars.items():
        (folder / f"{name}.json").write_text(json.dumps(values))
    return folder


def _classifier(num_labels):
    config = config_lib.BertConfig.from_json_file(_CONFIG_FILE)
    return heads.BertForSequenceClassification(config, num_labels=num_labels)


def _assert_same(path, want):
    got = checkpoints.read(str(path))
    assert got.keys() == want.keys()
    for name, value in want.items():
        assert got[name].dtype == value.dtype, name
        assert got[name].shape == value.shape, name
        assert got[name].tobytes() == value.tobytes(), name


def _description(folder):
    return json.loads((folder / "task.json").read_text())


def _is_state(name):
    return name.endswith(("adam_m", "adam_v")) or name == "global_step"


@pytest.mark.parametrize("name", ["slots", "classifier"])
def test_weights_return_from_hugging_face_bit_for_bit(tmp_path, name):
    held = checkpoints.read(str(_CHECKPOINTS[name]))
    want = {n: value for n, value in held.items() if not _is_state(n)}
    there = _from_golden(name, tmp_path / "there", "huggingface")
    _assert_same(there, want)
    back = _convert(there, tmp_path / "back", "release")
    _assert_same(back, want)


def test_the_release_s_format_keeps_the_optimizer_if_wanted(tmp_path):
    held = checkpoints.read(str(_CHECKPOINTS["slots"]))
    _assert_same(_from_golden("slots", tmp_path / "all", "release"), held)
    bare = _from_golden(
        "slots", tmp_path / "bare", "release", strip_optimizer=True
    )
    want = {n: value for n, value in held.items() if not _is_state(n)}
    assert len(want) == 46
    _assert_same(bare, want)


def test_what_belongs_to_the_model_goes_along(tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        folder = _from_golden("slots", tmp_path / "hf", "huggingface")
    assert "139 variables of " in caplog.text
    assert "train12.ckpt (release format)" in caplog.text
    # Nobody misses the moments of the optimizer.
    assert "are not written" not in caplog.text
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    assert tokenizer["do_lower_case"] is True
    assert tokenizer["model_max_length"] == 160
    config = json.loads((folder / "config.json").read_text())
    assert config["hidden_act"] == "gelu_new"
    assert config["pad_token_id"] == 2
    back = _convert(folder, tmp_path / "back", "release")
    vocabulary = pathlib.Path(_VOCABULARY).read_bytes()
    assert (back / "vocab.txt").read_bytes() == vocabulary
    assert _description(back)["do_lower_case"]
    assert config_lib.BertConfig.from_checkpoint(
        str(back)
    ) == config_lib.BertConfig.from_json_file(_CONFIG_FILE)
    again = _convert(back, tmp_path / "again", "huggingface")
    assert json.loads((again / "config.json").read_text()) == config


def test_variables_without_a_name_there_are_named(tmp_path, caplog):
    source = locations.GOLDEN / "foreign/model_garden_pretrainer"
    _convert(source, tmp_path / "hf", "huggingface")
    pooler = "model/encoder_network/_pooler_layer"
    assert f"none of these names: {pooler}/bias, {pooler}/kernel" in caplog.text
    held = checkpoints.list_variables(str(tmp_path / "hf"))
    assert not [n for n in held if not n.startswith(("bert/", "cls/"))]


@pytest.mark.parametrize(
    ("problem_type", "names"),
    [
        ("single_label", ["no", "yes"]),
        ("multi_label", ["b", "a"]),
        ("regression", []),
    ],
)
def test_labels_become_those_of_hugging_face(tmp_path, problem_type, names):
    task = {
        "task": "classification",
        "problem_type": problem_type,
        "labels": names,
        "max_seq_length": 9,
    }
    run = _saved(tmp_path / "run", _classifier(len(names) or 1), task=task)
    there = _convert(run, tmp_path / "hf", "huggingface")
    config = json.loads((there / "config.json").read_text())
    if names:
        assert config["id2label"] == dict(zip("01", names, strict=True))
    assert config["architectures"] == ["BertForSequenceClassification"]
    back = _convert(there, tmp_path / "back", "release")
    assert _description(back) == task
    # Also without our own description, but for the length.
    (there / "task.json").unlink()
    (there / "bert_config.json").unlink()
    foreign = _convert(there, tmp_path / "foreign", "release")
    positions = config["max_position_embeddings"]
    assert _description(foreign) == task | {"max_seq_length": positions}


def test_invented_labels_are_logged(tmp_path, caplog):
    run = _saved(tmp_path / "run", _classifier(3))
    there = _convert(run, tmp_path / "hf", "huggingface")
    config = json.loads((there / "config.json").read_text())
    assert config["id2label"]["2"] == "LABEL_2"
    assert "names of the 3 labels are unknown" in caplog.text


_OF_EACH_TASK = {
    "mrpc": (
        lambda config: heads.BertForSequenceClassification(
            config, num_labels=2
        ),
        {"task_name": "mrpc"},
        r"--labels, --max_seq_length, --problem_type of its training, for task",
        {
            "task": "classification",
            "name": "MRPC",
            "problem_type": "single_label",
            "labels": ["0", "1"],
        },
    ),
    "own labels": (
        lambda config: heads.BertForSequenceClassification(
            config, num_labels=3
        ),
        {
            "task": "classification",
            "labels": ("b", "c", "a"),
            "problem_type": "multi_label",
        },
        "Pass --task, --labels, --max_seq_length, --problem_type",
        {
            "task": "classification",
            "problem_type": "multi_label",
            "labels": ["b", "c", "a"],
        },
    ),
    "tags": (
        lambda config: heads.BertForTokenClassification(config, num_labels=3),
        {"task": "tagging", "labels": ("O", "B-X", "I-X")},
        "Pass --task, --labels, --max_seq_length",
        {"task": "tagging", "labels": ["O", "B-X", "I-X"]},
    ),
    "answers": (
        heads.BertForQuestionAnswering,
        {
            "version_2_with_negative": True,
            "doc_stride": 9,
            "max_query_length": 8,
            "n_best_size": 3,
            "max_answer_length": 4,
            "null_score_diff_threshold": -1.5,
        },
        "Pass --version_2_with_negative, --max_seq_length",
        {
            "task": "question_answering",
            "version_2_with_negative": True,
            "doc_stride": 9,
            "max_query_length": 8,
            "n_best_size": 3,
            "max_answer_length": 4,
            "null_score_diff_threshold": -1.5,
        },
    ),
    "choices": (
        heads.BertForMultipleChoice,
        {},
        "Pass --max_seq_length",
        {"task": "multiple_choice"},
    ),
}


_ARCHITECTURES = {
    "classification": "BertForSequenceClassification",
    "tagging": "BertForTokenClassification",
    "question_answering": "BertForQuestionAnswering",
    "multiple_choice": "BertForMultipleChoice",
}


@pytest.mark.parametrize("name", _OF_EACH_TASK)
def test_a_folder_of_the_original_program_is_completed(tmp_path, name):
    make, told, message, want = _OF_EACH_TASK[name]
    make_name = _ARCHITECTURES[want["task"]]
    config = config_lib.BertConfig.from_json_file(_CONFIG_FILE)
    # As run_classifier.py of the release leaves it, but for its event files.
    run = _saved(tmp_path / "run", make(config))
    (run / "bert_config.json").unlink()
    given = {
        "bert_config_file": _CONFIG_FILE,
        "vocab_file": _VOCABULARY,
        "do_lower_case": True,
    }
    with pytest.raises(ValueError, match=message):
        _convert(run, tmp_path / "out", "release", **given)
    given |= {"max_seq_length": 32, **told}
    out = _convert(run, tmp_path / "out", "release", **given)
    hashed = _description(out).pop("vocab_sha256")
    assert _description(out) == {
        "do_lower_case": True,
        "strip_accents": True,
        "max_seq_length": 32,
        "vocab_sha256": hashed,
        **want,
    }
    assert (out / "vocab.txt").exists()
    # Nothing is asked again.
    again = _convert(out, tmp_path / "hf", "huggingface")
    assert _description(again) == _description(out)
    config = json.loads((again / "config.json").read_text())
    assert config["architectures"] == [make_name]


def test_a_name_of_own_data_goes_with_own_labels(tmp_path):
    run = _saved(tmp_path / "run", _classifier(2))
    out = _convert(
        run,
        tmp_path / "out",
        "release",
        task_name="Reviews",
        labels=("good", "bad"),
        problem_type="single_label",
        max_seq_length=8,
    )
    assert _description(out) == {
        "task": "classification",
        "name": "Reviews",
        "problem_type": "single_label",
        "labels": ["good", "bad"],
        "max_seq_length": 8,
    }


@pytest.mark.parametrize(
    ("flags", "strips"),
    [
        ({}, False),
        ({"do_lower_case": True}, False),
        ({"do_lower_case": False}, False),
        ({"do_lower_case": True, "strip_accents": True}, True),
        ({"strip_accents": True}, True),
    ],
)
def test_the_rule_for_accents_stays_with_its_casing(tmp_path, flags, strips):
    task = {"task": "pretraining", "do_lower_case": True}
    run = _saved(
        tmp_path / "run", _classifier(2), task=task | {"strip_accents": False}
    )
    entries = {"vocab_file": _VOCABULARY, **flags}
    out = _convert(run, tmp_path / "out", "huggingface", **entries)
    assert _description(out)["strip_accents"] is strips
    stated = json.loads((out / "tokenizer_config.json").read_text())
    follows = strips == flags.get("do_lower_case", True)
    assert stated["strip_accents"] is (None if follows else strips)
    # Without a rule of the folder, accents follow the casing.
    bare = _saved(tmp_path / "bare", _classifier(2), task=task)
    out = _convert(bare, tmp_path / "other", "huggingface", **flags)
    lowers = flags.get("do_lower_case", True)
    assert _description(out)["strip_accents"] is lowers


def test_flags_that_change_what_a_folder_says_are_named(tmp_path, caplog):
    task = {"task": "classification", "labels": ["a", "b"]}
    task |= {"problem_type": "single_label", "max_seq_length": 9}
    run = _saved(tmp_path / "run", _classifier(2), task=task)
    _convert(
        run, tmp_path / "out", "release", max_seq_length=8, labels=("b", "a")
    )
    warned = [r.message for r in caplog.records if r.levelname == "WARNING"]
    assert len(warned) == 2
    assert "max_seq_length was 9 and is 8, as the flags say." in warned


def test_the_release_s_programs_find_the_weights_of_a_folder(tmp_path):
    out = _from_golden("slots", tmp_path / "out", "release")
    state = (out / "checkpoint").read_text()
    assert state == 'model_checkpoint_path: "bert_model.ckpt"\n'


def test_a_model_without_a_pooler_is_converted(tmp_path):
    weights = checkpoints.read(str(_CHECKPOINTS["slots"]))
    kept = {n: v for n, v in weights.items() if not n.startswith("bert/pooler")}
    assert len(kept) < len(weights)
    checkpoints.save(str(tmp_path / "bare.ckpt"), kept)
    for output_format in _FORMATS:
        out = _convert(
            tmp_path / "bare.ckpt",
            tmp_path / output_format,
            output_format,
            bert_config_file=_CONFIG_FILE,
            vocab_file=_VOCABULARY,
        )
        names = checkpoints.list_variables(str(out))
        assert "bert/embeddings/word_embeddings" in names
        assert not [n for n in names if n.startswith("bert/pooler")]


def test_a_completed_folder_predicts_as_the_original_program(tmp_path):
    recorded = json.loads((_CLASSIFIER / "mrpc_results.json").read_text())
    want = np.loadtxt(
        io.StringIO(recorded["predict"]["test_results_tsv"]), max_rows=3
    )
    out = _from_golden(
        "classifier",
        tmp_path / "mrpc",
        "release",
        task_name="MRPC",
        max_seq_length=64,
        do_lower_case=True,
    )
    rows = (
        (locations.GOLDEN / "inputs/MRPC/test.tsv")
        .read_text()
        .splitlines()[1:4]
    )
    lines = [" ||| ".join(row.split("\t")[3:5]) + "\n" for row in rows]
    answers = io.StringIO()
    predict.run(
        predict.Options(model=str(out), format="json"),
        [],
        io.BytesIO("".join(lines).encode()),
        answers,
    )
    got = [json.loads(line) for line in answers.getvalue().splitlines()]
    probs = [list(answer["probabilities"].values()) for answer in got]
    assert got[0]["probabilities"].keys() == {"0", "1"}
    np.testing.assert_allclose(probs, want, atol=1e-5)


@pytest.mark.parametrize("num_outputs", [1, 3])
def test_labels_of_another_number_are_refused(tmp_path, num_outputs):
    run = _saved(tmp_path / "run", _classifier(num_outputs))
    message = rf"{num_outputs} outputs; got 2 labels: '0', '1'"
    with pytest.raises(ValueError, match=message):
        _convert(run, tmp_path / "out", "release", task_name="MRPC")


def test_the_form_of_gelu_survives(tmp_path):
    first = _from_golden("model", tmp_path / "first", "huggingface")
    path = first / "config.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, "hidden_act": "gelu"}))
    (first / "bert_config.json").unlink()  # As Hugging Face's folders are.
    second = _convert(first, tmp_path / "second", "release")
    beside = json.loads((second / "bert_config.json").read_text())
    assert beside["hidden_act"] == "gelu_exact"
    third = _convert(second, tmp_path / "third", "huggingface")
    again = json.loads((third / "config.json").read_text())
    assert again["hidden_act"] == "gelu"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_weights_become_float32(tmp_path, dtype):
    folder = _from_golden("model", tmp_path / "hf", "huggingface")
    path = folder / "model.safetensors"
    weights = safetensors.numpy.load_file(path)
    safetensors.numpy.save_file(
        {name: value.astype(dtype) for name, value in weights.items()}, path
    )
    out = _convert(folder, tmp_path / "out", "release")
    values = checkpoints.read(str(out))
    assert {value.dtype.name for value in values.values()} == {"float32"}
    name = "bert/pooler/dense/bias"
    rounded = weights["bert.pooler.dense.bias"].astype(dtype)
    np.testing.assert_array_equal(values[name], rounded.astype(np.float32))


def test_the_casing_of_a_folder_is_before_that_of_its_vocabulary(tmp_path):
    folder = _from_golden("model", tmp_path / "hf", "huggingface")
    # Its vocabulary shows a lower-casing tokenizer, as that of Chinese does.
    for name in ("task.json", "tokenizer_config.json"):
        values = json.loads((folder / name).read_text())
        values |= {"do_lower_case": False, "strip_accents": False}
        (folder / name).write_text(json.dumps(values))
    out = _convert(folder, tmp_path / "out", "release")
    described = _description(out)
    assert (described["do_lower_case"], described["strip_accents"]) == (
        False,
        False,
    )


def test_the_casing_is_asked_for_if_the_vocabulary_does_not_show_it(tmp_path):
    few = tmp_path / "few.txt"
    few.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n")
    run = _saved(tmp_path / "run", _classifier(2))
    told = {"task_name": "MRPC", "max_seq_length": 32}
    with pytest.raises(ValueError, match=r"Pass --do_lower_case of its train"):
        _convert(run, tmp_path / "out", "release", vocab_file=str(few), **told)
    with pytest.raises(ValueError, match="unknown whether the model reads"):
        _convert(
            run, tmp_path / "out", "huggingface", vocab_file=str(few), **told
        )
    # No text is read without a vocabulary.
    out = _convert(run, tmp_path / "out", "release", **told)
    assert "do_lower_case" not in _description(out)


@pytest.mark.parametrize("output_format", _FORMATS)
def test_8_bit_weights_are_refused(tmp_path, output_format):
    folder = _from_golden("model", tmp_path / "hf", "huggingface")
    weights = safetensors.numpy.load_file(folder / "model.safetensors")
    name = "bert.pooler.dense.bias"
    weights[name] = weights[name].astype("float8_e4m3fn")
    safetensors.numpy.save_file(weights, folder / "model.safetensors")
    with pytest.raises(ValueError, match="must contain floating-point weights"):
        _convert(folder, tmp_path / "out", output_format)


@pytest.mark.parametrize("output_format", _FORMATS)
def test_the_output_is_a_new_folder_or_nothing(
    tmp_path, monkeypatch, output_format
):
    (tmp_path / "old").mkdir()
    with pytest.raises(
        ValueError, match=r"must be a new local folder; got .*old"
    ):
        _from_golden("model", tmp_path / "old", output_format)
    with pytest.raises(ValueError, match="local folder; got ram://"):
        _from_golden("model", "ram://x/out", output_format)

    def fail(*arguments, **options):
        raise OSError("No space left on device")

    # As a full disk does, after the weights are written.
    monkeypatch.setattr(folder_lib, "write", fail)
    with pytest.raises(OSError, match="No space left"):
        _from_golden("model", tmp_path / "new", output_format)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_what_does_not_fit_the_weights_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"must be a bert_config\.json"):
        _convert(_CHECKPOINTS["model"], tmp_path / "out", "huggingface")
    cased = str(locations.GOLDEN / "inputs/vocab_cased.txt")
    with pytest.raises(ValueError, match="has 1250 entries, but the model's"):
        _from_golden("model", tmp_path / "out", "huggingface", vocab_file=cased)
    values = json.loads(pathlib.Path(_CONFIG_FILE).read_text())
    config = tmp_path / "c.json"
    config.write_text(json.dumps({**values, "hidden_size": 64}))
    with pytest.raises(ValueError, match="hidden_size is 64 in the model and"):
        _from_golden(
            "model", tmp_path / "out", "release", bert_config_file=str(config)
        )
    # The shapes are those of any number of heads.
    config.write_text(json.dumps({**values, "num_attention_heads": 8}))
    source = tmp_path / "model"
    source.mkdir()
    for file in (locations.GOLDEN / "model").glob("tiny.ckpt.*"):
        (source / file.name).write_bytes(file.read_bytes())
    (source / "bert_config.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match="8 in the model and 4 in"):
        _convert(
            source, tmp_path / "out", "release", bert_config_file=str(config)
        )
    assert not (tmp_path / "out").exists()


def test_a_left_to_right_model_stays_in_the_release_s_format(tmp_path):
    task = {"task": "pretraining", "attention": "causal"}
    config = config_lib.BertConfig.from_json_file(_CONFIG_FILE)
    model = heads.BertForPreTraining(config)
    run = _saved(tmp_path / "run", model, task=task)
    with pytest.raises(ValueError, match="left to right nor a BiLSTM"):
        _convert(run, tmp_path / "hf", "huggingface")
    kept = _convert(run, tmp_path / "kept", "release")
    assert _description(kept) == task


def test_a_bilstm_stays_in_the_release_s_format(tmp_path):
    config = config_lib.BertConfig.from_json_file(_CONFIG_FILE)
    model = heads.BertForSequenceClassification(
        config, num_labels=2, bilstm_head=True
    )
    task = {"task": "classification", "bilstm_head": True}
    task |= {"problem_type": "single_label", "labels": ["a", "b"]}
    run = _saved(tmp_path / "run", model, task=task | {"max_seq_length": 9})
    with pytest.raises(ValueError, match="left to right nor a BiLSTM"):
        _convert(run, tmp_path / "hf", "huggingface")
    kept = _convert(run, tmp_path / "kept", "release")
    names = checkpoints.list_variables(str(kept))
    assert [name for name in names if name.startswith("bilstm/")]


def test_a_model_of_a_task_of_its_own_stays_in_the_release_s_format(tmp_path):
    task = {"task": "rating", "num_ratings": 5}
    run = _saved(tmp_path / "run", _classifier(1), task=task)
    with pytest.raises(ValueError, match="no class for the task 'rating'"):
        _convert(run, tmp_path / "hf", "huggingface")
    kept = _convert(run, tmp_path / "kept", "release")
    assert _description(kept).items() >= task.items()


def test_another_vocabulary_than_beside_is_refused(tmp_path):
    folder = _from_golden("model", tmp_path / "hf", "huggingface")
    lines = pathlib.Path(_VOCABULARY).read_text(encoding="utf-8").split("\n")
    lines[20] = "other"
    other = tmp_path / "vocab.txt"
    other.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(ValueError, match="first in line 21: 'other', there"):
        _convert(folder, tmp_path / "b", "release", vocab_file=str(other))


def test_a_hugging_face_folder_gets_a_card_of_its_step(tmp_path):
    config = config_lib.BertConfig.from_json_file(_CONFIG_FILE)
    model = heads.BertForPreTraining(config)
    run = _saved(tmp_path / "run", model, task={"task": "pretraining"})
    start = {"command": ["run_pretraining.py"], "flags": {"do_train": True}}
    (run / "run.jsonl").write_text(f'{{"damaged\n{json.dumps(start)}\n')
    (run / "eval_results.txt").write_text("masked_lm_accuracy = 0.5\n")
    folder = _convert(run, tmp_path / "hf", "huggingface")
    text = (pathlib.Path(folder) / "README.md").read_text()
    assert text.startswith("---\nlibrary_name: transformers\n")
    assert "# hf\n" in text
    assert "run_pretraining.py" in text
    assert "| eval | masked_lm_accuracy | 0.5 |" in text


def test_a_card_has_the_scores_of_the_step_of_its_weights(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    values = checkpoints.read(str(_CHECKPOINTS["slots"]))
    step = int(values["global_step"])
    checkpoints.save(str(run / "model.ckpt-12"), values)
    for name, stated in (("eval", step), ("test", step + 1)):
        (run / f"{name}_results.txt").write_text(
            f"global_step = {stated}\nmasked_lm_accuracy = 0.5\n"
        )
    # The name is that of the folder, however its path is written.
    _convert(
        run,
        f"{tmp_path}/hf/",
        "huggingface",
        bert_config_file=_CONFIG_FILE,
        task="pretraining",
    )
    text = (tmp_path / "hf/README.md").read_text()
    assert "# hf\n" in text
    assert "| eval | masked_lm_accuracy | 0.5 |" in text
    assert "| test |" not in text


@pytest.mark.parametrize("name", ["bert.onnx", "saved_model.pb"])
def test_a_file_of_another_program_is_named_without_a_configuration(
    tmp_path, name
):
    (tmp_path / name).touch()
    path = tmp_path / name if name == "bert.onnx" else tmp_path
    with pytest.raises(
        (OSError, ValueError), match=r"(ONNX|SavedModel).*are re"
    ):
        convert_checkpoint.convert(
            convert_checkpoint.Options(
                input=str(path),
                output=str(tmp_path / "out"),
                output_format="release",
            )
        )


def _score(model):
    output = io.StringIO()
    options = predict.Options(model=str(model), format="json")
    predict.run(options, ["the cat sat"], io.BytesIO(), output)
    return json.loads(output.getvalue())["score"]


def test_the_activation_of_a_cross_encoder_is_applied_and_kept(tmp_path):
    task = {
        "task": "classification",
        "problem_type": "regression",
        "max_seq_length": 9,
        "do_lower_case": True,
    }
    run = _saved(tmp_path / "run", _classifier(1), task=task)
    there = _convert(
        run, tmp_path / "hf", "huggingface", vocab_file=_VOCABULARY
    )
    logit = _score(there)
    (there / "task.json").unlink()
    path = there / "config.json"
    config = json.loads(path.read_text())
    name = "torch.nn.modules.activation.Sigmoid"
    stated = config | {"sentence_transformers": {"activation_fn": name}}
    path.write_text(json.dumps(stated))
    score = 1 / (1 + np.exp(-logit))
    assert _score(there) == pytest.approx(score, abs=1e-6)
    back = _convert(there, tmp_path / "back", "release")
    assert _score(back) == pytest.approx(score, abs=1e-6)
    again = _convert(back, tmp_path / "again", "huggingface")
    written = json.loads((again / "config.json").read_text())
    assert written["sentence_transformers"] == {"activation_fn": name}
    path.write_text(
        json.dumps(config | {"sbert_ce_default_activation_function": "a.Tanh"})
    )
    with pytest.raises(ValueError, match=r"activation .* got 'tanh'"):
        _score(there)


@pytest.mark.parametrize("output_format", _FORMATS)
def test_weights_of_another_network_are_refused(tmp_path, output_format):
    tensors = dict(checkpoints.read(str(_CHECKPOINTS["model"])))
    scale = {"bert/encoder/layer_0/attention/adapter/kernel": np.ones((2, 3))}
    checkpoints.save(str(tmp_path / "model.ckpt"), tensors | scale)
    with pytest.raises(ValueError, match=r"another network: .*adapter/kernel"):
        _convert(
            tmp_path / "model.ckpt",
            tmp_path / "out",
            output_format,
            bert_config_file=_CONFIG_FILE,
            vocab_file=_VOCABULARY,
            task="pretraining",
        )
    assert not (tmp_path / "out").exists()
