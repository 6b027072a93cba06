"""The definition of masking: which tokens are predicted, what hides them."""

import math
import random

import pytest

from tasks.masked_lm import masking
from tests import plain_masking

_WORDS = [f"word{number}" for number in range(50)]


class _Draws(random.Random):
    """Draws what it is told to, and leaves lists in their order."""

    def __init__(self, uniforms, integers=()):
        super().__init__()
        self.uniforms = list(uniforms)
        self.integers = list(integers)

    def random(self):
        return self.uniforms.pop(0)

    def randint(self, a, b):
        number = self.integers.pop(0)
        assert a <= number <= b
        return number

    def shuffle(self, x):
        pass


def _masked(tokens, rng, **options):
    return plain_masking.create_masked_lm_predictions(
        tokens, _WORDS, masking.MaskingOptions(**options), rng
    )


def test_masks_keeps_and_replaces_by_the_release_draws():
    tokens = ["[CLS]", "a", "b", "[SEP]", "c", "d", "[SEP]"]
    rng = _Draws([0.79, 0.8, 0.49, 0.99, 0.5], [49])
    masked = _masked(tokens, rng, masked_lm_prob=3 / 7)
    assert masked.tokens == [
        "[CLS]",
        "[MASK]",
        "b",
        "[SEP]",
        "word49",
        "d",
        "[SEP]",
    ]
    assert masked.positions == [1, 2, 4]
    assert masked.labels == ["a", "b", "c"]
    assert rng.uniforms == rng.integers == []


def test_predictions_stop_at_the_limit_and_never_hit_special_tokens():
    tokens = ["[CLS]", *"abcdefgh", "[SEP]", *"ijkl", "[SEP]"]
    for seed in range(50):
        masked = _masked(
            tokens,
            random.Random(seed),
            masked_lm_prob=1.0,
            max_predictions_per_seq=5,
        )
        assert len(masked.positions) == 5
        assert masked.positions == sorted(set(masked.positions))
        assert not {0, 9, 14} & set(masked.positions)
        assert masked.labels == [tokens[at] for at in masked.positions]
        for at, token in enumerate(tokens):
            assert at in masked.positions or masked.tokens[at] == token


def test_whole_words_are_predicted_together_or_passed_over():
    tokens = ["[CLS]", "un", "##aff", "##able", "[SEP]", "cat", "##s", "[SEP]"]
    # Two predictions: the word of three does not fit, the one of two does.
    masked = _masked(
        tokens, _Draws([0.0, 0.0]), masked_lm_prob=0.25, do_whole_word_mask=True
    )
    assert masked.positions == [5, 6]


def test_a_word_may_leave_no_room_for_any_prediction():
    tokens = ["[CLS]", "un", "##aff", "[SEP]", "[SEP]"]
    masked = _masked(
        tokens, _Draws([]), masked_lm_prob=0.2, do_whole_word_mask=True
    )
    assert masked.positions == masked.labels == []
    assert masked.tokens == tokens


def test_first_piece_of_b_joins_the_last_word_of_a():
    tokens = ["[CLS]", "aa", "[SEP]", "##bb", "[SEP]"]
    masked = _masked(
        tokens, _Draws([0.0, 0.0]), masked_lm_prob=0.4, do_whole_word_mask=True
    )
    assert masked.positions == [1, 3]


def test_without_whole_words_pieces_are_apart():
    tokens = ["[CLS]", "aa", "##bb", "[SEP]", "c", "[SEP]"]
    masked = _masked(tokens, _Draws([0.0]))
    assert masked.positions == [1]


@pytest.mark.parametrize(
    "rates",
    [
        (80, 10, 10),
        (100, 0, 0),
        (80, 20, 0),
        (80, 0, 20),
        (0, 20, 80),
        (0, 0, 100),
    ],
)
def test_share_of_each_kind_is_as_asked(rates):
    rng = random.Random(7)
    tokens = ["[CLS]", *(f"old{number}" for number in range(98)), "[SEP]"]
    found = {"mask": 0, "same": 0, "replace": 0}
    for _ in range(300):
        masked = _masked(tokens, rng, masking=rates)
        for at, label in zip(masked.positions, masked.labels, strict=True):
            token = masked.tokens[at]
            if token == "[MASK]":
                found["mask"] += 1
            elif token == label:
                found["same"] += 1
            else:
                assert token in _WORDS
                found["replace"] += 1
    num_predictions = 300 * 15
    assert sum(found.values()) == num_predictions
    for count, rate in zip(found.values(), rates, strict=True):
        share = rate / 100
        # Five standard deviations of the binomial; none at 0 and 100 percent.
        bound = 5 * math.sqrt(num_predictions * share * (1 - share))
        assert abs(count - num_predictions * share) <= bound


def test_every_position_is_predicted_equally_often():
    rng = random.Random(11)
    tokens = ["[CLS]", *(f"old{number}" for number in range(18)), "[SEP]"]
    counts = [0] * 20
    for _ in range(3000):
        for at in _masked(tokens, rng).positions:
            counts[at] += 1
    assert counts[0] == counts[19] == 0
    bound = 5 * math.sqrt(3000 * 1 / 6 * 5 / 6)
    for count in counts[1:19]:
        assert abs(count - 3000 * 3 / 18) <= bound
