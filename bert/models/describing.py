"""Description of a run's model in its folder, after the checks."""

import dataclasses
import os

from absl import logging

from bert.files import run_files
from bert.models import compatibility
from bert.models import description as description_lib
from bert.models import folder as folder_lib
from modeling import config as config_lib
from vocab import tokenization


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlannedModel:
    """The model of a run.

    Attributes:
        config: the sizes.
        description: the content of its `task.json`.
        vocab_file: the vocabulary to copy; None to leave that of the folder.
        lacks_vocabulary: the reason why the vocabulary is not known; empty if
            it is.
    """

    config: config_lib.BertConfig
    description: description_lib.Description
    vocab_file: str | None = None
    lacks_vocabulary: str = ""


def check(
    folder: folder_lib.ModelFolder,
    planned: PlannedModel,
    *,
    is_training: bool,
) -> None:
    """Checks that a folder may hold a model; changes nothing.

    Args:
        folder: of the run or the trial, which need not exist.
        planned: the model of the run.
        is_training: whether the model is trained.

    Raises:
        ValueError: the folder has a checkpoint of another model; the message
            names what differs. Or TensorFlow cannot read from its path.
    """
    if is_training and ("[" in folder.path or "\\" in folder.path):
        raise ValueError(
            "--output_dir must not contain [ or a backslash: TensorFlow takes "
            f"them for a pattern when it reads checkpoints. Got {folder.path}."
        )
    if folder.is_latest:
        compatibility.check_same(folder, planned.config, planned.description)
        if planned.vocab_file is not None:
            entries = tokenization.read_entries(planned.vocab_file)
            compatibility.check_vocabulary(folder, planned.vocab_file, entries)
    elif planned.vocab_file is None:
        folder.check_vocabulary(planned.description.vocab_sha256, "the records")


def write(folder: folder_lib.ModelFolder, planned: PlannedModel) -> None:
    """Describes a model beside its checkpoint.

    A run writes it with its first checkpoint. A run without training describes
    only a folder that another program wrote, because that program's files do
    not say everything.

    Args:
        folder: of the run or the trial, created if missing.
        planned: the model of the run.
    """
    folder_lib.write(
        folder.path, planned.config, planned.description, planned.vocab_file
    )
    if planned.lacks_vocabulary and not folder.vocab_file:
        logging.warning(
            "%s has no vocabulary, because %s. Copy the vocabulary to %s: the "
            "programs that use this model need it.",
            folder.path,
            planned.lacks_vocabulary,
            os.path.join(folder.path, run_files.VOCABULARY),
        )
