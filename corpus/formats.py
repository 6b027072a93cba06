"""Input formats of raw text, and the readers of their documents.

Readers stream: no more than one document is held at a time. They remove
nothing but blank lines; `corpus.cleaning` does, and counts it.
"""

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from corpus import cleaning, python_docs, sources
from files import json_text, messages

_DOC = re.compile(r"<doc\b")
_TITLE = re.compile(r'\btitle="')
_Lines = Iterable[tuple[int, str]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Document:
    """A document as it was read.

    Attributes:
        lines: of its text; what a line is, a paragraph or less, is for the
            format to say.
        title: None where it has none.
    """

    lines: list[str]
    title: str | None = None


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
        paragraphs: the lines of a document -> its paragraphs, without what is
            no text.
        is_split: every paragraph is one sentence already.
        min_paragraph_words: shorter paragraphs are dropped by default.
    """

    about: str
    read: Callable[[sources.Source, ReadOptions], Iterator[Document]] | None
    paragraphs: Callable[[list[str], cleaning.Counts], Iterable[str]] = (
        cleaning.plain_paragraphs
    )
    is_split: bool = False
    min_paragraph_words: int = 0


def read_text(
    source: sources.Source, options: ReadOptions
) -> Iterator[Document]:
    """Yields the documents of a file with an empty line between documents."""
    lines: list[str] = []
    for line in sources.read_lines(source, options.encoding):
        if line.strip():
            lines.append(line)
        elif lines:
            yield Document(lines=lines)
            lines = []
    if lines:
        yield Document(lines=lines)


def read_wikiextractor(
    source: sources.Source, options: ReadOptions
) -> Iterator[Document]:
    """Yields the articles of WikiExtractor's output, of either layout.

    The layouts: `<doc id= url= title=>`, the title, an empty line, one
    paragraph a line, `</doc>`; or, with its `--json`, one JSON object a line.

    Raises:
        ValueError: `<doc>` without `</doc>`, text outside of them, or a line
            that `read_json_lines` refuses.
    """
    lines = _numbered_lines(source, options)
    first = next(((n, line) for n, line in lines if line.strip()), None)
    if first is None:
        return
    lines = itertools.chain([first], lines)
    if first[1].lstrip().startswith("{"):
        yield from _json_documents(source.name, lines, options.text_field)
    else:
        yield from _articles(source.name, lines)


def _numbered_lines(source, options) -> Iterator[tuple[int, str]]:
    return enumerate(sources.read_lines(source, options.encoding), start=1)


def _articles(name: str, lines: _Lines) -> Iterator[Document]:
    opened_at, title = 0, None
    article: list[str] = []
    for number, line in lines:
        opens, new_title = _opening(line)
        if opens:
            if opened_at:
                break
            opened_at, title = number, new_title
            article = []
        elif line.strip() == "</doc>" and opened_at:
            yield Document(lines=article, title=title)
            opened_at = 0
        elif line.strip():
            if not opened_at:
                raise ValueError(
                    f"{name}, line {number}: expected <doc ...>, got "
                    f"{line[:60]!r}. Is this the output of WikiExtractor?"
                )
            article.append(line)
    if opened_at:
        raise ValueError(
            f"{name}, line {opened_at}: <doc> without </doc>. Is the file cut "
            "short?"
        )


def _opening(line: str) -> tuple[bool, str | None]:
    """Tells `<doc ...>` from text, and reads the title, its last attribute."""
    if not _DOC.match(line) or not line.endswith(">"):
        return False, None
    # In two steps: one pattern for all takes a square of the line's length.
    inside, title = line[:-1].rstrip(), None
    mark = _TITLE.search(inside)
    if mark is not None and inside.endswith('"', mark.end()):
        # A title may hold any character.
        inside, title = inside[: mark.start()], inside[mark.end() : -1]
    return ">" not in inside, title


def read_json_lines(
    source: sources.Source, options: ReadOptions
) -> Iterator[Document]:
    """Yields one document for each line, a JSON object; blank lines are none.

    Each line of the text is a paragraph.

    Raises:
        ValueError: not a JSON object, or no text in `options.text_field`.
    """
    lines = _numbered_lines(source, options)
    yield from _json_documents(source.name, lines, options.text_field)


def _json_documents(
    name: str, lines: _Lines, text_field: str
) -> Iterator[Document]:
    for number, line in lines:
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        value = json_text.parse_line(line, where)
        if not isinstance(value, dict):
            raise ValueError(
                f"{where}: every line must be a JSON object; got {line[:60]!r}."
            )
        text, title = value.get(text_field), value.get("title")
        if not isinstance(text, str):
            raise ValueError(
                f"{where}: the text must be a string in the field "
                f"{text_field!r}; got {messages.short(text)}. Fields "
                f"here: {messages.listed(sorted(value)) or 'none'} (choose "
                "with --text_field)."
            )
        yield Document(
            lines=[line for line in text.splitlines() if line.strip()],
            title=title if isinstance(title, str) else None,
        )


def read_book(
    source: sources.Source, options: ReadOptions
) -> Iterator[Document]:
    """Yields one document: a book in plain text with hard-wrapped lines."""
    lines = sources.read_lines(source, options.encoding)
    yield Document(lines=list(lines))


FORMATS: Mapping[str, Format] = {
    "text": Format(
        about="a sentence a line, an empty line between documents",
        read=read_text,
        is_split=True,
    ),
    "wikiextractor": Format(
        about="<doc ...> to </doc>, or its JSON",
        read=read_wikiextractor,
        paragraphs=cleaning.wiki_paragraphs,
        # Source: Devlin et al. 2019, §3.1: of Wikipedia "we extract only the
        # text passages and ignore lists, tables, and headers".
        min_paragraph_words=8,
    ),
    "jsonl": Format(
        about="an object a line",
        read=read_json_lines,
    ),
    "book": Format(
        about="each file one book",
        read=read_book,
        paragraphs=cleaning.book_paragraphs,
    ),
    "python_docs": Format(
        about="the documentation in this Python",
        read=None,
        paragraphs=python_docs.paragraphs,
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
        for _, blocks in python_docs.read_documents():
            yield Document(lines=blocks)
        return
    for path in input_paths:
        for source in sources.open_sources(path):
            yield from read(source, options)
