"""Objective of question answering."""

import tensorflow as tf

from bert.tasks import objectives
from modeling import losses

_NO_LOGIT = -1e30


class SpanExtraction(objectives.PerExample):
    """The start and the end of the answer to a question.

    Source: Devlin et al. 2019, §4.2 and §4.3. Features in addition to the
    model's inputs: `start_positions` and `end_positions`, `[B, 1]` int32, in
    training; `unique_ids`, `[B, 1]` int32.

    Args:
        model: returns `start_logits` and `end_logits`, `[B, T]`.
    """

    def row_losses(
        self, features: objectives.Tensors, outputs: objectives.Tensors
    ) -> tf.Tensor:
        logits = outputs["start_logits"], outputs["end_logits"]
        if objectives.PACKED in features:
            # A packed batch has no outputs for padding.
            is_token = features["input_mask"] > 0
            logits = tuple(tf.where(is_token, x, _NO_LOGIT) for x in logits)
        return losses.span_cross_entropy(
            logits,
            (
                features["start_positions"][:, 0],
                features["end_positions"][:, 0],
            ),
        )

    def predictions(self, features: objectives.Tensors) -> dict[str, tf.Tensor]:
        """Scores each position of each window.

        Returns:
            `unique_ids` `[B]` int32, `start_logits` and `end_logits` `[B, T]`
            float32.
        """
        outputs = self.outputs(features, None)
        return {"unique_ids": features["unique_ids"][:, 0], **outputs}
