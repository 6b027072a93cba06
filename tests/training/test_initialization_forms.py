"""Starting from checkpoints of every form and of other tasks."""

import functools
import json
import pathlib

import numpy as np
import pytest

from modeling import checkpoints, heads
from modeling import config as config_lib
from tests import programs
from tools import convert_checkpoint
from training import flags, initialization, objectives

_GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
_CONFIG_FILE = str(_GOLDEN / "inputs/bert_config.json")
_CONFIG = config_lib.BertConfig.from_json_file(_CONFIG_FILE)
_CHECKPOINT = str(_GOLDEN / "model/tiny.ckpt")
_HEAD = ("output_weights", "output_bias")


class _Objective:
    """Has a model, which is all that loading asks for."""

    def __init__(self, model):
        self.model = model


def _convert(source, target, output_format, **options):
    named = {"input": source, "output": target, "output_format": output_format}
    named |= {"bert_config_file": _CONFIG_FILE, **options}
    convert_checkpoint.convert(
        programs.parse(convert_checkpoint.Options, **named)
    )
    return str(target)


def _saved(folder, model):
    prefix = str(folder / "model.ckpt-3")
    checkpoints.save(prefix, checkpoints.variables_by_name(model))
    return prefix


def _classifier(num_labels=2):
    return heads.BertForSequenceClassification(_CONFIG, num_labels=num_labels)


def _encoder_is_that_of(model, path):
    pooler = checkpoints.read(path, ["bert/pooler/dense/kernel"])
    return np.array_equal(
        model.bert.pooler.dense.kernel, pooler["bert/pooler/dense/kernel"]
    )


def _options(folder, path):
    return flags.TrainingOptions(
        output_dir=str(folder), bert_config_file="", init_checkpoint=path
    )


def _words(text):
    """Joins the lines of a message."""
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("form", "name"), [("keras", "x.weights.h5"), ("huggingface", "hf")]
)
def test_training_starts_from_any_form(tmp_path, form, name, caplog):
    path = _convert(_CHECKPOINT, tmp_path / name, form)
    model = heads.BertForPreTraining(_CONFIG)
    _, step = initialization.initialize(
        objectives.Pretraining(model, "mlm_nsp"),
        _options(tmp_path / "run", path),
        initialization.Plan(
            num_train_steps=9, identity={"objective": "mlm_nsp"}
        ),
    )
    assert step == 0
    want = checkpoints.read(_CHECKPOINT)
    for key, variable in checkpoints.variables_by_name(model).items():
        np.testing.assert_array_equal(variable, want[key], key)
    assert f"Initialized from {path}" in _words(caplog.text)


def _check_head_is_new(path, encoder):
    """Loads a classifier; compares its encoder with that of a checkpoint."""
    model = _classifier()
    before = np.asarray(model.output_weights).copy()
    initialization.load_weights(_Objective(model), path, new=_HEAD)
    assert _encoder_is_that_of(model, encoder)
    np.testing.assert_array_equal(model.output_weights, before)


def test_another_task_s_head_is_new_and_named(caplog):
    _check_head_is_new(_CHECKPOINT, _CHECKPOINT)
    assert "2 new, as initialized: output_bias, output_weights" in _words(
        caplog.text
    )


@pytest.mark.parametrize("num_labels", [2, 3])
def test_a_tagger_s_head_is_no_classifier_s(tmp_path, num_labels, caplog):
    tagger = heads.BertForTokenClassification(_CONFIG, num_labels=num_labels)
    prefix = _saved(tmp_path / "run", tagger)
    path = _convert(
        prefix,
        tmp_path / "hf",
        "huggingface",
        architecture="BertForTokenClassification",
    )
    _check_head_is_new(path, prefix)
    assert "output layer is new (output_weights, output_bias)" in _words(
        caplog.text
    )


def test_labels_beside_decide_whether_a_head_is_kept(tmp_path):
    tagger = heads.BertForTokenClassification(_CONFIG, num_labels=2)
    prefix = _saved(tmp_path / "before", tagger)
    run = tmp_path / "run"
    run.mkdir()
    labels = {"problem_type": "single_label", "labels": ["O", "B-X"]}
    (tmp_path / "before/labels.json").write_text(json.dumps(labels))
    for names, is_kept in ((["O", "B-X"], True), (["O", "B-Y"], False)):
        now = {**labels, "labels": names}
        (run / "labels.json").write_text(json.dumps(now))
        model = heads.BertForTokenClassification(_CONFIG, num_labels=2)
        initialization.initialize(
            _Objective(model),
            _options(run, prefix),
            initialization.Plan(
                num_train_steps=9,
                new_variables=_HEAD,
                identity={"objective": "tags"},
            ),
        )
        assert _encoder_is_that_of(model, prefix)
        is_same = np.array_equal(model.output_weights, tagger.output_weights)
        assert is_same == is_kept


_HEADS = {
    "BertForPreTraining": heads.BertForPreTraining,
    "BertForSequenceClassification": lambda config: (
        heads.BertForSequenceClassification(config, num_labels=2)
    ),
    "BertForTokenClassification": lambda config: (
        heads.BertForTokenClassification(config, num_labels=2)
    ),
    "BertForQuestionAnswering": heads.BertForQuestionAnswering,
    "BertForMultipleChoice": heads.BertForMultipleChoice,
}
_OBJECTIVES = {
    "BertForSequenceClassification": "MRPC, single_label",
    "BertForTokenClassification": "tags, fine-tuned: O B-X",
}


@functools.cache
def _model(name):
    return _HEADS[name](_CONFIG)


@pytest.mark.parametrize("form", ["release", "huggingface"])
@pytest.mark.parametrize("held", _HEADS)
def test_no_head_is_evaluated_as_another(tmp_path, held, form):
    path = _saved(tmp_path, _model(held))
    identity = {"objective": _OBJECTIVES.get(held, "other")}
    state = pathlib.Path(f"{path}.state.json")
    state.write_text(json.dumps({"identity": identity}))
    if form == "huggingface":
        path = _convert(path, tmp_path / "hf", form)
    for wanted in _HEADS:
        objective = _Objective(_model(wanted))
        if wanted == held:
            initialization.load_weights(objective, path)
            continue
        with pytest.raises(
            ValueError, match=r"output layer of|must contain all"
        ):
            initialization.load_weights(objective, path)


def _without_pooler(folder, architecture):
    held = checkpoints.read(_CHECKPOINT)
    prefix = str(folder / "x.ckpt")
    checkpoints.save(
        prefix, {n: v for n, v in held.items() if "pooler" not in n}
    )
    path = _convert(prefix, folder / "hf", "huggingface")
    config = folder / "hf/config.json"
    values = json.loads(config.read_text())
    values["architectures"] = [architecture]
    config.write_text(json.dumps(values))
    return path


def test_a_model_that_makes_no_pooler_can_be_started_from(tmp_path, caplog):
    path = _without_pooler(tmp_path, "BertForMaskedLM")
    initialization.load_weights(_Objective(_classifier()), path, new=_HEAD)
    assert "bert/pooler/dense/kernel" in caplog.text
    # Nothing new was asked for: an evaluation needs all of the model.
    with pytest.raises(ValueError, match=r"missing: .*bert/pooler"):
        initialization.load_weights(_Objective(_classifier()), path)


def test_pretraining_on_single_texts_starts_without_next_sentences(tmp_path):
    held = checkpoints.read(_CHECKPOINT)
    prefix = str(tmp_path / "x.ckpt")
    unused = ("bert/pooler/", "cls/seq_relationship/")
    checkpoints.save(
        prefix, {n: v for n, v in held.items() if not n.startswith(unused)}
    )
    path = _convert(prefix, tmp_path / "hf", "huggingface")
    for objective in ("mlm", "ltr"):
        model = heads.BertForPreTraining(_CONFIG, objective=objective)
        initialization.load_weights(_Objective(model), path)
        name = "cls/predictions/output_bias"
        loaded = checkpoints.variables_by_name(model)[name]
        np.testing.assert_array_equal(loaded, held[name])
    pairs = heads.BertForPreTraining(_CONFIG)
    with pytest.raises(ValueError, match=r"4 missing: bert/pooler"):
        initialization.load_weights(_Objective(pairs), path)


def test_a_pooler_that_is_lost_elsewhere_is_an_error(tmp_path):
    path = _without_pooler(tmp_path, "BertForPreTraining")
    with pytest.raises(ValueError, match=r"2 missing: bert/pooler"):
        initialization.load_weights(_Objective(_classifier()), path, new=_HEAD)


def test_answers_need_no_pooler(tmp_path):
    path = _without_pooler(tmp_path, "BertForQuestionAnswering")
    model = heads.BertForQuestionAnswering(_CONFIG)
    initialization.load_weights(_Objective(model), path)
    weights = checkpoints.read(_CHECKPOINT, ["cls/squad/output_weights"])
    np.testing.assert_array_equal(
        model.span.output_weights, weights["cls/squad/output_weights"]
    )


def test_another_casing_is_refused_before_loading(tmp_path):
    path = _convert(
        _CHECKPOINT,
        tmp_path / "hf",
        "huggingface",
        vocab_file=str(_GOLDEN / "inputs/vocab.txt"),
    )
    run = tmp_path / "run"
    run.mkdir()
    (run / "tokenizer.json").write_text('{"do_lower_case": false}')
    with pytest.raises(ValueError, match="do_lower_case must be True"):
        initialization.initialize(
            _Objective(_classifier()),
            _options(run, path),
            initialization.Plan(
                num_train_steps=9, new_variables=_HEAD, identity={}
            ),
        )
