"""Reader of TSV, CSV and JSON Lines files, with line numbers."""

import csv
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from absl import logging

from bert.files import json_text, lines, messages

ENDINGS = (".tsv", ".csv", ".jsonl")

# A column: its index (0 is the first, -1 the last) or its name in the header.
Column = int | str
_Value = TypeVar("_Value")
_Texts = tuple[
    int, list[str]
]  # The first line of a row, from 1, and its cells.

# The default limit of the csv module is 131,072 characters per field; a field
# here may be a complete document.
_MAX_FIELD_CHARACTERS = 2**31 - 1


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A row of a file.

    Attributes:
        path: the file.
        line: its first line, from 1.
        cells: a list of strings for TSV and CSV, a list for JSON arrays, and a
            mapping for JSON objects.
        header: the column names of TSV and CSV, if the file has them.
    """

    path: str
    line: int
    cells: Sequence[object] | dict[str, object]
    header: Sequence[str] | None = None

    def cell(self, column: Column) -> object:
        """Returns a cell.

        Raises:
            ValueError: the row does not have the column.
        """
        place = column
        if self.header is not None and isinstance(column, str):
            place = self.header.index(column)
        if isinstance(self.cells, dict):
            if isinstance(place, str) and place in self.cells:
                return self.cells[place]
            has = f"the keys {messages.listed(self.cells)}"
        else:
            count = len(self.cells)
            if isinstance(place, int) and -count <= place < count:
                return self.cells[place]
            has = f"{count} column(s), counted from 0"
        raise ValueError(
            f"{self.path}, line {self.line}, column {column!r}: missing; the "
            f"row has {has}."
        )

    def read(self, column: Column, parse: Callable[[object], _Value]) -> _Value:
        """Returns the parsed value of a cell.

        Raises:
            ValueError: the row does not have the column, or `parse` rejects the
                value; names the position.
        """
        value = self.cell(column)
        try:
            return parse(value)
        except ValueError as error:
            raise ValueError(
                f"{self.path}, line {self.line}, column {column!r}: {error}"
            ) from error


def text(value: object) -> str:
    """Checks that a cell is text, since JSON has other types.

    Raises:
        ValueError: the value is not a string.
    """
    if not isinstance(value, str):
        raise ValueError(
            f"a text must be a string; got {messages.short(value)}."
        )
    return value


def read_rows(
    path: str,
    columns: Iterable[Column] = (),
    *,
    has_header: bool,
    same_width: bool = False,
) -> Iterator[Row]:
    """Yields the rows of a file, without its header.

    TSV as released: quotes are ordinary characters, so a row is a line. CSV as
    in RFC 4180: quoted fields may contain commas, quotes and line ends. JSON
    Lines: one object or array per line. Blank lines at the end of a file are
    ignored; others are skipped and counted, except in TSV. So is a byte-order
    mark.

    Args:
        path: the file, UTF-8; one of `ENDINGS` tells its format.
        columns: those to read; a header must have their names.
        has_header: the first row has the column names; ignored for JSON Lines.
        same_width: whether a TSV or CSV row must have as many cells as the
            first.

    Raises:
        OSError: the file cannot be opened.
        ValueError: the file has another ending or is empty, its header does not
            have a name exactly once, or a row is invalid; names the file and
            the line.
    """
    ending = os.path.splitext(path)[1].lower()
    if ending not in ENDINGS:
        raise ValueError(f"{path}: must end in {' or '.join(ENDINGS)}.")
    if ending == ".jsonl":
        yield from _json_rows(path)
        return
    rows = _csv_rows(path) if ending == ".csv" else _tsv_rows(path)
    header = None
    if has_header:
        _, header = next(rows, (1, None))
        if header is None:
            raise ValueError(f"{path}: the file is empty.")
        _check_header(path, header, columns)
    width = len(header) if header else None
    for line, cells in rows:
        width = width or len(cells)
        if same_width and len(cells) != width:
            raise ValueError(
                f"{path}, line {line}: the row has {len(cells)} column(s), the "
                f"first row has {width}."
            )
        yield Row(path=path, line=line, cells=cells, header=header)


def _check_header(
    path: str, header: Sequence[str], columns: Iterable[Column]
) -> None:
    for column in columns:
        if isinstance(column, str) and header.count(column) != 1:
            raise ValueError(
                f"{path}, line 1: {header.count(column)} columns named "
                f"{column!r}; the columns are {messages.listed(header)}. They "
                "are separated by commas in .csv and tabs in .tsv. If the file "
                "has no header, give column numbers from 0."
            )


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


def _tsv_rows(path: str) -> Iterator[_Texts]:
    # As released: literal quotes, so the line is only split at tabs.
    for number, line in _clean_lines(path):
        yield number, line.split("\t")


def _csv_rows(path: str) -> Iterator[_Texts]:
    csv.field_size_limit(_MAX_FIELD_CHARACTERS)
    text = (line + "\n" for _, line in _clean_lines(path))
    reader = csv.reader(text, strict=True)
    first_line, num_blank = 1, 0
    try:
        for cells in reader:
            if cells:
                yield first_line, cells
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
        yield Row(path=path, line=number, cells=cells)
    _log_blank(path, num_blank)
