"""What a model finds in its folder, and what is put there."""

import json
import types

import pytest
import tensorflow as tf

from modeling import config
from training import experiment, preparation, workers

_LABELS = {"problem_type": "single_label", "labels": ["no", "yes"]}


def _setup(tmp_path, **options):
    (tmp_path / "words.txt").write_text("[UNK]\nword\n")
    return preparation.Setup(
        options=types.SimpleNamespace(
            output_dir=str(tmp_path / "out"),
            vocab_file=str(tmp_path / "words.txt"),
            random_seed=3,
            deterministic=False,
            **{"init_checkpoint": None, **options},
        ),
        config=config.BertConfig(vocab_size=2),
        text={"vocab_sha256": "aa", "do_lower_case": True},
        vocab_size=2,
        strategy=tf.distribute.get_strategy(),
    )


def _make(setup, folder, labels=_LABELS):
    options = types.SimpleNamespace(
        **{**vars(setup.options), "output_dir": str(folder)}
    )
    model = types.SimpleNamespace(count_params=lambda: 0)
    objective = types.SimpleNamespace(model=model, predictions=None)
    return experiment.make_learner(setup, options, lambda: objective, labels)


def test_a_trial_and_the_run_hold_what_it_takes_to_use_the_model(tmp_path):
    _make(_setup(tmp_path), tmp_path / "out" / "trial-2")
    for folder in (tmp_path / "out", tmp_path / "out" / "trial-2"):
        assert (folder / "vocab.txt").read_text() == "[UNK]\nword\n"
        assert json.loads((folder / "labels.json").read_text()) == _LABELS
        text = json.loads((folder / "tokenizer.json").read_text())
        assert text == {"vocab_sha256": "aa", "do_lower_case": True}


def test_answers_without_names_leave_no_labels(tmp_path):
    _make(_setup(tmp_path), tmp_path / "out", labels=None)
    assert (tmp_path / "out" / "vocab.txt").exists()
    assert not (tmp_path / "out" / "labels.json").exists()


def test_a_checkpoint_of_other_text_is_refused_before_anything_is_written(
    tmp_path,
):
    given = tmp_path / "given"
    given.mkdir()
    (given / "tokenizer.json").write_text('{"do_lower_case": false}')
    setup = _setup(tmp_path, init_checkpoint=str(given / "model.ckpt-9"))
    with pytest.raises(ValueError, match="do_lower_case was False and is True"):
        _make(setup, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_files_are_written_to_the_folder_of_the_model(tmp_path):
    learner = _make(_setup(tmp_path), tmp_path / "out" / "trial-1")
    learner.write_files({"a.tsv": ["0.5\n", "0.25\n"]})
    learner.write_results({"b": 2, "a": 0.5}, "test_results.txt")
    folder = tmp_path / "out" / "trial-1"
    assert (folder / "a.tsv").read_text() == "0.5\n0.25\n"
    assert (folder / "test_results.txt").read_text() == "a = 0.5\nb = 2\n"


@pytest.mark.parametrize("is_chief", [True, False])
def test_all_workers_stop_where_the_chief_refuses_a_folder(
    tmp_path, monkeypatch, is_chief
):
    given = tmp_path / "given"
    given.mkdir()
    (given / "tokenizer.json").write_text('{"do_lower_case": false}')
    setup = _setup(tmp_path, init_checkpoint=str(given / "model.ckpt-9"))

    class Communicator:
        def __init__(self, strategy):
            self.is_chief = is_chief

        def all_reduce_max(self, number):
            assert number == int(is_chief)
            return 1

    monkeypatch.setattr(workers, "Communicator", Communicator)
    match = "do_lower_case was" if is_chief else "does not go on with"
    with pytest.raises(ValueError, match=match):
        _make(setup, tmp_path / "out")
    assert not (tmp_path / "out").exists()
