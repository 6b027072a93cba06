"""The labels that a trained model answers with, in a file beside it."""

import os

from files import paths
from tasks import custom, labels


def save(folder: str, label_set: labels.LabelSet) -> None:
    """Writes the labels beside a model."""
    label_set.save(os.path.join(folder, custom.LABELS_FILE))


def differ(folder: str, label_set: labels.LabelSet) -> bool:
    """Tells whether the model in a folder answers with other labels.

    Folders without the file, such as those of the release, may hold any.
    """
    path = os.path.join(folder, custom.LABELS_FILE)
    if not paths.exists(path):
        return False
    held = labels.load(path)
    return (held.problem_type, held.names) != (
        label_set.problem_type,
        label_set.names,
    )
