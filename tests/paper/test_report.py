"""The report, and the numbers of result files that it is made of."""

import dataclasses
import json
import os
import shutil

import pytest

from paper import jobs, report, reproduce, tables

_BAND = tables.Band(below=1.0, above=2.0, reason="because of this")


def _job(name):
    return jobs.Job(
        name=name,
        program="run_classifier.py",
        flags={"output_dir": jobs.Output(), "task_name": name},
        seconds=120,
    )


def _cells(name, selection=tables.MEAN, **more):
    column = tables.Column(
        name="MRPC", metric="eval_accuracy", selection=selection, band=_BAND
    )
    cell = tables.Cell(column=column, jobs=(_job(name),), **more)
    return {"MRPC": cell}


def _finish(folders, job, values, rates=None):
    """Writes what a job of several trials leaves behind."""
    os.makedirs(folders.output(job))
    trials = [
        {"learning_rate": rate, "eval_accuracy": value}
        for rate, value in zip(
            rates or [2e-5] * len(values), values, strict=True
        )
    ]
    path = os.path.join(folders.output(job), "trials.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"trials": trials}, file)
    jobs.write_state(
        job,
        folders,
        jobs.State(
            state=jobs.DONE, seconds=300.0, command=f"as run: {job.name}"
        ),
    )


@pytest.fixture(name="folders")
def fixture_folders(tmp_path):
    return jobs.Folders("data", str(tmp_path))


@pytest.fixture(name="table")
def fixture_table():
    return tables.Table(
        name="table-5",
        title="An example",
        rows={
            "with": _cells("MRPC", paper=86.7),
            "without": _cells("without", tables.BEST, paper=86.5),
            "later": _cells("later", paper=80.0, paper_is_test=True),
        },
        notes=("A note.",),
        expected=(
            tables.Expectation(
                better="with",
                worse="without",
                column="MRPC",
                reason="section 5.1",
            ),
            tables.Expectation(
                better="with",
                worse="later",
                column="MRPC",
                reason="section 5.2",
            ),
        ),
    )


def _lines(text, start):
    return [line for line in text.splitlines() if line.startswith(start)]


def test_a_report_by_hand(table, folders):
    with_nsp, without, _ = table.jobs()
    # Means 86 and 85; deviations 1 (of 85, 86, 87) and 2 (of 83, 85, 87).
    _finish(folders, with_nsp, [0.85, 0.86, 0.87])
    _finish(folders, without, [0.83, 0.85, 0.87])
    measured = report.measure(table, folders)
    text = report.write(table, "small", measured, folders)

    assert _lines(text, "| with | MRPC") == [
        "| with | MRPC | 86.7 | 86.0 ± 1.0 | 87.0 | 3 | 2e-05 | -0.7 | "
        "-1 to +2: inside |"
    ]
    # Of this row the best run is compared: 87.0 with 86.5.
    assert _lines(text, "| without | MRPC") == [
        "| without | MRPC | 86.5 | 85.0 ± 2.0 | 87.0 | 3 | 2e-05 | +0.5 | "
        "-1 to +2: inside |"
    ]
    assert _lines(text, "| later | MRPC") == [
        "| later | MRPC | 80.0 (test); dev none | – | – | – | – | – | – |"
    ]
    # One point apart; the error is the root of 1/3 + 4/3.
    assert _lines(text, "| with | without") == [
        "| with | without | MRPC | section 5.1 | +1.00 | holds, within 2 "
        "standard errors (1.29) |"
    ]
    assert _lines(text, "| with | later")[0].endswith("| – | not run |")
    assert "because of this" in text
    assert "- A note." in text
    assert "MRPC: done in 5 min, estimated 2 min.\n\n```\nas run: MRPC" in text
    assert "later: not run" in text
    assert "python run_classifier.py" in text


def test_results_outside_the_band_are_marked_and_failed_ones_do_not_count(
    table, folders
):
    job = table.jobs()[0]
    _finish(folders, job, [0.80])
    text = report.write(table, "full", report.measure(table, folders), folders)
    assert _lines(text, "| with | MRPC")[0].endswith(
        "| 80.0 | 80.0 | 1 | 2e-05 | -6.7 | -1 to +2: OUTSIDE |"
    )
    done = jobs.read_state(job, folders)
    failed = dataclasses.replace(done, state=jobs.FAILED)
    jobs.write_state(job, folders, failed)
    assert report.measure(table, folders).found["with", "MRPC"] is None
    # Damaged results are named.
    jobs.write_state(job, folders, done)
    os.remove(os.path.join(folders.output(job), "trials.json"))
    text = report.write(table, "full", report.measure(table, folders), folders)
    assert "## Problems" in text
    assert "eval_results.txt" in text


@pytest.mark.parametrize(
    ("better", "worse", "verdict"),
    [
        ((90.0, 91.0), (80.0, 81.0), "holds"),
        ((80.0, 81.0), (90.0, 91.0), "does not hold"),
        ((90.0,), (80.0, 81.0), "holds (one run)"),
        (
            (90.0, 94.0),
            (91.0, 95.0),
            "does not hold, within 2 standard errors (2.83)",
        ),
    ],
)
def test_verdicts(table, better, worse, verdict):
    def summary(values):
        return report.summarize(
            [report.Trial(learning_rate=None, value=v) for v in values]
        )

    found = {
        ("with", "MRPC"): summary(better),
        ("later", "MRPC"): summary(worse),
    }
    assert report.judge(table, table.expected[1], found)[1] == verdict


def test_of_perplexity_the_lower_is_better():
    column = tables.Column(name="LM", metric="masked_lm_loss")
    cells = {"LM": tables.Cell(column=column, jobs=(_job("x"),))}
    expected = tables.Expectation(
        better="large", worse="small", column="LM", reason="size"
    )
    table = tables.Table(
        name="table-6",
        title="x",
        rows={"large": cells, "small": cells},
        expected=(expected,),
    )
    one = [
        report.summarize([report.Trial(learning_rate=None, value=value)])
        for value in (4.0, 5.5)
    ]
    found = {("large", "LM"): one[0], ("small", "LM"): one[1]}
    assert report.judge(table, expected, found) == (1.5, "holds (one run)")


def test_the_metric_that_selects_is_not_always_the_one_reported(folders):
    job = _job("NER")
    column = tables.Column(
        name="test F1",
        metric="test_f1",
        selected_by="eval_f1",
        selection=tables.BEST,
    )
    cells = {"test F1": tables.Cell(column=column, jobs=(job,))}
    table = tables.Table(name="table-7", title="", rows={"base": cells})
    _finish(folders, job, [0.0])
    trials = [
        {"learning_rate": rate, "eval_f1": dev, "test_f1": test}
        for rate, dev, test in (
            (5e-5, 0.975, 0.75),
            (5e-5, 0.75, 0.625),
            (2e-5, 0.5, 0.875),
        )
    ]
    path = os.path.join(folders.output(job), "trials.json")
    with open(path, "w", encoding="utf-8") as file:
        parts = {part: {"trials": trials} for part in ("eval", "test")}
        json.dump(parts, file)
    measured = report.measure(table, folders)
    summary = measured.found["base", "test F1"]
    assert summary.learning_rate == 5e-5
    assert summary.values == (75.0, 62.5)
    assert summary.best == 75.0
    text = report.write(table, "full", measured, folders)
    assert "- test F1: eval_f1 selects the learning rate" in text


@pytest.mark.parametrize(
    ("name", "column", "metric"),
    [
        ("table-1", "MNLI-mm", "eval_accuracy"),
        ("table-1", "STS-B", "eval_pearson"),
        ("table-7", "test F1", "eval_f1"),
    ],
)
def test_second_scores_and_test_sets_select_nothing(name, column, metric):
    table = tables.make(name, tables.read_scale("full"))
    cells = [cell for _, each, cell in table.cells() if each == column]
    assert {cell.column.selected_by for cell in cells} == {metric}


def test_the_single_systems_of_the_paper_are_compared_with_means():
    table = tables.make("table-2", tables.read_scale("full"))
    large = table.rows["large"]["F1"]
    assert len(large.jobs) == 7
    assert {cell.column.selection for _, _, cell in table.cells()} == {
        tables.MEAN
    }


def test_seeds_in_jobs_of_their_own_are_taken_together(table, folders):
    first, second, damaged = (_job(f"seed {number}") for number in (1, 2, 3))
    for job, value in ((first, 0.25), (second, 0.75), (damaged, 0.5)):
        _finish(folders, job, [value])
    path = os.path.join(folders.output(damaged), "trials.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"trials": [{"eval_f1": 1.0}]}, file)
    cell = table.rows["with"]["MRPC"]
    cells = dataclasses.replace(cell, jobs=(first, second, damaged))
    table = tables.Table(name="table-5", title="", rows={"a": {"MRPC": cells}})
    measured = report.measure(table, folders)
    assert measured.found["a", "MRPC"].values == (25.0, 75.0)
    (problem,) = measured.problems
    assert "must contain 'eval_accuracy'" in problem


def test_expectations_name_cells_that_exist(table):
    expected = tables.Expectation(
        better="with", worse="nobody", column="MRPC", reason=""
    )
    with pytest.raises(ValueError, match="none in row 'nobody'"):
        dataclasses.replace(table, expected=(expected,))


def test_the_plan_lists_commands_costs_and_what_is_missing(table, folders):
    text = report.plan(table, folders, "some machine")
    assert (
        "# 3 of 3 commands are to be run: about 6 min on some machine" in text
    )
    assert text.count("python run_classifier.py") == 3
    _finish(folders, table.jobs()[0], [0.9])
    text = report.plan(table, folders, "some machine")
    assert "# 1 of 3: MRPC, about 2 min, done" in text
    assert "# 2 of 3 commands are to be run: about 4 min" in text


def _reproduce(tmp_path, **changes):
    given = {
        "table": None,
        "figure": "5",
        "scale": "small",
        "model": None,
        "data_dir": str(tmp_path / "data"),
        "work_dir": str(tmp_path / "work"),
        "jobs": 1,
        "dry_run": False,
        "report_only": False,
        "training_flags": (),
        **changes,
    }
    return reproduce.run(reproduce.Options(**given))


def test_a_figure_shows_the_available_results(tmp_path):
    folders = jobs.Folders(str(tmp_path / "data"), str(tmp_path / "work"))
    table = tables.make("figure-5", tables.read_scale("small"))
    for row in ("MLM 500", "MLM 1000"):
        (job,) = table.rows[row]["SST-2"].jobs
        _finish(folders, job, [0.7, 0.75])
    assert not _reproduce(tmp_path, report_only=True)  # Eight are missing.
    reports = tmp_path / "work" / "reports"
    text = (reports / "figure-5-small.md").read_text()
    assert "(figure-5-small.png)" in text
    assert "| MLM 500 | SST-2 | – | 72.5 ± 3.5 |" in text
    picture = (reports / "figure-5-small.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    nothing = dict.fromkeys((row, column) for row, column, _ in table.cells())
    assert not report.draw(table, nothing, str(tmp_path / "x.png"))
    assert not (tmp_path / "x.png").exists()


def test_a_dry_run_writes_nothing_and_names_missing_data(tmp_path, capsys):
    assert _reproduce(tmp_path, table="7", figure=None, dry_run=True)
    text = capsys.readouterr().out
    assert f"# Missing: {tmp_path}/data/corpora/*wiki*\n" in text
    assert "python -m tools.prepare_corpus" in text
    assert not (tmp_path / "work").exists()


def test_outside_the_clone_paths_of_commands_are_absolute(
    tmp_path, capsys, monkeypatch
):
    given = {"data_dir": "data", "work_dir": "runs", "dry_run": True}
    assert _reproduce(tmp_path, **given)
    assert "--output_dir=runs/jobs/" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    assert _reproduce(tmp_path, **given)
    assert f"--output_dir={tmp_path}/runs/jobs/" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["data_dir", "work_dir"])
def test_remote_folders_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=f"--{name} must be a local folder"):
        _reproduce(tmp_path, **{name: "gs://bucket/x"})


def test_without_data_nothing_is_run_and_the_report_says_so(tmp_path):
    assert not _reproduce(tmp_path)
    text = (tmp_path / "work/reports/figure-5-small.md").read_text()
    assert "not run" in text
    with pytest.raises(ValueError, match="Pass one of --table and --figure"):
        _reproduce(tmp_path, table="5")


def test_a_report_is_complete_if_every_result_exists(tmp_path):
    folders = jobs.Folders(str(tmp_path / "data"), str(tmp_path / "work"))
    scale = tables.read_scale("full")
    table = tables.make("table-2", scale, ("base",))
    given = {"table": "2", "figure": None, "scale": "full", "model": "base"}
    given["report_only"] = True
    assert not _reproduce(tmp_path, **given)
    (job,) = table.jobs()
    _finish(folders, job, [0.5])  # Done, but without the numbers of SQuAD.
    assert not _reproduce(tmp_path, **given)
    path = os.path.join(folders.output(job), "trials.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"trials": [{"f1": 88.5, "exact_match": 80.8}]}, file)
    assert _reproduce(tmp_path, **given)
    # A row of seven seeds is not complete with one.
    table = tables.make("table-2", scale, ("large",))
    for job in table.jobs():
        if job.name.endswith("seed 1") or "others" in job.name:
            _finish(folders, job, [0.5])
            os.replace(
                shutil.copy(path, tmp_path),
                os.path.join(folders.output(job), "trials.json"),
            )
    assert not _reproduce(tmp_path, **{**given, "model": "large"})


def test_more_flags_may_have_dashes_and_any_order():
    read = reproduce._more_flags(["use_tpu", "--precision=mixed_bfloat16"])
    assert read == {"use_tpu": True, "precision": "mixed_bfloat16"}
    # The order is part of the names of folders.
    assert list(read) == ["use_tpu", "precision"]


def test_training_flags_are_checked_before_the_first_command(tmp_path):
    refused = pytest.raises(
        ValueError, match=r"run_pretraining.py refuses .* no flag --presicion"
    )
    with refused:
        _reproduce(tmp_path, training_flags=("presicion=float32",))
    assert not (tmp_path / "work").exists()
    given = ("verbosity=-1", "packing", "recompute")
    assert _reproduce(tmp_path, training_flags=given, dry_run=True)


@pytest.mark.parametrize(
    ("file", "metric", "value", "want"),
    [
        ("eval", "eval_accuracy", "0.845588", 84.5588),
        # A test score has a file of its own.
        ("test", "test_f1", "0.5", 50.0),
        # Perplexity is the exponential of the loss.
        ("eval", "masked_lm_loss", "2.0", 7.389056),
        # Numbers of SQuAD are per cent already.
        ("eval", "f1", "88.5", 88.5),
    ],
)
def test_one_run_is_read_from_its_results(tmp_path, file, metric, value, want):
    path = tmp_path / f"{file}_results.txt"
    path.write_text(f"global_step = 343\n{metric} = {value}\n")
    (trial,) = report.read_trials(str(tmp_path), metric)
    assert trial.value == pytest.approx(want)
    assert trial.learning_rate is None
    assert report.lower_is_better(metric) == ("loss" in metric)
    path.write_text("eval_loss = 1.0\n")
    with pytest.raises(ValueError, match=f"must contain '{metric}'; got"):
        report.read_trials(str(tmp_path), metric)


@pytest.mark.parametrize("part", [None, "eval"])
def test_several_runs_are_read_from_their_summary(tmp_path, part):
    trials = [
        {"learning_rate": 2e-5, "eval_f1": 0.5, "test_f1": 0.25},
        {"learning_rate": 1e30},  # Its loss was not finite.
        {"learning_rate": 3e-5, "eval_f1": 0.75, "test_f1": 0.25},
    ]
    content = {"trials": trials}
    if part:  # Taggers have a summary for each file.
        content = {part: content}
    (tmp_path / "trials.json").write_text(json.dumps(content))
    found = report.read_trials(str(tmp_path), "eval_f1")
    assert [t.value for t in found] == [50.0, 75.0]
    assert [t.learning_rate for t in found] == [2e-5, 3e-5]


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
    summary = report.summarize([report.Trial(learning_rate=None, value=1.0)])
    assert summary.deviation is None
    assert summary.standard_error is None
    with pytest.raises(ValueError, match="got none"):
        report.summarize([])


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
