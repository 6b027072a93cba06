"""Reader of TSV, CSV and JSON Lines files, with line numbers."""

import csv
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from absl import logging

from files import json_text, lines, messages

TSV, CSV, JSONL = FORMATS = ("tsv", "csv", "jsonl")
FORMAT_OF_ENDING = {f".{name}": name for name in FORMATS}

# A column: its index (0 is the first, -1 the last) or its name in the header.
Column = int | str
_Value = TypeVar("_Value")

# The default limit of the csv module is 131,072 characters per field; a field
# here may be a complete document.
_MAX_FIELD_CHARACTERS = 2**31 - 1


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A row: its cells, and its first line from 1.

    `cells` is a list of strings for TSV and CSV, a list for JSON arrays, and a
    mapping for JSON objects.
    """

    line: int
    cells: list[Any] | dict[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """A file of rows.

    Args:
        path: the file.
        header: cells of the first row if it has the column names, else None.
        rows: the other rows, in order; a one-pass iterator.
    """

    path: str
    header: list[str] | None
    rows: Iterator[Row]

    def find(self, column: Column) -> Column:
        """Returns the index of a column name, once for all rows.

        Indices, and keys of JSON objects, are returned unchanged.

        Raises:
            ValueError: the header does not have the name exactly once.
        """
        if isinstance(column, int) or self.header is None:
            return column
        count = self.header.count(column)
        if count != 1:
            raise ValueError(
                f"{self.path}, line 1: {count} columns named {column!r}; the "
                f"columns are {messages.listed(self.header)}. They are "
                "separated by commas in .csv and tabs in .tsv. If the file has "
                "no header, give column numbers from 0."
            )
        return self.header.index(column)

    def place(self, row: Row, column: Column) -> str:
        """Describes the position of a cell for error messages."""
        name, width = repr(column), len(self.header or [])
        if self.header and isinstance(column, int) and -width <= column < width:
            name += f" ({messages.short(self.header[column])})"
        return f"{self.path}, line {row.line}, column {name}"

    def cell(self, row: Row, column: Column) -> Any:
        """Returns the cell of a row in a column from `find`.

        Raises:
            ValueError: the row does not have the column.
        """
        cells: Any = row.cells
        try:
            return cells[column]
        except (IndexError, KeyError, TypeError):
            pass
        has = f"{len(row.cells)} column(s), counted from 0"
        if isinstance(row.cells, dict):
            has = f"the keys {messages.listed(row.cells)}"
        raise ValueError(
            f"{self.place(row, column)}: missing; the row has {has}."
        )

    def read(
        self, row: Row, column: Column, parse: Callable[[Any], _Value]
    ) -> _Value:
        """Returns the parsed value of a cell.

        Raises:
            ValueError: the row does not have the column, or `parse` rejects the
                value; names the position.
        """
        value = self.cell(row, column)
        try:
            return parse(value)
        except ValueError as error:
            raise ValueError(f"{self.place(row, column)}: {error}") from error


def text(value: Any) -> str:
    """Checks that a cell is text, since JSON has other types.

    Raises:
        ValueError: the value is not a string.
    """
    if not isinstance(value, str):
        raise ValueError(
            f"a text must be a string; got {messages.short(value)}."
        )
    return value


def open_table(
    path: str, file_format: str, *, has_header: bool, same_width: bool = False
) -> Table:
    """Opens a file of rows; skips a byte-order mark.

    TSV as released: quotes are ordinary characters, so a row is a line. CSV as
    in RFC 4180: quoted fields may contain commas, quotes and line ends. JSON
    Lines: one object or array per line. Blank lines at the end of a file are
    ignored; others are skipped and counted, except in TSV.

    Args:
        path: the file, UTF-8.
        file_format: one of `FORMATS`.
        has_header: the first row has the column names; ignored for JSON Lines.
        same_width: whether a TSV or CSV row must have as many cells as the
            first.

    Raises:
        OSError: the file cannot be opened.
        ValueError: the file is empty, or, while reading rows, a row is
            invalid; names the file and the line.
    """
    readers = {TSV: _tsv_rows, CSV: _csv_rows, JSONL: _json_rows}
    rows = readers[file_format](path)
    if same_width and file_format != JSONL:
        rows = _of_one_width(rows, path)
    header = None
    if has_header and file_format != JSONL:
        first = next(rows, None)
        if first is None:
            raise ValueError(f"{path}: the file is empty.")
        header = list(first.cells)
    return Table(path=path, header=header, rows=rows)


def _clean_lines(path: str) -> Iterator[tuple[int, str]]:
    """Yields line numbers and lines, without blank lines at the end."""
    blank = []
    for number, raw_line in enumerate(lines.read_lines(path), start=1):
        if "\0" in raw_line:
            raise ValueError(
                f"{path}, line {number}: contains a NUL byte. "
                "The file is damaged, or not text."
            )
        line = raw_line
        if number == 1:
            line = raw_line.removeprefix(lines.BYTE_ORDER_MARK)
        if not line.strip(" "):
            blank.append((number, line))
            continue
        yield from blank
        blank.clear()
        yield number, line


def _tsv_rows(path: str) -> Iterator[Row]:
    # As released: literal quotes, so the line is only split at tabs.
    for number, line in _clean_lines(path):
        yield Row(number, line.split("\t"))


def _csv_rows(path: str) -> Iterator[Row]:
    csv.field_size_limit(_MAX_FIELD_CHARACTERS)
    text = (line + "\n" for _, line in _clean_lines(path))
    reader = csv.reader(text, strict=True)
    first_line, num_blank = 1, 0
    try:
        for cells in reader:
            if cells:
                yield Row(first_line, cells)
            num_blank += not cells
            first_line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {first_line}: not CSV ({error}); quotes inside a "
            "quoted field are doubled."
        ) from error
    _log_blank(path, num_blank)


def _log_blank(path: str, num_blank: int) -> None:
    if num_blank:
        logging.warning("%s: skipped %d blank line(s)", path, num_blank)


def _json_rows(path: str) -> Iterator[Row]:
    num_blank = 0
    for number, line in _clean_lines(path):
        if not line.strip():
            num_blank += 1
            continue
        cells = json_text.parse(line, f"{path}, line {number}")
        if not isinstance(cells, dict | list):
            raise ValueError(
                f"{path}, line {number}: each line must be a JSON object or "
                f"array; got {line[:40]!r}."
            )
        yield Row(number, cells)
    _log_blank(path, num_blank)


def _of_one_width(rows: Iterator[Row], path: str) -> Iterator[Row]:
    width = None
    for row in rows:
        width = width or len(row.cells)
        if len(row.cells) != width:
            raise ValueError(
                f"{path}, line {row.line}: the row has {len(row.cells)} "
                f"column(s), the first row has {width}."
            )
        yield row
