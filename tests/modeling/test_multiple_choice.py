"""The scores of several choices."""

import keras
import numpy as np
import tensorflow as tf

from modeling import bert, checkpoints, heads
from tests import toy_config

_B, _C, _T, _D = 2, 3, 5, 12
_TOLERANCE = 1e-5


def _model(**changes):
    sizes = {"vocab_size": 11, "max_position_embeddings": 7, **changes}
    config = toy_config.config(hidden_size=_D, initializer_range=0.5, **sizes)
    keras.utils.set_random_seed(1)
    return heads.BertForMultipleChoice(config)


def _inputs():
    rng = np.random.default_rng(2)
    lengths = rng.integers(2, _T + 1, (_B, _C, 1))
    return {
        "input_ids": rng.integers(0, 11, (_B, _C, _T)).astype("int32"),
        "input_mask": (np.arange(_T) < lengths).astype("int32"),
        "segment_ids": rng.integers(0, 2, (_B, _C, _T)).astype("int32"),
    }


def test_score_of_a_choice_is_its_pooled_output_times_the_vector():
    model, inputs = _model(), _inputs()
    logits = model(**inputs)["logits"]
    assert logits.shape == (_B, _C) and logits.dtype == "float32"
    vector = model.score.output_weights.numpy()[0]
    for row in range(_B):
        for choice in range(_C):
            one = {k: v[row, choice][np.newaxis] for k, v in inputs.items()}
            pooled = model.bert(**one)["pooled_output"].numpy()[0]
            np.testing.assert_allclose(
                logits[row, choice], pooled @ vector, atol=_TOLERANCE
            )


def test_mask_and_segments_may_be_left_out():
    model, inputs = _model(), _inputs()
    whole = {
        "input_mask": np.ones((_B, _C, _T), "int32"),
        "segment_ids": np.zeros((_B, _C, _T), "int32"),
    }
    np.testing.assert_allclose(
        model(inputs["input_ids"])["logits"],
        model(inputs["input_ids"], **whole)["logits"],
        atol=_TOLERANCE,
    )


def test_one_vector_is_all_that_is_new():
    model = _model()
    names = set(checkpoints.variables_by_name(model))
    encoder = bert.BertModel(model.config)
    assert names - set(checkpoints.variables_by_name(encoder)) == {
        "cls/multiple_choice/output_weights"
    }
    assert model.score.output_weights.shape == (1, _D)
    # The spread of the release's heads, cut at twice that.
    assert np.abs(model.score.output_weights).max() <= 0.04


def test_dropout_is_that_of_the_classifier():
    """With none in the encoder, a tenth of the pooled output goes."""
    model = _model(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    copies = 500  # With more, arithmetic is compiled, which takes a second.
    inputs = {k: np.tile(v[:1], (copies, 1, 1)) for k, v in _inputs().items()}
    plain = model(**{k: v[:1] for k, v in inputs.items()})["logits"].numpy()[0]
    seed = np.array([5, 6], "int32")
    drawn = model(**inputs, dropout_seed=seed)["logits"].numpy()
    again = model(**inputs, dropout_seed=seed)["logits"].numpy()
    np.testing.assert_array_equal(drawn, again)
    # Each term w·p of the product varies by (w·p)² · 0.1 / 0.9.
    pooled = model.bert(**{k: v[0] for k, v in inputs.items()})["pooled_output"]
    terms = (pooled.numpy() * model.score.output_weights.numpy()[0]) ** 2
    variance = terms.sum(axis=1) * 0.1 / 0.9  # [C]
    # Six standard errors of a mean, and some of a variance.
    error = 6 * np.sqrt(variance / copies)
    assert (np.abs(drawn.mean(axis=0) - plain) < error).all()
    np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=0.3)


def test_any_batch_and_length_share_one_graph():
    model, inputs = _model(), _inputs()
    spec = tf.TensorSpec([None, _C, None], tf.int32)

    @tf.function(input_signature=[spec, spec, spec])
    def logits(input_ids, input_mask, segment_ids):
        return model(input_ids, input_mask, segment_ids)["logits"]

    expected = model(**inputs)["logits"]
    np.testing.assert_allclose(logits(**inputs), expected, atol=_TOLERANCE)
    padded = {k: np.pad(v, [(0, 1), (0, 0), (0, 2)]) for k, v in inputs.items()}
    np.testing.assert_allclose(logits(**padded)[:_B], expected, atol=_TOLERANCE)
