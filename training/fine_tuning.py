"""What the tasks minimise: a label, a score or a choice, or an answer span."""

from collections.abc import Mapping

import keras
import tensorflow as tf

from modeling import losses
from training import objectives

SINGLE_LABEL = "single_label"
MULTI_LABEL = "multi_label"
REGRESSION = "regression"
PROBLEM_TYPES = (SINGLE_LABEL, MULTI_LABEL, REGRESSION)
# The output layers, which a pre-trained checkpoint lacks.
CLASSIFICATION_HEAD = ("output_weights", "output_bias")
CHOICE_HEAD = ("cls/multiple_choice/output_weights",)
SPAN_HEAD = ("cls/squad/output_weights", "cls/squad/output_bias")


class _PerExample:
    """What objectives share that count each example of a batch once.

    Args:
        model: the encoder with its output layer.
    """

    def __init__(self, model: keras.Model):
        self.model = model

    def denominators(
        self, features: objectives.Features
    ) -> dict[str, tf.Tensor]:
        weights = objectives.example_weights(features)
        return {"loss": tf.reduce_sum(weights)}

    def _outputs(self, features, dropout_seed):
        return self.model(
            input_ids=features["input_ids"],
            input_mask=features["input_mask"],
            segment_ids=features["segment_ids"],
            dropout_seed=dropout_seed,
        )


class Classification(_PerExample):
    """One label, several labels or a score for each example.

    Source: Devlin et al. 2019, §4.1. An example is a text or a pair; or, with a
    `modeling.multiple_choice.BertForMultipleChoice`, a set of choices, whose
    label is the place of the right one (§4.4: a softmax over their scores).
    Features beside the model's inputs: `label_ids`, `[B, 1]` int32 for a label,
    `[B, K]` float32 (each 0 or 1) for several, `[B, 1]` float32 for a score.

    Args:
        model: gives `logits` `[B, K]`.
        problem_type: "single_label", "multi_label" or "regression".
    """

    def __init__(self, model: keras.Model, problem_type: str):
        if problem_type not in PROBLEM_TYPES:
            raise ValueError(
                f"problem_type must be one of {', '.join(PROBLEM_TYPES)}; "
                f"got {problem_type!r}."
            )
        super().__init__(model)
        self._problem_type = problem_type

    def outcome(
        self,
        features: objectives.Features,
        denominators: Mapping[str, tf.Tensor],
        dropout_seed: tf.Tensor | None,
    ) -> objectives.Outcome:
        rows = self._rows(features, dropout_seed)
        weights = objectives.example_weights(features)
        total = objectives.weighted(rows["losses"], weights)
        metrics = {}
        if self._problem_type == SINGLE_LABEL:
            correct = objectives.correct(
                rows["logits"], features["label_ids"][:, 0]
            )
            metrics["accuracy"] = objectives.weighted(correct, weights)
        return objectives.Outcome(
            losses={"loss": total[0] / denominators["loss"]}, metrics=metrics
        )

    def predictions(
        self, features: objectives.Features
    ) -> dict[str, tf.Tensor]:
        """Scores each row.

        Returns:
            `outputs` `[B, K]` float32, probabilities or scores, and `losses`
            `[B]` float32.
        """
        rows = self._rows(features, None)
        activation = {
            SINGLE_LABEL: tf.nn.softmax,
            MULTI_LABEL: tf.nn.sigmoid,
            REGRESSION: tf.identity,
        }[self._problem_type]
        return {
            "outputs": activation(rows["logits"]),
            "losses": rows["losses"],
        }

    def _rows(self, features, dropout_seed):
        logits = self._outputs(features, dropout_seed)["logits"]
        labels = features["label_ids"]
        if self._problem_type == SINGLE_LABEL:
            row_losses = losses.cross_entropy(logits, labels[:, 0])
        elif self._problem_type == REGRESSION:
            row_losses = tf.square(logits[:, 0] - labels[:, 0])
        else:
            row_losses = tf.reduce_mean(
                tf.nn.sigmoid_cross_entropy_with_logits(
                    labels=labels, logits=logits
                ),
                axis=-1,
            )
        return {"logits": logits, "losses": row_losses}


class SpanExtraction(_PerExample):
    """Where the answer to a question starts and ends.

    Source: Devlin et al. 2019, §4.2 and §4.3. Features beside the model's
    inputs: `start_positions` and `end_positions`, `[B, 1]` int32, in training;
    `unique_ids`, `[B, 1]` int32.

    Args:
        model: gives `start_logits` and `end_logits`, `[B, T]`.
    """

    def outcome(
        self,
        features: objectives.Features,
        denominators: Mapping[str, tf.Tensor],
        dropout_seed: tf.Tensor | None,
    ) -> objectives.Outcome:
        outputs = self._outputs(features, dropout_seed)
        loss = losses.span_loss(
            (outputs["start_logits"], outputs["end_logits"]),
            (
                features["start_positions"][:, 0],
                features["end_positions"][:, 0],
            ),
            objectives.example_weights(features),
            denominators["loss"],
        )
        return objectives.Outcome(losses={"loss": loss}, metrics={})

    def predictions(
        self, features: objectives.Features
    ) -> dict[str, tf.Tensor]:
        """Scores each place of each window.

        Returns:
            `unique_ids` `[B]` int32, `start_logits` and `end_logits` `[B, T]`
            float32.
        """
        outputs = self._outputs(features, None)
        return {"unique_ids": features["unique_ids"][:, 0], **outputs}
