"""Error messages and flags of run_classifier.py."""

import pathlib
import re
import shutil

import pytest

from tests import toy_sentences as toy

_ROOT = pathlib.Path(__file__).parents[1]


_REFUSALS = {
    "needs --eval_every_epoch or": {
        "do_train": True,
        "early_stopping_patience": 1,
    },
    "pass --do_eval too": {"do_train": True, "num_trials": 2},
    "pass --do_eval too.": {"do_train": True, "num_folds": 2},
    "one of --dev_fraction and --num_folds": {
        "do_train": True,
        "do_eval": True,
        "dev_fraction": 0.1,
        "num_folds": 2,
    },
    "--class_weights must be balanced, or a positive number for each": {
        "do_train": True,
        "class_weights": "1,2,3",
    },
    "--class_weights is for labels; got regression": {
        "do_train": True,
        "class_weights": "balanced",
        "problem_type": "regression",
    },
    "--tune_thresholds is for --problem_type=multi_label; got": {
        "do_eval": True,
        "label_names": "no,yes",
        "tune_thresholds": True,
    },
    "--tune_thresholds tunes on evaluated data: pass --do_eval too.": {
        "do_train": True,
        "tune_thresholds": True,
    },
    "make less than one step": {
        "do_train": True,
        "num_train_epochs": 0.01,
    },
    "at most 1, the number of layers": {"do_train": True, "freeze_layers": 2},
    "--write_submission is for": {
        "do_predict": True,
        "label_names": "no,yes",
        "write_submission": "x.zip",
    },
    "one of --eval_every_epoch and": {
        "do_train": True,
        "eval_every_epoch": True,
        "eval_every_steps": 1,
    },
    "line 2, column 1 ('label'): unknown label": {
        "do_train": True,
        "label_names": "a,b",
    },
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("refused")


@pytest.mark.parametrize("message", _REFUSALS)
def test_refuses(folder, tmp_path, message):
    named = {"output_dir": tmp_path, **_REFUSALS[message]}
    with pytest.raises(ValueError, match=re.escape(message)):
        toy.run(folder, **named)


def test_refuses_a_vocabulary_larger_than_the_model_s(tmp_path):
    toy.write_model(tmp_path / "model", vocab_size=9)
    with pytest.raises(ValueError, match="has 22 entries, but the model's"):
        toy.run(tmp_path, do_train=True)


def test_refuses_a_checkpoint_without_an_output_layer(tmp_path):
    named = toy.golden_flags(
        tmp_path / "x", init_checkpoint=toy.GOLDEN / "model/tiny.ckpt"
    )
    shutil.rmtree(tmp_path / "x")
    with pytest.raises(ValueError, match="output_weights, output_bias"):
        toy.run(tmp_path, **{**named, "do_eval": True})


def test_stable_sets_what_is_not_given():
    needed = dict.fromkeys(
        ("task_name", "data_dir", "vocab_file", "bert_config_file"), "x"
    )
    options = toy.parse(
        {**needed, "output_dir": "x", "stable": True, "num_train_epochs": 5}
    )
    assert [setting["learning_rate"] for setting in options.grid] == [2e-5]
    assert options.adam_bias_correction
    assert options.num_train_epochs == 5
    plain = toy.parse({**needed, "output_dir": "x"})
    assert [setting["learning_rate"] for setting in plain.grid] == [5e-5]
    assert plain.num_train_epochs == 3
    assert not plain.adam_bias_correction
