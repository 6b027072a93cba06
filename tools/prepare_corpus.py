"""Turns raw text into the input of create_pretraining_data.py.

One sentence a line, an empty line between documents. For example:

  python -m tools.prepare_corpus \\
    --input_format=parquet --input_file='wikipedia/*.parquet' \\
    --output_file=wiki.txt --holdout_every=100 --holdout_file=wiki.heldout.txt
"""

import dataclasses
import time
from collections.abc import Iterator

from absl import logging

from commands import flags, program
from corpus import cleaning, formats, preparation
from files import destinations, locking, paths, progress


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this tool; see --help."""

    input_format: str = flags.Group.FILES.required(
        "; ".join(
            f"{name}: {form.about}" for name, form in formats.FORMATS.items()
        )
        + ".",
        choices=tuple(formats.FORMATS),
    )
    input_file: str | None = flags.Group.FILES.flag(
        None,
        "Raw text: globs, comma-separated; also .xz, .gz, .bz2 and .tar.*. "
        "None for python_docs.",
    )
    output_file: str = flags.Group.FILES.required(
        "Text file to write; OUT-%05d.txt says where its number goes."
    )
    num_output_files: int = flags.Group.FILES.flag(
        1, "Spread the documents over so many files, in turn.", lower_bound=1
    )
    holdout_every: int = flags.Group.FILES.flag(
        0,
        "Every Nth document goes to --holdout_file instead; 0 for none.",
        lower_bound=0,
    )
    holdout_file: str | None = flags.Group.FILES.flag(
        None, "Held-out text, for evaluation."
    )
    language: str = flags.Group.RAW_TEXT.flag(
        "en", "Language of the text, an ISO 639 code: how sentences end."
    )
    encoding: str = flags.Group.RAW_TEXT.flag(
        "utf-8", "Encoding of the input files."
    )
    text_field: str = flags.Group.RAW_TEXT.flag(
        "text",
        "Field or column with the text, for formats that have several.",
    )
    min_paragraph_words: int | None = flags.Group.RAW_TEXT.flag(
        None,
        "Drop shorter paragraphs: headings, items of lists. 8 by default for "
        "wikiextractor, mediawiki and wet, else 0.",
        lower_bound=0,
    )
    min_document_sentences: int = flags.Group.RAW_TEXT.flag(
        1, "Drop documents of fewer sentences.", lower_bound=1
    )
    min_document_characters: int = flags.Group.RAW_TEXT.flag(
        0, "Drop documents of fewer characters.", lower_bound=0
    )
    num_workers: int = flags.Group.SPEED.flag(
        0,
        "Processes; 0 for one per core. The output is the same.",
        lower_bound=0,
    )


def check(options: Options) -> list[str]:
    """Checks that the options agree, and finds the input files.

    Returns:
        The input files, none for python_docs.

    Raises:
        ValueError: two options contradict each other.
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


def run(options: Options) -> cleaning.Counts:
    """Prepares a corpus and logs what was kept and dropped.

    Returns:
        The counts of the whole text.

    Raises:
        ValueError: options, input or an empty result; says which.
    """
    input_paths = check(options)
    output_paths = preparation.output_paths(
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
    with locking.lock_outputs(output_paths, "output_file"):
        held_out = preparation.write_documents(
            _with_progress(batches, total),
            output_paths,
            options.holdout_file,
            options.holdout_every,
        )
    _log_totals(total, held_out, rules, time.monotonic() - start)
    destinations.warn_of_others(
        preparation.others(options.output_file, output_paths + holdout_paths)
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


def main(options: Options) -> None:
    """Runs the tool with its flags."""
    run(options)


if __name__ == "__main__":
    program.start(Options, main)
