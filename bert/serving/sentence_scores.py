"""Scores of sentences by a pre-trained model.

Source: Salazar et al. 2020, "Masked Language Model Scoring", section 2.1.
"""

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from bert.files import messages
from bert.models import description as description_lib
from bert.models import folder as folder_lib
from bert.serving import loading
from bert.tasks import needs
from modeling import checkpoints, heads

_MASK = "[MASK]"
_HEAD = "cls/predictions/output_bias"
_CAUSAL = "causal"
# A batch of them: the logits of a left-to-right model take 500 MB.
_BATCH_TOKENS = 4096
_IDS = tf.TensorSpec([None, None], tf.int32)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Score:
    """The score of a text.

    Attributes:
        score: in nats, the sum of the log-probabilities of its word pieces. A
            masked language model predicts each from the text in which that
            piece alone is masked; a left-to-right model from those before it.
        num_pieces: the number of word pieces, without [CLS] and [SEP].
    """

    score: float
    num_pieces: int

    @property
    def pseudo_perplexity(self) -> float:
        """`exp(-score / num_pieces)`: the perplexity, if left to right."""
        return math.exp(-self.score / self.num_pieces)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Batch:
    """Rows of several texts.

    Attributes:
        texts: `[R]` int, the index of the text of a row.
        input_ids, input_mask: `[R, T]` int32.
        positions, targets: `[R, P]` int32, the predicted positions and ids.
        weights: `[R, P]` float32, 0 for a prediction that does not count.
    """

    texts: np.ndarray
    input_ids: np.ndarray
    input_mask: np.ndarray
    positions: np.ndarray
    targets: np.ndarray
    weights: np.ndarray


class Scorer:
    """Scores texts.

    Args:
        folder: of the model, see `ModelFolder.open`.

    Raises:
        OSError: a file cannot be read.
        ValueError: the model has no output layer for words, or the folder does
            not state what is needed.
    """

    def __init__(self, folder: str):
        model = folder_lib.ModelFolder.open(folder)
        checkpoint = model.find_checkpoint()
        config, vocab_file = needs.files(model)
        with checkpoints.opened(checkpoint) as source:
            variables = dict(source.variables)
        if _HEAD not in variables:
            raise ValueError(
                f"{checkpoint} has no output layer for masked words, and so "
                "gives words no probabilities. Pass a pre-trained model."
            )
        description = dataclasses.replace(
            model.description, task=description_lib.PRETRAINING
        )
        needs.check_answerable(model, description, variables)
        self._tokenizer = loading.open_tokenizer(
            vocab_file, description, config
        )
        self.is_causal = description.attention == _CAUSAL
        self._tokenizer.require_tokens(_MASK)
        (self._mask_id,) = self._tokenizer.convert_tokens_to_ids([_MASK])
        self._max_length = config.max_position_embeddings
        make = functools.partial(
            heads.BertForPreTraining,
            objective="ltr" if self.is_causal else "mlm",
            dtype="float32",
        )
        network = loading.load_network(make, config, checkpoint)
        # A graph of all shapes is three times as fast as single operations.
        self._losses = tf.function(
            lambda *ids: network(*ids)["masked_lm_losses"],
            input_signature=[_IDS] * 5,
            autograph=False,
        )

    def encode(self, text: str) -> list[int]:
        """Returns the ids of [CLS], the word pieces of a text and [SEP].

        Raises:
            ValueError: there is no word piece, or more than the model knows
                positions for.
        """
        pieces = self._tokenizer.tokenize(text)
        if not pieces:
            raise ValueError(
                f"The text has no word piece; got {messages.short(text)}."
            )
        tokens = ["[CLS]", *pieces, "[SEP]"]
        if len(tokens) > self._max_length:
            raise ValueError(
                f"The text has {len(pieces):,} word pieces, and the model at "
                f"most {self._max_length - 2:,}; got {messages.short(text)}. "
                "Score its sentences one by one."
            )
        return self._tokenizer.convert_tokens_to_ids(tokens)

    def score(self, texts: Sequence[Sequence[int]]) -> list[Score]:
        """Scores encoded texts, which share batches by their length."""
        sums = np.zeros(len(texts))
        for batch in self._batches(texts):
            losses = self._losses(
                tf.constant(batch.input_ids),
                tf.constant(batch.input_mask),
                tf.zeros_like(batch.input_ids),
                tf.constant(batch.positions),
                tf.constant(batch.targets),
            )
            # [R, P]
            parts = (losses.numpy() * batch.weights).sum(
                axis=1, dtype=np.float64
            )
            np.subtract.at(sums, batch.texts, parts)
        return [
            Score(score=float(total), num_pieces=len(ids) - 2)
            for total, ids in zip(sums, texts, strict=True)
        ]

    def _batches(self, texts: Sequence[Sequence[int]]) -> Iterator[_Batch]:
        """Yields the rows of texts, the longest first.

        A left-to-right model has a row for each text, a masked language model
        one for each word piece of it.
        """
        lengths = np.array([len(ids) for ids in texts], np.int64)  # [N]
        order = np.argsort(-lengths, kind="stable")
        counts = np.ones_like(lengths) if self.is_causal else lengths - 2
        rows = np.repeat(order, counts[order])
        masked = np.concatenate(
            [np.arange(counts[i], dtype=np.int32) + 1 for i in order]
        )
        start = 0
        while start < len(rows):
            longest = lengths[rows[start]]
            end = start + max(1, _BATCH_TOKENS // longest)
            of_text = rows[start:end]
            ids = np.zeros((len(of_text), longest), np.int32)
            for row, text in zip(ids, of_text, strict=True):
                row[: lengths[text]] = texts[text]
            places = np.arange(longest)  # [T]
            mask = places < lengths[of_text, np.newaxis]
            if self.is_causal:
                # The last token is [SEP], which is no part of the text.
                positions = np.tile(places[:-2], (len(ids), 1))
                targets = ids[:, 1:-1].copy()
                weights = mask[:, 2:]
            else:
                positions = masked[start:end, np.newaxis]
                targets = np.take_along_axis(ids, positions, axis=1)
                weights = np.ones_like(targets)
                np.put_along_axis(ids, positions, self._mask_id, axis=1)
            yield _Batch(
                texts=of_text,
                input_ids=ids,
                input_mask=mask.astype(np.int32),
                positions=positions.astype(np.int32),
                targets=targets,
                weights=weights.astype(np.float32),
            )
            start = end
