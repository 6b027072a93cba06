"""Documents -> sentences, cleaned and counted, on all cores."""

import dataclasses
import functools
from collections.abc import Iterable, Iterator

from corpus import formats, sentences, workers

_BATCH_CHARACTERS = 1 << 20
_BATCHES_AHEAD = 16  # Enough for workers to hardly wait, and little memory.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rules:
    """What becomes of a document; every field is a plain value.

    Attributes:
        input_format: a key of `formats.FORMATS`.
        language: an ISO 639 code, for the splitting into sentences.
        min_paragraph_words: shorter paragraphs are dropped.
        min_document_sentences: shorter documents are dropped.
        min_document_characters: so are these.
    """

    input_format: str
    language: str = "en"
    min_paragraph_words: int = 0
    min_document_sentences: int = 1
    min_document_characters: int = 0


@dataclasses.dataclass(kw_only=True)
class Counts:
    """What came in, what was kept and what was dropped, by rule."""

    characters_read: int = 0
    documents: int = 0
    sentences: int = 0
    words: int = 0
    empty_paragraphs: int = 0
    short_paragraphs: int = 0
    letterless_sentences: int = 0
    short_documents: int = 0

    def add(self, other: "Counts") -> None:
        """Adds the counts of another part of the text."""
        for field in dataclasses.fields(self):
            total = getattr(self, field.name) + getattr(other, field.name)
            setattr(self, field.name, total)


def rules_of(
    input_format: str, language: str, min_paragraph_words: int | None
) -> Rules:
    """Makes the rules of a format.

    Args:
        input_format: a key of `formats.FORMATS`.
        language: an ISO 639 code.
        min_paragraph_words: None for the number that suits the format.
    """
    if min_paragraph_words is None:
        min_paragraph_words = formats.FORMATS[input_format].min_paragraph_words
    return Rules(
        input_format=input_format,
        language=language,
        min_paragraph_words=min_paragraph_words,
    )


def describe_dropped(counts: Counts, rules: Rules) -> str:
    """Says what was left out, by rule."""
    return (
        f"Dropped {counts.empty_paragraphs} paragraphs without text, "
        f"{counts.short_paragraphs} of fewer than "
        f"{rules.min_paragraph_words} words, {counts.letterless_sentences} "
        f"sentences without a letter, {counts.short_documents} documents of "
        f"fewer than {rules.min_document_sentences} sentences or "
        f"{rules.min_document_characters} characters."
    )


def prepare(
    documents: Iterable[formats.Document], rules: Rules, num_workers: int = 0
) -> Iterator[tuple[list[str], Counts]]:
    """Splits documents into sentences, in order, a batch at a time.

    Reading stays in this process; cleaning and splitting go to the workers.
    The output does not depend on their number.

    Args:
        documents: lists of paragraphs.
        rules: what is kept, and how it is split.
        num_workers: processes; 0 for one per core, 1 for none but this one.

    Yields:
        The documents kept of one batch, each its sentences one a line with a
        final line end, and the counts of that batch.
    """
    yield from workers.map_in_order(
        functools.partial(prepare_batch, rules),
        _batched(documents),
        num_workers,
        _BATCHES_AHEAD,
    )


def _batched(
    documents: Iterable[formats.Document],
) -> Iterator[list[formats.Document]]:
    batch, size = [], 0
    for document in documents:
        batch.append(document)
        size += sum(map(len, document))
        if size >= _BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def prepare_batch(
    rules: Rules, documents: list[formats.Document]
) -> tuple[list[str], Counts]:
    """Prepares some documents; see `prepare` for what comes back."""
    counts = Counts()
    texts = []
    for document in documents:
        lines = list(_sentences_of(document, rules, counts))
        text = "".join(line + "\n" for line in lines)
        if (
            len(lines) < max(rules.min_document_sentences, 1)
            or len(text) < rules.min_document_characters
        ):
            counts.short_documents += 1
            continue
        counts.documents += 1
        counts.sentences += len(lines)
        counts.words += text.count(" ") + len(lines)
        texts.append(text)
    return texts, counts


def _sentences_of(
    document: formats.Document, rules: Rules, counts: Counts
) -> Iterator[str]:
    form = formats.FORMATS[rules.input_format]
    for paragraph in document:
        counts.characters_read += len(paragraph) + 1
        cleaned = form.clean(paragraph)
        if not cleaned:
            counts.empty_paragraphs += 1
        elif len(cleaned.split()) < rules.min_paragraph_words:
            counts.short_paragraphs += 1
        elif form.is_split:
            yield " ".join(cleaned.split())
        else:
            for sentence in sentences.split_paragraph(cleaned, rules.language):
                # "* * *", "12.": nothing in it can be learnt.
                if any(map(str.isalpha, sentence)):
                    yield sentence
                else:
                    counts.letterless_sentences += 1
