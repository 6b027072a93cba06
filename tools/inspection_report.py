"""The report of `tools.inspect_data` in words."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from corpus import text_statistics
from tasks.masked_lm import record_contents
from tools import terminal

_MOST_CHARACTERS = 40


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """What was found.

    Attributes:
        sections: in words.
        numbers: the same for programs.
        examples: records, arrays by feature.
        warnings: what looks wrong.
    """

    sections: Sequence[str]
    numbers: Mapping[str, Any]
    examples: Sequence[Mapping[str, np.ndarray]]
    warnings: Sequence[str]


def text_section(name: str, text: text_statistics.TextStatistics) -> str:
    """Describes a text.

    Args:
        name: of it.
        text: its statistics.
    """
    per_word = text.num_pieces / max(1, text.num_words)
    rows = [
        (
            "documents",
            f"{text.num_documents:,}",
            "sentences: "
            f"{terminal.spread_in_words(text.sentences_per_document)}",
        ),
        (
            "of one sentence",
            f"{text.num_single:,}",
            terminal.share(text.num_single, text.num_documents),
        ),
        (
            "sentences (lines)",
            f"{text.num_sentences:,}",
            f"pieces: {terminal.spread_in_words(text.pieces_per_sentence)}",
        ),
        (
            "too long for a sequence",
            f"{text.num_too_long:,}",
            f"{terminal.share(text.num_cut, text.num_pieces)} of all pieces "
            "are cut off",
        ),
        (
            "seen further up",
            f"{text.num_repeated:,}",
            _with_examples(
                terminal.share(text.num_repeated, text.num_sentences),
                text.repeated_lines,
            ),
        ),
        (
            "words",
            f"{text.num_words:,}",
            f"{per_word:.3f} pieces each; one piece: "
            f"{terminal.share(text.num_whole, text.num_words)}",
        ),
        (
            "unknown, [UNK]",
            f"{text.num_unknown:,}",
            _with_examples(
                terminal.share(text.num_unknown, text.num_words),
                text.unknown_words,
            ),
        ),
        (
            "capital letters",
            f"{text.num_capitals:,}",
            f"{terminal.share(text.num_capitals, text.num_letters)} of letters",
        ),
    ]
    return f"TEXT {name}\n{terminal.table(rows)}"


def _with_examples(text: str, counted: Sequence[tuple[str, int]]) -> str:
    """Adds the most frequent of what was counted, as far as there is room."""
    shown = [f"{_shortened(name)} ({n:,})" for name, n in counted[:3]]
    return "; ".join([text, *([", ".join(shown)] if shown else [])])


def _shortened(text: str) -> str:
    if len(text) <= _MOST_CHARACTERS:
        return text
    return f"{text[: _MOST_CHARACTERS - 3]}..."


def records_section(
    title: str, contents: record_contents.RecordContents
) -> str:
    """Describes records of pre-training.

    Args:
        title: names them.
        contents: what they hold.
    """
    return f"{title}\n{terminal.table(_record_rows(contents))}"


def _record_rows(
    contents: record_contents.RecordContents,
) -> list[tuple[str, str, str]]:
    """Lists what is counted: names, counts, and what they mean."""
    tokens = contents.lengths.mean * contents.num_records
    predicted = contents.num_predicted
    of_records = contents.num_records
    return [
        (
            "records",
            f"{of_records:,}",
            f"tokens: {terminal.spread_in_words(contents.lengths)}, "
            f"of {contents.seq_length}",
        ),
        (
            "without padding",
            f"{contents.num_full:,}",
            f"{terminal.share(contents.num_full, of_records)}; padding is "
            + terminal.share(
                of_records * contents.seq_length - tokens,
                of_records * contents.seq_length,
            )
            + " of all tokens",
        ),
        (
            "with a random next",
            f"{contents.num_random_next:,}",
            terminal.share(contents.num_random_next, of_records),
        ),
        (
            "tokens to predict",
            f"{predicted:,}",
            f"{terminal.share(predicted, tokens)} of tokens; "
            f"{predicted / of_records:.1f} a record of "
            f"{contents.max_predictions} at most",
        ),
        (
            "shown as",
            "",
            f"[MASK] {terminal.share(contents.num_hidden, predicted)}, "
            f"themselves {terminal.share(contents.num_same, predicted)}, "
            f"another {terminal.share(contents.num_replaced, predicted)}",
        ),
        (
            "unknown, [UNK]",
            f"{contents.num_unknown:,}",
            f"{terminal.share(contents.num_unknown, contents.num_words)} "
            "of words' pieces",
        ),
        (
            "same text as before",
            f"{contents.num_repeated:,}",
            terminal.share(contents.num_repeated, of_records),
        ),
    ]


def sequences_section(
    title: str, lengths: np.ndarray, seq_length: int, labels: np.ndarray | None
) -> str:
    """Describes records of other tasks.

    Args:
        title: names them.
        lengths: `[R]`, tokens of each; `[R, C]` if each is a set of choices.
        seq_length: T.
        labels: `[R]` whole numbers, if they have one each.
    """
    num_full = int((lengths == seq_length).sum())
    spread = terminal.spread_in_words(record_contents.spread_of(lengths))
    tokens = f"tokens: {spread}, of {seq_length}"
    rows = [("records", f"{len(lengths):,}", tokens)]
    if lengths.ndim == 2:
        rows = [
            (
                "records",
                f"{len(lengths):,}",
                f"choices: {lengths.shape[1]} each",
            ),
            ("sequences", f"{lengths.size:,}", tokens),
        ]
    rows.append(
        (
            "without padding",
            f"{num_full:,}",
            f"{terminal.share(num_full, lengths.size)}: "
            "most of them were cut to fit",
        )
    )
    if labels is not None:
        values, counts = np.unique(labels, return_counts=True)
        rows += [
            (f"label {value}", f"{n:,}", terminal.share(n, len(labels)))
            for value, n in zip(values.tolist(), counts.tolist(), strict=True)
        ]
    return f"{title}\n{terminal.table(rows)}"


def examples_section(
    records: Iterable[Mapping[str, np.ndarray]],
    tokens: Mapping[int, str],
    *,
    has_colors: bool,
) -> str:
    """Shows records as words.

    Args:
        records: arrays by feature, without the batch.
        tokens: token by id.
        has_colors: whether what is masked is coloured, or named in brackets.
    """
    styles = terminal.COLOR_STYLES if has_colors else terminal.PLAIN_STYLES
    parts = ["EXAMPLES\n"]
    if has_colors:
        parts.append(f"  ({terminal.LEGEND})\n")
    for number, record in enumerate(records, start=1):
        start = f"  {number}.{_label(record)}"
        if record["input_ids"].ndim == 1:
            parts.append(f"{start} {_text(record, tokens, styles)}\n")
            continue
        parts.append(f"{start}\n")
        for choice in range(len(record["input_ids"])):
            sequence = {
                name: record[name][choice]
                for name in ("input_ids", "input_mask")
            }
            text = _text(sequence, tokens, styles)
            parts.append(f"    {choice}: {text}\n")
    return "".join(parts)


def _text(
    record: Mapping[str, np.ndarray],
    tokens: Mapping[int, str],
    styles: Mapping[str, str],
) -> str:
    return record_contents.as_text(
        record_contents.pieces(record, tokens), styles
    )


def _label(record: Mapping[str, np.ndarray]) -> str:
    if "next_sentence_labels" in record:
        is_random = bool(record["next_sentence_labels"][0])
        return " (random next)" if is_random else " (true next)"
    if "label_ids" in record and record["label_ids"].size == 1:
        return f" (label {record['label_ids'].item()})"
    return ""


def warnings_section(warnings: Iterable[str]) -> str:
    """Lists what looks wrong."""
    return f"WARNINGS\n{terminal.warnings(warnings)}"
