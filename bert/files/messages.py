"""Short forms of values and texts for messages, and tables of text."""

import contextlib
import difflib
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

MOST_VALUES = 20


def short(value: object) -> str:
    """Returns the `repr` of a value, at most 60 characters of it."""
    return truncate(repr(value), 60)


def truncate(text: str, length: int = 300) -> str:
    """Truncates a text, such as the message of a library."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def listed(values: Collection[object], limit: int = MOST_VALUES) -> str:
    """Formats the first values, and the number of the others."""
    return names([short(value) for value in values], limit)


def names(values: Sequence[str], limit: int = 8) -> str:
    """Formats the first names, and the number of the others."""
    rest = len(values) - limit
    return ", ".join(values[:limit]) + (f" and {rest} more" if rest > 0 else "")


def changes(
    before: Mapping[str, object], now: Mapping[str, object]
) -> dict[str, str]:
    """Describes the values that differ, by name, of the names in both."""
    return {
        name: f"{name} was {truncate(repr(before[name]))} and is "
        f"{truncate(repr(value))}"
        for name, value in now.items()
        if name in before and before[name] != value
    }


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Checks that a value is one of several.

    Raises:
        ValueError: it is none of them.
    """
    choices = tuple(choices)
    if value not in choices:
        raise ValueError(
            f"{name} must be one of {', '.join(choices)}; got {short(value)}."
        )


@contextlib.contextmanager
def broken(path: str, form: str) -> Iterator[None]:
    """Converts a library's errors on a damaged file to ValueError.

    Errors are of almost any type, depending on the part that is damaged.

    Args:
        path: the file.
        form: the expected format, such as "HDF5".
    """
    try:
        yield
    except Exception as error:
        raise ValueError(
            f"{path!r} is truncated, or not a valid {form} file "
            f"({truncate(str(error))}). If it was copied, copy it again."
        ) from error


def suggestion(word: str, names: Iterable[str]) -> str:
    """Returns a suggestion of the most similar name, or "" if none is close."""
    by_key = {name.lower(): name for name in names}
    near = difflib.get_close_matches(word.lower(), by_key, n=1)
    return f" Did you mean {by_key[near[0]]}?" if near else ""


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
        cells = list(map(str.ljust, row, widths))
        if right >= 0:
            cells[right] = row[right].rjust(widths[right])
        lines.append(f"  {'  '.join(cells).rstrip()}\n")
    return "".join(lines)


def wrapped(text: str, width: int, indent: str = "") -> str:
    """Wraps a text at spaces, so that long words and paths stay whole.

    Args:
        text: on one line.
        width: the number of columns.
        indent: of all lines but the first.
    """
    return textwrap.fill(
        text,
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
