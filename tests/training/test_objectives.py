import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import heads
from tests import toy_config
from tests import toy_pretraining as toy
from training import objectives


def _features(num_examples=3):
    return {
        name: tf.constant(
            rows, tf.float32 if name == "masked_lm_weights" else tf.int32
        )
        for name, rows in toy.random_examples(num_examples).items()
    }


@pytest.fixture(scope="module")
def models():
    """One model for each objective, all of the same weights."""
    keras.config.set_dtype_policy("float32")
    config = toy_config.config(initializer_range=0.2)
    made = {
        name: heads.BertForPreTraining(config, objective=name)
        for name in heads.OBJECTIVES
    }
    for model in made.values():
        model.set_weights(made["mlm_nsp"].get_weights())
    return made


def _outcome(models, name, features, denominators=None):
    objective = objectives.Pretraining(models[name], name)
    if denominators is None:
        denominators = objective.denominators(features)
    outcome = objective.outcome(features, denominators, None)
    return tf.nest.map_structure(
        lambda x: x.numpy().item(),
        {"losses": outcome.losses, "metrics": outcome.metrics},
    )


def test_masked_words_alone_leave_next_sentences_out(models):
    features = _features()
    both = _outcome(models, "mlm_nsp", features)
    alone = _outcome(models, "mlm", features)
    assert set(both["losses"]) == {"masked_lm_loss", "next_sentence_loss"}
    assert set(alone["losses"]) == {"masked_lm_loss"}
    assert set(alone["metrics"]) == {"masked_lm_loss", "masked_lm_accuracy"}
    assert alone["losses"]["masked_lm_loss"] == pytest.approx(
        both["losses"]["masked_lm_loss"], rel=1e-6
    )


def test_a_prediction_of_no_weight_counts_for_nothing(models):
    features = _features()
    weights = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]], np.float32)
    features["masked_lm_weights"] = tf.constant(weights)
    before = _outcome(models, "mlm", features)
    ids = features["masked_lm_ids"].numpy()
    ids[weights == 0] = 17
    after = _outcome(models, "mlm", {**features, "masked_lm_ids": ids})
    assert before == after
    assert before["metrics"]["masked_lm_loss"][1] == 3


def test_left_to_right_reads_the_original_text(models):
    features = _features()
    reads = {}
    model = models["ltr"]

    def recorded(**inputs):
        reads.update(inputs)
        return model(**inputs)

    objective = objectives.Pretraining(recorded, "ltr")
    outcome = objective.outcome(
        features, objective.denominators(features), None
    )
    original = features["input_ids"].numpy()
    rows = np.arange(3)[:, np.newaxis]
    original[rows, features["masked_lm_positions"]] = features["masked_lm_ids"]
    np.testing.assert_array_equal(reads["input_ids"], original)
    np.testing.assert_array_equal(
        reads["masked_lm_positions"], np.tile(np.arange(9), (3, 1))
    )
    # Every token but the first of each text is predicted.
    predicted = outcome.metrics["masked_lm_loss"][1].numpy()
    assert predicted == features["input_mask"].numpy().sum() - 3


def test_left_to_right_need_not_know_the_number_of_rows(models):
    features = _features()
    specs = {
        name: tf.TensorSpec([None, *value.shape[1:]], value.dtype)
        for name, value in features.items()
    }

    def run(features):
        objective = objectives.Pretraining(models["ltr"], "ltr")
        return objective.outcome(
            features, objective.denominators(features), None
        ).losses["masked_lm_loss"]

    compiled = tf.function(run, [specs], autograph=False)
    assert float(compiled(features)) == pytest.approx(float(run(features)))


def test_left_to_right_ignores_padded_predictions(models):
    features = _features()
    positions = features["masked_lm_positions"].numpy()
    positions[:, 1] = 0
    ids = features["masked_lm_ids"].numpy()
    ids[:, 1] = 0
    padded = {
        **features,
        "masked_lm_positions": tf.constant(positions),
        "masked_lm_ids": tf.constant(ids),
        "masked_lm_weights": tf.constant([[1.0, 0.0]] * 3),
    }
    single = {
        name: value[:, :1] if name.startswith("masked_lm") else value
        for name, value in padded.items()
    }
    assert _outcome(models, "ltr", padded) == _outcome(models, "ltr", single)


def test_left_to_right_gives_padding_no_weight(models):
    features = _features()
    before = _outcome(models, "ltr", features)
    ids = features["input_ids"].numpy()
    ids[features["input_mask"].numpy() == 0] = 9
    after = _outcome(models, "ltr", {**features, "input_ids": tf.constant(ids)})
    assert after["losses"] == pytest.approx(before["losses"], rel=1e-6)


@pytest.mark.parametrize("name", heads.OBJECTIVES)
def test_rows_that_fill_the_batch_count_for_nothing(models, name):
    features = _features(3)
    expected = _outcome(
        models, name, {key: rows[:2] for key, rows in features.items()}
    )
    filled = _outcome(
        models, name, {**features, "example_weights": tf.constant([1.0, 1, 0])}
    )
    for part in ("losses", "metrics"):
        for key, value in expected[part].items():
            assert filled[part][key] == pytest.approx(value, rel=1e-5), key


@pytest.mark.parametrize("name", heads.OBJECTIVES)
def test_parts_of_a_batch_add_up_to_its_losses(models, name):
    features = _features(3)
    whole = _outcome(models, name, features)
    objective = objectives.Pretraining(models[name], name)
    denominators = objective.denominators(features)
    parts = [
        _outcome(
            models,
            name,
            {key: rows[chosen] for key, rows in features.items()},
            denominators,
        )
        for chosen in (slice(0, 1), slice(1, 3))
    ]
    for key, value in whole["losses"].items():
        summed = sum(part["losses"][key] for part in parts)
        assert summed == pytest.approx(value, rel=1e-5)
