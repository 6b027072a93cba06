"""Signatures of an exported model of multiple choice: texts, ids."""

import tensorflow as tf

from bert.tasks import asking, signatures, token_rows
from bert.tasks.multiple_choice import asking as multiple_choice
from vocab import graph_tokenizer


def make(
    model: multiple_choice.MultipleChoice,
    compute: asking.Compute,
    tokenizer: graph_tokenizer.GraphTokenizer,
) -> asking.Signatures:
    """Makes the signatures; see `asking.Asking.signatures`."""

    def answer(**rows: tf.Tensor) -> dict[str, tf.Tensor]:
        probabilities = compute(**rows)["probabilities"]  # [B, C]
        best = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        return {"choice": best, "probabilities": probabilities}

    # The texts of a choice are `first`, and `second` with an ending; the longer
    # one of a longer choice is truncated.
    @signatures.text_signature(
        first=signatures.TEXTS,
        second=signatures.TEXTS,
        endings=signatures.LISTS,
    )
    def choices(
        first: tf.Tensor, second: tf.Tensor, endings: tf.Tensor
    ) -> signatures.Tensors:
        count = tf.shape(endings)[1]
        row = tf.repeat(tf.range(tf.size(first)), count)  # [B * C]
        tokens_a, begun = (
            tf.gather(tokenizer.tokenize(text), row) for text in (first, second)
        )
        # The same pieces as of both texts with a space between them.
        ended = tokenizer.tokenize(tf.reshape(endings, [-1]))
        tokens_b = tf.concat([begun, ended], axis=1)
        rows = token_rows.fit(tokens_a, tokens_b, model.truncation, tokenizer)
        shape = [-1, count, tf.shape(rows["input_ids"])[1]]
        chosen = answer(**{k: tf.reshape(v, shape) for k, v in rows.items()})
        ending = tf.gather(endings, chosen["choice"], batch_dims=1)
        return {**chosen, "ending": ending}

    return {
        signatures.DEFAULT: choices,
        signatures.IDS: signatures.of_ids(answer, model),
    }
