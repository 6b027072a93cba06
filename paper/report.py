"""Markdown reports of tables: results, rankings and commands."""

import itertools
import math
import os
import statistics
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bert.files import json_text, run_files, writing
from paper import multibootstrap, running, tables

if TYPE_CHECKING:
    from matplotlib import axes as axes_lib

_NOTHING = "–"


class Trial(NamedTuple):
    """The result of one run, in the paper's unit.

    Attributes:
        learning_rate: None if the files do not contain it.
        value: of the metric.
        selector: the value that selects runs.
        error: the standard error of the value over examples; NaN if the files
            do not contain it.
        pretraining: the seed of its pre-training.
    """

    learning_rate: float | None
    value: float
    selector: float
    error: float = math.nan
    pretraining: int = 0


class Summary(NamedTuple):
    """The results of a cell.

    Attributes:
        values: of the runs with the rate whose selectors have the best mean.
        best: the value of the best run of all.
        learning_rate: that rate; None if the files do not contain it.
        error: the standard error of a single value over examples; else NaN.
        pretrainings: the seed of the pre-training of each value.
    """

    values: tuple[float, ...]
    best: float
    learning_rate: float | None
    error: float = math.nan
    pretrainings: tuple[int, ...] = ()

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float:
        """The sample standard deviation; NaN for one value."""
        return (
            statistics.stdev(self.values) if len(self.values) > 1 else math.nan
        )

    @property
    def standard_error(self) -> float:
        """The standard error of the mean over seeds, or over examples."""
        if len(self.values) == 1:
            return self.error
        return self.deviation / math.sqrt(len(self.values))

    @property
    def num_pretrainings(self) -> int:
        return len(set(self.pretrainings))

    @property
    def runs(self) -> list[multibootstrap.Run]:
        """The values as runs of their pre-trainings."""
        return [
            multibootstrap.Run(seed=seed, scores=np.array([value]))
            for seed, value in zip(self.pretrainings, self.values, strict=True)
        ]

    def compared(self, cell: tables.Cell) -> float:
        """Returns the number to compare with the paper's."""
        return self.mean if cell.column.is_mean else self.best


_Measured = list[tuple[tables.Cell, Summary | None]]


def in_paper_unit(metric: str, value: float) -> float:
    """Converts a number of a result file to the paper's unit.

    Args:
        metric: its key. Keys with `eval_` and `test_` are fractions, which the
            paper prints as percentages; SQuAD's numbers are percentages; a loss
            is in nats per word, for which the paper prints the perplexity.
        value: in the file.
    """
    if _is_loss(metric):
        return math.exp(value)
    return 100 * value if metric.startswith(("eval_", "test_")) else value


def _is_loss(metric: str) -> bool:
    return metric.endswith("_loss")


def read_trials(folder: str, cell: tables.Cell) -> list[Trial]:
    """Reads the results of a command for a cell.

    A trial whose loss was not finite has no results, and is left out.

    Args:
        folder: the output folder.
        cell: has the metrics.

    Raises:
        OSError: there is no result file.
    """
    metric = cell.column.metric
    selector = cell.column.selected_by or metric
    path = os.path.join(folder, run_files.TRIALS)
    if os.path.exists(path):
        runs = json_text.read_object(path)["trials"]
    else:
        name = "test" if metric.startswith("test_") else "eval"
        path = os.path.join(folder, f"{name}_results.txt")
        runs = [{"flags": {}, "metrics": run_files.read_results(path)}]
    return [
        Trial(
            run["flags"].get("learning_rate"),
            in_paper_unit(metric, float(run["metrics"][metric])),
            in_paper_unit(selector, float(run["metrics"][selector])),
            100 * float(run["metrics"].get(f"{metric}_error", math.nan)),
        )
        for run in runs
        if {metric, selector} <= run["metrics"].keys()
    ]


def summarize(trials: Sequence[Trial], *, lower_is_better: bool) -> Summary:
    """Selects the learning rate with the best mean, and the best run of all."""
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
        error=by_rate[rate][0].error if len(by_rate[rate]) == 1 else math.nan,
        pretrainings=tuple(trial.pretraining for trial in by_rate[rate]),
    )


def measure(table: tables.Table, folders: running.Folders) -> _Measured:
    """Returns each cell with its results; None where no command is done."""
    measured: _Measured = []
    for cell in table.cells:
        seeds = cell.pretrainings or (0,) * len(cell.commands)
        trials = [
            trial._replace(pretraining=seed)
            for command, seed in zip(cell.commands, seeds, strict=True)
            if command.is_done(folders)
            for trial in read_trials(folders.fill(command.output), cell)
        ]
        is_loss = _is_loss(cell.column.metric)
        measured.append(
            (
                cell,
                summarize(trials, lower_is_better=is_loss) if trials else None,
            )
        )
    return measured


def write(
    name: str, scale: str, table: tables.Table, folders: running.Folders
) -> str:
    """Writes the report of a table, and the plot of a figure.

    Args:
        name: the name of the table.
        scale: the name of the scale.
        table: the experiment.
        folders: of data and outputs.

    Returns:
        The path of the report.
    """
    measured = measure(table, folders)
    path = os.path.join(folders.work_dir, "reports", f"{name}-{scale}.md")
    title = name.replace("-", " ").capitalize()
    lines = [f"# {title}, {scale} scale: {table.title}", ""]
    lines += [*_result_lines(measured), ""]
    if name.startswith("figure") and any(summary for _, summary in measured):
        draw(table.title, measured, path.removesuffix(".md") + ".png")
        lines += [f"![{table.title}]({name}-{scale}.png)", ""]
    if table.claims:
        lines += ["## Expected rankings", ""]
        lines += [*_claim_lines(table.claims, measured), ""]
    lines += ["## Notes", "", *(f"- {note}" for note in table.notes)]
    lines += [
        "- ±: the standard deviation of the seeds at the learning rate with "
        "the best mean; of a margin of two means, its standard error. [a, b]: "
        "its 95% interval over pre-trainings by the multi-bootstrap (Sellam et "
        "al. 2021), each the mean of its fine-tunings; paired, if both rows "
        "are of the same ones. –: not run, or no number of the paper.",
        "",
        "## Commands",
        "",
    ]
    for command in table.commands:
        word = "done" if command.is_done(folders) else "not run"
        text = running.shell_text(command, folders)
        lines += [f"{command.name}: {word}.", "", "```", text, "```", ""]
    with writing.whole_file(path) as file:
        file.write("\n".join(lines))
    return path


def _result_lines(measured: _Measured) -> Iterator[str]:
    yield "| | | paper | ours | best | seeds | rate | difference |"
    yield "|---|---|---|---|---|---|---|---|"
    # The paper's numbers are of test sets where others' of dev sets are given.
    are_of_test = any(cell.dev is not None for cell, _ in measured)
    for cell, summary in measured:
        digits = 2 if _is_loss(cell.column.metric) else 1
        paper, target = _number(cell.paper, digits), cell.paper
        if are_of_test:
            target = cell.dev
            paper += f" (test), {_number(target, digits)} (dev)"
        texts = [cell.row, cell.column.name, paper, *[_NOTHING] * 5]
        if summary:
            ours = _number(summary.mean, digits)
            spread = summary.deviation
            if len(summary.values) == 1:
                spread = summary.error
            if not math.isnan(spread):
                ours += f" ± {spread:.{digits}f}"
            difference = _NOTHING
            if target is not None and cell.is_of_the_paper:
                difference = f"{summary.compared(cell) - target:+.{digits}f}"
            rate = summary.learning_rate
            texts[3:] = [
                ours,
                _number(summary.best, digits),
                str(len(summary.values)),
                _NOTHING if rate is None else f"{rate:g}",
                difference,
            ]
        yield f"| {' | '.join(texts)} |"


def _number(value: float | None, digits: int) -> str:
    return _NOTHING if value is None else f"{value:.{digits}f}"


def _claim_lines(
    claims: Sequence[tables.Claim], measured: _Measured
) -> Iterator[str]:
    """Yields a line for each claim, with the margins of its columns."""
    found = {(cell.row, cell.column.name): (cell, s) for cell, s in measured}
    for claim in claims:
        margins = []
        for column in claim.columns:
            (better, ours), (worse, others) = (
                found[row, column] for row in (claim.better, claim.worse)
            )
            sign = -1 if _is_loss(better.column.metric) else 1
            margin = "not run"
            if ours and others:
                difference = ours.compared(better) - others.compared(worse)
                margin = f"{sign * difference:+.2f}"
                error = math.hypot(ours.standard_error, others.standard_error)
                if ours.num_pretrainings > 1 and others.num_pretrainings > 1:
                    margin = _interval(others, ours, sign)
                elif better.column.is_mean and not math.isnan(error):
                    margin += f" ± {error:.2f}"
            if better.paper is not None and worse.paper is not None:
                paper = sign * (better.paper - worse.paper)
                margin += f" (paper {paper:+.2f})"
            margins.append(f"{column} {margin}")
        yield (
            f"- {claim.better} above {claim.worse} ({claim.source}): "
            f"{', '.join(margins)}."
        )


def _interval(base: Summary, intervention: Summary, sign: int) -> str:
    """Formats a margin with its 95% interval over pre-trainings."""
    found = multibootstrap.interval(
        base.runs,
        intervention.runs,
        # Steps of the same pre-trainings are drawn together.
        paired_seeds=set(base.pretrainings) == set(intervention.pretrainings),
        sample_examples=False,
    )
    low, high = sorted((sign * found.low, sign * found.high))
    return f"{sign * found.difference:+.2f} [{low:+.2f}, {high:+.2f}]"


def draw(title: str, measured: _Measured, path: str) -> None:
    """Plots a figure's lines, the paper's dashed, as PNG."""
    # Imported late: it takes a second, and most calls plot nothing.
    from matplotlib import figure

    names = list(dict.fromkeys(cell.column.name for cell, _ in measured))
    drawing = figure.Figure(figsize=(7 * len(names), 4.5), layout="constrained")
    for panel, axes in zip(
        names, drawing.subplots(1, len(names), squeeze=False)[0], strict=True
    ):
        cells = [pair for pair in measured if pair[0].column.name == panel]
        _draw_panel(axes, cells)
        axes.set_title(title if len(names) == 1 else panel)
    writing.write_png(path, drawing)


def _draw_panel(axes: "axes_lib.Axes", measured: _Measured) -> None:
    drawn: set[tuple[float, float]] = set()  # Two lines may share a paper's.
    # Rows are named by line and step.
    for number, (name, line) in enumerate(
        itertools.groupby(measured, lambda pair: pair[0].row.split()[0])
    ):
        ours: list[tuple[float, float]] = []
        paper: list[tuple[float, float]] = []
        for cell, summary in line:
            step = int(cell.row.split()[1]) / 1000
            if summary:
                ours.append((step, summary.compared(cell)))
            if cell.paper and (step, cell.paper) not in drawn:
                paper.append((step, cell.paper))
        color = f"C{number}"
        axes.plot(*_columns(ours), "o-", color=color, label=name)
        axes.plot(*_columns(paper), "--", color=color)
        drawn.update(paper)
    label = "thousand steps of pre-training"
    if any(cell.paper for cell, _ in measured):
        label += "; dashed: the paper"
    axes.set_xlabel(label)
    axes.set_ylabel("score on the development set")
    axes.legend()


def _columns(points: Sequence[tuple[float, float]]) -> Sequence[Sequence]:
    """Returns the x and the y of points."""
    return list(zip(*points, strict=True)) or ([], [])
