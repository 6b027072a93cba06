"""A grid of trials of which some fail."""

import os

import pytest

from bert.training import failures, fine_tuning
from bert.training import run as run_lib
from tests.support import toy_files, toy_sentences

_RATES = (1e-3, 2e-3, 3e-3)


@pytest.fixture
def grid(tmp_path, monkeypatch):
    """Runs a grid of which trials fail; returns the rates that were tried.

    No toy training fails as those of large models and rates do.
    """

    def run_grid(errors, scores=(0.5, 0.7, 0.6), **changes):
        tried, answered = [], []

        def run(setup, options, folder, init):
            tried.append(options.learning_rate)
            place = _RATES.index(options.learning_rate)
            if place in errors:
                raise errors[place]
            metrics = {"eval_accuracy": scores[place]}
            if "predict" in setup.splits:
                metrics["test_accuracy"] = scores[place] - 0.25
            return metrics

        def evaluate(setup, folder, init):
            name = os.path.basename(folder.path)
            answered.append((name, tuple(setup.splits)))
            return {}

        monkeypatch.setattr(run_lib, "run", run)
        monkeypatch.setattr(run_lib, "evaluate", evaluate)
        flags = {
            "do_train": True,
            "do_eval": True,
            "learning_rates": ",".join(map(str, _RATES)),
        }
        toy_sentences.run(tmp_path, **flags | changes)
        return tried, answered

    return run_grid


def _summary(folder):
    return toy_files.read_json(folder / "out/trials.json")


_LOSS = failures.NonFiniteLossError("The loss of step 3")


@pytest.mark.parametrize(
    ("error", "failed"),
    [
        (_LOSS, {0}),
        (_LOSS, {2}),
        (_LOSS, {0, 1}),
        (failures.NonFiniteOutputError("The outputs of the model"), {1, 2}),
        (failures.OutOfMemoryError("There is not enough memory"), {1}),
    ],
)
def test_trials_go_on_after_those_that_fail(
    grid, tmp_path, caplog, error, failed
):
    tried, _ = grid(dict.fromkeys(failed, error))
    assert tried == [*_RATES]
    metrics = [trial["metrics"] for trial in _summary(tmp_path)["trials"]]
    assert {place for place, m in enumerate(metrics) if not m} == failed
    warned = [m for m in caplog.messages if "has failed and has no" in m]
    assert len(warned) == len(failed)
    assert all(str(error) in message for message in warned)


def test_a_grid_of_which_all_trials_fail_is_an_error(grid, tmp_path):
    errors = [failures.NonFiniteLossError(f"rate {i}") for i in range(3)]
    with pytest.raises(failures.NonFiniteLossError, match="rate 2"):
        grid(dict(enumerate(errors)))
    assert not (tmp_path / "out/trials.json").exists()


def test_texts_longer_than_the_network_reads_are_refused(tmp_path):
    message = "Cannot use sequence length 33"
    with pytest.raises(ValueError, match=message):
        toy_sentences.run(tmp_path, do_train=True, max_seq_length=33)


class _ConstructedError(Exception):
    """Ends a run when its task is made."""


class _Task:
    """A task of which only the model that it is made with matters."""

    kind = "classification"

    def __init__(self, options, tokenizer, trained):
        raise _ConstructedError(trained)


def _trained_of(folder, **changes):
    """Returns the model from which a task takes its labels, if any."""
    model = toy_sentences.write_model(folder / "start")
    (model / "model.ckpt-3.index").touch()
    flags = toy_sentences.flags_of(
        folder, init_checkpoint=str(model), **changes
    )
    with pytest.raises(_ConstructedError) as caught:
        fine_tuning.run(_Task, toy_sentences.parse(flags))
    return caught.value.args[0]


def test_only_a_model_that_is_not_trained_decides_the_labels(tmp_path):
    assert _trained_of(tmp_path, do_train=True) is None
    trained = _trained_of(tmp_path, do_predict=True)
    assert trained.path == str(tmp_path / "start")


def test_what_does_not_fit_is_refused_before_the_data_are_read(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="file must be a folder"):
        _trained_of(tmp_path, do_train=True, output_dir=tmp_path / "file/out")
    many = tmp_path / "many.txt"
    lines = [*toy_sentences.WORDS, "one", "more"]
    many.write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(ValueError, match="entries, but the model's vocab_size"):
        _trained_of(tmp_path, do_train=True, vocab_file=str(many))


def test_a_grid_is_recorded_once_in_its_own_folder(grid, tmp_path):
    grid({})
    (start,) = toy_files.read_json_lines(tmp_path / "out/run.jsonl")
    assert start["flags"]["learning_rates"] == [*_RATES]


def test_other_errors_end_a_grid(grid):
    with pytest.raises(ValueError, match="damaged"):
        grid({1: ValueError("damaged")})


def test_the_best_trial_answers_texts_without_labels(grid, tmp_path, caplog):
    caplog.set_level("INFO")
    _, answered = grid({}, do_predict=True)
    best = _summary(tmp_path)["best_trial"]
    assert best.startswith("trial-lr0.002-")
    assert answered == [(best, ("predict",))]
    assert "test_accuracy" not in caplog.text
    _, answered = grid({})
    assert not answered


def test_every_trial_answers_texts_with_labels(grid, tmp_path, caplog):
    caplog.set_level("INFO")
    data = toy_sentences.write_data(tmp_path / "data")
    rows = toy_sentences.sentences(11, seed=3)
    toy_sentences.write_tsv(data / "test.tsv", rows)
    _, answered = grid({}, do_predict=True)
    assert not answered
    table = caplog.text.partition("test_accuracy\n")[2].splitlines()
    assert [line.split()[::2] for line in table[:3]] == [
        ["0.2500"],
        ["0.4500", "best"],
        ["0.3500"],
    ]
