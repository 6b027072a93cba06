"""Masking by places: options and draws."""

import math
import random

import pytest

from tasks.masked_lm import masking


# Half to even, as Python 3 rounds; the length counts [CLS] and [SEP].
@pytest.mark.parametrize(
    ("num_tokens", "prob", "wanted"),
    [
        (5, 0.15, 1),
        (10, 0.15, 2),
        (30, 0.15, 4),
        (50, 0.15, 8),
        (70, 0.15, 10),
        (128, 0.15, 19),
        (128, 0.0, 1),
        (10, 1.0, 10),
    ],
)
def test_number_of_predictions(num_tokens, prob, wanted):
    options = masking.MaskingOptions(masked_lm_prob=prob)
    assert options.num_to_predict(num_tokens) == wanted


def test_pieces_of_words_are_joined():
    assert masking.whole_words([1, 2, 3, 5], bytes([0, 1, 0, 1])) == [
        [1, 2],
        [3, 5],
    ]
    # B was cut within a word, and there is no word before it.
    assert masking.whole_words([1, 2], bytes([1, 1])) == [[1, 2]]
    assert masking.whole_words([], b"") == []


def test_words_that_do_not_fit_are_passed_over():
    for seed in range(20):
        places = masking.choose_words(
            [[1, 2, 3], [5, 6]], 2, random.Random(seed)
        )
        assert places == [5, 6]


def test_replacements_are_drawn_in_the_order_of_the_release():
    uniforms = [0.79, 0.8, 0.49, 0.99, 0.5]

    class Draws(random.Random):
        def random(self):
            return uniforms.pop(0)

        def getrandbits(self, k):
            assert k == 6
            return 49

    assert masking.draw_replacements(3, 50, (80, 10, 10), Draws()) == [
        masking.MASK,
        masking.SAME,
        49,
    ]


def test_reads_rates():
    assert masking.parse_masking("80, 10,10") == (80.0, 10.0, 10.0)


@pytest.mark.parametrize("text", ["80,10", "80,10,5,5", "a,b,c", ""])
def test_masking_must_be_three_numbers(text):
    with pytest.raises(ValueError, match=f"three percentages.*got {text}"):
        masking.parse_masking(text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"masking": (80, 10, 20)}, "sum to 100.*got 80,10,20"),
        ({"masking": (120, -10, -10)}, "sum to 100.*got 120,-10,-10"),
        ({"masking": (math.nan, 10, 10)}, "sum to 100.*got nan"),
        ({"masked_lm_prob": 1.5}, "masked_lm_prob must be.*got 1.5"),
        ({"masked_lm_prob": -0.1}, "masked_lm_prob must be.*got -0.1"),
        ({"max_predictions_per_seq": 0}, "max_predictions_per_seq.*got 0"),
    ],
)
def test_impossible_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        masking.MaskingOptions(**options)
