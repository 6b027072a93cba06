"""Choices of hidden layers for the feature-based approach.

Source: Devlin et al. 2019, table 7, "Feature-based approach".
"""

import dataclasses

EMBEDDINGS = "embeddings"
SECOND_TO_LAST = "second_to_last"
LAST = "last"
SUM_LAST_FOUR = "sum_last_four"
CONCAT_LAST_FOUR = "concat_last_four"
SUM_ALL = "sum_all"
CHOICES = (
    EMBEDDINGS,
    SECOND_TO_LAST,
    LAST,
    SUM_LAST_FOUR,
    CONCAT_LAST_FOUR,
    SUM_ALL,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureLayers:
    """Layers of an encoder, and their combination.

    Attributes:
        numbers: 0 the embeddings, 1 the first layer and so on.
        is_sum: whether the layers are summed with learned weights; otherwise
            they are concatenated.
    """

    numbers: tuple[int, ...]
    is_sum: bool


def choose(choice: str, num_hidden_layers: int) -> FeatureLayers:
    """Lists the layers of one of `CHOICES`.

    Raises:
        ValueError: the choice is unknown, or the encoder has fewer layers.
    """
    last = num_hidden_layers
    firsts = {
        EMBEDDINGS: (0, 0),
        SECOND_TO_LAST: (last - 1, last - 1),
        LAST: (last, last),
        SUM_LAST_FOUR: (last - 3, last),
        CONCAT_LAST_FOUR: (last - 3, last),
        SUM_ALL: (1, last),
    }
    if choice not in firsts:
        raise ValueError(
            f"The layers must be one of {', '.join(CHOICES)}; got {choice!r}."
        )
    first, end = firsts[choice]
    if first < 1 and choice != EMBEDDINGS:
        raise ValueError(
            f"{choice} needs at least {last + 1 - first} layers; the model has "
            f"{last}."
        )
    return FeatureLayers(
        numbers=tuple(range(first, end + 1)),
        is_sum=choice in (SUM_LAST_FOUR, SUM_ALL),
    )
