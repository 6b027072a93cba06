"""Masked sentence pairs as places in a corpus, and the arrays of records.

An instance takes about 200 bytes; its tokens are looked up when it is written.
"""

import array
import random

import numpy as np

from tasks.masked_lm import draws, masking, pretraining_text

_BATCH_INSTANCES = 512
_NUM_COLUMNS = 6


class Instances:
    """Masked sentence pairs, `[CLS] A [SEP] B [SEP]`, in an order.

    Args:
        corpus: where A and B come from.
        vocabulary: of the corpus.
        max_seq_length: T, tokens of a record.
        max_predictions_per_seq: P, places to predict in a record.
    """

    def __init__(
        self,
        *,
        corpus: pretraining_text.Corpus,
        vocabulary: pretraining_text.Vocabulary,
        max_seq_length: int,
        max_predictions_per_seq: int,
    ):
        self._corpus = corpus
        self._vocabulary = vocabulary
        self._max_seq_length = max_seq_length
        self._max_predictions = max_predictions_per_seq
        # For each instance begin and end of A and of B in the corpus, whether
        # the next is random, and the end of its masked places.
        self._rows = array.array("q")
        self._places = array.array("i")
        self._replacements = array.array("i")
        self._order = array.array("q")

    def __len__(self) -> int:
        return len(self._order)

    def append(
        self,
        spans: tuple[int, int, int, int, bool],
        places: list[int],
        replacements: list[int],
    ) -> None:
        """Adds an instance.

        Args:
            spans: begin and end of A, of B, and whether the next is random.
            places: the tokens to predict, in any order, counted from the first
                of A through to the last of B.
            replacements: as from `masking.draw_replacements`, one for each.
        """
        self._places.fromlist(places)
        self._replacements.fromlist(replacements)
        self._rows.fromlist([*spans, len(self._places)])
        self._order.append(len(self._order))

    def shuffle(self, rng: random.Random) -> None:
        """Puts the instances in a random order."""
        draws.shuffle(self._order, rng)

    def num_random_next(self) -> int:
        """Counts the pairs whose second part is random."""
        return int(self._table()[:, 4].sum())

    def _table(self) -> np.ndarray:
        return np.frombuffer(self._rows, np.int64).reshape(-1, _NUM_COLUMNS)

    def batches(self):
        """Yields `features` of all instances in order, some at a time."""
        for start in range(0, len(self), _BATCH_INSTANCES):
            yield self.features(start, start + _BATCH_INSTANCES)

    def features(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Makes the arrays of `B` records, padded with zeros.

        As released: padding is id 0, whatever token the vocabulary has there.

        Args:
            start: the first instance.
            stop: one past the last; the end if there are fewer.

        Returns:
            `input_ids`, `input_mask`, `segment_ids`: `[B, T]` integers;
            `masked_lm_positions`, `masked_lm_ids`: `[B, P]` integers;
            `masked_lm_weights`: `[B, P]` float32; `next_sentence_labels`:
            `[B, 1]`, 1 for a random next.
        """
        order = np.array(self._order[start:stop], np.int64)  # [B]
        table = self._table()
        begin_a, end_a, begin_b, end_b, is_random_next, _ = table[order].T
        input_ids, input_mask, segment_ids = self._tokens(
            begin_a, end_a - begin_a, begin_b, end_b - begin_b
        )
        positions, replacements, weights = self._masked(table, order)
        is_masked = weights > 0  # [B, P]
        labels = np.take_along_axis(input_ids, positions, axis=1)
        labels = np.where(is_masked, labels, 0)  # [B, P]
        hidden = np.where(
            replacements == masking.MASK,
            self._vocabulary.mask_id,
            np.where(
                replacements == masking.SAME,
                labels,
                self._vocabulary.ids[replacements],
            ),
        )  # [B, P]
        rows, _ = np.nonzero(is_masked)
        input_ids[rows, positions[is_masked]] = hidden[is_masked]
        return {
            "input_ids": input_ids,
            "input_mask": input_mask,
            "segment_ids": segment_ids,
            "masked_lm_positions": positions,
            "masked_lm_ids": labels,
            "masked_lm_weights": weights,
            "next_sentence_labels": is_random_next[:, np.newaxis],
        }

    def _tokens(self, begin_a, length_a, begin_b, length_b):
        """Looks the tokens up, before masking.

        Args:
            begin_a, length_a, begin_b, length_b: `[B]` integers.

        Returns:
            `input_ids`, `input_mask`, `segment_ids`, each `[B, T]`.
        """
        column = np.arange(self._max_seq_length, dtype=np.int32)
        begin_a, length_a, begin_b, length_b = (
            values[:, np.newaxis]
            for values in (begin_a, length_a, begin_b, length_b)
        )  # [B, 1]
        first_sep = (length_a + 1).astype(np.int32)
        last_sep = (first_sep + length_b + 1).astype(np.int32)
        is_after_a = column > first_sep  # [B, T]
        is_token = column <= last_sep
        place = column + np.where(
            is_after_a, begin_b - first_sep - 1, begin_a - 1
        )  # [B, T]
        np.clip(place, 0, len(self._corpus.ids) - 1, out=place)
        input_ids = self._corpus.ids[place] * is_token
        input_ids[:, 0] = self._vocabulary.cls_id
        for sep in (first_sep, last_sep):
            np.put_along_axis(input_ids, sep, self._vocabulary.sep_id, axis=1)
        return (
            input_ids,
            is_token.view(np.uint8),
            (is_after_a & is_token).view(np.uint8),
        )

    def _masked(self, table: np.ndarray, order: np.ndarray):
        """Collects what was drawn to predict, in the order of places.

        Returns:
            `positions` and `replacements`, `[B, P]` int32; `weights`, `[B, P]`
            float32, 1 where there is a prediction.
        """
        end = table[order, 5]  # [B]
        begin = np.where(order > 0, table[order - 1, 5], 0)
        column = np.arange(self._max_predictions)
        is_masked = column < (end - begin)[:, np.newaxis]  # [B, P]
        source = np.where(is_masked, begin[:, np.newaxis] + column, 0)
        if not self._places:
            zeros = np.zeros(source.shape, np.int32)
            return zeros, zeros, zeros.astype(np.float32)
        places = np.frombuffer(self._places, np.int32)[source]
        length_a = table[order, 1] - table[order, 0]  # [B]
        # After [CLS], and those of B after the first [SEP] too.
        places = places + 1 + (places >= length_a[:, np.newaxis])
        replacements = np.frombuffer(self._replacements, np.int32)[source]
        places = np.where(is_masked, places, self._max_seq_length)
        by_place = np.argsort(places, axis=1)
        places = np.take_along_axis(places, by_place, axis=1)
        replacements = np.take_along_axis(replacements, by_place, axis=1)
        # There are no more predictions than places for them, so that those
        # sorted to the front are those counted.
        return (
            np.where(is_masked, places, 0),
            replacements,
            is_masked.astype(np.float32),
        )
