"""Warnings of a header that is read as a row, and of a row that is a header.

Columns with names have a header, columns with numbers alone have none, and
files of GLUE and XNLI have that of their authors. Nothing in a file says so.
"""

import itertools
import re
from collections.abc import Sequence

from absl import logging

from bert.files import messages
from bert.tasks import tables, task
from bert.tasks.classification import class_labels, datasets

_NUM_ROWS = 1000  # Number of rows that are compared with the first.
# Names of columns are short: "#1 String", "Review text".
_MOST_WORDS = 4
_NAME = re.compile(r"[A-Za-zÀ-ɏ_#][\w.-]{0,30}")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")


def check(file: datasets.TextFile, *, with_labels: bool) -> None:
    """Warns if the first line of a file is read as what it is not.

    Args:
        file: the file; JSON Lines have no header.
        with_labels: whether the labels are read.

    Raises:
        OSError: the file cannot be opened.
        ValueError: one of the first rows cannot be read; names the line.
    """
    layout = file.split.layout
    if file.path.lower().endswith(".jsonl"):
        return
    rows = list(
        itertools.islice(
            tables.read_rows(
                file.path,
                has_header=layout.has_header,
                same_width=layout.same_width,
            ),
            _NUM_ROWS,
        )
    )
    if not rows:
        return
    label = layout.label if with_labels else None
    if layout.has_header:
        header = rows[0].header or ()
        if is_example(header, layout, label, file.label_set):
            logging.warning(
                "%s, line 1: %s is taken for the names of the columns, but "
                "looks like an example, which is not read. Is the line of "
                "names missing?",
                *(file.path, messages.listed(header)),
            )
        return
    cells = [[*map(str, row.cells)] for row in rows]
    if is_header(cells, layout, label, file.label_set):
        logging.warning(
            "%s, line 1: %s looks like the names of the columns, but is read "
            "as an example. Remove the line, or name the columns of your own "
            "files: --text_a_column=%s.",
            *(file.path, messages.listed(cells[0])),
            _cell(cells[0], layout.text_a),
        )


def is_header(
    rows: Sequence[Sequence[str]],
    layout: datasets.Layout,
    label: tables.Column | None,
    label_set: class_labels.LabelSet,
) -> bool:
    """Returns whether the first row is unlike the others, as a header is."""
    first, *others = rows
    if not others:
        return False
    looks_different = _are_names(first) and not any(map(_are_names, others))
    if not isinstance(label, int):
        return looks_different
    first_labels, *more = (_names(_cell(row, label), label_set) for row in rows)
    of_others: set[str] = set().union(*more)
    if not first_labels or first_labels & of_others:
        return False
    if all(map(_NUMBER.fullmatch, of_others)):
        return not any(map(_NUMBER.fullmatch, first_labels))
    # A rare label may be first; its text is rarely as short as a name.
    is_repeated = len(of_others) < len(others)
    is_short = _num_words(_cell(first, layout.text_a)) <= _MOST_WORDS
    return looks_different or (is_repeated and is_short)


def is_example(
    header: Sequence[str],
    layout: datasets.Layout,
    label: tables.Column | None,
    label_set: class_labels.LabelSet,
) -> bool:
    """Returns whether the names of columns that have numbers are an example."""
    if not isinstance(layout.text_a, int):
        return False  # The header has the names that are looked for.
    if layout.only and _cell(header, layout.only[0]) == layout.only[1]:
        return True
    if isinstance(label, int) and _is_label(_cell(header, label), label_set):
        return True
    return any(map(_NUMBER.fullmatch, header)) or (
        _num_words(_cell(header, layout.text_a)) > _MOST_WORDS
    )


def _cell(row: Sequence[str], column: tables.Column | None) -> str:
    if isinstance(column, int) and -len(row) <= column < len(row):
        return row[column]
    return ""  # The row is refused when it is read.


def _are_names(row: Sequence[str]) -> bool:
    # A text of two words alone may be an example.
    most_words = 1 if len(row) == 1 else _MOST_WORDS
    return all(
        0 < _num_words(cell) <= most_words
        and all(map(_NAME.fullmatch, cell.split()))
        for cell in row
    )


def _names(cell: str, label_set: class_labels.LabelSet) -> set[str]:
    if label_set.problem_type == task.MULTI_LABEL:
        return {part.strip() for part in cell.split(",")} - {""}
    return {cell.strip()} - {""}


def _is_label(cell: str, label_set: class_labels.LabelSet) -> bool:
    try:
        label_set.parse(cell)
    except ValueError:
        return False
    return True


def _num_words(text: str) -> int:
    return len(text.split())
