"""How long a fine-tuning run trains: epochs as steps."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from training import record_order


@dataclasses.dataclass(frozen=True, kw_only=True)
class Length:
    """The length of a run in steps, as the release counts it."""

    num_train_steps: int
    num_warmup_steps: int
    steps_per_epoch: int


def length(
    num_examples: int,
    batch_size: int,
    num_train_epochs: float,
    warmup_proportion: float,
) -> Length:
    """Counts the steps of a run.

    As released: what is left of the last batch is dropped, and so is a part of
    a warm-up step.

    Args:
        num_examples: of one epoch.
        batch_size: examples in a step.
        num_train_epochs: may be a fraction.
        warmup_proportion: the share of the steps that warm up.

    Raises:
        ValueError: there would be no step.
    """
    num_train_steps = int(num_examples / batch_size * num_train_epochs)
    if num_train_steps < 1:
        raise ValueError(
            f"{num_examples} examples in batches of {batch_size} for "
            f"{num_train_epochs:g} epochs must make at least one step; they "
            "make none. Choose a smaller --train_batch_size or a larger "
            "--num_train_epochs."
        )
    return Length(
        num_train_steps=num_train_steps,
        num_warmup_steps=int(num_train_steps * warmup_proportion),
        # Rounded up, so that the last epoch ends with the run.
        steps_per_epoch=-(-num_examples // batch_size),
    )


def parts(
    examples_of_files: Sequence[int],
    rows_per_example: np.ndarray,
    num_train_epochs: float,
) -> tuple[record_order.Part, ...]:
    """Divides records among the files that are trained on one by one.

    Each file fills as many places of the stream as its share of the steps
    takes, in which an example counts once, however many its records.

    Args:
        examples_of_files: the number of examples of each file, in order.
        rows_per_example: `[E]` integers, the number of records of each.
        num_train_epochs: how often each file is gone through.
    """
    ends = np.cumsum(examples_of_files)
    starts = ends - examples_of_files
    return tuple(
        record_order.Part(
            num_records=int(rows_per_example[start:end].sum()),
            num_taken=int((end - start) * num_train_epochs),
        )
        for start, end in zip(starts, ends, strict=True)
    )
