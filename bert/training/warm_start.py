"""Loading of weights that another run or program trained."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import keras
from absl import logging

from bert.files import messages
from bert.models import comparison
from bert.models import description as description_lib
from modeling import checkpoints, name_tables


class AllowedMissing(NamedTuple):
    """The variables of a model that a checkpoint need not have.

    Attributes:
        patterns: of their names. They keep their initial values.
        has_other_outputs: whether the output layer of the checkpoint, if any,
            is another one, so that only the encoder is loaded.
    """

    patterns: tuple[str, ...]
    has_other_outputs: bool


def allowed_missing(
    model: keras.Model,
    source: checkpoints.Source,
    new: Sequence[str],
    origin: description_lib.Description,
    target: description_lib.Description,
) -> AllowedMissing:
    """Returns the variables that a checkpoint need not have.

    Args:
        model: receives the weights.
        source: the open checkpoint.
        new: patterns of the variables that training creates where they are
            missing or have another shape, such as the output layer of a task.
            Empty when loading for evaluation.
        origin: the description of the checkpoint's model.
        target: that of the run.
    """
    patterns = (*new, *model.optional_variables)
    kinds = source.architectures or (str(origin.task),)
    # Models that train no pooler have none in their checkpoints.
    if new and not any(map(description_lib.has_pooler, kinds)):
        patterns = (*patterns, name_tables.POOLER)
    has_other_shapes = any(
        name in source.variables
        and source.variables[name][0] != tuple(variable.shape)
        for name, variable in checkpoints.variables_by_name(model).items()
        if matches(name, new)
    )
    return AllowedMissing(
        patterns,
        has_other_shapes
        or bool(new and comparison.have_other_outputs(origin, target)),
    )


def load(
    model: keras.Model,
    source: checkpoints.Source,
    *,
    new: Sequence[str] = (),
    origin: description_lib.Description,
    target: description_lib.Description,
) -> None:
    """Loads the weights of a checkpoint; logs the variables not loaded.

    Args:
        model, source, new, origin, target: as for `allowed_missing`.

    Raises:
        ValueError: the checkpoint lacks other variables, or does not fit the
            model.
    """
    missing = allowed_missing(model, source, new, origin, target)
    report = checkpoints.load_from(
        model.bert if missing.has_other_outputs else model,
        source,
        new=missing.patterns,
    )
    if not missing.has_other_outputs:
        logging.info("Initialized from %s: %s", source.origin, report)
        return
    head = [
        name
        for name in checkpoints.variables_by_name(model)
        if not name.startswith("bert/")
    ]
    logging.info(
        "Initialized the encoder from %s: %s. The output layer is new: %s.",
        source.origin,
        report,
        ", ".join(head),
    )
    if not source.variables.keys().isdisjoint(head):
        logging.warning("%s", _lost_outputs(source.origin, origin, target))


def _lost_outputs(
    path: str,
    origin: description_lib.Description,
    target: description_lib.Description,
) -> str:
    """Says that a trained output layer is not used, and how to keep it."""
    theirs, ours = origin.labels, target.labels
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
    is_same_task = all(origin.stated(k) == target.stated(k) for k in others)
    # Only a task with several data sets states a name, and has the flag.
    if is_same_task and target.name is not None and {*ours} <= {*theirs}:
        message += (
            " To train the output layer of the model further, pass "
            f"--label_names={','.join(theirs)}."
        )
    return message


def load_for_evaluation(model: keras.Model, source: checkpoints.Source) -> None:
    """Loads all weights of a model that is not trained.

    Args:
        model: receives the weights.
        source: the open checkpoint.

    Raises:
        ValueError: it lacks a weight, or a weight is not finite.
    """
    nothing = description_lib.Description()
    load(model, source, origin=nothing, target=nothing)
    checkpoints.check_finite(model, source.origin)


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Returns whether a name matches one of several patterns as a whole."""
    return any(re.fullmatch(pattern, name) for pattern in patterns)
