"""Loading of weights that another run or program trained."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
from absl import logging

from files import messages
from modeling import bert, checkpoints, heads, name_tables
from training import flags as training_flags
from training import model_folder

# Tasks, and Hugging Face's classes, of models that have no pooler.
_WITHOUT_POOLER = {
    model_folder.QUESTION_ANSWERING,
    model_folder.TAGGING,
    "BertForMaskedLM",
    "BertForQuestionAnswering",
    name_tables.TOKEN_CLASSIFICATION,
}


class Absent(NamedTuple):
    """The variables of a model that a checkpoint need not have.

    Attributes:
        patterns: of their names. They keep their initial values.
        has_other_outputs: whether the output layer of the checkpoint, if any,
            is another one, so that only the encoder is loaded.
    """

    patterns: tuple[str, ...]
    has_other_outputs: bool


def may_be_absent(
    model: keras.Model,
    source: checkpoints.Source,
    new: Sequence[str],
    origin: Mapping[str, Any],
    target: Mapping[str, Any],
) -> Absent:
    """Returns the variables that a checkpoint need not have.

    Args:
        model: receives the weights.
        source: the open checkpoint.
        new: patterns of the variables that training creates where they are
            missing or have another shape, such as the output layer of a task.
            Without them, a model is loaded that is not trained.
        origin: the description of the checkpoint's model, as in `task.json`.
        target: that of the run.
    """
    patterns = (*new, *model.optional_variables)
    kinds = {*source.architectures} or {str(origin.get("task"))}
    # These models train no pooler, so their checkpoints have none.
    if new and kinds <= _WITHOUT_POOLER:
        patterns = (*patterns, name_tables.POOLER)
    has_other_shapes = any(
        name in source.variables
        and source.variables[name][0] != tuple(variable.shape)
        for name, variable in checkpoints.variables_by_name(model).items()
        if matches(name, new)
    )
    return Absent(
        patterns,
        has_other_shapes
        or bool(new and model_folder.outputs_differ(origin, target)),
    )


def load(
    model: keras.Model,
    path: str,
    *,
    new: Sequence[str] = (),
    origin: Mapping[str, Any],
    target: Mapping[str, Any],
) -> None:
    """Loads the weights of a checkpoint; logs the variables not loaded.

    Args:
        model, new, origin, target: as for `may_be_absent`.
        path: the checkpoint.

    Raises:
        FileNotFoundError: there is no checkpoint.
        ValueError: it lacks other variables, or does not fit the model.
    """
    with checkpoints.opened(path) as source:
        absent = may_be_absent(model, source, new, origin, target)
        names = {*source.variables}
    if not absent.has_other_outputs:
        report = checkpoints.load(model, path, new=absent.patterns)
        logging.info("Initialized from %s: %s", path, report)
        return
    report = checkpoints.load(model.bert, path, new=absent.patterns)
    head = [
        name
        for name in checkpoints.variables_by_name(model)
        if not name.startswith("bert/")
    ]
    logging.info(
        "Initialized the encoder from %s: %s. The output layer is new: %s.",
        path,
        report,
        ", ".join(head),
    )
    if not names.isdisjoint(head):
        logging.warning("%s", _lost_outputs(path, origin, target))


def _lost_outputs(
    path: str, origin: Mapping[str, Any], target: Mapping[str, Any]
) -> str:
    """Says that a trained output layer is not used, and how to keep it."""
    theirs, ours = origin.get("labels"), target.get("labels")
    message = (
        f"The trained output layer of {path} is not used, because this run has "
        "other outputs: "
    )
    if not theirs or not ours:
        return f"{message}a new output layer is trained."
    message += (
        f"the model has the labels {messages.listed(theirs)}, this run "
        f"{messages.listed(ours)}. A new output layer is trained."
    )
    others = ("task", "name", "problem_type")
    is_same_task = all(origin.get(k) == target.get(k) for k in others)
    # Only classifiers have a data set's name, and the flag.
    if is_same_task and "name" in target and {*ours} <= {*theirs}:
        message += (
            " To train the output layer of the model further, pass "
            f"--label_names={','.join(theirs)}."
        )
    return message


def load_for_evaluation(model: keras.Model, path: str) -> None:
    """Loads all weights of a model that is not trained.

    Args:
        model: receives the weights.
        path: the checkpoint.

    Raises:
        FileNotFoundError: there is no checkpoint.
        ValueError: it lacks a weight, or a weight is not finite.
    """
    load(model, path, origin={}, target={})
    checkpoints.check_finite(model, path)


def load_pretrained(
    model: bert.BertModel | heads.BertForPreTraining, options: Any
) -> None:
    """Loads a checkpoint of BERT for a program that does not train.

    Args:
        model: receives the weights.
        options: `init_checkpoint`, `vocab_file` and `do_lower_case`.

    Raises:
        ValueError: the checkpoint is not of BERT, was trained with another
            vocabulary, casing or attention, lacks a weight, or has one that is
            not finite.
    """
    path = options.init_checkpoint
    text = {
        "attention": training_flags.BIDIRECTIONAL,
        "do_lower_case": options.do_lower_case,
        "strip_accents": options.strips_accents,
    }
    model_folder.check_start(path, text, options.vocab_file)
    load_for_evaluation(model, path)


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Returns whether a name matches one of several patterns as a whole."""
    return any(re.fullmatch(pattern, name) for pattern in patterns)
