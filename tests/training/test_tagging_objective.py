import numpy as np
import tensorflow as tf

from training import objectives, records

# B=2, T=3, K=2.
_LOGITS = np.log(
    [[[3.0, 1.0], [1.0, 1.0], [1.0, 4.0]], [[1.0, 1.0], [1.0, 7.0], [2.0, 2.0]]]
).astype(np.float32)


class _Model:
    def __init__(self):
        self.seen = None

    def __call__(self, dropout_seed, **inputs):
        self.seen = (dropout_seed, sorted(inputs))
        return {"logits": tf.constant(_LOGITS)}


def _features(**more):
    return {
        "input_ids": tf.zeros([2, 3], tf.int32),
        "label_ids": tf.constant([[0, 1, 0], [1, 1, 1]]),
        "label_mask": tf.constant([[1, 0, 1], [0, 1, 0]]),
        **more,
    }


class TaggingTest(tf.test.TestCase):
    def test_loss_and_accuracy_by_hand(self):
        objective = objectives.Tagging(_Model(), ["input_ids"])
        features = _features()
        denominators = objective.denominators(features)
        self.assertAllClose(denominators, {"loss": 3.0})
        outcome = objective.outcome(features, denominators, None)
        # Of labels 0, 0 and 1, with 3/4, 1/5 and 7/8.
        expected = -np.log([3 / 4, 1 / 5, 7 / 8]).sum() / 3
        self.assertAllClose(outcome.losses["loss"], expected, atol=1e-6)
        self.assertAllClose(outcome.metrics["accuracy"], (2.0, 3.0))

    def test_rows_that_fill_the_batch_count_nothing(self):
        objective = objectives.Tagging(_Model(), ["input_ids"])
        features = _features(example_weights=tf.constant([0.0, 1.0]))
        denominators = objective.denominators(features)
        self.assertAllClose(denominators, {"loss": 1.0})
        outcome = objective.outcome(features, denominators, None)
        self.assertAllClose(outcome.losses["loss"], -np.log(7 / 8), atol=1e-6)

    def test_predictions(self):
        scores = objectives.Tagging(_Model(), ["input_ids"]).predictions(
            _features()
        )
        self.assertAllEqual(scores["label_ids"][0], [0, 0, 1])
        self.assertAllEqual(scores["label_mask"], [[1, 0, 1], [0, 1, 0]])
        self.assertAllClose(
            scores["losses"], [-np.log(3 / 4 / 5), -np.log(7 / 8)], atol=1e-6
        )

    def test_labels_may_be_longer_than_inputs_whose_padding_was_cut(self):
        objective = objectives.Tagging(_Model(), ["input_ids"])
        features = _features()
        longer = dict(features)
        for name in ("label_ids", "label_mask"):
            longer[name] = tf.pad(features[name], [[0, 0], [0, 2]])
        self.assertAllClose(
            objective.predictions(longer), objective.predictions(features)
        )

    def test_model_is_called_with_its_inputs_and_the_seed(self):
        model = _Model()
        seed = tf.constant([1, 2])
        objective = objectives.Tagging(model, ["label_mask", "input_ids"])
        objective.outcome(_features(), {"loss": 3.0}, seed)
        self.assertEqual(model.seen, (seed, ["input_ids", "label_mask"]))


def test_records_hold_five_rows_of_a_length():
    features = records.tagging_features(7)
    assert {f.name: f.shape for f in features} == dict.fromkeys(
        ["input_ids", "input_mask", "segment_ids", "label_ids", "label_mask"],
        (7,),
    )
