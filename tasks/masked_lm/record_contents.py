"""Contents of pre-training records: statistics, faults and readable words.

All functions take arrays, so that they apply to new records and to records of a
file.
"""

import collections
import dataclasses
import hashlib
from collections.abc import Iterable, Mapping

import numpy as np

Batch = Mapping[str, np.ndarray]

# Kinds of a `Piece`.
PLAIN, SPECIAL = "plain", "special"
HIDDEN, SAME, REPLACED = "hidden", "same", "replaced"
_CONTINUATION = "##"
_NOT_WORDS = ("[PAD]", "[CLS]", "[SEP]")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distribution:
    """Summary statistics of some numbers.

    Attributes:
        count: number of values.
        mean: 0 without values, like the other statistics.
        median: half of the values are at most this.
        percentile_95: 95 % of the values are at most this.
        largest: the maximum.
    """

    count: int
    mean: float
    median: float
    percentile_95: float
    largest: float


def summarize(values: np.ndarray) -> Distribution:
    """Summarizes `[N]` numbers."""
    values = np.asarray(values)
    if not values.size:
        values = np.zeros(1)
        return dataclasses.replace(summarize(values), count=0)
    median, high = np.percentile(values, [50, 95])
    return Distribution(
        count=int(values.size),
        mean=float(values.mean()),
        median=float(median),
        percentile_95=float(high),
        largest=float(values.max()),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordContents:
    """Statistics of records.

    Attributes:
        num_records: number of records.
        seq_length: T.
        max_predictions: P; 0 for dynamic masking.
        lengths: tokens per record, including [CLS] and [SEP].
        num_full: records without padding; most of them were truncated.
        num_random_next: pairs with a random second part.
        num_words: tokens that are neither special nor padding.
        num_predicted: predicted tokens. `num_hidden` of them are `[MASK]`,
            `num_same` are unchanged, the others are replaced.
        num_hidden, num_same: see `num_predicted`.
        num_full_predictions: records with the maximum number of predictions.
        num_unknown: words that are `[UNK]`.
        num_repeated: records whose text, before masking, occurred before.
        faults: faults of records, with the number of affected records.
    """

    num_records: int
    seq_length: int
    max_predictions: int
    lengths: Distribution
    num_full: int
    num_random_next: int
    num_words: int
    num_predicted: int
    num_hidden: int
    num_same: int
    num_full_predictions: int
    num_unknown: int
    num_repeated: int
    faults: Mapping[str, int]

    @property
    def num_replaced(self) -> int:
        """Number of predicted tokens that are replaced by another one."""
        return self.num_predicted - self.num_hidden - self.num_same


def measure(
    batches: Iterable[Batch], vocab: Mapping[str, int]
) -> RecordContents:
    """Measures records.

    Args:
        batches: arrays by feature: `[B, T]`, `[B, P]` and `[B, 1]`; without
            those of `[B, P]` for dynamic masking.
        vocab: the vocabulary of the records: token -> id.

    Raises:
        ValueError: there is no record.
    """
    sums: collections.Counter[str] = collections.Counter()
    faults: collections.Counter[str] = collections.Counter()
    lengths, seen, num_repeated = [], set(), 0
    shape = None
    for batch in map(_with_predictions, batches):
        shape = (batch["input_ids"].shape[1], batch["masked_lm_ids"].shape[1])
        lengths.append(batch["input_mask"].sum(axis=1))
        sums.update(_counts(batch, vocab))
        faults.update(_faults(batch, vocab))
        for row in original_ids(batch):
            digest = hashlib.blake2b(row.tobytes(), digest_size=8).digest()
            num_repeated += digest in seen
            seen.add(digest)
    if shape is None:
        raise ValueError("Expected at least one record; got none.")
    return RecordContents(
        seq_length=shape[0],
        max_predictions=shape[1],
        lengths=summarize(np.concatenate(lengths)),
        num_repeated=num_repeated,
        faults=dict(+faults),
        **sums,
    )


def _with_predictions(batch: Batch) -> Batch:
    """Adds empty predictions to unmasked records."""
    none = np.zeros((len(batch["input_ids"]), 0), np.int64)
    names = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
    return {**dict.fromkeys(names, none), **batch}


def _counts(batch: Batch, vocab: Mapping[str, int]) -> dict[str, int]:
    original = original_ids(batch)
    is_token = batch["input_mask"] > 0  # [B, T]
    is_special = np.isin(original, [vocab[token] for token in _NOT_WORDS])
    is_word = is_token & ~is_special
    is_predicted = batch["masked_lm_weights"] > 0  # [B, P]
    shown = shown_ids(batch)[is_predicted]
    labels = batch["masked_lm_ids"][is_predicted]
    counts = {
        "num_records": len(original),
        "num_full": is_token.all(axis=1).sum(),
        "num_random_next": batch["next_sentence_labels"].sum(),
        "num_words": is_word.sum(),
        "num_predicted": is_predicted.sum(),
        "num_hidden": (shown == vocab["[MASK]"]).sum(),
        "num_same": ((shown == labels) & (shown != vocab["[MASK]"])).sum(),
        "num_full_predictions": is_predicted.all(axis=1).sum(),
        "num_unknown": (is_word & (original == vocab["[UNK]"])).sum(),
    }
    return {name: int(count) for name, count in counts.items()}


def _faults(batch: Batch, vocab: Mapping[str, int]) -> dict[str, int]:
    """Counts the records with each fault."""
    inputs, mask = batch["input_ids"], batch["input_mask"]
    positions, labels = batch["masked_lm_positions"], batch["masked_lm_ids"]
    is_predicted = batch["masked_lm_weights"] > 0  # [B, P]
    length = mask.sum(axis=1, keepdims=True)  # [B, 1]
    is_special = np.isin(labels, [vocab[token] for token in _NOT_WORDS])
    vocab_size = max(vocab.values()) + 1
    sorted_positions = np.sort(
        np.where(is_predicted, positions, -1 - np.arange(positions.shape[1]))
    )
    found = {
        "an id beyond the vocabulary": (
            (inputs >= vocab_size).any(axis=1)
            | (labels >= vocab_size).any(axis=1)
        ),
        "no [CLS] at the start": inputs[:, 0] != vocab["[CLS]"],
        "padding between tokens": (np.diff(mask, axis=1) > 0).any(axis=1),
        "a prediction in the padding": (
            is_predicted & (positions >= length)
        ).any(axis=1),
        "a place predicted twice": (np.diff(sorted_positions, axis=1) == 0).any(
            axis=1
        ),
        "a predicted [PAD], [CLS] or [SEP]": (is_predicted & is_special).any(
            axis=1
        ),
        "nothing to predict": ~is_predicted.any(axis=1),
    }
    if not labels.shape[1]:
        del found["nothing to predict"]  # Drawn in training.
    return {name: int(rows.sum()) for name, rows in found.items()}


def shown_ids(batch: Batch) -> np.ndarray:
    """Returns the input ids at the predicted positions: `[B, P]`."""
    return np.take_along_axis(
        batch["input_ids"], batch["masked_lm_positions"], axis=1
    )


def original_ids(batch: Batch) -> np.ndarray:
    """Returns the tokens before masking: `[B, T]`."""
    ids = np.array(batch["input_ids"])
    rows, columns = np.nonzero(batch["masked_lm_weights"] > 0)
    places = batch["masked_lm_positions"][rows, columns]
    ids[rows, places] = batch["masked_lm_ids"][rows, columns]
    return ids


def contents_warnings(contents: RecordContents) -> list[str]:
    """Describes the faults of records."""
    warnings = [
        f"{count:,} of {contents.num_records:,} records have {fault}: they "
        "were created with another vocabulary, or by a faulty program."
        for fault, count in contents.faults.items()
    ]
    predicted = contents.num_predicted
    if predicted and contents.num_same > 0.5 * predicted:
        warnings.append(
            f"{contents.num_same / predicted:.0%} of the predicted tokens are "
            "unchanged in the input: the answers are visible."
        )
    return warnings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Piece:
    """A token of a record.

    Attributes:
        text: the token, before masking; without `##` inside a word.
        kind: `PLAIN`, `SPECIAL`, or how a predicted token is shown to the
            model: as `[MASK]` (`HIDDEN`), unchanged (`SAME`), or as another
            token (`REPLACED`).
        shown: the token shown for `REPLACED`.
        starts_word: whether a space precedes it.
    """

    text: str
    kind: str
    shown: str = ""
    starts_word: bool = True


def pieces(
    record: Mapping[str, np.ndarray], tokens: Mapping[int, str]
) -> list[Piece]:
    """Lists the tokens of a record, without padding.

    Args:
        record: `input_ids` and `input_mask` `[T]`; `masked_lm_positions`,
            `masked_lm_ids` and `masked_lm_weights` `[P]`, if masked.
        tokens: tokens by id; unknown ids are shown as numbers.
    """
    none = np.zeros(0, np.int64)
    is_real = record.get("masked_lm_weights", none) > 0
    places, labels = (
        record.get(name, none)[is_real].tolist()
        for name in ("masked_lm_positions", "masked_lm_ids")
    )
    answers = dict(zip(places, labels, strict=True))
    length = int(record["input_mask"].sum())
    found: list[Piece] = []
    for place, index in enumerate(record["input_ids"][:length].tolist()):
        shown, answer = (
            tokens.get(each, f"[id {each}]")
            for each in (index, answers.get(place, index))
        )
        # Truncation can make a text begin in the middle of a word.
        is_first = not found or found[-1].kind == SPECIAL
        is_predicted = place in answers
        found.append(_piece(shown, answer, is_predicted, is_first))
    return found


def _piece(shown: str, text: str, is_predicted: bool, is_first: bool) -> Piece:
    continues = (
        text.startswith(_CONTINUATION)
        and text != _CONTINUATION
        and not is_first
    )
    kind = PLAIN
    if not is_predicted:
        if text.startswith("[") and text.endswith("]") and len(text) > 2:
            kind = SPECIAL
    elif shown == "[MASK]":
        kind = HIDDEN
    else:
        kind = SAME if shown == text else REPLACED
    return Piece(
        text=text.removeprefix(_CONTINUATION) if continues else text,
        kind=kind,
        shown=shown if kind == REPLACED else "",
        starts_word=not continues,
    )


def as_text(words: list[Piece], styles: Mapping[str, str]) -> str:
    """Joins pieces to text.

    Args:
        words: pieces of a record.
        styles: for each kind a format with `{text}` and `{shown}`.
    """
    parts: list[str] = []
    for piece in words:
        space = " " if parts and piece.starts_word else ""
        styled = styles[piece.kind].format(text=piece.text, shown=piece.shown)
        parts.append(space + styled)
    return "".join(parts)
