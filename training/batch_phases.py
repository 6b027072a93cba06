"""A run whose batches change their shape on the way."""

import bisect
import dataclasses
from collections.abc import Sequence
from typing import Protocol

import tensorflow as tf


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """Steps in a row whose batches have the same shapes.

    Attributes:
        batch_size: of the global batch, over all replicas.
        num_accumulation_steps: parts in which a replica's rows are gone
            through.
        end: the step after its last; None for no end.
    """

    batch_size: int
    num_accumulation_steps: int
    end: int | None = None


class Batches(Protocol):
    """The batches of a run, step by step."""

    def phase(self, step: int) -> Phase:
        """Says how the batches at and after a step are shaped."""

    def iterator(
        self, strategy: tf.distribute.Strategy, first_step: int, num_steps: int
    ):
        """Iterates over the batches of steps `first_step` to `num_steps - 1`.

        These must be of one phase.
        """

    def describe(self, step: int) -> str:
        """Names the records of a step's batch, for an error message."""


class PhasedBatches:
    """The batches of one run after those of another.

    Args:
        parts: the batches of each phase, which it counts from 0.
        ends: for each phase the step after its last, counted over all.
    """

    def __init__(self, parts: Sequence[Batches], ends: Sequence[int]):
        self._parts = tuple(parts)
        self._ends = tuple(ends)
        self._starts = (0, *self._ends[:-1])

    def phase(self, step: int) -> Phase:
        """Says how the batches at and after a step are shaped."""
        number = self._number(step)
        phase = self._parts[number].phase(step - self._starts[number])
        return dataclasses.replace(phase, end=self._ends[number])

    def iterator(
        self, strategy: tf.distribute.Strategy, first_step: int, num_steps: int
    ):
        """Iterates over the batches of steps `first_step` to `num_steps - 1`.

        Raises:
            ValueError: these are not all of one phase.
        """
        number = self._number(first_step)
        if num_steps > self._ends[number]:
            raise ValueError(
                "An iterator gives the batches of one phase; got steps "
                f"{first_step} to {num_steps - 1}, and the phase ends with "
                f"{self._ends[number] - 1}."
            )
        start = self._starts[number]
        return self._parts[number].iterator(
            strategy, first_step - start, num_steps - start
        )

    def describe(self, step: int) -> str:
        """Names the records of a step's batch, for an error message."""
        number = self._number(step)
        return self._parts[number].describe(step - self._starts[number])

    def _number(self, step: int) -> int:
        # The step after the last one of all counts as the last phase's.
        last = len(self._parts) - 1
        return min(bisect.bisect_right(self._ends, step), last)
