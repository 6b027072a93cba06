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

from absl import flags

from commands import flag_groups, program
from commands import flags as flags_lib
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
    """What the flags say; see `define_flags` for each."""

    vocab_file: str
    input_file: str | None = None
    record_file: str | None = None
    do_lower_case: bool = True
    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    masked_lm_prob: float = 0.15
    short_seq_prob: float = 0.1
    do_whole_word_mask: bool = False
    random_seed: int = 12345
    max_documents: int = 20000
    max_records: int = 10000
    num_examples: int = 3
    color: str = "auto"
    output_file: str | None = None


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of this tool."""
    _define_file_flags(values)
    _define_text_flags(values)
    _define_pair_flags(values)
    _define_display_flags(values)


@flag_groups.under(flag_groups.Group.FILES)
def _define_file_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string(
        "input_file", Options.input_file,
        "Text to look at: comma-separated paths or globs.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_string(
        "record_file", Options.record_file,
        "TFRecords to look at: comma-separated paths or globs.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_string(
        "output_file", Options.output_file,
        "JSON file for the numbers, too.", flag_values=values)  # fmt: skip


@flag_groups.under(flag_groups.Group.TEXT)
def _define_text_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string(
        "vocab_file", None, "Vocabulary of the model.",
        required=True, flag_values=values)  # fmt: skip
    flags.DEFINE_bool(
        "do_lower_case", Options.do_lower_case,
        "Lower-case and strip accents, as the model's tokenizer does.",
        flag_values=values)  # fmt: skip


@flag_groups.under(flag_groups.Group.PAIRS)
def _define_pair_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_integer(
        "max_seq_length", Options.max_seq_length,
        "Of text: tokens per pair.", flag_values=values)  # fmt: skip
    flags.DEFINE_integer(
        "max_predictions_per_seq", Options.max_predictions_per_seq,
        "Of text: most tokens to predict per pair.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_float(
        "masked_lm_prob", Options.masked_lm_prob,
        "Of text: share of tokens to predict.", flag_values=values)  # fmt: skip
    flags.DEFINE_bool(
        "do_whole_word_mask", Options.do_whole_word_mask,
        "Of text: predict all pieces of a word together.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_float(
        "short_seq_prob", Options.short_seq_prob,
        "Of text: share of documents cut shorter.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_integer(
        "random_seed", Options.random_seed,
        "Of text: decides every random draw.", flag_values=values)  # fmt: skip


@flag_groups.under(flag_groups.Group.DISPLAY)
def _define_display_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_integer(
        "max_documents", Options.max_documents,
        "The first so many documents are looked at; 0 for all.",
        lower_bound=0, flag_values=values)  # fmt: skip
    flags.DEFINE_integer(
        "max_records", Options.max_records,
        "So many records, spread over the files, are looked at; 0 for all.",
        lower_bound=0, flag_values=values)  # fmt: skip
    flags.DEFINE_integer(
        "num_examples", Options.num_examples, "Records shown as words.",
        lower_bound=0, flag_values=values)  # fmt: skip
    flags.DEFINE_enum(
        "color", Options.color, terminal.COLOR_CHOICES,
        "Colour what is masked; auto: on a terminal.",
        flag_values=values)  # fmt: skip


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


def main(_: list[str]) -> None:
    """Runs the tool with its flags."""
    run(flags_lib.read(Options, flags.FLAGS), sys.stdout)


if __name__ == "__main__":
    program.start(define_flags, main)
