"""Options of a run; tests/test_refusals_at_once.py has the refusals."""

import pytest

import run_pretraining
from tests import programs, toy_sentences
from training import option_checks


def _pretraining(folder, **named):
    """Returns the options of a run on files of these names."""
    model = toy_sentences.write_model(folder / "model")
    for name in ("a.tfrecord", "b.tfrecord"):
        (folder / name).touch()
    given = {
        "bert_config_file": model / "bert_config.json",
        "output_dir": folder / "out",
        "max_seq_length": 32,
        "do_train": True,
        **named,
    }
    return programs.parse(run_pretraining.Options, **given)


@pytest.mark.parametrize("name", ["a.tfrecord", "b.tfrecord"])
def test_held_out_records_that_are_trained_on_are_warned_of(
    name, tmp_path, caplog
):
    options = _pretraining(
        tmp_path,
        input_file=tmp_path / "a*",
        eval_input_file=f"{tmp_path}/./{name}",
    )
    option_checks.check_pretraining(options)
    is_warned = "The evaluation uses records of the training data" in (
        caplog.text
    )
    assert is_warned == (name == "a.tfrecord")


def test_a_checkpoint_anywhere_in_the_folder_can_be_evaluated(tmp_path):
    options = _pretraining(
        tmp_path,
        input_file=tmp_path / "a.tfrecord",
        do_train=False,
        do_eval=True,
    )
    with pytest.raises(ValueError, match="There is nothing to evaluate"):
        option_checks.check_pretraining(options)
    (tmp_path / "out/trial-1").mkdir(parents=True)
    (tmp_path / "out/trial-1/model.ckpt-3.index").touch()
    option_checks.check_pretraining(options)
