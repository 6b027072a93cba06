"""What came, shown in a message, however much of it came."""

import itertools
from collections.abc import Collection
from typing import Any

_MOST_CHARACTERS = 60
_MOST_NAMES = 20


def shown(value: Any) -> str:
    """Writes a value as Python does, cut after 60 characters."""
    if isinstance(value, str | bytes | list | tuple) and len(value) > 200:
        # Its whole `repr` may be as long as the file that it came from.
        value = value[:200]
    try:
        text = repr(value)
    # Lists in lists by the thousand; whole numbers of thousands of digits.
    except (RecursionError, ValueError):
        return f"a {type(value).__name__} too large to show"
    return cut(text, _MOST_CHARACTERS)


def cut(text: str, length: int = 300) -> str:
    """Cuts a text, such as the message of a library, to a length."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def listed(values: Collection[Any]) -> str:
    """Writes the first 20 values with commas, and how many more there are."""
    first = [shown(value) for value in itertools.islice(values, _MOST_NAMES)]
    rest = len(values) - len(first)
    return ", ".join(first) + (f" and {rest} more" if rest else "")
