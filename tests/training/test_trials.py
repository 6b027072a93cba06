import dataclasses
import json
import os

import pytest

from training import trials


def _plan(rates=(5e-5, 2e-5), num_trials=2):
    return trials.plan("out", rates, num_trials, 7)


def test_each_rate_gets_each_seed_and_a_folder():
    runs = _plan()
    assert [(r.learning_rate, r.random_seed) for r in runs] == [
        *((5e-5, 7), (5e-5, 8)),
        *((2e-5, 7), (2e-5, 8)),
    ]
    assert [run.folder for run in runs] == [
        os.path.join("out", f"trial-{n}") for n in (1, 2, 3, 4)
    ]


def test_a_single_run_takes_the_whole_folder():
    (run,) = _plan(rates=(1e-3,), num_trials=1)
    assert (run.folder, run.name) == ("out", "")


@dataclasses.dataclass(frozen=True)
class _Options:
    output_dir: str = "out"
    peak_rates: tuple[float, ...] = (5e-5, 2e-5)
    learning_rate: float = 1.0
    num_trials: int = 1
    random_seed: int = 7
    other: str = "kept"
    do_train: bool = False
    init_checkpoint: str | None = None


def test_each_run_has_options_of_its_own():
    runs = trials.plan_run(_Options())
    assert [run.name for run, _ in runs] == ["trial-1", "trial-2"]
    assert [options for _, options in runs] == [
        _Options(output_dir=os.path.join("out", f"trial-{n}"), learning_rate=r)
        for n, r in ((1, 5e-5), (2, 2e-5))
    ]
    ((_, alone),) = trials.plan_run(_Options(peak_rates=(3e-5,)))
    assert alone == _Options(peak_rates=(3e-5,), learning_rate=3e-5)


def test_summary_of_runs_worked_by_hand():
    values = [0.5, 0.9, 0.8, 0.6]
    results = [{"f1": value, "loss": 1.0} for value in values]
    summary = trials.summarize(_plan(), results, "f1", 0.6)
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
    assert trials.best_of([0.1, 0.4, 0.4]) == 1


def test_table_names_the_best_and_the_collapsed():
    results = [{"f1": value} for value in (0.5, 0.9)]
    summary = trials.summarize(_plan(rates=(1e-4,)), results, "f1", 0.5)
    lines = trials.table(summary).splitlines()
    assert lines[1].endswith("0.5000  collapsed")
    assert lines[2].endswith("0.9000  best")
    assert "mean 0.7000 ± 0.2828, median 0.7000" in lines[3]
    assert "best 0.9000 (trial-2), 1 of 2 collapsed" in lines[3]


def _folder(tmp_path, summary=None, *, checkpoints=("trial-1", "trial-2")):
    for name in checkpoints:
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "model.ckpt-3.index").touch()
    if summary is not None:
        (tmp_path / "trials.json").write_text(json.dumps(summary))
    return _Options(output_dir=str(tmp_path), peak_rates=(1.0,))


@pytest.mark.parametrize(
    "summary",
    [
        {"best_trial": "trial-2"},
        {"eval": {"best_trial": "trial-2"}, "test": {}},
    ],
)
def test_what_is_not_trained_takes_the_best_trial(tmp_path, summary):
    options = _folder(tmp_path, summary)
    best = trials.with_best_trial(options)
    assert best == dataclasses.replace(
        options, output_dir=os.path.join(options.output_dir, "trial-2")
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"do_train": True},
        {"num_trials": 2},
        {"peak_rates": (1.0, 2.0)},
        {"init_checkpoint": "bert_model.ckpt"},
    ],
)
def test_other_runs_keep_their_folder(tmp_path, changes):
    options = _folder(tmp_path, {"best_trial": "trial-2"})
    options = dataclasses.replace(options, **changes)
    assert trials.with_best_trial(options) is options


def test_a_checkpoint_of_the_folder_goes_before_its_trials(tmp_path):
    options = _folder(tmp_path, {"best_trial": "trial-2"}, checkpoints=["."])
    assert trials.with_best_trial(options) is options
    (tmp_path / "empty").mkdir()
    options = dataclasses.replace(options, output_dir=str(tmp_path / "empty"))
    assert trials.with_best_trial(options) is options


@pytest.mark.parametrize(
    "summary", [None, {}, [], {"best_trial": 3}, {"best_trial": "trial-9"}]
)
def test_trials_without_a_best_one_are_named(tmp_path, summary):
    options = _folder(tmp_path, summary)
    with pytest.raises(
        ValueError, match=r"trial-1, trial-2.*Pass --output_dir=\S+/trial-1"
    ):
        trials.with_best_trial(options)
