"""Lays runs side by side: what differed, what came of it, how fast.

Example:

  python -m tools.compare_runs model_a model_b --plot=curves.png

Each argument is the --output_dir of a run. Flags, files, versions and machines
come from its run_card.json, and only those that differ are shown; losses and
metrics come from metrics.jsonl and the result files. Of one run alone, its
summary is shown.
"""

import dataclasses
import itertools
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any

from commands import flags, program
from files import destinations, paths, progress
from tools import terminal
from training import (
    reporting,
    run_card,
)

ARGUMENTS = "FOLDER ..."
_ABSENT = "-"
# Of these a run has its own in any case.
_NOT_COMPARED = {"output_dir"}
_SHOWN_CHARACTERS = 44
_HASH_CHARACTERS = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """What a run left.

    Attributes:
        name: its folder.
        card: of it; empty where there is none, as of a run that goes on still.
        records: its reports.
        results: metrics by file.
    """

    name: str
    card: Mapping[str, Any]
    records: Sequence[Mapping[str, float]]
    results: Mapping[str, Mapping[str, Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this tool; see --help."""

    plot: str | None = flags.flag(
        None, "PNG for the curves of all runs.", flags.Group.FILES
    )


def read(folder: str) -> Run:
    """Reads what a run left in its folder.

    Raises:
        ValueError: there is nothing of a run.
    """
    path = os.path.join(folder, run_card.FILE)
    run = Run(
        name=folder.rstrip("/"),
        card=run_card.read(path) if paths.exists(path) else {},
        records=reporting.read_metrics(reporting.metrics_path(folder)),
        results=run_card.results(folder),
    )
    if not (run.card or run.records or run.results):
        raise ValueError(
            f"{folder} must be the --output_dir of a run; it holds no "
            f"{run_card.FILE}, no {reporting.METRICS_FILE} and no results."
        )
    return run


def _files_of(folder: str) -> list[str]:
    return [
        os.path.join(parent, name)
        for parent, _, names in os.walk(folder)
        for name in names
        if not name.endswith(".png")
    ]


def compare(runs: Sequence[Run]) -> str:
    """Writes what differs between runs, and what came of them."""
    sections = [
        ("RUN", _about(runs)),
        ("FLAGS that differ", differing([_flags(run) for run in runs])),
        ("FILES that differ", differing([_files(run) for run in runs])),
        ("MODEL, where it differs", differing([_model(run) for run in runs])),
        ("ELSE", differing([_environment(run) for run in runs])),
        ("LAST REPORTS", _reports(runs)),
        ("RESULTS", _results(runs)),
    ]
    parts = [_header(runs)]
    for title, rows in sections:
        if rows:
            parts.append(f"{title}\n{terminal.table(rows, right=-1)}")
    missing = [run.name for run in runs if not run.card]
    if missing:
        parts.append(
            f"No {run_card.FILE} in {', '.join(missing)}: flags and files are "
            "not known.\n"
        )
    return "\n".join(parts)


def _header(runs: Sequence[Run]) -> str:
    return "".join(
        f"{letter} = {run.name}\n"
        for letter, run in zip(_letters(runs), runs, strict=True)
    )


def _letters(runs: Sequence[Run]) -> list[str]:
    return [chr(ord("A") + number) for number in range(len(runs))]


def differing(columns: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Makes a row of each value that is not the same in all runs.

    Args:
        columns: values by name, for each run; a run with none is shown but
            not compared.
    """
    known = [column for column in columns if column]
    names = dict.fromkeys(name for column in known for name in column)
    rows = []
    for name in names:
        values = [column.get(name) for column in known]
        if name not in _NOT_COMPARED and any(v != values[0] for v in values):
            cells = [
                _cell(column.get(name)) if column else "?" for column in columns
            ]
            rows.append((name, *cells))
    return rows


def _cell(value: Any) -> str:
    if value is None:
        return _ABSENT
    text = run_card.number_text(value)
    if len(text) > _SHOWN_CHARACTERS:
        return f"...{text[3 - _SHOWN_CHARACTERS :]}"
    return text


def _about(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """Says when, how long and how fast each run was."""
    rows = []
    for name, tell in (
        ("program", lambda card: card["program"]),
        ("started", lambda card: card["started"]),
        ("ended", lambda card: card["ended"]),
        ("took", lambda card: progress.duration(card["seconds"])),
        (
            "memory at most",
            lambda card: run_card.size_text(card["memory"]["host"]),
        ),
    ):
        cells = [tell(run.card) if run.card else _ABSENT for run in runs]
        rows.append((name, *map(_cell, cells)))
    speeds = [
        reporting.summarize(run.records).get("examples_per_second")
        for run in runs
    ]
    rows.append(("examples/s", *map(_cell, speeds)))
    return [row for row in rows if set(row[1:]) != {_ABSENT}]


def _flags(run: Run) -> dict[str, Any]:
    return dict(run.card.get("flags", {}))


def _files(run: Run) -> dict[str, str]:
    """Names what each flag read: by hash where there is one, else by size."""
    return {
        flag: ", ".join(
            f"{os.path.basename(entry['path'])} {_identity(entry)}"
            for entry in entries
        )
        for flag, entries in run.card.get("inputs", {}).items()
    }


def _identity(entry: Mapping[str, Any]) -> str:
    digest = entry.get("sha256")
    if digest:
        return digest[:_HASH_CHARACTERS]
    return f"{entry['bytes']} bytes" if "bytes" in entry else "not read"


def _model(run: Run) -> dict[str, Any]:
    model = run.card.get("model", {})
    counts = {"num_parameters": model.get("num_parameters")} if model else {}
    return {**counts, **model.get("config", {})}


def _environment(run: Run) -> dict[str, Any]:
    environment = run.card.get("environment", {})
    code = environment.get("code") or {}
    return {
        **environment.get("packages", {}),
        **{
            name: value
            for name, value in environment.items()
            if name not in ("packages", "code")
        },
        **({"commit": code.get("commit")} if environment else {}),
    }


def _reports(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """Lists the last report of training, and the last on held-out data."""
    summaries = [reporting.summarize(run.records) for run in runs]
    return [
        row
        for key in ("last_training", "last_evaluation")
        for row in _all_of([summary.get(key, {}) for summary in summaries])
    ]


def _results(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    files = dict.fromkeys(name for run in runs for name in run.results)
    return [
        row
        for file in files
        for row in _all_of([run.results.get(file, {}) for run in runs])
    ]


def _all_of(columns: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Makes a row of each value; of numbers of two runs also the change."""
    names = dict.fromkeys(name for column in columns for name in column)
    rows = []
    for name in names:
        values = [column.get(name) for column in columns]
        cells = [_cell(value) for value in values]
        rows.append((name, *cells, *_change(values)))
    return rows


def _change(values: Sequence[Any]) -> Iterable[str]:
    if len(values) != 2:
        return ()
    if not all(isinstance(value, int | float) for value in values):
        return ("",)
    return (f"{values[1] - values[0]:+.4g}",)


def run(folders: Sequence[str], plot: str | None, output: IO[str]) -> None:
    """Compares the runs in folders, or tells of one.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: a folder is no run's, or a file of it is broken.
    """
    if not folders:
        raise ValueError("Name the folders of one run or more.")
    if plot:
        destinations.check_files(
            [plot], itertools.chain.from_iterable(map(_files_of, folders))
        )
    runs = [read(folder) for folder in folders]
    if len(runs) == 1 and runs[0].card:
        lines = run_card.summary_lines(runs[0].card)
        output.writelines(f"{line}\n" for line in [runs[0].name, *lines])
    else:
        output.write(compare(runs))
    if plot:
        reporting.draw_curves({run.name: run.records for run in runs}, plot)


def main(options: Options, folders: Sequence[str]) -> None:
    """Runs the tool with the folders of the command line."""
    run(folders, options.plot, sys.stdout)


if __name__ == "__main__":
    program.start(Options, main, arguments=ARGUMENTS)
