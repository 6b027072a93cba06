"""Input formats of raw text, and their document readers.

Readers stream: they keep only a few documents in memory. They remove only
blank lines; `corpus.cleaning` removes and counts everything else.
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
# Source: Devlin et al. 2019, §3.1: of Wikipedia "we extract only the text
# passages and ignore lists, tables, and headers".
_MIN_WORDS_OF_PROSE = 8
_ARTICLES = 0  # Namespace of articles.
_ROWS_AT_A_TIME = 64  # A row may be a book.
_BUFFER_BYTES = 1 << 20
# ijson stores the path of every value in a buffer, so nested brackets take
# memory quadratic in their number.
_JSON_BUFFER_BYTES = 1 << 12
_LONGEST_PLACE = 10_000
# Escapes in JSON: half of a pair of surrogates; its first half at the end; any
# escape, a pair as one, with a lone half as group 1.
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_FIRST_HALF = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_LONGEST_ESCAPE = 12


@dataclasses.dataclass(frozen=True, kw_only=True)
class Document:
    """A document of an input file.

    Attributes:
        lines: of its text. Depending on the format, a line is a paragraph or
            part of one.
        title: None if it has none.
    """

    lines: list[str]
    title: str | None = None


_Lines = Iterable[tuple[int, str]]
_Documents = Iterator[Document]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rules:
    """Rules for reading, cleaning and splitting documents; picklable.

    Attributes:
        input_format: a key of `FORMATS`.
        encoding: of the files, unless their format states one.
        text_field: field or column with the text.
        language: an ISO 639 code, for sentence splitting.
        min_paragraph_words: shorter paragraphs are dropped.
        min_document_sentences: shorter documents are dropped.
        min_document_characters: shorter documents are dropped.
    """

    input_format: str
    encoding: str = "utf-8"
    text_field: str = "text"
    language: str = "en"
    min_paragraph_words: int = 0
    min_document_sentences: int = 1
    min_document_characters: int = 0

    def __post_init__(self):
        try:
            "".encode(self.encoding)
        except LookupError as error:
            raise ValueError(
                "encoding must be one that Python supports; got "
                f"{self.encoding!r}."
            ) from error


@dataclasses.dataclass(frozen=True, kw_only=True)
class Format:
    """An input format.

    Attributes:
        about: description for the help text.
        read: yields the documents of one source; None if no file is read.
        paragraphs: converts the lines of a document to paragraphs, without
            markup.
        is_split: every paragraph is one sentence already.
        min_paragraph_words: default minimum length of paragraphs.
    """

    about: str
    read: Callable[[sources.Source, Rules], _Documents] | None
    paragraphs: Callable[[list[str], cleaning.Counts], Iterable[str]] = (
        cleaning.plain_paragraphs
    )
    is_split: bool = False
    min_paragraph_words: int = 0


def read_text(source: sources.Source, rules: Rules) -> _Documents:
    """Yields the documents of a file, separated by empty lines."""
    lines = sources.read_lines(source, rules.encoding)
    for is_blank, group in itertools.groupby(lines, lambda x: not x.strip()):
        if not is_blank:
            yield Document(lines=list(group))


def read_wikiextractor(source: sources.Source, rules: Rules) -> _Documents:
    """Yields the articles of WikiExtractor output in either layout.

    The layouts: `<doc id= url= title=>`, the title, an empty line, one
    paragraph per line, `</doc>`; or, with `--json`, one JSON object per line.

    Raises:
        ValueError: `<doc>` without `</doc>`, text outside of them, or an
            invalid JSON line.
    """
    lines = _numbered_lines(source, rules)
    first = next(((n, line) for n, line in lines if line.strip()), None)
    if first is None:
        return
    lines = itertools.chain([first], lines)
    if first[1].lstrip().startswith("{"):
        for where, value in _json_objects(source.name, lines):
            yield _document(value, rules.text_field, where)
    else:
        yield from _articles(source.name, lines)


def _numbered_lines(source, rules) -> Iterator[tuple[int, str]]:
    return enumerate(sources.read_lines(source, rules.encoding), start=1)


def _articles(name: str, lines: _Lines) -> _Documents:
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
            f"{name}, line {opened_at}: <doc> without </doc>. Is the file "
            "truncated?"
        )


def _opening(line: str) -> tuple[bool, str | None]:
    """Returns the title, the last attribute of `<doc ...>`; None for text."""
    if not _DOC.match(line) or not line.endswith(">"):
        return False, None
    # In two steps, since a single pattern takes quadratic time.
    inside, title = line[:-1].rstrip(), None
    mark = _TITLE.search(inside)
    if mark is not None and inside.endswith('"', mark.end()):
        # A title may contain any character.
        inside, title = inside[: mark.start()], inside[mark.end() : -1]
    return ">" not in inside, title


def read_json_lines(source: sources.Source, rules: Rules) -> _Documents:
    """Yields one document per line, a JSON object; skips blank lines.

    Each line of the text is a paragraph.

    Raises:
        ValueError: not a JSON object, or no text in `rules.text_field`.
    """
    lines = _numbered_lines(source, rules)
    for where, value in _json_objects(source.name, lines):
        yield _document(value, rules.text_field, where)


def _json_objects(
    name: str, lines: _Lines
) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in lines:
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        value = json_text.parse(line, where)
        if not isinstance(value, dict):
            raise ValueError(
                f"{where}: every line must be a JSON object; got {line[:60]!r}."
            )
        yield where, value


def _document(
    fields: Mapping[str, Any], text_field: str, where: str
) -> Document:
    text = fields.get(text_field)
    title = fields.get("title") if text_field != "title" else None
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


def read_json(source: sources.Source, rules: Rules) -> _Documents:
    """Yields one document per string in the text field of a JSON file.

    The file is an array of objects, which may be empty, or concatenated
    objects. A dotted `rules.text_field` is a path, in which `item` stands
    for the elements of an array: `data.item.body` for
    `{"data": [{"body": "..."}]}`.

    Raises:
        ValueError: not JSON, no such field, or its value is not a string.
    """
    import ijson

    places = (rules.text_field, f"item.{rules.text_field}")
    num_documents = 0
    kinds: set[str] = set()
    seen: set[str] = set()
    chunks = sources.utf8_chunks(source, rules.encoding, _JSON_BUFFER_BYTES)
    events = ijson.parse(
        ijson.from_iter(_without_half_characters(chunks, source.name)),
        multiple_values=True,
        use_float=True,  # Else integers of 4,300 digits crash ijson 3.6.
        buf_size=_JSON_BUFFER_BYTES,
    )
    try:
        for place, event, value in events:
            if len(place) > _LONGEST_PLACE:
                raise ijson.JSONError("nested too deep")
            kinds.add(event)
            if event == "map_key":
                if len(seen) < messages.MOST_VALUES:
                    seen.add(f"{place}.{value}".removeprefix("."))
            elif place in places and not event.startswith("end"):
                num_documents += 1
                if event != "string":
                    raise ValueError(
                        f"{source.name}, document {num_documents}: the text "
                        f"{rules.text_field!r} must be a string; got {event}."
                    )
                yield Document(lines=_lines_of(value))
    except (ijson.JSONError, UnicodeDecodeError) as error:
        message = messages.truncate(str(error).split("\n")[0], 100)
        raise ValueError(
            f"{source.name}, after document {num_documents}: not JSON "
            f"({message})."
        ) from error
    if not num_documents and kinds != {"start_array", "end_array"}:
        raise ValueError(
            f"{source.name}: no text in {rules.text_field!r}. Fields here: "
            f"{messages.listed(sorted(seen)) or 'none'} (choose with "
            "--text_field)."
        )


def _without_half_characters(
    chunks: Iterable[bytes], name: str
) -> Iterator[bytes]:
    """Replaces lone surrogates in JSON, which ijson misreads, by U+FFFD."""
    num_replaced, rest = 0, b""

    def replaced(escape: re.Match) -> bytes:
        nonlocal num_replaced
        num_replaced += bool(escape[1])
        return rb"\ufffd" if escape[1] else escape[0]

    for chunk in itertools.chain(chunks, [b""]):
        text, rest = rest + chunk, b""
        # An escape may continue in the next chunk.
        start = text.find(b"\\", max(len(text) - _LONGEST_ESCAPE, 0))
        if chunk and start >= 0:
            # The first of adjacent backslashes starts an escape.
            whole = text[:start].rstrip(b"\\")
            if first := _FIRST_HALF.search(whole):
                whole = whole[: first.start()].rstrip(b"\\")
            text, rest = whole, text[len(whole) :]
        if _SURROGATE.search(text):
            text = _ESCAPE.sub(replaced, text)
        if text:  # An empty chunk would be the end.
            yield text
    if num_replaced:
        logging.warning(
            "%s: replaced %s lone surrogates by U+FFFD.",
            *(name, f"{num_replaced:,}"),
        )


def read_cirrussearch(source: sources.Source, rules: Rules) -> _Documents:
    """Yields the articles of a Wikimedia CirrusSearch dump.

    Lines come in pairs: `{"index": ...}`, and the page as a JSON object. Its
    text is plain, a single paragraph with expanded templates. Pages that are
    not articles are skipped; their number is logged.

    Raises:
        ValueError: not a JSON object, not in pairs, or without text.
    """
    num_skipped = 0
    is_announced = False
    lines = _numbered_lines(source, rules)
    for where, value in _json_objects(source.name, lines):
        is_index = value.keys() == {"index"}
        if is_index == is_announced:
            expected = "a page" if is_announced else '{"index": ...}'
            raise ValueError(
                f"{where}: expected {expected}; got the fields "
                f"{messages.listed(sorted(value))}. Is this a CirrusSearch "
                "dump? For other JSON lines use --input_format=jsonl."
            )
        is_announced = is_index
        if is_index:
            continue
        if value.get("namespace", _ARTICLES) == _ARTICLES:
            yield _document(value, rules.text_field, where)
        else:
            num_skipped += 1
    if num_skipped:
        logging.info(
            "%s: skipped %d pages that are not articles.",
            source.name,
            num_skipped,
        )


def read_mediawiki(source: sources.Source, rules: Rules) -> _Documents:
    """Yields the articles of an XML dump; see `mediawiki.read_articles`."""
    del rules  # XML declares its encoding.
    with sources.naming_damage(source.name):
        for title, text in mediawiki.read_articles(source.file, source.name):
            yield Document(lines=text.splitlines(), title=title)


def read_wet(source: sources.Source, rules: Rules) -> _Documents:
    """Yields the pages of a Common Crawl WET file.

    Raises:
        ValueError: not WET, or truncated; names the record.
    """
    del rules  # WET is always UTF-8.
    with sources.naming_damage(source.name):
        for number in itertools.count(1):
            where = f"{source.name}, record {number}"
            head = _wet_head(source.file, where)
            if head is None:
                return
            kind, length = head.get("warc-type"), head.get("content-length", "")
            if not re.fullmatch(r"\d{1,9}", length, re.ASCII):
                raise ValueError(
                    f"{where}: Content-Length must be a number; "
                    f"got {length[:60]!r}."
                )
            content = source.file.read(int(length))
            if len(content) < int(length):
                raise EOFError(
                    f"record {number} ends before its {length} bytes"
                )
            if kind == "conversion":
                # A few pages in thousands are not valid UTF-8.
                text = content.decode("utf-8", "replace")
                yield Document(lines=_lines_of(text))
            elif kind != "warcinfo":
                raise ValueError(
                    f"{where}: the records of a WET file have the type "
                    f"'conversion', which is text; got {messages.short(kind)}."
                    " Is it WARC, with HTML pages? Common Crawl has a WET "
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
        raise EOFError("the header of a record does not end")
    return fields


def read_parquet(source: sources.Source, rules: Rules) -> _Documents:
    """Yields one document for each row of a Parquet file.

    Raises:
        ValueError: not Parquet, no text column `rules.text_field`, or a row
            without text; names the row.
    """
    import pyarrow
    from pyarrow import parquet

    if not source.is_seekable:
        raise ValueError(
            f"{source.name}: Parquet needs random access; decompress the "
            "file, or extract it from its archive."
        )
    try:
        is_remote = paths.is_remote(source.name)  # pyarrow reads remote stores.
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
        if rules.text_field not in columns:
            raise ValueError(
                f"{source.name}: no text column {rules.text_field!r}. "
                f"Text columns: {messages.listed(columns) or 'none'} "
                "(choose with --text_field)."
            )
        wanted = [rules.text_field, *({"title"} & {*columns})]
        number = 0
        for batch in file.iter_batches(
            _ROWS_AT_A_TIME, columns=wanted, use_threads=False
        ):
            for row in batch.to_pylist():
                number += 1
                yield _document(
                    row, rules.text_field, f"{source.name}, row {number}"
                )
    # Damaged pages raise an OSError without errno.
    except (pyarrow.ArrowException, UnicodeDecodeError, OSError) as error:
        raise ValueError(
            f"{source.name}: not Parquet, or damaged "
            f"({messages.truncate(str(error), 100)})."
        ) from error


def read_book(source: sources.Source, rules: Rules) -> _Documents:
    """Yields one document: a book in plain text with hard-wrapped lines."""
    yield Document(lines=list(sources.read_lines(source, rules.encoding)))


FORMATS: Mapping[str, Format] = {
    "text": Format(
        about="one sentence per line, an empty line between documents",
        read=read_text,
        is_split=True,
    ),
    "wikiextractor": Format(
        about="<doc ...> to </doc>, or its JSON lines",
        read=read_wikiextractor,
        paragraphs=cleaning.wiki_paragraphs,
        min_paragraph_words=_MIN_WORDS_OF_PROSE,
    ),
    "jsonl": Format(about="one object per line", read=read_json_lines),
    "json": Format(about="an array of objects", read=read_json),
    "parquet": Format(
        about="one document per row, as in Hugging Face data sets",
        read=read_parquet,
    ),
    "cirrussearch": Format(
        about="Wikimedia CirrusSearch dumps", read=read_cirrussearch
    ),
    "mediawiki": Format(
        about="MediaWiki XML dumps",
        read=read_mediawiki,
        paragraphs=mediawiki.paragraphs,
        min_paragraph_words=_MIN_WORDS_OF_PROSE,
    ),
    "wet": Format(
        about="Common Crawl text",
        read=read_wet,
        min_paragraph_words=_MIN_WORDS_OF_PROSE,
    ),
    "book": Format(
        about="each file one book",
        read=read_book,
        paragraphs=cleaning.book_paragraphs,
    ),
    "python_docs": Format(
        about="the documentation included with Python",
        read=None,
        paragraphs=python_docs.paragraphs,
    ),
}


def read_documents(input_paths: list[str], rules: Rules) -> Iterator[Document]:
    """Yields the documents of all input files, in order.

    Args:
        input_paths: the files; none for "python_docs".
        rules: format, encoding and text field.

    Raises:
        ValueError: the input is not in this format; names file and line.
    """
    read = FORMATS[rules.input_format].read
    if read is None:
        for _, blocks in python_docs.read_documents():
            yield Document(lines=blocks)
        return
    for path in input_paths:
        for source in sources.open_sources(path):
            yield from read(source, rules)
