"""The BiLSTM tagger on the hidden layers of a frozen encoder."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from bert.tasks.tagging import options as tagging_options
from modeling import ablations, checkpoints, heads
from tests.support import toy_config

_CONFIG = toy_config.config(num_hidden_layers=4)
_SEED = np.array([3, 5], np.int32)
_IDS = np.random.default_rng(1).integers(1, 31, (2, 7)).astype(np.int32)
# The second piece of the first text continues a word.
_WORDS = np.array([[1, 0, 1, 1, 0, 0, 0], [1] * 7], np.int32)


def _model(features="sum_all"):
    keras.utils.set_random_seed(1)
    return heads.BertForTokenClassification(
        _CONFIG, num_labels=5, features=features
    )


def _logits(model, ids=_IDS, words=_WORDS, **options):
    outputs = model(ids, label_mask=words, **options)
    return outputs["logits"].numpy()


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _lstm_by_hand(inputs, variables):
    """Runs an LSTM over `[S, D]`: gates in the order i, f, c, o."""
    kernel, recurrent, bias = (v.numpy() for v in variables)
    state = cell = np.zeros(recurrent.shape[0])
    outputs = []
    for row in inputs:
        gates = np.split(row @ kernel + state @ recurrent + bias, 4)
        take, keep, give = (_sigmoid(gates[n]) for n in (0, 1, 3))
        cell = keep * cell + take * np.tanh(gates[2])
        state = give * np.tanh(cell)
        outputs.append(state)
    return np.stack(outputs)


@pytest.mark.parametrize("features", ["sum_last_four", "concat_last_four"])
def test_logits_of_the_words_by_hand(features):
    model = _model(features)
    hidden = model.bert(_IDS)["all_encoder_layers"]
    places = [0, 2, 3]  # The words of the first text.
    parts = np.stack([layer[0].numpy()[places] for layer in hidden])
    if features == "sum_last_four":
        model.words.weights_of_layers.assign([0.0, 1.0, -1.0, 0.5])
        model.words.scale.assign(2.0)
        mix = np.exp([0.0, 1.0, -1.0, 0.5])
        rows = np.einsum("lsd,l->sd", parts, 2 * mix / mix.sum())
    else:
        rows = np.concatenate(parts, axis=-1)
    for lstm in model.words.stack:
        forward = _lstm_by_hand(rows, lstm.forward_layer.weights)
        backward = _lstm_by_hand(rows[::-1], lstm.backward_layer.weights)
        rows = np.concatenate([forward, backward[::-1]], axis=1)
    expected = rows @ model.output_weights.numpy().T
    np.testing.assert_allclose(_logits(model)[0, places], expected, atol=1e-5)


def test_dropout_of_the_head_depends_on_its_seed_alone():
    model = _model()
    first = _logits(model, dropout_seed=_SEED)
    np.testing.assert_array_equal(_logits(model, dropout_seed=_SEED), first)
    assert np.any(_logits(model, dropout_seed=_SEED + 1) != first)


def test_a_frozen_encoder_has_no_dropout():
    keras.utils.set_random_seed(1)
    config = toy_config.config(
        num_hidden_layers=1,
        hidden_dropout_prob=0.5,
        attention_probs_dropout_prob=0.5,
        classifier_dropout_prob=0.0,
    )
    model = heads.BertForTokenClassification(
        config, num_labels=5, features="last"
    )
    np.testing.assert_array_equal(
        _logits(model, dropout_seed=_SEED), _logits(model)
    )


def test_padding_that_a_batch_has_lost_may_be_left_in_the_label_mask():
    model, longer = _model(), np.pad(_WORDS, [(0, 0), (0, 3)])
    np.testing.assert_array_equal(_logits(model, words=longer), _logits(model))


def test_features_without_a_label_mask_are_refused():
    with pytest.raises(ValueError, match="needs label_mask"):
        _model()(_IDS)


def test_variables_of_the_head_have_names_and_gradients():
    model = _model()
    head = {
        name: variable
        for name, variable in checkpoints.variables_by_name(model).items()
        if not name.startswith("bert/")
    }
    assert {"features/layer_weights", "features/layer_scale"} <= head.keys()
    assert len(head) == 2 + 2 * 6 + 2
    with tf.GradientTape() as tape:
        logits = model(_IDS, label_mask=_WORDS)["logits"]
        loss = ops.sum(ops.square(logits))
    found = tape.gradient(loss, [v.value for v in head.values()])
    assert all(np.abs(gradient).max() > 0 for gradient in found)


@pytest.mark.integration
def test_xla_compiles_it_and_its_gradient_where_there_is_a_gpu(monkeypatch):
    # Keras chooses its LSTM by the devices; here is no GPU.
    real = tf.config.list_logical_devices
    monkeypatch.setattr(
        tf.config,
        "list_logical_devices",
        lambda kind=None: real() if kind == "GPU" else real(kind),
    )
    model = _model()

    @tf.function(autograph=False, jit_compile=True)
    def gradients():
        with tf.GradientTape() as tape:
            logits = model(_IDS, label_mask=_WORDS)["logits"]
        variables = [v.value for v in model.words.trainable_variables]
        return logits, tape.gradient(logits, variables)

    logits, found = gradients()
    np.testing.assert_allclose(logits, _logits(model), atol=1e-5)
    assert not any(gradient is None for gradient in found)


@pytest.mark.parametrize(
    ("choice", "numbers"),
    [
        ("embeddings", (0,)),
        ("second_to_last", (11,)),
        ("last", (12,)),
        ("sum_last_four", (9, 10, 11, 12)),
        ("concat_last_four", (9, 10, 11, 12)),
        ("sum_all", tuple(range(1, 13))),
    ],
)
def test_layers_of_the_paper(choice, numbers):
    assert choice in tagging_options.FEATURE_LAYERS
    assert ablations.layer_numbers(choice, 12) == numbers


def test_the_layers_must_exist():
    with pytest.raises(ValueError, match="sum_last_four needs at least 4 "):
        ablations.layer_numbers("sum_last_four", 3)
