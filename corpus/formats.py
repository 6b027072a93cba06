"""Raw text -> documents: the table of input formats and its line readers.

A document is a list of paragraphs. Readers stream: no more than one document
is held at a time.
"""

import dataclasses
import html
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from corpus import books, python_docs, sources
from files import json_text, wording

Document = list[str]

_DOC = re.compile(r"<doc\b")
_TITLE = re.compile(r'\btitle="')
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
# What templates, tables and links leave behind at the start of a line.
_WIKI_RESIDUE = ("|", "!", "{", "}", "#", "<", "[[")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How to read raw text: its encoding, and the JSON field that holds it."""

    encoding: str = "utf-8"
    text_field: str = "text"

    def __post_init__(self):
        try:
            "".encode(self.encoding)
        except LookupError as error:
            raise ValueError(
                "encoding must be one that Python knows; got "
                f"{self.encoding!r}."
            ) from error


@dataclasses.dataclass(frozen=True, kw_only=True)
class Format:
    """One row of the table of input formats.

    Attributes:
        about: what the input looks like, for the help text.
        read: yields the documents of one source; None where the text comes
            from this Python and no file is read.
        clean: one paragraph -> the paragraph without what is no text, or "".
        is_split: every paragraph is one sentence already.
        min_paragraph_words: shorter paragraphs are dropped by default.
    """

    about: str
    read: Callable[[sources.Source, ReadOptions], Iterator[Document]] | None
    clean: Callable[[str], str] = str.strip
    is_split: bool = False
    min_paragraph_words: int = 0


def read_text(
    source: sources.Source, options: ReadOptions
) -> Iterator[Document]:
    """Yields the documents of a file with an empty line between documents."""
    document: Document = []
    for line in sources.read_lines(source, options.encoding):
        if line.strip():
            document.append(line)
        elif document:
            yield document
            document = []
    if document:
        yield document


def read_wikiextractor(
    source: sources.Source, options: ReadOptions
) -> Iterator[Document]:
    """Yields the articles of WikiExtractor's output, without their titles.

    The format: `<doc id= url= title=>`, the title, an empty line, one
    paragraph a line, `</doc>`.

    Raises:
        ValueError: `<doc>` without `</doc>`, or text outside of them.
    """
    opened_at, title = 0, None
    document: Document = []
    lines = sources.read_lines(source, options.encoding)
    for number, line in enumerate(lines, start=1):
        if _opens_article(line):
            if opened_at:
                break
            opened_at, title = number, _title(line)
            document = []
        elif line.strip() == "</doc>" and opened_at:
            yield _without_title(document, title)
            opened_at = 0
        elif opened_at:
            document.append(line)
        elif line.strip():
            raise ValueError(
                f"{source.name}, line {number}: expected <doc ...>, got "
                f"{line[:60]!r}. Is this the output of WikiExtractor?"
            )
    if opened_at:
        raise ValueError(
            f"{source.name}, line {opened_at}: <doc> without </doc>. Is the "
            "file cut short?"
        )


def _opens_article(line: str) -> bool:
    """Tells `<doc ...>` from text; a title may hold any character."""
    if not _DOC.match(line) or not line.endswith(">"):
        return False
    inside = line[:-1].rstrip()
    mark = _TITLE.search(inside)
    is_titled = mark is not None and inside.endswith('"', mark.end())
    return ">" not in (inside[: mark.start()] if is_titled else inside)


def _title(line: str) -> str | None:
    """Reads the title in `<doc ...>`, which ends its attributes."""
    # In two steps: one pattern for all takes a square of the line's length.
    inside = line[:-1].rstrip()
    mark = _TITLE.search(inside)
    if mark is None or not inside.endswith('"', mark.end()):
        return None
    return inside[mark.end() : -1]


def read_json_lines(
    source: sources.Source, options: ReadOptions
) -> Iterator[Document]:
    """Yields one document for each line, a JSON object; one paragraph a line.

    `WikiExtractor --json` writes this.

    Raises:
        ValueError: not a JSON object, or no text in `options.text_field`.
    """
    lines = sources.read_lines(source, options.encoding)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{source.name}, line {number}"
        value = json_text.parse_line(line, where)
        if not isinstance(value, dict):
            raise ValueError(
                f"{where}: every line must be a JSON object; got {line[:60]!r}."
            )
        text = value.get(options.text_field)
        if not isinstance(text, str):
            raise ValueError(
                f"{where}: the text must be a string in the field "
                f"{options.text_field!r}; got {wording.shown(text)}. Fields "
                f"here: {wording.listed(sorted(value)) or 'none'} (choose "
                "with --text_field)."
            )
        yield _without_title(text.splitlines(), _text(value.get("title")))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _without_title(lines: list[str], title: str | None) -> Document:
    """Drops a first line that is the title of what follows it."""
    lines = lines or [""]
    if title is not None:
        is_title = html.unescape(lines[0]) == html.unescape(title)
        # A quotation mark in a title ends the attribute early, so the layout
        # counts too: an article has no other empty line after its first.
        if is_title or (lines[0] and not "".join(lines[1:2]).strip()):
            lines = lines[1:]
    return [line for line in lines if line.strip()]


def clean_wiki_paragraph(paragraph: str) -> str:
    """Drops tags, character references and lines of left-over markup."""
    if "&" in paragraph:
        paragraph = html.unescape(paragraph)
    if "<" in paragraph:
        paragraph = _TAG.sub(" ", paragraph)
    paragraph = paragraph.strip()
    return "" if paragraph.startswith(_WIKI_RESIDUE) else paragraph


def read_book(
    source: sources.Source, options: ReadOptions
) -> Iterator[Document]:
    """Yields one document: a book in plain text with hard-wrapped lines."""
    yield books.paragraphs(sources.read_lines(source, options.encoding))


FORMATS: Mapping[str, Format] = {
    "text": Format(
        about="one sentence a line, an empty line between documents",
        read=read_text,
        is_split=True,
    ),
    "wikiextractor": Format(
        about="<doc ...>, title, empty line, one paragraph a line, </doc>",
        read=read_wikiextractor,
        clean=clean_wiki_paragraph,
        # Source: Devlin et al. 2019, §3.1: of Wikipedia "we extract only the
        # text passages and ignore lists, tables, and headers".
        min_paragraph_words=8,
    ),
    "jsonl": Format(
        about="one JSON object a line (WikiExtractor --json)",
        read=read_json_lines,
        clean=clean_wiki_paragraph,
    ),
    "book": Format(
        about="each file one book in plain text, lines wrapped by hand",
        read=read_book,
    ),
    "python_docs": Format(
        about="the documentation in this Python; reads no --input_file",
        read=None,
    ),
}


def read_documents(
    format_name: str, input_paths: list[str], options: ReadOptions
) -> Iterator[Document]:
    """Yields the documents of all input files, in their order.

    Args:
        format_name: a key of `FORMATS`.
        input_paths: the files, none for "python_docs".
        options: how to read them.

    Raises:
        ValueError: the input is not in this format; names file and line.
    """
    read = FORMATS[format_name].read
    if read is None:
        yield from python_docs.read_documents()
        return
    for path in input_paths:
        for source in sources.open_sources(path):
            yield from read(source, options)
