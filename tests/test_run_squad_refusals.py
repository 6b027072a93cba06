"""Error messages of run_squad.py before the first step."""

import pytest
from absl import flags

import run_squad
from tests import programs, toy_squad


def _refusal(folder, **changes) -> str:
    with pytest.raises((ValueError, OSError, flags.Error)) as caught:
        toy_squad.run(folder, **changes)
    assert not list((folder / "out").glob("model.ckpt-*"))
    return str(caught.value)


def test_a_run_of_less_than_a_step(tmp_path):
    message = _refusal(tmp_path, do_train=True, num_train_epochs=0.05)
    assert "40 examples in batches of 4 for 0.05 epochs make less" in message


@pytest.mark.parametrize("use", ["train", "predict", "eval"])
@pytest.mark.parametrize("version_2", [True, False])
def test_files_of_the_other_version(use, version_2, tmp_path):
    toy_squad.flags_of(tmp_path)
    given = toy_squad.dataset(3, unanswerable_every=0 if version_2 else 2)
    path = toy_squad.write_json(tmp_path / "other.json", given)
    name = "train_file" if use == "train" else "predict_file"
    message = _refusal(
        tmp_path,
        version_2_with_negative=version_2,
        **{f"do_{use}": True, name: path},
    )
    assert path in message
    if version_2:
        assert "this is a file of SQuAD 1.1. Leave the flag out" in message
    else:
        assert "needs --version_2_with_negative" in message


def test_missing_predictions_score_0_and_are_named(tmp_path, caplog):
    toy_squad.flags_of(tmp_path)
    given = {"d0": "nowhere", "stranger": "oslo"}
    path = toy_squad.write_json(tmp_path / "given.json", given)
    out = toy_squad.run(tmp_path, do_eval=True, predictions_file=path)
    assert toy_squad.results(out) == {"exact_match": 0, "f1": 0}
    assert (
        "8 questions have no prediction and score 0: 'd1', 'd2'" in caplog.text
    )
    assert "1 predictions have ids that are not in the file" in caplog.text


def test_systems_that_answered_other_questions(tmp_path):
    toy_squad.flags_of(tmp_path)
    entry = {"text": "oslo", "probability": 1.0}
    entry |= {"start_logit": 0.5, "end_logit": 0.5}
    path = toy_squad.write_json(tmp_path / "nbest.json", {"other": [entry]})
    message = _refusal(tmp_path, do_predict=True, ensemble=path)
    assert "system 1 lacks 9 and has 1 others, among them 'd0'" in message
    both = f"{path},{tmp_path / 'vocab.txt'}.npz"
    (tmp_path / "vocab.txt.npz").write_text("")
    message = _refusal(tmp_path, do_predict=True, ensemble=both)
    assert "must be combined by files of one kind" in message


@pytest.mark.slow
def test_a_folder_whose_model_reads_text_otherwise(tmp_path):
    toy_squad.run(tmp_path, do_train=True, num_train_epochs=0.1)
    with pytest.raises(ValueError, match="do_lower_case was True and is False"):
        toy_squad.run(tmp_path, do_predict=True, do_lower_case=False)


def test_names_and_defaults_are_the_release_s():
    values = programs.defined(run_squad.Options)
    released = {
        "bert_config_file": None,
        "vocab_file": None,
        "output_dir": None,
        "train_file": None,
        "predict_file": None,
        "init_checkpoint": None,
        "do_lower_case": True,
        "max_seq_length": 384,
        "doc_stride": 128,
        "max_query_length": 64,
        "do_train": False,
        "do_predict": False,
        "train_batch_size": 32,
        "predict_batch_size": 8,
        "learning_rate": 5e-5,
        "num_train_epochs": 3.0,
        "warmup_proportion": 0.1,
        "save_checkpoints_steps": 1000,
        "iterations_per_loop": 1000,
        "n_best_size": 20,
        "max_answer_length": 30,
        **programs.TPU_DEFAULTS,
        "verbose_logging": False,
        "version_2_with_negative": False,
        "null_score_diff_threshold": 0.0,
    }
    assert {name: values[name].default for name in released} == released
