"""What the flags of training do to the files of a run."""

import json

import numpy as np
import pytest

from tests.support import toy_config, toy_files
from tests.support import toy_pretraining as toy

pytestmark = pytest.mark.integration

_SHORT = {
    "num_train_steps": 3,
    "num_warmup_steps": 2,
    "save_checkpoints_steps": 100,
}
# Another value than the default's of each flag that decides the weights.
_DECISIVE = {
    "learning_rate": 0.02,
    "lr_schedule": "continuous",
    "num_warmup_steps": 0,
    "optimizer": "lamb",
    "weight_decay": 0.5,
    "adam_beta_1": 0.5,
    "adam_beta_2": 0.5,
    "adam_epsilon": 0.1,
    "adam_bias_correction": True,
    "max_grad_norm": 0.01,
    "train_batch_size": 5,
    "random_seed": 7,
    "precision": "mixed_bfloat16",
    "objective": "ltr",
}


def _weights(folder, **changes):
    toy.write_config(folder / "bert_config.json", **toy_config.NO_DROPOUT)
    toy.run(folder, **{**_SHORT, **changes})
    return toy.weights(folder, 3)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Returns the weights of a run by the defaults."""
    return _weights(tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize("flag", _DECISIVE)
def test_a_flag_that_decides_the_weights_is_followed(tmp_path, plain, flag):
    found = _weights(tmp_path, **{flag: _DECISIVE[flag]})
    name = "bert/encoder/layer_0/attention/self/query/kernel"
    assert not np.array_equal(found[name], plain[name])


def test_the_same_flags_have_the_same_weights(tmp_path, plain):
    np.testing.assert_equal(_weights(tmp_path), plain)


def test_the_files_of_a_run_show_its_flags(tmp_path):
    """Each line is a fault that a user would meet."""
    toy.run(
        tmp_path,
        do_eval=True,
        num_train_steps=7,
        num_warmup_steps=2,
        lr_schedule="continuous",
        learning_rate=0.01,
        log_every_steps=2,
        eval_every_steps=4,
        max_eval_steps=2,
        eval_batch_size=3,
        save_checkpoints_steps=2,
        keep_checkpoint_max=1,
        keep_checkpoint_every_n_steps=4,
        profile_steps="2,3",
        random_seed=9,
    )
    out = tmp_path / "out"
    lines = toy.metrics(tmp_path)
    trained = {x["step"]: x for x in lines if "loss" in x}
    assert [*trained] == [2, 4, 6, 7]
    assert [x["step"] for x in lines if "eval_loss" in x] == [4, 7]
    # To the peak in two steps, then to 0 at the end of seven.
    rates = {step: line["learning_rate"] for step, line in trained.items()}
    assert rates[6] == pytest.approx(0.01 * 2 / 5, rel=1e-5)
    assert rates[7] == pytest.approx(0.01 * 1 / 5, rel=1e-5)
    # Those of every fourth step, and the last.
    assert sorted(path.stem for path in out.glob("model.ckpt-*.index")) == [
        "model.ckpt-0",
        "model.ckpt-4",
        "model.ckpt-7",
    ]
    state = toy_files.read_json(out / "model.ckpt-7.state.json")
    assert state["flags"]["random_seed"] == 9
    assert state["data"]["num_replicas"] == 1
    assert list((out / "plugins/profile").iterdir())
    started = json.loads((out / "run.jsonl").read_text().splitlines()[0])
    assert started["flags"]["profile_steps"] == [2, 3]
    assert toy_files.read_json(out / "task.json")["task"] == "pretraining"
    # Two batches of three.
    accuracy = lines[-1]["eval_next_sentence_accuracy"] * 6
    assert accuracy == pytest.approx(round(accuracy), abs=1e-4)


def test_the_scale_of_losses_goes_on_in_a_resumed_run(tmp_path):
    flags = {**_SHORT, "precision": "mixed_float16"}
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    toy.run(whole, **flags)
    toy.run(parts, **flags, stop_at_step=2)
    toy.resume(2, parts, **flags)
    scales = [
        toy_files.read_json(each / "out/model.ckpt-3.state.json")["loss_scale"]
        for each in (whole, parts)
    ]
    assert scales[0] == scales[1]
    assert scales[0]["finite_steps"] == 3
