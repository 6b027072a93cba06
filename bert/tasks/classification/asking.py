"""Texts and pairs asked of a classifier."""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bert.models import description as description_lib
from bert.tasks import asking, needs, sentence_pairs, task
from bert.tasks.classification import (
    class_labels,
    glue,
    predictions,
)
from modeling import config as config_lib

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from vocab import graph_tokenizer


def num_texts(description: description_lib.Description) -> int | None:
    """Returns the number of texts of an example, if it is stated."""
    if description.stated("text_b_column"):
        return 2
    if description.stated("text_a_column"):
        return 1
    info = glue.DATASETS.get(description.name or "")
    if info is None:
        return None
    return 1 if info.splits[task.TRAIN][0].layout.text_b is None else 2


class Classification(asking.Asking[None]):
    """A text or a pair; the answer is a label, several or a score."""

    kind = description_lib.CLASSIFICATION

    def __init__(self, model: asking.ServedModel):
        super().__init__(model)
        self.truncation = model.stated(sentence_pairs.Truncation)

    @functools.cached_property
    def num_texts(self) -> int | None:
        """The number of texts of an example, if the folder states it."""
        return num_texts(self.model.description)

    @property
    def fields(self) -> tuple[str, ...]:
        return ("text_a", "text_b")[: self.num_texts]

    @property
    def num_needed(self) -> int:
        return self.num_texts or 1

    @property
    def problem_type(self) -> str:
        """The kind of the outputs, one of `task.PROBLEM_TYPES`."""
        return self.model.description.problem_type or task.SINGLE_LABEL

    @property
    def label_set(self) -> class_labels.LabelSet:
        """The labels, in the order of the outputs."""
        names = self.model.description.labels or ()
        try:
            return class_labels.LabelSet(
                problem_type=self.problem_type, names=names
            )
        except ValueError as error:
            raise ValueError(f"{self.model.folder.path}: {error}") from error

    def make_network(self, config: config_lib.BertConfig) -> "keras.Model":
        from modeling import heads

        return heads.BertForSequenceClassification(
            config, num_labels=self.label_set.num_outputs, dtype=asking.DTYPE
        )

    def outputs(
        self, network: "keras.Model", rows: asking.Tensors
    ) -> asking.Tensors:
        """Returns `probabilities` `[R, K]`, or `score` `[R]`."""
        import tensorflow as tf

        activation = {
            task.SINGLE_LABEL: tf.nn.softmax,
            task.MULTI_LABEL: tf.nn.sigmoid,
        }.get(self.problem_type)

        logits = network(**rows)["logits"]
        if activation is not None:
            return {"probabilities": activation(logits)}
        score = logits[:, 0]
        if self.model.description.activation == needs.SIGMOID:
            score = tf.nn.sigmoid(score)
        return {"score": score}

    def encode(
        self,
        example: asking.Example,
        counts: sentence_pairs.TruncationCounts,
    ) -> list[asking.Row[None]]:
        tokenize = self.model.tokenizer.tokenize
        pair = tokenize(example["text_a"]), tokenize(example.get("text_b", ""))
        rows = sentence_pairs.encode(
            [pair], self.truncation, self.model.tokenizer, counts
        )
        return [asking.Row.of(row, None) for row in rows]

    def decode(
        self,
        example: asking.Example,
        rows: Sequence[asking.Row[None]],
        outputs: asking.Outputs,
    ) -> asking.Answer:
        values = [np.ravel(value) for o in outputs for value in o.values()]
        pooled = predictions.pool_windows(np.stack(values), [len(values)])
        return next(predictions.named_answers(self.label_set, pooled))

    def lines(
        self, example: asking.Example, answer: asking.Answer
    ) -> list[str]:
        if "score" in answer:
            return asking.ranked([("", answer["score"])])
        chosen = answer.get("labels", ())
        return asking.ranked(answer["probabilities"].items(), chosen)

    def signatures(
        self,
        compute: asking.Compute,
        tokenizer: "graph_tokenizer.GraphTokenizer",
    ) -> asking.Signatures:
        import tensorflow as tf

        from bert.tasks import signatures

        names = tf.constant(self.label_set.names, tf.string)  # [K]

        def answer(**rows: "tf.Tensor") -> asking.Tensors:
            outputs = compute(**rows)
            if "score" in outputs:
                return outputs
            probabilities = outputs["probabilities"]
            if self.problem_type == task.MULTI_LABEL:
                is_chosen = probabilities >= predictions.THRESHOLD
                return {"probabilities": probabilities, "is_chosen": is_chosen}
            label = tf.gather(names, tf.argmax(probabilities, axis=-1))
            return {"label": label, "probabilities": probabilities}

        return {
            **signatures.of_texts(
                answer,
                tokenizer,
                self.truncation,
                num_segments=self.model.config.type_vocab_size,
            ),
            signatures.IDS: signatures.of_ids(answer, self),
        }
