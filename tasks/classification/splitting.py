"""Stratified splits of a labeled file: a held-out part, or k folds."""

import collections
import dataclasses
import random
from collections.abc import Sequence
from typing import Any, TypeVar

from absl import logging

from files import messages
from tasks.classification import labels

_Item = TypeVar("_Item")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """The held-out rows of a file, or the other rows.

    Attributes:
        held_out: the numbers of the held-out rows, from 0, ascending.
        is_held_out: whether this part is the held-out rows.
        seed: seed of the split.
        fold: the number of the fold, from 1; 0 without folds.
    """

    held_out: tuple[int, ...]
    is_held_out: bool
    seed: int
    fold: int = 0

    @property
    def name(self) -> str:
        """The name of this part."""
        return "held out" if self.is_held_out else "the others"

    @property
    def suffix(self) -> str:
        """Suffix of the names of records."""
        return f"-fold-{self.fold}" if self.fold else ""

    def take(self, items: Sequence[_Item]) -> list[_Item]:
        """Returns the items of this part from one item per row."""
        held_out = set(self.held_out)
        return [
            item
            for row, item in enumerate(items)
            if (row in held_out) == self.is_held_out
        ]

    def origin(self) -> dict[str, Any]:
        """Returns the identity of the rows as JSON."""
        return {
            "part": self.name,
            "held_out_rows": list(self.held_out),
            "split_seed": self.seed,
        }


def hold_out(
    found: Sequence[labels.Label], fraction: float, seed: int
) -> tuple[int, ...]:
    """Draws a share of the rows, stratified by label.

    Args:
        found: the label of each row.
        fraction: the share, above 0 and below 1.
        seed: seed of the split.

    Raises:
        ValueError: no row would be held out, or none would be left.
    """
    places = [int(i * fraction + 0.5) for i in range(len(found) + 1)]
    rows = [
        row
        for row, start, end in zip(
            _by_label(found, seed), places, places[1:], strict=False
        )
        if start < end
    ]
    if not 0 < len(rows) < len(found):
        raise ValueError(
            "--dev_fraction must leave rows to train on and rows to evaluate "
            f"on; {fraction:g} of {len(found)} rows are {len(rows)}."
        )
    return tuple(sorted(rows))


def folds(
    found: Sequence[labels.Label], count: int, seed: int
) -> list[tuple[int, ...]]:
    """Divides the rows into folds, stratified by label.

    Args:
        found: the label of each row.
        count: the number of folds.
        seed: seed of the split.

    Raises:
        ValueError: there are fewer than two folds, or more than rows.
    """
    if not 2 <= count <= len(found):
        raise ValueError(
            "--num_folds must be at least 2 and at most the number of rows, "
            f"{len(found)}; got {count}."
        )
    rare = [
        label
        for label, number in collections.Counter(map(_key, found)).items()
        if number < count and isinstance(label, str)
    ]
    if rare:
        logging.warning(
            "Labels that have fewer than %d rows are missing in some folds: %s",
            *(count, messages.listed(rare)),
        )
    order = _by_label(found, seed)
    return [tuple(sorted(order[n::count])) for n in range(count)]


def _by_label(found: Sequence[labels.Label], seed: int) -> list[int]:
    """Shuffles the rows, then sorts them by label or by score."""
    rows = list(range(len(found)))
    random.Random(seed).shuffle(rows)
    return sorted(rows, key=lambda row: _key(found[row]))


def _key(label: labels.Label) -> Any:
    return tuple(sorted(label)) if isinstance(label, tuple) else label
