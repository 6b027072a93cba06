"""Texts asked of an encoder: embeddings, similarities, hidden layers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bert.models import sentence_encoder as sentence_encoder_lib
from bert.tasks import asking, sentence_pairs
from bert.tasks.embedding import text_vectors
from modeling import config as config_lib

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from vocab import graph_tokenizer

_POOLER = "bert/pooler/dense/kernel"
_NUMBERS_SHOWN = 5  # Elements of an embedding.


class Encoder(asking.Asking[None]):
    """A text or a pair; the answer is an embedding or a similarity.

    Only a sentence encoder is asked; the encoder of any model is exported.
    """

    kind = "embedding"
    fields = ("text_a", "text_b")
    num_needed = 1

    def __init__(self, model: asking.ServedModel):
        super().__init__(model)
        self.truncation = model.stated(sentence_pairs.Truncation)
        text_vectors.check_layers(model.layers, model.config.num_hidden_layers)

    @property
    def similarity(self) -> str:
        """The similarity of two embeddings: cosine if no file states one."""
        encoder = self.model.sentence_encoder
        return encoder.similarity if encoder else sentence_encoder_lib.COSINE

    def make_network(self, config: config_lib.BertConfig) -> "keras.Model":
        from modeling import bert

        return bert.BertModel(config, dtype=asking.DTYPE)

    def outputs(
        self, network: "keras.Model", rows: asking.Tensors
    ) -> asking.Tensors:
        """Returns the vectors of rows.

        They are of a sentence encoder `embedding` `[R, D]`; of another encoder
        `sequence_output` `[R, T, D]`, the chosen `layers` `[R, T, L, D]` and,
        if the model has it, `pooled_output` `[R, D]`.
        """
        import tensorflow as tf

        from bert.tasks.embedding import pooling

        model, outputs = self.model, network(**rows)
        if model.sentence_encoder is not None:
            hidden = outputs["sequence_output"]
            embedding = pooling.embed(
                hidden, rows["input_mask"], model.sentence_encoder
            )
            return {"embedding": embedding}
        every = outputs["all_encoder_layers"]
        vectors = {
            "sequence_output": outputs["sequence_output"],
            "layers": tf.stack([every[i] for i in model.layers], axis=2),
        }
        if _POOLER in model.variables:
            vectors["pooled_output"] = outputs["pooled_output"]
        return vectors

    def encode(
        self,
        example: asking.Example,
        counts: sentence_pairs.TruncationCounts,
    ) -> list[asking.Row[None]]:
        # Each text has a row of its own.
        tokenizer = self.model.tokenizer
        texts = [tokenizer.tokenize(text) for text in example.values()]
        rows = sentence_pairs.encode(
            [(text, []) for text in texts], self.truncation, tokenizer, counts
        )
        return [asking.Row.of(row, None) for row in rows]

    def decode(
        self,
        example: asking.Example,
        rows: Sequence[asking.Row[None]],
        outputs: asking.Outputs,
    ) -> asking.Answer:
        from bert.tasks.embedding import pooling

        first, *second = (output["embedding"] for output in outputs)
        if not second:
            return {"embedding": list(map(asking.shortest, first))}
        similarity = pooling.similarity(first, second[0], self.similarity)
        return {"similarity": asking.shortest(similarity.numpy())}

    def lines(
        self, example: asking.Example, answer: asking.Answer
    ) -> list[str]:
        if "similarity" in answer:
            return asking.ranked([("", answer["similarity"])])
        numbers = answer["embedding"]
        first = " ".join(f"{number:.4f}" for number in numbers[:_NUMBERS_SHOWN])
        return [f"  {len(numbers)} numbers: {first} ..."]

    def signatures(
        self,
        compute: asking.Compute,
        tokenizer: "graph_tokenizer.GraphTokenizer",
    ) -> asking.Signatures:
        if self.model.sentence_encoder is not None:
            return self._embeddings(compute, tokenizer)
        return self._vectors(compute, tokenizer)

    def _embeddings(
        self,
        compute: asking.Compute,
        tokenizer: "graph_tokenizer.GraphTokenizer",
    ) -> asking.Signatures:
        """Makes the signatures of a sentence encoder."""
        from bert.tasks import signatures, token_rows
        from bert.tasks.embedding import pooling

        signatures.check_one_row(self.truncation)

        def embed(texts: "tf.Tensor") -> asking.Tensors:
            tokens = tokenizer.tokenize(texts)
            return compute(
                **token_rows.fit(
                    tokens, tokens[:, :0], self.truncation, tokenizer
                )
            )

        @signatures.text_signature(text_a=signatures.TEXTS)
        def single(text_a: "tf.Tensor") -> asking.Tensors:
            return embed(text_a)

        @signatures.text_signature(
            text_a=signatures.TEXTS, text_b=signatures.TEXTS
        )
        def pairs(text_a: "tf.Tensor", text_b: "tf.Tensor") -> asking.Tensors:
            first, second = (embed(x)["embedding"] for x in (text_a, text_b))
            similarity = pooling.similarity(first, second, self.similarity)
            return {"similarity": similarity}

        return {
            signatures.DEFAULT: single,
            signatures.PAIRS: pairs,
            signatures.IDS: signatures.of_ids(compute, self),
        }

    def _vectors(
        self,
        compute: asking.Compute,
        tokenizer: "graph_tokenizer.GraphTokenizer",
    ) -> asking.Signatures:
        """Makes the signatures of another encoder."""
        import tensorflow as tf

        from bert.tasks import signatures

        tokens_by_id = self.model.tokenizer.inv_vocab
        names = tf.constant(
            [
                tokens_by_id.get(i, f"[id {i}]")
                for i in range(self.model.config.vocab_size)
            ]
        )

        def answer(**rows: "tf.Tensor") -> "dict[str, tf.Tensor]":
            outputs = dict(compute(**rows))
            is_token = tf.cast(rows["input_mask"] > 0, tf.float32)
            is_token = is_token[..., tf.newaxis]  # [B, T, 1]
            # Values at padding are 0.
            layers = outputs["layers"] * is_token[..., tf.newaxis]
            sums = tf.reduce_sum(layers, axis=1)  # [B, L, D]
            counts = tf.reduce_sum(is_token, axis=1)  # [B, 1]
            mean = tf.math.divide_no_nan(sums, counts[..., tf.newaxis])
            return {
                **outputs,
                "input_mask": rows["input_mask"],
                "layers": layers,  # [B, T, L, D]
                "sequence_output": outputs["sequence_output"] * is_token,
                "mean": mean,
            }

        def with_tokens(**rows: "tf.Tensor") -> "dict[str, tf.Tensor]":
            tokens = tf.gather(names, rows["input_ids"])
            tokens = tf.where(rows["input_mask"] > 0, tokens, "")
            return {"tokens": tokens, **answer(**rows)}

        return {
            **signatures.of_texts(
                with_tokens,
                tokenizer,
                self.truncation,
                num_segments=self.model.config.type_vocab_size,
            ),
            signatures.IDS: signatures.of_ids(answer, self),
        }
