import keras
import numpy as np
import pytest

from modeling import checkpoints, heads, tagging
from modeling import config as config_lib
from tests import toy_pretraining as toy
from training import checkpointing, flags, initialization, objectives


@pytest.fixture
def objective(tmp_path):
    keras.config.set_dtype_policy("float32")
    config = config_lib.BertConfig.from_json_file(
        toy.write_config(tmp_path / "config.json")
    )
    return objectives.Pretraining(heads.BertForPreTraining(config), "mlm_nsp")


def _start(
    objective, folder, init_checkpoint=None, *, scale_loss=False, **changes
):
    keras.config.set_dtype_policy("mixed_float16" if scale_loss else "float32")
    try:
        return initialization.initialize(
            objective,
            flags.TrainingOptions(
                output_dir=str(folder),
                bert_config_file="",
                init_checkpoint=init_checkpoint,
            ),
            initialization.Plan(
                **{
                    "num_train_steps": 9,
                    "identity": {"objective": "mlm_nsp", "random_seed": 1},
                    **changes,
                }
            ),
        )
    finally:
        keras.config.set_dtype_policy("float32")


def _save(objective, state, folder, step=4, **saved):
    for number, slot in enumerate(state.optimizer.slots().values()):
        slot.assign(np.full(slot.shape, number, np.float32))
    variables = {
        **checkpointing.weights(objective.model),
        **state.optimizer.slots(),
    }
    beside = {
        "identity": {"objective": "mlm_nsp", "random_seed": 1},
        "loss_scale": state.loss_scale.state(),
        **saved,
    }
    return checkpointing.save(str(folder), step, variables, beside, 0)


def _values(objective):
    held = checkpointing.weights(objective.model)
    return {name: value.numpy().copy() for name, value in held.items()}


def test_a_fresh_run_starts_at_step_0_with_empty_moments(objective, tmp_path):
    before = _values(objective)
    state, step = _start(objective, tmp_path)
    assert step == 0
    after = _values(objective)
    assert all((after[name] == value).all() for name, value in before.items())
    assert all(not s.numpy().any() for s in state.optimizer.slots().values())


def test_fine_tuning_of_random_weights_is_warned_of(
    objective, tmp_path, caplog
):
    _start(objective, tmp_path / "pretraining")
    # The encoder of this tagger is trained already.
    tagger = tagging.LstmTagger(
        num_layers=1, hidden_size=3, is_sum=False, num_labels=2, num_units=2
    )
    _start(objectives.Tagging(tagger, ()), tmp_path / "features")
    assert not [r for r in caplog.records if r.levelname == "WARNING"]
    config = objective.model.config
    model = heads.BertForSequenceClassification(config, num_labels=2)
    _start(objectives.Classification(model, "single_label"), tmp_path / "task")
    assert "No --init_checkpoint is given" in caplog.text


def test_a_checkpoint_in_the_folder_goes_before_another(
    objective, tmp_path, caplog
):
    state, _ = _start(objective, tmp_path)
    prefix = _save(objective, state, tmp_path)
    saved = checkpoints.read(prefix)
    for variable in objective.model.weights:
        variable.assign(np.full(variable.shape, 7.0))
    with caplog.at_level("INFO"):
        state, step = _start(objective, tmp_path, init_checkpoint="elsewhere")
    assert step == 4
    held = {**_values(objective), **state.optimizer.slots()}
    for name, value in held.items():
        np.testing.assert_array_equal(value, saved[name], err_msg=name)
    assert f"Resumed from {prefix} at step 4" in caplog.text
    assert "--init_checkpoint=elsewhere is ignored" in caplog.text


def test_another_checkpoint_gives_weights_only(objective, tmp_path):
    state, _ = _start(objective, tmp_path)
    prefix = _save(objective, state, tmp_path / "other")
    saved = checkpoints.read(prefix)
    for variable in objective.model.weights:
        variable.assign(np.full(variable.shape, 7.0))
    state, step = _start(objective, tmp_path / "new", init_checkpoint=prefix)
    assert step == 0
    for name, value in _values(objective).items():
        np.testing.assert_array_equal(value, saved[name], err_msg=name)
    assert all(not s.numpy().any() for s in state.optimizer.slots().values())


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
    state, _ = _start(objective, tmp_path, scale_loss=True)
    state.loss_scale.restore({"loss_scale": 64.0, "finite_steps": 3})
    _save(objective, state, tmp_path)
    state, _ = _start(objective, tmp_path, scale_loss=True)
    assert state.loss_scale.state() == {"loss_scale": 64.0, "finite_steps": 3}


def test_other_settings_are_warned_of_and_another_objective_refused(
    objective, tmp_path, caplog
):
    state, _ = _start(objective, tmp_path)
    _save(objective, state, tmp_path)
    _start(
        objective,
        tmp_path,
        identity={"objective": "mlm_nsp", "random_seed": 2},
    )
    assert "random_seed was 1 and is 2" in caplog.text
    with pytest.raises(
        ValueError, match="another run: objective was 'mlm_nsp' and is 'mlm'"
    ):
        _start(
            objective,
            tmp_path,
            identity={"objective": "mlm", "random_seed": 1},
        )


@pytest.mark.parametrize("scale_loss", [True, False])
def test_the_loss_scale_of_another_precision_is_not_taken_up(
    objective, tmp_path, scale_loss
):
    state, _ = _start(objective, tmp_path, scale_loss=not scale_loss)
    expected = _start(objective, tmp_path / "fresh", scale_loss=scale_loss)[0]
    _save(objective, state, tmp_path)
    state, _ = _start(objective, tmp_path, scale_loss=scale_loss)
    assert state.loss_scale.state() == expected.loss_scale.state()
