"""The user's own files as a data set."""

from bert.tasks import tables, task
from bert.tasks.classification import class_labels, datasets, metrics

NAME = "custom"

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
) -> datasets.DatasetInfo:
    """Returns the files of a folder as a data set.

    Args:
        data_dir: the folder of train, dev and test, each with one of
            `tables.ENDINGS`.
        layout: their columns.
        problem_type: one of `task.PROBLEM_TYPES`.
        label_names: the labels; by default those of the training file.

    Raises:
        OSError: the training file is needed for its labels, and is missing.
        ValueError: there are two files of a split, or the labels are invalid.
    """
    train, dev, test = (
        _split(data_dir, layout, name) for name in ("train", "dev", "test")
    )
    if label_names or problem_type == task.REGRESSION:
        label_set = class_labels.LabelSet(
            problem_type=problem_type, names=label_names
        )
    else:
        path = datasets.find_file(data_dir, NAME, train.files)
        if path is None:
            raise FileNotFoundError(
                f"No {' or '.join(train.files)} in {data_dir!r} to "
                "take the labels from. Pass --label_names."
            )
        label_set = datasets.discover_labels(path, layout, problem_type)
    return datasets.DatasetInfo(
        name=NAME,
        label_set=label_set,
        metrics=_METRICS[problem_type],
        splits={task.TRAIN: (train,), task.EVAL: (dev,), task.PREDICT: (test,)},
    )


def _split(
    data_dir: str, layout: datasets.Layout, name: str
) -> datasets.SplitInfo:
    names = tuple(name + ending for ending in tables.ENDINGS)
    present = tuple(
        file for file in names if datasets.find_file(data_dir, NAME, (file,))
    )
    if len(present) > 1:
        raise ValueError(
            f"Expected one file for {name!r} in {data_dir!r}; got "
            f"{', '.join(present)}."
        )
    # A missing file is reported when it is used.
    return datasets.SplitInfo(files=present or names, layout=layout)
