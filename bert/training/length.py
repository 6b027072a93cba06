"""The steps of a run, and those after which something is due."""

import dataclasses
import sys


@dataclasses.dataclass(frozen=True, kw_only=True)
class Length:
    """The steps of a run.

    Attributes:
        num_train_steps: the step at which the learning rate reaches its end.
        num_warmup_steps: the steps of the learning rate's warm-up.
        stop_at_step: the last step of this command, if it is before that of the
            run; 0 for none.
        eval_every_steps: steps between evaluations, of which the last one is at
            the end; 0 for none.
        eval_every_examples: the same, in examples: an evaluation is due after
            the step that completes them.
        batch_size: the examples of a step.
    """

    num_train_steps: int
    num_warmup_steps: int = 0
    stop_at_step: int = 0
    eval_every_steps: int = 0
    eval_every_examples: int = 0
    batch_size: int = 1

    @property
    def end(self) -> int:
        """The step at which this command ends."""
        return min(self.stop_at_step or sys.maxsize, self.num_train_steps)

    def is_due(self, step: int, *intervals: int) -> bool:
        """Returns whether an event with these intervals, 0 for none, is due."""
        return step == self.end or any(
            step % every == 0 for every in intervals if every
        )

    @property
    def has_evaluations(self) -> bool:
        """Whether held-out data are evaluated while training."""
        return bool(self.eval_every_steps or self.eval_every_examples)

    def num_evaluations(self, step: int) -> int:
        """Counts the evaluations up to a step, without one at the end.

        >>> epochs = Length(
        ...     num_train_steps=12, eval_every_examples=20, batch_size=16
        ... )
        >>> [epochs.num_evaluations(step) for step in (1, 2, 3, 4, 5)]
        [0, 1, 2, 3, 4]
        """
        if self.eval_every_examples:
            return step * self.batch_size // self.eval_every_examples
        return step // self.eval_every_steps if self.eval_every_steps else 0

    def evaluates_at(self, step: int) -> bool:
        """Returns whether an evaluation is due after a step."""
        if not self.has_evaluations or step <= 0:
            return False
        return step == self.end or (
            self.num_evaluations(step) > self.num_evaluations(step - 1)
        )
