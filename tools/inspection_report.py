"""Report of `tools.inspect_data`: its sections as text."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from corpus import text_statistics
from files import messages, terminal
from tasks.masked_lm import record_contents

_MOST_CHARACTERS = 40
_Row = tuple[str, str, str]

# A pattern for each kind of token in `record_contents`.
_PLAIN_STYLES = {
    record_contents.PLAIN: "{text}",
    record_contents.SPECIAL: "{text}",
    record_contents.HIDDEN: "[MASK: {text}]",
    record_contents.SAME: "[same: {text}]",
    record_contents.REPLACED: "[{shown}: {text}]",
}
_RESET, _DIM = "\x1b[0m", "\x1b[2m"
_GREEN, _YELLOW, _RED = "\x1b[30;42m", "\x1b[30;43m", "\x1b[30;41m"
_COLOR_STYLES = {
    record_contents.PLAIN: "{text}",
    record_contents.SPECIAL: f"{_DIM}{{text}}{_RESET}",
    record_contents.HIDDEN: f"{_GREEN}{{text}}{_RESET}",
    record_contents.SAME: f"{_YELLOW}{{text}}{_RESET}",
    record_contents.REPLACED: (
        f"{_RED}{{shown}}{_RESET}{_DIM}({{text}}){_RESET}"
    ),
}
_LEGEND = (
    "green: to predict, shown as [MASK]; yellow: to predict, shown as it is; "
    "red: another word in its place (the answer after it)"
)


def text_section(name: str, text: text_statistics.TextStatistics) -> str:
    """Formats the statistics of a text.

    Args:
        name: of the text.
        text: its statistics.
    """
    sentences = _summary(text.sentences_per_document)
    pieces = _summary(text.pieces_per_sentence)
    cut = _share(text.num_cut, text.num_pieces)
    repeated = _share(text.num_repeated, text.num_sentences)
    per_word = text.num_pieces / max(1, text.num_words)
    whole = _share(text.num_whole, text.num_words)
    unknown = _share(text.num_unknown, text.num_words)
    capitals = _share(text.num_capitals, text.num_letters)
    rows = [
        _row("documents", text.num_documents, f"sentences: {sentences}"),
        _row_of("of one sentence", text.num_single, text.num_documents),
        _row("sentences (lines)", text.num_sentences, f"pieces: {pieces}"),
        _row(
            "too long for a sequence",
            text.num_too_long,
            f"{cut} of all pieces are cut off",
        ),
        _row(
            "seen further up",
            text.num_repeated,
            repeated + _most_frequent(text.repeated_lines),
        ),
        _row(
            "words",
            text.num_words,
            f"{per_word:.3f} pieces each; one piece: {whole}",
        ),
        _row(
            "unknown, [UNK]",
            text.num_unknown,
            unknown + _most_frequent(text.unknown_words),
        ),
        _row("capital letters", text.num_capitals, f"{capitals} of letters"),
    ]
    return f"TEXT {name}\n{terminal.table(rows)}"


def records_section(
    title: str, contents: record_contents.RecordContents
) -> str:
    """Formats the statistics of records of pre-training.

    Args:
        title: names the records.
        contents: their statistics.
    """
    num_records, predicted = contents.num_records, contents.num_predicted
    num_tokens = contents.lengths.mean * num_records
    num_places = num_records * contents.seq_length
    lengths = _summary(contents.lengths)
    full = _share(contents.num_full, num_records)
    padding = _share(num_places - num_tokens, num_places)
    unknown = _share(contents.num_unknown, contents.num_words)
    predictions = [
        _row(
            "tokens to predict",
            predicted,
            f"{_share(predicted, num_tokens)} of tokens; "
            f"{predicted / num_records:.1f} a record of "
            f"{contents.max_predictions} at most",
        ),
        (
            "shown as",
            "",
            f"[MASK] {_share(contents.num_hidden, predicted)}, "
            f"themselves {_share(contents.num_same, predicted)}, "
            f"another {_share(contents.num_replaced, predicted)}",
        ),
    ]
    if not contents.max_predictions:
        predictions = [("tokens to predict", "", "drawn while training")]
    rows = [
        _row(
            "records",
            num_records,
            f"tokens: {lengths}, of {contents.seq_length}",
        ),
        _row(
            "without padding",
            contents.num_full,
            f"{full}; padding is {padding} of all tokens",
        ),
        _row_of("with a random next", contents.num_random_next, num_records),
        *predictions,
        _row(
            "unknown, [UNK]",
            contents.num_unknown,
            f"{unknown} of words' pieces",
        ),
        _row_of("same text as before", contents.num_repeated, num_records),
    ]
    return f"{title}\n{terminal.table(rows)}"


def sequences_section(
    title: str, lengths: np.ndarray, seq_length: int, labels: np.ndarray | None
) -> str:
    """Formats the statistics of records of fine-tuning.

    Args:
        title: names the records.
        lengths: `[R]`, tokens of each; `[R, C]` if each is a set of choices.
        seq_length: T.
        labels: `[R]` whole numbers, if each record has one.
    """
    num_full = int((lengths == seq_length).sum())
    summary = _summary(record_contents.summarize(lengths))
    tokens = f"tokens: {summary}, of {seq_length}"
    if lengths.ndim == 2:
        rows = [
            _row("records", len(lengths), f"choices: {lengths.shape[1]} each"),
            _row("sequences", lengths.size, tokens),
        ]
    else:
        rows = [_row("records", len(lengths), tokens)]
    full = f"{_share(num_full, lengths.size)}: most of them were cut to fit"
    rows.append(_row("without padding", num_full, full))
    if labels is not None:
        values, counts = np.unique(labels, return_counts=True)
        rows += [
            _row_of(f"label {value}", count, len(labels))
            for value, count in zip(
                values.tolist(), counts.tolist(), strict=True
            )
        ]
    return f"{title}\n{terminal.table(rows)}"


def _row(name: str, count: int, note: str) -> _Row:
    return name, f"{count:,}", note


def _row_of(name: str, count: int, total: int) -> _Row:
    return _row(name, count, _share(count, total))


def _share(part: float, whole: float) -> str:
    """Formats a share as a percentage; `-` of nothing."""
    return f"{100 * part / whole:.3g} %" if whole else "-"


def _summary(values: record_contents.Distribution) -> str:
    return (
        f"mean {values.mean:.1f}, median {values.median:.0f}, 95 % up to "
        f"{values.percentile_95:.0f}, largest {values.largest:.0f}"
    )


def _most_frequent(counted: Sequence[tuple[str, int]]) -> str:
    """Lists the first three texts with their counts, after a semicolon."""
    shown = [
        f"{messages.truncate(text, _MOST_CHARACTERS)} ({count:,})"
        for text, count in counted[:3]
    ]
    return f"; {', '.join(shown)}" if shown else ""


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
        has_colors: whether masked tokens are colored, or put in brackets.
    """
    styles = _COLOR_STYLES if has_colors else _PLAIN_STYLES

    def as_text(record: Mapping[str, np.ndarray]) -> str:
        pieces = record_contents.pieces(record, tokens)
        return record_contents.as_text(pieces, styles)

    parts = ["EXAMPLES\n"]
    if has_colors:
        parts.append(f"  ({_LEGEND})\n")
    for number, record in enumerate(records, start=1):
        start = f"  {number}.{_label(record)}"
        if record["input_ids"].ndim == 1:
            parts.append(f"{start} {as_text(record)}\n")
            continue
        parts.append(f"{start}\n")
        for choice, ids in enumerate(record["input_ids"]):
            mask = record["input_mask"][choice]
            text = as_text({"input_ids": ids, "input_mask": mask})
            parts.append(f"    {choice}: {text}\n")
    return "".join(parts)


def _label(record: Mapping[str, np.ndarray]) -> str:
    if "next_sentence_labels" in record:
        is_random = bool(record["next_sentence_labels"][0])
        return " (random next)" if is_random else " (true next)"
    if "label_ids" in record and record["label_ids"].size == 1:
        return f" (label {record['label_ids'].item()})"
    return ""


def warnings_section(warnings: Iterable[str]) -> str:
    """Lists warnings, one paragraph each, or that there are none."""
    return f"WARNINGS\n{terminal.paragraphs(warnings, '! ')}"
