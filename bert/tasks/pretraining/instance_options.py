"""Options for creating masked sentence pairs."""

import dataclasses
import functools
import math

from bert.records import schema

_PAIRS = schema.PAIR_FLAGS


@dataclasses.dataclass(frozen=True, kw_only=True)
class InstanceOptions(schema.PairSizes):
    """Options for creating instances; defaults as released.

    Raises:
        ValueError: `masking` is malformed.
    """

    masked_lm_prob: float = _PAIRS.non_negative(
        0.15, "Share of the tokens to predict.", upper_bound=1
    )
    do_whole_word_mask: bool = _PAIRS.boolean(
        "Mask all pieces of a word together."
    )
    short_seq_prob: float = _PAIRS.non_negative(
        0.1,
        "Share of documents split into pairs of a random shorter length.",
        upper_bound=1,
    )
    random_seed: int = _PAIRS.flag(12345, "Decides every random draw.")
    # Source: Devlin et al. 2019, Table 8.
    masking: str = _PAIRS.flag(
        "80,10,10",
        "Percentages of predicted tokens that become [MASK], are kept, and "
        "become a random token (not in the original).",
    )
    dynamic_masking: bool = _PAIRS.boolean(
        "Write unmasked pairs, which run_pretraining.py masks anew in each "
        "epoch; the default of dupe_factor is then 1 (not in the "
        "original)."
    )
    dupe_factor: int = _PAIRS.positive(10, "Passes over the text.")

    def __post_init__(self) -> None:
        _ = self.masking_rates  # The property checks the values.

    @functools.cached_property
    def masking_rates(self) -> tuple[float, float, float]:
        """The three percentages of `masking`."""
        try:
            mask, same, replace = rates = tuple(
                map(float, self.masking.split(","))
            )
            if min(rates) < 0 or not math.isclose(sum(rates), 100):
                raise ValueError("these are not percentages of a whole")
        except ValueError as error:
            raise ValueError(
                "masking must be three percentages that sum to 100, of tokens "
                "masked, kept the same and replaced at random, such as "
                f"80,10,10; got {self.masking}."
            ) from error
        return mask, same, replace

    @functools.cached_property
    def draw_probs(self) -> tuple[float, float]:
        """The probabilities of [MASK], and else of keeping the token.

        At 80,10,10 the draws are the release's: 0.8, then 0.5 of what is left,
        then the token. If nothing is left, the first draw always succeeds.
        """
        mask, same, replace = self.masking_rates
        mask_prob = mask / (mask + same + replace)
        return mask_prob, same / (same + replace) if same + replace else 0.0

    def num_to_predict(self, num_tokens: int) -> int:
        """Returns the number of predictions for a share of the tokens.

        As released: [CLS] and [SEP] count as tokens, halves are rounded to
        even, and the result is at least 1. The limit `max_predictions_per_seq`
        is not applied.

        >>> options = InstanceOptions(masked_lm_prob=0.15)
        >>> [options.num_to_predict(n) for n in (3, 10, 30, 128)]
        [1, 2, 4, 19]
        """
        return max(1, round(num_tokens * self.masked_lm_prob))

    def num_predictions(self, num_tokens: int) -> int:
        """Returns the number of predictions of an instance."""
        return min(
            self.max_predictions_per_seq, self.num_to_predict(num_tokens)
        )

    def warnings(self) -> list[str]:
        """Checks that the number of predictions allows the requested share."""
        wanted = self.num_to_predict(self.max_seq_length)
        if wanted <= self.max_predictions_per_seq:
            return []
        return [
            f"max_predictions_per_seq={self.max_predictions_per_seq} is too "
            f"small for masked_lm_prob={self.masked_lm_prob}: a full "
            f"sequence of {self.max_seq_length} tokens needs {wanted} "
            "predictions and gets fewer."
        ]
