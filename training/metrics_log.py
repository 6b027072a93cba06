"""The file that holds every report of a run: `metrics.jsonl`.

A line is a JSON object: `step`, then metrics by name; those on held-out data
begin with `eval_`. A number that is not finite is null. Imports no TensorFlow,
so that tools can look at runs.
"""

import json
import os
import statistics
from collections.abc import Mapping, Sequence

from files import json_text, paths, writing

FILE = "metrics.jsonl"
_SHAPE = {"step": int, "*": (int, float, type(None))}
HELD_OUT = "eval_"
# What is said of the speed of a run: of these the median counts.
_SPEEDS = ("examples_per_second", "input_wait")

Record = Mapping[str, float | None]


def path_in(folder: str) -> str:
    """Names the file of a run's folder."""
    return os.path.join(folder, FILE)


def read(path: str) -> list[dict[str, float | None]]:
    """Reads all reports; a last line cut short by a crash is left out.

    Returns:
        None of them where there is no file.

    Raises:
        ValueError: a line is no report; names it.
    """
    if not paths.exists(path):
        return []
    with paths.open_to_read(path) as file:
        lines = file.read().split(b"\n")[:-1]
    return [
        _record(line, f"{path}:{number}")
        for number, line in enumerate(lines, start=1)
    ]


def _record(line: bytes, where: str) -> dict[str, float | None]:
    try:
        record = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        record = None
    if not json_text.has_shape(record, _SHAPE):
        raise ValueError(
            f"{where}: must be a JSON object of numbers with a step; got "
            f"{line[:60]!r}."
        )
    return record


def keep_until(path: str, step: int) -> None:
    """Removes the records of later steps, and a line cut short by a crash."""
    if not paths.exists(path):
        return
    kept = [r for r in read(path) if r["step"] <= step]
    with writing.whole_file(path) as file:
        file.writelines(f"{json.dumps(record)}\n" for record in kept)


def summarize(records: Sequence[Record]) -> dict[str, object]:
    """Says in a few numbers what was reported.

    Returns:
        `last_step`; `examples_per_second` and `input_wait` (per cent of the
        time), the medians; `last_training` and
        `last_evaluation`, the metrics by name, and their steps. What was not
        reported is left out.
    """
    if not records:
        return {}
    summary = {"last_step": max(record["step"] for record in records)}
    for name in _SPEEDS:
        speeds = [record[name] for record in records if name in record]
        if speeds:
            summary[name] = statistics.median(speeds)
    evaluations = [r for r in records if is_evaluation(r)]
    reports = [r for r in records if not is_evaluation(r)]
    if reports:
        summary["last_training"] = reports[-1]
    if evaluations:
        summary["last_evaluation"] = evaluations[-1]
    return summary


def is_evaluation(record: Record) -> bool:
    """Tells whether a report is about held-out data."""
    return any(name.startswith(HELD_OUT) for name in record)
