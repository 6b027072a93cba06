"""Cleaning and sentence splitting of documents, on all cores."""

import collections
import dataclasses
import functools
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping

from bert.commands import flags
from bert.corpus import cleaning, formats
from bert.files import processes, writing

_RAW_TEXT = flags.Heading("Raw text")
# The place of the file number in the name of an output file.
_PLACE = re.compile(r"(%(?:0\d+)?d)(?=[^/]*\Z)")
_BATCH_CHARACTERS = 1 << 20
_BATCHES_AHEAD = 16  # Keeps workers busy in little memory.


@dataclasses.dataclass(frozen=True, kw_only=True)
class RawTextOptions:
    """Flags of programs that read raw text, except input_format."""

    language: str = _RAW_TEXT.flag(
        "en", "Language for sentence splitting, an ISO 639 code."
    )
    text_field: str = _RAW_TEXT.flag(
        "text", "Field or column with the text, for formats that have several."
    )
    min_paragraph_words: int | None = _RAW_TEXT.optional(
        "Drop paragraphs with fewer words, and with few letters too, such as "
        "headings and list items. By default 8 for wikiextractor and "
        "mediawiki, else 0.",
        lower_bound=0,
    )
    num_workers: int = flags.Group.SPEED.non_negative(
        0, "Processes; 0 for one per core. The output is the same."
    )

    def rules(self, input_format: str) -> formats.Rules:
        """Returns the rules for reading, cleaning and splitting the text."""
        min_words = self.min_paragraph_words
        if min_words is None:
            min_words = formats.FORMATS[input_format].min_paragraph_words
        return flags.narrow(
            formats.Rules,
            self,
            input_format=input_format,
            min_paragraph_words=min_words,
        )


@dataclasses.dataclass(kw_only=True)
class Prepared:
    """Prepared documents, and counts of what was read.

    Attributes:
        texts: of kept documents, one sentence per line with a final newline.
        num_documents: of all that were read.
        dropped: what was dropped, by the words for it in the log.
    """

    texts: list[str] = dataclasses.field(default_factory=list)
    num_documents: int = 0
    dropped: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )


def describe_dropped(dropped: Mapping[str, int]) -> str:
    """Describes the dropped text and the reasons."""
    reasons = [f"{what}: {count}" for what, count in dropped.items() if count]
    return f"Left out: {'; '.join(sorted(reasons)) or 'nothing'}."


def prepare(
    documents: Iterable[formats.Document],
    rules: formats.Rules,
    num_workers: int = 0,
) -> Iterator[Prepared]:
    """Splits documents into sentences, in order, a batch at a time.

    Reading stays in this process; cleaning and splitting run in the workers.
    The output does not depend on the number of workers.

    Args:
        documents: in input order.
        rules: for cleaning and splitting.
        num_workers: processes; 0 for one per core, 1 for this process only.
    """
    yield from processes.map_in_order(
        functools.partial(prepare_batch, rules),
        processes.batches(
            documents,
            _BATCH_CHARACTERS,
            lambda document: sum(len(line) + 1 for line in document.lines),
        ),
        num_workers,
        _BATCHES_AHEAD,
    )


def prepare_batch(
    rules: formats.Rules, documents: Iterable[formats.Document]
) -> Prepared:
    """Prepares a batch of documents."""
    batch = Prepared()
    for document in documents:
        batch.num_documents += 1
        text = _prepare_document(document, rules, batch.dropped)
        if text:
            batch.texts.append(text)
    return batch


def _prepare_document(
    document: formats.Document,
    rules: formats.Rules,
    dropped: collections.Counter[str],
) -> str:
    lines = cleaning.without_title(document.lines, document.title, dropped)
    kept = list(_sentences_of(lines, rules, dropped))
    if not kept:
        has_text = any(map(str.strip, lines))
        cleaned = " after cleaning" if has_text else ""
        dropped[f"documents without text{cleaned}"] += 1
        return ""
    return "".join(f"{sentence}\n" for sentence in kept)


def _sentences_of(
    lines: list[str],
    rules: formats.Rules,
    dropped: collections.Counter[str],
) -> Iterator[str]:
    form = formats.FORMATS[rules.input_format]
    least = rules.min_paragraph_words
    for paragraph in form.paragraphs(lines, dropped):
        if cleaning.is_short(paragraph, least):
            dropped[f"paragraphs of fewer than {least} words"] += 1
        elif form.is_split:
            yield " ".join(paragraph.split())
        else:
            for sentence in cleaning.split_paragraph(paragraph, rules.language):
                # "* * *", "12.": no useful content.
                if any(map(str.isalpha, sentence)):
                    yield sentence
                else:
                    dropped["sentences without a letter"] += 1


def output_paths(output_file: str, num_files: int) -> list[str]:
    """Names the output files.

    `%d` or `%05d` in the last part of the path is replaced by the number.
    Without it, a single file keeps its name.

    >>> output_paths("wiki-%d.txt", 2)
    ['wiki-0.txt', 'wiki-1.txt']
    >>> output_paths("wiki.txt", 2)
    ['wiki-00000.txt', 'wiki-00001.txt']
    """
    if not _PLACE.search(output_file):
        if num_files == 1:
            return [output_file]
        stem, suffix = os.path.splitext(output_file)
        output_file = f"{stem}-%05d{suffix}"
    before, place, after = _PLACE.split(output_file, maxsplit=1)
    return [f"{before}{place % i}{after}" for i in range(num_files)]


def write_documents(
    documents: Iterable[str],
    names: list[str],
    holdout_path: str | None = None,
    holdout_every: int = 0,
) -> int:
    """Distributes documents over the files of `names` in turn.

    Each file appears under its name only when all are complete.

    Args:
        documents: one sentence per line with a final newline.
        names: the files; an empty line follows each document.
        holdout_path: file for held-out documents.
        holdout_every: N, to hold out every Nth document; 0 for none.

    Returns:
        The number of documents.

    Raises:
        ValueError: a file would stay empty, or there are more files than the
            system allows.
    """
    counts = dict.fromkeys([*names, *filter(None, [holdout_path])], 0)
    with writing.whole_files([*counts]) as opened:
        files = dict(zip(counts, opened, strict=True))
        turns = itertools.cycle(names)
        for number, document in enumerate(documents, start=1):
            is_held_out = bool(holdout_every) and number % holdout_every == 0
            path = holdout_path if is_held_out else None
            path = path or next(turns)
            files[path].write(document + "\n")
            counts[path] += 1
        total = sum(counts.values())
        empty = [path for path, count in counts.items() if not count]
        if empty:
            raise ValueError(
                f"{total} documents are too few: "
                f"{', '.join(empty)} would be empty. Pass a smaller "
                "--num_output_files or --holdout_every. The log counts the "
                "dropped text."
            )
    return total
