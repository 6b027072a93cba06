"""Choices among several endings asked of a model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bert.models import description as description_lib
from bert.tasks import asking, sentence_pairs
from bert.tasks.classification import predictions
from bert.tasks.multiple_choice import swag
from modeling import config as config_lib

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from vocab import graph_tokenizer

_LEAST_ENDINGS = 2


class MultipleChoice(asking.Asking[None]):
    """Two texts and endings; the answer is the most probable ending."""

    kind = description_lib.MULTIPLE_CHOICE
    id_rank = 3
    fields = ("first", "second", "endings")

    def __init__(self, model: asking.ServedModel):
        super().__init__(model)
        self.truncation = model.stated(sentence_pairs.Truncation)
        model.config.check_segments([1])

    @property
    def form(self) -> str:
        return f"{super().form}{sentence_pairs.SEPARATOR}..."

    def make_network(self, config: config_lib.BertConfig) -> "keras.Model":
        from modeling import heads

        return heads.BertForMultipleChoice(config, dtype=asking.DTYPE)

    def outputs(self, network: "keras.Model") -> asking.Compute:
        """Returns `probabilities` `[R, C]`."""
        import tensorflow as tf

        def compute(
            input_ids: "tf.Tensor",
            input_mask: "tf.Tensor",
            segment_ids: "tf.Tensor",
        ) -> "dict[str, tf.Tensor]":
            logits = network(input_ids, input_mask, segment_ids)["logits"]
            return {"probabilities": tf.nn.softmax(logits)}

        return compute

    def _split(self, line: str) -> list[Any]:
        first, *others = line.split(sentence_pairs.SEPARATOR)
        if len(others) < 1 + _LEAST_ENDINGS:
            return []
        return [first, others[0], others[1:]]

    def _checked(self, name: str, value: object) -> object:
        if name != "endings":
            return super()._checked(name, value)
        if not isinstance(value, list) or len(value) < _LEAST_ENDINGS:
            raise ValueError(f"{name!r} must be a list of two texts or more.")
        return [super(MultipleChoice, self)._checked(name, x) for x in value]

    def encode(
        self,
        example: asking.Example,
        counts: sentence_pairs.TruncationCounts,
    ) -> list[asking.Row[None]]:
        record = swag.example_record(
            swag.Example(**example),
            self.truncation,
            self.model.tokenizer,
            counts,
        )
        return [asking.Row.of(record, None)]

    def decode(
        self,
        example: asking.Example,
        rows: Sequence[asking.Row[None]],
        outputs: asking.Outputs,
    ) -> asking.Answer:
        probabilities = outputs[0]["probabilities"]
        best = int(np.argmax(probabilities))
        return {
            "choice": best,
            "ending": example["endings"][best],
            "probabilities": list(map(predictions.shortest, probabilities)),
        }

    def lines(
        self, example: asking.Example, answer: asking.Answer
    ) -> list[str]:
        return asking.ranked(
            zip(example["endings"], answer["probabilities"], strict=True)
        )

    def signatures(
        self,
        compute: asking.Compute,
        tokenizer: "graph_tokenizer.GraphTokenizer",
    ) -> asking.Signatures:
        from bert.tasks.multiple_choice import signature

        return signature.make(self, compute, tokenizer)
