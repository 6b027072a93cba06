"""Examples read from a file whose columns are described, whatever its task."""

import dataclasses
import itertools
from collections.abc import Iterator

from absl import logging

from files import wording
from tasks import tables
from tasks.classification import labels, sentence_pairs

_MAX_LINES_SHOWN = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """Where a file keeps its texts and labels.

    Args:
        text_a: column of the first, or only, text.
        text_b: column of the second text, if there is one.
        label: column of the label, if there is one.
        guid: column that ends the examples' guids; by default the number of
            the line, from 0.
        only: a column and the value of the rows to be read; all, if None.
        file_format: one of `tables.FORMATS`.
        has_header: whether the first row names the columns.
        same_width: whether all rows must have as many columns as the first.
        skip_short_rows: whether rows that end too early are left out, with a
            count in the log, instead of being an error.
    """

    text_a: tables.Column
    text_b: tables.Column | None = None
    label: tables.Column | None = None
    guid: tables.Column | None = None
    only: tuple[tables.Column, str] | None = None
    file_format: str = tables.TSV
    has_header: bool = True
    same_width: bool = False
    skip_short_rows: bool = False


def read_examples(
    path: str,
    layout: Layout,
    label_set: labels.LabelSet,
    *,
    guid_prefix: str,
    with_labels: bool = True,
) -> list[sentence_pairs.InputExample]:
    """Reads the examples of a file.

    Args:
        path: the file.
        layout: its columns.
        label_set: the labels it may hold.
        guid_prefix: begins the guids, as in "dev-17".
        with_labels: whether labels are needed; if not, the column is left
            unread and every example carries `label_set.placeholder`.

    Raises:
        OSError: the file cannot be opened.
        ValueError: a row cannot be read, or there is none; names the file,
            the line and the column.
    """
    if with_labels and layout.label is None:
        raise ValueError(
            f"{path}: labels are needed here, and no label column is named "
            "(test files may have none; training and evaluation need one)."
        )
    if not with_labels:
        layout = dataclasses.replace(layout, label=None)
    is_named = isinstance(layout.label, str)
    table, layout = _open(path, layout)
    if not is_named:
        _warn_of_headless_file(table, layout, label_set)
    examples = []
    for row in _rows(table, layout):
        guid = row.line - 1
        if layout.guid is not None:
            guid = table.cell(row, layout.guid)
        text_b = None
        if layout.text_b is not None:
            text_b = _text(table, row, layout.text_b)
        examples.append(
            sentence_pairs.InputExample(
                guid=f"{guid_prefix}-{guid}",
                text_a=_text(table, row, layout.text_a),
                text_b=text_b,
                label=_label(table, row, layout.label, label_set),
            )
        )
    if not examples:
        only = f" with {layout.only[1]!r} where asked" if layout.only else ""
        raise ValueError(f"{path}: the file holds no example{only}.")
    return examples


def discover_labels(
    path: str, layout: Layout, problem_type: str, separator: str = ","
) -> labels.LabelSet:
    """Makes a label set of the labels that a training file holds.

    Raises:
        OSError: the file cannot be opened.
        ValueError: as `read_examples` and `labels.discover`.
    """
    if problem_type == labels.REGRESSION:
        return labels.LabelSet(problem_type=problem_type)
    if layout.label is None:
        raise ValueError(
            f"{path}: the labels cannot be found without a label column."
        )
    table, layout = _open(path, layout)
    cells = (
        (table.place(row, layout.label), table.cell(row, layout.label))
        for row in _rows(table, layout)
    )
    first = next(cells, None)
    if first is None:
        raise ValueError(f"{path}: the file holds no example.")
    return labels.discover(
        itertools.chain([first], cells),
        problem_type,
        separator,
        # Keys of JSON objects name their values in every row.
        has_header=table.header is not None or isinstance(layout.label, str),
    )


def _open(path: str, layout: Layout) -> tuple[tables.Table, Layout]:
    """Opens a file and turns the names of its columns into places."""
    table = tables.open_table(
        path,
        layout.file_format,
        has_header=layout.has_header,
        same_width=layout.same_width,
    )
    places = {
        name: table.find(getattr(layout, name))
        for name in ("text_a", "text_b", "label", "guid")
        if getattr(layout, name) is not None
    }
    if layout.only is not None:
        places["only"] = (table.find(layout.only[0]), layout.only[1])
    return table, dataclasses.replace(layout, **places)


def _rows(table: tables.Table, layout: Layout) -> Iterator[tables.Row]:
    """Yields the rows that a layout asks for."""
    short = []
    width = 1 + max(
        (
            column
            for column in (layout.text_a, layout.text_b, layout.label)
            if isinstance(column, int)
        ),
        default=0,
    )
    for row in table.rows:
        if layout.only is not None:
            column, value = layout.only
            if table.cell(row, column) != value:
                continue
        if layout.skip_short_rows and len(row.cells) < width:
            short.append(row.line)
            continue
        yield row
    if short:
        shown = ", ".join(map(str, short[:_MAX_LINES_SHOWN]))
        more = ", ..." if len(short) > _MAX_LINES_SHOWN else ""
        logging.warning(
            "%s: left out %d row(s) that have fewer than %d columns, a known "
            "damage of this data set (lines %s%s)",
            *(table.path, len(short), width, shown, more),
        )


def _text(table: tables.Table, row: tables.Row, column: tables.Column) -> str:
    text = table.cell(row, column)
    if not isinstance(text, str):
        raise ValueError(
            f"{table.place(row, column)}: a text must be a string; "
            f"got {wording.shown(text)}."
        )
    return text


def _label(
    table: tables.Table,
    row: tables.Row,
    column: tables.Column | None,
    label_set: labels.LabelSet,
) -> labels.Label:
    if column is None:
        return label_set.placeholder
    value = table.cell(row, column)
    try:
        return label_set.parse(value)
    except ValueError as error:
        raise ValueError(f"{table.place(row, column)}: {error}") from error


def _warn_of_headless_file(
    table: tables.Table, layout: Layout, label_set: labels.LabelSet
) -> None:
    # As released, the first line of a file with a header is skipped unread;
    # in a file that lost its header that line is an example.
    if table.header is None or layout.label is None:
        return
    first = tables.Row(1, table.header)
    try:
        label_set.parse(table.cell(first, layout.label))
    except ValueError:
        return
    logging.warning(
        "%s: the first line, taken for a header, has a label in its label "
        "column; if the file has no header, its first example is lost",
        table.path,
    )
