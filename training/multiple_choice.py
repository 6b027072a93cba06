"""Which of several texts is right: records and objective."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

from modeling import losses, multiple_choice
from training import (
    input_pipeline,
    labelled_records,
    objectives,
    record_cache,
    records,
)

# What a pre-trained checkpoint lacks.
HEAD = ("cls/multiple_choice/output_weights",)


def record_features(
    num_choices: int, max_seq_length: int
) -> tuple[records.Feature, ...]:
    """Describes the records of choices: one sequence for each of them.

    Args:
        num_choices: C.
        max_seq_length: tokens of a sequence, T.
    """
    sequences = (num_choices, max_seq_length)
    return (
        records.Feature(name="input_ids", shape=sequences),
        records.Feature(name="input_mask", shape=sequences),
        records.Feature(name="segment_ids", shape=sequences),
        records.Feature(name="label_ids", shape=(1,)),
    )


def make_or_reuse(
    path: str,
    num_choices: int,
    text: Mapping[str, Any],
    made_from: Mapping[str, Any],
    examples: Callable[[], Iterable[Mapping[str, Any]]],
) -> labelled_records.LabelledRecords:
    """Writes the records of a file of choices, unless they are there already.

    Args:
        path: of the record file.
        num_choices: C.
        text: how text is read: `max_seq_length`, `vocab_size`,
            `vocab_sha256`, `do_lower_case`.
        made_from: what else the records depend on, values as JSON has them.
        examples: yields the values of each example by name.

    Raises:
        ValueError: there is no example, or one cannot be read.
    """
    features = record_features(num_choices, text["max_seq_length"])
    cached = record_cache.make_or_reuse(
        path,
        features,
        records.Metadata(
            kind="multiple choice", num_records=0, flags=made_from, **text
        ),
        lambda: ([example] for example in examples()),
    )
    label_ids = record_cache.values(cached.files, features[-1])  # [E, 1]
    return labelled_records.LabelledRecords(
        source=input_pipeline.RecordSource(
            files=cached.files,
            features=features,
            vocab_size=text["vocab_size"],
        ),
        rows_per_example=cached.rows_per_example,
        label_ids=label_ids[:, 0],
    )


class MultipleChoice:
    """The right one of several texts.

    Source: Devlin et al. 2019, §4.4: a softmax over the scores of the choices.
    Features: `input_ids`, `input_mask` and `segment_ids`, `[B, C, T]` int32,
    and `label_ids`, `[B, 1]` int32 in [0, C).

    Args:
        model: the encoder with its scores.
    """

    def __init__(self, model: multiple_choice.BertForMultipleChoice):
        self.model = model

    def denominators(
        self, features: objectives.Features
    ) -> dict[str, tf.Tensor]:
        weights = objectives.example_weights(features)
        return {"loss": tf.reduce_sum(weights)}

    def outcome(
        self,
        features: objectives.Features,
        denominators: Mapping[str, tf.Tensor],
        dropout_seed: tf.Tensor | None,
    ) -> objectives.Outcome:
        logits, row_losses = self._rows(features, dropout_seed)
        weights = objectives.example_weights(features)
        total, _ = objectives.weighted(row_losses, weights)
        correct = objectives.correct(logits, features["label_ids"][:, 0])
        return objectives.Outcome(
            losses={"loss": total / denominators["loss"]},
            metrics={"accuracy": objectives.weighted(correct, weights)},
        )

    def predictions(
        self, features: objectives.Features
    ) -> dict[str, tf.Tensor]:
        """Scores the choices of each row.

        Returns:
            `outputs` `[B, C]` float32, probabilities, and `losses` `[B]`
            float32.
        """
        logits, row_losses = self._rows(features, None)
        return {"outputs": tf.nn.softmax(logits), "losses": row_losses}

    def _rows(self, features, dropout_seed):
        logits = self.model(
            input_ids=features["input_ids"],
            input_mask=features["input_mask"],
            segment_ids=features["segment_ids"],
            dropout_seed=dropout_seed,
        )["logits"]
        labels = features["label_ids"][:, 0]  # [B]
        return logits, losses.cross_entropy(logits, labels)
