"""Sanity checks of losses, and the statistics of records that they use."""

import math
import time

import numpy as np
import pytest

from tests import toy_pretraining
from training import (
    input_pipeline,
    optimization,
    record_files,
    records,
    sanity_checks,
)

_ENTROPY = 7.0


def _plan(**changes):
    values = {
        "vocab_size": 30522,
        "batch_size": 64,
        "pieces_per_step": 8192,
        "schedule": optimization.Schedule(
            init_lr=8e-4, num_train_steps=6000, num_warmup_steps=600
        ),
        "is_fresh": True,
    }
    return sanity_checks.Run(**{**values, **changes})


def _watch(plan=None, **changes):
    values = {
        "entropy": _ENTROPY,
        "random_next_share": 0.55,
        "num_records": 10**6,
        "num_sampled": 10000,
    }
    records = sanity_checks.RecordStatistics(**{**values, **changes})
    return sanity_checks.SanityChecks(records, plan or _plan())


def _run(watch, losses, every=50, accuracy=0.75):
    """Shows a watch the losses of a run; returns (step, warning)."""
    return [
        (step, warning)
        for step, loss in zip(
            range(every, every * (len(losses) + 1), every), losses, strict=True
        )
        for warning in watch(
            step, {"masked_lm_loss": loss, "next_sentence_accuracy": accuracy}
        )
    ]


def _healthy(num_reports=120):
    """The measured curve of BERT-Tiny, roughly, and noise of its size."""
    steps = np.arange(1, num_reports + 1) * 50
    curve = np.interp(
        steps,
        [50, 100, 150, 300, 500, 1000, 2000, 4000, 6000],
        [9.96, 8.37, 7.15, 6.98, 6.70, 6.46, 6.28, 6.18, 6.10],
    )
    return curve + np.random.default_rng(0).normal(0, 0.02, num_reports)


def test_a_healthy_run_gets_no_warning():
    assert _run(_watch(), _healthy()) == []


@pytest.mark.parametrize("every_other", [5, 10])
def test_few_reports_of_a_healthy_run_give_no_warning(every_other):
    losses = _healthy()[every_other - 1 :: every_other]
    assert _run(_watch(), losses, every=50 * every_other) == []


def test_a_run_that_learns_no_frequencies_is_warned_of_once_after_the_warm_up():
    ((step, warning),) = _run(_watch(), [9.0] * 20)
    assert 600 <= step < 700
    assert "still above that of word-piece frequencies (7.00)" in warning


def test_a_run_that_stays_above_the_band_is_warned_of():
    losses = np.linspace(6.95, 6.65, 60)
    warnings = [warning for _, warning in _run(_watch(), losses)]
    assert len(warnings) == 1
    assert "the highest of this project's BERT-Tiny runs" in warnings[0]
    assert ", is above " in warnings[0]


def test_a_run_that_stops_falling_is_warned_of():
    losses = [*_healthy()[:30], *[6.3] * 60]
    ((step, warning),) = _run(_watch(), losses)
    assert step > 2500
    assert "has stopped falling" in warning


def test_a_rising_loss_is_warned_of():
    losses = [*_healthy()[:40], *np.linspace(6.3, 6.9, 10)]
    (_, warning), *_ = _run(_watch(), losses)
    assert "has risen from" in warning
    assert "half the rate" in warning


def test_answers_in_the_input_are_warned_of():
    ((step, warning),) = _run(_watch(), np.linspace(9.0, 0.1, 20))
    assert step < 1100
    assert "visible in the input" in warning
    # Few records may be overfitted.
    watch = _watch(num_records=100)
    assert _run(watch, np.linspace(9.0, 0.1, 20)) == []


def test_next_sentences_at_chance_are_warned_of_late():
    ((step, warning),) = _run(_watch(), _healthy(), accuracy=0.555)
    assert step > 4000
    assert ", 55.5%, is no better" in warning and "(55.0%)" in warning
    assert _run(_watch(), _healthy(), accuracy=0.65) == []


def test_trained_weights_that_do_not_fit_are_warned_of_at_once():
    watch = _watch(_plan(is_fresh=False))
    ((step, warning),) = _run(watch, [8.5, 8.0, 7.5])
    assert step == 50
    assert "vocabulary and casing of --init_checkpoint" in warning
    # New heads have a high loss at first.
    watch = _watch(_plan(is_fresh=False, has_new_heads=True))
    assert _run(watch, [8.5, 8.0, 7.5]) == []
    # Trained weights may have a low loss.
    watch = _watch(_plan(is_fresh=False))
    assert _run(watch, np.linspace(1.5, 0.8, 30)) == []
    assert list(watch(50, {"loss": 1.0})) == []  # Without masked words.


def test_a_smaller_batch_or_rate_counts_for_less():
    count = sanity_checks.reference_steps
    slow = _plan(
        schedule=optimization.Schedule(
            init_lr=8e-5, num_train_steps=6000, num_warmup_steps=600
        )
    )
    # The sum of the rates of the warm-up: half of the peak times its steps.
    assert count(_plan(), 600) == pytest.approx(299.5)
    assert count(_plan(pieces_per_step=1024), 600) == pytest.approx(600 / 8)
    for step in (1, 300, 600, 601, 6000):
        assert count(slow, step) == pytest.approx(count(_plan(), step) / 10)
    large = _plan(
        pieces_per_step=10**6,
        schedule=optimization.Schedule(init_lr=1.0, num_train_steps=10),
    )
    assert [count(large, step) for step in range(11)] == list(range(11))


def test_a_run_without_a_foreseen_end_starts_at_once():
    start = time.process_time()
    endless = optimization.Schedule(init_lr=8e-4, num_train_steps=2_000_000_000)
    watch = _watch(_plan(schedule=endless))
    assert "4.3 to 6.4 after step 1,001;" in watch.announce()[-1]
    assert list(watch(1_999_999_999, {"masked_lm_loss": 4.0})) == []
    assert time.process_time() - start < 2


def test_what_to_expect_is_announced():
    lines = _watch().announce()
    text = "\n".join(lines)
    assert "from 10,000 records: masked-LM loss 10.33 (uniform" in text
    assert "7.00 (word-piece frequencies)" in text
    assert "accuracy 55.0% (majority class)" in text
    assert "4.3 to 6.4 after step 1,4" in text
    assert _watch(_plan(is_fresh=False)).announce() == lines[:2]


def _source(tmp_path, examples):
    path = toy_pretraining.write_records(tmp_path / "records", examples)
    return input_pipeline.RecordSource(
        files=record_files.RecordFiles([path]),
        features=records.pretraining_features(10, 2),
        vocab_size=31,
    )


def test_entropy_of_even_counts_is_that_of_guessing():
    assert sanity_checks.entropy(np.full(32, 10**6)) == pytest.approx(
        math.log(32), abs=1e-6
    )
    assert sanity_checks.entropy(np.zeros(5, int)) == 0.0


def test_entropy_counts_what_a_sample_does_not_show():
    rng = np.random.default_rng(0)
    drawn = np.bincount(rng.integers(0, 1000, 3000))
    shares = drawn[drawn > 0] / 3000
    plain = -(shares * np.log(shares)).sum()
    corrected = sanity_checks.entropy(drawn)
    assert plain < corrected
    assert corrected == pytest.approx(math.log(1000), abs=0.03)
    assert math.log(1000) - plain > 0.1


@pytest.mark.parametrize("num_examples", [3, 50])
def test_every_record_of_few_is_counted_once(tmp_path, num_examples):
    examples = toy_pretraining.random_examples(num_examples)
    examples["masked_lm_weights"] = np.tile([1.0, 0.0], (num_examples, 1))
    found = sanity_checks.measure(_source(tmp_path, examples))
    ids = examples["masked_lm_ids"][:, 0]
    assert found.num_records == found.num_sampled == num_examples
    assert found.entropy == pytest.approx(
        sanity_checks.entropy(np.bincount(ids))
    )
    share = examples["next_sentence_labels"].mean()
    assert found.random_next_share == pytest.approx(share)
    assert found.chance == pytest.approx(max(share, 1 - share))


def test_blocks_are_spread_over_many_records(tmp_path, monkeypatch):
    monkeypatch.setattr(sanity_checks, "_NUM_BLOCKS", 3)
    monkeypatch.setattr(sanity_checks, "_RECORDS_PER_BLOCK", 4)
    examples = toy_pretraining.random_examples(50)
    examples["next_sentence_labels"][:] = 0
    examples["next_sentence_labels"][[0, 24, 49]] = 1
    found = sanity_checks.measure(_source(tmp_path, examples))
    assert found.num_sampled == 12
    assert found.random_next_share == pytest.approx(3 / 12)
