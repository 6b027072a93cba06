"""Starting runs, from checkpoints of every format and of other tasks."""

import functools
import json
import pathlib
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import checkpoints, compilation, heads
from modeling import config as config_lib
from tests import programs
from tests import toy_pretraining as toy
from tools import convert_checkpoint
from training import (
    checkpointing,
    flags,
    initialization,
    model_folder,
    objectives,
)

_STRATEGY = tf.distribute.OneDeviceStrategy("/CPU:0")


@pytest.fixture(autouse=True)
def _scope():
    """Creates the variables of models as a program does."""
    with _STRATEGY.scope():
        yield


@pytest.fixture
def objective(tmp_path):
    keras.config.set_dtype_policy("float32")
    config = config_lib.BertConfig.from_json_file(
        toy.write_config(tmp_path / "bert_config.json")
    )
    return objectives.Pretraining(heads.BertForPreTraining(config), "mlm_nsp")


def _start(
    objective, folder, init_checkpoint=None, *, scale_loss=False, **changes
):
    keras.config.set_dtype_policy("mixed_float16" if scale_loss else "float32")
    try:
        options = _training_options(folder, init_checkpoint)
        trainer = initialization.make_trainer(
            _STRATEGY, objective, options, compilation.ExecutionMode.FUSED
        )
        plan = _plan(**{"data": {"num_records": 7}, **changes})
        return trainer, initialization.initialize(trainer, options, plan)
    finally:
        keras.config.set_dtype_policy("float32")


def _plan(**changes):
    values = {
        "num_train_steps": 9,
        "data": {},
        "evaluate": dict,
        "best_metric": "loss",
        **changes,
    }
    return initialization.Plan(**values)


def _training_options(folder, path):
    return flags.TrainingOptions(
        output_dir=str(folder), bert_config_file="", init_checkpoint=path
    )


def _save(objective, trainer, folder, step=4, **saved):
    for number, slot in enumerate(trainer.optimizer.slots().values()):
        slot.assign(np.full(slot.shape, number, np.float32))
    variables = {
        **checkpointing.weights(objective.model),
        **trainer.optimizer.slots(),
    }
    beside = {
        "flags": {"learning_rate": 5e-5},
        "data": {"num_records": 7},
        "loss_scale": trainer.loss_scale.state(),
        **saved,
    }
    return checkpointing.save(str(folder), step, variables, beside, 0)


def _values(objective):
    held = checkpointing.weights(objective.model)
    return {name: value.numpy().copy() for name, value in held.items()}


def test_a_fresh_run_starts_at_step_0_with_empty_moments(objective, tmp_path):
    before = _values(objective)
    trainer, step = _start(objective, tmp_path)
    assert step == 0
    after = _values(objective)
    assert all((after[name] == value).all() for name, value in before.items())
    assert all(not s.numpy().any() for s in trainer.optimizer.slots().values())


def test_fine_tuning_of_random_weights_is_warned_of(
    objective, tmp_path, caplog
):
    _start(objective, tmp_path / "pretraining")
    assert not [r for r in caplog.records if r.levelname == "WARNING"]
    config = objective.model.config
    model = heads.BertForSequenceClassification(config, num_labels=2)
    _start(objectives.Classification(model, "single_label"), tmp_path / "task")
    assert "No --init_checkpoint is given" in caplog.text


def test_a_checkpoint_in_the_folder_goes_before_another(
    objective, tmp_path, caplog
):
    trainer, _ = _start(objective, tmp_path)
    prefix = _save(objective, trainer, tmp_path)
    saved = checkpoints.read(prefix)
    for variable in objective.model.weights:
        variable.assign(np.full(variable.shape, 7.0))
    with caplog.at_level("INFO"):
        trainer, step = _start(objective, tmp_path, init_checkpoint="elsewhere")
    assert step == 4
    held = {**_values(objective), **trainer.optimizer.slots()}
    for name, value in held.items():
        np.testing.assert_array_equal(value, saved[name], err_msg=name)
    assert f"Resumed from {prefix} at step 4." in caplog.text
    assert "--init_checkpoint is not read" in caplog.text


def test_another_checkpoint_gives_weights_only(objective, tmp_path):
    trainer, _ = _start(objective, tmp_path)
    prefix = _save(objective, trainer, tmp_path / "other")
    saved = checkpoints.read(prefix)
    for variable in objective.model.weights:
        variable.assign(np.full(variable.shape, 7.0))
    trainer, step = _start(objective, tmp_path / "new", init_checkpoint=prefix)
    assert step == 0
    for name, value in _values(objective).items():
        np.testing.assert_array_equal(value, saved[name], err_msg=name)
    assert all(not s.numpy().any() for s in trainer.optimizer.slots().values())


def test_variables_may_be_missing_only_where_named_as_new(objective, tmp_path):
    prefix = str(tmp_path / "partial")
    held = _values(objective)
    checkpoints.save(
        prefix, {n: v for n, v in held.items() if not n.startswith("cls/")}
    )
    with pytest.raises(ValueError, match=r"missing: .*cls/predictions"):
        _start(objective, tmp_path / "new", init_checkpoint=prefix)
    _start(
        objective,
        tmp_path / "new",
        init_checkpoint=prefix,
        new_variables=["cls/.*"],
    )


def test_the_loss_scale_is_taken_up(objective, tmp_path):
    trainer, _ = _start(objective, tmp_path, scale_loss=True)
    trainer.loss_scale.restore({"loss_scale": 64.0, "finite_steps": 3})
    _save(objective, trainer, tmp_path)
    trainer, _ = _start(objective, tmp_path, scale_loss=True)
    assert trainer.loss_scale.state() == {"loss_scale": 64.0, "finite_steps": 3}


def test_other_flags_and_data_are_one_warning(objective, tmp_path, caplog):
    trainer, _ = _start(objective, tmp_path)
    _save(objective, trainer, tmp_path)
    _start(objective, tmp_path)
    assert "other settings" not in caplog.text
    path = tmp_path / "model.ckpt-4.state.json"
    saved = json.loads(path.read_text())
    saved["flags"] |= {"learning_rate": 1e-3, "log_every_steps": 3}
    path.write_text(json.dumps(saved))
    _start(objective, tmp_path, data={"num_records": 8})
    (record,) = [r for r in caplog.records if r.levelname == "WARNING"]
    assert (
        "with other settings: learning_rate was 0.001 and is 5e-05, "
        "num_records was 7 and is 8. The result will not be"
    ) in record.getMessage()


@pytest.mark.parametrize("scale_loss", [True, False])
def test_the_loss_scale_of_another_precision_is_not_taken_up(
    objective, tmp_path, scale_loss
):
    trainer, _ = _start(objective, tmp_path, scale_loss=not scale_loss)
    expected = _start(objective, tmp_path / "fresh", scale_loss=scale_loss)[0]
    _save(objective, trainer, tmp_path)
    trainer, _ = _start(objective, tmp_path, scale_loss=scale_loss)
    assert trainer.loss_scale.state() == expected.loss_scale.state()


_GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
_CONFIG_FILE = str(_GOLDEN / "inputs/bert_config.json")
_CONFIG = config_lib.BertConfig.from_json_file(_CONFIG_FILE)
_CHECKPOINT = str(_GOLDEN / "model/tiny.ckpt")
_HEAD = ("output_weights", "output_bias")


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


def _words(text):
    """Joins the lines of a message."""
    return " ".join(text.split())


def test_training_starts_from_any_form(tmp_path, caplog):
    path = _convert(_CHECKPOINT, tmp_path / "hf", "huggingface")
    model = heads.BertForPreTraining(_CONFIG)
    objective = objectives.Pretraining(model, "mlm_nsp")
    _, step = _start(objective, tmp_path / "run", path)
    assert step == 0
    want = checkpoints.read(_CHECKPOINT)
    for key, variable in checkpoints.variables_by_name(model).items():
        np.testing.assert_array_equal(variable, want[key], key)
    assert f"Initialized from {path}" in _words(caplog.text)


def _check_head_is_new(path, encoder):
    """Loads a classifier; compares its encoder with that of a checkpoint."""
    model = _classifier()
    before = np.asarray(model.output_weights).copy()
    initialization.load_weights(model, path, new=_HEAD)
    assert _encoder_is_that_of(model, encoder)
    np.testing.assert_array_equal(model.output_weights, before)


def test_another_task_s_head_is_new_and_named(caplog):
    _check_head_is_new(_CHECKPOINT, _CHECKPOINT)
    assert "2 new, as initialized: output_bias, output_weights" in _words(
        caplog.text
    )


def test_labels_beside_decide_whether_a_head_is_kept(tmp_path):
    tagger = heads.BertForTokenClassification(_CONFIG, num_labels=2)
    prefix = _saved(tmp_path / "before", tagger)
    run = tmp_path / "run"
    run.mkdir()
    there = {"task": "tagging", "labels": ["O", "B-X"]}
    (tmp_path / "before/task.json").write_text(json.dumps(there))
    for changes, is_kept in (
        ({}, True),
        ({"labels": ["O", "B-Y"]}, False),
        ({"task": "classification"}, False),
    ):
        (run / "task.json").write_text(json.dumps(there | changes))
        model = heads.BertForTokenClassification(_CONFIG, num_labels=2)
        objective = objectives.Tagging(model)
        _start(objective, run, prefix, new_variables=_HEAD)
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
# They have the same variables; `task.json` distinguishes them.
_TWINS = {"BertForSequenceClassification", "BertForTokenClassification"}


@functools.cache
def _model(name):
    return _HEADS[name](_CONFIG)


@pytest.mark.parametrize("form", ["release", "huggingface"])
@pytest.mark.parametrize("held", _HEADS)
def test_no_head_is_evaluated_as_another(tmp_path, held, form):
    path = _saved(tmp_path, _model(held))
    if form == "huggingface":
        is_tagger = held == "BertForTokenClassification"
        task = "tagging" if is_tagger else None
        path = _convert(path, tmp_path / "hf", form, task=task)
    for wanted in _HEADS:
        model = _model(wanted)
        if wanted == held:
            initialization.load_weights(model, path)
        if {wanted, held} <= _TWINS or wanted == held:
            continue
        with pytest.raises(ValueError, match=r"must contain all"):
            initialization.load_weights(model, path)


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
    initialization.load_weights(_classifier(), path, new=_HEAD)
    assert "bert/pooler/dense/kernel" in caplog.text
    # Nothing new was asked for: an evaluation needs all of the model.
    with pytest.raises(ValueError, match=r"missing: .*bert/pooler"):
        initialization.load_weights(_classifier(), path)
    path = _without_pooler(tmp_path / "other", "BertForPreTraining")
    with pytest.raises(ValueError, match=r"2 missing: bert/pooler"):
        initialization.load_weights(_classifier(), path, new=_HEAD)


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
        initialization.load_weights(model, path)
        name = "cls/predictions/output_bias"
        loaded = checkpoints.variables_by_name(model)[name]
        np.testing.assert_array_equal(loaded, held[name])
    pairs = heads.BertForPreTraining(_CONFIG)
    with pytest.raises(ValueError, match=r"4 missing: bert/pooler"):
        initialization.load_weights(pairs, path)


def test_answers_need_no_pooler(tmp_path):
    path = _without_pooler(tmp_path, "BertForQuestionAnswering")
    model = heads.BertForQuestionAnswering(_CONFIG)
    initialization.load_weights(model, path)
    weights = checkpoints.read(_CHECKPOINT, ["cls/squad/output_weights"])
    np.testing.assert_array_equal(
        model.span.output_weights, weights["cls/squad/output_weights"]
    )


def test_a_pretrained_model_is_not_read_with_another_vocabulary(tmp_path):
    checkpoint = tmp_path / "bert_model.ckpt"
    checkpoints.save(str(checkpoint), {"w": np.zeros(1, np.float32)})
    (tmp_path / "vocab.txt").write_text("a\nb\n")
    (tmp_path / "other.txt").write_text("b\na\n")
    options = types.SimpleNamespace(
        init_checkpoint=str(checkpoint),
        vocab_file=str(tmp_path / "other.txt"),
        do_lower_case=True,
        strips_accents=True,
    )
    with pytest.raises(ValueError, match=r"must be that of the model: .*other"):
        initialization.load_pretrained(None, options)


def test_another_casing_than_that_of_a_folder_is_refused(tmp_path):
    folder = _convert(
        _CHECKPOINT,
        tmp_path / "hf",
        "huggingface",
        vocab_file=str(_GOLDEN / "inputs/vocab.txt"),
    )
    with pytest.raises(ValueError, match="do_lower_case is True there and Fal"):
        model_folder.check_start(folder, {"do_lower_case": False})
