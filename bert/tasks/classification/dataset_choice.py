"""The data set that the flags name, its labels in the order of the model."""

import dataclasses

from bert.files import messages
from bert.tasks import task
from bert.tasks.classification import class_labels, custom, datasets, glue
from bert.tasks.classification import options as options_lib


def find_dataset(
    options: options_lib.SentenceOptions,
    stated: class_labels.LabelSet | None = None,
) -> datasets.DatasetInfo:
    """Returns the data set given by the flags.

    Args:
        options: the flags.
        stated: what the folder of a trained model says about its outputs; None
            if the model is trained now, or its folder does not say it.

    Raises:
        OSError: a file of the user's own data is missing.
        ValueError: there is no such data set, or the user's own data do not
            match the flags.
    """
    if options.task_name.lower() == custom.NAME:
        names, problem_type = options.label_names, options.problem_type
        if stated:
            names = names or stated.names
            problem_type = problem_type or stated.problem_type
        return custom.dataset(
            options.data_dir,
            options.layout,
            problem_type or task.SINGLE_LABEL,
            names,
            options.missing_labels,
        )
    info = glue.find_dataset(options.task_name, others=(custom.NAME,))
    if info.name == glue.XNLI:
        info = glue.xnli(options.xnli_language, options.xnli_mode)
    label_set = _in_order(info.label_set, options.label_names, stated)
    label_set = dataclasses.replace(label_set, missing=options.missing_labels)
    return dataclasses.replace(info, label_set=label_set)


def _in_order(
    label_set: class_labels.LabelSet,
    label_names: tuple[str, ...],
    stated: class_labels.LabelSet | None,
) -> class_labels.LabelSet:
    """Orders the labels of a task as the flag or the model's folder does."""
    if label_names and sorted(label_names) != sorted(label_set.names):
        allowed = messages.listed(label_set.names) or "none: it has scores"
        raise ValueError(
            "--label_names must list the labels of the task in the order of "
            f"the model's outputs, {allowed}; got "
            f"{messages.listed(label_names)}."
        )
    if stated and not label_names:
        # Other programs write them in capitals too.
        spelling = {name.lower(): name for name in label_set.names}
        label_names = tuple(
            spelling.get(name.lower(), name) for name in stated.names
        )
    if sorted(label_names) != sorted(label_set.names):
        # Comparing the descriptions of the models refuses others than these.
        return label_set
    return dataclasses.replace(label_set, names=label_names)
