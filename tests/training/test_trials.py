import dataclasses
import json
import os

import pytest

from training import fine_tuning
from training import flags as training_flags


def _options(**changes):
    return training_flags.FineTuningOptions(
        **{
            "output_dir": "out",
            "bert_config_file": "config.json",
            "vocab_file": "vocab.txt",
            "random_seed": 7,
            **changes,
        }
    )


def _plan(rates=(5e-5, 2e-5), num_trials=2, num_folds=1):
    options = _options(learning_rates=rates, num_trials=num_trials)
    return fine_tuning.plan_run(options, num_folds)


def test_each_rate_gets_each_seed_and_a_folder():
    runs = _plan()
    assert [
        (r.setting["learning_rate"], r.options.random_seed) for r in runs
    ] == [
        *((5e-5, 7), (5e-5, 8)),
        *((2e-5, 7), (2e-5, 8)),
    ]
    assert [run.options.output_dir for run in runs] == [
        os.path.join("out", f"trial-{n}") for n in (1, 2, 3, 4)
    ]


def test_a_single_run_takes_the_whole_folder():
    (run,) = _plan(rates=(1e-3,), num_trials=1)
    assert (run.options.output_dir, run.name) == ("out", "")


def test_each_run_has_options_of_its_own():
    options = _options(learning_rates=(5e-5, 2e-5))
    runs = fine_tuning.plan_run(options)
    assert [run.name for run in runs] == ["trial-1", "trial-2"]
    assert [run.options for run in runs] == [
        dataclasses.replace(
            options,
            output_dir=os.path.join("out", f"trial-{n}"),
            learning_rate=r,
        )
        for n, r in ((1, 5e-5), (2, 2e-5))
    ]
    alone = _options(learning_rate=3e-5)
    assert fine_tuning.plan_run(alone)[0].options == alone


def test_a_grid_tries_all_settings_each_with_all_seeds_and_folds():
    options = _options(
        train_batch_sizes=(16, 32), train_epochs=(2.0,), num_trials=2
    )
    runs = fine_tuning.plan_run(options, num_folds=3)
    assert len(runs) == 2 * 2 * 3
    seen = [
        (run.options.train_batch_size, run.options.random_seed, run.fold)
        for run in runs
    ]
    assert seen[:4] == [(16, 7, 0), (16, 7, 1), (16, 7, 2), (16, 8, 0)]
    assert len(set(seen)) == 12
    assert {run.options.num_train_epochs for run in runs} == {2.0}
    assert {run.options.learning_rate for run in runs} == {5e-5}


def test_summary_of_runs_worked_by_hand():
    values = [0.5, 0.9, 0.8, 0.6]
    results = [{"f1": value, "loss": 1.0} for value in values]
    summary = fine_tuning.summarize(_plan(), results, "f1", 0.6)
    assert summary["best_trial"] == "trial-2"
    assert summary["best"] == 0.9
    assert summary["median"] == pytest.approx(0.7)
    assert summary["mean"] == pytest.approx(0.7)
    # Squares of 0.2, 0.2, 0.1, 0.1 over 3.
    assert summary["standard_deviation"] == pytest.approx((0.1 / 3) ** 0.5)
    assert summary["num_collapsed"] == 2
    assert [t["collapsed"] for t in summary["trials"]] == [1, 0, 0, 1]
    assert [
        (row["learning_rate"], row["median"], row["num_collapsed"])
        for row in summary["by_learning_rate"]
    ] == [(5e-5, 0.7, 1), (2e-5, pytest.approx(0.7), 1)]


def test_the_first_of_equal_runs_is_the_best():
    results = [{"f1": value} for value in (0.5, 0.9)] * 2
    plan = _plan(rates=(1e-4, 2e-4))[:4]
    summary = fine_tuning.summarize(plan, results[: len(plan)], "f1", 0.5)
    assert summary["best_trial"] == plan[1].name


def test_table_names_the_best_and_the_collapsed():
    results = [{"f1": value} for value in (0.5, 0.9)]
    summary = fine_tuning.summarize(_plan(rates=(1e-4,)), results, "f1", 0.5)
    lines = fine_tuning.table(summary).splitlines()
    assert lines[1].endswith("0.5000  collapsed")
    assert lines[2].endswith("0.9000  best")
    assert "mean 0.7000 ± 0.2828, median 0.7000" in lines[3]
    assert "best 0.9000 (trial-2), 1 of 2 collapsed" in lines[3]


def test_the_best_setting_has_the_best_mean_over_seeds_and_folds():
    runs = _plan(num_folds=2, num_trials=1)
    results = [{"f1": value} for value in (0.9, 0.5, 0.7, 0.8)]
    summary = fine_tuning.summarize(runs, results, "f1", 0.1)
    assert summary["best_trial"] == "trial-1"
    best = summary["best_setting"]
    assert best == summary["by_setting"][1]
    assert best["learning_rate"] == 2e-5
    assert best["mean"] == pytest.approx(0.75)
    assert best["standard_deviation"] == pytest.approx(0.005**0.5)
    assert [trial["fold"] for trial in summary["trials"]] == [1, 2, 1, 2]
    *_, first, second, _ = fine_tuning.table(summary).splitlines()
    assert first.split()[1:] == ["5.0e-05", "32", "3", "0.7000", "±", "0.2828"]
    assert second.endswith("0.7500 ± 0.0707  best")


def _folder(tmp_path, summary=None, *, checkpoints=("trial-1", "trial-2")):
    for name in checkpoints:
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "model.ckpt-3.index").touch()
    if summary is not None:
        (tmp_path / "trials.json").write_text(json.dumps(summary))
    return _options(output_dir=str(tmp_path))


@pytest.mark.parametrize(
    "summary",
    [
        {"best_trial": "trial-2"},
        {"eval": {"best_trial": "trial-2"}, "test": {}},
    ],
)
def test_prediction_uses_the_best_trial(tmp_path, summary):
    options = _folder(tmp_path, summary)
    best = fine_tuning.with_best_trial(options)
    assert best == dataclasses.replace(
        options, output_dir=os.path.join(options.output_dir, "trial-2")
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"do_train": True},
        {"num_trials": 2},
        {"learning_rates": (1.0, 2.0)},
        {"train_batch_sizes": (8, 16)},
        {"train_epochs": (1.0, 2.0)},
        {"init_checkpoint": "bert_model.ckpt"},
    ],
)
def test_other_runs_keep_their_folder(tmp_path, changes):
    options = _folder(tmp_path, {"best_trial": "trial-2"})
    options = dataclasses.replace(options, **changes)
    assert fine_tuning.with_best_trial(options) is options


def test_a_checkpoint_of_the_folder_goes_before_its_trials(tmp_path):
    options = _folder(tmp_path, {"best_trial": "trial-2"}, checkpoints=["."])
    assert fine_tuning.with_best_trial(options) is options
    (tmp_path / "empty").mkdir()
    options = dataclasses.replace(options, output_dir=str(tmp_path / "empty"))
    assert fine_tuning.with_best_trial(options) is options


@pytest.mark.parametrize(
    "summary", [None, {}, [], {"best_trial": 3}, {"best_trial": "trial-9"}]
)
def test_trials_without_a_best_one_are_named(tmp_path, summary):
    options = _folder(tmp_path, summary)
    with pytest.raises(
        ValueError, match=r"trial-1, trial-2.*Pass --output_dir=\S+/trial-1"
    ):
        fine_tuning.with_best_trial(options)
