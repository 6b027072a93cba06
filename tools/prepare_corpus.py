"""Turns raw text into the input of create_pretraining_data.py.

One sentence a line, an empty line between documents. For example:

  python -m tools.prepare_corpus \\
    --input_format=parquet --input_file='wikipedia/*.parquet' \\
    --output_file=wiki.txt --holdout_every=100 --holdout_file=wiki.heldout.txt
"""

import contextlib
import dataclasses
import functools
import random
import time
from collections.abc import Generator, Iterator

from absl import logging

from commands import flags, program
from corpus import cleaning, formats, preparation
from files import locking, paths, progress, writing
from vocab import learning

_RAW_TEXT = flags.Heading("Raw text")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(preparation.RawTextOptions):
    """The flags of this tool; see --help."""

    input_format: str = flags.Group.FILES.required(
        "; ".join(
            f"{name}: {form.about}" for name, form in formats.FORMATS.items()
        )
        + ".",
        choices=tuple(formats.FORMATS),
    )
    input_file: str | None = flags.Group.FILES.optional(
        "Raw text: globs, comma-separated; also .xz, .gz, .bz2 and .tar.*. "
        "None for python_docs."
    )
    output_file: str = flags.Group.FILES.required(
        "Text file to write; OUT-%05d.txt for numbered files."
    )
    num_output_files: int = flags.Group.FILES.count(
        1, "Number of files; documents are written to them in turn."
    )
    holdout_every: int = flags.Group.FILES.whole(
        0, "Write every Nth document to --holdout_file instead; 0 for none."
    )
    holdout_file: str | None = flags.Group.FILES.optional(
        "Held-out text, for evaluation."
    )
    min_document_sentences: int = _RAW_TEXT.count(
        1, "Drop documents of fewer sentences."
    )
    min_document_characters: int = _RAW_TEXT.whole(
        0, "Drop documents of fewer characters."
    )
    language_exponent: float | None = _RAW_TEXT.optional(
        "Sample the text of each language by its share to this power, 0.7 for "
        "multilingual BERT; --input_file=en=FILES,is=FILES then gives the "
        "--language of each file.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    random_seed: int = _RAW_TEXT.flag(
        12345, "Seed for sampling with --language_exponent."
    )


def check(options: Options) -> dict[str, list[str]]:
    """Checks the options against each other, and finds the input files.

    Returns:
        The input files of each language, none for python_docs.

    Raises:
        ValueError: two options contradict each other.
    """
    options.check_format(options.input_format)
    if options.holdout_every == 1:
        raise ValueError("holdout_every must be 0 or 2 or more; got 1.")
    if bool(options.holdout_every) != bool(options.holdout_file):
        raise ValueError(
            "--holdout_every and --holdout_file go together; got "
            f"{options.holdout_every} and {options.holdout_file!r}."
        )
    if options.input_format == "python_docs":
        if options.input_file or options.language_exponent is not None:
            raise ValueError(
                "python_docs reads no --input_file, and has no "
                "--language_exponent."
            )
        return {options.language: []}
    if not options.input_file:
        raise ValueError(
            f"--input_format={options.input_format} needs --input_file."
        )
    if options.language_exponent is not None:
        return learning.files_of_languages(options.input_file)
    return {options.language: paths.expand(options.input_file)}


def run(options: Options) -> preparation.Written:
    """Prepares a corpus and logs what was kept and dropped.

    Raises:
        ValueError: an option or the input is invalid, or the result is empty.
    """
    files = check(options)
    input_paths = [name for names in files.values() for name in names]
    output_paths = preparation.output_paths(
        options.output_file, options.num_output_files
    )
    holdout_paths = list(filter(None, [options.holdout_file]))
    writing.check_files(output_paths + holdout_paths, input_paths)
    rules = options.rules(options.input_format)
    logging.debug("%d input files; %s", len(input_paths), rules)
    total = cleaning.Counts()
    start = time.monotonic()
    with (
        locking.lock_outputs(output_paths),
        # After an error too: otherwise the worker processes may never end.
        contextlib.closing(
            _documents(options, files, rules, total)
        ) as documents,
    ):
        try:
            written = preparation.write_documents(
                documents, output_paths, options.holdout_file
            )
        except preparation.TooFewDocumentsError:
            progress.log_paragraph(preparation.describe_dropped(total, rules))
            raise
    progress.log_paragraph(
        f"Wrote {written.documents} of {total.documents_read} documents "
        f"({written.held_out} held out): {written.sentences} sentences, "
        f"{written.words} words ({total.characters_read / 1e6:.1f} MB, "
        f"{time.monotonic() - start:.1f} s)."
    )
    progress.log_paragraph(preparation.describe_dropped(total, rules))
    return written


def _documents(
    options: Options,
    files: dict[str, list[str]],
    rules: formats.Rules,
    total: cleaning.Counts,
) -> Generator[tuple[str, bool], None, None]:
    """Yields the documents of each language in turn, prepared and sampled."""
    copies = dict.fromkeys(files, 1.0)
    report = progress.Progress()
    if options.language_exponent is not None:
        sizes = {
            language: _measure(
                language, formats.read_documents(names, rules), report
            )
            for language, names in files.items()
        }
        copies = learning.copies_of_languages(sizes, options.language_exponent)
        for text in learning.describe_languages(
            sizes, options.language_exponent
        ):
            logging.info("%s", text)
    for language, names in files.items():
        read = functools.partial(
            _prepared,
            options,
            names,
            dataclasses.replace(rules, language=language),
            total,
            report,
        )
        rng = random.Random(f"{options.random_seed} {language}")
        yield from preparation.sample(
            read, copies[language], options.holdout_every, rng
        )


def _measure(language: str, documents, report) -> int:
    num_characters = 0
    for document in documents:
        num_characters += sum(map(len, document.lines))
        report("characters", num_characters, detail=language)
    return num_characters


def _prepared(
    options: Options,
    names: list[str],
    rules: formats.Rules,
    total: cleaning.Counts,
    report: progress.Progress,
    is_first: bool,
) -> Iterator[str]:
    """Yields documents; counts them the first time; logs every few seconds."""
    for texts, counts in preparation.prepare(
        formats.read_documents(names, rules), rules, options.num_workers
    ):
        if is_first:
            total.add(counts)
        yield from texts
        report(
            "documents",
            total.documents_read,
            detail=f"{total.characters_read / 1e6:,.0f} MB of text",
        )


if __name__ == "__main__":
    program.start(Options, run)
