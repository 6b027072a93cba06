"""Masked words asked of a pre-trained model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bert.files import messages
from bert.models import description as description_lib
from bert.tasks import asking, sentence_pairs
from modeling import config as config_lib

if TYPE_CHECKING:
    import keras

    from vocab import graph_tokenizer

_MASK = "[MASK]"
_POSITIONS = "masked_lm_positions"
_OUTPUT_BIAS = "cls/predictions/output_bias"
_NUM_CANDIDATES = 5  # Words that a mask may stand for.


class MaskFilling(asking.Asking[None]):
    """A text or a pair with masks; the answer has the best words for each."""

    kind = description_lib.PRETRAINING
    fields = ("text",)

    def make_network(self, config: config_lib.BertConfig) -> "keras.Model":
        from modeling import heads

        if _OUTPUT_BIAS not in self.model.variables:
            raise ValueError(
                f"{self.model.checkpoint} has no output layer for masked "
                "words. extract_features.py writes its vectors."
            )
        # It reads single texts too.
        return heads.BertForPreTraining(
            config, objective="mlm", dtype=asking.DTYPE
        )

    def outputs(
        self, network: "keras.Model", rows: asking.Tensors
    ) -> asking.Tensors:
        """Returns the best words at `[R, P]` masks, best first.

        They are `ids` and `probabilities`, each `[R, P, 5]`.
        """
        import tensorflow as tf

        logits = network(**rows)["masked_lm_logits"]  # [R, P, V]
        most = min(_NUM_CANDIDATES, logits.shape[-1])
        # `top_k` puts the first in the vocabulary of equal ones first.
        values, ids = tf.math.top_k(tf.nn.softmax(logits), most)
        return {"ids": ids, "probabilities": values}

    def _split(self, line: str) -> list[Any]:
        return [line]

    def encode(
        self,
        example: asking.Example,
        counts: sentence_pairs.TruncationCounts,
    ) -> list[asking.Row[None]]:
        tokenizer = self.model.tokenizer

        def tokenize(part: str) -> list[str]:
            tokens = []
            for between in part.split(_MASK):
                tokens += [_MASK, *tokenizer.tokenize(between)]
            return tokens[1:]

        tokenizer.require_tokens(_MASK)
        tokens, segment_ids = sentence_pairs.tokenize_pair(
            example["text"],
            tokenize,
            # Masks are filled at all positions of the network.
            self.model.config.max_position_embeddings,
        )
        positions = [i for i, token in enumerate(tokens) if token == _MASK]
        if not positions:
            raise ValueError(
                f"The text must have a {_MASK}; got "
                f"{messages.short(example['text'])}."
            )
        record = {
            "input_ids": tokenizer.convert_tokens_to_ids(tokens),
            "input_mask": [1] * len(tokens),
            "segment_ids": segment_ids,
            _POSITIONS: positions,
        }
        return [asking.Row.of(record, None, _POSITIONS)]

    def decode(
        self,
        example: asking.Example,
        rows: Sequence[asking.Row[None]],
        outputs: asking.Outputs,
    ) -> asking.Answer:
        (row,), (output,) = rows, outputs
        names, masks = self.model.tokenizer.inv_vocab, []
        for place in range(len(row.ids[_POSITIONS])):
            ids = output["ids"][place].tolist()
            shares = map(asking.shortest, output["probabilities"][place])
            masks.append(
                [
                    {"token": names.get(i, f"[id {i}]"), "probability": share}
                    for i, share in zip(ids, shares, strict=True)
                ]
            )
        return {"masks": masks}

    def lines(
        self, example: asking.Example, answer: asking.Answer
    ) -> list[str]:
        rows = []
        for place, candidates in enumerate(answer["masks"], start=1):
            rows.append(f"  [MASK] {place}")
            rows += [
                f"    {candidate['probability']:8.4f}  {candidate['token']}"
                for candidate in candidates
            ]
        return rows

    def signatures(
        self,
        compute: asking.Compute,
        tokenizer: "graph_tokenizer.GraphTokenizer",
    ) -> asking.Signatures:
        # `tools.export_model` exports the encoder of a pre-trained model.
        raise ValueError("Masked words are not exported.")
