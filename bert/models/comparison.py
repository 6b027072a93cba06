"""Comparison of the model of a command with that of a folder."""

import dataclasses
import itertools
import re
from collections.abc import Iterable

from absl import logging

from bert.files import messages
from bert.models import description as description_lib
from bert.models import folder as folder_lib
from vocab import casing, tokenization

# The entries on which the meaning of the weights depends.
_TEXT = ("vocab_sha256", "do_lower_case", "strip_accents")
_ATTENTION = ("attention",)
_OUTPUTS = ("task", "name", "problem_type", "labels")
_NETWORK = ("objective", "bilstm_head", "features")
# Fields of a configuration that have no effect without training.
_TRAINING_ONLY = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "classifier_dropout_prob",
    "initializer_range",
)
_UNUSED = re.compile(r"\[unused\d+\]")


def check_run(
    run: folder_lib.ModelFolder, planned: folder_lib.PlannedModel
) -> None:
    """Checks that a run trains or uses the model that its folder contains.

    Dropout and the initialization may differ. Other programs do not state the
    name of the data, and name labels in their own way.

    Args:
        run: the run's folder.
        planned: the model of the run.

    Raises:
        ValueError: the folder has a checkpoint of another model, or the
            vocabulary of another one; the message names what differs.
    """
    if not run.has_training_state:
        if planned.vocab_file is None:
            sha256 = planned.description.vocab_sha256
            run.check_vocabulary(sha256, "the records")
        return
    sizes = [
        field.name
        for field in dataclasses.fields(planned.config)
        if field.name not in _TRAINING_ONLY
    ]
    names = (*_TEXT, *_ATTENTION, *_NETWORK, *(_OUTPUTS if run.is_ours else ()))
    differing = [
        *_differences(run.config, planned.config, sizes),
        *_differences(run.description, planned.description, names),
    ]
    if differing:
        raise ValueError(
            f"The model in {run.path} is another one: {'; '.join(differing)}. "
            "Choose another --output_dir, or pass the values there."
        )
    check_vocabulary(run, planned.vocab_file)


def check_init(
    init: folder_lib.ModelFolder,
    description: description_lib.Description,
    vocab_file: str | None = None,
    *,
    with_outputs: bool = False,
) -> None:
    """Checks that weights fit the text and the attention of a command.

    Pre-training may start from a model of the other attention, as from a
    left-to-right model (arXiv 2507.00994); a log line says so.

    Args:
        init: the folder of the weights. Those of other programs do not state
            everything.
        description: of the command's model.
        vocab_file: of the command, if it has one.
        with_outputs: whether the output layer is used too.

    Raises:
        OSError: the vocabulary cannot be opened.
        ValueError: the vocabulary, the casing, the attention or the output
            layer differs.
    """
    check_vocabulary(init, vocab_file)
    theirs, text = init.description, {*_TEXT}
    if init.vocab_file is not None:
        # `check_vocabulary` names the entry that differs.
        text.remove("vocab_sha256")
    if (
        init.sources.get("do_lower_case") != description_lib.FILE
        and description.do_lower_case
        and casing.from_entries(init.entries or ()).do_lower_case
    ):
        # Hugging Face's copy of the Chinese model states the opposite.
        text.remove("do_lower_case")
    differing = _differences(theirs, description, _ATTENTION)
    if description.objective is not None and not with_outputs:
        for difference in differing:
            logging.info(
                "Pre-training changes the model of %s: %s.",
                init.name,
                difference,
            )
        differing = []
    differing = [
        *_differences(theirs, description, sorted(text, key=_TEXT.index)),
        *differing,
    ]
    advice = "Pass the values there, or choose another checkpoint."
    if with_outputs and not differing:
        differing = _differences(theirs, description, _OUTPUTS)
        advice = (
            "This is its output layer: evaluate it with the script and the "
            "labels of its training. If labels have the same meaning, name "
            "them alike, in their order there, in its folder's "
            f"{description_lib.FILE}."
        )
    if differing:
        raise ValueError(
            f"The model of {init.name} does not fit: {'; '.join(differing)}. "
            f"{advice}"
        )


def have_other_outputs(
    one: description_lib.Description, other: description_lib.Description
) -> bool:
    """Returns whether the output layers of two models differ."""
    return bool(_differences(one, other, _OUTPUTS))


def check_vocabulary(
    model: folder_lib.ModelFolder, vocab_file: str | None
) -> None:
    """Compares a vocabulary with that of a model, if its folder has one.

    Every word may replace an `[unusedN]` entry of the model's, as the release
    suggests.

    Args:
        model: the folder.
        vocab_file: the other vocabulary; None for none.

    Raises:
        OSError: the vocabulary cannot be opened.
        ValueError: they differ in size or in an entry; the message names the
            first difference.
    """
    if vocab_file in (None, model.vocab_file) or model.entries is None:
        return
    entries = tokenization.read_entries(vocab_file)
    pairs = itertools.zip_longest(entries, model.entries)
    for number, (ours, theirs) in enumerate(pairs, start=1):
        if ours == theirs or (ours and theirs and _UNUSED.fullmatch(theirs)):
            continue
        shown = [
            "the end" if entry is None else repr(entry)
            for entry in (ours, theirs)
        ]
        raise ValueError(
            f"The vocabulary must be that of the model: {vocab_file} "
            f"({len(entries)} entries) differs from {model.vocab_file} "
            f"({len(model.entries)} entries) first in line {number}: "
            f"{shown[0]}, there {shown[1]}. Pass "
            f"--vocab_file={model.vocab_file}."
        )


def _differences(
    theirs: object, ours: object, names: Iterable[str]
) -> list[str]:
    """Describes the attributes that differ, of those that both state."""
    pairs = {
        name: (getattr(theirs, name, None), getattr(ours, name, None))
        for name in names
    }
    return [
        f"{name} is {_shown(there)} there and {_shown(here)} here"
        for name, (there, here) in pairs.items()
        if there is not None
        and here is not None
        and _folded(there) != _folded(here)
    ]


def _shown(value: object) -> str:
    shown = [*value] if isinstance(value, tuple) else value
    return messages.truncate(repr(shown))


def _folded(value: object) -> object:
    """Lower-cases labels: other programs write the same ones in capitals."""
    if isinstance(value, tuple):
        return [str(name).lower() for name in value]
    return value
