"""The summary of a run card as text: for the log, a tool and TensorBoard."""

import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from files import progress
from training import reporting

_CHECKPOINT_PART = re.compile(r"(model\.ckpt-\d+)\.(index|data-.*|state\.json)")
_EVENTS = re.compile(r"events\.out\.tfevents\..*")
_MOST_FILES_SHOWN = 12
_SUMMARY_COLUMNS = 96
_KILOBYTE, _MEGABYTE = 10**3, 10**6
# Metrics shown elsewhere in the summary, or meaningless for a single step.
_METRICS_NOT_SHOWN = {
    *("step", "examples_per_second", "input_wait"),
    *("gradient_norm", "learning_rate"),
}


def summary_lines(card: Mapping[str, Any]) -> list[str]:
    """Summarizes a card: the program, its metrics and the files it wrote."""
    num_parameters = card["model"].get("num_parameters")
    parts = [
        ("run", run_text(card)),
        ("model", num_parameters and f"{num_parameters:,} parameters"),
        *((name, _metrics_text(values)) for name, values in _reports(card)),
        *(
            (name, _metrics_text(values))
            for name, values in card["results"].items()
        ),
        ("wrote", ", ".join(_written(card["written"]))),
    ]
    parts = [(title, text) for title, text in parts if text]
    width = max(len(title) for title, _ in parts)
    return [
        line
        for title, text in parts
        for line in textwrap.wrap(
            f"  {title:<{width}}  {text}",
            _SUMMARY_COLUMNS,
            subsequent_indent=" " * (width + 4),
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]


def run_text(card: Mapping[str, Any]) -> str:
    # Without a new report, the speeds are those of an earlier run.
    trained = reporting.METRICS_FILE in card["written"]
    training = card["training"] if trained else {}
    parts = [
        f"{card['program']} {card['ended']} in "
        f"{progress.duration(card['seconds'])}, started {card['started']}",
        f"peak memory {size_text(card['memory']['host'])}",
    ]
    if "examples_per_second" in training:
        parts.append(f"{training['examples_per_second']:.1f} examples/s")
    if "input_wait" in training:
        parts.append(f"input wait {training['input_wait']:.1f} %")
    return ", ".join(parts)


def _reports(
    card: Mapping[str, Any],
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the titles and metrics of the last reports of a run or trials."""
    training = card["training"]
    trials = {"": training} if "last_step" in training else training
    for trial, summary in trials.items():
        for key, kind in (
            ("last_training", "training"),
            ("last_evaluation", "held out"),
        ):
            if key in summary:
                title = f"{kind}, step {summary[key]['step']:,}"
                yield (f"{trial}, {title}" if trial else title), summary[key]


def _metrics_text(values: Mapping[str, Any]) -> str:
    return "  ".join(
        f"{name.removeprefix(reporting.HELD_OUT)} {number_text(value)}"
        for name, value in values.items()
        if name not in _METRICS_NOT_SHOWN
    )


def number_text(value: Any) -> str:
    """Formats a float with 4 digits, and any other value as it is."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def size_text(num_bytes: int) -> str:
    """Formats a number of bytes in units of 10^6, or of 10^3."""
    if num_bytes < _MEGABYTE:
        return f"{num_bytes / _KILOBYTE:,.1f} kB"
    return f"{num_bytes / _MEGABYTE:,.1f} MB"


def _written(files: Mapping[str, int]) -> list[str]:
    """Lists files with their sizes; the files of a checkpoint are one entry."""
    sizes: dict[str, int] = {}
    for name, size in files.items():
        folder, slash, last = name.rpartition("/")
        if _EVENTS.fullmatch(last):
            last = "events.out.tfevents.*"
        elif checkpoint := _CHECKPOINT_PART.fullmatch(last):
            last = f"{checkpoint.group(1)}.*"
        whole = f"{folder}{slash}{last}"
        sizes[whole] = sizes.get(whole, 0) + size
    named = [f"{name} ({size_text(n)})" for name, n in sizes.items()]
    more = len(named) - _MOST_FILES_SHOWN
    return [*named[:_MOST_FILES_SHOWN], *([f"{more} more"] if more > 0 else [])]


def write_to_tensorboard(folder: str, card: Mapping[str, Any]) -> None:
    """Writes the summary and the flags to TensorBoard's "Text"."""
    step = card["training"].get("last_step")
    if step is None:
        return
    import tensorflow as tf

    flags = [f"    --{k}={v}" for k, v in sorted(card["flags"].items())]
    # Four spaces make a Markdown code block, which keeps its lines.
    summary = [f"    {line}" for line in summary_lines(card)]
    writer = tf.summary.create_file_writer(folder)
    with writer.as_default(step=step):
        tf.summary.text("run", "\n".join([*summary, "", *flags]))
    writer.close()
