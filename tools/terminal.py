"""What is shown on a terminal: rows in columns, and colours where they work."""

import os
import textwrap
from collections.abc import Iterable, Sequence
from typing import IO

from tasks.masked_lm import record_contents as contents

COLOR_CHOICES = ("auto", "always", "never")
_WIDTH = 79

# Of `record_contents`: what each kind of token looks like.
PLAIN_STYLES = {
    contents.PLAIN: "{text}",
    contents.SPECIAL: "{text}",
    contents.HIDDEN: "[MASK: {text}]",
    contents.SAME: "[same: {text}]",
    contents.REPLACED: "[{shown}: {text}]",
}
_RESET, _DIM = "\x1b[0m", "\x1b[2m"
_GREEN, _YELLOW, _RED = "\x1b[30;42m", "\x1b[30;43m", "\x1b[30;41m"
COLOR_STYLES = {
    contents.PLAIN: "{text}",
    contents.SPECIAL: f"{_DIM}{{text}}{_RESET}",
    contents.HIDDEN: f"{_GREEN}{{text}}{_RESET}",
    contents.SAME: f"{_YELLOW}{{text}}{_RESET}",
    contents.REPLACED: f"{_RED}{{shown}}{_RESET}{_DIM}({{text}}){_RESET}",
}
LEGEND = (
    "green: to predict, shown as [MASK]; yellow: to predict, shown as it is; "
    "red: another word in its place (the answer beside it)"
)


def has_colors(choice: str, stream: IO[str]) -> bool:
    """Tells whether to write colours to a stream.

    Args:
        choice: one of `COLOR_CHOICES`; "auto" for terminals, unless the
            environment says `NO_COLOR` (no-color.org).
        stream: where the text goes.
    """
    if choice != "auto":
        return choice == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR")


def table(rows: Iterable[Sequence[str]], *, right: int = 1) -> str:
    """Lays rows out in columns.

    Args:
        rows: of the same number of cells.
        right: which column is aligned to the right.

    Returns:
        A line for each row, each ended.
    """
    rows = [tuple(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            f"{cell:>{width}}" if number == right else f"{cell:<{width}}"
            for number, (cell, width) in enumerate(
                zip(row, widths, strict=True)
            )
        ]
        lines.append("  " + "  ".join(cells).rstrip() + "\n")
    return "".join(lines)


def warnings(sentences: Iterable[str]) -> str:
    """Writes warnings, one paragraph each; says so if there are none."""
    paragraphs = [
        textwrap.fill(
            sentence,
            _WIDTH,
            initial_indent="  ! ",
            subsequent_indent="    ",
            break_long_words=False,
        )
        for sentence in sentences
    ]
    return "\n".join(paragraphs or ["  none"]) + "\n"


def share(part: float, whole: float) -> str:
    """Writes a share as a percentage; `-` of nothing."""
    if not whole:
        return "-"
    return f"{100 * part / whole:.3g} %"


def spread_in_words(values: contents.Spread) -> str:
    """Writes how numbers spread."""
    return (
        f"mean {values.mean:.1f}, median {values.median:.0f}, 95 % up to "
        f"{values.percentile_95:.0f}, largest {values.largest:.0f}"
    )
