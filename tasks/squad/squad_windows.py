"""Where the windows over a paragraph lie, in word pieces.

Source: behaviour of run_squad.py of google-research/bert, measured.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

NUM_SPECIAL_TOKENS = 3  # [CLS] question [SEP] part [SEP]


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowOptions:
    """How paragraphs are cut; lengths in word pieces.

    Args:
        max_seq_length: `T`, of a whole window.
        doc_stride: from the start of one window's part to the next one's.
        max_query_length: of a question; what is longer is cut off.

    Raises:
        ValueError: no room is left for the paragraph, or no way forward.
    """

    max_seq_length: int = 384  # Source: run_squad.py of the release.
    doc_stride: int = 128  # Source: the same.
    max_query_length: int = 64  # Source: the same.

    def __post_init__(self):
        if self.max_seq_length <= self.max_query_length + NUM_SPECIAL_TOKENS:
            raise ValueError(
                "max_seq_length must be greater than max_query_length + "
                f"{NUM_SPECIAL_TOKENS}, or a long question leaves no room "
                f"for the paragraph; got {self.max_seq_length} and "
                f"{self.max_query_length}."
            )
        if self.doc_stride < 1 or self.max_query_length < 0:
            raise ValueError(
                "doc_stride must be at least 1 and max_query_length at least "
                f"0; got {self.doc_stride} and {self.max_query_length}."
            )


def document_spans(
    num_pieces: int, max_pieces: int, doc_stride: int
) -> list[tuple[int, int]]:
    """Cuts a paragraph into overlapping parts: (first piece, length) each."""
    spans = []
    start = 0
    while start < num_pieces:
        length = min(num_pieces - start, max_pieces)
        spans.append((start, length))
        if start + length == num_pieces:
            break
        # As released: a stride past the end of the part is cut to its length.
        start += min(length, doc_stride)
    return spans


def max_context_spans(
    spans: Sequence[tuple[int, int]], num_pieces: int
) -> np.ndarray:
    """Finds the part that shows each piece with the most context.

    Context is what the part has on the poorer side, plus a hundredth of its
    length; of equals the first wins.

    Args:
        spans: (first piece, length) of every part.
        num_pieces: of the paragraph.

    Returns:
        `[num_pieces]` int32, indexes into `spans`; -1 where no part reaches.
    """
    best_span = np.full(num_pieces, -1, np.int32)
    best_score = np.full(num_pieces, -np.inf)
    for index, (start, length) in enumerate(spans):
        left = np.arange(length)
        score = np.minimum(left, length - 1 - left) + 0.01 * length
        here = slice(start, start + length)
        better = score > best_score[here]
        best_span[here][better] = index
        best_score[here][better] = score[better]
    return best_span
