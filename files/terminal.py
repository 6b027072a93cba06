"""Tables, paragraphs and colors on a terminal."""

import os
import textwrap
from collections.abc import Iterable, Sequence
from typing import IO

COLOR_CHOICES = ("auto", "always", "never")
_WIDTH = 79


def has_colors(choice: str, stream: IO[str]) -> bool:
    """Returns whether to write colors to a stream.

    Args:
        choice: one of `COLOR_CHOICES`; "auto" for terminals, unless the
            variable `NO_COLOR` is set (no-color.org).
        stream: the output stream.
    """
    if choice != "auto":
        return choice == "always"
    return is_redrawable(stream) and not os.environ.get("NO_COLOR")


def is_redrawable(stream: IO[str]) -> bool:
    """Returns whether lines of a stream can be redrawn."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def table(rows: Iterable[Sequence[str]], *, right: int = 1) -> str:
    """Aligns rows in columns.

    Args:
        rows: with the same number of cells.
        right: the column to align to the right.

    Returns:
        A line for each row, with its line end.
    """
    rows = [tuple(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if number == right else cell.ljust(width)
            for number, (cell, width) in enumerate(
                zip(row, widths, strict=True)
            )
        ]
        lines.append("  " + "  ".join(cells).rstrip() + "\n")
    return "".join(lines)


def paragraphs(texts: Iterable[str], mark: str) -> str:
    """Wraps texts as paragraphs with a leading mark; "none" if empty."""
    wrapped = [
        textwrap.fill(
            text,
            _WIDTH,
            initial_indent=f"  {mark}",
            subsequent_indent=" " * (2 + len(mark)),
            break_long_words=False,
        )
        for text in texts
    ]
    return "\n".join(wrapped or ["  none"]) + "\n"
