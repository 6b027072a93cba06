"""How long a fine-tuning run trains: epochs as steps."""

import dataclasses


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
        steps_per_epoch=max(num_examples // batch_size, 1),
    )
