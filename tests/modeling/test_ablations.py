"""The output layers of tokens and sequences, and their ablations."""

import functools

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

from modeling import bert, checkpoints, heads
from tests.support import toy_config

_SIZES = toy_config.config(
    vocab_size=11,
    max_position_embeddings=9,
    initializer_range=0.3,
)
_IDS = np.array([[2, 5, 7, 3, 0, 0, 0], [2, 9, 8, 4, 6, 10, 3]], np.int32)
_MASK = (_IDS > 0).astype(np.int32)
_SEED = np.array([3, 5], np.int32)
_LTR = {"causal": True}
_LTR_BILSTM = {"causal": True, "bilstm_head": True}
_BILSTM = {"bilstm_head": True}
_ABLATIONS = (
    ("ltr", _LTR),
    ("ltr_bilstm", _LTR_BILSTM),
    ("bilstm", _BILSTM),
)
_ALL = (*_ABLATIONS, ("plain", {}))


@functools.cache
def _made(head, ablation):
    keras.utils.set_random_seed(1)
    return head(_SIZES, num_labels=5, **dict(ablation))


def _classifier(ablation):
    return _made(heads.BertForSequenceClassification, (*ablation.items(),))


def _tagger(ablation):
    return _made(heads.BertForTokenClassification, (*ablation.items(),))


class AblationsTest(parameterized.TestCase, tf.test.TestCase):
    def test_logits_are_the_product_of_every_position(self):
        model = _tagger({})
        logits = model(_IDS, _MASK)["logits"]
        hidden = model.bert(_IDS, _MASK)["sequence_output"].numpy()
        weights = model.output_weights.numpy()
        bias = np.arange(5, dtype=np.float32)
        model.output_bias.assign(bias)
        self.assertEqual(logits.shape, (2, 7, 5))
        self.assertAllClose(logits, hidden @ weights.T, atol=1e-6)
        moved = model(_IDS, _MASK)["logits"]
        self.assertAllClose(moved - logits, np.broadcast_to(bias, (2, 7, 5)))

    def test_only_a_bilstm_sees_what_follows_a_left_to_right_token(self):
        changed = _IDS.copy()
        changed[:, 3] = 1
        for ablation in (_LTR, _LTR_BILSTM):
            model = _tagger(ablation)
            before = model(_IDS, _MASK)["logits"]
            after = model(changed, _MASK)["logits"]
            if ablation is _LTR:
                self.assertAllClose(before[:, :3], after[:, :3], atol=1e-6)
                self.assertNotAllClose(before[:, 3], after[:, 3], atol=1e-2)
            else:
                self.assertNotAllClose(before[:, 0], after[:, 0], atol=1e-6)

    def test_a_left_to_right_sequence_is_labeled_from_its_last_token(self):
        model = _classifier(_LTR)
        hidden = model.bert(_IDS, _MASK)["sequence_output"].numpy()
        last = np.stack([hidden[0, 3], hidden[1, 6]])  # [B, D]
        dense = model.bert.pooler.dense
        pooled = np.tanh(last @ dense.kernel.numpy() + dense.bias.numpy())
        expected = pooled @ model.output_weights.numpy().T
        self.assertAllClose(model(_IDS, _MASK)["logits"], expected, atol=1e-5)

    def test_a_bilstm_labels_from_where_each_direction_ends(self):
        model = _classifier(_BILSTM)
        for row, length in enumerate((4, 7)):
            ids = _IDS[row : row + 1, :length]
            hidden = model.bert(ids)["sequence_output"]
            forward = model.bilstm.forward_layer(hidden)[:, -1]
            backward = model.bilstm.backward_layer(hidden)[:, -1]
            ends = np.concatenate([forward, backward], axis=-1)  # [1, 2 D]
            expected = ends @ model.output_weights.numpy().T
            found = model(_IDS, _MASK)["logits"][row : row + 1]
            self.assertAllClose(found, expected, atol=1e-5)

    @parameterized.named_parameters(*_ALL)
    def test_padding_changes_nothing(self, ablation):
        for model in (_classifier(ablation), _tagger(ablation)):
            whole = model(_IDS[:1], _MASK[:1])["logits"]
            cut = model(_IDS[:1, :4], _MASK[:1, :4])["logits"]
            if whole.ndim == 3:
                whole = whole[:, :4]
            self.assertAllClose(whole, cut, atol=1e-5)

    @parameterized.named_parameters(*_ALL)
    def test_without_a_mask_every_position_is_a_token(self, ablation):
        for model in (_classifier(ablation), _tagger(ablation)):
            whole = model(_IDS, np.ones_like(_IDS))["logits"]
            self.assertAllClose(model(_IDS)["logits"], whole, atol=1e-6)

    @parameterized.named_parameters(*_ALL)
    def test_dropout_depends_on_its_seed_alone(self, ablation):
        for model in (_classifier(ablation), _tagger(ablation)):
            first = model(_IDS, _MASK, dropout_seed=_SEED)["logits"]
            again = model(_IDS, _MASK, dropout_seed=_SEED)["logits"]
            other = model(_IDS, _MASK, dropout_seed=_SEED + 1)["logits"]
            self.assertAllEqual(first, again)
            self.assertNotAllClose(first, other)

    @parameterized.named_parameters(*_ABLATIONS)
    def test_answers_are_scored_at_every_token(self, ablation):
        keras.utils.set_random_seed(1)
        model = heads.BertForQuestionAnswering(_SIZES, **ablation)
        logits = model(_IDS, _MASK)
        self.assertEqual(set(logits), {"start_logits", "end_logits"})
        hidden = model.sequence_output(_IDS, _MASK)
        weights = model.output_weights.numpy()
        for name, weight in zip(
            ("start_logits", "end_logits"), weights, strict=True
        ):
            self.assertEqual(logits[name].shape, (2, 7))
            self.assertAllClose(
                logits[name], hidden.numpy() @ weight, atol=1e-5
            )

    def test_encoder_keeps_the_names_of_the_release(self):
        names = set(checkpoints.variables_by_name(_tagger(_LTR_BILSTM)))
        keras.utils.set_random_seed(1)
        encoder = {
            f"bert/{name}" if not name.startswith("bert/") else name
            for name in checkpoints.variables_by_name(bert.BertModel(_SIZES))
        }
        self.assertLessEqual(encoder, names)
        rest = names - encoder
        self.assertLessEqual({"output_weights", "output_bias"}, rest)
        bilstm = rest - {"output_weights", "output_bias"}
        self.assertLen(bilstm, 6)
        self.assertTrue(all(name.startswith("bilstm/") for name in bilstm))

    def test_last_token_of_each_row(self):
        hidden = np.arange(2 * 3 * 2, dtype=np.float32).reshape(2, 3, 2)
        mask = np.array([[1, 1, 0], [0, 0, 0]], np.int32)
        found = heads.last_token(hidden, mask)
        self.assertAllEqual(found, [[2, 3], [6, 7]])
