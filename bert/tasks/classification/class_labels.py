"""Labels of a sentence classifier, and their weights in the loss."""

import dataclasses
import functools
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from bert.files import json_text, messages
from bert.tasks import task

# A parsed label: a class name, several of them, or a score.
Label = str | tuple[str, ...] | float
# An encoded label: a class id, a 0/1 per class, or a score.
LabelId = int | tuple[float, ...] | float

_LEAST_LABELS = {task.SINGLE_LABEL: 2, task.MULTI_LABEL: 1, task.REGRESSION: 0}
# Python does not parse longer ones; they are sorted last, as text.
_WHOLE = re.compile(r"[+-]?[0-9]{1,300}")
_FRACTION = re.compile(r"[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?")
# Source: SNLI, the data sets of Hugging Face, NumPy, JSON, Excel and pandas.
_NO_LABEL = frozenset(
    ("", "-", "-1", "?", "nan", "null", "n/a", "#n/a", "<na>")
)
BALANCED_WEIGHTS = ("balanced",)  # Value of --class_weights.


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelSet:
    """The labels of a task.

    Args:
        problem_type: one of `task.PROBLEM_TYPES`.
        names: the classes, in the order of the model's outputs; none for
            `regression`.
        aliases: other spellings in the data -> the name.

    Raises:
        ValueError: there are too few names, or some are repeated.
    """

    problem_type: str = task.SINGLE_LABEL
    names: tuple[str, ...] = ()
    aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        shown = messages.listed(self.names) or "none"
        least = _LEAST_LABELS[self.problem_type]
        if len(self.names) < least or len({*self.names}) < len(self.names):
            raise ValueError(
                f"{self.problem_type} needs at least {least} label(s), all of "
                f"them different; got {shown}."
            )

    @functools.cached_property
    def ids(self) -> Mapping[str, int]:
        """The output of each name."""
        return {name: index for index, name in enumerate(self.names)}

    @property
    def num_outputs(self) -> int:
        """`K`, the width of the model's output layer."""
        return 1 if self.problem_type == task.REGRESSION else len(self.names)

    @property
    def placeholder(self) -> Label:
        """The label of unlabeled examples.

        As released: unlabeled test examples have the first label.
        """
        if self.problem_type == task.REGRESSION:
            return 0.0
        return () if self.problem_type == task.MULTI_LABEL else self.names[0]

    def parse(self, value: object) -> Label:
        """Parses the label of a cell.

        Raises:
            ValueError: the label is invalid; the message lists allowed ones.
        """
        if self.problem_type == task.REGRESSION:
            return _parse_score(value)
        names = tuple(
            self.aliases.get(name, name)
            for name in class_names(value, self.problem_type)
        )
        for name in names:
            if name not in self.ids:
                raise ValueError(
                    f"unknown label {messages.short(name)}; allowed: "
                    f"{messages.listed(self.names)}."
                )
        return names if self.problem_type == task.MULTI_LABEL else names[0]

    def is_missing(self, value: object) -> bool:
        """Returns whether a cell says that its row has no label.

        Such as `-` in SNLI, unless it is a label of this set.
        """
        if self.problem_type == task.REGRESSION or value is None:
            return value is None and self.problem_type == task.SINGLE_LABEL
        name = _spelled(value)
        if name in self.ids or name in self.aliases:
            return False
        # Several labels may be none.
        is_none = name == "" and self.problem_type == task.MULTI_LABEL
        return name.lower() in _NO_LABEL and not is_none

    def encode(self, label: Label) -> LabelId:
        """Encodes a parsed label for training."""
        if isinstance(label, float):  # A score.
            return label
        if isinstance(label, tuple):  # Several labels.
            return tuple(float(name in label) for name in self.names)
        return self.ids[label]


def _spelled(value: object) -> str:
    is_text = isinstance(value, str | int | float)
    return str(value).strip() if is_text else repr(value)


def suspicious_names(names: Collection[str]) -> list[str]:
    """Lists the names among classes that often mean that there is no label.

    -1 is a class beside 0 and 1, or beside other negative numbers.
    """
    others = [name for name in names if name.lower() not in _NO_LABEL]
    numbers = {str(number) for number in range(len(others))}
    are_numbers = all(map(_WHOLE.fullmatch, others))
    is_class = are_numbers and ({*others} != numbers or len(others) < 3)
    return [
        name
        for name in names
        if others
        and name.lower() in _NO_LABEL
        and not (name == "-1" and is_class)
    ]


def class_names(value: object, problem_type: str) -> list[str]:
    """Lists the class names in a cell.

    A cell is text, an integer, a Boolean or (`multi_label` only) a JSON list of
    these. Several names in a text are separated by commas. An empty
    `multi_label` cell has no class.

    Raises:
        ValueError: the cell has no name.
    """
    if problem_type != task.MULTI_LABEL:
        return [_class_name(value)]
    if isinstance(value, str):
        value = [part for part in value.split(",") if part.strip()]
    if not isinstance(value, list):
        value = [value]
    return list(dict.fromkeys(map(_class_name, value)))


def _class_name(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int):
        raise ValueError(
            f"a label must be text; got {messages.short(value)}. For scores, "
            "use --problem_type=regression."
        )
    name = str(value).strip()
    if not name:
        raise ValueError(
            "the label is empty; every row must have one. To leave such rows "
            "out, list the labels with --label_names."
        )
    return name


def _parse_score(value: object) -> float:
    try:
        if not isinstance(value, str | int | float):
            raise TypeError
        score = float(value)
        # Records are float32. Python reads 1_0.
        if "_" in str(value) or not json_text.is_number(score):
            raise ValueError
    # A JSON integer may be larger than any float.
    except (ValueError, TypeError, OverflowError):
        raise ValueError(
            "the score must be a finite number in the range of float32; got "
            f"{messages.short(value)}."
        ) from None
    return score


def in_order(names: Collection[str]) -> tuple[str, ...]:
    """Sorts class names, integers by value.

    Thus the order does not depend on that of the rows.

    Raises:
        ValueError: a name is a fraction, so the labels may be scores.
    """
    if fractions := list(filter(_FRACTION.fullmatch, names)):
        raise ValueError(
            f"The label {fractions[0]} is a fraction, but a class is expected; "
            "for scores, use --problem_type=regression; for class names, "
            "list the labels."
        )
    return tuple(sorted(names, key=_sort_key))


def _sort_key(name: str) -> tuple[bool, int, str]:
    is_number = _WHOLE.fullmatch(name) is not None
    return (not is_number, int(name) if is_number else 0, name)


def class_weights(
    weights: Sequence[str], label_set: LabelSet, examples: Iterable[Label]
) -> tuple[float, ...]:
    """Returns the weights of the labels in the loss.

    "balanced" gives all labels the same total weight.
    Source: King and Zeng 2001, "Logistic Regression in Rare Events Data", as in
    scikit-learn's `class_weight="balanced"`: `n / (K * count)`. With several
    labels, the positive weight is `(n - count) / count`, which gives positive
    and negative examples the same total weight.

    Args:
        weights: "balanced", or a number for each label.
        label_set: the labels.
        examples: labels of the examples to train on, read for "balanced".

    Raises:
        ValueError: there is not one positive number for each label; or a label
            has no positive or no negative examples.
    """
    if label_set.problem_type == task.REGRESSION:
        raise ValueError("--class_weights is for labels; got regression.")
    if tuple(weights) == BALANCED_WEIGHTS:
        return _balanced_weights(list(examples), label_set)
    try:
        numbers = tuple(map(float, weights))
    except ValueError:
        numbers = ()
    is_right = all(0 < number < math.inf for number in numbers)
    if len(numbers) != len(label_set.names) or not is_right:
        raise ValueError(
            "--class_weights must be balanced, or a positive number for each "
            f"label, in the order {messages.listed(label_set.names)}; got "
            f"{messages.listed(weights)}."
        )
    return numbers


def _balanced_weights(
    examples: Sequence[Label], label_set: LabelSet
) -> tuple[float, ...]:
    ids = np.array([label_set.encode(label) for label in examples])
    if label_set.problem_type == task.MULTI_LABEL:
        counts = ids.sum(axis=0)
        weighed = len(ids) - counts
    else:
        counts = np.bincount(ids, minlength=len(label_set.names))
        weighed = np.float64(len(ids) / len(counts))
    for name, count in zip(label_set.names, counts, strict=True):
        if not 0 < count < len(ids):
            raise ValueError(
                "--class_weights=balanced needs examples with and without each "
                f"label; {count:g} of {len(ids)} to train on have "
                f"{messages.short(name)}. Give numbers instead."
            )
    return tuple((weighed / counts).tolist())
