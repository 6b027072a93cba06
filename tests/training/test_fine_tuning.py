"""A grid of trials of which some fail."""

import contextlib
import json
import types

import pytest

from models import folder as folder_lib
from tests.support import toy_sentences
from training import failures, fine_tuning
from training import run as run_lib

_RATES = (1e-3, 2e-3, 3e-3)


@pytest.fixture
def grid(tmp_path, monkeypatch):
    """Runs a grid of which trials fail; returns the rates that were tried."""

    def run_grid(errors, scores=(0.5, 0.7, 0.6), **changes):
        tried, answered = [], []

        def run(experiment, options):
            tried.append(options.learning_rate)
            place = _RATES.index(options.learning_rate)
            if place in errors:
                raise errors[place]
            return {"eval_accuracy": scores[place]}

        def evaluate(experiment, options):
            answered.append((options.learning_rate, tuple(experiment.splits)))
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
    return json.loads((folder / "out/trials.json").read_text())


@pytest.mark.parametrize(
    "error",
    [
        failures.NonFiniteLossError("The loss of step 3"),
        failures.NonFiniteOutputError("The outputs of the model"),
        failures.OutOfMemoryError("There is not enough memory"),
    ],
)
@pytest.mark.parametrize("failed", [{0}, {2}, {0, 1}, {1, 2}])
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


@pytest.mark.parametrize(
    ("task", "length"),
    # The network has 32 positions.
    [("classification", 16), ("pretraining", 32)],
)
def test_a_model_of_another_task_decides_the_casing_alone(
    tmp_path, task, length
):
    model = toy_sentences.write_model(tmp_path / "start")
    (model / "model.ckpt-3.index").touch()
    described = {"task": task, "max_seq_length": 16, "do_lower_case": False}
    (model / "task.json").write_text(json.dumps(described))
    options = toy_sentences.parse(
        toy_sentences.flags_of(
            tmp_path,
            do_predict=True,
            init_checkpoint=str(model),
            max_seq_length=128,
        )
    )
    followed, _ = fine_tuning._follow_models("classification", options)
    assert (followed.max_seq_length, followed.do_lower_case) == (length, False)


@pytest.mark.parametrize("is_latest", [False, True])
def test_the_text_of_other_weights_matters_unless_a_run_resumes(
    tmp_path, is_latest
):
    model = toy_sentences.write_model(tmp_path / "start")
    (model / "task.json").write_text('{"do_lower_case": false}')
    models = types.SimpleNamespace(
        start=folder_lib.ModelFolder.open(str(model)),
        run=types.SimpleNamespace(is_latest=is_latest),
    )
    options = toy_sentences.parse(
        toy_sentences.flags_of(tmp_path, do_train=True, do_lower_case=True)
    )
    fits = contextlib.nullcontext()
    differs = pytest.raises(ValueError, match="do_lower_case is False there")
    with fits if is_latest else differs:
        fine_tuning._check_text(options, models)


def test_other_errors_end_a_grid(grid):
    with pytest.raises(ValueError, match="damaged"):
        grid({1: ValueError("damaged")})


def test_the_best_trial_answers_texts_without_labels(grid, tmp_path):
    _, answered = grid({}, do_predict=True)
    assert answered == [(2e-3, ("predict",))]
    assert _summary(tmp_path)["best_trial"].startswith("trial-lr0.002-")
    _, answered = grid({})
    assert not answered
