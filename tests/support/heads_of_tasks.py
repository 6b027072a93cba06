"""The network of each task, and what its folder says."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import Any

from modeling import checkpoints, heads
from tests.support import toy_files


@dataclasses.dataclass(frozen=True, kw_only=True)
class Head:
    """A kind of network.

    Attributes:
        make: makes it of a configuration.
        architecture: its name in Hugging Face's configurations.
        entries: those of task.json that are its own.
    """

    make: Callable[..., Any]
    architecture: str
    entries: dict[str, Any]


# By the name of the task.
HEADS = {
    "pretraining": Head(
        make=heads.BertForPreTraining,
        architecture="BertForPreTraining",
        entries={},
    ),
    "classification": Head(
        make=functools.partial(
            heads.BertForSequenceClassification, num_labels=2
        ),
        architecture="BertForSequenceClassification",
        entries={"labels": ["no", "yes"], "problem_type": "single_label"},
    ),
    "tagging": Head(
        make=functools.partial(heads.BertForTokenClassification, num_labels=3),
        architecture="BertForTokenClassification",
        entries={"labels": ["O", "B-X", "I-X"]},
    ),
    "question_answering": Head(
        make=heads.BertForQuestionAnswering,
        architecture="BertForQuestionAnswering",
        entries={"version_2_with_negative": False},
    ),
    "multiple_choice": Head(
        make=heads.BertForMultipleChoice,
        architecture="BertForMultipleChoice",
        entries={},
    ),
}


def save(folder: pathlib.Path, model: Any, **entries: Any) -> pathlib.Path:
    """Writes a network as a run leaves it; returns the folder.

    Args:
        folder: made if missing.
        model: the network.
        **entries: of task.json, which is not written without any.
    """
    folder.mkdir(parents=True, exist_ok=True)
    checkpoints.save(
        str(folder / "model.ckpt-3"), checkpoints.variables_by_name(model)
    )
    toy_files.write_json(folder / "bert_config.json", model.config.to_dict())
    if entries:
        toy_files.write_json(folder / "task.json", entries)
    return folder
