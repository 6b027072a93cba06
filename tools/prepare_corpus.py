"""Turns raw text into the input of create_pretraining_data.py.

One sentence per line, an empty line between documents. For example:

  python -m tools.prepare_corpus \\
    --input_format=parquet --input_file='wikipedia/*.parquet' \\
    --output_file=wiki.txt --holdout_every=100 --holdout_file=wiki.heldout.txt
"""

import contextlib
import dataclasses
from collections.abc import Generator

from absl import logging

from bert.commands import flags, program
from bert.corpus import format_checks, formats, preparation
from bert.files import locks, paths, progress, writing

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
    input_file: flags.Path = flags.Group.FILES.required(
        "Raw text, UTF-8: globs, comma-separated; also .xz, .gz and .bz2."
    )
    output_file: flags.Path = flags.Group.FILES.required(
        "Text file to write; OUT-%05d.txt for numbered files."
    )
    num_output_files: int = flags.Group.FILES.positive(
        1, "Number of files; documents are written to them in turn."
    )
    holdout_every: int = flags.Group.FILES.non_negative(
        0, "Write every Nth document to --holdout_file instead; 0 for none."
    )
    holdout_file: flags.Path | None = flags.Group.FILES.optional(
        "Held-out text, for evaluation."
    )

    def __post_init__(self) -> None:
        if self.holdout_every == 1:
            raise ValueError("holdout_every must be 0 or 2 or more; got 1.")
        if bool(self.holdout_every) != bool(self.holdout_file):
            raise ValueError(
                "--holdout_every and --holdout_file go together; got "
                f"{self.holdout_every} and {self.holdout_file!r}."
            )


def run(options: Options) -> None:
    """Prepares a corpus and logs what was kept and dropped.

    Raises:
        ValueError: the input is invalid, or the result is empty.
    """
    input_paths = paths.expand(options.input_file)
    output_paths = preparation.output_paths(
        options.output_file, options.num_output_files
    )
    holdout_paths = list(filter(None, [options.holdout_file]))
    writing.check_files(output_paths + holdout_paths, input_paths)
    if options.input_format == "text":
        for warning in format_checks.warnings(input_paths):
            logging.warning("%s", warning)
    rules = options.rules(options.input_format)
    total = preparation.Prepared()
    with (
        locks.lock_outputs(output_paths),
        # Closed after an error too: otherwise the worker processes may never
        # end.
        contextlib.closing(
            _texts(input_paths, rules, options.num_workers, total)
        ) as texts,
    ):
        try:
            written = preparation.write_documents(
                texts, output_paths, options.holdout_file, options.holdout_every
            )
        finally:
            logging.info("%s", preparation.describe_dropped(total.dropped))
    logging.info("%s", f"Wrote {written} of {total.num_documents} documents.")


def _texts(
    input_paths: list[str],
    rules: formats.Rules,
    num_workers: int,
    total: preparation.Prepared,
) -> Generator[str, None, None]:
    """Yields the texts of documents; adds the counts to `total`."""
    report = progress.Progress()
    for batch in preparation.prepare(
        formats.read_documents(input_paths, rules), rules, num_workers
    ):
        total.num_documents += batch.num_documents
        total.dropped.update(batch.dropped)
        yield from batch.texts
        report("documents", total.num_documents)


if __name__ == "__main__":
    program.start(Options, run)
