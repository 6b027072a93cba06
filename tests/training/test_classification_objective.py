"""The classifier's loss, and the release's steps on fixed batches."""

import gzip
import json

import numpy as np
import pytest
import tensorflow as tf

from modeling import heads
from tests import golden_steps
from training import objectives

# Source: tests/golden/README.md: the classifier's steps amplify a difference
# of 2e-7 to 4e-5; suggested for losses and norms, relative.
_TOLERANCE = 5e-4


class _WithoutDropout(objectives.Classification):
    """The golden steps were made with the head's dropout off, too."""

    def outcome(self, features, denominators, dropout_seed):
        return super().outcome(features, denominators, None)


@pytest.fixture(scope="module")
def golden():
    return golden_steps.read("classifier")


@pytest.fixture(scope="module")
def batches(golden):
    """The batches that the release was given, in order."""
    with gzip.open(
        golden_steps.GOLDEN / "classifier/features.json.gz", "rt"
    ) as file:
        features = json.load(file)["features"][golden["features"]]
    rows = [features[i] for i in golden["feature_indexes"]]
    names = ("input_ids", "input_mask", "segment_ids")
    size = golden["batch_size"]
    return [
        {
            **{
                name: np.array([row[name] for row in part], np.int32)
                for name in names
            },
            "label_ids": np.array(
                [[row["label_id"]] for row in part], np.int32
            ),
        }
        for part in (
            rows[i * size : (i + 1) * size] for i in range(golden["steps"])
        )
    ]


def _model(golden):
    return golden_steps.model(
        golden,
        lambda config: heads.BertForSequenceClassification(
            config, num_labels=2
        ),
    )


def _train(golden, batches):
    objective = _WithoutDropout(_model(golden), objectives.SINGLE_LABEL)
    return golden_steps.train(golden, objective, batches)


@pytest.fixture(scope="module")
def trained(golden, batches):
    return _train(golden, batches)


def test_steps_are_the_release_s(golden, trained):
    golden_steps.check(golden, trained, _TOLERANCE, rtol=_TOLERANCE, atol=2e-5)


def test_cutting_shared_padding_changes_no_step(golden, batches, trained):
    cut = []
    for batch in batches:
        longest = batch["input_mask"].sum(axis=1).max()
        cut.append(
            {
                name: value if name == "label_ids" else value[:, :longest]
                for name, value in batch.items()
            }
        )
    assert any(b["input_ids"].shape[1] < 64 for b in cut)
    results, weights = _train(golden, cut)
    for ours, whole in zip(results, trained[0], strict=True):
        np.testing.assert_allclose(
            ours["losses"]["loss"], whole["losses"]["loss"], rtol=_TOLERANCE
        )
    for name, value in trained[1].items():
        np.testing.assert_allclose(
            weights[name], value, rtol=_TOLERANCE, atol=2e-5, err_msg=name
        )


@pytest.mark.parametrize("row", [0, 3])
def test_filler_rows_weigh_nothing(golden, batches, row):
    objective = objectives.Classification(
        _model(golden), objectives.SINGLE_LABEL
    )
    golden_steps.check_filler_rows(objective, batches[0], row)


class _Fixed:
    """Stands for a model that always gives the same logits."""

    def __init__(self, logits):
        self._logits = tf.constant(logits, tf.float32)

    def __call__(self, **_):
        return {"logits": self._logits}


def _scored(problem_type, logits, labels, class_weights=()):
    objective = objectives.Classification(
        _Fixed(logits), problem_type, class_weights
    )
    features = {
        **dict.fromkeys(
            ("input_ids", "input_mask", "segment_ids"),
            tf.ones([len(logits), 3], tf.int32),
        ),
        "label_ids": tf.constant(labels),
    }
    return objective.predictions(features)


def test_loss_of_a_score_is_its_squared_error():
    scored = _scored("regression", [[1.5], [-2.0]], [[1.0], [1.0]])
    np.testing.assert_allclose(scored["losses"], [0.25, 9.0])
    np.testing.assert_allclose(scored["outputs"], [[1.5], [-2.0]])


def test_loss_of_several_labels_is_the_mean_over_them():
    scored = _scored("multi_label", [[0.0, 2.0, -1.0]], [[1.0, 0.0, 1.0]])
    sigmoid = 1 / (1 + np.exp([0.0, -2.0, 1.0]))
    wanted = -np.log([sigmoid[0], 1 - sigmoid[1], sigmoid[2]]).mean()
    np.testing.assert_allclose(scored["losses"], [wanted], rtol=1e-6)
    np.testing.assert_allclose(scored["outputs"], [sigmoid], rtol=1e-6)


def test_loss_of_one_label_is_its_cross_entropy():
    # Weights are for training alone.
    scored = _scored("single_label", [[0.0, np.log(3.0)]], [[1]], (2.0, 5.0))
    np.testing.assert_allclose(scored["losses"], [-np.log(0.75)], rtol=1e-6)
    np.testing.assert_allclose(scored["outputs"], [[0.25, 0.75]], rtol=1e-6)


def _weighted_loss(problem_type, weights, logits, labels, rows=None):
    """Trains on rows, in two parts that share their denominators."""
    objective = objectives.Classification(_Fixed(logits), problem_type, weights)
    rows = np.ones(len(logits)) if rows is None else rows
    features = {
        **dict.fromkeys(
            ("input_ids", "input_mask", "segment_ids"),
            np.ones([len(logits), 3], np.int32),
        ),
        "label_ids": np.array(
            labels, np.int32 if problem_type == "single_label" else np.float32
        ),
        "example_weights": np.array(rows, np.float32),
    }
    parts = []
    for taken in (slice(0, 1), slice(1, None)):
        part = {name: tf.constant(x[taken]) for name, x in features.items()}
        parts.append((part, np.array(logits)[taken]))
    denominators = {
        "loss": sum(objective.denominators(part)["loss"] for part, _ in parts)
    }
    total = 0.0
    for part, its_logits in parts:
        objective.model = _Fixed(its_logits)
        total += objective.outcome(part, denominators, None).losses["loss"]
    return total


def test_class_weights_weigh_rows_by_their_label():
    logits = [[0.0, 1.0, 2.0], [1.0, 0.0, 0.0], [0.5, 0.5, 3.0]]
    ids, weights = [2, 0, 1], np.array([0.5, 4.0, 3.0])
    each = [
        np.log(np.exp(row).sum()) - row[i]
        for row, i in zip(np.array(logits), ids, strict=True)
    ]
    own = weights[ids]
    labels = [[i] for i in ids]
    got = _weighted_loss("single_label", weights.tolist(), logits, labels)
    np.testing.assert_allclose(got, (own * each).sum() / own.sum(), rtol=1e-6)
    # A row that only fills the batch counts nowhere.
    own *= (1, 1, 0)
    got = _weighted_loss(
        "single_label", weights.tolist(), logits, labels, [1, 1, 0]
    )
    np.testing.assert_allclose(got, (own * each).sum() / own.sum(), rtol=1e-6)


def test_class_weights_of_several_labels_weigh_those_that_hold():
    logits = np.array([[0.0, 1.0], [2.0, -1.0], [0.5, 0.1]], np.float32)
    labels = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]], np.float32)
    each = np.logaddexp(0, logits) - labels * logits
    own = np.where(labels > 0, [3.0, 5.0], 1.0)
    got = _weighted_loss("multi_label", (3.0, 5.0), logits, labels)
    np.testing.assert_allclose(got, (own * each).sum() / own.sum(), rtol=1e-6)


def test_equal_class_weights_change_nothing():
    logits, labels = [[0.0, 1.0], [2.0, -1.0]], [[1], [1]]
    plain = _weighted_loss("single_label", (), logits, labels)
    equal = _weighted_loss("single_label", (3.0, 3.0), logits, labels)
    np.testing.assert_allclose(equal, plain, rtol=1e-6)


def test_names_the_problem_types_it_knows():
    with pytest.raises(ValueError, match="one of single_label, multi_label"):
        objectives.Classification(_Fixed([[0.0]]), "ranking")
