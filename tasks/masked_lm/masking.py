"""Masked language modelling: which tokens to predict, and what hides them.

Source: Devlin et al. 2019, §3.1 Task #1; draws are in the order of
create_pretraining_data.py of the release.
"""

import dataclasses
import math
import random
from collections.abc import Iterable

from tasks.masked_lm import draws


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskingOptions:
    """How tokens are masked; defaults are the release's.

    Attributes:
        max_predictions_per_seq: at most so many tokens are predicted.
        masked_lm_prob: share of the tokens to predict.
        do_whole_word_mask: pieces of one word are predicted together.
        masking: percent of the predicted tokens that become [MASK], stay the
            same, become a random token. Source: Devlin et al. 2019, Table 8.

    Raises:
        ValueError: a value is impossible; names it and what must hold.
    """

    max_predictions_per_seq: int = 20
    masked_lm_prob: float = 0.15
    do_whole_word_mask: bool = False
    masking: tuple[float, float, float] = (80, 10, 10)

    def __post_init__(self):
        if self.max_predictions_per_seq < 1:
            raise ValueError(
                "max_predictions_per_seq must be 1 or more; "
                f"got {self.max_predictions_per_seq}."
            )
        if not 0 <= self.masked_lm_prob <= 1:
            raise ValueError(
                "masked_lm_prob must be from 0 to 1; "
                f"got {self.masked_lm_prob}."
            )
        if (
            len(self.masking) != 3
            or not all(rate >= 0 for rate in self.masking)
            or not math.isclose(sum(self.masking), 100)
        ):
            raise _wrong_masking(",".join(map(str, self.masking)))

    def num_to_predict(self, num_tokens: int) -> int:
        """Counts the predictions that a share of the tokens asks for.

        As released: [CLS] and [SEP] count as tokens, a half is rounded to the
        even number, and there is at least one. The limit of
        `max_predictions_per_seq` is not applied.
        """
        return max(1, round(num_tokens * self.masked_lm_prob))

    def num_predictions(self, num_tokens: int) -> int:
        """Counts the predictions that an instance of so many tokens gets."""
        return min(
            self.max_predictions_per_seq, self.num_to_predict(num_tokens)
        )


def parse_masking(text: str) -> tuple[float, float, float]:
    """Reads the rates of masking, such as "80,10,10".

    Raises:
        ValueError: the text is not three numbers.
    """
    try:
        mask, same, replace = map(float, text.split(","))
    except ValueError as error:
        raise _wrong_masking(text) from error
    return mask, same, replace


def _wrong_masking(masking: str) -> ValueError:
    return ValueError(
        "masking must be three percentages that sum to 100, of tokens masked, "
        "kept the same and replaced at random, such as 80,10,10; "
        f"got {masking}."
    )


# What stands in place of a token that is to be predicted, where it is not the
# number of a token of the vocabulary.
MASK = -1
SAME = -2


def choose_words(
    words: list[list[int]], num_to_predict: int, rng: random.Random
) -> list[int]:
    """Draws the words to predict.

    As released, a word of more pieces than may still be predicted is passed
    over for a shorter one.

    Args:
        words: the places of the pieces of each; shuffled.
        num_to_predict: at most so many, and so many if the words allow it.
        rng: draws the order of the words.

    Returns:
        The places to predict, in the order they were drawn.
    """
    draws.shuffle(words, rng)
    places = []
    for word in words:
        if len(places) == num_to_predict:
            break
        if len(places) + len(word) <= num_to_predict:
            places += word
    return places


def choose_tokens(
    places: list[int], num_to_predict: int, rng: random.Random
) -> list[int]:
    """Draws the tokens to predict, each by itself; see `choose_words`."""
    return draws.first_of_shuffled(places, num_to_predict, rng)


def whole_words(places: Iterable[int], continues: bytes) -> list[list[int]]:
    """Joins the pieces of each word.

    As released: if B was cut within a word, its first piece joins the last
    word of A, over the [SEP] between them.

    Args:
        places: of the pieces, those of A, then those of B.
        continues: for each piece whether it continues a word.
    """
    words = []
    for place, is_continuation in zip(places, continues, strict=True):
        if is_continuation and words:
            words[-1].append(place)
        else:
            words.append([place])
    return words


def draw_replacements(
    num_places: int,
    num_words: int,
    rates: tuple[float, float, float],
    rng: random.Random,
) -> list[int]:
    """Draws what stands in place of each token that is to be predicted.

    As released: each piece of a word is drawn by itself
    (google-research/bert#910).

    Args:
        num_places: how many are drawn.
        num_words: the tokens that may replace another one.
        rates: `MaskingOptions.masking`.
        rng: draws.

    Returns:
        `num_places` times `MASK`, `SAME` or the number of a token.
    """
    mask, same, replace = rates
    # At 80,10,10 the draws are the release's: 0.8, then 0.5 of what is left,
    # then the token. With nothing left, the first draw always hits.
    mask_prob = mask / (mask + same + replace)
    same_prob = same / (same + replace) if same + replace else 0.0
    draw = rng.random
    return [
        MASK
        if draw() < mask_prob
        else SAME
        if draw() < same_prob
        else draws.below(num_words, rng)
        for _ in range(num_places)
    ]
