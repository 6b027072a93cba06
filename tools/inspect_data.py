"""Inspects text or records before a model is trained on them.

Examples:

  python -m tools.inspect_data --vocab_file=vocab.txt --input_file=wiki.txt
  python -m tools.inspect_data --vocab_file=vocab.txt \\
    --record_file='wiki*.tfrecord' --num_examples=5

Text has the form of create_pretraining_data.py: one sentence a line, an empty
line between documents. The tool makes masked pairs of it as that program does
with the same --max_seq_length, --max_predictions_per_seq, --masked_lm_prob,
--do_whole_word_mask, --short_seq_prob and --random_seed, and reports the share
of random next sentences, truncation and masking. Records may be those of
pre-training or of fine-tuning.
"""

import collections
import dataclasses
import itertools
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from commands import flags, program
from corpus import text_statistics
from files import messages, paths, progress, writing
from tasks.masked_lm import (
    encoded_corpus,
    masked_pairs,
    record_contents,
)
from training import flags as training_flags
from training import record_files, records
from vocab import tokenization, word_memory

_DISPLAY = flags.Heading("Display")
_SPECIAL_TOKENS = ("[UNK]", "[CLS]", "[SEP]", "[MASK]")
_RECORDS_PER_BATCH = 256
# The kind of the records of `run_swag.py`, and their features per choice.
_CHOICES = "multiple choice"
_CHOICE_FEATURES = {"input_ids", "input_mask", "segment_ids"}

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
    "green: to predict, replaced by [MASK]; yellow: to predict, unchanged; "
    "red: replaced by another word (the original follows)"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(masked_pairs.PairOptions, training_flags.TokenizerOptions):
    """The flags of this tool; see --help."""

    input_file: str | None = flags.Group.FILES.optional(
        "Text to inspect: comma-separated paths or globs."
    )
    record_file: str | None = flags.Group.FILES.optional(
        "TFRecords to inspect: comma-separated paths or globs."
    )
    output_file: str | None = flags.Group.FILES.optional(
        "JSON file to write with the numbers."
    )
    max_documents: int = _DISPLAY.whole(
        20000, "Number of documents to inspect, from the start; 0 for all."
    )
    max_records: int = _DISPLAY.whole(
        10000, "Number of records to inspect, spread over the files; 0 for all."
    )
    num_examples: int = _DISPLAY.whole(3, "Number of records to show as words.")
    color: str = _DISPLAY.flag(
        "auto",
        "Color masked tokens; auto: in a terminal.",
        choices=progress.COLOR_CHOICES,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Findings:
    """Statistics of text or records.

    Attributes:
        sections: as text.
        numbers: as JSON.
        examples: records, arrays by feature.
        warnings: likely faults.
    """

    sections: Sequence[str]
    numbers: Mapping[str, Any]
    examples: Sequence[Mapping[str, np.ndarray]] = ()
    warnings: Sequence[str] = ()


def _inspect_text(
    names: Sequence[str],
    options: Options,
    tokenizer: tokenization.FullTokenizer,
) -> Findings:
    instance_options = flags.narrow(
        masked_pairs.InstanceOptions, options, dupe_factor=1
    )
    limit = options.max_documents or None

    def documents() -> Iterator[list[str]]:
        return itertools.islice(encoded_corpus.read_documents(names), limit)

    max_pieces = options.max_seq_length - masked_pairs.NUM_SPECIAL_TOKENS
    text = text_statistics.measure(documents(), tokenizer, max_pieces)
    if not text.num_sentences:
        raise ValueError(f"There must be text in {', '.join(names)}.")
    name = f"{options.input_file}"
    if limit and _has_more(names, limit):
        name += f" (the first {limit:,} documents)"
    memory = word_memory.WordMemory(options.vocab_file, options.do_lower_case)
    instances = masked_pairs.create_instances(
        encoded_corpus.encode_documents(documents(), memory.encode),
        encoded_corpus.vocabulary(tokenizer.vocab),
        instance_options,
        random.Random(options.random_seed),
    )
    pairs = _pretraining_findings(
        f"PAIRS from it (one pass, max_seq_length={options.max_seq_length})",
        instances.batches(),
        tokenizer,
        is_ours=True,
    )
    return Findings(
        sections=[_text_section(name, text), *pairs.sections],
        numbers={"text": dataclasses.asdict(text), **pairs.numbers},
        examples=_records(instances.features(0, options.num_examples)),
        warnings=[
            *text_statistics.warnings(
                text,
                max_seq_length=options.max_seq_length,
                do_lower_case=options.do_lower_case,
            ),
            *record_contents.prediction_warnings(instance_options),
            *pairs.warnings,
        ],
    )


def _has_more(names: Sequence[str], num_documents: int) -> bool:
    """Returns whether a text has more than so many documents."""
    rest = itertools.islice(
        encoded_corpus.read_documents(names), num_documents, None
    )
    return next(rest, None) is not None


def _pretraining_findings(
    title: str,
    batches: Iterable[Mapping[str, np.ndarray]],
    tokenizer: tokenization.FullTokenizer,
    *,
    is_ours: bool,
) -> Findings:
    """Measures records of pre-training, for faults unless they are ours."""
    contents = record_contents.measure(batches, tokenizer.vocab)
    warnings = [] if is_ours else record_contents.contents_warnings(contents)
    return Findings(
        sections=[_records_section(title, contents)],
        numbers={"records": dataclasses.asdict(contents)},
        warnings=warnings
        + record_contents.balance_warnings(
            contents.num_random_next, contents.num_records, contents.seq_length
        ),
    )


def _inspect_records(
    names: Sequence[str],
    options: Options,
    tokenizer: tokenization.FullTokenizer,
) -> Findings:
    files = record_files.RecordFiles(names)
    count = min(options.max_records or len(files), len(files))
    places = np.unique(np.linspace(0, len(files) - 1, count, dtype=np.int64))
    batches = list(_read_batches(files, places))
    title = f"RECORDS {options.record_file} ({len(places):,} of {len(files):,})"
    if "next_sentence_labels" in batches[0]:
        found = _pretraining_findings(title, batches, tokenizer, is_ours=False)
    else:
        found = _sequence_findings(title, batches)
    warnings = _vocabulary_warnings(options, names, tokenizer)
    return dataclasses.replace(
        found,
        examples=_records(batches[0])[: options.num_examples],
        warnings=[*warnings, *found.warnings],
    )


def _sequence_findings(
    title: str, batches: Sequence[Mapping[str, np.ndarray]]
) -> Findings:
    """Measures records of fine-tuning."""
    # [R], or [R, C] if each record is a set of choices.
    lengths = np.concatenate([b["input_mask"].sum(-1) for b in batches])
    seq_length = batches[0]["input_ids"].shape[-1]
    summary = record_contents.summarize(lengths)
    tokens = f"tokens: {_summary(summary)}, of {seq_length}"
    if lengths.ndim == 2:
        rows = [
            _row("records", len(lengths), f"choices: {lengths.shape[1]} each"),
            _row("sequences", lengths.size, tokens),
        ]
    else:
        rows = [_row("records", len(lengths), tokens)]
    num_full = int((lengths == seq_length).sum())
    cause = ", probably truncated or split" if num_full else ""
    rows.append(_row_of("without padding", num_full, lengths.size, cause))
    counts = collections.Counter(_labels(batches))
    rows += [
        _row_of(f"label {label}", counts[label], len(lengths))
        for label in sorted(counts)
    ]
    return Findings(
        sections=[f"{title}\n{messages.table(rows)}"],
        numbers={
            "num_records": len(lengths),
            "seq_length": seq_length,
            "lengths": dataclasses.asdict(summary),
            "num_full": num_full,
            "labels": dict(counts),
        },
    )


def _read_batches(
    files: record_files.RecordFiles, places: np.ndarray
) -> Iterator[dict[str, np.ndarray]]:
    import tensorflow as tf

    features = _common_features(files)
    for start in range(0, len(places), _RECORDS_PER_BATCH):
        chosen = places[start : start + _RECORDS_PER_BATCH].tolist()
        try:
            parsed = records.parse(tf.constant(files.read(chosen)), features)
        except tf.errors.InvalidArgumentError as error:
            raise ValueError(
                f"{files.name(chosen[0])} and those after it must have "
                f"the features of {files.name(int(places[0]))}; "
                f"{error.message}"
            ) from error
        yield {name: value.numpy() for name, value in parsed.items()}


def _common_features(files: record_files.RecordFiles) -> list[records.Feature]:
    """Reads the features of the first record of each file.

    Returns:
        The features that all files have.

    Raises:
        ValueError: files differ; the message names them and their features.
    """
    paths_of: dict[tuple[records.Feature, ...], list[str]] = {}
    place = 0
    for path, count in zip(files.paths, files.counts(), strict=True):
        if count:
            features = _features(files, place, path)
            paths_of.setdefault(tuple(features), []).append(path)
        place += count
    first, *others = paths_of
    if others:
        common = set(first).intersection(*others)
        described = "; ".join(
            f"{messages.names(of)}: "
            + ", ".join(
                f"{each.name} {list(each.shape)}"
                for each in features
                if each not in common
            )
            for features, of in paths_of.items()
        )
        raise ValueError(
            "Records that are inspected together must have the same features, "
            f"such as the length of sequences; got {described}. Inspect these "
            "files separately."
        )
    return list(first)


def _features(
    files: record_files.RecordFiles, place: int, path: str
) -> list[records.Feature]:
    """Reads the features of a record of a file, sorted by name."""
    import tensorflow as tf
    from google.protobuf import message

    example = tf.train.Example()
    try:
        example.ParseFromString(files.read([place])[0])
    except message.DecodeError as error:
        raise ValueError(
            f"{files.name(place)} must be a tf.train.Example ({error})."
        ) from error
    held = example.features.feature
    missing = {"input_ids", "input_mask"} - set(held)
    if missing:
        raise ValueError(
            f"{files.name(place)} must be a sequence of word ids; it lacks "
            f"{', '.join(sorted(missing))} and has {', '.join(sorted(held))}."
        )
    # The choices of a record are concatenated; the metadata has their length.
    metadata = records.read_metadata(path)

    def feature(name: str, value: Any) -> records.Feature:
        size = len(value.float_list.value or value.int64_list.value)
        shape: tuple[int, ...] = (size,)
        if metadata and metadata.kind == _CHOICES and name in _CHOICE_FEATURES:
            length = metadata.max_seq_length
            shape = (size // length, length)  # [C, T]
        dtype = "float32" if value.float_list.value else "int64"
        return records.Feature(name=name, shape=shape, dtype=dtype)

    return [
        feature(name, value)
        for name, value in sorted(held.items())
        if value.WhichOneof("kind") != "bytes_list"
    ]


def _records(batch: Mapping[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    count = len(batch["input_ids"])
    return [{name: v[row] for name, v in batch.items()} for row in range(count)]


def _labels(batches: Sequence[Mapping[str, np.ndarray]]) -> list[int]:
    """Lists the classes of all records; none if they have others."""
    first = batches[0].get("label_ids")
    if first is None or first.shape[1:] != (1,) or first.dtype.kind != "i":
        return []
    return [label for b in batches for label in b["label_ids"][:, 0].tolist()]


def _vocabulary_warnings(
    options: Options,
    names: Sequence[str],
    tokenizer: tokenization.FullTokenizer,
) -> list[str]:
    """Compares the vocabulary with the one in the metadata of the records."""
    ours = records.vocab_sha256(tokenizer.vocab)
    found = {name: records.read_metadata(name) for name in names}
    return [
        f"{name} was created with another vocabulary than {options.vocab_file} "
        "(see its .meta.json): the words shown are not its words."
        for name, metadata in found.items()
        if metadata is not None and metadata.vocab_sha256 != ours
    ]


# --------------------------------------------------------------------- Report


def _text_section(name: str, text: text_statistics.TextStatistics) -> str:
    sentences = _summary(text.sentences_per_document)
    pieces = _summary(text.pieces_per_sentence)
    cut = _share(text.num_cut, text.num_pieces)
    repeated = _most_frequent(text.repeated_lines)
    per_word = text.num_pieces / max(1, text.num_words)
    whole = _share(text.num_whole, text.num_words)
    unknown = _most_frequent(text.unknown_words)
    rows = [
        _row("documents", text.num_documents, f"sentences: {sentences}"),
        _row_of("of one sentence", text.num_single, text.num_documents),
        _row("sentences (lines)", text.num_sentences, f"pieces: {pieces}"),
        _row(
            "too long for a sequence",
            text.num_too_long,
            f"{cut} of all pieces are discarded",
        ),
        _row_of("repeated", text.num_repeated, text.num_sentences, repeated),
        _row(
            "words",
            text.num_words,
            f"{per_word:.3f} pieces each; one piece: {whole}",
        ),
        _row_of("unknown, [UNK]", text.num_unknown, text.num_words, unknown),
        _row_of(
            "capital letters",
            text.num_capitals,
            text.num_letters,
            " of letters",
        ),
    ]
    return f"TEXT {name}\n{messages.table(rows)}"


def _records_section(
    title: str, contents: record_contents.RecordContents
) -> str:
    num_records, predicted = contents.num_records, contents.num_predicted
    num_tokens = contents.lengths.mean * num_records
    num_places = num_records * contents.seq_length
    lengths = _summary(contents.lengths)
    padding = _share(num_places - num_tokens, num_places)
    predictions = [
        _row(
            "tokens to predict",
            predicted,
            f"{_share(predicted, num_tokens)} of tokens; "
            f"{predicted / num_records:.1f} per record, at most "
            f"{contents.max_predictions}",
        ),
        (
            "replacements",
            "",
            f"[MASK] {_share(contents.num_hidden, predicted)}, "
            f"unchanged {_share(contents.num_same, predicted)}, "
            f"another word {_share(contents.num_replaced, predicted)}",
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
        _row_of(
            "without padding",
            contents.num_full,
            num_records,
            f"; padding is {padding} of all tokens",
        ),
        _row_of("random next sentence", contents.num_random_next, num_records),
        *predictions,
        _row_of(
            "unknown, [UNK]",
            contents.num_unknown,
            contents.num_words,
            " of the pieces of words",
        ),
        _row_of("duplicates", contents.num_repeated, num_records),
    ]
    return f"{title}\n{messages.table(rows)}"


def _row(name: str, count: int, note: str) -> _Row:
    return name, f"{count:,}", note


def _row_of(name: str, count: int, total: int, more: str = "") -> _Row:
    return _row(name, count, _share(count, total) + more)


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


def _examples_section(
    records: Iterable[Mapping[str, np.ndarray]],
    tokens: Mapping[int, str],
    *,
    has_colors: bool,
) -> str:
    """Shows records as words; masked ones are colored, or put in brackets."""
    styles = _COLOR_STYLES if has_colors else _PLAIN_STYLES

    parts = ["EXAMPLES\n"]
    if has_colors:
        parts.append(f"  ({_LEGEND})\n")
    for number, record in enumerate(records, start=1):
        start = f"  {number}.{_label(record)}"
        if record["input_ids"].ndim == 1:
            text = record_contents.as_text(record, tokens, styles)
            parts.append(f"{start} {text}\n")
            continue
        parts.append(f"{start}\n")
        for choice, ids in enumerate(record["input_ids"]):
            row = {"input_ids": ids, "input_mask": record["input_mask"][choice]}
            text = record_contents.as_text(row, tokens, styles)
            parts.append(f"    {choice}: {text}\n")
    return "".join(parts)


def _label(record: Mapping[str, np.ndarray]) -> str:
    if "next_sentence_labels" in record:
        is_random = bool(record["next_sentence_labels"][0])
        return " (random next)" if is_random else " (true next)"
    if "label_ids" in record and record["label_ids"].size == 1:
        return f" (label {record['label_ids'].item()})"
    return ""


def run(options: Options) -> None:
    """Inspects data and writes a report to standard output.

    Raises:
        OSError: a file cannot be opened or written.
        ValueError: text and records are both given, or neither, or they are
            invalid.
    """
    if bool(options.input_file) == bool(options.record_file):
        raise ValueError("Pass one of --input_file and --record_file.")
    names = paths.expand(options.input_file or options.record_file or "")
    if options.output_file:
        writing.check_files([options.output_file], [*names, options.vocab_file])
    tokenizer = tokenization.FullTokenizer(
        options.vocab_file, options.do_lower_case
    )
    tokenizer.require_tokens(*_SPECIAL_TOKENS)
    inspect = _inspect_text if options.input_file else _inspect_records
    findings = inspect(names, options, tokenizer)
    warnings = [
        *record_contents.casing_warnings(
            tokenizer.vocab, do_lower_case=options.do_lower_case
        ),
        *findings.warnings,
    ]
    sections = list(findings.sections)
    if options.num_examples:
        has_colors = progress.has_colors(options.color, sys.stdout)
        sections.append(
            _examples_section(
                findings.examples, tokenizer.inv_vocab, has_colors=has_colors
            )
        )
    # One paragraph for each, or that there are none.
    sections.append(f"WARNINGS\n{messages.paragraphs(warnings, '! ')}")
    sys.stdout.write("\n".join(sections))
    if options.output_file:
        numbers = {**findings.numbers, "warnings": warnings}
        writing.write_json(options.output_file, numbers)


if __name__ == "__main__":
    program.start(Options, run)
