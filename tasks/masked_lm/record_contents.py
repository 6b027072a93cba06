"""Contents of pre-training data: statistics, faults, warnings, readable words.

Functions of records take arrays, so that they apply to new records and to
records of a file.
"""

import collections
import dataclasses
import hashlib
import unicodedata
from collections.abc import Iterable, Mapping

import numpy as np

from tasks.masked_lm import masked_pairs
from vocab import tokenization

Batch = Mapping[str, np.ndarray]

# Kinds of tokens. Those to predict are shown to the model as [MASK], unchanged,
# or as another token.
PLAIN, SPECIAL = "plain", "special"
HIDDEN, SAME, REPLACED = "hidden", "same", "replaced"
_CONTINUATION = "##"
_NOT_WORDS = ("[PAD]", "[CLS]", "[SEP]")  # A vocabulary may lack [PAD].

# About half of the pairs have a random next sentence if documents are long.
# Slightly more is usual, since the last sentence of a document always gets one.
_MAX_RANDOM_NEXT_SHARE = 0.6
# In the released cased vocabularies 15 to 29 % of the tokens contain a capital,
# in the uncased ones none.
_CASED_VOCAB_SHARE = 0.01
# A vocabulary with fewer letters that have a case does not show its casing.
_LEAST_LETTERED_TOKENS = 500
# Length at which sequences often consist of one sentence.
_SHORT_SEQUENCE = 64


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
    is_special = np.isin(original, _ids(_NOT_WORDS, vocab))
    is_word = is_token & ~is_special
    is_predicted = batch["masked_lm_weights"] > 0  # [B, P]
    places = np.clip(
        batch["masked_lm_positions"], 0, batch["input_ids"].shape[1] - 1
    )
    shown = np.take_along_axis(batch["input_ids"], places, axis=1)[is_predicted]
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
    inputs, mask = batch["input_ids"], batch["input_mask"]
    positions, labels = batch["masked_lm_positions"], batch["masked_lm_ids"]
    is_predicted = batch["masked_lm_weights"] > 0  # [B, P]
    length = mask.sum(axis=1, keepdims=True)  # [B, 1]
    is_inside = _is_inside(batch)  # [B, P]
    is_special = np.isin(labels, _ids(_NOT_WORDS, vocab))
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
        "padding between tokens": (mask[:, 1:] > mask[:, :-1]).any(axis=1),
        "a prediction in the padding": (
            is_predicted & is_inside & (positions >= length)
        ).any(axis=1),
        "a prediction beyond the sequence": (is_predicted & ~is_inside).any(
            axis=1
        ),
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


def _ids(tokens: Iterable[str], vocab: Mapping[str, int]) -> list[int]:
    return [vocab[token] for token in tokens if token in vocab]


def original_ids(batch: Batch) -> np.ndarray:
    """Returns the tokens before masking: `[B, T]`."""
    ids = np.array(batch["input_ids"])
    is_predicted = batch["masked_lm_weights"] > 0  # [B, P]
    rows, columns = np.nonzero(is_predicted & _is_inside(batch))
    places = batch["masked_lm_positions"][rows, columns]
    ids[rows, places] = batch["masked_lm_ids"][rows, columns]
    return ids


def _is_inside(batch: Batch) -> np.ndarray:
    """Returns whether masked positions are in the sequence: `[B, P]`."""
    positions = batch["masked_lm_positions"]
    return (positions >= 0) & (positions < batch["input_ids"].shape[1])


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


def as_text(
    record: Mapping[str, np.ndarray],
    tokens: Mapping[int, str],
    styles: Mapping[str, str],
) -> str:
    """Formats the tokens of a record before masking, without padding.

    Args:
        record: `input_ids` and `input_mask` `[T]`; `masked_lm_positions`,
            `masked_lm_ids` and `masked_lm_weights` `[P]`, if masked.
        tokens: tokens by id; unknown ids are shown as numbers.
        styles: for each kind of token a format with `{text}`, the token, and
            `{shown}`, the one shown to the model.
    """
    none = np.zeros(0, np.int64)
    is_real = record.get("masked_lm_weights", none) > 0
    places, labels = (
        record.get(name, none)[is_real].tolist()
        for name in ("masked_lm_positions", "masked_lm_ids")
    )
    answers = dict(zip(places, labels, strict=True))
    length = int(record["input_mask"].sum())
    parts: list[str] = []
    previous_kind = SPECIAL
    for place, index in enumerate(record["input_ids"][:length].tolist()):
        shown, text = (
            tokens.get(each, f"[id {each}]")
            for each in (index, answers.get(place, index))
        )
        kind = _kind(shown, text, is_predicted=place in answers)
        is_piece = text.startswith(_CONTINUATION) and text != _CONTINUATION
        # Truncation can make a text begin in the middle of a word.
        if is_piece and previous_kind != SPECIAL:
            text = text.removeprefix(_CONTINUATION)
        elif parts:
            parts.append(" ")
        parts.append(styles[kind].format(text=text, shown=shown))
        previous_kind = kind
    return "".join(parts)


def _kind(shown: str, text: str, *, is_predicted: bool) -> str:
    if not is_predicted:
        is_special = len(text) > 2 and text[0] == "[" and text[-1] == "]"
        return SPECIAL if is_special else PLAIN
    if shown == "[MASK]":
        return HIDDEN
    return SAME if shown == text else REPLACED


def prediction_warnings(options: masked_pairs.InstanceOptions) -> list[str]:
    """Checks that the number of predictions allows the requested share."""
    wanted = options.num_to_predict(options.max_seq_length)
    if wanted <= options.max_predictions_per_seq:
        return []
    return [
        f"max_predictions_per_seq={options.max_predictions_per_seq} is too "
        f"small for masked_lm_prob={options.masked_lm_prob}: a full "
        f"sequence of {options.max_seq_length} tokens needs {wanted} "
        "predictions and gets fewer."
    ]


def corpus_warnings(num_documents: int) -> list[str]:
    """Checks that the corpus has several documents."""
    if num_documents != 1:
        return []
    return [
        "The corpus is one document, so random next sentences come from the "
        "same document and that task means little. Put a blank line "
        "between documents."
    ]


def casing_warnings(
    vocab_words: Iterable[str], *, do_lower_case: bool
) -> list[str]:
    """Checks that the vocabulary matches the casing of the text."""
    words = [word for word in vocab_words if not word.startswith(("[", "<"))]
    num_cased = sum(map(_is_cased, words))
    if do_lower_case and num_cased > _CASED_VOCAB_SHARE * len(words):
        return [
            f"do_lower_case is True, but {num_cased} of {len(words)} tokens of "
            "the vocabulary have capitals or accents, which lower-cased text "
            "never has: it looks cased. Pass --do_lower_case=False or another "
            "vocabulary."
        ]
    num_lettered = sum(word.lower() != word.upper() for word in words)
    is_shown = num_lettered >= _LEAST_LETTERED_TOKENS
    if is_shown and not do_lower_case and not num_cased:
        return [
            "do_lower_case is False, but no token of the vocabulary has a "
            "capital or an accent: it looks uncased, and words with capitals "
            "become [UNK]. Pass --do_lower_case=True or another vocabulary."
        ]
    return []


def _is_cased(word: str) -> bool:
    """Returns whether lower-casing and accent stripping change a word."""
    lowered = unicodedata.normalize("NFD", word.lower())
    return lowered != word or any(map(tokenization.is_combining_mark, lowered))


def balance_warnings(
    num_random_next: int, num_pairs: int, max_seq_length: int | None = None
) -> list[str]:
    """Checks that about half of the pairs have a random next sentence.

    Args:
        num_random_next: number of such pairs.
        num_pairs: number of all pairs.
        max_seq_length: if given, mentioned as the reason if it is short.
    """
    share = num_random_next / max(1, num_pairs)
    if share <= _MAX_RANDOM_NEXT_SHARE:
        return []
    if max_seq_length is not None and max_seq_length <= _SHORT_SEQUENCE:
        return [
            f"{share:.0%} of the pairs have a random next sentence. Sequences "
            f"of {max_seq_length} word pieces often have one sentence, which "
            "always gets a random next: that task has little to learn from. "
            "Longer sequences give about half."
        ]
    return [
        f"{share:.0%} of the pairs have a random next sentence; it "
        "should be about half. Documents of one sentence always get one: put a "
        "blank line between documents only, not after each sentence, and write "
        "long paragraphs with one sentence per line."
    ]
