"""Cleaning of raw text: removal of markup, licences and code, counted.

Each input format names one function of this module, or of its own module:
the lines of a document -> its paragraphs. What a function leaves out, it adds
to the `Counts`.
"""

import dataclasses
import html
import re
from collections.abc import Iterable, Iterator

from corpus import sentences

_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
# What templates, tables and links leave behind at the start of a line.
_WIKI_RESIDUE = ("|", "!", "{", "}", "#", "<", "[[")
# JSON can hold half of a character of UTF-16, which no UTF-8 file can.
_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"  # The tokenizer drops it.
# Lines such as "*** START OF THE PROJECT GUTENBERG EBOOK EMMA ***"; a long
# title runs over several.
_MARK = re.compile(r"\s*\*\*\*\s?(START|END) OF (THE|THIS) PROJECT GUTENBERG")
_MAX_MARK_LINES = 4


def _dropped(reason: str) -> int:
    return dataclasses.field(default=0, metadata={"reason": reason})


@dataclasses.dataclass(kw_only=True)
class Counts:
    """Sums over a text: what was read, and what of it was left out.

    Attributes:
        characters_read: of all documents; a line end counts as one.
        documents_read: kept or not.

    The other fields have the reason in their metadata, with the names of
    `preparation.Rules` in braces.
    """

    characters_read: int = 0
    documents_read: int = 0
    titles: int = _dropped("titles")
    licence_lines: int = _dropped("lines of a licence")
    tags: int = _dropped("tags")
    half_characters: int = _dropped("halves of characters (now U+FFFD)")
    markup_paragraphs: int = _dropped("paragraphs of left-over markup")
    code_blocks: int = _dropped("blocks of code")
    fragments: int = _dropped("paragraphs that are no sentences")
    empty_paragraphs: int = _dropped("paragraphs without text")
    short_paragraphs: int = _dropped(
        "paragraphs of fewer than {min_paragraph_words} words"
    )
    letterless_sentences: int = _dropped("sentences without a letter")
    empty_documents: int = _dropped("documents without text")
    emptied_documents: int = _dropped("documents without text after that")
    short_documents: int = _dropped(
        "documents of fewer than {min_document_sentences} sentences or "
        "{min_document_characters} characters"
    )
    short_document_sentences: int = _dropped("sentences in these")

    def add(self, other: "Counts") -> None:
        """Adds the counts of another part of the text."""
        for field in dataclasses.fields(self):
            total = getattr(self, field.name) + getattr(other, field.name)
            setattr(self, field.name, total)


def without_title(
    lines: list[str], title: str | None, counts: Counts
) -> list[str]:
    """Drops a first line that is the title of the document."""
    if lines and title is not None and _same(lines[0], title):
        counts.titles += 1
        return lines[1:]
    return lines


def _same(line: str, title: str) -> bool:
    return html.unescape(line).strip() == html.unescape(title).strip() != ""


def plain_paragraphs(lines: Iterable[str], counts: Counts) -> Iterator[str]:
    """Yields each line that is not blank, as it is."""
    for line in lines:
        stripped = line.strip()
        if stripped and not stripped.isascii():
            stripped, num_replaced = _SURROGATE.subn(_REPLACEMENT, stripped)
            counts.half_characters += num_replaced
        if stripped:
            yield stripped


def wiki_paragraphs(lines: Iterable[str], counts: Counts) -> Iterator[str]:
    """Resolves character references; drops tags and lines of markup."""
    for paragraph in plain_paragraphs(lines, counts):
        cleaned = paragraph
        if "&" in cleaned:
            cleaned = html.unescape(cleaned)
        if "<" in cleaned:
            cleaned, num_tags = _TAG.subn(" ", cleaned)
            counts.tags += num_tags
        cleaned = cleaned.strip()
        if cleaned.startswith(_WIKI_RESIDUE):
            counts.markup_paragraphs += 1
        elif cleaned:
            yield cleaned
        else:
            counts.empty_paragraphs += 1


def book_paragraphs(lines: Iterable[str], counts: Counts) -> Iterator[str]:
    """Joins the hard-wrapped lines of a book into paragraphs.

    The text before the START line of Project Gutenberg and after its END
    line is dropped. A paragraph ends at an empty line. Books without empty
    lines are told apart by their layout: a line that ends a sentence also
    ends its paragraph if the next is indented, or if it was short enough to
    take the next word.

    Args:
        lines: the book; a form feed or a carriage return ends a line too.
        counts: gets the lines dropped.
    """
    lines = [part for line in lines for part in re.split(r"[\r\f]", line)]
    lines = _without_licence(lines, counts)
    width = _wrap_width(lines)
    paragraph: list[str] = []
    previous = ""
    for line in lines:
        stripped = line.strip()
        if paragraph and (
            not stripped or _starts_paragraph(line, previous, width)
        ):
            yield " ".join(paragraph)
            paragraph = []
        if stripped:
            paragraph.append(stripped)
            previous = line.rstrip()
    if paragraph:
        yield " ".join(paragraph)


def _starts_paragraph(line: str, previous: str, width: int) -> bool:
    if not sentences.ends_sentence(previous):
        return False
    first_word = line.split(maxsplit=1)[0]
    would_have_fitted = len(previous) + 1 + len(first_word) <= width
    return line[0].isspace() or would_have_fitted


def _wrap_width(lines: list[str]) -> int:
    """Measures how many characters the lines of a book are wrapped at."""
    lengths = sorted(len(line.rstrip()) for line in lines if line.strip())
    # A few lines in a hundred may stand out: tables, long words.
    return lengths[len(lengths) * 97 // 100] if lengths else 0


def _without_licence(lines: list[str], counts: Counts) -> list[str]:
    """Keeps the text between the marks; a file may hold several books."""
    kept: list[str] = []
    start, ended = 0, False
    num_lines = sum(1 for line in lines if line.strip())
    for i, line in enumerate(lines):
        # `upper` alone takes longer than all that follows.
        if "***" not in line or not (mark := _MARK.match(line.upper())):
            continue
        if mark.group(1) == "END":
            kept += lines[start:i] if not ended else []
            ended = True
        else:
            ended = False
            start = _end_of_mark(lines, i)
    if not ended:
        kept += lines[start:]
    counts.licence_lines += num_lines - sum(1 for line in kept if line.strip())
    return kept


def _end_of_mark(lines: list[str], first: int) -> int:
    for i in range(first, min(first + _MAX_MARK_LINES, len(lines))):
        if lines[i].rstrip().endswith("***"):
            return i + 1
    return first + 1
