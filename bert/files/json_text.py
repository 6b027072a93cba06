"""JSON parsing with uniform errors, and checks of JSON values."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any, TypeAlias, TypeGuard

from bert.files import lines, messages, paths

# A parsed object, whose values are of any type until they are checked.
Object: TypeAlias = dict[str, Any]

_NAMES = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    list: "a list",
    bool: "true or false",
    dict: "an object",
    type(None): "null",
}
_LARGEST_FLOAT32 = (2 - 2**-23) * 2.0**127


def parse(content: bytes | str, where: str) -> Any:
    """Parses JSON.

    Args:
        content: UTF-8; a byte-order mark is allowed, because editors on Windows
            write one.
        where: the file, and perhaps its line, for messages.

    Raises:
        ValueError: it is not UTF-8 or not JSON, or is nested too deeply.
    """
    try:
        if isinstance(content, bytes):
            content = content.decode("utf-8-sig")
        return json.loads(content)
    except (RecursionError, ValueError) as error:
        raise ValueError(f"{where}: must be JSON ({error}).") from error


def read(path: str) -> Any:
    """Reads a JSON file.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it is not JSON; see `parse` and `lines.read_lines`.
    """
    # `read_lines` drops carriage returns, also inside a word.
    text = "\n".join(
        lines.utf8(line, path, number)
        for number, line in enumerate(lines.read_raw_lines(path), start=1)
    )
    return parse(text.removeprefix(lines.BYTE_ORDER_MARK), path)


def read_log(path: str) -> Iterator[Object]:
    """Yields the objects of JSON lines that programs append to a file.

    Other lines are skipped: a full disk or a killed program leaves one. A
    missing file has no lines.

    Raises:
        OSError: the file cannot be read.
    """
    if not paths.exists(path):
        return
    with paths.open_to_read(path) as file:
        content = file.read()
    for line in content.split(b"\n"):
        with contextlib.suppress(ValueError):
            value = parse(line, path)
            if isinstance(value, dict):
                yield value


def field(
    record: object, name: str, kind: type | tuple[type, ...], where: str
) -> Any:
    """Returns a field of a parsed object.

    Args:
        record: parsed JSON, expected to be an object.
        name: of the field.
        kind: the required type of its value, or several.
        where: the path to `record`, for messages.

    Raises:
        ValueError: `record` is not an object, or the field is missing or has
            another type.
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
    # A bool is an int in Python, but not in JSON.
    is_stray = isinstance(record[name], bool) and bool not in kinds
    is_stray |= float in kinds and not is_number(record[name])
    if is_stray or not isinstance(record[name], kinds):
        raise ValueError(
            f"{where}.{name} must be "
            f"{' or '.join(_NAMES[kind] for kind in kinds)}; "
            f"got {messages.short(record[name])}."
        )
    return record[name]


def is_number(value: object) -> TypeGuard[float]:
    """Returns whether a JSON value is a number in the range of float32."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) <= _LARGEST_FLOAT32
    )


def read_object(path: str) -> Object:
    """Reads a file of one JSON object.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it is not a JSON object.
    """
    value = read(path)
    if not isinstance(value, dict):
        raise ValueError(
            f"{path}: must be a JSON object; got {type(value).__name__}."
        )
    return value
