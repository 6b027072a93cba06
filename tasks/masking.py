"""Masked language modelling: which tokens to predict, and what hides them.

Source: Devlin et al. 2019, §3.1 Task #1; draws are in the order of
create_pretraining_data.py of the release.
"""

import dataclasses
import math
import random
from collections.abc import Sequence


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


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class MaskedTokens:
    """Tokens after masking.

    Attributes:
        tokens: as many as came in, some of them replaced.
        positions: the places to predict, ascending.
        labels: the tokens that stood there.
    """

    tokens: list[str]
    positions: list[int]
    labels: list[str]


def create_masked_lm_predictions(
    tokens: Sequence[str],
    vocab_words: Sequence[str],
    options: MaskingOptions,
    rng: random.Random,
) -> MaskedTokens:
    """Chooses the tokens to predict and hides most of them.

    As released, a word of more pieces than may still be predicted is passed
    over for a shorter one.

    Args:
        tokens: a whole instance; [CLS] and [SEP] are never predicted.
        vocab_words: the tokens that may replace another one.
        options: how tokens are masked.
        rng: draws everything.
    """
    words = _maskable_words(tokens, options.do_whole_word_mask)
    rng.shuffle(words)
    num_to_predict = min(
        options.max_predictions_per_seq, options.num_to_predict(len(tokens))
    )
    masked = list(tokens)
    positions = []
    for word in words:
        if len(positions) == num_to_predict:
            break
        if len(positions) + len(word) > num_to_predict:
            continue
        # As released: each piece of a word is drawn by itself
        # (google-research/bert#910).
        for position in word:
            masked[position] = _hidden(
                tokens[position], vocab_words, options.masking, rng
            )
        positions += word
    positions.sort()
    return MaskedTokens(
        tokens=masked,
        positions=positions,
        labels=[tokens[position] for position in positions],
    )


def _maskable_words(
    tokens: Sequence[str], do_whole_word_mask: bool
) -> list[list[int]]:
    """Lists the positions of each word, or each by itself."""
    words = []
    for position, token in enumerate(tokens):
        if token in ("[CLS]", "[SEP]"):
            continue
        # As released: if B was cut within a word, its first piece joins the
        # last word of A, over the [SEP] between them.
        if do_whole_word_mask and words and token.startswith("##"):
            words[-1].append(position)
        else:
            words.append([position])
    return words


def _hidden(
    token: str,
    vocab_words: Sequence[str],
    rates: tuple[float, float, float],
    rng: random.Random,
) -> str:
    """Draws what stands in place of a token that is to be predicted."""
    mask, same, replace = rates
    # At 80,10,10 the draws are the release's: 0.8, then 0.5 of what is left,
    # then the token. With nothing left, the first draw always hits.
    if rng.random() < mask / (mask + same + replace):
        return "[MASK]"
    if rng.random() < same / (same + replace):
        return token
    return vocab_words[rng.randint(0, len(vocab_words) - 1)]
