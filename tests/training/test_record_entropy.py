import math

import numpy as np
import pytest

from tests import toy_pretraining
from training import input_pipeline, record_files, records, sanity_checks


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


def test_entropy_counts_what_a_sample_does_not_show():
    rng = np.random.default_rng(0)
    drawn = np.bincount(rng.integers(0, 1000, 3000))
    shares = drawn[drawn > 0] / 3000
    plain = -(shares * np.log(shares)).sum()
    corrected = sanity_checks.entropy(drawn)
    assert plain < corrected
    assert corrected == pytest.approx(math.log(1000), abs=0.03)
    assert math.log(1000) - plain > 0.1


def test_entropy_of_nothing_is_0():
    assert sanity_checks.entropy(np.zeros(5, int)) == 0.0


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
