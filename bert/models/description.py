"""Description of a model: the typed content of its `task.json`.

A description says what the weights alone do not: the task, the labels, the
text that the model reads. `None` means that nobody said so; nothing is assumed
in its place.
"""

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from bert.files import json_text, messages

FILE = "task.json"

PRETRAINING, CLASSIFICATION = "pretraining", "classification"
QUESTION_ANSWERING, TAGGING = "question_answering", "tagging"
MULTIPLE_CHOICE = "multiple_choice"


class ModelClass(NamedTuple):
    """A class of Hugging Face's models.

    Attributes:
        task: ours with the same output layer; its own models are like those of
            its first class.
        has_labels: whether the outputs have the names of labels.
        has_pooler: whether the pooler is trained.
    """

    task: str
    has_labels: bool = False
    has_pooler: bool = True


# The tasks of this project: the only place of `bert.models` and `bert.training`
# that names them.
CLASSES = {
    "BertForPreTraining": ModelClass(PRETRAINING),
    "BertForMaskedLM": ModelClass(PRETRAINING, has_pooler=False),
    "BertForSequenceClassification": ModelClass(
        CLASSIFICATION, has_labels=True
    ),
    "BertForTokenClassification": ModelClass(
        TAGGING, has_labels=True, has_pooler=False
    ),
    "BertForQuestionAnswering": ModelClass(
        QUESTION_ANSWERING, has_pooler=False
    ),
    "BertForMultipleChoice": ModelClass(MULTIPLE_CHOICE),
}
TASKS = (*dict.fromkeys(kind.task for kind in CLASSES.values()),)
WITH_LABELS = (*(k.task for k in CLASSES.values() if k.has_labels),)
# JSON has no infinities.
_INFINITIES = {"inf": math.inf, "-inf": -math.inf}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Description:
    """The content of `task.json`; `None` means that nobody said so.

    Attributes:
        task: one of `TASKS`, or the name of a task of the user's.
        name: of the data, such as `mrpc`, of a task with several data sets.
        problem_type: of the labels, one of `bert.tasks.task.PROBLEM_TYPES`.
        labels: the names of the outputs, in their order.
        activation: of a score, in a CrossEncoder: `identity` or `sigmoid`.
        max_seq_length: the word pieces of a sequence.
        do_lower_case, strip_accents: of the tokenizer.
        vocab_sha256: a hash of the vocabulary's entries.
        attention: `bidirectional` or `causal`.
        objective: of pre-training.
        bilstm_head: whether a BiLSTM is below the output layer.
        features: the hidden layers that a feature-based tagger reads.
        version_2_with_negative: whether a question may have no answer.
        null_score_diff_threshold: the null odds above which there is none;
            `auto` until an evaluation chose it.
        packing: whether padding is excluded from attention.
        flags: the other entries by name: flags of the task with the values of
            the training. Whoever reads one checks it as the flag's value
            (`flags.check_value`). One that is None is not stated.
    """

    task: str | None = None
    name: str | None = None
    problem_type: str | None = None
    labels: tuple[str, ...] | None = None
    activation: str | None = None
    max_seq_length: int | None = None
    do_lower_case: bool | None = None
    strip_accents: bool | None = None
    vocab_sha256: str | None = None
    attention: str | None = None
    objective: str | None = None
    bilstm_head: bool | None = None
    features: str | None = None
    version_2_with_negative: bool | None = None
    null_score_diff_threshold: float | str | None = None
    packing: bool | None = None
    flags: Mapping[str, object] = dataclasses.field(default_factory=dict)

    @classmethod
    def from_json(
        cls, values: Mapping[str, object], origin: str = FILE
    ) -> Self:
        """Reads a parsed `task.json`.

        Args:
            values: its entries; `null` counts as missing.
            origin: the file, for messages.

        Raises:
            ValueError: an entry has a wrong type; the message names it.
        """
        kinds = _kinds()
        entries = {}
        for name, value in values.items():
            if value is not None and name in kinds:
                entries[name] = _converted(value, kinds[name], origin, name)
        flags = {n: v for n, v in values.items() if n not in kinds}
        return cls(**entries, flags=flags)

    def to_json(self) -> dict[str, object]:
        """Returns the entries of a `task.json`, without what nobody said."""
        values = {
            **{name: getattr(self, name) for name in _kinds()},
            **self.flags,
        }
        return {
            name: _as_json(value)
            for name, value in values.items()
            if value is not None
        }

    def completed(self, other: "Description") -> Self:
        """Returns a copy in which another fills in what is not said here."""
        missing = {
            name: getattr(other, name)
            for name in _kinds()
            if getattr(self, name) is None
        }
        stated = {k: v for k, v in self.flags.items() if v is not None}
        return dataclasses.replace(
            self, **missing, flags={**other.flags, **stated}
        )

    def stated(self, name: str) -> object:
        """Returns an entry by name, of `task.json`; None if nobody said it."""
        if name in _kinds():
            return getattr(self, name)
        return self.flags.get(name)


def has_pooler(kind: str) -> bool:
    """Returns whether the models of a task, or of a class, train the pooler."""
    for name, model_class in CLASSES.items():
        if kind in (name, model_class.task):
            return model_class.has_pooler
    return True


def is_entry(name: str) -> bool:
    """Returns whether a description has an attribute for an entry."""
    return name in _kinds()


@functools.cache
def _kinds() -> dict[str, tuple[type, ...]]:
    """Returns the types of the entries by name."""
    kinds = {}
    for name, hint in typing.get_type_hints(Description).items():
        if name != "flags":
            parts = typing.get_args(hint)
            kinds[name] = tuple(
                typing.get_origin(part) or part
                for part in parts
                if part is not types.NoneType
            )
    return kinds


def _converted(
    value: object, kinds: tuple[type, ...], origin: str, name: str
) -> Any:
    """Converts a JSON value to the type of an entry."""
    if kinds == (tuple,):
        if isinstance(value, list | tuple) and all(
            isinstance(part, str) for part in value
        ):
            return tuple(value)
    elif float in kinds:
        if isinstance(value, str) and value in _INFINITIES:
            return _INFINITIES[value]
        if json_text.is_number(value):
            return value
        if str in kinds and isinstance(value, str):
            return value
    elif type(value) in kinds and (type(value) is not int or value >= 0):
        return value
    wanted = {
        tuple: "a list of strings",
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        str: "a string",
    }
    raise ValueError(
        f"{origin}: {name!r} must be "
        f"{' or '.join(wanted[kind] for kind in kinds)}; got "
        f"{messages.truncate(repr(value), 60)}."
    )


def _as_json(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    return str(value) if value in (math.inf, -math.inf) else value
