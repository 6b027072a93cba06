"""Inspects text or records before a model is pre-trained on them.

Examples:

  python -m tools.inspect_data --vocab_file=vocab.txt --input_file=wiki.txt
  python -m tools.inspect_data --vocab_file=vocab.txt \\
    --record_file='wiki*.tfrecord'

Text has the form of create_pretraining_data.py: one sentence per line, an empty
line between documents. Records are those that the program writes; those of
fine-tuning are shown as far as they are alike.
"""

import collections
import dataclasses
import itertools
import sys
from collections.abc import Mapping, Sequence

import numpy as np

from bert.commands import flags, program
from bert.files import messages, paths, tensorflow_start
from bert.models import flag_defaults
from bert.records import tfrecords
from bert.tasks.pretraining import encoded_corpus
from bert.training import options as training_options
from vocab import casing, tokenization

_NUM_SPECIAL_TOKENS = 3  # [CLS] A [SEP] B [SEP]
_MOST_UNKNOWN = 10
_MAX_DOCUMENTS = 20000  # The first ones are read.
_MAX_RECORDS = 10000  # Spread over the files.
_NUM_EXAMPLES = 3  # Records that are shown as words.
# Usual values are far below.
_MAX_SINGLE_SENTENCE_DOCUMENTS = 0.5
_MAX_UNKNOWN_WORDS = 0.01
_SINGLE = (
    "{:,} of {:,} documents are one line. An empty line ends a document, and "
    "each line is one sentence: python -m tools.prepare_corpus splits "
    "paragraphs into sentences."
)
_UNKNOWN = (
    "{:.1%} of the words become [UNK]: do vocabulary and casing match the "
    "language? python -m tools.extend_vocab adds words."
)

_Row = tuple[str, str, str]
_Record = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(training_options.TokenizerOptions):
    """The flags of this tool; see --help."""

    input_file: flags.Path | None = flags.Group.FILES.optional(
        "Text to inspect: comma-separated paths or globs."
    )
    record_file: flags.Path | None = flags.Group.FILES.optional(
        "TFRecords to inspect: comma-separated paths or globs."
    )
    max_seq_length: int = flags.redeclare(
        training_options.PretrainingOptions, "max_seq_length"
    )


def describe_text(
    documents: Sequence[Sequence[str]],
    tokenizer: tokenization.FullTokenizer,
    max_seq_length: int,
) -> tuple[list[_Row], list[str]]:
    """Describes a text.

    Args:
        documents: lists of sentences.
        tokenizer: of the model to be trained.
        max_seq_length: word pieces of a sequence.

    Returns:
        The rows of a table, and warnings.

    Raises:
        ValueError: there is no text.
    """
    unknown: collections.Counter[str] = collections.Counter()
    lengths: list[int] = []
    num_words = num_single = 0
    wordpiece = tokenizer.wordpiece_tokenizer
    for document in documents:
        num_before = len(lengths)
        for sentence in document:
            words = tokenizer.basic_tokenizer.tokenize(sentence)
            pieces = [wordpiece.tokenize(word) for word in words]
            num_words += len(words)
            for word, pieces_of_word in zip(words, pieces, strict=True):
                if pieces_of_word == [wordpiece.unk_token]:
                    unknown[word] += 1
            if words:
                lengths.append(sum(map(len, pieces)))
        num_single += len(lengths) == num_before + 1
    if not lengths:
        raise ValueError("There must be text with words; there is none.")
    num_unknown, room = unknown.total(), max_seq_length - _NUM_SPECIAL_TOKENS
    too_long = sum(length > room for length in lengths)
    rows = [
        _row("documents", len(documents)),
        _row("of one sentence", num_single, of=len(documents)),
        _row("sentences (lines)", len(lengths)),
        _row(f"of over {room} pieces", too_long, of=len(lengths)),
        _row("word pieces", sum(lengths), _lengths(lengths)),
        _row("words", num_words, f"{sum(lengths) / num_words:.2f} pieces each"),
        _row("unknown, [UNK]", num_unknown, of=num_words),
    ]
    if unknown:
        most = unknown.most_common(_MOST_UNKNOWN)
        shown = ", ".join(f"{word} ({count})" for word, count in most)
        rows.append(("most frequent [UNK]", "", shown))
    warnings = encoded_corpus.corpus_warnings(len(documents))
    if num_single > _MAX_SINGLE_SENTENCE_DOCUMENTS * len(documents):
        warnings.append(_SINGLE.format(num_single, len(documents)))
    if num_unknown > _MAX_UNKNOWN_WORDS * num_words:
        warnings.append(_UNKNOWN.format(num_unknown / num_words))
    return rows, warnings


def describe_records(
    records: Sequence[_Record], tokenizer: tokenization.FullTokenizer
) -> list[_Row]:
    """Describes records; returns the rows of a table."""
    lengths = [int(record["input_mask"].sum()) for record in records]
    seq_length = records[0]["input_mask"].size
    rows = [
        _row("records", len(records), f"of {seq_length} tokens"),
        _row("tokens", sum(lengths), _lengths(lengths)),
    ]
    if all("next_sentence_labels" in record for record in records):
        num_random = sum(int(r["next_sentence_labels"].sum()) for r in records)
        rows.append(_row("random next sentence", num_random, of=len(records)))
    if all("masked_lm_weights" in record for record in records):
        places = [
            record["masked_lm_positions"][record["masked_lm_weights"] > 0]
            for record in records
        ]
        shown = np.concatenate(
            [r["input_ids"][p] for r, p in zip(records, places, strict=True)]
        )
        num_hidden = int((shown == tokenizer.vocab["[MASK]"]).sum())
        rows += [
            _row("tokens to predict", len(shown), of=sum(lengths)),
            _row("shown as [MASK]", num_hidden, of=len(shown)),
        ]
    return rows


def as_text(record: Mapping[str, np.ndarray], tokens: Mapping[int, str]) -> str:
    """Formats the tokens of a record before masking, without padding.

    Tokens to predict are in brackets: `[MASK: word]` is hidden, `[same: word]`
    unchanged, and `[other: word]` shown as another word.

    Args:
        record: `input_ids` and `input_mask` `[T]`; `masked_lm_positions`,
            `masked_lm_ids` and `masked_lm_weights` `[P]`, if masked.
        tokens: tokens by id; unknown ids are shown as numbers.
    """

    def name(index: int) -> str:
        return tokens.get(index, f"[id {index}]")

    none = np.zeros(0, np.int64)
    is_real = record.get("masked_lm_weights", none) > 0
    places, labels = (
        record.get(name, none)[is_real].tolist()
        for name in ("masked_lm_positions", "masked_lm_ids")
    )
    answers = dict(zip(places, labels, strict=True))
    length = int(record["input_mask"].sum())
    parts: list[str] = []
    for place, index in enumerate(record["input_ids"][:length].tolist()):
        text = name(answers.get(place, index))
        is_piece = text.startswith("##") and text != "##"
        # Truncation can make a text begin in the middle of a word.
        if is_piece and parts and parts[-1] not in ("[CLS]", "[SEP]"):
            text = text.removeprefix("##")
        elif parts:
            parts.append(" ")
        if place in answers:
            shown = name(index)
            mark = "MASK" if shown == "[MASK]" else shown
            text = f"[{'same' if answers[place] == index else mark}: {text}]"
        parts.append(text)
    return "".join(parts)


def _row(name: str, count: int, note: str = "", *, of: int = 0) -> _Row:
    return name, f"{count:,}", f"{100 * count / of:.3g} %" if of else note


def _lengths(values: Sequence[int]) -> str:
    return f"mean {sum(values) / len(values):.1f}, longest {max(values)}"


def _read_records(names: Sequence[str], most: int) -> tuple[list[_Record], int]:
    tensorflow_start.load()
    import tensorflow as tf

    files = tfrecords.RecordFiles(names)
    count = min(most, len(files))
    places = np.linspace(0, len(files) - 1, count, dtype=np.int64).tolist()
    records: list[_Record] = []
    for place, content in zip(places, files.read(places), strict=True):
        features = tf.train.Example.FromString(content).features.feature
        missing = {"input_ids", "input_mask"} - set(features)
        if missing:
            raise ValueError(
                f"{files.name(place)} must be a sequence of word ids; it lacks "
                f"{', '.join(sorted(missing))}."
            )
        records.append(
            {
                name: np.array(
                    feature.int64_list.value or feature.float_list.value
                )
                for name, feature in features.items()
            }
        )
    return records, len(files)


def run(options: Options) -> None:
    """Inspects data and writes a report to standard output.

    Raises:
        OSError: a file cannot be opened.
        ValueError: text and records are both given, or neither, or they are
            invalid.
    """
    if bool(options.input_file) == bool(options.record_file):
        raise ValueError("Pass one of --input_file and --record_file.")
    names = paths.expand(options.input_file or options.record_file or "")
    options = flag_defaults.fill_vocabulary(options, flags.given())
    tokenizer = tokenization.FullTokenizer(
        options.vocab_file, options.do_lower_case, options.strip_accents
    )
    tokenizer.require_tokens("[UNK]", "[CLS]", "[SEP]", "[MASK]")
    warnings = casing.contradictions(
        tokenizer.vocab,
        do_lower_case=options.do_lower_case,
        strip_accents=options.strips_accents,
    )
    records: Sequence[_Record] = ()
    if options.input_file:
        documents = encoded_corpus.read_documents(names)
        kept = list(itertools.islice(documents, _MAX_DOCUMENTS))
        title = f"TEXT {options.input_file} ({len(kept):,} documents)"
        rows, text_warnings = describe_text(
            kept, tokenizer, options.max_seq_length
        )
        warnings += text_warnings
    else:
        records, total = _read_records(names, _MAX_RECORDS)
        title = f"RECORDS {options.record_file} ({len(records):,} of {total:,})"
        rows = describe_records(records, tokenizer)
    sys.stdout.write(f"{title}\n{messages.table(rows)}\n")
    for number, record in enumerate(records[:_NUM_EXAMPLES], start=1):
        text = as_text(record, tokenizer.inv_vocab)
        sys.stdout.write(f"  {number}. {text}\n\n")
    sys.stdout.write("WARNINGS\n")
    for text in [f"! {warning}" for warning in warnings] or ["none"]:
        sys.stdout.write(f"{messages.wrapped(f'  {text}', 79, '    ')}\n")


if __name__ == "__main__":
    program.start(Options, run)
