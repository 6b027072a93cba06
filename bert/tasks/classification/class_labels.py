"""Labels of a sentence classifier, and their weights in the loss."""

import dataclasses
import functools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from bert.files import json_text, messages, row_files
from bert.tasks import task

# A parsed label: a class name, several of them, or a score.
Label = str | tuple[str, ...] | float
# An encoded label: a class id, a 0/1 per class, or a score.
LabelId = int | tuple[float, ...] | float

_LEAST_LABELS = {task.SINGLE_LABEL: 2, task.MULTI_LABEL: 1, task.REGRESSION: 0}
# Python does not parse longer ones; they are sorted last, as text.
_WHOLE = re.compile(r"[+-]?[0-9]{1,300}")
_FRACTION = re.compile(r"[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?")
# Source: SNLI, NumPy, JSON, Excel and pandas; the default of --missing_labels.
MISSING = ("-", "?", "nan", "null", "n/a", "#n/a", "<na>")
# Several labels of a text in brackets, separated by ; or |, or as numbers with
# blanks between them.
_OTHER_LIST = re.compile(
    r"\[.*\]|\{.*\}|\(.*,.*\)|.*[;|].*|[\d.]+(\s+[\d.]+)+", re.DOTALL
)
_NUMBERS = re.compile(r"[\d.]+(\s*,\s*[\d.]+)+")
BALANCED_WEIGHTS = ("balanced",)  # Value of --class_weights.


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelSet:
    """The labels of a task.

    Args:
        problem_type: one of `task.PROBLEM_TYPES`.
        names: the classes, in the order of the model's outputs; none for
            `regression`.
        aliases: other names in the data -> the name.
        missing: what the cell of a row without a label has, besides none,
            unless it is one of the names. Capitals do not matter.

    Raises:
        ValueError: there are too few names, or some are repeated.
    """

    problem_type: str = task.SINGLE_LABEL
    names: tuple[str, ...] = ()
    aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)
    missing: tuple[str, ...] = MISSING

    def __post_init__(self) -> None:
        shown = messages.listed(self.names) or "none"
        least = _LEAST_LABELS[self.problem_type]
        num_different = len({*map(row_files.spelling_key, self.names)})
        if len(self.names) < least or num_different < len(self.names):
            raise ValueError(
                f"{self.problem_type} needs at least {least} label(s), all of "
                f"them different; got {shown}."
            )

    @functools.cached_property
    def ids(self) -> Mapping[str, int]:
        """The output of each name."""
        return {name: index for index, name in enumerate(self.names)}

    @functools.cached_property
    def _missing(self) -> AbstractSet[str]:
        return frozenset(map(str.lower, self.missing))

    @functools.cached_property
    def _by_key(self) -> Mapping[str, str]:
        """The name of each spelling."""
        spelled = {row_files.spelling_key(name): name for name in self.names}
        return {**self.aliases, **spelled}

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
        names = []
        for name in class_names(value, self.problem_type):
            known = self._by_key.get(row_files.spelling_key(name))
            if known is None:
                check_form(value, self.problem_type)
                advice = " Rows without a label: see --missing_labels."
                raise ValueError(
                    f"unknown label {messages.short(name)}; allowed: "
                    f"{messages.listed(self.names)}."
                    + (advice if self.missing else "")
                )
            names.append(known)
        if self.problem_type == task.MULTI_LABEL:
            return tuple(dict.fromkeys(names))
        return names[0]

    def is_missing(self, value: object) -> bool:
        """Returns whether a cell says that its row has no label."""
        if (
            isinstance(value, str)
            and row_files.spelling_key(value) in self._by_key
        ):
            return False
        return is_missing(value, self.problem_type, self._missing)

    def encode(self, label: Label) -> LabelId:
        """Encodes a parsed label for training."""
        if isinstance(label, float):  # A score.
            return label
        if isinstance(label, tuple):  # Several labels.
            return tuple(float(name in label) for name in self.names)
        return self.ids[label]


def is_missing(
    value: object, problem_type: str, missing: AbstractSet[str]
) -> bool:
    """Returns whether a cell is empty, or has one of the words for no label.

    An empty text is no label of several.

    Args:
        value: the cell.
        problem_type: one of `task.PROBLEM_TYPES`.
        missing: the words, in small letters.
    """
    if value is None:
        return True
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    name = str(value).strip()
    if not name:
        return problem_type != task.MULTI_LABEL
    return name.lower() in missing


def class_names(value: object, problem_type: str) -> list[str]:
    """Lists the class names in a cell.

    A cell is text, an integer, a Boolean or (`multi_label` only) a list of
    texts. Several names in a text are separated by commas. An empty
    `multi_label` cell has no class.

    Raises:
        ValueError: the cell has no name, or a list of something else.
    """
    if problem_type != task.MULTI_LABEL:
        return [_class_name(value)]
    if isinstance(value, list):
        if not all(isinstance(name, str) for name in value):
            raise ValueError(
                "a list of labels has their names as text, not a number for "
                'each label, such as ["film", "good"]; got '
                f"{messages.short(value)}. docs/own_data.md converts vectors."
            )
        return [_class_name(name) for name in value]
    if isinstance(value, str):
        names = [part for part in value.split(",") if part.strip()]
        return list(map(_class_name, names))
    return [_class_name(value)]


def check_form(value: object, problem_type: str) -> None:
    """Checks that a text is not a list in the form of another program.

    Such as `['x', 'y']` of pandas, `x;y`, `0 1 0` or `0,1,0`.

    Raises:
        ValueError: it is; the message has the right form.
    """
    if not isinstance(value, str):
        return
    text = value.strip()
    if problem_type != task.MULTI_LABEL:
        if text.startswith("[") and text.endswith("]"):
            raise ValueError(
                f"a label is a name, not a list; got {messages.short(text)}. "
                "For several labels, use --problem_type=multi_label; if this "
                "is a name, list all labels with --label_names."
            )
        return
    # No label is named twice, but a number of a vector is.
    numbers = re.findall(r"[\d.]+", text) if _NUMBERS.fullmatch(text) else []
    is_vector = len({*numbers}) < len(numbers)
    if is_vector or _OTHER_LIST.fullmatch(text):
        raise ValueError(
            "a text has the names of labels, separated by commas, such as "
            f"'film,good'; got {messages.short(text)}. If this is one label, "
            "list all labels with --label_names. docs/own_data.md converts "
            "vectors."
        )


def _class_name(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int):
        raise ValueError(
            f"a label must be text; got {messages.short(value)}. "
            + (
                "For several labels, use --problem_type=multi_label."
                if isinstance(value, list)
                else "For scores, use --problem_type=regression."
            )
        )
    name = str(value).strip()
    if not name:
        raise ValueError("the label is empty; every row must have one.")
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


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Sorts class names, integers by value; spellings of one name are one.

    Thus the order does not depend on that of the rows.

    Raises:
        ValueError: a name is a fraction, so the labels may be scores.
    """
    spellings: dict[str, list[str]] = {}
    for name in names:
        spellings.setdefault(row_files.spelling_key(name), []).append(name)
    if fractions := list(filter(_FRACTION.fullmatch, spellings)):
        raise ValueError(
            f"The label {fractions[0]} is a fraction, but a class is expected; "
            "for scores, use --problem_type=regression; for class names, "
            "list the labels with --label_names."
        )
    one_each = [
        same[0] if len(same) == 1 else key for key, same in spellings.items()
    ]
    return tuple(sorted(one_each, key=_sort_key))


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
        numerators = len(ids) - counts
    else:
        counts = np.bincount(ids, minlength=len(label_set.names))
        numerators = np.float64(len(ids) / len(counts))
    for name, count in zip(label_set.names, counts, strict=True):
        if not 0 < count < len(ids):
            raise ValueError(
                "--class_weights=balanced needs examples with and without each "
                f"label; {count:g} of {len(ids)} to train on have "
                f"{messages.short(name)}. Give numbers instead."
            )
    return tuple((numerators / counts).tolist())
