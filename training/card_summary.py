"""A run card in a few lines, for the log, a terminal and TensorBoard."""

import re
from collections.abc import Mapping
from typing import Any

from files import progress
from training import reporting

_CHECKPOINT_PART = re.compile(r"(model\.ckpt-\d+)\.(index|data-.*|state\.json)")
_EVENTS = re.compile(r"events\.out\.tfevents\..*")
_MOST_SHOWN = 12
_KILOBYTE, _MEGABYTE = 10**3, 10**6
# Of a report these are told elsewhere, or by the others.
_NOT_SHOWN = {
    *("step", "examples_per_second", "input_wait"),
    *("gradient_norm", "learning_rate"),
}


def lines(card: Mapping[str, Any]) -> list[str]:
    """Tells what ran, what came of it and what was written."""
    told = [
        ("run", _run(card)),
        ("model", _model(card["model"])),
        *((name, _metrics(values)) for name, values in _reports(card)),
        *((name, _metrics(values)) for name, values in card["results"].items()),
        ("wrote", ", ".join(_written(card["written"]))),
    ]
    told = [(title, text) for title, text in told if text]
    width = max(len(title) for title, _ in told)
    return [f"  {title:<{width}}  {text}" for title, text in told]


def _run(card: Mapping[str, Any]) -> str:
    training = card["training"]
    parts = [
        card["program"],
        card["started"],
        f"{progress.duration(card['seconds'])}, {card['ended']}",
        f"{size_in_words(card['memory']['host'])} of memory at most",
    ]
    if "examples_per_second" in training:
        parts.append(f"{training['examples_per_second']:.1f} examples/s")
    if "input_wait" in training:
        parts.append(f"{training['input_wait']:.1f} % of it waiting for input")
    return ", ".join(parts)


def _model(model: Mapping[str, Any]) -> str:
    count = model.get("num_parameters")
    return "" if count is None else f"{count:,} parameters"


def _reports(card: Mapping[str, Any]):
    """Yields title and metrics of the last reports of a run or its trials."""
    training = card["training"]
    trials = {"": training} if "last_step" in training else training
    for trial, summary in trials.items():
        for key, kind in (
            ("last_training", "training"),
            ("last_evaluation", "held out"),
        ):
            if key in summary:
                step = summary[key]["step"]
                title = f"{kind}, step {step:,}"
                yield (f"{trial}, {title}" if trial else title), summary[key]


def _metrics(values: Mapping[str, Any]) -> str:
    return "  ".join(
        f"{name.removeprefix(reporting.HELD_OUT)} {number_in_words(value)}"
        for name, value in values.items()
        if name not in _NOT_SHOWN
    )


def number_in_words(value: Any) -> str:
    """Formats a number for people; what is none, as it is."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def size_in_words(num_bytes: int) -> str:
    """Formats a number of bytes in units of 10^6, or of 10^3."""
    if num_bytes < _MEGABYTE:
        return f"{num_bytes / _KILOBYTE:,.1f} kB"
    return f"{num_bytes / _MEGABYTE:,.1f} MB"


def _written(files: Mapping[str, int]) -> list[str]:
    """Names files with their sizes, those of a checkpoint as one."""
    sizes: dict[str, int] = {}
    for name, size in files.items():
        folder, slash, last = name.rpartition("/")
        checkpoint = _CHECKPOINT_PART.fullmatch(last)
        if _EVENTS.fullmatch(last):
            last = "events.out.tfevents.*"
        if checkpoint:
            last = f"{checkpoint.group(1)}.*"
        whole = f"{folder}{slash}{last}"
        sizes[whole] = sizes.get(whole, 0) + size
    named = [f"{name} ({size_in_words(n)})" for name, n in sizes.items()]
    more = len(named) - _MOST_SHOWN
    return [*named[:_MOST_SHOWN], *([f"{more} more"] if more > 0 else [])]


def to_tensorboard(folder: str, card: Mapping[str, Any]) -> None:
    """Puts the summary and the flags under TensorBoard's "Text"."""
    step = card["training"].get("last_step")
    if step is None:
        return
    import tensorflow as tf

    flags = [f"    --{k}={v}" for k, v in sorted(card["flags"].items())]
    # Four spaces make a block of Markdown that keeps its lines.
    summary = [f"    {line}" for line in lines(card)]
    writer = tf.summary.create_file_writer(folder)
    with writer.as_default(step=step):
        tf.summary.text("run", "\n".join([*summary, "", *flags]))
    writer.close()
