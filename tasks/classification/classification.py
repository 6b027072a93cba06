"""Tasks of one label or score per sentence or pair, and their files."""

import dataclasses
import os
import re

from absl import logging

from files import paths
from tasks.classification import labels, sentence_files, sentence_pairs

_MAX_NAMES_SHOWN = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """One file of a task.

    Args:
        name: what it is: "train", "dev_matched", "diagnostic".
        files: where it may lie in the task's folder, best place first.
        layout: its columns.
        guid_prefix: begins the guids of its examples.
        required: whether a folder without it is an error.
        submission: the name, without ".tsv", under which the GLUE server
            takes predictions for it; empty if it takes none.
    """

    name: str
    files: tuple[str, ...]
    layout: sentence_files.Layout
    guid_prefix: str
    required: bool = True
    submission: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """A task: its labels, its metrics (the first decides), its files.

    `dev` and `test` hold the release's file first, others after it.
    """

    name: str
    label_set: labels.LabelSet
    metrics: tuple[str, ...]
    train: Part
    dev: tuple[Part, ...]
    test: tuple[Part, ...]


def read_part(
    task: Task, part: Part, data_dir: str, *, with_labels: bool
) -> list[sentence_pairs.InputExample] | None:
    """Reads the examples of one file of a task.

    Args:
        task: the task.
        part: one of its files.
        data_dir: the task's folder, or the folder that holds it.
        with_labels: whether labels are needed.

    Returns:
        The examples; None, and a line in the log, if the file is absent and
        not required.

    Raises:
        FileNotFoundError: a required file is absent.
        ValueError: a row cannot be read.
    """
    path = require_file(task, part, data_dir)
    if path is None:
        return None
    examples = sentence_files.read_examples(
        path,
        part.layout,
        task.label_set,
        guid_prefix=part.guid_prefix,
        with_labels=with_labels,
    )
    logging.info("%s %s: %d examples", path, part.name, len(examples))
    found = {example.label for example in examples}
    if with_labels and len(found) == 1 < len(examples):
        logging.warning("%s: every example has the label %s", path, *found)
    return examples


def require_file(task: Task, part: Part, data_dir: str) -> str | None:
    """Finds the file of a part of a task; None where it may be left out.

    Raises:
        FileNotFoundError: a required file is absent.
    """
    path = find_file(data_dir, task.name, part.files)
    if path is not None:
        return path
    names = " or ".join(part.files[:_MAX_NAMES_SHOWN])
    message = (
        f"No {names} of {task.name} in {data_dir!r}, nor in a folder "
        f"{task.name} there."
    )
    if part.required:
        raise FileNotFoundError(message)
    logging.info("%s Left out.", message)
    return None


def find_file(
    data_dir: str, task_name: str, names: tuple[str, ...]
) -> str | None:
    """Finds a file of a task, in whatever casing its folders are written.

    Looks for each name in `data_dir`, then in its folder for the task.
    """
    for folder in ("", task_name):
        for name in names:
            if paths.is_remote(data_dir):
                # Listing a store may be slow: only the usual casing there.
                found = os.path.join(data_dir, folder, name)
            else:
                found = _find_local(data_dir, os.path.join(folder, name))
            if found is not None and paths.exists(found):
                return found
    return None


def key(name: str) -> str:
    """Reduces a name to what is compared: letters, digits and dots."""
    return re.sub(r"[^a-z0-9.]", "", name.lower())


def _find_local(data_dir: str, relative: str) -> str | None:
    path = os.path.abspath(data_dir)
    if not os.path.exists(path):
        path = _entry(os.path.dirname(path), os.path.basename(path))
    for part in relative.split("/"):
        if path is None:
            return None
        path = os.path.dirname(path) if part == ".." else _entry(path, part)
    return path


def _entry(folder: str, name: str) -> str | None:
    """Finds an entry of a folder by its name, letter case aside."""
    exact = os.path.join(folder, name)
    if os.path.exists(exact):
        return exact
    if not os.path.isdir(folder):
        return None
    entries = sorted(e for e in os.listdir(folder) if key(e) == key(name))
    return os.path.join(folder, entries[0]) if entries else None
