"""Estimates, worked by hand, and beside what was measured and published."""

import pytest

from paper import costs, recipes

_TINY = costs.Size(num_layers=2, hidden_size=128, vocab_size=30522)
_LARGE = costs.Size(num_layers=24, hidden_size=1024, vocab_size=30522)


def test_weights_by_hand():
    size = costs.Size(num_layers=2, hidden_size=3, vocab_size=11)
    # For a token of each layer 12 * 9, and 5 tokens looked at twice.
    assert size.weights_per_token(5) == 2 * (108 + 30)
    # For a prediction 3 * 3, and 3 for each of 11 words.
    assert size.weights_per_prediction() == 42


def test_a_run_by_hand():
    machine = costs.Machine(
        name="x", operations_per_second=10.0, start_seconds=7.0
    )
    size = costs.Size(num_layers=2, hidden_size=3, vocab_size=11)
    seconds = costs.pretraining_seconds(
        machine, size, num_sequences=4, length=5, num_predictions=2
    )
    assert seconds == 7 + 6 * 4 * (5 * 276 + 2 * 42) / 10
    seconds = costs.fine_tuning_seconds(
        machine, size, num_trained=4, num_scored=3, length=5
    )
    assert seconds == 7 + (6 * 4 + 2 * 3) * 5 * 276 / 10


@pytest.mark.parametrize(
    ("length", "num_predictions", "published"),
    [(128, 20, 485.6), (512, 80, 96.5)],
)
def test_estimates_are_near_what_was_published(
    length, num_predictions, published
):
    seconds = costs.pretraining_seconds(
        costs.GPU,
        _LARGE,
        num_sequences=1e6,
        length=length,
        num_predictions=num_predictions,
    )
    assert 0.7 < (1e6 / seconds) / published < 1.3


def test_estimates_are_near_what_was_measured():
    # 1,200 steps of 256 sequences of 32 in ten minutes of one core.
    seconds = costs.pretraining_seconds(
        costs.CORE,
        _TINY,
        num_sequences=1200 * 256,
        length=32,
        num_predictions=5,
    )
    assert 300 < seconds < 1200


def test_durations_are_written_for_people():
    assert costs.hours(12.4) == "12 s"
    assert costs.hours(50 * 60) == "50 min"
    assert costs.hours(3.04 * 3600) == "3.0 h"
    assert costs.hours(72 * 3600) == "3.0 days"


def test_batches_of_like_length_are_shorter_than_the_longest():
    fixed = recipes.Bench(machine=costs.GPU)
    by_length = recipes.Bench(machine=costs.CORE, bucket_by_length=True)
    assert fixed.padded(20, 128) == 128
    assert by_length.padded(20, 128) == pytest.approx(22)
    assert by_length.padded(200, 128) == 128
