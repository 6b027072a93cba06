"""The user's own classification data: TSV, CSV or JSON Lines files."""

import dataclasses
import os
import re

from absl import logging

from commands import flags
from files import paths
from tasks import tables
from tasks.classification import datasets, labels, metrics

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
class DataOptions:
    """Options for reading the user's own files, in one of three formats.

    A folder contains train, dev and test, each ending in .tsv, .csv or .jsonl.
    Columns are names or numbers: 0 is the first, -1 the last.
    """

    problem_type: str = flags.Group.OWN_DATA.flag(
        labels.SINGLE_LABEL,
        "One label per row, any number of labels, or a score.",
        choices=labels.PROBLEM_TYPES,
    )
    text_a_column: str = flags.Group.OWN_DATA.flag(
        "", "Column of the text: name, or number from 0."
    )
    text_b_column: str = flags.Group.OWN_DATA.flag(
        "", "Column of the second text, if any."
    )
    label_column: str = flags.Group.OWN_DATA.flag("", "That of the label.")
    label_separator: str = flags.Group.OWN_DATA.flag(
        ",", "Separator of several labels in a cell."
    )
    label_names: tuple[str, ...] = flags.Group.OWN_DATA.flag(
        (),
        "The labels, separated by commas; by default those of the "
        "training file.",
    )
    has_header: bool | None = flags.Group.OWN_DATA.flag(
        None,
        "Whether TSV and CSV files begin with column names; by default true if "
        "a column is given by name.",
    )

    def check_columns(self) -> None:
        """Checks the column options.

        Raises:
            ValueError: there is no text column, or a name without a header.
        """
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

    def layout(self, file_format: str) -> datasets.Layout:
        """Returns the columns of a file.

        Args:
            file_format: one of `tables.FORMATS`.
        """
        has_header = self.has_header
        return datasets.Layout(
            text_a=_column(self.text_a_column),
            text_b=_column_if_any(self.text_b_column),
            label=_column_if_any(self.label_column),
            file_format=file_format,
            has_header=self._has_names() if has_header is None else has_header,
            # A stray separator would silently shift the columns.
            same_width=True,
        )

    def _has_names(self) -> bool:
        given = (self.text_a_column, self.text_b_column, self.label_column)
        return any(isinstance(_column_if_any(text), str) for text in given)


def _column(text: str) -> tables.Column:
    """Parses a column: a number, else a name."""
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else text


def _column_if_any(text: str) -> tables.Column | None:
    return _column(text) if text else None


def find_labels(
    options: DataOptions, data_dir: str, saved: str, *, is_training: bool
) -> labels.LabelSet:
    """Returns the labels: given, else of the training file, else saved.

    Args:
        options: of the user's files.
        data_dir: their folder.
        saved: path of the labels of a trained model, if it exists.
        is_training: whether the model is trained in this run.

    Raises:
        FileNotFoundError: neither a training file nor saved labels.
        ValueError: a column is missing; the training file has no usable
            labels, or other labels than the model in this folder.
    """
    options.check_columns()
    before = labels.load(saved) if paths.exists(saved) else None
    if options.problem_type == labels.REGRESSION or options.label_names:
        now = labels.LabelSet(
            problem_type=options.problem_type, names=options.label_names
        )
    elif is_training:
        path, file_format = _find(data_dir, "train")
        now = datasets.discover_labels(
            path,
            options.layout(file_format),
            options.problem_type,
            options.label_separator,
        )
    elif before is None:
        raise FileNotFoundError(
            f"No {saved}: without training, the labels must be saved "
            "next to the model, or given."
        )
    elif options.problem_type == labels.SINGLE_LABEL:
        # The default of the flag: use the problem type of the model.
        now = before
    else:
        now = labels.LabelSet(
            problem_type=options.problem_type, names=before.names
        )
    _check_unchanged(now, before, saved)
    return dataclasses.replace(now, separator=options.label_separator)


def _check_unchanged(
    now: labels.LabelSet, before: labels.LabelSet | None, saved: str
) -> None:
    if before is None:
        return
    if (now.problem_type, now.names) != (before.problem_type, before.names):
        raise ValueError(
            f"The model of {saved} was trained for {before.problem_type} "
            f"with the labels {list(before.names)}; got "
            f"{now.problem_type} with {list(now.names)}. Use another output "
            "folder, or the same labels."
        )


def dataset_info(
    options: DataOptions, data_dir: str, label_set: labels.LabelSet
) -> datasets.DatasetInfo:
    """Returns the user's files as a data set.

    Raises:
        ValueError: two files could be the same split.
    """
    return datasets.DatasetInfo(
        name=NAME,
        label_set=label_set,
        metrics=_METRICS[label_set.problem_type],
        train=_split(options, data_dir, "train"),
        dev=(_split(options, data_dir, "dev"),),
        test=(_split(options, data_dir, "test"),),
    )


def _split(
    options: DataOptions, data_dir: str, name: str
) -> datasets.SplitInfo:
    try:
        path, file_format = _find(data_dir, name)
    except FileNotFoundError:
        # Reported when the file is used.
        logging.debug("%s: no %s file", data_dir, name)
        files, file_format = _file_names(name), tables.TSV
    else:
        files = (os.path.basename(path),)
    return datasets.SplitInfo(
        name=name,
        files=files,
        layout=options.layout(file_format),
        guid_prefix=name,
    )


def _file_names(name: str) -> tuple[str, ...]:
    return tuple(name + ending for ending in _FORMAT_OF_ENDING)


def _find(data_dir: str, name: str) -> tuple[str, str]:
    """Finds the one file of a split, and its format."""
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
            f"Expected one file for {name!r}; got {', '.join(found)}."
        )
    return found[0], _FORMAT_OF_ENDING[os.path.splitext(found[0])[1]]
