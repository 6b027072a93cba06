"""The data set that the flags name, its labels in the order of the model."""

import dataclasses

from tasks import task
from tasks.classification import custom, datasets, glue, labels
from tasks.classification import options as options_lib


def find_dataset(
    options: options_lib.SentenceOptions, stated: labels.LabelSet | None = None
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
        )
    info = glue.find_dataset(options.task_name, others=(custom.NAME,))
    if info.name == glue.XNLI:
        info = glue.xnli(options.xnli_language, options.xnli_mode)
    known = stated.names if stated and not options.label_names else ()
    if {*known} == {*info.label_set.names}:
        in_order = dataclasses.replace(info.label_set, names=known)
        info = dataclasses.replace(info, label_set=in_order)
    return info
