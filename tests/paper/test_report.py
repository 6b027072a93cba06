"""The report, and the numbers of result files that it is made of."""

import itertools
import os
import pathlib
import re

import pytest

from paper import plans, report, reproduce, running, scales, tables
from tests.support import toy_files


def _command(name):
    words = ("run_classifier.py", f"--task_name={name}")
    return running.Command(name, words, running.folder_of(name, words))


def _cell(row, *names, metric="eval_accuracy", **more):
    column = {k: more.pop(k) for k in ("is_mean", "selected_by") if k in more}
    return tables.Cell(
        row=row,
        column=tables.Column("MRPC", None, metric, **column),
        commands=tuple(map(_command, names or [row])),
        **more,
    )


def _finish(folders, command, content):
    """Writes what a command of several trials leaves behind."""
    output = folders.fill(command.output)
    os.makedirs(output)
    toy_files.write_json(pathlib.Path(output, "trials.json"), content)
    pathlib.Path(command.marker(folders)).touch()


def _evaluate(folders, command, **results):
    """Writes what a command of one evaluation leaves behind."""
    path = pathlib.Path(folders.fill(command.output), "eval_results.txt")
    path.parent.mkdir(parents=True)
    results["eval_blimp_error"] = 0.002
    path.write_text("".join(f"{k} = {v}\n" for k, v in results.items()))
    pathlib.Path(command.marker(folders)).touch()


def _trials(*values, metric="eval_accuracy", rate=2e-5):
    flags = {"learning_rate": rate}
    return {
        "trials": [{"flags": flags, "metrics": {metric: v}} for v in values]
    }


@pytest.fixture(name="folders")
def fixture_folders(tmp_path):
    return running.Folders(str(tmp_path / "data"), str(tmp_path / "work"))


_CLAIMS = [tables.Claim("a", "b", ["MRPC"], "x")]


def _table(*cells, **more):
    commands = [command for cell in cells for command in cell.commands]
    return tables.Table(title="x", cells=cells, commands=commands, **more)


def _write(table, folders):
    path = report.write("table-5", "small", table, folders)
    assert path == f"{folders.work_dir}/reports/table-5-small.md"
    return pathlib.Path(path).read_text().splitlines()


def test_a_report_by_hand(folders):
    cells = [
        _cell("with", paper=86.7, is_mean=True),
        _cell("without", paper=86.5),
        _cell("later", paper=80.0),
    ]
    table = _table(
        *cells,
        claims=[
            tables.Claim("with", "without", ["MRPC"], "section 5.1"),
            tables.Claim("with", "later", ["MRPC"], "section 5.2"),
        ],
        notes=["A note."],
    )
    # Means 86 and 85; deviations 1 (of 85, 86, 87) and 2 (of 83, 85, 87).
    _finish(folders, cells[0].commands[0], _trials(0.85, 0.86, 0.87))
    _finish(folders, cells[1].commands[0], _trials(0.83, 0.85, 0.87))
    lines = _write(table, folders)
    for line in (
        "# Table 5, small scale: x",
        "| with | MRPC | 86.7 | 86.0 ± 1.0 | 87.0 | 3 | 2e-05 | -0.7 |",
        # Of this row the best run is compared: 87.0 with 86.5.
        "| without | MRPC | 86.5 | 85.0 ± 2.0 | 87.0 | 3 | 2e-05 | +0.5 |",
        "| later | MRPC | 80.0 | – | – | – | – | – |",
        # Of 86.0, the mean, and 87.0, the best run.
        # The means have standard errors of 0.58 and 1.15.
        "- with above without (section 5.1): MRPC -1.00 ± 1.29 (paper +0.20).",
        "- with above later (section 5.2): MRPC not run (paper +6.70).",
        "- A note.",
        "with: done.",
        "later: not run.",
        "python run_classifier.py \\",
    ):
        assert line in lines, line


def test_numbers_of_test_sets_are_not_what_ours_are_compared_with(folders):
    cells = [_cell("a", paper=88.9, dev=86.0), _cell("b", paper=70.0)]
    for cell in cells:
        _finish(folders, cell.commands[0], _trials(0.85))
    lines = _write(_table(*cells), folders)
    ours = "85.0 | 85.0 | 1 | 2e-05"
    assert f"| a | MRPC | 88.9 (test), 86.0 (dev) | {ours} | -1.0 |" in lines
    assert f"| b | MRPC | 70.0 (test), – (dev) | {ours} | – |" in lines


@pytest.mark.parametrize(
    ("metric", "better", "worse", "margin"),
    [
        ("f1", (80.0, 81.0), (90.0, 91.0), "-10.00 ± 0.71"),
        # exp(2) is 2.72 times exp(1): the lower perplexity is better.
        ("lm_loss", (1.0,), (2.0,), "+4.67"),
    ],
)
def test_margins(folders, metric, better, worse, margin):
    # 3.23 is the better perplexity of the paper.
    numbers = {"a": 3.23, "b": 3.54} if metric == "lm_loss" else {}
    margin += " (paper +0.31)" if numbers else ""
    cells = [
        _cell(row, metric=metric, is_mean=True, paper=numbers.get(row))
        for row in "ab"
    ]
    for cell, values in zip(cells, (better, worse), strict=True):
        _finish(folders, cell.commands[0], _trials(*values, metric=metric))
    lines = _write(_table(*cells, claims=_CLAIMS), folders)
    assert f"- a above b (x): MRPC {margin}." in lines


def test_the_margin_of_best_runs_has_no_standard_error(folders):
    cells = [_cell("a"), _cell("b")]
    _finish(folders, cells[0].commands[0], _trials(0.75, 0.5))
    _finish(folders, cells[1].commands[0], _trials(0.25, 0.5))
    lines = _write(_table(*cells, claims=_CLAIMS), folders)
    assert "- a above b (x): MRPC +25.00." in lines


def test_only_rankings_of_small_models_are_compared_with_the_paper_s(folders):
    cells = [
        _cell(row, paper=paper, is_of_the_paper=False)
        for row, paper in (("a", 86.7), ("b", 86.5))
    ]
    for cell, value in zip(cells, (0.75, 0.5), strict=True):
        _finish(folders, cell.commands[0], _trials(value))
    lines = _write(_table(*cells, claims=_CLAIMS), folders)
    assert "| a | MRPC | 86.7 | 75.0 | 75.0 | 1 | 2e-05 | – |" in lines
    assert "- a above b (x): MRPC +25.00 (paper +0.20)." in lines


def test_the_metric_that_selects_is_not_always_the_one_reported(folders):
    cell = _cell("NER", metric="test_f1", selected_by="eval_f1")
    trials = [
        {
            "flags": {"learning_rate": rate},
            "metrics": {"eval_f1": dev, "test_f1": test},
        }
        for rate, dev, test in (
            (5e-5, 0.975, 0.75),
            (5e-5, 0.75, 0.625),
            (2e-5, 0.5, 0.875),
        )
    ]
    _finish(folders, cell.commands[0], {"trials": trials})
    ((_, summary),) = report.measure(_table(cell), folders)
    assert summary == report.Summary(
        (75.0, 62.5), 75.0, 5e-5, pretrainings=(0, 0)
    )


def test_the_rate_with_the_best_mean_is_not_always_that_of_the_best_run():
    pairs = ((2e-5, 80.0), (2e-5, 84.0), (5e-5, 60.0), (5e-5, 90.0))
    trials = [report.Trial(rate, value, value) for rate, value in pairs]
    summary = report.summarize(trials, lower_is_better=False)
    assert summary == report.Summary(
        (80.0, 84.0), 90.0, 2e-5, pretrainings=(0, 0)
    )
    summary = report.summarize(trials, lower_is_better=True)
    assert summary == report.Summary(
        (60.0, 90.0), 60.0, 5e-5, pretrainings=(0, 0)
    )


def test_seeds_in_commands_of_their_own_are_taken_together(folders):
    cell = _cell("a", "seed 1", "seed 2", "failed", "not run")
    contents = (
        _trials(0.25),
        _trials(0.75),
        {"trials": [{"flags": {}, "metrics": {}}]},
    )
    for command, content in zip(cell.commands, contents, strict=False):
        _finish(folders, command, content)
    ((_, summary),) = report.measure(_table(cell), folders)
    assert summary.values == (25.0, 75.0)


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
    cell = _cell("a", metric=metric)
    (trial,) = report.read_trials(str(tmp_path), cell)
    assert trial.value == pytest.approx(want)
    assert trial.learning_rate is None


def _reproduce(tmp_path, **changes):
    given = {
        "figure": "5",
        "scale": "small",
        "data_dir": str(tmp_path / "data"),
        "work_dir": str(tmp_path / "work"),
        **changes,
    }
    return reproduce.run(reproduce.Options(**given))


def test_a_figure_shows_the_available_results(tmp_path, folders):
    table = tables.figure_5(plans.Plan(scales.SMALL))
    for cell in table.cells:
        (command,) = cell.commands
        if (cell.row, cell.column.name) == ("MLM 1000", "SST-2"):
            _finish(folders, command, _trials(0.7, 0.75))
        elif cell.column.name == "BLiMP":
            share = 0.65 if cell.row == "MLM 4000" else 0.6
            _evaluate(folders, command, eval_blimp=share)
    with pytest.raises(FileNotFoundError, match="Missing data: "):
        _reproduce(tmp_path)
    reports = tmp_path / "work" / "reports"
    text = (reports / "figure-5-small.md").read_text()
    assert "(figure-5-small.png)" in text
    assert "| MLM 1000 | SST-2 | – | 72.5 ± 3.5 | 75.0 |" in text
    assert "| MLM 4000 | BLiMP | – | 65.0 ± 0.2 | 65.0 | 1 |" in text
    assert "SST-2 not run, BLiMP +5.00 ± 0.28." in text
    picture = (reports / "figure-5-small.png").read_bytes()
    assert picture.startswith(b"\x89PNG")


def test_a_table_of_one_model_has_no_section_of_rankings(folders):
    plan = plans.Plan(scales.FULL, ("base",))
    for name in ("table-1", "table-7"):
        table = tables.make(name, plan)
        path = report.write(name, "full", table, folders)
        text = pathlib.Path(path).read_text(encoding="utf-8")
        assert ("## Expected rankings" in text) == (name == "table-7")
        assert "–: not run, or no number of the paper." in text


def test_without_results_there_is_no_report(tmp_path):
    with pytest.raises(FileNotFoundError, match="Missing data: "):
        _reproduce(tmp_path)
    assert not (tmp_path / "work").exists()


def test_a_dry_run_writes_nothing_and_names_missing_data(
    tmp_path, capsys, monkeypatch
):
    _reproduce(tmp_path, table="7", figure=None, dry_run=True)
    text = capsys.readouterr().out
    assert f"# Missing: {tmp_path}/data/corpora/*wiki*\n" in text
    assert "python -m tools.prepare_corpus" in text
    assert not (tmp_path / "work").exists()
    # Commands run in the clone: elsewhere their paths are absolute.
    given = {"data_dir": "data", "work_dir": "runs/", "dry_run": True}
    _reproduce(tmp_path, **given)
    assert "--output_file=runs/" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    _reproduce(tmp_path, **given)
    assert f"--output_file={tmp_path}/runs/" in capsys.readouterr().out


def test_training_flags_are_passed_on_to_the_scripts(tmp_path, capsys):
    more = ("--precision=mixed_bfloat16",)
    for given in ((), more):
        _reproduce(tmp_path, training_flags=given, dry_run=True)
        text = capsys.readouterr().out
        assert (more[0] in text) == bool(given)


def test_a_trial_without_the_metric_that_selects_is_left_out(folders):
    cell = _cell("NER", metric="test_f1", selected_by="eval_f1")
    metrics = ({"test_f1": 0.5}, {"eval_f1": 0.5}, {"f1": 0.5})
    complete = {"eval_f1": 0.25, "test_f1": 0.75}
    trials = [{"flags": {}, "metrics": m} for m in (*metrics, complete)]
    _finish(folders, cell.commands[0], {"trials": trials})
    ((_, summary),) = report.measure(_table(cell), folders)
    assert summary.values == (75.0,)


def test_a_run_without_trials_has_no_rate(folders):
    cell = _cell("one")
    (command,) = cell.commands
    _evaluate(folders, command, eval_accuracy=0.5)
    row = "| one | MRPC | – | 50.0 | 50.0 | 1 | – | – |"
    assert row in _write(_table(cell), folders)


def test_a_figure_has_thousands_of_steps_ours_and_the_papers(monkeypatch):
    drawn = []
    # The points of a figure cannot be read from its pixels.
    monkeypatch.setattr(
        report.writing, "write_png", lambda _, figure: drawn.append(figure)
    )
    values = ((500, 70.0, 80.0), (2000, 75.0, None))
    measured = [
        (
            _cell(f"{name} {step}", paper=paper, is_mean=True),
            report.Summary(values=(ours,), best=ours, learning_rate=None),
        )
        for name in ("MLM", "LTR")
        for step, ours, paper in values
    ]
    measured[-1] = (measured[-1][0], None)
    report.draw("x", measured, "x.png")
    (axes,) = drawn[0].axes
    lines = axes.get_lines()
    assert [line.get_linestyle() for line in lines] == ["-", "--"] * 2
    points = [list(zip(*line.get_data(), strict=True)) for line in lines]
    ours, paper, others, again = points
    assert (ours, paper) == ([(0.5, 70.0), (2.0, 75.0)], [(0.5, 80.0)])
    assert others == [(0.5, 70.0)]  # Points that are missing leave no gap.
    assert again == []  # One line of the paper beside two of ours.
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["MLM", "LTR"]
    assert axes.get_xlabel().endswith("; dashed: the paper")
    # Without numbers of the paper, nothing is dashed.
    alone = [(_cell("MLM 500"), measured[0][1])]
    report.draw("x", alone, "x.png")
    (axes,) = drawn[1].axes
    assert axes.get_xlabel() == "thousand steps of pre-training"


def test_one_size_of_the_models_may_be_chosen(tmp_path, capsys):
    named = {"figure": None, "scale": "full", "dry_run": True}
    for model, sizes in (("base", {12}), ("large", {24}), (None, {12, 24})):
        _reproduce(tmp_path, table="1", model=model, **named)
        text = capsys.readouterr().out
        starts = re.findall(r"init_checkpoint=\S*/uncased_L-(\d+)_", text)
        assert {*map(int, starts)} == sizes
    with pytest.raises(
        ValueError, match=r"--model is for .*; table-5 compares"
    ):
        _reproduce(tmp_path, table="5", model="base", **named)


def test_a_dry_run_names_what_is_done(tmp_path, capsys, folders):
    _reproduce(tmp_path, dry_run=True)
    assert ", done" not in capsys.readouterr().out
    table = tables.make("figure-5", plans.Plan(scales.SMALL))
    _finish(folders, table.commands[1], _trials(0.5))
    _reproduce(tmp_path, dry_run=True)
    done = [
        line
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("#") and line.endswith(", done")
    ]
    count, name = len(table.commands), table.commands[1].name
    assert done == [f"# 2 of {count}: {name}, done"]


@pytest.mark.parametrize(
    ("num_done", "margin"),
    # One pre-training has fine-tunings alone.
    [(5, "+2.00 [+2.00, +2.00]"), (1, "+2.00 ± 0.00")],
)
def test_a_margin_of_several_pre_trainings_has_their_interval(
    folders, num_done, margin
):
    table = tables.make("figure-5", plans.Plan(scales.FULL))
    values = {"MultiBERTs 1000000": 0.84, "MultiBERTs 600000": 0.82}
    for cell in table.cells:
        if cell.row not in values:
            continue
        commands = zip(cell.pretrainings, cell.commands, strict=True)
        for seed, command in itertools.islice(commands, num_done):
            # The second pre-training differs by a point.
            value = values[cell.row] + (0.01 if seed == 1 else 0.0)
            _finish(folders, command, _trials(value, value))
    path = report.write("figure-5", "full", table, folders)
    lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    if num_done == 5:
        (row,) = (x for x in lines if x.startswith("| MultiBERTs 1000000 |"))
        assert "| MNLI | 84.4 | 84.2 ± 0.4 | 85.0 | 10 |" in row
    (line,) = (x for x in lines if x.startswith("- MultiBERTs 1000000 above"))
    # Both steps are of the same pre-trainings, each 2 points better.
    assert f"MNLI {margin} (paper +0.40)." in line
