"""Labels of a sentence classifier, and their weights in the loss."""

import collections
import dataclasses
import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from files import json_text, messages, run_files, writing
from tasks import task

# A parsed label: a class name, several of them, or a score.
Label = str | tuple[str, ...] | float
# An encoded label: a class id, a 0/1 per class, or a score.
LabelId = int | tuple[float, ...] | float

_LEAST_LABELS = {task.SINGLE_LABEL: 2, task.MULTI_LABEL: 1, task.REGRESSION: 0}
# Python does not parse longer ones; they are sorted last, as text.
_WHOLE = re.compile(r"[+-]?[0-9]{1,300}")
_FRACTION = re.compile(r"[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?")
BALANCED_WEIGHTS = ("balanced",)  # Value of --class_weights.


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelSet:
    """The labels of a task.

    Args:
        problem_type: one of `task.PROBLEM_TYPES`.
        names: the classes, in the order of the model's outputs; none for
            `regression`.
        aliases: other spellings in the data -> the name.
        separator: separates the names in a `multi_label` cell of text.
        thresholds: for `multi_label`, the minimum probability of each label;
            0.5 for all if empty.
        thresholds_step: the step of the weights for which the thresholds were
            tuned; 0 if unknown.

    Raises:
        ValueError: the names do not fit the problem type, or are repeated.
    """

    problem_type: str = task.SINGLE_LABEL
    names: tuple[str, ...] = ()
    aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)
    separator: str = ","
    # Not in the `repr`, which is stored with records.
    thresholds: tuple[float, ...] = dataclasses.field(default=(), repr=False)
    thresholds_step: int = dataclasses.field(default=0, repr=False)

    def __post_init__(self):
        messages.check_choice(
            "problem_type", self.problem_type, task.PROBLEM_TYPES
        )
        if len(set(self.names)) != len(self.names):
            raise ValueError(
                f"Label names must differ; got {messages.listed(self.names)}."
            )
        if self.problem_type == task.REGRESSION and self.names:
            raise ValueError(
                "A score has no label names; got "
                f"{messages.listed(self.names)}."
            )
        least = _LEAST_LABELS[self.problem_type]
        if len(self.names) < least:
            raise ValueError(
                f"{self.problem_type} needs at least {least} label(s); "
                f"got {messages.listed(self.names) or 'none'}."
            )
        if self.thresholds and len(self.thresholds) != len(self.names):
            raise ValueError(
                f"There must be a threshold for each of {len(self.names)} "
                f"labels; got {len(self.thresholds)}."
            )

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

    def parse(self, value: Any) -> Label:
        """Parses the label of a cell.

        Raises:
            ValueError: the label is invalid; the message lists allowed ones.
        """
        if self.problem_type == task.REGRESSION:
            return _parse_score(value)
        known = set(self.names)
        found = tuple(
            self.aliases.get(name, name)
            for name in _class_names(value, self.problem_type, self.separator)
        )
        for name in found:
            if name not in known:
                raise ValueError(
                    f"unknown label {messages.short(name)}; allowed: "
                    f"{messages.listed(self.names)}."
                )
        return found if self.problem_type == task.MULTI_LABEL else found[0]

    def encode(self, label: Label) -> LabelId:
        """Encodes a parsed label for training."""
        if isinstance(label, float):  # A score.
            return label
        if isinstance(label, tuple):  # Several labels.
            return tuple(float(name in label) for name in self.names)
        return self.names.index(label)

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON for `load`, with thresholds if any."""
        held: dict[str, Any] = {
            "problem_type": self.problem_type,
            "labels": list(self.names),
        }
        if self.thresholds:
            held["thresholds"] = list(self.thresholds)
        if self.thresholds_step:
            held["thresholds_step"] = self.thresholds_step
        return held

    def tuned(
        self, thresholds: tuple[float, ...], checkpoint: str
    ) -> "LabelSet":
        """Returns the labels with thresholds tuned for a checkpoint."""
        return dataclasses.replace(
            self,
            thresholds=thresholds,
            thresholds_step=run_files.step_of(checkpoint),
        )

    def for_checkpoint(self, checkpoint: str) -> "LabelSet":
        """Drops thresholds that were tuned for other weights, with a warning.

        Args:
            checkpoint: the prefix of the weights that decide.
        """
        step = self.thresholds_step
        if not run_files.are_of_other_weights(step, checkpoint):
            return dataclasses.replace(self, thresholds_step=0)
        logging.warning(
            "The thresholds in labels.json were tuned at step %d. %s decides "
            "with 0.5; --do_eval --tune_thresholds tunes its thresholds.",
            *(step, checkpoint),
        )
        return dataclasses.replace(self, thresholds=(), thresholds_step=0)

    def save(self, path: str) -> None:
        """Writes the problem type, the names and the thresholds as JSON."""
        writing.write_json(path, self.to_dict())


def load(path: str) -> LabelSet:
    """Loads a file written by `LabelSet.save`.

    Raises:
        OSError: the file cannot be opened.
        ValueError: the file has another content.
    """
    return _parse(json_text.read(path), path)


def of_model(value: Mapping[str, Any] | None, path: str) -> LabelSet | None:
    """Returns the labels of a model, without thresholds.

    Args:
        value: labels in the form of `labels.json`; None if there are none.
        path: of the model, for messages.

    Raises:
        ValueError: the value has another form.
    """
    return None if value is None else _parse(value, path).tuned((), "")


def _parse(value: Any, path: str) -> LabelSet:
    try:
        names = value["labels"]
        if not json_text.has_shape(names, [str]):
            raise ValueError(
                f"labels must be a list of names; got {messages.short(names)}"
            )
        return LabelSet(
            problem_type=value["problem_type"],
            names=tuple(names),
            thresholds=tuple(map(float, value.get("thresholds", ()))),
            # Absent in the files of earlier versions.
            thresholds_step=operator.index(value.get("thresholds_step", 0)),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: must contain a problem_type and its labels, as saved "
            f"with a trained model ({error})."
        ) from error


def _class_names(
    value: Any, problem_type: str, separator: str = ","
) -> list[str]:
    """Lists the class names in a cell.

    A cell is text, an integer, a Boolean or (`multi_label` only) a JSON list of
    these. An empty `multi_label` cell has no class.
    """
    if problem_type == task.MULTI_LABEL:
        if isinstance(value, str):
            value = [part for part in value.split(separator) if part.strip()]
        if not isinstance(value, list):
            value = [value]
        names = [_class_name(part) for part in value]
        return list(dict.fromkeys(names))
    return [_class_name(value)]


def _class_name(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        raise ValueError(
            f"{value} is a fraction, but a class is expected; "
            "for scores, use problem_type regression."
        )
    if not isinstance(value, str | int):
        raise ValueError(f"a label must be text; got {messages.short(value)}.")
    name = str(value).strip()
    if not name:
        raise ValueError("the label is empty; every row must have one.")
    if any("\ud800" <= char <= "\udfff" for char in name):
        # It cannot be encoded for output.
        raise ValueError(
            f"a label must be text; {messages.short(name)} contains half of a "
            "surrogate pair."
        )
    return name


def _parse_score(value: Any) -> float:
    message = (
        "the score must be a finite number in the range of float32; got "
        f"{messages.short(value)}."
    )
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(message)
    if isinstance(value, str) and "_" in value:  # Python reads 1_0 as 10.
        raise ValueError(message)
    try:
        score = float(value)
    # A JSON integer may be larger than any float.
    except (ValueError, OverflowError) as error:
        raise ValueError(message) from error
    if not json_text.is_number(score):  # Records are float32.
        raise ValueError(message)
    return score


def discover(
    found: Iterable[tuple[str, Any]],
    problem_type: str,
    separator: str = ",",
    *,
    has_header: bool = False,
) -> LabelSet:
    """Creates the label set of the user's own training data.

    Names are sorted, integers by value, so that their order does not depend on
    that of the rows.

    Args:
        found: the position of each label cell, for messages, and its value.
        problem_type: `single_label` or `multi_label`.
        separator: separates the names in a `multi_label` cell of text.
        has_header: whether the column names were read; if not, the first label
            may be one of them.

    Raises:
        ValueError: a label is invalid, or there are too few classes.
    """
    counts: collections.Counter[str] = collections.Counter()
    where = first = None
    for place, value in found:
        where = place
        try:
            names = _class_names(value, problem_type, separator)
            if fractions := [n for n in names if _FRACTION.fullmatch(n)]:
                raise ValueError(
                    f"{messages.short(fractions[0])} is a fraction, but a "
                    "class is expected; for scores, use problem_type "
                    "regression; for class names, list the labels."
                )
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
        counts.update(names)
        first = names if first is None else first
    least = _LEAST_LABELS[problem_type]
    if len(counts) < least:
        raise ValueError(
            f"{where}: up to here, the last row, the only label is "
            f"{messages.listed(counts) or '(none)'}; {problem_type} needs at "
            f"least {least}."
        )
    in_order = tuple(sorted(counts, key=_sort_key))
    _log_labels(in_order, counts)
    if first and counts[first[0]] == 1 and not has_header:
        logging.warning(
            "the first label, %s, occurs nowhere else; is it the header?",
            messages.short(first[0]),
        )
    return LabelSet(
        problem_type=problem_type, names=in_order, separator=separator
    )


def _log_labels(names: Sequence[str], counts: collections.Counter[str]) -> None:
    """Logs the first labels, and warns if the column seems a wrong one."""
    shown = names[: messages.MOST_VALUES]
    rest = len(names) - len(shown)
    logging.info(
        "labels found: %s%s",
        ", ".join(f"{messages.short(n)} x {counts[n]}" for n in shown),
        f" and {rest} more" if rest else "",
    )
    if rest and 2 * len(counts) > counts.total():
        logging.warning(
            "Of %d labels, %d are different. Is it the column of the "
            "labels? For scores, use --problem_type=regression.",
            counts.total(),
            len(counts),
        )


def _sort_key(name: str) -> tuple[bool, int, str]:
    is_number = _WHOLE.fullmatch(name) is not None
    return (not is_number, int(name) if is_number else 0, name)


def parse_weights(
    given: Sequence[str], label_set: LabelSet
) -> tuple[float, ...]:
    """Parses the given weights, one for each label.

    Raises:
        ValueError: there is not one positive number for each label.
    """
    try:
        weights = tuple(map(float, given))
    except ValueError:
        weights = ()
    if len(weights) != len(label_set.names) or not all(
        weight > 0 and math.isfinite(weight) for weight in weights
    ):
        raise ValueError(
            "--class_weights must be balanced, or a positive number for each "
            f"label, in the order {messages.listed(label_set.names)}; got "
            f"{messages.listed(given)}."
        )
    return weights


def balanced_weights(
    found: Iterable[Label], label_set: LabelSet
) -> tuple[float, ...]:
    """Computes weights that give all labels the same total weight in the loss.

    Source: King and Zeng 2001, "Logistic Regression in Rare Events Data", as in
    scikit-learn's `class_weight="balanced"`: `n / (K * count)`. With several
    labels, the positive weight is `(n - count) / count`, which gives positive
    and negative examples the same total weight.

    Args:
        found: labels of the training examples.
        label_set: the labels.

    Raises:
        ValueError: a label has no positive or no negative examples.
    """
    ids = np.array([label_set.encode(label) for label in found])
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
