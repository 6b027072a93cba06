"""Choices among several endings asked of a model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bert.models import description as description_lib
from bert.tasks import asking, sentence_pairs
from bert.tasks.multiple_choice import swag
from modeling import config as config_lib

if TYPE_CHECKING:
    import keras

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

    def outputs(
        self, network: "keras.Model", rows: asking.Tensors
    ) -> asking.Tensors:
        """Returns `probabilities` `[R, C]`."""
        import tensorflow as tf

        return {"probabilities": tf.nn.softmax(network(**rows)["logits"])}

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
            "probabilities": list(map(asking.shortest, probabilities)),
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
        import tensorflow as tf

        from bert.tasks import signatures, token_rows

        def answer(**rows: tf.Tensor) -> dict[str, tf.Tensor]:
            probabilities = compute(**rows)["probabilities"]  # [B, C]
            best = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
            return {"choice": best, "probabilities": probabilities}

        # The texts of a choice are `first`, and `second` with an ending; the
        # longer one of a longer choice is truncated.
        @signatures.text_signature(
            first=signatures.TEXTS,
            second=signatures.TEXTS,
            endings=signatures.LISTS,
        )
        def choices(
            first: tf.Tensor, second: tf.Tensor, endings: tf.Tensor
        ) -> asking.Tensors:
            count = tf.shape(endings)[1]
            row = tf.repeat(tf.range(tf.size(first)), count)  # [B * C]
            tokens_a, begun = (
                tf.gather(tokenizer.tokenize(text), row)
                for text in (first, second)
            )
            # The same pieces as of both texts with a space between them.
            ended = tokenizer.tokenize(tf.reshape(endings, [-1]))
            tokens_b = tf.concat([begun, ended], axis=1)
            rows = token_rows.fit(
                tokens_a, tokens_b, self.truncation, tokenizer
            )
            shape = [-1, count, tf.shape(rows["input_ids"])[1]]
            chosen = answer(
                **{k: tf.reshape(v, shape) for k, v in rows.items()}
            )
            ending = tf.gather(endings, chosen["choice"], batch_dims=1)
            return {**chosen, "ending": ending}

        return {
            signatures.DEFAULT: choices,
            signatures.IDS: signatures.of_ids(answer, self),
        }
