"""Classification data sets: their splits, files and examples."""

import collections
import dataclasses
import functools
import os
import random
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from absl import logging

from bert.files import messages, paths, row_files
from bert.tasks import task
from bert.tasks.classification import class_labels, text_examples

_HOLD_OUT = (
    " Without a dev file, --dev_fraction=0.1 holds out a tenth of the training "
    "file."
)
_HELD_OUT = (
    " --dev_fraction holds rows of it out; --dev_fraction=0 evaluates the "
    "dev file."
)
_LEFT_OUT = "left out"
_SPLIT_SEED = 12345  # `held_out` does not depend on the seed of the training.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """Columns and header of a file.

    Args:
        text_a: column of the first, or only, text.
        text_b: column of the second text, if there is one.
        label: column of the label, if there is one.
        row_filter: a column and the value of the rows to read; None for all.
        has_header: whether the first row has the column names.
        same_width: whether all rows must have as many columns as the first.
        skip_short_rows: whether rows with fewer columns than the header are
            dropped, instead of being an error.
    """

    text_a: row_files.Column
    text_b: row_files.Column | None = None
    label: row_files.Column | None = None
    row_filter: tuple[row_files.Column, str] | None = None
    has_header: bool = True
    same_width: bool = False
    skip_short_rows: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitInfo:
    """A file of a split.

    Args:
        files: possible paths in the data set's folder, preferred first.
        layout: its columns.
        suffix: of the names of its results; "" for the file of the release,
            which must exist.
        submission: the name, without ".tsv", under which the GLUE server
            accepts predictions for it; empty if it does not.
        if_missing: the message if there is none of the files; by default it
            names them.
    """

    files: tuple[str, ...]
    layout: Layout
    suffix: str = ""
    submission: str = ""
    if_missing: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetInfo:
    """A data set: labels, metrics (the first selects checkpoints) and splits.

    `splits` has the files of `task.TRAIN`, `EVAL` and `PREDICT`, that of the
    release first.
    """

    name: str
    label_set: class_labels.LabelSet
    metrics: tuple[str, ...]
    splits: Mapping[str, tuple[SplitInfo, ...]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextFile:
    """The file of a split, or a part of its examples.

    Args:
        split: describes it.
        path: path of the file.
        label_set: the allowed labels.
        dev_fraction: the share of its examples that is held out.
        is_held_out: whether this is the held-out share, not the rest.
        has_labels: whether labels are read.
        is_complete: whether rows without a label are examples too, as they are
            to be predicted.
    """

    split: SplitInfo
    path: str
    label_set: class_labels.LabelSet
    dev_fraction: float = 0.0
    is_held_out: bool = False
    has_labels: bool = True
    is_complete: bool = False

    def made_from(self) -> dict[str, object]:
        """Returns what its examples depend on."""
        return {
            "data_sha256": paths.sha256(self.path),
            "layout": dataclasses.asdict(self.split.layout),
            "labels": dataclasses.asdict(self.label_set),
            "dev_fraction": self.dev_fraction,
            "is_held_out": self.is_held_out,
            "has_labels": self.has_labels,
        }

    @functools.cached_property
    def labeled_places(self) -> np.ndarray:
        """The places of the examples that have a label, `[L]` int64."""
        return np.flatnonzero([e.label is not None for e in self.examples()])

    def examples(self) -> list[text_examples.InputExample]:
        """Reads its examples.

        Raises:
            OSError: the file cannot be opened.
            ValueError: a row cannot be read; names file and line.
        """
        examples = read_examples(
            self.path,
            self.split.layout,
            self.label_set,
            with_labels=self.has_labels,
            is_complete=self.is_complete,
        )
        if self.dev_fraction:
            chosen = held_out(labels_of(examples), self.dev_fraction)
            examples = [
                example
                for place, example in enumerate(examples)
                if (place in chosen) == self.is_held_out
            ]
        return examples


def labels_of(
    examples: Iterable[text_examples.InputExample],
) -> list[class_labels.Label]:
    """Lists the labels of the examples that have one."""
    return [e.label for e in examples if e.label is not None]


def held_out(
    label_of: Sequence[class_labels.Label],
    fraction: float,
    *,
    seed: int = _SPLIT_SEED,
    flag: str = "--dev_fraction",
) -> set[int]:
    """Draws a share of examples, stratified by label; returns their places.

    Raises:
        ValueError: none would be held out, or none would be left.
    """
    order = list(range(len(label_of)))
    random.Random(seed).shuffle(order)
    order.sort(key=lambda place: _sort_key(label_of[place]))
    ends = [int(number * fraction + 0.5) for number in range(len(order) + 1)]
    drawn = {
        place
        for number, place in enumerate(order)
        if ends[number] < ends[number + 1]
    }
    if not 0 < len(drawn) < len(label_of):
        raise ValueError(
            f"{flag} must leave rows to train on and rows to evaluate on; "
            f"{fraction:g} of {len(label_of)} rows are {len(drawn)}."
        )
    return drawn


def _sort_key(label: class_labels.Label) -> tuple[str | float, ...]:
    return tuple(sorted(label)) if isinstance(label, tuple) else (label,)


def find_files(
    info: DatasetInfo, split: str, data_dir: str, dev_fraction: float = 0.0
) -> list[TextFile]:
    """Lists the files of a split; skips missing files beside the release's.

    Args:
        info: the data set.
        split: `task.TRAIN`, `EVAL` or `PREDICT`.
        data_dir: its folder, or the parent of that folder.
        dev_fraction: the share of the training file that is the split `EVAL`;
            0 if it has files of its own.

    Raises:
        FileNotFoundError: the file of the release is missing.
    """
    is_held_out = dev_fraction > 0 and split == task.EVAL
    files = []
    for part in info.splits[task.TRAIN if is_held_out else split]:
        path = find_file(data_dir, info.name, part.files)
        if path is None:
            if part.suffix:
                logging.warning(
                    "No %s of %s in %s, which is left out%s",
                    *(part.files[0], info.name, data_dir),
                    f": no {part.submission}.tsv for the GLUE server"
                    if part.submission
                    else "",
                )
                continue
            advice = _HELD_OUT if is_held_out else ""
            if split == task.EVAL and not is_held_out:
                advice = _HOLD_OUT
            message = part.if_missing or (
                f"No {' or '.join(part.files)} of {info.name} in "
                f"{data_dir!r}, or in a folder {info.name} there."
            )
            raise FileNotFoundError(f"{message}{advice}")
        is_test = split == task.PREDICT
        files.append(
            TextFile(
                split=part,
                path=path,
                label_set=info.label_set,
                dev_fraction=0.0 if is_test else dev_fraction,
                is_held_out=is_held_out,
                has_labels=not is_test
                or _has_labels(path, part.layout, info.label_set),
                is_complete=is_test,
            )
        )
    return files


def _has_labels(
    path: str, layout: Layout, label_set: class_labels.LabelSet
) -> bool:
    """Returns whether a test file has the column of the labels, and labels.

    Warns of a file with others than those of the model: it has no score.
    """
    has_labels = False
    if layout.label is None:
        return False
    for _, row in _rows(path, layout, with_labels=False):
        if not _has_label_column(row, layout):
            return False
        if label_set.is_missing(row.cell(layout.label)):
            continue
        try:
            row.read(layout.label, label_set.parse)
        except ValueError as error:
            _warn_once(
                f"{error} All rows are predicted, without a test score. "
                "--label_column= reads no labels"
            )
            return False
        has_labels = True
    return has_labels


def _has_label_column(row: row_files.Row, layout: Layout) -> bool:
    """Returns whether a row has the column, and not as its text.

    Columns from the end may be others in a file without labels.
    """
    if layout.label is None or not row.has(layout.label):
        return False
    count = len(row.cells)
    label, *texts = (
        column % count if isinstance(column, int) else column
        for column in (layout.label, layout.text_a, layout.text_b)
        if column is not None
    )
    return label not in texts


def find_file(
    data_dir: str, name: str, file_names: Sequence[str]
) -> str | None:
    """Finds a file in a folder, or in the data set's own folder there.

    Args:
        data_dir: the folder.
        name: of the data set.
        file_names: possible paths, preferred first.
    """
    candidates = [
        _joined(folder, file_name)
        for folder in (data_dir, os.path.join(data_dir, name))
        for file_name in file_names
    ]
    return next(filter(paths.exists, candidates), None)


def _joined(folder: str, file_name: str) -> str:
    """Joins paths; `../` is the folder's parent, also of a remote or a link."""
    if "://" not in folder:
        path = os.path.join(folder, file_name)
        return os.path.normpath(path) if file_name.startswith("../") else path
    while file_name.startswith("../"):
        folder = os.path.dirname(folder.rstrip("/"))
        file_name = file_name.removeprefix("../")
    return os.path.join(folder, file_name)


def read_examples(
    path: str,
    layout: Layout,
    label_set: class_labels.LabelSet,
    *,
    with_labels: bool = True,
    is_complete: bool = False,
) -> list[text_examples.InputExample]:
    """Reads the examples of a file.

    Args:
        path: the file.
        layout: its columns.
        label_set: the allowed labels.
        with_labels: whether labels are required; if not, the column is not
            read and every example has the label `label_set.placeholder`.
        is_complete: whether rows without a label are examples too, with the
            label None; by default they are left out.

    Raises:
        OSError: the file cannot be opened.
        ValueError: a row is invalid, or there are no rows; names the file,
            the line and the column.
    """
    examples = []
    num_missing = 0
    for number, row in _rows(path, layout, with_labels=with_labels):
        text_b: str | None = None
        label = None if with_labels else label_set.placeholder
        if layout.text_b is not None:
            text_b = row.read(layout.text_b, row_files.text)
        if with_labels and layout.label is not None:
            if label_set.is_missing(row.cell(layout.label)):
                num_missing += 1
                if not is_complete:
                    continue
            else:
                label = row.read(layout.label, label_set.parse)
        examples.append(
            text_examples.InputExample(
                text_a=row.read(layout.text_a, row_files.text),
                text_b=text_b,
                label=label,
                row=number,
            )
        )
    if num_missing:
        num_rows = len(examples) + (0 if is_complete else num_missing)
        outcome = "predicted without a score" if is_complete else _LEFT_OUT
        _warn_once(
            f"{path}: {num_missing} of {num_rows} rows have no label and are "
            f"{outcome}: {_no_label(label_set.missing)}"
        )
    if not examples:
        with_value = (
            f" with {layout.row_filter[1]!r}" if layout.row_filter else ""
        )
        with_value += " with a label" if num_missing else ""
        raise ValueError(f"{path}: the file has no example{with_value}.")
    return examples


def _no_label(missing: Sequence[str]) -> str:
    return (
        "the label is empty or one of --missing_labels="
        f"{shlex.quote(','.join(missing))}"
    )


def discover_labels(
    path: str,
    layout: Layout,
    problem_type: str,
    missing: tuple[str, ...] = class_labels.MISSING,
) -> class_labels.LabelSet:
    """Creates a label set from the labels of a training file.

    Args:
        path: the file.
        layout: its columns.
        problem_type: one of `task.PROBLEM_TYPES` with labels.
        missing: what rows without a label have; see `LabelSet`.

    Raises:
        OSError: the file cannot be opened.
        ValueError: there is no label column, a row is invalid, or there are
            too few classes; names the file.
    """

    words = frozenset(map(str.lower, missing))

    def names_of(value: object) -> list[str]:
        if class_labels.is_missing(value, problem_type, words):
            return []
        class_labels.check_form(value, problem_type)
        return class_labels.class_names(value, problem_type)

    counts: collections.Counter[str] = collections.Counter()
    num_rows = num_missing = most_names = 0
    first: tuple[str, list[str]] | None = None
    for _, row in _rows(path, layout, with_labels=True):
        if layout.label is not None:
            names = row.read(layout.label, names_of)
            first = first or (row.place, names)
            counts.update(names)
            num_missing += not names and problem_type == task.SINGLE_LABEL
            most_names = max(most_names, len(names))
        num_rows += 1
    if not num_rows:
        raise ValueError(f"{path}: the file has no example.")
    if num_missing:
        _warn_once(
            f"{path}: {num_missing} of {num_rows} rows have no label and are "
            f"{_LEFT_OUT}: {_no_label(missing)}"
        )
    try:
        label_set = class_labels.LabelSet(
            problem_type=problem_type,
            names=class_labels.in_order(counts),
            missing=missing,
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    classes = label_set.names
    totals: collections.Counter[str] = collections.Counter()
    for name, count in counts.items():
        totals[row_files.spelling_key(name)] += count
    numbered = [
        f"{messages.short(name)} ({totals[row_files.spelling_key(name)]})"
        for name in classes
    ]
    logging.info(
        "%s: labels %s; rows have none if %s",
        *(path, messages.names(numbered, messages.MOST_VALUES)),
        _no_label(missing),
    )
    if len(classes) == num_rows > messages.MOST_VALUES:
        logging.warning(
            "%s: each of the %d rows has a label of its own; is column %r "
            "that of the label? For scores, use --problem_type=regression",
            *(path, num_rows, layout.label),
        )
    if first and not layout.has_header and {counts[n] for n in first[1]} == {1}:
        logging.warning(
            "%s: no other row has the label %s. If this row has the names of "
            "columns, give --label_column by its name",
            *(first[0], messages.listed(first[1])),
        )
    if problem_type == task.MULTI_LABEL and most_names < 2 <= len(classes):
        logging.warning(
            "%s: no row has several labels, such as %r; commas separate those "
            "of a text",
            *(path, ",".join(classes[:2])),
        )
    return label_set


def _rows(
    path: str, layout: Layout, *, with_labels: bool
) -> Iterator[tuple[int, row_files.Row]]:
    """Yields the rows to read, numbered from 0 as in the file."""
    if with_labels and layout.label is None:
        raise ValueError(
            f"{path}: labels are required here, but no label column is given "
            "(test files may have none; training and evaluation need one)."
        )
    columns = (
        layout.text_a,
        layout.text_b,
        layout.label if with_labels else None,
        layout.row_filter[0] if layout.row_filter else None,
    )
    rows = row_files.read_rows(
        path,
        [column for column in columns if column is not None],
        has_header=layout.has_header,
        same_width=layout.same_width,
        optional=[layout.label] if isinstance(layout.label, str) else [],
    )
    num_short = 0
    for number, row in enumerate(rows):
        if layout.row_filter is not None:
            column, value = layout.row_filter
            if row.cell(column) != value:
                continue
        if layout.skip_short_rows and len(row.cells) < len(row.header or ()):
            num_short += 1
            continue
        yield number, row
    if num_short:
        _warn_once(
            f"{path}: dropped {num_short} row(s) with fewer columns than the "
            "header"
        )


@functools.cache
def _warn_once(message: str) -> None:
    """Warns of what is counted again at each reading of a file."""
    logging.warning("%s", message)
