"""The definition of masking: plain Python on strings.

Source: Devlin et al. 2019, §3.1 Task #1; draws are in the order of
create_pretraining_data.py of the release.
"""

import dataclasses
import random
from collections.abc import Sequence

from tasks.masked_lm import masking


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
    options: masking.MaskingOptions,
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
