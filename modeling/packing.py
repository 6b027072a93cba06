"""Packing: texts of a batch share rows, which then have little padding.

Source: Krell et al. 2021, "Efficient Sequence Packing without
Cross-contamination". A token attends only to its own text, so the outputs are
those of the padded batch. They are computed for fewer tokens.
"""

from keras import ops

from modeling.tensor_types import Tensor


class Packing:
    """The positions of the tokens of a batch in packed rows.

    Args:
        packed: `[R, T]` int32: for each position the index of its token in the
            `[B, T]` ids of the batch, as a flat array; -1 for padding.
        num_texts: B.

    Attributes:
        texts: `[R, T]` int32, the text of each position; -1 for padding.
        positions: `[R, T]` int32, the position of each token in its text.
        flat_positions: `[B, T]` int32, the position of each token in the flat
            rows; 0 for padding.
    """

    def __init__(self, packed: Tensor, num_texts: Tensor):
        length = packed.shape[1]
        is_token = packed >= 0
        self._tokens = ops.maximum(packed, 0)
        self.texts = ops.where(is_token, self._tokens // length, -1)
        self.positions = self._tokens % length
        # The positions, from 1, added to a zero for each token. All padding is
        # added up in one element more.
        size = num_texts * length
        index = ops.where(is_token, self._tokens, size)
        index = ops.reshape(index, (-1, 1))
        numbers = ops.arange(1, ops.shape(index)[0] + 1, dtype="int32")
        numbers = ops.scatter(index, numbers, (size + 1,))[:size]
        numbers = ops.reshape(numbers, (num_texts, length))
        self._is_text = numbers > 0
        self.flat_positions = ops.maximum(numbers - 1, 0)

    def packed(self, ids: Tensor) -> Tensor:
        """Packs `[B, T]` ids to `[R, T]`; padding has the first of them."""
        return ops.take(ops.reshape(ids, (-1,)), self._tokens)

    def unpacked(self, hidden: Tensor) -> Tensor:
        """Unpacks `[..., D]`, the flat rows, to `[B, T, D]`; 0 for padding."""
        rows = ops.reshape(hidden, (-1, hidden.shape[-1]))
        taken = ops.take(rows, self.flat_positions, axis=0)
        return ops.where(self._is_text[..., None], taken, 0)
