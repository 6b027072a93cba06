"""Looks at text, or at records, before a model is trained on them.

Examples:

  python -m tools.inspect_data --vocab_file=vocab.txt --input_file=wiki.txt
  python -m tools.inspect_data --vocab_file=vocab.txt \\
    --record_file='wiki*.tfrecord' --num_examples=5

Text is what create_pretraining_data.py takes: one sentence a line, an empty
line between documents. It is cut into masked pairs as that program would do
with the same flags, so that the balance of next sentences, truncation and
masking are seen before records are made. Records may be those of pre-training
or of sentences with labels.
"""

import dataclasses
import itertools
import random
import sys
from collections.abc import Iterator
from typing import IO

from commands import flags, program
from corpus import text_statistics
from files import destinations, paths, writing
from tasks.masked_lm import (
    data_warnings,
    encoded_corpus,
    fast_masked_pairs,
    masked_pairs,
    record_contents,
)
from tools import (
    inspected_records,
    inspection_report,
    terminal,
)
from vocab import tokenization, word_memory

_NUM_SPECIAL_TOKENS = 3
_SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this tool; see --help."""

    input_file: str | None = flags.flag(
        None,
        "Text to look at: comma-separated paths or globs.",
        flags.Group.FILES,
    )
    record_file: str | None = flags.flag(
        None,
        "TFRecords to look at: comma-separated paths or globs.",
        flags.Group.FILES,
    )
    output_file: str | None = flags.flag(
        None, "JSON file for the numbers, too.", flags.Group.FILES
    )
    vocab_file: str = flags.required(
        "Vocabulary of the model.", flags.Group.TEXT
    )
    do_lower_case: bool = flags.flag(
        True,
        "Lower-case and strip accents, as the model's tokenizer does.",
        flags.Group.TEXT,
    )
    max_seq_length: int = flags.flag(
        128, "Of text: tokens per pair.", flags.Group.PAIRS
    )
    max_predictions_per_seq: int = flags.flag(
        20, "Of text: most tokens to predict per pair.", flags.Group.PAIRS
    )
    masked_lm_prob: float = flags.flag(
        0.15, "Of text: share of tokens to predict.", flags.Group.PAIRS
    )
    do_whole_word_mask: bool = flags.flag(
        False,
        "Of text: predict all pieces of a word together.",
        flags.Group.PAIRS,
    )
    short_seq_prob: float = flags.flag(
        0.1, "Of text: share of documents cut shorter.", flags.Group.PAIRS
    )
    random_seed: int = flags.flag(
        12345, "Of text: decides every random draw.", flags.Group.PAIRS
    )
    max_documents: int = flags.flag(
        20000,
        "The first so many documents are looked at; 0 for all.",
        flags.Group.DISPLAY,
        lower_bound=0,
    )
    max_records: int = flags.flag(
        10000,
        "So many records, spread over the files, are looked at; 0 for all.",
        flags.Group.DISPLAY,
        lower_bound=0,
    )
    num_examples: int = flags.flag(
        3, "Records shown as words.", flags.Group.DISPLAY, lower_bound=0
    )
    color: str = flags.flag(
        "auto",
        "Colour what is masked; auto: on a terminal.",
        flags.Group.DISPLAY,
        choices=terminal.COLOR_CHOICES,
    )


def inspect_text(
    options: Options, tokenizer: tokenization.FullTokenizer
) -> inspection_report.Finding:
    """Looks at text, and at the pairs that would be made of it.

    Raises:
        OSError: a file cannot be opened.
        ValueError: a file holds no text, or an option is impossible.
    """
    instance_options = _instance_options(options)
    names = paths.expand(options.input_file)

    def documents() -> Iterator[list[str]]:
        limit = options.max_documents or None
        return itertools.islice(encoded_corpus.read_documents(names), limit)

    text = text_statistics.measure(
        documents(), tokenizer, options.max_seq_length - _NUM_SPECIAL_TOKENS
    )
    if not text.num_sentences:
        raise ValueError(f"There must be text in {', '.join(names)}.")
    memory = word_memory.WordMemory(options.vocab_file, options.do_lower_case)
    instances = fast_masked_pairs.create_instances(
        encoded_corpus.encode_documents(documents(), memory.encode),
        encoded_corpus.vocabulary(tokenizer.vocab),
        instance_options,
        random.Random(options.random_seed),
    )
    contents = record_contents.measure(
        instances.batches(), record_contents.special_ids(tokenizer.vocab)
    )
    return inspection_report.Finding(
        sections=[
            inspection_report.text_section(
                _name_of_text(options, text.num_documents), text
            ),
            inspection_report.records_section(
                f"PAIRS of it (one pass, max_seq_length="
                f"{options.max_seq_length})",
                contents,
            ),
        ],
        numbers={
            "text": dataclasses.asdict(text),
            "records": dataclasses.asdict(contents),
        },
        examples=inspected_records.rows(
            instances.features(0, options.num_examples)
        ),
        warnings=[
            *_warnings_of_text(options, text),
            *data_warnings.prediction_warnings(instance_options),
            *data_warnings.balance_warnings(
                contents.num_random_next,
                contents.num_records,
                options.max_seq_length,
            ),
        ],
    )


def _name_of_text(options: Options, num_documents: int) -> str:
    if num_documents != options.max_documents:
        return options.input_file
    return f"{options.input_file} (the first {num_documents:,} documents)"


def _instance_options(options: Options) -> masked_pairs.InstanceOptions:
    return masked_pairs.InstanceOptions(
        max_seq_length=options.max_seq_length,
        max_predictions_per_seq=options.max_predictions_per_seq,
        masked_lm_prob=options.masked_lm_prob,
        short_seq_prob=options.short_seq_prob,
        do_whole_word_mask=options.do_whole_word_mask,
        dupe_factor=1,
    )


def _warnings_of_text(options, text) -> list[str]:
    return [
        *data_warnings.corpus_warnings(text.num_documents),
        *data_warnings.document_warnings(text.num_single, text.num_documents),
        *data_warnings.sentence_warnings(
            text.pieces_per_sentence.median, options.max_seq_length
        ),
        *data_warnings.word_warnings(
            text.num_words, text.num_pieces, text.num_unknown
        ),
        *data_warnings.case_warnings(
            text.num_capitals,
            text.num_letters,
            do_lower_case=options.do_lower_case,
        ),
        *data_warnings.repetition_warnings(
            text.num_repeated, text.num_sentences
        ),
    ]


def run(options: Options, output: IO[str]) -> None:
    """Looks at data and tells what was found.

    Raises:
        OSError: a file cannot be opened or written.
        ValueError: not one of text and records is named, or they cannot be
            read.
    """
    if bool(options.input_file) == bool(options.record_file):
        raise ValueError("Pass one of --input_file and --record_file.")
    if options.output_file:
        read = paths.expand(options.input_file or options.record_file)
        destinations.check_files(
            [options.output_file], [*read, options.vocab_file]
        )
    tokenizer = tokenization.FullTokenizer(
        options.vocab_file, options.do_lower_case
    )
    tokenizer.require_tokens(*_SPECIAL_TOKENS)
    look = inspect_text if options.input_file else inspected_records.look
    found = look(options, tokenizer)
    has_colors = terminal.has_colors(options.color, output)
    warnings = [
        *data_warnings.casing_warnings(
            tokenizer.vocab, do_lower_case=options.do_lower_case
        ),
        *found.warnings,
    ]
    sections = list(found.sections)
    if options.num_examples:
        sections.append(
            inspection_report.examples_section(
                found.examples, tokenizer.inv_vocab, has_colors=has_colors
            )
        )
    sections.append(inspection_report.warnings_section(warnings))
    output.write("\n".join(sections))
    if options.output_file:
        numbers = {**found.numbers, "warnings": warnings}
        writing.write_json(options.output_file, numbers)


def main(options: Options) -> None:
    """Runs the tool with its flags."""
    run(options, sys.stdout)


if __name__ == "__main__":
    program.start(Options, main)
