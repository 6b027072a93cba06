"""One or two sentences as the model reads them: [CLS] A [SEP] B [SEP].

Source: Devlin et al. 2019, section 3 ("Input/Output Representations").
"""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from absl import logging

from tasks.classification import labels

HEAD, HEAD_TAIL, WINDOWS = "head", "head_tail", "windows"
LONG_TEXT = (HEAD, HEAD_TAIL, WINDOWS)

# Source: Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?",
# section 5.3: of 510 tokens, the first 128 and the last 382.
_HEAD_TOKENS, _HEAD_TAIL_TOKENS = 128, 510
_NUM_EXAMPLES_LOGGED = 5  # Source: run_classifier.py of the release.


class Tokenizer(Protocol):
    """What this module asks of a tokenizer."""

    def tokenize(self, text: str) -> list[str]: ...

    def convert_tokens_to_ids(self, tokens: Sequence[str]) -> list[int]: ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputExample:
    """A row of a classification task.

    Args:
        guid: names the example in logs.
        text_a: the first, or only, sentence.
        text_b: the second; None or empty for a single sentence.
        label: as its `LabelSet` parsed it.
    """

    guid: str
    text_a: str
    text_b: str | None = None
    label: labels.Label | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputFeatures:
    """One row of numbers: lists of length `T`, and a label.

    `is_real_example` is False for rows that only fill up a batch.
    """

    input_ids: list[int]
    input_mask: list[int]
    segment_ids: list[int]
    label_id: labels.LabelId
    is_real_example: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Packing:
    """How texts are fitted into `T` places.

    Args:
        max_seq_length: `T`.
        long_text: what is kept of a text that does not fit: `head` (as
            released), `head_tail`, or all of it, in `windows`.
        window_stride: tokens from the start of one window to the next; by
            default, half a window.

    Raises:
        ValueError: a value out of range.
    """

    max_seq_length: int
    long_text: str = HEAD
    window_stride: int | None = None

    def __post_init__(self):
        if self.long_text not in LONG_TEXT:
            raise ValueError(
                f"long_text must be one of {', '.join(LONG_TEXT)}; "
                f"got {self.long_text!r}."
            )
        # A pair takes three special tokens; a window must hold one more.
        least = 4 if self.long_text == WINDOWS else 3
        if self.max_seq_length < least:
            raise ValueError(
                f"max_seq_length must be at least {least} for long_text "
                f"{self.long_text}; got {self.max_seq_length}."
            )
        if self.window_stride is not None and self.window_stride < 1:
            raise ValueError(
                f"window_stride must be at least 1; got {self.window_stride}."
            )


def lengths_cut_from_the_longer(
    len_a: int, len_b: int, max_length: int
) -> tuple[int, int]:
    """Says how much of two texts fits, taking from the longer each time.

    As released: at a tie the second text gives way.
    """
    while len_a + len_b > max_length:
        if len_a > len_b:
            len_a -= 1
        else:
            len_b -= 1
    return len_a, len_b


def truncate_longer_at_the_end(
    tokens_a: Sequence[str], tokens_b: Sequence[str], max_length: int
) -> tuple[list[str], list[str]]:
    """Cuts a pair to `max_length` tokens, from the end of the longer text.

    The rule of fine-tuning; pre-training cuts either end at random.

    Args:
        tokens_a: the first text.
        tokens_b: the second text.
        max_length: how many tokens both may have together, 0 or more.
    """
    len_a, len_b = lengths_cut_from_the_longer(
        len(tokens_a), len(tokens_b), max_length
    )
    return list(tokens_a[:len_a]), list(tokens_b[:len_b])


def join(
    tokens_a: Sequence[str], tokens_b: Sequence[str]
) -> tuple[list[str], list[int]]:
    """Lays out tokens and their segment ids; no second part if B is empty."""
    tokens = ["[CLS]", *tokens_a, "[SEP]"]
    segment_ids = [0] * len(tokens)
    if tokens_b:
        tokens += [*tokens_b, "[SEP]"]
        segment_ids += [1] * (len(tokens_b) + 1)
    return tokens, segment_ids


def fit(
    tokens_a: Sequence[str], tokens_b: Sequence[str], packing: Packing
) -> list[tuple[list[str], list[str]]]:
    """Fits one text or a pair into the places there are.

    Returns:
        The pairs to be read: one, or several in `windows`; B is empty
        throughout for a single text.
    """
    num_special = 3 if tokens_b else 2
    budget = packing.max_seq_length - num_special
    if packing.long_text == WINDOWS:
        return _windows(tokens_a, tokens_b, budget, packing.window_stride)
    if packing.long_text == HEAD:
        return [truncate_longer_at_the_end(tokens_a, tokens_b, budget)]
    len_a, len_b = lengths_cut_from_the_longer(
        len(tokens_a), len(tokens_b), budget
    )
    return [(_head_tail(tokens_a, len_a), _head_tail(tokens_b, len_b))]


def _head_tail(tokens: Sequence[str], length: int) -> list[str]:
    if len(tokens) <= length:
        return list(tokens)
    head = length * _HEAD_TOKENS // _HEAD_TAIL_TOKENS
    return [*tokens[:head], *tokens[len(tokens) - (length - head) :]]


def _windows(
    tokens_a: Sequence[str],
    tokens_b: Sequence[str],
    budget: int,
    stride: int | None,
) -> list[tuple[list[str], list[str]]]:
    """Moves a window over the longer text, beside the whole shorter one.

    The shorter gets at most half of the places; at a tie the window moves
    over the second text, the one that gives way in a cut.
    """
    slide_a = len(tokens_a) > len(tokens_b)
    longer, shorter = (tokens_a, tokens_b) if slide_a else (tokens_b, tokens_a)
    fixed = list(shorter[: max(budget // 2, budget - len(longer))])
    size = budget - len(fixed)
    # A stride above the window would skip tokens.
    step = max(1, min(stride or size // 2, size))
    starts = range(0, max(1, len(longer) - size + step), step)
    parts = [list(longer[start : start + size]) for start in starts]
    return [(p, fixed) if slide_a else (fixed, p) for p in parts]


def convert_example(
    example: InputExample,
    label_id: labels.LabelId,
    packing: Packing,
    tokenizer: Tokenizer,
) -> list[InputFeatures]:
    """Turns an example into features: one row, or one for each window."""
    tokens_a = tokenizer.tokenize(example.text_a)
    # As released: an empty or blank second text makes a single sentence.
    tokens_b = tokenizer.tokenize(example.text_b) if example.text_b else []
    rows = []
    for part_a, part_b in fit(tokens_a, tokens_b, packing):
        tokens, segment_ids = join(part_a, part_b)
        padding = [0] * (packing.max_seq_length - len(tokens))
        rows.append(
            InputFeatures(
                # As released: the padding id is 0 whatever [PAD] is.
                input_ids=tokenizer.convert_tokens_to_ids(tokens) + padding,
                input_mask=[1] * len(tokens) + padding,
                segment_ids=segment_ids + padding,
                label_id=label_id,
            )
        )
    return rows


def convert_examples(
    examples: Iterable[InputExample],
    label_set: labels.LabelSet,
    packing: Packing,
    tokenizer: Tokenizer,
) -> Iterator[list[InputFeatures]]:
    """Yields the rows of each example, in order, and logs the first few.

    Where an example may have several rows (`windows`), their count is what
    `predictions.pool_windows` needs.
    """
    for index, example in enumerate(examples):
        label_id = label_set.encode(example.label)
        rows = convert_example(example, label_id, packing, tokenizer)
        if index < _NUM_EXAMPLES_LOGGED:
            logging.info(
                "example %s: label %s (%s), %d row(s), input_ids %s",
                example.guid,
                example.label,
                label_id,
                len(rows),
                " ".join(map(str, rows[0].input_ids)),
            )
        yield rows


def padding_features(
    max_seq_length: int, label_id: labels.LabelId = 0
) -> InputFeatures:
    """Returns a row that fills up a batch and counts nowhere."""
    zeros = [0] * max_seq_length
    return InputFeatures(
        input_ids=zeros,
        input_mask=zeros,
        segment_ids=zeros,
        label_id=label_id,
        is_real_example=False,
    )


def to_record(row: InputFeatures) -> dict[str, list[int] | list[float]]:
    """Names the values of a row as the release's records do.

    `label_ids` holds one whole number for a class (as released), one fraction
    for a score, and `K` fractions, each 0 or 1, for several labels.
    """
    several = isinstance(row.label_id, tuple)
    return {
        "input_ids": row.input_ids,
        "input_mask": row.input_mask,
        "segment_ids": row.segment_ids,
        "label_ids": list(row.label_id) if several else [row.label_id],
        "is_real_example": [int(row.is_real_example)],
    }
