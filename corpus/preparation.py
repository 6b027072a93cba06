"""Cleaning and sentence splitting of documents, on all cores."""

import contextlib
import dataclasses
import functools
import itertools
import math
import os
import random
import re
from collections.abc import Callable, Iterable, Iterator

from commands import flags
from corpus import cleaning, formats
from files import processes, writing

_RAW_TEXT = flags.Heading("Raw text")
# The place of the file number in the name of an output file.
_PLACE = re.compile(r"(%(?:0\d+)?d)(?=[^/]*\Z)")
# Formats for which a flag has no effect.
_WITHOUT = {
    "language": ("text",),
    "encoding": ("parquet", "mediawiki", "wet", "python_docs"),
    "text_field": ("text", "mediawiki", "wet", "book", "python_docs"),
}
_BATCH_CHARACTERS = 1 << 20
_BATCHES_AHEAD = 16  # Keeps workers busy in little memory.


@dataclasses.dataclass(frozen=True, kw_only=True)
class RawTextOptions:
    """Flags of programs that read raw text, except input_format."""

    language: str = _RAW_TEXT.flag(
        "en", "Language for sentence splitting, an ISO 639 code."
    )
    encoding: str = _RAW_TEXT.flag("utf-8", "Encoding of raw text.")
    text_field: str = _RAW_TEXT.flag(
        "text", "Field or column with the text, for formats that have several."
    )
    min_paragraph_words: int | None = _RAW_TEXT.optional(
        "Drop paragraphs with fewer words, such as headings and list items. By "
        "default 8 for wikiextractor, mediawiki and wet, else 0.",
        lower_bound=0,
    )
    num_workers: int = flags.Group.SPEED.whole(
        0, "Processes; 0 for one per core. The output is the same."
    )

    def check_format(self, input_format: str, *unused: str) -> None:
        """Checks that all flags given have an effect for a format.

        Args:
            input_format: a key of `formats.FORMATS`.
            *unused: flags without an effect in this program.

        Raises:
            ValueError: a flag has none.
        """
        for field in dataclasses.fields(RawTextOptions):
            has_effect = (
                field.name not in unused
                and input_format not in _WITHOUT.get(field.name, ())
            )
            value = getattr(self, field.name)
            is_default = value == field.default or (
                field.name == "encoding" and value.lower() in ("utf-8", "utf8")
            )
            if not (has_effect or is_default):
                raise ValueError(
                    f"--{field.name} has no effect for "
                    f"--input_format={input_format}; got {value!r}."
                )

    def rules(self, input_format: str) -> formats.Rules:
        """Returns the rules for reading, cleaning and splitting the text.

        Raises:
            ValueError: Python does not support the encoding.
        """
        min_words = self.min_paragraph_words
        if min_words is None:
            min_words = formats.FORMATS[input_format].min_paragraph_words
        return flags.narrow(
            formats.Rules,
            self,
            input_format=input_format,
            min_paragraph_words=min_words,
        )


def describe_dropped(counts: cleaning.Counts, rules: formats.Rules) -> str:
    """Describes the dropped text and the reasons."""
    reasons = [
        f"{field.metadata['reason'].format_map(vars(rules))}: {number}"
        for field in dataclasses.fields(counts)
        if field.metadata and (number := getattr(counts, field.name))
    ]
    return f"Left out: {'; '.join(reasons) or 'nothing'}."


def prepare(
    documents: Iterable[formats.Document],
    rules: formats.Rules,
    num_workers: int = 0,
) -> Iterator[tuple[list[str], cleaning.Counts]]:
    """Splits documents into sentences, in order, a batch at a time.

    Reading stays in this process; cleaning and splitting run in the workers.
    The output does not depend on the number of workers.

    Args:
        documents: in input order.
        rules: for cleaning and splitting.
        num_workers: processes; 0 for one per core, 1 for this process only.

    Yields:
        The texts of a batch of kept documents, one sentence per line with a
        final newline, and the counts of that batch.
    """
    yield from processes.map_in_order(
        functools.partial(prepare_batch, rules),
        processes.batches(documents, _BATCH_CHARACTERS, _num_characters),
        num_workers,
        _BATCHES_AHEAD,
    )


def _num_characters(document: formats.Document) -> int:
    return sum(map(len, document.lines))


def prepare_batch(
    rules: formats.Rules, documents: Iterable[formats.Document]
) -> tuple[list[str], cleaning.Counts]:
    """Prepares a batch of documents; returns a pair as from `prepare`."""
    counts = cleaning.Counts()
    texts = []
    for document in documents:
        counts.documents_read += 1
        counts.characters_read += _num_characters(document)
        counts.characters_read += len(document.lines)
        text = _prepare_document(document, rules, counts)
        if text:
            texts.append(text)
    return texts, counts


def _prepare_document(
    document: formats.Document, rules: formats.Rules, counts: cleaning.Counts
) -> str:
    lines = cleaning.without_title(document.lines, document.title, counts)
    kept = list(_sentences_of(lines, rules, counts))
    text = "".join(f"{sentence}\n" for sentence in kept)
    if not kept:
        if any(map(str.strip, lines)):
            counts.emptied_documents += 1
        else:
            counts.empty_documents += 1
        return ""
    if (
        len(kept) < rules.min_document_sentences
        or len(text) < rules.min_document_characters
    ):
        counts.short_documents += 1
        counts.short_document_sentences += len(kept)
        return ""
    return text


def _sentences_of(
    lines: list[str], rules: formats.Rules, counts: cleaning.Counts
) -> Iterator[str]:
    form = formats.FORMATS[rules.input_format]
    for paragraph in form.paragraphs(lines, counts):
        if len(paragraph.split()) < rules.min_paragraph_words:
            counts.short_paragraphs += 1
        elif form.is_split:
            yield " ".join(paragraph.split())
        else:
            for sentence in cleaning.split_paragraph(paragraph, rules.language):
                # "* * *", "12.": no useful content.
                if any(map(str.isalpha, sentence)):
                    yield sentence
                else:
                    counts.letterless_sentences += 1


def output_paths(output_file: str, num_files: int) -> list[str]:
    """Names the output files.

    `%d` or `%05d` in the last part of the path is replaced by the number.
    Without it, a single file keeps its name, and several are named
    `OUT-00000.txt` and so on.

    Raises:
        ValueError: `num_files` is below 1, or the path has two placeholders.
    """
    if num_files < 1:
        raise ValueError(f"num_output_files must be 1 or more; got {num_files}")
    places = len(_PLACE.findall(output_file))
    if places > 1:
        raise ValueError(
            f"output_file must have at most one number; has {places}: "
            f"{output_file!r}."
        )
    if num_files == 1 and not places:
        return [output_file]
    before, place, after = _around_number(output_file)
    return [f"{before}{place % i}{after}" for i in range(num_files)]


def _around_number(output_file: str) -> list[str]:
    """Splits a path at the place of the number, by default at its suffix."""
    if not _PLACE.search(output_file):
        stem, suffix = os.path.splitext(output_file)
        output_file = f"{stem}-%05d{suffix}"
    return _PLACE.split(output_file)


def sample(
    read: Callable[[bool], Iterable[str]],
    copies: float,
    holdout_every: int,
    rng: random.Random,
) -> Iterator[tuple[str, bool]]:
    """Repeats or subsamples the documents of a text.

    A text is read once per copy, so that copies are far apart; in the last
    pass documents are drawn at random. Held-out documents are taken once.

    Args:
        read: returns the documents, identical in each pass; its argument is
            whether this is the first pass.
        copies: number of copies; 2.5 is two full passes and half of a third.
        holdout_every: N, to hold out every Nth document; 0 for none.
        rng: draws the documents of the last pass.

    Yields:
        A document, and whether it is held out.
    """
    copies = round(copies, 9)  # 1.0000000002 is 1.
    for num_before in range(math.ceil(copies)):
        for number, document in enumerate(read(num_before == 0), start=1):
            if holdout_every and number % holdout_every == 0:
                if num_before == 0:
                    yield document, True
            elif rng.random() < copies - num_before:
                yield document, False


@dataclasses.dataclass(kw_only=True)
class Written:
    """Totals of written documents, including held-out documents."""

    documents: int = 0
    held_out: int = 0
    sentences: int = 0
    words: int = 0


class TooFewDocumentsError(ValueError):
    """Fewer documents than files."""


def write_documents(
    documents: Iterable[tuple[str, bool]],
    names: list[str],
    holdout_path: str | None = None,
) -> Written:
    """Distributes documents over the files of `names` in turn.

    Each file appears under its name only when all are complete.

    Args:
        documents: pairs of text, one sentence per line with a final newline,
            and whether it is held out.
        names: the files; an empty line follows each document.
        holdout_path: file for held-out documents.

    Raises:
        TooFewDocumentsError: a file would stay empty.
    """
    counts = dict.fromkeys([*names, *filter(None, [holdout_path])], 0)
    total = Written()
    with contextlib.ExitStack() as stack:
        files = {
            path: stack.enter_context(writing.whole_file(path))
            for path in counts
        }
        turns = itertools.cycle(names)
        for document, is_held_out in documents:
            path = holdout_path if is_held_out else None
            path = path or next(turns)
            files[path].write(document + "\n")
            counts[path] += 1
            num_sentences = document.count("\n")
            total.documents += 1
            total.held_out += is_held_out
            total.sentences += num_sentences
            total.words += document.count(" ") + num_sentences
        empty = [path for path, count in counts.items() if not count]
        if empty:
            raise TooFewDocumentsError(
                f"{total.documents} documents are too few: "
                f"{', '.join(empty)} would be empty. Check the counts of "
                "dropped text, --num_output_files and --holdout_every."
            )
    return total
