"""The user's own classification data: TSV, CSV or JSON Lines files."""

import dataclasses
import os
import re

from commands import flags
from files import messages, paths
from tasks import tables
from tasks.classification import datasets, labels, metrics

NAME = "custom"
LABELS_FILE = "labels.json"  # saved beside the model

_METRICS = {
    labels.SINGLE_LABEL: (metrics.ACCURACY, metrics.MACRO_F1),
    labels.MULTI_LABEL: (
        metrics.MICRO_F1,
        metrics.MACRO_F1,
        metrics.EXACT_MATCH,
    ),
    labels.REGRESSION: (
        metrics.PEARSON,
        metrics.SPEARMAN,
        metrics.MEAN_ABSOLUTE_ERROR,
    ),
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
    label_column: str = flags.Group.OWN_DATA.flag("", "Column of the label.")
    label_separator: str = flags.Group.OWN_DATA.flag(
        ",", "Separator of several labels in a cell."
    )
    label_names: tuple[str, ...] = flags.Group.OWN_DATA.flag(
        (),
        "The labels, separated by commas; by default those of the "
        "training file.",
    )
    has_header: bool | None = flags.Group.OWN_DATA.optional(
        "Whether TSV and CSV files begin with column names; by default true if "
        "a column is given by name."
    )

    def check_columns(self) -> None:
        """Checks the column options.

        Raises:
            ValueError: there is no text column, or a name without a header.
        """
        if not self.text_a_column:
            raise ValueError(
                "--text_a_column must name the column of the text (or give "
                "its number, from 0); got none."
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
            text_b=_column(self.text_b_column) if self.text_b_column else None,
            label=_column(self.label_column) if self.label_column else None,
            file_format=file_format,
            has_header=self._has_names() if has_header is None else has_header,
            # A stray separator would silently shift the columns.
            same_width=True,
        )

    def _has_names(self) -> bool:
        given = (self.text_a_column, self.text_b_column, self.label_column)
        return any(isinstance(_column(text), str) for text in given if text)


def _column(text: str) -> tables.Column:
    """Parses a column: a number, else a name."""
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else text


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
        found = _find(data_dir, "train")
        if not found:
            raise FileNotFoundError(
                f"No {' or '.join(_file_names('train'))} in {data_dir!r}."
            )
        now = datasets.discover_labels(
            os.path.join(data_dir, found[0]),
            options.layout(_format(found[0])),
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
    if before and (
        (now.problem_type, now.names) != (before.problem_type, before.names)
    ):
        raise ValueError(
            f"The model of {saved} was trained for {before.problem_type} "
            f"with the labels {messages.listed(before.names)}; got "
            f"{now.problem_type} with {messages.listed(now.names)}. Use "
            "another output folder, or the same labels."
        )
    return dataclasses.replace(now, separator=options.label_separator)


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
    # A missing file is reported when it is used.
    files = _find(data_dir, name) or _file_names(name)
    return datasets.SplitInfo(
        name=name,
        files=files,
        layout=options.layout(_format(files[0])),
        guid_prefix=name,
    )


def _file_names(name: str) -> tuple[str, ...]:
    return tuple(name + ending for ending in tables.FORMAT_OF_ENDING)


def _find(data_dir: str, name: str) -> tuple[str, ...]:
    """Returns the name of the one file of a split, if it exists."""
    found = tuple(
        file
        for file in _file_names(name)
        if paths.exists(os.path.join(data_dir, file))
    )
    if len(found) > 1:
        raise ValueError(
            f"Expected one file for {name!r} in {data_dir!r}; got "
            f"{', '.join(found)}."
        )
    return found


def _format(file: str) -> str:
    return tables.FORMAT_OF_ENDING[os.path.splitext(file)[1]]
