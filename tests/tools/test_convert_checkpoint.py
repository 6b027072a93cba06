"""Conversions: round trips, what goes along, and error messages."""

import functools
import io
import logging
import pathlib

import numpy as np
import pytest
import safetensors.numpy

from modeling import checkpoints, heads
from modeling import config as config_lib
from tests.support import heads_of_tasks, locations, tool_runs, toy_files

_CONFIG = config_lib.BertConfig.from_json_file(locations.CONFIG_FILE)
_CLASSIFIER = locations.GOLDEN / "classifier"
_CHECKPOINTS = {
    "model": locations.CHECKPOINT,
    "slots": locations.GOLDEN / "optimizer/train12.ckpt",
    "classifier": _CLASSIFIER / "mrpc.ckpt-24",
}
_FORMATS = ("release", "huggingface")
_convert = tool_runs.converted


def _from_golden(name, target, output_format, **options):
    options = {
        "bert_config_file": locations.CONFIG_FILE,
        "vocab_file": locations.VOCAB_FILE,
        # The model has output layers of several tasks.
        "task": "pretraining" if name == "model" else None,
        **options,
    }
    return _convert(_CHECKPOINTS[name], target, output_format, **options)


def _classifier(folder, num_labels=2, **entries):
    """Writes a classifier as a run does; returns its folder."""
    model = heads.BertForSequenceClassification(_CONFIG, num_labels=num_labels)
    return heads_of_tasks.save(folder, model, **entries)


def _assert_same(path, want):
    got = checkpoints.read(str(path))
    assert got.keys() == want.keys()
    for name, value in want.items():
        assert got[name].dtype == value.dtype, name
        assert got[name].shape == value.shape, name
        assert got[name].tobytes() == value.tobytes(), name


def _description(folder):
    return toy_files.read_json(folder / "task.json")


def _without_state(name):
    """Reads the weights of a checkpoint without their optimizer."""
    return {
        n: value
        for n, value in checkpoints.read(str(_CHECKPOINTS[name])).items()
        if not n.endswith(("adam_m", "adam_v")) and n != "global_step"
    }


@pytest.mark.parametrize("name", ["slots", "classifier"])
def test_weights_return_from_hugging_face_bit_for_bit(tmp_path, name):
    want = _without_state(name)
    there = _from_golden(name, tmp_path / "there", "huggingface")
    _assert_same(there, want)
    _assert_same(_convert(there, tmp_path / "back", "release"), want)


def test_the_release_s_format_keeps_the_optimizer_if_wanted(tmp_path):
    held = checkpoints.read(str(_CHECKPOINTS["slots"]))
    _assert_same(_from_golden("slots", tmp_path / "all", "release"), held)
    bare = _from_golden(
        "slots", tmp_path / "bare", "release", strip_optimizer=True
    )
    want = _without_state("slots")
    assert len(want) == 46
    _assert_same(bare, want)


def test_what_belongs_to_the_model_goes_along(tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        folder = _from_golden("slots", tmp_path / "hf", "huggingface")
    assert "139 variables of " in caplog.text
    assert "train12.ckpt (release format)" in caplog.text
    # Nobody misses the moments of the optimizer.
    assert "are not written" not in caplog.text
    tokenizer = toy_files.read_json(folder / "tokenizer_config.json")
    assert tokenizer["do_lower_case"] is True
    assert tokenizer["model_max_length"] == 160
    config = toy_files.read_json(folder / "config.json")
    assert config["hidden_act"] == "gelu_new"
    assert config["pad_token_id"] == 2
    back = _convert(folder, tmp_path / "back", "release")
    vocabulary = pathlib.Path(locations.VOCAB_FILE).read_bytes()
    assert (back / "vocab.txt").read_bytes() == vocabulary
    assert _description(back)["do_lower_case"]
    assert config_lib.BertConfig.from_checkpoint(str(back)) == _CONFIG
    again = _convert(back, tmp_path / "again", "huggingface")
    assert toy_files.read_json(again / "config.json") == config


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
    run = _classifier(tmp_path / "run", len(names) or 1, **task)
    there = _convert(run, tmp_path / "hf", "huggingface")
    config = toy_files.read_json(there / "config.json")
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
    run = _classifier(tmp_path / "run", 3)
    there = _convert(run, tmp_path / "hf", "huggingface")
    config = toy_files.read_json(there / "config.json")
    assert config["id2label"]["2"] == "LABEL_2"
    assert "names of the 3 labels are unknown" in caplog.text


_QUESTIONS = {
    "version_2_with_negative": True,
    "doc_stride": 9,
    "max_query_length": 8,
    "n_best_size": 3,
    "max_answer_length": 4,
    "null_score_diff_threshold": -1.5,
}
# Of each task: flags, those asked for without them, and what is described.
_COMPLETED = {
    "classification": (
        {"task_name": "mrpc"},
        r"--labels, --max_seq_length, --problem_type of its training, for task",
        {"name": "MRPC", "problem_type": "single_label", "labels": ["0", "1"]},
    ),
    "classification of own labels": (
        {"labels": ("b", "a"), "problem_type": "multi_label"},
        "Pass --task, --labels, --max_seq_length, --problem_type of its",
        {"problem_type": "multi_label", "labels": ["b", "a"]},
    ),
    "tagging": (
        {"labels": ("O", "B-X", "I-X")},
        "Pass --task, --labels, --max_seq_length, --problem_type of its",
        {"labels": ["O", "B-X", "I-X"]},
    ),
    "question_answering": (
        _QUESTIONS,
        "Pass --version_2_with_negative, --max_seq_length of its",
        _QUESTIONS,
    ),
    "multiple_choice": ({}, "Pass --max_seq_length of its", {}),
}


@pytest.mark.parametrize("name", _COMPLETED)
def test_a_folder_of_the_original_program_is_completed(tmp_path, name):
    told, message, want = _COMPLETED[name]
    task = name.split()[0]
    head = heads_of_tasks.HEADS[task]
    # As run_classifier.py of the release leaves it, but for its event files.
    run = heads_of_tasks.save(tmp_path / "run", head.make(_CONFIG))
    (run / "bert_config.json").unlink()
    given = {
        "bert_config_file": locations.CONFIG_FILE,
        "vocab_file": locations.VOCAB_FILE,
        "do_lower_case": True,
    }
    with pytest.raises(ValueError, match=message):
        _convert(run, tmp_path / "out", "release", **given)
    if "labels" in told:
        told = {"task": task, **told}
    given |= {"max_seq_length": 32, **told}
    out = _convert(run, tmp_path / "out", "release", **given)
    assert _description(out) == {
        "task": task,
        "do_lower_case": True,
        "strip_accents": True,
        "max_seq_length": 32,
        "vocab_sha256": _description(out)["vocab_sha256"],
        **want,
    }
    assert (out / "vocab.txt").exists()
    # Nothing is asked again.
    again = _convert(out, tmp_path / "hf", "huggingface")
    assert _description(again) == _description(out)
    config = toy_files.read_json(again / "config.json")
    assert config["architectures"] == [head.architecture]


def test_a_name_of_own_data_goes_with_own_labels(tmp_path):
    run = _classifier(tmp_path / "run")
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
    run = _classifier(tmp_path / "run", **task, strip_accents=False)
    entries = {"vocab_file": locations.VOCAB_FILE, **flags}
    out = _convert(run, tmp_path / "out", "huggingface", **entries)
    assert _description(out)["strip_accents"] is strips
    stated = toy_files.read_json(out / "tokenizer_config.json")
    follows = strips == flags.get("do_lower_case", True)
    assert stated["strip_accents"] is (None if follows else strips)
    # Without a rule of the folder, accents follow the casing.
    bare = _classifier(tmp_path / "bare", **task)
    out = _convert(bare, tmp_path / "other", "huggingface", **flags)
    lowers = flags.get("do_lower_case", True)
    assert _description(out)["strip_accents"] is lowers


def test_flags_that_change_what_a_folder_says_are_named(tmp_path, caplog):
    task = {"task": "classification", "labels": ["a", "b"]}
    task |= {"problem_type": "single_label", "max_seq_length": 9}
    run = _classifier(tmp_path / "run", **task)
    _convert(
        run, tmp_path / "out", "release", max_seq_length=8, labels=("b", "a")
    )
    warned = [r.message for r in caplog.records if r.levelname == "WARNING"]
    assert len(warned) == 2
    assert "max_seq_length was 9 and is 8, as the flags say." in warned


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
            bert_config_file=locations.CONFIG_FILE,
            vocab_file=locations.VOCAB_FILE,
        )
        names = checkpoints.list_variables(str(out))
        assert "bert/embeddings/word_embeddings" in names
        assert not [n for n in names if n.startswith("bert/pooler")]


def test_a_completed_folder_predicts_as_the_original_program(tmp_path):
    recorded = toy_files.read_json(_CLASSIFIER / "mrpc_results.json")
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
    rows = toy_files.read_lines(locations.INPUTS / "MRPC/test.tsv")[1:4]
    texts = [" ||| ".join(row.split("\t")[3:5]) for row in rows]
    got = tool_runs.answers(out, *texts)
    probs = [list(answer["probabilities"].values()) for answer in got]
    assert got[0]["probabilities"].keys() == {"0", "1"}
    np.testing.assert_allclose(probs, want, atol=1e-5)


@pytest.mark.parametrize("num_outputs", [1, 3])
def test_labels_of_another_number_are_refused(tmp_path, num_outputs):
    run = _classifier(tmp_path / "run", num_outputs)
    message = rf"{num_outputs} outputs; got 2 labels: '0', '1'"
    with pytest.raises(ValueError, match=message):
        _convert(run, tmp_path / "out", "release", task_name="MRPC")


def test_the_form_of_gelu_survives(tmp_path):
    first = _from_golden("model", tmp_path / "first", "huggingface")
    path = first / "config.json"
    values = toy_files.read_json(path)
    toy_files.write_json(path, {**values, "hidden_act": "gelu"})
    (first / "bert_config.json").unlink()  # As Hugging Face's folders are.
    second = _convert(first, tmp_path / "second", "release")
    beside = toy_files.read_json(second / "bert_config.json")
    assert beside["hidden_act"] == "gelu_exact"
    third = _convert(second, tmp_path / "third", "huggingface")
    again = toy_files.read_json(third / "config.json")
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
        values = toy_files.read_json(folder / name)
        values |= {"do_lower_case": False, "strip_accents": False}
        toy_files.write_json(folder / name, values)
    out = _convert(folder, tmp_path / "out", "release")
    described = _description(out)
    assert (described["do_lower_case"], described["strip_accents"]) == (
        False,
        False,
    )


def test_the_casing_is_asked_for_if_the_vocabulary_does_not_show_it(tmp_path):
    few = tmp_path / "few.txt"
    few.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n")
    run = _classifier(tmp_path / "run")
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
def test_the_output_is_a_new_folder(tmp_path, output_format):
    with pytest.raises(
        ValueError, match=rf"must be a new local folder; got {tmp_path}"
    ):
        _from_golden("model", tmp_path, output_format)
    with pytest.raises(ValueError, match="local folder; got ram://"):
        _from_golden("model", "ram://x/out", output_format)
    assert not list(tmp_path.iterdir())


def test_what_does_not_fit_the_weights_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"must be a bert_config\.json"):
        _convert(_CHECKPOINTS["model"], tmp_path / "out", "huggingface")
    cased = str(locations.INPUTS / "vocab_cased.txt")
    with pytest.raises(ValueError, match="has 1250 entries, but the model's"):
        _from_golden("model", tmp_path / "out", "huggingface", vocab_file=cased)
    values = toy_files.read_json(pathlib.Path(locations.CONFIG_FILE))
    config = tmp_path / "c.json"
    toy_files.write_json(config, {**values, "hidden_size": 64})
    with pytest.raises(ValueError, match="hidden_size is 64 in the model and"):
        _from_golden(
            "model", tmp_path / "out", "release", bert_config_file=str(config)
        )
    # The shapes are those of any number of heads.
    toy_files.write_json(config, {**values, "num_attention_heads": 8})
    source = tmp_path / "model"
    source.mkdir()
    for file in (locations.GOLDEN / "model").glob("tiny.ckpt.*"):
        (source / file.name).write_bytes(file.read_bytes())
    toy_files.write_json(source / "bert_config.json", values)
    with pytest.raises(ValueError, match="8 in the model and 4 in"):
        _convert(
            source, tmp_path / "out", "release", bert_config_file=str(config)
        )
    assert not (tmp_path / "out").exists()


_LABELED = heads_of_tasks.HEADS["classification"]


@pytest.mark.parametrize(
    ("make", "task", "message"),
    [
        (
            heads.BertForPreTraining,
            {"task": "pretraining", "attention": "causal"},
            "left to right nor a BiLSTM",
        ),
        (
            functools.partial(_LABELED.make, bilstm_head=True),
            {"task": "classification", "bilstm_head": True, "max_seq_length": 9}
            | _LABELED.entries,
            "left to right nor a BiLSTM",
        ),
        (
            functools.partial(_LABELED.make, num_labels=1),
            {"task": "rating", "num_ratings": 5},
            "no class for the task 'rating'",
        ),
    ],
    ids=["left to right", "BiLSTM", "own task"],
)
def test_what_transformers_has_no_class_for_stays_in_the_release_s_format(
    tmp_path, make, task, message
):
    run = heads_of_tasks.save(tmp_path / "run", make(_CONFIG), **task)
    with pytest.raises(ValueError, match=message):
        _convert(run, tmp_path / "hf", "huggingface")
    kept = _convert(run, tmp_path / "kept", "release")
    assert _description(kept).items() >= task.items()
    _assert_same(kept, checkpoints.read(str(run)))


def test_another_vocabulary_than_beside_is_refused(tmp_path):
    folder = _from_golden("model", tmp_path / "hf", "huggingface")
    lines = (
        pathlib.Path(locations.VOCAB_FILE)
        .read_text(encoding="utf-8")
        .split("\n")
    )
    lines[20] = "other"
    other = tmp_path / "vocab.txt"
    other.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(ValueError, match="first in line 21: 'other', there"):
        _convert(folder, tmp_path / "b", "release", vocab_file=str(other))


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
    start = {"command": ["run_pretraining.py"], "flags": {"do_train": True}}
    toy_files.write_json_lines(run / "run.jsonl", [start])
    # The name is that of the folder, however its path is written.
    _convert(
        run,
        f"{tmp_path}/hf/",
        "huggingface",
        bert_config_file=locations.CONFIG_FILE,
        task="pretraining",
    )
    text = (tmp_path / "hf/README.md").read_text()
    assert text.startswith("---\nlibrary_name: transformers\n")
    assert "# hf\n" in text
    assert "run_pretraining.py" in text
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
        _convert(path, tmp_path / "out", "release")


def _score(model):
    (answer,) = tool_runs.answers(model, "the cat sat")
    return answer["score"]


def test_the_activation_of_a_cross_encoder_is_applied_and_kept(tmp_path):
    task = {
        "task": "classification",
        "problem_type": "regression",
        "max_seq_length": 9,
        "do_lower_case": True,
    }
    run = _classifier(tmp_path / "run", 1, **task)
    there = _convert(
        run, tmp_path / "hf", "huggingface", vocab_file=locations.VOCAB_FILE
    )
    logit = _score(there)
    (there / "task.json").unlink()
    path = there / "config.json"
    config = toy_files.read_json(path)
    name = "torch.nn.modules.activation.Sigmoid"
    stated = config | {"sentence_transformers": {"activation_fn": name}}
    toy_files.write_json(path, stated)
    score = 1 / (1 + np.exp(-logit))
    assert _score(there) == pytest.approx(score, abs=1e-6)
    back = _convert(there, tmp_path / "back", "release")
    assert _score(back) == pytest.approx(score, abs=1e-6)
    again = _convert(back, tmp_path / "again", "huggingface")
    written = toy_files.read_json(again / "config.json")
    assert written["sentence_transformers"] == {"activation_fn": name}
    toy_files.write_json(
        path, config | {"sbert_ce_default_activation_function": "a.Tanh"}
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
            bert_config_file=locations.CONFIG_FILE,
            vocab_file=locations.VOCAB_FILE,
            task="pretraining",
        )
    assert not (tmp_path / "out").exists()
