"""Examples of one file of a data set, for tests."""

import dataclasses

from bert.tasks import task
from bert.tasks.classification import datasets


def read_split(info, split, data_dir, *, with_labels):
    """Reads the examples of a file; None if it is absent and may be."""
    info = dataclasses.replace(info, splits={task.EVAL: (split,)})
    files = datasets.find_files(info, task.EVAL, str(data_dir))
    if not files:
        return None
    return dataclasses.replace(files[0], has_labels=with_labels).examples()
