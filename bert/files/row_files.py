"""Reader of the rows of TSV, CSV, JSON Lines and Parquet files."""

import collections
import csv
import dataclasses
import itertools
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeVar

from absl import logging

from bert.files import json_text, messages, paths, text_files

TSV, CSV, JSON_LINES, PARQUET = ".tsv", ".csv", ".jsonl", ".parquet"
FORMATS = (TSV, CSV, JSON_LINES, PARQUET)
# The endings of files of rows; Parquet has its own compression.
ENDINGS = (
    *FORMATS,
    *(
        form + compression
        for form in (TSV, CSV, JSON_LINES)
        for compression in text_files.COMPRESSIONS
    ),
)

# A column: its index (0 is the first, -1 the last) or its name in the header.
Column = int | str
_Value = TypeVar("_Value")
_Texts = tuple[
    int, list[str]
]  # The first line of a row, from 1, and its cells.

# The default limit of the csv module is 131,072 characters per field; a field
# here may be a complete document.
_MAX_FIELD_CHARACTERS = 2**31 - 1
_ROWS_AT_A_TIME = 64  # A row may be a book.
_CHUNK_BYTES = 1 << 20
_LINES_TO_CHECK = 100_000  # For the encoding in a message.
# Characters without width: joiners, marks of direction, byte-order marks.
_WITHOUT_WIDTH = dict.fromkeys(
    (0xAD, *range(0x200B, 0x2010), *range(0x2060, 0x2065), 0xFEFF)
)


class ColumnError(ValueError):
    """A column that is missing, repeated, or has a value of another kind."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A row of a file.

    Attributes:
        place: the file, and the first line or, in Parquet, the row, from 1.
        cells: a list of strings for TSV and CSV, a list for JSON arrays, and a
            mapping for JSON objects and Parquet.
        header: the column names of TSV and CSV, if the file has them.
    """

    place: str
    cells: Sequence[object] | dict[str, object]
    header: Sequence[str] | None = None

    def _key(self, column: Column) -> Column | None:
        """Returns the key or index of a column in `cells`, None if missing."""
        key: Column | None = column
        if self.header is not None and isinstance(column, str):
            names = self.header
            key = names.index(column) if column in names else None
        if isinstance(self.cells, dict):
            return key if key in self.cells else None
        count = len(self.cells)
        is_index = isinstance(key, int) and -count <= key < count
        return key if is_index else None

    def has(self, column: Column) -> bool:
        """Returns whether the row has a column."""
        return self._key(column) is not None

    def cell(self, column: Column) -> object:
        """Returns a cell.

        Raises:
            ColumnError: the row does not have the column.
        """
        key = self._key(column)
        if key is None:
            has = (
                f"the keys {messages.listed(self.cells)}"
                if isinstance(self.cells, dict)
                else f"{len(self.cells)} column(s), counted from 0"
            )
            raise ColumnError(
                f"{self.place}, column {column!r}: missing; the row has {has}."
            )
        return self.cells[key]  # type: ignore[index]

    def read(self, column: Column, parse: Callable[[object], _Value]) -> _Value:
        """Returns the parsed value of a cell.

        Raises:
            ColumnError: the row does not have the column, or `parse` rejects
                the value; names the position.
        """
        value = self.cell(column)
        try:
            return parse(value)
        except ValueError as error:
            raise ColumnError(
                f"{self.place}, column {column!r}: {error}"
            ) from error


def column_of(flag: str) -> Column:
    """Returns the column that a flag gives: a number from 0, or a name.

    >>> column_of("-1"), column_of("label")
    (-1, 'label')
    """
    return int(flag) if re.fullmatch(r"-?[0-9]+", flag) else flag


def text(value: object) -> str:
    """Checks that a cell is text, since JSON and Parquet have other types.

    Raises:
        ValueError: the value is not a string.
    """
    if not isinstance(value, str):
        raise ValueError(
            f"a text must be a string; got {messages.short(value)}."
        )
    return value


def spelling_key(name: str) -> str:
    r"""Returns what the spellings of a name have in common.

    They look the same: with composed accents or not, with or without characters
    of no width and blanks at the ends.

    Example:
        >>> spelling_key("cafe\u0301\u200b ")
        'café'
    """
    if not name.isascii():
        name = unicodedata.normalize("NFC", name).translate(_WITHOUT_WIDTH)
    return name.strip()


def format_of(path: str) -> str:
    """Returns the format that the ending of a name states, of `FORMATS`.

    Raises:
        ValueError: it states none of them.
    """
    name = path.lower()
    for ending in ENDINGS:
        if name.endswith(ending):
            return f".{ending.split('.')[1]}"
    raise ValueError(
        f"{path}: must end in {' or '.join(FORMATS)}; text may also be "
        f"compressed, as in .csv{' or .csv'.join(text_files.COMPRESSIONS)}."
    )


def read_rows(
    path: str,
    columns: Collection[Column] = (),
    *,
    has_header: bool,
    same_width: bool = False,
    file_format: str | None = None,
    optional: Collection[str] = (),
) -> Iterator[Row]:
    """Yields the rows of a file, without its header; none if it is empty.

    TSV as released: quotes are ordinary characters, so a row is a line, and
    every carriage return is dropped. CSV as in RFC 4180: quoted fields may
    contain commas, quotes and line ends. JSON Lines: one object or array per
    line. Lines end at "\\n" or "\\r\\n". A byte-order mark and blank lines at
    the end are ignored. Blank lines elsewhere are skipped and counted; in TSV
    they are rows.

    Args:
        path: the file, UTF-8, perhaps compressed.
        columns: those to read; a header must have their names.
        has_header: the first row of TSV and CSV has the column names.
        same_width: whether a TSV or CSV row must have as many cells as the
            first.
        file_format: one of `FORMATS`; by default the ending states it.
        optional: names of columns to read from Parquet if it has them.

    Raises:
        OSError: the file cannot be opened.
        ColumnError: the file does not have a name of `columns` exactly once.
        ValueError: the name of the file states no format, or a row is invalid;
            names the file and the line.
    """
    file_format = file_format or format_of(path)
    if file_format == PARQUET:
        yield from _parquet_rows(path, columns, optional)
        return
    if file_format == JSON_LINES:
        yield from json_rows(path, _numbered_lines(path))
        return
    rows = (_csv_rows if file_format == CSV else _tsv_rows)(path)
    header = None
    if has_header:
        line, header = next(rows, (1, None))
        if header is None:
            return
        try:
            _check_header(f"{path}, line {line}", header, columns)
        except ColumnError as error:
            advice = _separation(path, file_format, header)
            raise ColumnError(f"{error} {advice}") from None
    width = len(header) if header else None
    for line, cells in rows:
        width = width or len(cells)
        if same_width and len(cells) != width:
            raise ValueError(
                f"{path}, line {line}: the row has {len(cells)} column(s), the "
                f"first row has {width}."
            )
        yield Row(place=f"{path}, line {line}", cells=cells, header=header)


def _check_header(
    place: str, header: Sequence[str], columns: Collection[Column]
) -> None:
    for column in columns:
        if isinstance(column, str) and header.count(column) != 1:
            raise ColumnError(
                f"{place}: {header.count(column)} columns named {column!r}; "
                f"the columns are {messages.listed(header)}."
            )


def _separation(path: str, file_format: str, header: Sequence[str]) -> str:
    """Says how columns are separated, and how a file of others is converted.

    The command is one of Python, since Windows has no tool for it. It reads the
    whole file before it writes.
    """
    rule = "Commas separate the columns of a .csv file"
    if file_format == TSV:
        rule = "Tabs separate the columns of a .tsv file, and quotes are part "
        rule += "of its cells"
    has_tabs = file_format == TSV or any("\t" in name for name in header)
    other = "\t" if has_tabs else ";"
    rule = f"{rule}; is the line of names missing?"
    if not path.lower().endswith(file_format):
        return rule
    if file_format == CSV and not any(other in name for name in header):
        return rule  # The conversion would join columns that are right.
    encoding = "utf-8-sig"
    try:
        collections.deque(
            itertools.islice(text_files.read_lines(path), _LINES_TO_CHECK), 0
        )
    except ValueError:
        encoding = "cp1252"  # Of Western European Windows.
    new = f"{os.path.splitext(path)[0]}.csv"
    return (
        f"{rule} A table with quotes, semicolons or tabs is converted by: "
        'python -c "import csv, os; rows = [*csv.reader(open('
        f"{path!r}, newline='', encoding='{encoding}'), delimiter={other!r})]; "
        f"os.replace({path!r}, {path + '.old'!r}); csv.writer(open({new!r}, "
        "'w', newline='', encoding='utf-8')).writerows(rows)\""
    )


def _numbered_lines(path: str) -> Iterator[tuple[int, str]]:
    """Yields line numbers and lines, without blank lines at the end."""
    blank = []
    for number, line in enumerate(text_files.read_lines(path), start=1):
        if "\0" in line:
            raise ValueError(
                f"{path}, line {number}: contains a NUL byte. "
                "The file is damaged, or not text."
            )
        # Other lines end the first test at their first character.
        if (not line or line.isspace()) and not line.strip(" \r"):
            blank.append((number, line))
            continue
        if blank:
            yield from blank
            blank.clear()
        yield number, line


def _tsv_rows(path: str) -> Iterator[_Texts]:
    # As released: literal quotes, so the line is only split at tabs, and every
    # carriage return is dropped.
    for number, line in _numbered_lines(path):
        yield number, line.replace("\r", "").split("\t")


def _csv_rows(path: str) -> Iterator[_Texts]:
    csv.field_size_limit(_MAX_FIELD_CHARACTERS)
    rows = csv.reader((f"{x}\n" for _, x in _numbered_lines(path)), strict=True)
    first_line, num_blank = 1, 0
    try:
        for cells in rows:
            if cells:
                yield first_line, cells
            num_blank += not cells
            first_line = rows.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {first_line}: not CSV ({error}); quotes inside a "
            "quoted field are doubled."
        ) from error
    _log_blank(path, num_blank)


def _log_blank(path: str, num_blank: int) -> None:
    if num_blank:
        logging.warning("%s: skipped %d blank line(s)", path, num_blank)


def json_rows(path: str, numbered: Iterable[tuple[int, str]]) -> Iterator[Row]:
    """Yields the rows of JSON Lines.

    Args:
        path: the file, for messages.
        numbered: its lines, numbered from 1.

    Raises:
        ValueError: a line is not a JSON object or array.
    """
    num_blank = 0
    for number, line in numbered:
        if not line.strip():
            num_blank += 1
            continue
        place = f"{path}, line {number}"
        try:
            cells = json_text.parse(line, place)
        except ValueError as error:
            raise ValueError(f"{error} Each line is one object.") from error
        if not isinstance(cells, dict | list):
            raise ValueError(
                f"{place}: each line must be a JSON object or array; got "
                f"{line[:40]!r}."
            )
        yield Row(place=place, cells=cells)
    _log_blank(path, num_blank)


def _parquet_rows(
    path: str, columns: Collection[Column], optional: Collection[str]
) -> Iterator[Row]:
    import pyarrow
    from pyarrow import parquet

    paths.check_readable(path)  # pyarrow opens remote files itself.
    try:
        file = parquet.ParquetFile(
            path, buffer_size=_CHUNK_BYTES, pre_buffer=False
        )
        names = file.schema_arrow.names
        _check_header(path, names, columns)
        wanted = {*columns, *optional} & {*names} or {*names}
        number = 0
        for batch in file.iter_batches(
            _ROWS_AT_A_TIME,
            columns=[name for name in names if name in wanted],
            use_threads=False,
        ):
            for cells in batch.to_pylist():
                number += 1
                yield Row(place=f"{path}, row {number}", cells=cells)
    # Damaged pages raise an OSError without errno.
    except (pyarrow.ArrowException, UnicodeDecodeError, OSError) as error:
        raise ValueError(
            f"{path}: not Parquet, or damaged "
            f"({messages.truncate(str(error), 100)})."
        ) from error
