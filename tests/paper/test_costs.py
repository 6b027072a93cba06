"""Estimates, worked by hand, and beside what was measured and published."""

import dataclasses
import pathlib

import pytest

from modeling import config as config_lib
from modeling import costs
from paper import jobs, recipes, tables
from tests import toy_config

_CONFIGS = pathlib.Path(config_lib.__file__).parent / "configs"

_TINY = config_lib.BertConfig.from_json_file(str(_CONFIGS / "bert_tiny.json"))
_LARGE = config_lib.BertConfig.from_json_file(
    str(_CONFIGS / "bert_large_uncased.json")
)


def _machine(scale):
    return tables.read_scale(scale).scheme.machine


def test_a_run_by_hand():
    scale = tables.read_scale("full")
    machine = recipes.Machine(
        name="x", operations_per_second=10.0, start_seconds=7.0
    )
    config = toy_config.config(num_hidden_layers=2)
    # For a token of each layer, and 5 tokens looked at twice.
    token = 2 * (4 * 12 * 12 + 2 * 12 * 17 + 2 * 5 * 12)
    # For a prediction; the pooler and its 2.
    heads = 2 * (12 * 12 + 12 * 31) + 12 * 12 + 12 * 2
    shape = costs.Shape(max_seq_length=5, max_predictions_per_seq=2)
    seconds = machine.seconds(costs.training_flops(config, shape) * 4)
    assert seconds == 7 + 6 * 4 * (5 * token + heads) / 10
    (job,) = recipes.fine_tune(
        dataclasses.replace(scale.scheme, machine=machine),
        dataclasses.replace(scale.models["base"], config=config),
        recipes.DataSet(name="x", path="x", num_train=2, num_dev=3, length=4),
        recipes.Tuning(
            max_seq_length=5,
            batch_size=1,
            num_epochs=2.0,
            learning_rates=(1e-5,),
        ),
        {},
    )
    assert job.seconds == 7 + (6 * 4 + 2 * 3) * 5 * token / 10


@pytest.mark.parametrize(
    ("length", "num_predictions", "published"),
    [(128, 20, 485.6), (512, 80, 96.5)],
)
def test_estimates_are_near_what_was_published(
    length, num_predictions, published
):
    shape = costs.Shape(
        max_seq_length=length, max_predictions_per_seq=num_predictions
    )
    work = costs.training_flops(_LARGE, shape)
    rate = _machine("full").operations_per_second / work
    assert 0.7 < rate / published < 1.3


def test_estimates_are_near_what_was_measured():
    # 1,200 steps of 256 sequences of 32 in ten minutes of one core.
    shape = costs.Shape(max_seq_length=32, max_predictions_per_seq=5)
    work = costs.training_flops(_TINY, shape) * 1200 * 256
    assert 300 < _machine("small").seconds(work) < 1200


def test_durations_are_written_for_people():
    assert jobs.hours(12.4) == "12 s"
    assert jobs.hours(50 * 60) == "50 min"
    assert jobs.hours(3.04 * 3600) == "3.0 h"
    assert jobs.hours(72 * 3600) == "3.0 days"


def test_batches_of_like_length_are_shorter_than_the_longest():
    fixed, by_length = (
        tables.read_scale(scale).scheme for scale in ("full", "small")
    )
    assert fixed.padded(20, 128) == 128
    assert by_length.padded(20, 128) == pytest.approx(22)
    assert by_length.padded(200, 128) == 128
