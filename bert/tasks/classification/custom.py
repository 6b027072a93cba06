"""The user's own files as a data set."""

import os
import shlex

from bert.files import messages, paths, row_files
from bert.tasks import task
from bert.tasks.classification import class_labels, datasets, metrics

NAME = "custom"
_NAMES = {task.TRAIN: "train", task.EVAL: "dev", task.PREDICT: "test"}
_RENAMED = {".json": ".jsonl", ".txt": ".tsv"}

_METRICS = {
    task.SINGLE_LABEL: (metrics.ACCURACY, metrics.MACRO_F1),
    task.MULTI_LABEL: (
        metrics.AVERAGE_PRECISION,
        metrics.MICRO_F1,
        metrics.MACRO_F1,
        metrics.EXACT_MATCH,
    ),
    task.REGRESSION: (
        metrics.PEARSON,
        metrics.SPEARMAN,
        metrics.MEAN_ABSOLUTE_ERROR,
    ),
}


def dataset(
    data_dir: str,
    layout: datasets.Layout,
    problem_type: str,
    label_names: tuple[str, ...] = (),
    missing: tuple[str, ...] = class_labels.MISSING,
) -> datasets.DatasetInfo:
    """Returns the files of a folder as a data set.

    Args:
        data_dir: the folder of train, dev and test, each with one of
            `row_files.ENDINGS`.
        layout: their columns.
        problem_type: one of `task.PROBLEM_TYPES`.
        label_names: the labels; by default those of the training file.
        missing: what rows without a label have; see `class_labels.LabelSet`.

    Raises:
        OSError: the folder is a file, or the training file is needed for its
            labels and is missing.
        ValueError: there are two files of a split, or the labels are invalid.
    """
    if paths.exists(data_dir):
        folder = os.path.dirname(data_dir) or "."
        raise NotADirectoryError(
            f"--data_dir={data_dir} is a file, but must be the folder of "
            "train.csv, dev.csv and test.csv. To make them from one table: "
            f"{_split_command(data_dir, layout)}; then pass --data_dir="
            f"{shlex.quote(os.path.join(folder, 'split'))}."
        )
    splits = {
        split: _split(data_dir, layout, name) for split, name in _NAMES.items()
    }
    if label_names or problem_type == task.REGRESSION:
        label_set = class_labels.LabelSet(
            problem_type=problem_type, names=label_names, missing=missing
        )
    else:
        train = splits[task.TRAIN]
        path = datasets.find_file(data_dir, NAME, train.files)
        if path is None:
            raise FileNotFoundError(train.if_missing)
        label_set = datasets.discover_labels(
            path, layout, problem_type, missing
        )
    return datasets.DatasetInfo(
        name=NAME,
        label_set=label_set,
        metrics=_METRICS[problem_type],
        splits={split: (info,) for split, info in splits.items()},
    )


def _split(
    data_dir: str, layout: datasets.Layout, name: str
) -> datasets.SplitInfo:
    names = tuple(name + ending for ending in row_files.ENDINGS)
    folders = (data_dir, os.path.join(data_dir, NAME))
    present = {file for folder in folders for file in paths.names_in(folder)}
    files = tuple(file for file in names if file in present)
    if len(files) > 1:
        raise ValueError(
            f"Expected one file for {name!r} in {data_dir!r}; got "
            f"{', '.join(files)}."
        )
    # A missing file is reported when it is used.
    message = "" if files else _missing(data_dir, name, layout)
    return datasets.SplitInfo(
        files=files or names, layout=layout, if_missing=message
    )


def _missing(data_dir: str, name: str, layout: datasets.Layout) -> str:
    """Describes the files that are there instead of a split, and the cure."""
    ready = {a + b for a in _NAMES.values() for b in row_files.ENDINGS}
    endings = (*row_files.ENDINGS, *_RENAMED)
    others = [
        file
        for file in paths.names_in(data_dir)
        if file.lower().endswith(endings) and file not in ready
    ]
    text = (
        f"No {name}.csv in {data_dir!r}, nor {name} with another of the "
        f"endings {', '.join(row_files.FORMATS)}, also compressed (.gz, .xz, "
        ".bz2)."
    )
    if not paths.is_folder(data_dir):
        text += " There is no such folder."
    if others:
        path = os.path.join(data_dir, others[0])
        ending = others[0][others[0].index(".", 1) :]
        new = os.path.join(data_dir, f"{name}{_RENAMED.get(ending, ending)}")
        text += (
            f" The folder has {messages.names(others)}. Rename the {name} "
            f"file, for example: mv {shlex.quote(path)} {shlex.quote(new)}."
        )
        if ending == ".json":
            text += (
                " JSON Lines has an object in each line; one array is "
                'converted by: python -c "import json; rows = json.load(open('
                f"{path!r}, encoding='utf-8')); open({new!r}, 'w')"
                ".writelines(json.dumps(row) + '\\n' for row in rows)\""
            )
        else:
            text += (
                " To make the three files from one table: "
                f"{_split_command(path, layout)}"
            )
    return text


def _split_command(path: str, layout: datasets.Layout) -> str:
    """Returns the command that splits a table into train, dev and test."""
    folder = os.path.join(os.path.dirname(path), "split")
    column = "label" if layout.label is None else str(layout.label)
    return (
        f"python -m tools.split_table --input_file={shlex.quote(path)} "
        f"--label_column={shlex.quote(column)} "
        f"--output_dir={shlex.quote(folder)}"
    )
