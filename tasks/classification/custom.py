"""The user's own sentences: TSV, CSV or JSON Lines, without code."""

import dataclasses
import os
import re

from absl import logging

from files import paths
from tasks import tables
from tasks.classification import classification, labels, metrics, sentence_files

NAME = "custom"
LABELS_FILE = "labels.json"  # saved beside the model

_FORMAT_OF_ENDING = {
    ".tsv": tables.TSV,
    ".csv": tables.CSV,
    ".jsonl": tables.JSONL,
}
_METRICS = {
    labels.SINGLE_LABEL: metrics.SINGLE_LABEL_METRICS,
    labels.MULTI_LABEL: metrics.MULTI_LABEL_METRICS,
    labels.REGRESSION: metrics.REGRESSION_METRICS,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Data:
    """What the user says about their files.

    `data_dir` holds train, dev and test, each ending in .tsv, .csv or .jsonl.
    Columns are names, or numbers: 0 is the first, -1 the last.

    Args:
        data_dir: the folder of the files.
        text_a_column: the text.
        text_b_column: a second text; empty for none.
        label_column: the label; empty where only predictions are wanted.
        problem_type: one of `labels.PROBLEM_TYPES`.
        label_names: the classes in order; found in the training file if
            empty.
        label_separator: parts the names of a `multi_label` cell of text.
        has_header: whether TSV and CSV begin with the names of the columns;
            if None, they do when a column is given by name.
    """

    data_dir: str
    text_a_column: str
    text_b_column: str = ""
    label_column: str = ""
    problem_type: str = labels.SINGLE_LABEL
    label_names: tuple[str, ...] = ()
    label_separator: str = ","
    has_header: bool | None = None

    def __post_init__(self):
        if not self.text_a_column:
            raise ValueError(
                "text_a_column must name the column of the text (or give its "
                "number, from 0); got none."
            )
        if self.has_header is False and self._has_names():
            raise ValueError(
                "Columns given by name need a header; without one, give "
                "numbers, from 0."
            )

    def columns(self) -> list[tables.Column]:
        """Lists the columns that are given."""
        given = (self.text_a_column, self.text_b_column, self.label_column)
        return [parse_column(column) for column in given if column]

    def _has_names(self) -> bool:
        return any(isinstance(column, str) for column in self.columns())

    def begins_with_header(self) -> bool:
        """Tells whether TSV and CSV files begin with column names."""
        return self._has_names() if self.has_header is None else self.has_header


def parse_column(text: str) -> tables.Column:
    """Reads a column as a user writes it: a number, else a name."""
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else text


def find_labels(
    data: Data, saved: str, *, is_training: bool
) -> labels.LabelSet:
    """Settles the labels: those given, else of the training file, else saved.

    Args:
        data: the user's files.
        saved: where the labels of a trained model are, if there is one.
        is_training: whether the model is (further) trained now.

    Raises:
        FileNotFoundError: neither a training file nor saved labels.
        ValueError: the training file holds no usable labels, or others than
            the model in this place was trained with.
    """
    before = labels.load(saved) if paths.exists(saved) else None
    if data.problem_type == labels.REGRESSION or data.label_names:
        now = labels.LabelSet(
            problem_type=data.problem_type, names=data.label_names
        )
    elif is_training:
        path, file_format = _find(data.data_dir, "train")
        now = sentence_files.discover_labels(
            path,
            _layout(data, file_format),
            data.problem_type,
            data.label_separator,
        )
    elif before is None:
        raise FileNotFoundError(
            f"No {saved}: without training, the labels must have been saved "
            "beside the model, or be listed."
        )
    elif data.problem_type == labels.SINGLE_LABEL:
        # The default of the flag: the model knows its own problem type.
        now = before
    else:
        now = labels.LabelSet(
            problem_type=data.problem_type, names=before.names
        )
    _check_unchanged(now, before, saved)
    return dataclasses.replace(now, separator=data.label_separator)


def _check_unchanged(
    now: labels.LabelSet, before: labels.LabelSet | None, saved: str
) -> None:
    if before is None:
        return
    if (now.problem_type, now.names) != (before.problem_type, before.names):
        raise ValueError(
            f"The model beside {saved} was made for {before.problem_type} "
            f"with the labels {list(before.names)}; now it is "
            f"{now.problem_type} with {list(now.names)}. Use another output "
            "folder, or the same labels."
        )


def make_task(data: Data, label_set: labels.LabelSet) -> classification.Task:
    """Describes the user's files as a task like those of GLUE.

    Raises:
        ValueError: two files could be the same part of the data.
    """
    return classification.Task(
        name=NAME,
        label_set=label_set,
        metrics=_METRICS[label_set.problem_type],
        train=_part(data, "train"),
        dev=(_part(data, "dev"),),
        test=(_part(data, "test"),),
    )


def _part(data: Data, name: str) -> classification.Part:
    try:
        path, file_format = _find(data.data_dir, name)
    except FileNotFoundError:
        # Said once the file is wanted.
        logging.info("%s: no %s file", data.data_dir, name)
        files, file_format = _file_names(name), tables.TSV
    else:
        files = (os.path.basename(path),)
    return classification.Part(
        name=name,
        files=files,
        layout=_layout(data, file_format),
        guid_prefix=name,
    )


def _layout(data: Data, file_format: str) -> sentence_files.Layout:
    def column(text: str) -> tables.Column | None:
        return parse_column(text) if text else None

    return sentence_files.Layout(
        text_a=parse_column(data.text_a_column),
        text_b=column(data.text_b_column),
        label=column(data.label_column),
        file_format=file_format,
        has_header=data.begins_with_header(),
        # A stray separator would shift the columns unseen.
        same_width=True,
    )


def _file_names(name: str) -> tuple[str, ...]:
    return tuple(name + ending for ending in _FORMAT_OF_ENDING)


def _find(data_dir: str, name: str) -> tuple[str, str]:
    """Finds the one file of a part, and its format."""
    found = [
        path
        for file in _file_names(name)
        if paths.exists(path := os.path.join(data_dir, file))
    ]
    if not found:
        raise FileNotFoundError(
            f"No {' or '.join(_file_names(name))} in {data_dir!r}."
        )
    if len(found) > 1:
        raise ValueError(
            f"Only one file may be {name!r} of the data; got "
            f"{', '.join(found)}."
        )
    return found[0], _FORMAT_OF_ENDING[os.path.splitext(found[0])[1]]
