"""Markdown reports of tables: results, verdicts and commands."""

import dataclasses
import math
import os
import statistics
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from files import json_text, result_files, run_files, writing
from paper import jobs, tables

_NOTHING = "–"
# Larger differences, in standard errors, are considered significant.
_ERRORS = 2.0


def shown(metric: str, value: float) -> float:
    """Converts a number of a result file to the paper's unit.

    Args:
        metric: its key. Keys with `eval_` and `test_` are fractions, which the
            paper prints as percentages; SQuAD's numbers are percentages; a loss
            is in nats per word, for which the paper prints the perplexity.
        value: in the file.
    """
    if lower_is_better(metric):
        return math.exp(value)
    return 100 * value if metric.startswith(("eval_", "test_")) else value


def lower_is_better(metric: str) -> bool:
    """Returns whether a metric is a loss."""
    return metric.endswith("_loss")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """The result of one run.

    Attributes:
        learning_rate: None if the file does not contain it.
        value: of the metric, in the paper's unit.
        criterion: of the metric that selects; None if `value` selects.
    """

    learning_rate: float | None
    value: float
    criterion: float | None = None

    @property
    def selector(self) -> float:
        """The number that selects the learning rate and the best run."""
        return self.value if self.criterion is None else self.criterion


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """The results of the trials of a cell.

    Attributes:
        values: of the runs with the chosen rate, in order.
        best: the value of the best run of all.
        learning_rate: the chosen rate, whose selectors have the best mean.
    """

    values: tuple[float, ...]
    best: float
    learning_rate: float | None

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation; None for one value."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def standard_error(self) -> float | None:
        """The standard error of the mean; None for one value."""
        if self.deviation is None:
            return None
        return self.deviation / math.sqrt(len(self.values))

    def selected(self, column: tables.Column) -> float:
        """Returns the number to compare: of the best run, or the mean."""
        return self.best if column.selection == tables.BEST else self.mean


def read_trials(folder: str, metric: str) -> list[Trial]:
    """Reads the results of one job.

    A trial whose loss was not finite has no results, and is left out.

    Args:
        folder: the output folder of the job.
        metric: the key in its result file.

    Raises:
        OSError: there is no result file.
        ValueError: the file does not contain the metric.
    """
    path = os.path.join(folder, run_files.TRIALS)
    if os.path.exists(path):
        content = json_text.read_object(path)
        part = metric.partition("_")[0]
        runs = content.get(part, content)["trials"]
    else:
        name = "test" if metric.startswith("test_") else "eval"
        path = os.path.join(folder, f"{name}_results.txt")
        runs = [result_files.read(path)]
    scored = [run for run in runs if metric in run]
    if not scored:
        raise ValueError(
            f"{path}: must contain {metric!r}; got "
            f"{', '.join(sorted(runs[0]))}."
        )
    return [
        Trial(
            learning_rate=run.get("learning_rate"),
            value=shown(metric, float(run[metric])),
        )
        for run in scored
    ]


def summarize(
    trials: Sequence[Trial], *, lower_is_better: bool = False
) -> Summary:
    """Selects the learning rate with the best mean, and the best run of all.

    Args:
        trials: one or more.
        lower_is_better: whether lower selectors are better.

    Raises:
        ValueError: there is no trial.
    """
    if not trials:
        raise ValueError("A summary needs at least one trial; got none.")
    choose = min if lower_is_better else max
    by_rate: dict[float | None, list[Trial]] = {}
    for trial in trials:
        by_rate.setdefault(trial.learning_rate, []).append(trial)
    rate = choose(
        by_rate,
        key=lambda rate: statistics.fmean(t.selector for t in by_rate[rate]),
    )
    return Summary(
        values=tuple(trial.value for trial in by_rate[rate]),
        best=choose(trials, key=lambda trial: trial.selector).value,
        learning_rate=rate,
    )


_Place = tuple[str, str]  # The names of a row and a column.
Found = Mapping[_Place, Summary | None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """The results of the jobs of a table.

    Attributes:
        found: by row and column; None if there is no result.
        problems: errors in result files of finished jobs.
    """

    found: Found
    problems: tuple[str, ...]


def measure(table: tables.Table, folders: jobs.Folders) -> Measured:
    """Reads the results of all finished jobs of a table."""
    found: dict[_Place, Summary | None] = {}
    problems = []
    for row, column, cell in table.cells():
        metric, trials = cell.column.metric, []
        selected_by = cell.column.selected_by or metric
        for job in cell.jobs:
            if not jobs.is_done(job, folders):
                continue
            try:
                measured = read_trials(folders.output(job), metric)
                selecting = read_trials(folders.output(job), selected_by)
                trials += [
                    dataclasses.replace(trial, criterion=other.value)
                    for trial, other in zip(measured, selecting, strict=True)
                ]
            except (OSError, ValueError, KeyError) as error:
                problems.append(str(error))
        found[row, column] = (
            summarize(trials, lower_is_better=lower_is_better(selected_by))
            if trials
            else None
        )
    return Measured(found=found, problems=tuple(dict.fromkeys(problems)))


def write(
    table: tables.Table,
    scale: str,
    measured: Measured,
    folders: jobs.Folders,
    plot_file: str | None = None,
) -> str:
    """Writes the report of a table.

    Args:
        table: the experiment.
        scale: "full" or "small".
        measured: the results so far.
        folders: of data and of work.
        plot_file: a plot next to the report, if any.
    """
    title = table.name.replace("-", " ").capitalize()
    parts = [
        f"# {title}, {scale} scale: {table.title}",
        "\n".join(_result_lines(table, measured.found)),
    ]
    if plot_file:
        parts.append(f"![{table.title}]({plot_file})")
    sections = {
        "Expected before the runs": _expectation_lines(table, measured.found),
        "Notes": [f"- {note}" for note in _notes(table)],
        "Problems": [f"- {problem}" for problem in measured.problems],
    }
    for name, lines in sections.items():
        if text := "\n".join(lines):
            parts += [f"## {name}", text]
    parts += ["## Commands", *_command_parts(table, folders)]
    return "\n\n".join(parts) + "\n"


def _result_lines(table: tables.Table, found: Found) -> Iterator[str]:
    yield (
        "| | | paper | ours: mean ± sd | best | seeds | rate | difference | "
        "band |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for row, column, cell in table.cells():
        texts = [row, column, *_texts(cell, found[row, column])]
        yield f"| {' | '.join(texts)} |"


def _texts(cell: tables.Cell, summary: Summary | None) -> list[str]:
    digits = 2 if lower_is_better(cell.column.metric) else 1
    paper = _NOTHING if cell.paper is None else f"{cell.paper:.{digits}f}"
    if cell.paper_is_test and cell.paper is not None:
        reference = cell.reference
        paper += " (test); dev " + (
            "none" if reference is None else f"{reference:.{digits}f}"
        )
    if summary is None:
        return [paper, *[_NOTHING] * 5, _band_text(cell, None)]
    ours = f"{summary.mean:.{digits}f}"
    if summary.deviation is not None:
        ours += f" ± {summary.deviation:.{digits}f}"
    difference = None
    if cell.target is not None:
        difference = summary.selected(cell.column) - cell.target
    rate = summary.learning_rate
    return [
        paper,
        ours,
        f"{summary.best:.{digits}f}",
        str(len(summary.values)),
        _NOTHING if rate is None else f"{rate:g}",
        _NOTHING if difference is None else f"{difference:+.{digits}f}",
        _band_text(cell, difference),
    ]


def _band_text(cell: tables.Cell, difference: float | None) -> str:
    band = cell.column.band
    if band is None or cell.target is None:
        return _NOTHING
    text = f"-{band.below:g} to +{band.above:g}"
    if difference is None:
        return text
    # Rounded values are compared, as printed: 0.04 is invisible in tenths.
    inside = band.holds(round(difference, 2))
    return f"{text}: {'inside' if inside else 'OUTSIDE'}"


def _expectation_lines(table: tables.Table, found: Found) -> Iterator[str]:
    if not table.expected:
        return
    yield "| should be better | than | on | why | difference | found |"
    yield "|---|---|---|---|---|---|"
    for expected in table.expected:
        difference, word = judge(table, expected, found)
        number = _NOTHING if difference is None else f"{difference:+.2f}"
        yield (
            f"| {expected.better} | {expected.worse} | {expected.column} | "
            f"{expected.reason} | {number} | {word} |"
        )


def judge(
    table: tables.Table, expected: tables.Expectation, found: Found
) -> tuple[float | None, str]:
    """Returns whether the results confirm an expected ranking.

    Args:
        table: the experiment.
        expected: the ranking.
        found: the results.

    Returns:
        The margin of the row expected to be better, None if unknown; and a
        verdict. A difference of less than two standard errors of the two means
        may be chance.
    """
    better = found[expected.better, expected.column]
    worse = found[expected.worse, expected.column]
    if better is None or worse is None:
        return None, "not run"
    task = table.rows[expected.better][expected.column].column
    difference = better.selected(task) - worse.selected(task)
    if lower_is_better(task.metric):
        difference = -difference
    word = "holds" if difference > 0 else "does not hold"
    if better.standard_error is None or worse.standard_error is None:
        return difference, f"{word} (one run)"
    error = math.hypot(better.standard_error, worse.standard_error)
    if abs(difference) <= _ERRORS * error:
        word += f", within {_ERRORS:g} standard errors ({error:.2f})"
    return difference, word


def _notes(table: tables.Table) -> Iterator[str]:
    """Yields notes on the table and on the widths of its bands."""
    yield from table.notes
    yield (
        "sd: the standard deviation of the seeds at the learning rate with the "
        "best mean. Where the paper took the best run, the best is compared."
    )
    selected_by = {
        column: cell.column.selected_by
        for _, column, cell in table.cells()
        if cell.column.selected_by
    }
    for column, metric in selected_by.items():
        yield f"{column}: {metric} selects the learning rate and the best run."
    reasons: dict[tables.Band, list[str]] = {}
    for _, column, cell in table.cells():
        if cell.column.band is not None and cell.target is not None:
            columns = reasons.setdefault(cell.column.band, [])
            if column not in columns:
                columns.append(column)
    for band, columns in reasons.items():
        yield (
            f"Band of -{band.below:g} to +{band.above:g} "
            f"({', '.join(columns)}): {band.reason}."
        )


def _command_parts(table: tables.Table, folders: jobs.Folders) -> Iterator[str]:
    for job in table.jobs():
        state = jobs.read_state(job, folders)
        word = "not run" if state is None else state.state
        if state is not None:
            word += f" in {jobs.hours(state.seconds)}"
        command = state.command if state else jobs.command(job, folders)
        yield (
            f"{job.name}: {word}, estimated {jobs.hours(job.seconds)}.\n\n"
            f"```\n{command}\n```"
        )


def plan(table: tables.Table, folders: jobs.Folders, machine: str) -> str:
    """Formats the commands of a table, their costs and missing files.

    Args:
        table: the experiment.
        folders: of data and of work.
        machine: the machine of cost estimates.
    """
    wanted = table.jobs()
    lines: list[str] = []
    missing: dict[str, None] = {}
    for number, job in enumerate(wanted, start=1):
        done = ", done" if jobs.is_done(job, folders) else ""
        lines.append(
            f"# {number} of {len(wanted)}: {job.name}, about "
            f"{jobs.hours(job.seconds)}{done}\n"
            f"{jobs.command(job, folders)}\n"
        )
        missing |= dict.fromkeys(jobs.missing_files(job, folders))
    left = [job for job in wanted if not jobs.is_done(job, folders)]
    total = sum(job.seconds for job in left)
    lines.append(
        f"# {len(left)} of {len(wanted)} commands are to be run: about "
        f"{jobs.hours(total)} on {machine}, one after the other."
    )
    lines += [f"# Missing: {path}" for path in missing]
    if missing:
        lines.append(
            "# docs/reproducing_the_paper.md says how to get the data."
        )
    return "\n".join(lines) + "\n"


def draw(table: tables.Table, found: Found, path: str) -> bool:
    """Plots the lines of a figure as PNG.

    Args:
        table: the figure.
        found: its results.
        path: the PNG file.

    Returns:
        Whether there were results to plot.
    """
    # Imported late: it takes a second, and most calls plot nothing.
    from matplotlib import figure

    if not any(found.values()):
        return False
    drawing = figure.Figure(figsize=(7, 4.5), layout="constrained")
    axes = drawing.add_subplot()
    for number, (name, places) in enumerate(_lines(table).items()):
        color = f"C{number}"
        ours = [
            (x, summary.mean, summary.deviation or 0.0)
            for x, place in places
            if (summary := found[place])
        ]
        if ours:
            x, mean, deviation = zip(*ours, strict=True)
            axes.errorbar(
                x,
                mean,
                yerr=deviation,
                marker="o",
                capsize=3,
                color=color,
                label=name,
            )
        paper = [
            (x, table.rows[row][column].paper)
            for x, (row, column) in places
            if table.rows[row][column].paper is not None
        ]
        if paper:
            axes.plot(
                *zip(*paper, strict=True),
                linestyle="--",
                color=color,
                label=f"{name}, paper",
            )
    axes.set_title("\n".join(textwrap.wrap(table.title, 50)))
    axes.set_xlabel("thousand steps of pre-training")
    axes.set_ylabel("score on the development set")
    axes.grid(alpha=0.3)
    drawing.legend(loc="outside right upper")
    with writing.whole_file(path, "wb") as file:
        writing.save_png(drawing, file, 150)
    return True


def _lines(table: tables.Table) -> dict[str, list[tuple[float, _Place]]]:
    """Returns the lines of a figure: points of thousand steps and a cell."""
    lines: dict[str, list[tuple[float, _Place]]] = {}
    for row, column, _ in table.cells():
        name = row.rpartition(" ")[0]
        if len(table.rows[row]) > 1:
            name = f"{name}, {column}"
        lines.setdefault(name, []).append(
            (table.steps[row] / 1000, (row, column))
        )
    return lines
