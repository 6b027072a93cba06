"""Input formats of raw text, and the readers of their documents.

Readers stream: no more than a few documents are held at a time. They remove
nothing but blank lines; `corpus.cleaning` does, and counts it.
"""

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any

from absl import logging

from corpus import cleaning, mediawiki, python_docs, sources
from files import json_text, messages, paths

_DOC = re.compile(r"<doc\b")
_TITLE = re.compile(r'\btitle="')
_Lines = Iterable[tuple[int, str]]
# Source: Devlin et al. 2019, §3.1: of Wikipedia "we extract only the text
# passages and ignore lists, tables, and headers".
_MIN_WORDS_OF_PROSE = 8
_ARTICLES = 0  # Their namespace in a wiki.
_ROWS_AT_A_TIME = 64  # A row may be a book.
_BUFFER_BYTES = 1 << 20
# ijson names the place of every value in a buffer: brackets alone, so nested,
# take a square of its size.
_JSON_BUFFER_BYTES = 1 << 12
_LONGEST_PLACE = 10_000


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
    """How to read raw text: its encoding, and the field that holds it."""

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
    for where, value in _json_objects(name, lines):
        yield _document(value, text_field, where)


def _json_objects(
    name: str, lines: _Lines
) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in lines:
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        value = json_text.parse_line(line, where)
        if not isinstance(value, dict):
            raise ValueError(
                f"{where}: every line must be a JSON object; got {line[:60]!r}."
            )
        yield where, value


def _document(
    fields: Mapping[str, Any], text_field: str, where: str
) -> Document:
    text, title = fields.get(text_field), fields.get("title")
    if not isinstance(text, str):
        raise ValueError(
            f"{where}: the text must be a string in the field "
            f"{text_field!r}; got {messages.short(text)}. Fields "
            f"here: {messages.listed(sorted(fields)) or 'none'} (choose "
            "with --text_field)."
        )
    return Document(
        lines=_lines_of(text), title=title if isinstance(title, str) else None
    )


def _lines_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def read_json(
    source: sources.Source, options: ReadOptions
) -> Iterator[Document]:
    """Yields one document for each string of that name in a file of JSON.

    The file is an array of objects, or objects one after the other; a dotted
    `options.text_field` goes further inside, `item` standing for the elements
    of an array: `data.item.body` for `{"data": [{"body": "..."}]}`.

    Raises:
        ValueError: not JSON, no such string, or another value in its place.
    """
    import ijson

    places = (options.text_field, f"item.{options.text_field}")
    num_documents = 0
    seen: set[str] = set()
    events = ijson.parse(
        source.file,
        multiple_values=True,
        use_float=True,  # Else whole numbers of 4,300 digits crash ijson 3.6.
        buf_size=_JSON_BUFFER_BYTES,
    )
    try:
        for place, event, value in events:
            if len(place) > _LONGEST_PLACE:
                raise ijson.JSONError("nested too deep")
            if event == "map_key":
                if len(seen) < messages.MOST_VALUES:
                    seen.add(f"{place}.{value}".removeprefix("."))
            elif place in places and not event.startswith("end"):
                num_documents += 1
                if event != "string":
                    raise ValueError(
                        f"{source.name}, document {num_documents}: the text "
                        f"{options.text_field!r} must be a string; got {event}."
                    )
                yield Document(lines=_lines_of(value))
    except (ijson.JSONError, UnicodeDecodeError) as error:
        message = messages.truncate(str(error).split("\n")[0], 100)
        raise ValueError(
            f"{source.name}, after document {num_documents}: not JSON "
            f"({message})."
        ) from error
    if not num_documents:
        raise ValueError(
            f"{source.name}: no text in {options.text_field!r}. Fields here: "
            f"{messages.listed(sorted(seen)) or 'none'} (choose with "
            "--text_field)."
        )


def read_cirrussearch(
    source: sources.Source, options: ReadOptions
) -> Iterator[Document]:
    """Yields the articles of a CirrusSearch dump of Wikimedia's.

    Lines come in pairs: `{"index": ...}`, and the page as a JSON object. Its
    text is plain, with templates filled in, and one paragraph. Pages that are
    no articles are passed over, and their number is logged.

    Raises:
        ValueError: not a JSON object, not in pairs, or without a text.
    """
    num_passed_over = 0
    is_announced = False
    lines = _numbered_lines(source, options)
    for where, value in _json_objects(source.name, lines):
        is_index = value.keys() == {"index"}
        if is_index == is_announced:
            expected = "a page" if is_announced else '{"index": ...}'
            raise ValueError(
                f"{where}: expected {expected}; got the fields "
                f"{messages.listed(sorted(value))}. Is this a CirrusSearch "
                "dump? --input_format=jsonl reads other lines."
            )
        is_announced = is_index
        if is_index:
            continue
        if value.get("namespace", _ARTICLES) == _ARTICLES:
            yield _document(value, options.text_field, where)
        else:
            num_passed_over += 1
    if num_passed_over:
        logging.info(
            "%s: passed over %d pages that are no articles.",
            source.name,
            num_passed_over,
        )


def read_mediawiki(
    source: sources.Source, options: ReadOptions
) -> Iterator[Document]:
    """Yields the articles of an XML dump; see `mediawiki.read_articles`."""
    del options  # The file itself says its encoding.
    with sources.naming_damage(source.name):
        for title, text in mediawiki.read_articles(source.file, source.name):
            yield Document(lines=text.splitlines(), title=title)


def read_wet(
    source: sources.Source, options: ReadOptions
) -> Iterator[Document]:
    """Yields the pages of a WET file of Common Crawl's: text as it was found.

    Raises:
        ValueError: not WET, or cut short; names the record.
    """
    del options  # WET is UTF-8.
    with sources.naming_damage(source.name):
        for number in itertools.count(1):
            where = f"{source.name}, record {number}"
            head = _wet_head(source.file, where)
            if head is None:
                return
            kind, length = head.get("warc-type"), head.get("content-length", "")
            if not re.fullmatch(r"\d{1,9}", length, re.ASCII):
                raise ValueError(
                    f"{where}: has no length, but {length[:60]!r}."
                )
            content = source.file.read(int(length))
            if len(content) < int(length):
                raise EOFError(
                    f"record {number} ends before its {length} bytes"
                )
            if kind == "conversion":
                # A page in thousands is not the UTF-8 that it should be.
                text = content.decode("utf-8", "replace")
                yield Document(lines=_lines_of(text))
            elif kind != "warcinfo":
                raise ValueError(
                    f"{where}: a WET file holds records of the type "
                    f"'conversion', which are text; got {messages.short(kind)}."
                    " Is it WARC, with pages of HTML? Common Crawl has a WET "
                    "file for each."
                )


def _wet_head(file: IO[bytes], where: str) -> dict[str, str] | None:
    """Reads the fields before a record's content; None at the end."""
    line = next((line for line in file if line.strip()), None)
    if line is None:
        return None
    if not line.startswith(b"WARC/"):
        raise ValueError(f"{where}: expected WARC/1.0, got {line[:60]!r}.")
    fields = {}
    while (line := file.readline()).strip():
        name, _, value = line.decode("utf-8", "replace").partition(":")
        fields[name.strip().lower()] = value.strip()
    if not line:
        raise EOFError("the fields of a record do not end")
    return fields


def read_parquet(
    source: sources.Source, options: ReadOptions
) -> Iterator[Document]:
    """Yields one document for each row of a Parquet file.

    Raises:
        ValueError: not Parquet, no column of text `options.text_field`, or a
            row without text; names the row.
    """
    import pyarrow
    from pyarrow import parquet

    if not source.is_seekable:
        raise ValueError(
            f"{source.name}: Parquet is read from its end; decompress the "
            "file, or take it out of its archive."
        )
    try:
        is_remote = paths.is_remote(source.name)  # pyarrow knows the stores.
        file = parquet.ParquetFile(
            source.name if is_remote else source.file,
            buffer_size=_BUFFER_BYTES,
            pre_buffer=False,
        )
        columns = [
            field.name
            for field in file.schema_arrow
            if str(field.type) in ("string", "large_string", "string_view")
        ]
        if options.text_field not in columns:
            raise ValueError(
                f"{source.name}: no column of text {options.text_field!r}. "
                f"Columns of text: {messages.listed(columns) or 'none'} "
                "(choose with --text_field)."
            )
        wanted = [options.text_field, *({"title"} & {*columns})]
        number = 0
        for batch in file.iter_batches(
            _ROWS_AT_A_TIME, columns=wanted, use_threads=False
        ):
            for row in batch.to_pylist():
                number += 1
                yield _document(
                    row, options.text_field, f"{source.name}, row {number}"
                )
    # Damaged pages are an OSError without a number.
    except (pyarrow.ArrowException, UnicodeDecodeError, OSError) as error:
        raise ValueError(
            f"{source.name}: not Parquet, or damaged "
            f"({messages.truncate(str(error), 100)})."
        ) from error


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
        min_paragraph_words=_MIN_WORDS_OF_PROSE,
    ),
    "jsonl": Format(
        about="an object a line",
        read=read_json_lines,
    ),
    "json": Format(
        about="an array of objects",
        read=read_json,
    ),
    "parquet": Format(
        about="a document a row, as data sets of Hugging Face are",
        read=read_parquet,
    ),
    "cirrussearch": Format(
        about="Wikimedia's CirrusSearch dumps",
        read=read_cirrussearch,
    ),
    "mediawiki": Format(
        about="MediaWiki's XML dumps",
        read=read_mediawiki,
        paragraphs=mediawiki.paragraphs,
        min_paragraph_words=_MIN_WORDS_OF_PROSE,
    ),
    "wet": Format(
        about="Common Crawl's text",
        read=read_wet,
        min_paragraph_words=_MIN_WORDS_OF_PROSE,
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
