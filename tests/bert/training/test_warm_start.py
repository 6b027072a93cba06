"""Loading of checkpoints of every format and of other tasks."""

import functools

import numpy as np
import pytest

from bert.models import description as description_lib
from bert.models import folder as folder_lib
from bert.training import warm_start
from modeling import checkpoints, heads
from modeling import config as config_lib
from tests.support import heads_of_tasks, locations, tool_runs, toy_files

_CONFIG = config_lib.BertConfig.from_json_file(locations.CONFIG_FILE)
_CHECKPOINT = str(locations.CHECKPOINT)
_HEAD = ("output_weights", "output_bias")
_TWINS = {"classification", "tagging"}


def _convert(source, target, output_format, **options):
    config = locations.CONFIG_FILE
    return str(
        tool_runs.converted(
            source, target, output_format, bert_config_file=config, **options
        )
    )


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


def _load(model, path, new=(), target=None):
    """Loads a checkpoint as a run whose model has the description `target`."""
    origin = folder_lib.ModelFolder.open(str(path)).description
    target = description_lib.Description.from_json(target or {})
    with checkpoints.opened(str(path)) as source:
        warm_start.load(model, source, new=new, origin=origin, target=target)


def _words(text):
    """Joins the lines of a message."""
    return " ".join(text.split())


def test_training_starts_from_any_form(tmp_path, caplog):
    path = _convert(_CHECKPOINT, tmp_path / "hf", "huggingface")
    model = heads.BertForPreTraining(_CONFIG)
    _load(model, path)
    want = checkpoints.read(_CHECKPOINT)
    for key, variable in checkpoints.variables_by_name(model).items():
        np.testing.assert_array_equal(variable, want[key], key)
    assert f"Initialized from {path}" in _words(caplog.text)


def _check_head_is_new(path, encoder):
    """Loads a classifier; compares its encoder with that of a checkpoint."""
    model = _classifier()
    before = np.asarray(model.output_weights).copy()
    _load(model, path, new=_HEAD)
    assert _encoder_is_that_of(model, encoder)
    np.testing.assert_array_equal(model.output_weights, before)


def test_another_task_s_head_is_new_and_named(caplog):
    _check_head_is_new(_CHECKPOINT, _CHECKPOINT)
    assert "2 new, as initialized: output_bias, output_weights" in _words(
        caplog.text
    )


def test_labels_beside_decide_whether_a_head_is_kept(tmp_path, caplog):
    tagger = heads.BertForTokenClassification(_CONFIG, num_labels=2)
    prefix = _saved(tmp_path, tagger)
    there = {"task": "tagging", "labels": ["O", "B-X"]}
    toy_files.write_json(tmp_path / "task.json", there)
    for changes, is_kept in (
        ({}, True),
        ({"labels": ["O", "B-Y"]}, False),
        ({"task": "classification"}, False),
    ):
        caplog.clear()
        model = heads.BertForTokenClassification(_CONFIG, num_labels=2)
        _load(model, prefix, new=_HEAD, target=there | changes)
        assert _encoder_is_that_of(model, prefix)
        is_same = np.array_equal(model.output_weights, tagger.output_weights)
        assert is_same == is_kept
        warned = [r for r in caplog.records if r.levelname == "WARNING"]
        assert len(warned) == (not is_kept)
        assert "--label_names" not in caplog.text


_POLARITY = {
    "task": "classification",
    "name": "custom",
    "problem_type": "single_label",
    "labels": ["neg", "neu", "pos"],
}


@pytest.mark.parametrize(
    ("changes", "offered"),
    [
        ({"labels": ["neg", "pos"]}, "--label_names=neg,neu,pos"),
        ({"labels": ["neg"]}, "--label_names=neg,neu,pos"),
        ({"labels": ["pos", "neu", "neg"]}, "--label_names=neg,neu,pos"),
        # Its output layer cannot answer these.
        ({"labels": ["neg", "mixed", "pos"]}, None),
        ({"problem_type": "multi_label"}, None),
        ({"name": "SST-2"}, None),
    ],
)
def test_a_trained_output_layer_that_is_lost_is_warned_of(
    tmp_path, caplog, changes, offered
):
    prefix = _saved(tmp_path, _classifier(3))
    toy_files.write_json(tmp_path / "task.json", _POLARITY)
    target = _POLARITY | changes
    model = _classifier(len(target["labels"]))
    _load(model, prefix, new=_HEAD, target=target)
    (record,) = [r for r in caplog.records if r.levelname == "WARNING"]
    message = record.getMessage()
    assert f"The trained output layer of {prefix} is not used" in message
    assert "has the labels 'neg', 'neu', 'pos', this run " in message
    assert message.endswith(f"pass {offered}.") == (offered is not None)


def test_a_lost_output_layer_without_names_is_warned_of_too(tmp_path, caplog):
    prefix = _saved(tmp_path, _classifier(3))
    _load(_classifier(2), prefix, new=_HEAD, target=_POLARITY)
    assert "a new output layer is trained" in caplog.text


def test_pretrained_weights_lose_no_output_layer_of_a_task(tmp_path, caplog):
    prefix = _saved(tmp_path, heads.BertForPreTraining(_CONFIG))
    (tmp_path / "task.json").write_text('{"task": "pretraining"}')
    _load(_classifier(3), prefix, new=_HEAD, target=_POLARITY)
    assert "The output layer is new: output_weights" in caplog.text
    assert not [r for r in caplog.records if r.levelname == "WARNING"]


@functools.cache
def _model(task):
    return heads_of_tasks.HEADS[task].make(_CONFIG)


@pytest.mark.parametrize("form", ["release", "huggingface"])
@pytest.mark.parametrize("held", heads_of_tasks.HEADS)
def test_no_head_is_evaluated_as_another(tmp_path, held, form):
    path = _saved(tmp_path, _model(held))
    if form == "huggingface":
        task = "tagging" if held == "tagging" else None
        path = _convert(path, tmp_path / "hf", form, task=task)
    for wanted in heads_of_tasks.HEADS:
        if wanted == held:
            _load(_model(wanted), path)
            continue
        # Of other numbers of labels; `task.json` distinguishes equal ones.
        error = "num_labels is" if {wanted, held} == _TWINS else "contain all"
        with pytest.raises(ValueError, match=error):
            _load(_model(wanted), path)


def _without_pooler(folder, architecture):
    held = checkpoints.read(_CHECKPOINT)
    prefix = str(folder / "x.ckpt")
    checkpoints.save(
        prefix, {n: v for n, v in held.items() if "pooler" not in n}
    )
    path = _convert(prefix, folder / "hf", "huggingface")
    config = folder / "hf/config.json"
    toy_files.change_json(config, architectures=[architecture])
    return path


def test_a_model_that_makes_no_pooler_can_be_started_from(tmp_path, caplog):
    path = _without_pooler(tmp_path, "BertForMaskedLM")
    _load(_classifier(), path, new=_HEAD)
    assert "bert/pooler/dense/kernel" in caplog.text
    # Nothing new was asked for: an evaluation needs all of the model.
    with pytest.raises(ValueError, match=r"missing: .*bert/pooler"):
        _load(_classifier(), path)
    path = _without_pooler(tmp_path / "other", "BertForPreTraining")
    with pytest.raises(ValueError, match=r"2 missing: bert/pooler"):
        _load(_classifier(), path, new=_HEAD)


@pytest.mark.parametrize(
    ("task", "is_accepted"),
    [("tagging", True), ("question_answering", True), ("pretraining", False)],
)
def test_a_model_of_a_task_without_a_pooler_can_be_started_from(
    tmp_path, task, is_accepted
):
    weights = checkpoints.read(_CHECKPOINT)
    prefix = str(tmp_path / "x.ckpt")
    checkpoints.save(
        prefix, {n: v for n, v in weights.items() if "pooler" not in n}
    )
    toy_files.write_json(tmp_path / "task.json", {"task": task})
    if is_accepted:
        _load(_classifier(), prefix, new=_HEAD)
        return
    with pytest.raises(ValueError, match=r"2 missing: bert/pooler"):
        _load(_classifier(), prefix, new=_HEAD)


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
        _load(model, path)
        name = "cls/predictions/output_bias"
        loaded = checkpoints.variables_by_name(model)[name]
        np.testing.assert_array_equal(loaded, held[name])
    pairs = heads.BertForPreTraining(_CONFIG)
    with pytest.raises(ValueError, match=r"4 missing: bert/pooler"):
        _load(pairs, path)


def test_answers_need_no_pooler(tmp_path):
    path = _without_pooler(tmp_path, "BertForQuestionAnswering")
    model = heads.BertForQuestionAnswering(_CONFIG)
    _load(model, path)
    weights = checkpoints.read(_CHECKPOINT, ["cls/squad/output_weights"])
    np.testing.assert_array_equal(
        model.span.output_weights, weights["cls/squad/output_weights"]
    )


def test_a_pattern_matches_complete_names():
    patterns = ("bert/pooler/.*", "output_bias")
    assert warm_start.matches("bert/pooler/dense/bias", patterns)
    assert warm_start.matches("output_bias", patterns)
    assert not warm_start.matches("output_bias/adam_m", patterns)
    assert not warm_start.matches("cls/squad/output_bias", patterns)
