"""Comparison of models: does a run fit the folder and the weights it uses?"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence

from absl import logging

from bert.files import messages
from bert.models import description as description_lib
from bert.models import folder as folder_lib
from modeling import config as config_lib
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


def check_same(
    model: folder_lib.ModelFolder,
    config: config_lib.BertConfig,
    description: description_lib.Description,
) -> None:
    """Checks that a run trains or uses the model that its folder contains.

    Dropout and the initialization may differ. Other programs do not say the
    name of the data, and name labels in their own way.

    Args:
        model: the run's folder, which has a checkpoint.
        config: of the run.
        description: of the run.

    Raises:
        ValueError: the message names what differs.
    """
    ours = config.to_dict()
    theirs = model.config.to_dict() if model.config is not None else {}
    sizes = [name for name in ours if name not in _TRAINING_ONLY]
    outputs = _OUTPUTS if model.is_ours else ()
    fixed = (*_TEXT, *_ATTENTION, *_NETWORK, *outputs)
    differing = [
        *_differences(theirs, ours, sizes),
        *_differences(
            model.description.to_json(), description.to_json(), fixed
        ),
    ]
    if differing:
        raise ValueError(
            f"The model in {model.path} is another one: "
            f"{'; '.join(differing)}. Choose another --output_dir, or pass the "
            "values there."
        )


def check_start(
    start: folder_lib.ModelFolder,
    description: description_lib.Description,
    *,
    with_outputs: bool = False,
) -> None:
    """Checks that weights fit the text and the attention of a run.

    Pre-training may start from a model of the other attention, as from a
    left-to-right model (arXiv 2507.00994); a log line says so.

    Args:
        start: the folder of the weights. Those of other programs do not say
            all.
        description: of the run.
        with_outputs: whether the output layer is used too.

    Raises:
        ValueError: the vocabulary, the casing, the attention or the output
            layer differs.
    """
    theirs, ours = start.description.to_json(), description.to_json()
    if start.vocab_file is not None:
        # `check_vocabulary` names the entry that differs.
        theirs.pop("vocab_sha256", None)
    if (
        start.sources.get("do_lower_case") != description_lib.FILE
        and ours.get("do_lower_case")
        and casing.shown(start.entries or ()).do_lower_case
    ):
        # Hugging Face's copy of the Chinese model states the opposite.
        theirs.pop("do_lower_case", None)
    differing = _differences(theirs, ours, _ATTENTION)
    if ours.get("task") == description_lib.PRETRAINING and not with_outputs:
        for difference in differing:
            logging.info(
                "Pre-training changes the model of %s: %s.",
                start.name,
                difference,
            )
        differing = []
    differing = [*_differences(theirs, ours, _TEXT), *differing]
    if differing:
        raise ValueError(
            f"The model of {start.name} does not fit: {'; '.join(differing)}. "
            "Pass the values there, or choose another checkpoint."
        )
    differing = _differences(theirs, ours, _OUTPUTS)
    if with_outputs and differing:
        raise ValueError(
            f"The output layer of {start.name} is another one: "
            f"{'; '.join(differing)}. Evaluate it with the script and the "
            "labels of its training. If labels have the same meaning, name "
            "them alike, in their order there, in its folder's "
            f"{description_lib.FILE}."
        )


def check_text(
    start: folder_lib.ModelFolder,
    vocab_file: str | None,
    description: description_lib.Description,
    *,
    with_outputs: bool = False,
) -> None:
    """Checks the vocabulary of a run too; see `check_start`.

    Args:
        start, description, with_outputs: as for `check_start`.
        vocab_file: of the run, if it has one.

    Raises:
        OSError: the vocabulary cannot be opened.
        ValueError: see `check_vocabulary` and `check_start`.
    """
    if vocab_file is not None:
        entries = tokenization.read_entries(vocab_file)
        check_vocabulary(start, vocab_file, entries)
    check_start(start, description, with_outputs=with_outputs)


def outputs_differ(
    one: description_lib.Description, other: description_lib.Description
) -> bool:
    """Returns whether the output layers of two models differ."""
    return bool(_differences(one.to_json(), other.to_json(), _OUTPUTS))


def check_vocabulary(
    model: folder_lib.ModelFolder, vocab_file: str, entries: Sequence[str]
) -> None:
    """Compares a vocabulary with that of a model, if its folder has one.

    Every word may replace an `[unusedN]` entry of the model's, as the release
    suggests.

    Args:
        model: the folder.
        vocab_file: the other vocabulary, for the message.
        entries: its entries.

    Raises:
        ValueError: they differ in size or in an entry; the message names the
            first difference.
    """
    if model.entries is None or model.vocab_file == vocab_file:
        return
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
    theirs: Mapping[str, object],
    ours: Mapping[str, object],
    names: Iterable[str],
) -> list[str]:
    return [
        f"{name} is {messages.truncate(repr(theirs[name]))} there and "
        f"{messages.truncate(repr(ours[name]))} here"
        for name in names
        if name in theirs
        and name in ours
        and _folded(theirs[name]) != _folded(ours[name])
    ]


def _folded(value: object) -> object:
    """Lower-cases labels: other programs write the same ones in capitals."""
    if isinstance(value, list):
        return [str(name).lower() for name in value]
    return value
