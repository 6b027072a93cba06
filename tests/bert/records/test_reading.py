"""Batches of records, read by position."""

import dataclasses

import numpy as np
import pytest

from bert.records import reading, schema, tfrecords
from tests.support import toy_pretraining as toy


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("records") / "a"
    return reading.RecordSource(
        files=tfrecords.RecordFiles(
            [str(toy.write_records(path, toy.random_examples(11)))]
        ),
        features=schema.pretraining_features(10, 2),
        vocab_size=31,
    )


def test_each_kind_of_id_has_its_limit(source):
    limits = {
        "input_ids": 31,
        "masked_lm_positions": 10,
        "masked_lm_ids": 31,
        "next_sentence_labels": 2,
    }
    assert source.limits() == limits
    source = dataclasses.replace(source, type_vocab_size=3)
    assert source.limits() == limits | {"segment_ids": 3}


def test_lengths_are_those_of_the_masks(source):
    masks = toy.random_examples(11)["input_mask"]
    np.testing.assert_array_equal(source.lengths(), masks.sum(axis=1))


def test_lengths_of_some_records_are_in_their_order(source):
    lengths = source.lengths()
    some = source.sequence_lengths_of(np.array([7, 0, 7]))
    np.testing.assert_array_equal(some, lengths[[7, 0, 7]])


def test_values_are_those_of_all_records_in_order(source):
    ids = toy.random_examples(11)["input_ids"]
    np.testing.assert_array_equal(source.values("input_ids"), ids)


def test_seeds_of_evaluation_are_none_of_training():
    # Those of training are the run's seed and a number from 0.
    seeds = reading.evaluation_seeds(np.array([0, 5]))
    assert seeds.tolist() == [[0, -1], [0, -6]]
