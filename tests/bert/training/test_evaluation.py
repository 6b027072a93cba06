"""Averages of losses and metrics over batches."""

import types

import pytest

from bert.tasks import objectives
from bert.training import evaluation, input_pipeline


@pytest.fixture
def evaluate(monkeypatch):
    """Evaluates batches, which are outcomes; notes the sizes asked for."""

    def run(*outcomes, **sizes):
        asked = {}

        def batches(strategy, source, **values):
            asked.update(values)
            return outcomes

        monkeypatch.setattr(input_pipeline, "evaluation_batches", batches)
        evaluator = types.SimpleNamespace(strategy=None, run=lambda x: x)
        results = evaluation.evaluate(evaluator, None, **sizes)
        assert asked == sizes
        return results

    return run


def _outcome(losses, accuracy):
    return objectives.Outcome(losses=losses, metrics={"accuracy": accuracy})


def test_the_loss_is_a_mean_over_batches_and_a_metric_over_weights(evaluate):
    results = evaluate(
        _outcome({"a": 1.0, "b": 2.0}, (3.0, 4.0)),
        _outcome({"a": 4.0, "b": 1.0}, (0.0, 2.0)),
        batch_size=8,
        num_batches=2,
    )
    assert results == {"loss": 4.0, "accuracy": 0.5}


def test_a_metric_of_no_weight_is_zero(evaluate):
    outcome = _outcome({"a": 1.0}, (0.0, 0.0))
    results = evaluate(outcome, batch_size=8, num_batches=0)
    assert results == {"loss": 1.0, "accuracy": 0.0}
