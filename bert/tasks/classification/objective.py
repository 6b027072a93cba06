"""Objective of classification and regression."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from bert.tasks import objectives, task
from modeling import losses


class ClassificationObjective(objectives.PerExample):
    """One label, several labels or a score for each example.

    Source: Devlin et al. 2019, §4.1. An example is a text or a pair; or, with a
    `modeling.heads.BertForMultipleChoice`, a set of choices, whose label is
    the index of the correct one (§4.4: a softmax over their scores).
    Features in addition to the model's inputs: `label_ids`, `[B, 1]` int32 for
    a label, `[B, K]` float32 (each 0 or 1) for several, `[B, 1]` float32 for a
    score.

    The loss is a weighted mean, `sum(w * loss) / sum(w)`. With class weights an
    example of one label has the weight of its class. With several labels each
    positive one has the weight of its class, and each negative one weight 1.

    Args:
        model: returns `logits` `[B, K]`.
        problem_type: one of `task.PROBLEM_TYPES`.
        class_weights: the weights of the `K` classes in training; all 1 if
            empty.
    """

    def __init__(
        self,
        model: keras.Model,
        problem_type: str,
        class_weights: Sequence[float] = (),
    ):
        super().__init__(model)
        self._problem_type = problem_type
        self._class_weights = tuple(class_weights)

    def row_losses(
        self, features: objectives.Tensors, outputs: objectives.Tensors
    ) -> tf.Tensor:
        weights = self._class_weights_of(features)
        return self._losses(features, outputs["logits"], weights)

    def row_weights(self, features: objectives.Tensors) -> tf.Tensor:
        rows = objectives.example_weights(features)
        weights = self._class_weights_of(features)
        return rows if weights is None else rows * tf.reduce_mean(weights, 1)

    def _class_weights_of(
        self, features: objectives.Tensors
    ) -> tf.Tensor | None:
        """Returns class weights: `[B, 1]`, or `[B, K]` for several labels."""
        if not self._class_weights:
            return None
        labels, weights = features["label_ids"], self._class_weights
        if self._problem_type == task.SINGLE_LABEL:
            return tf.gather(tf.constant(weights), labels)  # [B, 1]
        return tf.where(labels > 0, weights, tf.ones_like(labels))  # [B, K]

    def _losses(
        self,
        features: objectives.Tensors,
        logits: tf.Tensor,
        class_weights: tf.Tensor | None = None,
    ) -> tf.Tensor:
        labels = features["label_ids"]
        if self._problem_type == task.SINGLE_LABEL:
            return losses.cross_entropy(logits, labels[:, 0])
        if self._problem_type == task.REGRESSION:
            return losses.squared_error(logits[:, 0], labels[:, 0])
        return losses.multi_label_cross_entropy(logits, labels, class_weights)

    def row_metrics(
        self, features: objectives.Tensors, outputs: objectives.Tensors
    ) -> objectives.Tensors:
        if self._problem_type != task.SINGLE_LABEL:
            return {}
        labels = features["label_ids"][:, 0]
        return {"accuracy": objectives.correct(outputs["logits"], labels)}

    def predictions(self, features: objectives.Tensors) -> dict[str, tf.Tensor]:
        """Scores each row.

        Returns:
            `outputs` `[B, K]` float32, probabilities or scores, and `losses`
            `[B]` float32, without class weights.
        """
        outputs = self.outputs(features, None)
        activation = {
            task.SINGLE_LABEL: tf.nn.softmax,
            task.MULTI_LABEL: tf.nn.sigmoid,
            task.REGRESSION: tf.identity,
        }[self._problem_type]
        return {
            "outputs": activation(outputs["logits"]),
            "losses": self._losses(features, outputs["logits"]),
        }
