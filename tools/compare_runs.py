"""Compares runs: their settings, results and throughput.

Example:

  python -m tools.compare_runs model_a model_b --plot=curves.png

Each argument is the --output_dir of a run. Flags, files, versions and machines
come from its run_card.json, and only those that differ are shown; losses and
metrics come from metrics.jsonl and the result files. For a single run, the
tool shows its summary.
"""

import dataclasses
import itertools
import os
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from commands import flags, program
from files import messages, paths, progress, run_files, writing
from training import reporting, run_card

ARGUMENTS = "FOLDER ..."
_ABSENT = "-"
_UNKNOWN = "?"
_MAX_CHARACTERS = 44
_HASH_CHARACTERS = 8

_Values = Mapping[str, Any]
_Rows = list[tuple[str, ...]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this tool; see --help."""

    plot: str | None = flags.Group.FILES.optional(
        "PNG for the curves of all runs."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """The records of a run.

    Attributes:
        name: its folder.
        card: its run card; empty if missing, as during the run.
        records: its reports.
        results: metrics by file.
    """

    name: str
    card: _Values
    records: Sequence[Mapping[str, float | None]]
    results: Mapping[str, _Values]


def read(folder: str) -> Run:
    """Reads the records of a run from its folder.

    Raises:
        ValueError: the folder has no records.
    """
    path = os.path.join(folder, run_files.RUN_CARD)
    run = Run(
        name=folder.rstrip("/"),
        card=run_card.read(path) if paths.exists(path) else {},
        records=reporting.read_metrics(reporting.metrics_path(folder)),
        results=run_card.results(folder),
    )
    if not (run.card or run.records or run.results):
        raise ValueError(
            f"{folder} must be the --output_dir of a run; it contains no "
            f"{run_files.RUN_CARD}, no {reporting.METRICS_FILE} and no results."
        )
    return run


def compare(runs: Sequence[Run]) -> str:
    """Formats the differences and the results of runs."""
    cards = [run.card for run in runs]
    summaries: list[_Values] = [
        reporting.summarize(run.records) for run in runs
    ]
    sections = {
        "RUN": _overview(cards, summaries),
        "FLAGS that differ": _differing([c.get("flags", {}) for c in cards]),
        "FILES that differ": _differing([_inputs(card) for card in cards]),
        "MODEL values that differ": _differing([_model(c) for c in cards]),
        "ENVIRONMENT that differs": _differing(
            [_environment(card) for card in cards]
        ),
        "LAST REPORTS": [
            row
            for key in ("last_training", "last_evaluation")
            for row in _all([each.get(key, {}) for each in summaries])
        ],
        "RESULTS": [
            row
            for file in dict.fromkeys(f for run in runs for f in run.results)
            for row in _all([run.results.get(file, {}) for run in runs])
        ],
    }
    names = (f"{chr(ord('A') + i)} = {r.name}\n" for i, r in enumerate(runs))
    parts = ["".join(names)]
    for title, rows in sections.items():
        if rows:
            parts.append(f"{title}\n{messages.table(rows, right=-1)}")
    missing = [run.name for run in runs if not run.card]
    if missing:
        parts.append(
            f"No {run_files.RUN_CARD} in {', '.join(missing)}: flags and "
            "files are not known.\n"
        )
    split = [run.name for run in runs if _has_trials(run)]
    if split:
        parts.append(
            f"The reports and results of {', '.join(split)} are in the "
            "folders of its trials: pass these, such as "
            f"{split[0]}/{run_files.trial_name(1)}, to compare them.\n"
        )
    return "\n".join(parts)


def _has_trials(run: Run) -> bool:
    of_trials = run_files.trial_files(run.name, reporting.METRICS_FILE)
    return bool(of_trials) and not run.records


def _overview(cards: Sequence[_Values], summaries: Sequence[_Values]) -> _Rows:
    columns = [
        {
            "program": card["program"],
            "started": card["started"],
            "ended": card["ended"],
            "took": progress.duration(card["seconds"]),
            "memory at most": run_card.size_text(card["memory"]["host"]),
        }
        if card
        else {}
        for card in cards
    ]
    rows = [
        (name, *(_cell(column.get(name)) for column in columns))
        for name in _names(columns)
    ]
    speeds = [each.get("examples_per_second") for each in summaries]
    rows.append(("examples/s", *map(_cell, speeds)))
    return [row for row in rows if set(row[1:]) != {_ABSENT}]


def _inputs(card: _Values) -> _Values:
    """Returns the files of each flag, with hashes if known, else sizes."""

    def identity(entry: _Values) -> str:
        if entry.get("sha256"):
            return entry["sha256"][:_HASH_CHARACTERS]
        return f"{entry['bytes']} bytes" if "bytes" in entry else "not read"

    return {
        flag: ", ".join(
            f"{os.path.basename(entry['path'])} {identity(entry)}"
            for entry in entries
        )
        for flag, entries in card.get("inputs", {}).items()
    }


def _model(card: _Values) -> _Values:
    model = card.get("model")
    if not model:
        return {}
    size = {"num_parameters": model.get("num_parameters")}
    return {**size, **(model.get("config") or {})}


def _environment(card: _Values) -> _Values:
    environment = dict(card.get("environment", {}))
    if not environment:
        return {}
    packages = environment.pop("packages", None) or {}
    code = environment.pop("code", None) or {}
    return {**packages, **environment, "commit": code.get("commit")}


def _differing(columns: Sequence[_Values]) -> _Rows:
    """Returns a row for each value that differs between runs that have any."""
    known = [column for column in columns if column]
    rows = []
    for name in _names(known):
        values = [column.get(name) for column in known]
        is_same = all(value == values[0] for value in values)
        if is_same or name == "output_dir":  # Each run has its own.
            continue
        look_alike = any(
            one != other and _cell(one) == _cell(other)
            for one, other in itertools.combinations(values, 2)
        )
        cells = [
            _cell(c.get(name), is_whole=look_alike) if c else _UNKNOWN
            for c in columns
        ]
        rows.append((name, *cells))
    return rows


def _all(columns: Sequence[_Values]) -> _Rows:
    """Returns a row for each value, with the change between two runs."""
    rows = []
    for name in _names(columns):
        values = [column.get(name) for column in columns]
        row = [name, *map(_cell, values)]
        if len(values) == 2:
            row.append(_change(*values))
        rows.append(tuple(row))
    return rows


def _names(columns: Sequence[_Values]) -> dict[str, None]:
    return dict.fromkeys(name for column in columns for name in column)


def _change(before: Any, after: Any) -> str:
    if isinstance(before, int | float) and isinstance(after, int | float):
        return f"{after - before:+.4g}"
    return ""


def _cell(value: Any, *, is_whole: bool = False) -> str:
    if value is None:
        return _ABSENT
    if is_whole:
        return str(value)
    text = run_card.number_text(value)
    if len(text) > _MAX_CHARACTERS:
        return f"...{text[3 - _MAX_CHARACTERS :]}"
    return text


def run(options: Options, folders: Sequence[str]) -> None:
    """Compares the runs in folders, or summarizes a single one.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: a folder is not of a run, or one of its files is broken.
    """
    if not folders:
        raise ValueError("Pass the folders of one or more runs.")
    if options.plot:
        held = [p for f in folders for p in pathlib.Path(f).rglob("*")]
        inputs = [str(p) for p in held if p.is_file() and p.suffix != ".png"]
        writing.check_files([options.plot], inputs)
    runs = [read(folder) for folder in folders]
    if len(runs) == 1 and runs[0].card:
        lines = run_card.summary_lines(runs[0].card)
        sys.stdout.writelines(f"{line}\n" for line in [runs[0].name, *lines])
    else:
        sys.stdout.write(compare(runs))
    if options.plot:
        if not any(run.records for run in runs):
            raise ValueError(
                f"--plot={options.plot} needs a {reporting.METRICS_FILE} in "
                "one of the folders; there is none. Those of several trials "
                "are in the folders of the trials."
            )
        curves = {run.name: run.records for run in runs}
        reporting.draw_curves(curves, options.plot)


if __name__ == "__main__":
    program.start(Options, run, arguments=ARGUMENTS)
