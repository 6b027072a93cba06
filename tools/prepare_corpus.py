"""Turns raw text into the input of create_pretraining_data.py.

One sentence a line, an empty line between documents. For example:

  python -m tools.prepare_corpus \\
    --input_format=wikiextractor --input_file='extracted/*/wiki_*' \\
    --output_file=wiki.txt --holdout_every=100 --holdout_file=wiki.heldout.txt
"""

import dataclasses
import time
from collections.abc import Iterator

from absl import flags, logging

from commands import flag_groups, program
from commands import flags as flags_lib
from files import destinations, paths, progress

_FORMATS = ["text", "wikiextractor", "jsonl", "book", "python_docs"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What the flags say; see `define_flags` for each."""

    input_format: str
    output_file: str
    input_file: str | None = None
    num_output_files: int = 1
    holdout_every: int = 0
    holdout_file: str | None = None
    language: str = "en"
    encoding: str = "utf-8"
    text_field: str = "text"
    min_paragraph_words: int | None = None
    min_document_sentences: int = 1
    min_document_characters: int = 0
    num_workers: int = 0


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of this tool."""
    _define_file_flags(values)
    _define_raw_text_flags(values)
    _define_speed_flags(values)


@flag_groups.under(flag_groups.Group.FILES)
def _define_file_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_enum(
        "input_format", None, _FORMATS,
        "text: a sentence a line, an empty line between documents; "
        "wikiextractor: <doc ...> to </doc>, or its --json; jsonl: an object "
        "a line; book: each file one book; python_docs: the documentation in "
        "this Python.",
        required=True, flag_values=values)  # fmt: skip
    flags.DEFINE_string(
        "input_file", None,
        "Raw text: globs, comma-separated; also .xz, .gz, .bz2 and .tar.*. "
        "None for python_docs.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_string(
        "output_file", None,
        "Text file to write; OUT-%05d.txt says where its number goes.",
        required=True, flag_values=values)  # fmt: skip
    flags.DEFINE_integer(
        "num_output_files", Options.num_output_files,
        "Spread the documents over so many files, in turn.",
        lower_bound=1, flag_values=values)  # fmt: skip
    flags.DEFINE_integer(
        "holdout_every", Options.holdout_every,
        "Every Nth document goes to --holdout_file instead; 0 for none.",
        lower_bound=0, flag_values=values)  # fmt: skip
    flags.DEFINE_string(
        "holdout_file", None, "Held-out text, for evaluation.",
        flag_values=values)  # fmt: skip


@flag_groups.under(flag_groups.Group.RAW_TEXT)
def _define_raw_text_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string(
        "language", Options.language,
        "Language of the text, an ISO 639 code: how sentences end.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_string(
        "encoding", Options.encoding, "Encoding of the input files.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_string(
        "text_field", Options.text_field, "jsonl: the field with the text.",
        flag_values=values)  # fmt: skip
    flags.DEFINE_integer(
        "min_paragraph_words", None,
        "Drop shorter paragraphs: headings, items of lists. 8 by default for "
        "wikiextractor, else 0.",
        lower_bound=0, flag_values=values)  # fmt: skip
    flags.DEFINE_integer(
        "min_document_sentences", Options.min_document_sentences,
        "Drop documents of fewer sentences.",
        lower_bound=1, flag_values=values)  # fmt: skip
    flags.DEFINE_integer(
        "min_document_characters", Options.min_document_characters,
        "Drop documents of fewer characters.",
        lower_bound=0, flag_values=values)  # fmt: skip


@flag_groups.under(flag_groups.Group.SPEED)
def _define_speed_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_integer(
        "num_workers", Options.num_workers,
        "Processes; 0 for one per core. The output is the same.",
        lower_bound=0, flag_values=values)  # fmt: skip


def check(options: Options) -> list[str]:
    """Checks that the options agree, and finds the input files.

    Returns:
        The input files, none for python_docs.

    Raises:
        ValueError: what must hold, and what came.
    """
    if options.holdout_every == 1:
        raise ValueError("holdout_every must be 0 or 2 or more; got 1.")
    if bool(options.holdout_every) != bool(options.holdout_file):
        raise ValueError(
            "--holdout_every and --holdout_file go together; got "
            f"{options.holdout_every} and {options.holdout_file!r}."
        )
    if options.input_format == "python_docs":
        if options.input_file:
            raise ValueError("python_docs reads no --input_file.")
        return []
    if not options.input_file:
        raise ValueError(
            f"--input_format={options.input_format} needs --input_file."
        )
    return paths.expand(options.input_file)


def run(options: Options):
    """Prepares a corpus and logs what was kept and dropped.

    Returns:
        The `corpus.cleaning.Counts` of the whole text.

    Raises:
        ValueError: options, input or an empty result; says which.
    """
    from corpus import cleaning, formats, preparation, shards

    input_paths = check(options)
    output_paths = shards.output_paths(
        options.output_file, options.num_output_files
    )
    holdout_paths = list(filter(None, [options.holdout_file]))
    destinations.check_files(output_paths + holdout_paths, input_paths)
    rules = preparation.rules_of(
        options.input_format,
        options.min_paragraph_words,
        language=options.language,
        min_document_sentences=options.min_document_sentences,
        min_document_characters=options.min_document_characters,
    )
    documents = formats.read_documents(
        options.input_format,
        input_paths,
        formats.ReadOptions(
            encoding=options.encoding, text_field=options.text_field
        ),
    )
    logging.info("%d input files; %s", len(input_paths), rules)
    total = cleaning.Counts()
    batches = preparation.prepare(documents, rules, options.num_workers)
    start = time.monotonic()
    held_out = shards.write_documents(
        _with_progress(batches, total),
        output_paths,
        options.holdout_file,
        options.holdout_every,
    )
    _log_totals(total, held_out, rules, time.monotonic() - start)
    destinations.warn_of_others(
        shards.others(options.output_file, output_paths + holdout_paths)
    )
    return total


def _with_progress(batches, total) -> Iterator[str]:
    """Yields the documents of all batches; logs every few seconds."""
    report = progress.Progress()
    for texts, counts in batches:
        total.add(counts)
        yield from texts
        report(
            "documents",
            total.documents_read,
            detail=f"{total.characters_read / 1e6:,.0f} MB of text",
        )


def _log_totals(total, held_out: int, rules, seconds: float) -> None:
    from corpus import preparation

    logging.info(
        "Wrote %d of %d documents (%d of them held out), %d sentences, "
        "%d words, from %.1f MB of text in %.1f s.",
        total.documents,
        total.documents_read,
        held_out,
        total.sentences,
        total.words,
        total.characters_read / 1e6,
        seconds,
    )
    logging.info("%s", preparation.describe_dropped(total, rules))


def main(_: list[str]) -> None:
    """Runs the tool with its flags."""
    run(flags_lib.read(Options, flags.FLAGS))


if __name__ == "__main__":
    program.start(define_flags, main)
