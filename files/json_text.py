"""JSON parsing with one kind of error, shape checks and finite numbers."""

import json
import math
from typing import Any

from files import messages, paths

_NAMES = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    list: "a list",
    bool: "true or false",
    dict: "an object",
}
_LARGEST_FLOAT32 = (2 - 2**-23) * 2.0**127


def parse(content: bytes, path: str) -> Any:
    """Parses a file of JSON.

    Args:
        content: of the file, UTF-8; a byte-order mark is allowed, as editors
            on Windows write one.
        path: of the file, for messages.

    Raises:
        ValueError: it is not UTF-8 or not JSON, or is nested too deep to be
            read; the message has the path and, where there is one, the place.
    """
    try:
        return json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: must be UTF-8; byte {error.start} is not."
        ) from error
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {error.lineno}, column {error.colno}: must be "
            f"JSON: {error.msg}."
        ) from error
    # Brackets by the thousand; numbers of thousands of digits.
    except (RecursionError, ValueError) as error:
        raise ValueError(f"{path}: must be JSON ({error}).") from error


def parse_line(line: str, where: str) -> Any:
    """Parses a line of JSON.

    Args:
        line: without its end.
        where: the file and the number of the line, for messages.

    Raises:
        ValueError: it is not JSON, or is nested too deep to be read; the
            message has the place.
    """
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{where}: not JSON ({error.msg} at column {error.colno})."
        ) from error
    except (RecursionError, ValueError) as error:
        raise ValueError(f"{where}: not JSON ({error}).") from error


def read(path: str) -> Any:
    """Reads a file of JSON.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it is not JSON; see `parse`.
    """
    with paths.open_to_read(path) as file:
        return parse(file.read(), path)


def has_shape(value: Any, shape: Any) -> bool:
    """Returns whether a JSON value holds the values of a shape, of its types.

    Args:
        value: parsed JSON.
        shape: a type for a value of it; a list of one shape for a list of
            such values; a dict for an object that has these names, "*" for
            all of its names; a tuple for one of several shapes, of which
            `type(None)` is also that of a value that is not there.
    """
    if isinstance(shape, tuple):
        return any(has_shape(value, part) for part in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(
            has_shape(each, shape[0]) for each in value
        )
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(
            all(has_shape(each, part) for each in value.values())
            if name == "*"
            else has_shape(value.get(name), part)
            for name, part in shape.items()
        )
    return isinstance(value, shape)


def field(record: Any, name: str, kind: Any, where: str) -> Any:
    """Returns a field of a parsed object.

    Args:
        record: should be an object of JSON.
        name: of the field.
        kind: the type that its value must have, or several.
        where: the path to `record`, for messages.

    Raises:
        ValueError: no object, no such field, or one of another type.
    """
    if not isinstance(record, dict):
        raise ValueError(
            f"{where} must be an object; got {type(record).__name__}."
        )
    if name not in record:
        raise ValueError(
            f"{where}.{name} is missing; the object has "
            f"{messages.listed(record) or 'no fields'}."
        )
    kinds = kind if isinstance(kind, tuple) else (kind,)
    # A truth value is a whole number to Python alone.
    is_stray = isinstance(record[name], bool) and bool not in kinds
    if is_stray or not isinstance(record[name], kinds):
        raise ValueError(
            f"{where}.{name} must be "
            f"{' or '.join(_NAMES[kind] for kind in kinds)}; "
            f"got {messages.short(record[name])}."
        )
    return record[name]


def is_number(value: Any) -> bool:
    """Returns whether a value of JSON is a number that a float32 can hold."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) <= _LARGEST_FLOAT32
    )


def read_object(path: str) -> dict[str, Any]:
    """Reads a file of one JSON object.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it holds something else.
    """
    value = read(path)
    if not isinstance(value, dict):
        raise ValueError(
            f"{path}: must hold a JSON object; got {type(value).__name__}."
        )
    return value


def finite(value: Any) -> Any:
    """Replaces numbers that JSON lacks, infinite ones and NaN, by None."""
    if isinstance(value, dict):
        return {key: finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
