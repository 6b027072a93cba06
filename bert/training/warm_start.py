"""Loading of weights that another run or program trained."""

import re
from collections.abc import Sequence

import keras
from absl import logging

from bert.files import messages
from bert.models import comparison
from bert.models import description as description_lib
from modeling import checkpoints, name_tables


def load(
    model: keras.Model,
    source: checkpoints.Source,
    *,
    new: Sequence[str] = (),
    origin: description_lib.Description,
    target: description_lib.Description,
) -> None:
    """Loads the weights of a checkpoint; logs the variables not loaded.

    Only the encoder is loaded if the output layer of the checkpoint is another
    one than that of the model.

    Args:
        model: receives the weights.
        source: the open checkpoint.
        new: patterns of the variables that training creates where they are
            missing or have another shape, such as the output layer of a task.
            Empty when loading for evaluation.
        origin: the description of the checkpoint's model.
        target: that of the run.

    Raises:
        ValueError: the checkpoint lacks other variables, or does not fit the
            model.
    """
    names = checkpoints.variables_by_name(model)
    has_other_shapes = any(
        name in source.variables
        and source.variables[name][0] != tuple(variable.shape)
        for name, variable in names.items()
        if matches(name, new)
    )
    loads_outputs = not has_other_shapes and not (
        new and comparison.have_other_outputs(origin, target)
    )
    may_be_missing = (*new, *model.optional_variables)
    kinds = source.architectures or (str(origin.task),)
    # Models that train no pooler have none in their checkpoints.
    if new and not any(map(description_lib.has_pooler, kinds)):
        may_be_missing = (*may_be_missing, name_tables.POOLER)
    report = checkpoints.load_from(
        model if loads_outputs else model.bert, source, new=may_be_missing
    )
    if loads_outputs:
        logging.info("Initialized from %s: %s", source.origin, report)
        return
    head = [name for name in names if not name.startswith("bert/")]
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
