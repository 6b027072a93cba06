"""The tagger that reads features, and the features it reads."""

from unittest import mock

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized
from keras import ops

from modeling import checkpoints, tagging

_SEED = np.array([3, 5], np.int32)


def _lstm_tagger(*, is_sum, num_layers=3, num_units=4):
    keras.utils.set_random_seed(1)
    return tagging.LstmTagger(
        num_layers=num_layers,
        hidden_size=6,
        is_sum=is_sum,
        num_labels=5,
        num_units=num_units,
    )


_FEATURES = np.random.default_rng(1).normal(size=(2, 7, 18)).astype(np.float32)
_WORDS = np.array([[1, 1, 1, 0, 0, 0, 0], [1] * 7], np.int32)


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


class LstmTaggerTest(tf.test.TestCase, parameterized.TestCase):
    def test_logits_by_hand(self):
        model = _lstm_tagger(is_sum=True)
        model.layer_weights.assign([0.0, 1.0, -1.0])
        model.layer_scale.assign(2.0)
        logits = model(_FEATURES, _WORDS)["logits"]
        mix = 2 * np.exp([0.0, 1.0, -1.0]) / np.exp([0.0, 1.0, -1.0]).sum()
        parts = _FEATURES[0, :3].reshape(3, 3, 6)
        hidden = np.einsum("sld,l->sd", parts, mix)
        for lstm in model.stack:
            forward = _lstm_by_hand(hidden, lstm.forward_layer.weights)
            backward = _lstm_by_hand(hidden[::-1], lstm.backward_layer.weights)
            hidden = np.concatenate([forward, backward[::-1]], axis=1)
        expected = hidden @ model.output_weights.numpy().T
        self.assertAllClose(logits[0, :3], expected, atol=1e-5)

    def test_side_by_side_every_layer_counts(self):
        model = _lstm_tagger(is_sum=False)
        logits = model(_FEATURES, _WORDS)["logits"]
        self.assertEqual(logits.shape, (2, 7, 5))
        for layer in range(3):
            changed = _FEATURES.copy()
            changed[:, :, 6 * layer] += 1
            self.assertNotAllClose(model(changed, _WORDS)["logits"], logits)

    @parameterized.parameters(True, False)
    def test_padding_changes_no_word(self, is_sum):
        model = _lstm_tagger(is_sum=is_sum)
        changed = _FEATURES.copy()
        changed[0, 3:] = 9.0
        whole = model(_FEATURES, _WORDS)["logits"]
        self.assertAllClose(
            model(changed, _WORDS)["logits"][0, :3], whole[0, :3]
        )
        cut = model(_FEATURES[:1, :3], _WORDS[:1, :3])["logits"]
        self.assertAllClose(cut[0], whole[0, :3], atol=1e-6)

    def test_dropout_depends_on_its_seed_alone(self):
        model = _lstm_tagger(is_sum=True)
        first = model(_FEATURES, _WORDS, dropout_seed=_SEED)["logits"]
        again = model(_FEATURES, _WORDS, dropout_seed=_SEED)["logits"]
        other = model(_FEATURES, _WORDS, dropout_seed=_SEED + 1)["logits"]
        self.assertAllEqual(first, again)
        self.assertNotAllClose(first, other)

    def test_sizes_are_those_of_the_paper_by_default(self):
        # Orthogonal weights of these sizes take a second.
        with mock.patch.object(
            keras.initializers.Orthogonal,
            "__call__",
            lambda _, shape, dtype=None: ops.zeros(shape, dtype),
        ):
            model = tagging.LstmTagger(
                num_layers=1, hidden_size=6, is_sum=False, num_labels=5
            )
        shapes = {
            name: tuple(v.shape)
            for name, v in checkpoints.variables_by_name(model).items()
            if "backward" not in name
        }
        kernels = [
            s for n, s in shapes.items() if n.endswith("lstm_cell/kernel")
        ]
        self.assertEqual(kernels, [(6, 4 * 768), (2 * 768, 4 * 768)])
        self.assertEqual(shapes["output_weights"], (5, 2 * 768))
        self.assertEqual(len(model.weights), 14)

    def test_variables_have_names_that_differ_and_gradients(self):
        model = _lstm_tagger(is_sum=True)
        names = checkpoints.variables_by_name(model)
        self.assertLen(names, len(model.weights))
        self.assertContainsSubset({"layer_weights", "layer_scale"}, names)
        with tf.GradientTape() as tape:
            loss = ops.sum(ops.square(model(_FEATURES, _WORDS)["logits"]))
        gradients = tape.gradient(loss, [v.value for v in model.weights])
        self.assertTrue(all(np.abs(g).max() > 0 for g in gradients))

    def test_xla_compiles_it_and_its_gradient_where_there_is_a_gpu(self):
        real = tf.config.list_logical_devices
        with mock.patch.object(
            tf.config,
            "list_logical_devices",
            lambda kind=None: real() if kind == "GPU" else real(kind),
        ):
            model = _lstm_tagger(is_sum=True)

            @tf.function(autograph=False, jit_compile=True)
            def gradients():
                with tf.GradientTape() as tape:
                    logits = model(_FEATURES, _WORDS)["logits"]
                variables = [v.value for v in model.trainable_variables]
                return logits, tape.gradient(logits, variables)

            logits, found = gradients()
        self.assertAllClose(logits, model(_FEATURES, _WORDS)["logits"])
        self.assertAllEqual([each is None for each in found], [False] * 16)

    def test_there_must_be_a_label(self):
        with self.assertRaisesRegex(ValueError, "must be positive; got 0"):
            tagging.LstmTagger(
                num_layers=1, hidden_size=6, is_sum=False, num_labels=0
            )
