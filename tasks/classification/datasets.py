"""Classification data sets: their splits, files, parts and examples."""

import collections
import dataclasses
import functools
import hashlib
import itertools
import os
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from absl import logging

from files import messages, paths
from tasks import tables
from tasks.classification import labels, sentence_pairs

_MAX_NAMES_SHOWN = 3
_MAX_LINES_SHOWN = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """Columns and format of a file.

    Args:
        text_a: column of the first, or only, text.
        text_b: column of the second text, if there is one.
        label: column of the label, if there is one.
        guid: last column of the examples' guids; by default the line index,
            from 0.
        only: a column and the required value of the rows to read; None for all.
        file_format: one of `tables.FORMATS`.
        has_header: whether the first row has the column names.
        same_width: whether all rows must have as many columns as the first.
        skip_short_rows: whether rows with too few columns are dropped, with a
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitInfo:
    """A split of a data set.

    Args:
        name: such as "train", "dev_matched" or "diagnostic".
        files: possible paths in the data set's folder, preferred first.
        layout: its columns.
        guid_prefix: prefix of the guids of its examples.
        required: whether a missing file is an error.
        submission: the name, without ".tsv", under which the GLUE server
            accepts predictions for it; empty if it does not.
    """

    name: str
    files: tuple[str, ...]
    layout: Layout
    guid_prefix: str
    required: bool = True
    submission: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetInfo:
    """A data set: labels, metrics (the first selects checkpoints) and splits.

    The first of `dev` and `test` is the file of the release.
    """

    name: str
    label_set: labels.LabelSet
    metrics: tuple[str, ...]
    train: SplitInfo
    dev: tuple[SplitInfo, ...]
    test: tuple[SplitInfo, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """The held-out rows of a file, or the other rows.

    Attributes:
        held_out: the held-out rows of the file, from 0 without the header,
            ascending.
        is_held_out: whether this part is the held-out rows.
        seed: seed of the split.
        fold: the number of the fold, from 1; 0 without folds.
    """

    held_out: tuple[int, ...]
    is_held_out: bool
    seed: int
    fold: int = 0

    @property
    def name(self) -> str:
        """The name of this part."""
        return "held out" if self.is_held_out else "the others"

    @property
    def suffix(self) -> str:
        """Suffix of the names of records."""
        return f"-fold-{self.fold}" if self.fold else ""

    def take(
        self, examples: Sequence[sentence_pairs.InputExample]
    ) -> list[sentence_pairs.InputExample]:
        """Returns the examples of this part."""
        held_out = set(self.held_out)
        return [
            example
            for example in examples
            if (example.row in held_out) == self.is_held_out
        ]

    def origin(self) -> dict[str, Any]:
        """Returns the identity of the rows as JSON."""
        return {
            "part": self.name,
            "held_out_rows": list(self.held_out),
            "split_seed": self.seed,
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextFile:
    """The file of a split.

    Args:
        info: the data set.
        split: the split.
        path: path of the file.
        truncation: how its texts are fitted into the model.
        suffix: identifies its results; "" for the file of the release.
        part: selects some of its rows; None for all.
    """

    info: DatasetInfo
    split: SplitInfo
    path: str
    truncation: sentence_pairs.Truncation
    suffix: str
    part: Part | None = None

    @property
    def record_suffix(self) -> str:
        """Suffix of its records; each fold has its own."""
        return self.suffix + (self.part.suffix if self.part else "")

    def origin(self) -> dict[str, Any]:
        """Returns what its records depend on besides the vocabulary."""
        return {
            "data_sha256": paths.sha256(self.path),
            "layout": str(self.split.layout),
            "labels": str(self.info.label_set),
            **dataclasses.asdict(self.truncation),
            **(self.part.origin() if self.part else {}),
        }

    def held_out_rows(self) -> str | None:
        """Describes the held-out rows of the file, if any, by number and hash.

        Rows of another file, or other rows of this one, differ.
        """
        if not self.part:
            return None
        rows = self.part.held_out
        digest = hashlib.sha256(f"{paths.sha256(self.path)}{rows}".encode())
        return f"{len(rows)} rows, sha256 {digest.hexdigest()[:16]}"

    def examples(
        self, *, with_labels: bool
    ) -> list[sentence_pairs.InputExample]:
        """Reads its examples.

        Raises:
            OSError: the file cannot be opened.
            ValueError: a row cannot be read; names file and line.
        """
        examples = read_examples(
            self.path,
            self.split.layout,
            self.info.label_set,
            guid_prefix=self.split.guid_prefix,
            with_labels=with_labels,
        )
        name = self.split.name
        if self.part:
            examples = self.part.take(examples)
            name += f", {self.part.name}"
        logging.info("%s %s: %d examples", self.path, name, len(examples))
        found = {example.label for example in examples}
        if with_labels and len(found) == 1 < len(examples):
            logging.warning(
                "%s: every example has the label %s", self.path, *found
            )
        return examples


def find_files(
    info: DatasetInfo,
    splits: Sequence[SplitInfo],
    data_dir: str,
    truncation: sentence_pairs.Truncation,
) -> list[TextFile]:
    """Lists the files of a data set; skips missing optional files.

    Args:
        info: the data set.
        splits: its splits, the file of the release first.
        data_dir: its folder, or the parent of that folder.
        truncation: how their texts are fitted into the model.

    Raises:
        FileNotFoundError: a required file is missing.
    """
    found = []
    for number, split in enumerate(splits):
        path = find_file(data_dir, info.name, split.files)
        if path is None:
            names = " or ".join(split.files[:_MAX_NAMES_SHOWN])
            message = (
                f"No {names} of {info.name} in {data_dir!r}, or in a folder "
                f"{info.name} there."
            )
            if split.required:
                raise FileNotFoundError(message)
            logging.info("%s Left out.", message)
            continue
        found.append(
            TextFile(
                info=info,
                split=split,
                path=path,
                truncation=truncation,
                suffix=f"_{split.name.rpartition('_')[2]}" if number else "",
            )
        )
    return found


def find_file(
    data_dir: str, name: str, file_names: tuple[str, ...]
) -> str | None:
    """Finds a file of a data set, ignoring the case of names.

    Searches for each name in `data_dir`, then in its folder for the data set,
    in whose name punctuation is ignored too.
    """
    # Listing a remote store is slow: only the exact name is tried.
    find: Callable[[str, str], str | None] = os.path.join
    if not paths.is_remote(data_dir):
        find = functools.partial(_find_local, data_set=name)
    for folder in ("", name):
        for file_name in file_names:
            found = find(data_dir, os.path.join(folder, file_name))
            if found is not None and paths.exists(found):
                return found
    return None


def key(name: str) -> str:
    """Reduces a name to letters, digits and dots for comparison."""
    return re.sub(r"[^\w.]|_", "", name.lower())


def _find_local(data_dir: str, relative: str, data_set: str) -> str | None:
    start = os.path.abspath(data_dir)
    path: str | None = start
    if not os.path.exists(start):
        above, last = os.path.split(start)
        is_own = key(last) == key(data_set)
        path = _entry(above, last, key if is_own else str.lower)
    *folders, file = relative.split("/")
    for part in folders:
        if path is None:
            return None
        path = (
            os.path.dirname(path) if part == ".." else _entry(path, part, key)
        )
    return None if path is None else _entry(path, file, str.lower)


def _entry(folder: str, name: str, reduced: Callable[[str], str]) -> str | None:
    """Finds an entry of a folder by its exact name, else its reduced name."""
    exact = os.path.join(folder, name)
    if os.path.exists(exact):
        return exact
    if not os.path.isdir(folder):
        return None
    entries = sorted(os.listdir(folder))
    found = next((e for e in entries if reduced(e) == reduced(name)), None)
    return found and os.path.join(folder, found)


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
        label_set: the allowed labels.
        guid_prefix: prefix of the guids, as in "dev-17".
        with_labels: whether labels are required; if not, the column is not
            read and every example has the label `label_set.placeholder`.

    Raises:
        OSError: the file cannot be opened.
        ValueError: a row is invalid, or there are no rows; names the file,
            the line and the column.
    """
    if with_labels and layout.label is None:
        raise ValueError(
            f"{path}: labels are required here, but no label column is given "
            "(test files may have none; training and evaluation need one)."
        )
    if not with_labels:
        layout = dataclasses.replace(layout, label=None)
    is_named = isinstance(layout.label, str)
    table, layout = _open(path, layout)
    if not is_named:
        _warn_of_headless_file(table, layout, label_set)
    examples = []
    for number, row in _rows(table, layout):
        guid = row.line - 1
        if layout.guid is not None:
            guid = table.cell(row, layout.guid)
        text_b, label = None, label_set.placeholder
        if layout.text_b is not None:
            text_b = table.read(row, layout.text_b, tables.text)
        if layout.label is not None:
            label = table.read(row, layout.label, label_set.parse)
        examples.append(
            sentence_pairs.InputExample(
                guid=f"{guid_prefix}-{guid}",
                text_a=table.read(row, layout.text_a, tables.text),
                text_b=text_b,
                label=label,
                row=number,
            )
        )
    if not examples:
        only = f" with {layout.only[1]!r}" if layout.only else ""
        raise ValueError(f"{path}: the file has no example{only}.")
    return examples


def discover_labels(
    path: str, layout: Layout, problem_type: str, separator: str = ","
) -> labels.LabelSet:
    """Creates a label set from the labels of a training file.

    Raises:
        OSError: the file cannot be opened.
        ValueError: as `read_examples` and `labels.discover`.
    """
    if layout.label is None:
        raise ValueError(
            f"{path}: the labels cannot be found without a label column."
        )
    table, placed = _open(path, layout)
    column = table.find(layout.label)
    cells = (
        (table.place(row, column), table.cell(row, column))
        for _, row in _rows(table, placed)
    )
    first = next(cells, None)
    if first is None:
        raise ValueError(f"{path}: the file has no example.")
    return labels.discover(
        itertools.chain([first], cells),
        problem_type,
        separator,
        # Keys of JSON objects are the names of their columns.
        has_header=table.header is not None or isinstance(column, str),
    )


def _open(path: str, layout: Layout) -> tuple[tables.Table, Layout]:
    """Opens a file and resolves the names of its columns."""
    table = tables.open_table(
        path,
        layout.file_format,
        has_header=layout.has_header,
        same_width=layout.same_width,
    )
    places: dict[str, Any] = {
        name: table.find(getattr(layout, name))
        for name in ("text_a", "text_b", "label", "guid")
        if getattr(layout, name) is not None
    }
    if layout.only is not None:
        places["only"] = (table.find(layout.only[0]), layout.only[1])
    return table, dataclasses.replace(layout, **places)


def _rows(
    table: tables.Table, layout: Layout
) -> Iterator[tuple[int, tables.Row]]:
    """Yields the rows to read, numbered from 0 as in the file."""
    short = []
    width = 1 + max(
        (
            column
            for column in (layout.text_a, layout.text_b, layout.label)
            if isinstance(column, int)
        ),
        default=0,
    )
    for number, row in enumerate(table.rows):
        if layout.only is not None:
            column, value = layout.only
            if table.cell(row, column) != value:
                continue
        if layout.skip_short_rows and len(row.cells) < width:
            short.append(row.line)
            continue
        yield number, row
    if short:
        logging.warning(
            "%s: dropped %d row(s) that have fewer than %d columns, known "
            "damage of this data set (lines %s)",
            *(table.path, len(short), width),
            messages.listed(short, _MAX_LINES_SHOWN),
        )


def _warn_of_headless_file(
    table: tables.Table, layout: Layout, label_set: labels.LabelSet
) -> None:
    # As released, the first line of a file with a header is skipped unread; if
    # a file has lost its header, that line is an example.
    if table.header is None or layout.label is None:
        return
    first = tables.Row(1, table.header)
    try:
        label_set.parse(table.cell(first, layout.label))
    except ValueError:
        return
    logging.warning(
        "%s: the first line, read as a header, has a label in its label "
        "column; if the file has no header, its first example is lost",
        table.path,
    )


def hold_out(
    found: Sequence[labels.Label], fraction: float, seed: int
) -> tuple[int, ...]:
    """Draws a share of the examples, stratified by label.

    Args:
        found: the label of each example.
        fraction: the share, above 0 and below 1.
        seed: seed of the split.

    Returns:
        The places of the drawn ones in `found`, ascending.

    Raises:
        ValueError: no row would be held out, or none would be left.
    """
    places = [int(i * fraction + 0.5) for i in range(len(found) + 1)]
    rows = [
        row
        for row, start, end in zip(
            _by_label(found, seed), places, places[1:], strict=False
        )
        if start < end
    ]
    if not 0 < len(rows) < len(found):
        raise ValueError(
            "--dev_fraction must leave rows to train on and rows to evaluate "
            f"on; {fraction:g} of {len(found)} rows are {len(rows)}."
        )
    return tuple(sorted(rows))


def folds(
    found: Sequence[labels.Label], count: int, seed: int
) -> list[tuple[int, ...]]:
    """Divides the examples into folds, stratified by label.

    Args:
        found: the label of each example.
        count: the number of folds.
        seed: seed of the split.

    Returns:
        For each fold, its places in `found`, ascending.

    Raises:
        ValueError: there are fewer than two folds, or more than rows.
    """
    if not 2 <= count <= len(found):
        raise ValueError(
            "--num_folds must be at least 2 and at most the number of rows, "
            f"{len(found)}; got {count}."
        )
    rare = [
        label
        for label, number in collections.Counter(map(_key, found)).items()
        if number < count and isinstance(label, str)
    ]
    if rare:
        logging.warning(
            "Labels that have fewer than %d rows are missing in some folds: %s",
            *(count, messages.listed(rare)),
        )
    order = _by_label(found, seed)
    return [tuple(sorted(order[n::count])) for n in range(count)]


def _by_label(found: Sequence[labels.Label], seed: int) -> list[int]:
    """Shuffles the rows, then sorts them by label or by score."""
    rows = list(range(len(found)))
    random.Random(seed).shuffle(rows)
    return sorted(rows, key=lambda row: _key(found[row]))


def _key(label: labels.Label) -> Any:
    return tuple(sorted(label)) if isinstance(label, tuple) else label
