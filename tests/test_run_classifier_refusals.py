"""Error messages and flags of run_classifier.py."""

import shutil

import pytest

from tests import toy_sentences as toy


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_train_epochs": 0.01}, "make less than one step"),
        ({"label_names": "a,b"}, r"line 2, column 1 .'label'.: unknown label"),
    ],
)
def test_data_that_do_not_fit_are_refused(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        toy.run(tmp_path, do_train=True, **changes)


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
