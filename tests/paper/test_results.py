"""Numbers of result files, and means and deviations worked by hand."""

import json

import pytest

from paper import report

_ACCURACY = "eval_accuracy"


def _trials_file(folder, trials, part=None):
    content = {"trials": trials}
    folder.mkdir(exist_ok=True)
    (folder / "trials.json").write_text(
        json.dumps({part: content} if part else content)
    )
    return str(folder)


def test_one_run_is_read_from_its_results(tmp_path):
    (tmp_path / "eval_results.txt").write_text(
        "eval_accuracy = 0.845588\nglobal_step = 343\n"
    )
    (trial,) = report.read_trials(str(tmp_path), _ACCURACY)
    assert trial.value == pytest.approx(84.5588)
    assert trial.learning_rate is None


def test_a_test_score_is_read_from_its_own_file(tmp_path):
    (tmp_path / "test_results.txt").write_text("test_f1 = 0.5\n")
    assert report.read_trials(str(tmp_path), "test_f1")[0].value == 50.0


def test_perplexity_is_the_exponential_of_the_loss(tmp_path):
    (tmp_path / "eval_results.txt").write_text("masked_lm_loss = 2.0\n")
    (trial,) = report.read_trials(str(tmp_path), "masked_lm_loss")
    assert trial.value == pytest.approx(7.389056)
    assert report.lower_is_better("masked_lm_loss")


def test_numbers_of_squad_are_per_cent_already(tmp_path):
    (tmp_path / "eval_results.txt").write_text("f1 = 88.5\n")
    assert report.read_trials(str(tmp_path), "f1")[0].value == 88.5
    assert not report.lower_is_better("f1")


def test_several_runs_are_read_from_their_summary(tmp_path):
    trials = [
        {"learning_rate": 2e-5, "eval_accuracy": 0.5},
        {"learning_rate": 3e-5, "eval_accuracy": 0.75},
    ]
    found = report.read_trials(_trials_file(tmp_path, trials), _ACCURACY)
    assert [t.value for t in found] == [50.0, 75.0]
    assert [t.learning_rate for t in found] == [2e-5, 3e-5]


def test_taggers_have_a_summary_for_each_file(tmp_path):
    trials = [{"learning_rate": 2e-5, "eval_f1": 0.5, "test_f1": 0.25}]
    folder = _trials_file(tmp_path, trials, part="eval")
    assert report.read_trials(folder, "eval_f1")[0].value == 50.0


def test_a_number_that_is_not_there_is_named(tmp_path):
    (tmp_path / "eval_results.txt").write_text("eval_loss = 1.0\n")
    with pytest.raises(ValueError, match="must contain 'eval_accuracy'; got"):
        report.read_trials(str(tmp_path), _ACCURACY)


def test_mean_and_deviation_by_hand():
    # 2, 4, 4, 4, 5, 5, 7, 9: mean 5, sum of squares 32, over 7.
    values = (2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0)
    summary = report.summarize(
        [report.Trial(learning_rate=None, value=value) for value in values]
    )
    assert summary.mean == 5.0
    assert summary.deviation == pytest.approx((32 / 7) ** 0.5)
    assert summary.standard_error == pytest.approx((32 / 7 / 8) ** 0.5)
    assert summary.best == 9.0


def test_the_rate_with_the_best_mean_is_chosen_not_that_of_the_best_run():
    trials = [
        report.Trial(learning_rate=rate, value=value)
        for rate, value in (
            (2e-5, 80.0),
            (2e-5, 84.0),
            (5e-5, 60.0),
            (5e-5, 90.0),
        )
    ]
    summary = report.summarize(trials)
    assert summary.learning_rate == 2e-5
    assert summary.values == (80.0, 84.0)
    assert summary.best == 90.0
    lowest = report.summarize(trials, lower_is_better=True)
    assert lowest.learning_rate == 5e-5
    assert lowest.best == 60.0


def test_one_run_has_no_deviation():
    summary = report.summarize([report.Trial(learning_rate=None, value=1.0)])
    assert summary.deviation is None
    assert summary.standard_error is None
    with pytest.raises(ValueError, match="got none"):
        report.summarize([])
