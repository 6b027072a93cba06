"""Sentences and sentence pairs as model input: [CLS] A [SEP] B [SEP].

Source: Devlin et al. 2019, section 3 ("Input/Output Representations").
"""

import dataclasses
from collections.abc import Callable, Sequence

from absl import logging

from bert.files import messages
from vocab import tokenization

HEAD, HEAD_TAIL, WINDOWS = "head", "head_tail", "windows"
LONG_TEXT = (HEAD, HEAD_TAIL, WINDOWS)

SEPARATOR = " ||| "  # of the two texts in one line.

# Source: Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?",
# section 5.3: of 510 tokens, the first 128 and the last 382.
HEAD_TOKENS, HEAD_TAIL_TOKENS = 128, 510


@dataclasses.dataclass(frozen=True, kw_only=True)
class Truncation:
    """Options for fitting texts into `T` tokens.

    Args:
        max_seq_length: `T`.
        long_text: the part of a long text that is kept: `head` (as released),
            `head_tail`, or all of it, in `windows` that overlap by half.

    Raises:
        ValueError: `max_seq_length` leaves no room for a token, or `long_text`
            is none of these.
    """

    max_seq_length: int
    long_text: str = HEAD

    def __post_init__(self) -> None:
        messages.check_choice("long_text", self.long_text, LONG_TEXT)
        # A pair takes three special tokens; a window needs one more.
        least = 4 if self.long_text == WINDOWS else 3
        if self.max_seq_length < least:
            raise ValueError(
                f"max_seq_length must be at least {least} for long_text "
                f"{self.long_text}; got {self.max_seq_length}."
            )


def truncated_lengths(
    len_a: int, len_b: int, max_length: int
) -> tuple[int, int]:
    """Returns the lengths of two texts after the longer one is truncated.

    This is the rule of fine-tuning; pre-training truncates either end at
    random.
    As released: on a tie the second text is shortened.

    Example:
        >>> truncated_lengths(9, 3, max_length=8)  # A is the longer text.
        (5, 3)
        >>> truncated_lengths(9, 7, max_length=8)
        (4, 4)
        >>> truncated_lengths(9, 7, max_length=7)
        (4, 3)
    """
    # A text of at most half of the tokens is kept.
    kept_a = min(len_a, max(max_length - len_b, (max_length + 1) // 2))
    return kept_a, min(len_b, max_length - kept_a)


def join(
    tokens_a: Sequence[str], tokens_b: Sequence[str]
) -> tuple[list[str], list[int]]:
    """Returns tokens and segment ids; no second part if B is empty."""
    tokens = ["[CLS]", *tokens_a, "[SEP]"]
    segment_ids = [0] * len(tokens)
    if tokens_b:
        tokens += [*tokens_b, "[SEP]"]
        segment_ids += [1] * (len(tokens_b) + 1)
    return tokens, segment_ids


def split_pair(line: str) -> tuple[str, str]:
    """Splits a line into its two texts; the second is "" without a separator.

    As released: white space at the ends is removed first; only the last ` ||| `
    with a space on each side separates.
    """
    line = line.strip()
    first, separator, second = line.rpartition(SEPARATOR)
    return (first, second) if separator else (line, "")


def tokenize_pair(
    text: str, tokenize: Callable[[str], list[str]], max_length: int
) -> tuple[list[str], list[int]]:
    """Returns the tokens and segment ids of a text or a pair.

    Args:
        text: one text or `A ||| B`, split at the last separator, as released.
        tokenize: splits each of the two into tokens.
        max_length: maximum number of tokens, including [CLS] and [SEP].

    Raises:
        ValueError: the text is too long.
    """
    tokens, segment_ids = join(*map(tokenize, split_pair(text)))
    if len(tokens) > max_length:
        raise ValueError(
            f"The text must have at most {max_length} word pieces with [CLS] "
            f"and [SEP]; got {len(tokens)}: {text[:60]!r}... Shorten it."
        )
    return tokens, segment_ids


def fit(
    tokens_a: Sequence[str], tokens_b: Sequence[str], truncation: Truncation
) -> list[tuple[list[str], list[str]]]:
    """Fits one text or a pair into the available tokens.

    Returns:
        The pairs to be read: one, or several with `windows`; B is always
        empty for a single text.
    """
    num_special = 3 if tokens_b else 2
    budget = truncation.max_seq_length - num_special
    if truncation.long_text == WINDOWS:
        return _windows(tokens_a, tokens_b, budget)
    len_a, len_b = truncated_lengths(len(tokens_a), len(tokens_b), budget)
    if truncation.long_text == HEAD:
        return [(list(tokens_a[:len_a]), list(tokens_b[:len_b]))]
    return [(_head_tail(tokens_a, len_a), _head_tail(tokens_b, len_b))]


def _head_tail(tokens: Sequence[str], length: int) -> list[str]:
    if len(tokens) <= length:
        return list(tokens)
    head = length * HEAD_TOKENS // HEAD_TAIL_TOKENS
    return [*tokens[:head], *tokens[len(tokens) - (length - head) :]]


def _windows(
    tokens_a: Sequence[str], tokens_b: Sequence[str], budget: int
) -> list[tuple[list[str], list[str]]]:
    """Moves a window over the longer text, with the complete shorter one.

    The shorter gets at most half of the tokens; on a tie the window moves over
    the second text, as in truncation.
    """
    slide_a = len(tokens_a) > len(tokens_b)
    longer, shorter = (tokens_a, tokens_b) if slide_a else (tokens_b, tokens_a)
    fixed = list(shorter[: budget // 2])
    size = budget - len(fixed)
    step = max(1, size // 2)
    starts = range(0, max(1, len(longer) - size + step), step)
    parts = [list(longer[start : start + size]) for start in starts]
    return [(p, fixed) if slide_a else (fixed, p) for p in parts]


def padded(
    input_ids: Sequence[int], segment_ids: Sequence[int], length: int
) -> dict[str, list[int]]:
    """Pads the ids of a sequence with zeros.

    As released: the padding id is 0, whatever the id of [PAD] is.

    Returns:
        `input_ids`, `input_mask` and `segment_ids`, `[length]` each.
    """
    padding = [0] * (length - len(input_ids))
    return {
        "input_ids": [*input_ids, *padding],
        "input_mask": [1] * len(input_ids) + padding,
        "segment_ids": [*segment_ids, *padding],
    }


@dataclasses.dataclass
class TruncationCounts:
    """Counts of the word pieces of a data set that do not fit its sequences."""

    num_examples: int = 0
    num_cut: int = 0
    num_pieces: int = 0
    num_dropped: int = 0

    def add(self, num_pieces: int, num_dropped: int) -> None:
        """Counts an example."""
        self.num_examples += 1
        self.num_cut += num_dropped > 0
        self.num_pieces += num_pieces
        self.num_dropped += num_dropped

    def log(self, name: str, max_seq_length: int, flags: str) -> None:
        """Warns of the cut examples of a data set, if any."""
        if self.num_cut:
            logging.warning(
                "%s: %d of %d examples are longer than %d word pieces and are "
                "cut: %d of %d pieces (%.1f%%) are dropped. See %s",
                *(name, self.num_cut, self.num_examples, max_seq_length),
                *(self.num_dropped, self.num_pieces),
                *(100 * self.num_dropped / self.num_pieces, flags),
            )


def encode(
    pairs: Sequence[tuple[Sequence[str], Sequence[str]]],
    truncation: Truncation,
    tokenizer: tokenization.FullTokenizer,
    counts: TruncationCounts | None = None,
) -> list[dict[str, list[int]]]:
    """Converts the tokens of an example to sequences of the model.

    Args:
        pairs: A and B of each sequence; B is empty for a single text.
        truncation: how they are fitted into `T` tokens.
        tokenizer: of the model.
        counts: counts the example.

    Returns:
        `input_ids`, `input_mask` and `segment_ids`, each `[T]`, of each
        sequence, or of each of its windows.
    """
    rows, num_pieces, num_dropped = [], 0, 0
    for tokens_a, tokens_b in pairs:
        parts = fit(tokens_a, tokens_b, truncation)
        num_pieces += len(tokens_a) + len(tokens_b)
        num_dropped += _num_dropped(tokens_a, tokens_b, parts)
        for part_a, part_b in parts:
            tokens, segment_ids = join(part_a, part_b)
            ids = tokenizer.convert_tokens_to_ids(tokens)
            rows.append(padded(ids, segment_ids, truncation.max_seq_length))
    if counts:
        counts.add(num_pieces, num_dropped)
    return rows


def _num_dropped(
    tokens_a: Sequence[str],
    tokens_b: Sequence[str],
    parts: Sequence[tuple[Sequence[str], Sequence[str]]],
) -> int:
    """Counts the tokens of a pair that are in none of its parts."""
    dropped_a = len(tokens_a) - len(parts[0][0])
    dropped_b = len(tokens_b) - len(parts[0][1])
    if len(parts) == 1:
        return dropped_a + dropped_b
    # Windows contain all of the longer text.
    return dropped_b if len(tokens_a) > len(tokens_b) else dropped_a
