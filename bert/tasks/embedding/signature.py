"""Signatures of an exported encoder: a text, a pair, ids."""

import tensorflow as tf

from bert.tasks import asking, signatures, token_rows
from bert.tasks.embedding import asking as embedding
from bert.tasks.embedding import pooling
from vocab import graph_tokenizer


def of_sentence_encoder(
    model: embedding.Encoder,
    compute: asking.Compute,
    tokenizer: graph_tokenizer.GraphTokenizer,
) -> asking.Signatures:
    """Makes those of a sentence encoder; see `asking.Asking.signatures`."""
    truncation = model.truncation
    signatures.check_one_row(truncation)

    def embed(texts: tf.Tensor) -> signatures.Tensors:
        tokens = tokenizer.tokenize(texts)
        rows = token_rows.fit(tokens, tokens[:, :0], truncation, tokenizer)
        return compute(**rows)

    @signatures.text_signature(text_a=signatures.TEXTS)
    def single(text_a: tf.Tensor) -> signatures.Tensors:
        return embed(text_a)

    @signatures.text_signature(text_a=signatures.TEXTS, text_b=signatures.TEXTS)
    def pairs(text_a: tf.Tensor, text_b: tf.Tensor) -> signatures.Tensors:
        first, second = (embed(text)["embedding"] for text in (text_a, text_b))
        similarity = pooling.similarity(first, second, model.similarity)
        return {"similarity": similarity}

    return {
        signatures.DEFAULT: single,
        signatures.PAIRS: pairs,
        signatures.IDS: signatures.of_ids(compute, model),
    }


def of_encoder(
    model: embedding.Encoder,
    compute: asking.Compute,
    tokenizer: graph_tokenizer.GraphTokenizer,
) -> asking.Signatures:
    """Makes those of another encoder; see `asking.Asking.signatures`."""
    tokens_by_id = model.model.tokenizer.inv_vocab
    names = tf.constant(
        [
            tokens_by_id.get(i, f"[id {i}]")
            for i in range(model.model.config.vocab_size)
        ]
    )

    def answer(**rows: tf.Tensor) -> dict[str, tf.Tensor]:
        outputs = dict(compute(**rows))
        is_token = tf.cast(rows["input_mask"] > 0, tf.float32)
        is_token = is_token[..., tf.newaxis]  # [B, T, 1]
        # Values at padding are 0.
        layers = outputs["layers"] * is_token[..., tf.newaxis]
        sums = tf.reduce_sum(layers, axis=1)  # [B, L, D]
        counts = tf.reduce_sum(is_token, axis=1)[..., tf.newaxis]  # [B, 1, 1]
        return {
            **outputs,
            "input_mask": rows["input_mask"],
            "layers": layers,  # [B, T, L, D]
            "sequence_output": outputs["sequence_output"] * is_token,
            "mean": tf.math.divide_no_nan(sums, counts),
        }

    def with_tokens(**rows: tf.Tensor) -> dict[str, tf.Tensor]:
        tokens = tf.gather(names, rows["input_ids"])
        tokens = tf.where(rows["input_mask"] > 0, tokens, "")
        return {"tokens": tokens, **answer(**rows)}

    return {
        **signatures.of_texts(
            with_tokens,
            tokenizer,
            model.truncation,
            num_segments=model.model.config.type_vocab_size,
        ),
        signatures.IDS: signatures.of_ids(answer, model),
    }
