"""Input formats of raw text, and their document readers.

Readers stream: they keep only a few documents in memory. They remove only
blank lines; `bert.corpus.cleaning` removes and counts everything else.
"""

import bz2
import collections
import contextlib
import csv
import dataclasses
import gzip
import itertools
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, TYPE_CHECKING

from bert.corpus import cleaning, mediawiki, python_docs
from bert.files import json_text, lines, messages, paths

if TYPE_CHECKING:
    import pyarrow

_DOC = re.compile(r"<doc\b")
_TITLE = re.compile(r'\btitle="')
# Source: Devlin et al. 2019, §3.1: of Wikipedia "we extract only the text
# passages and ignore lists, tables, and headers".
_MIN_WORDS_OF_PROSE = 8
_ROWS_AT_A_TIME = 64  # A row may be a book.
_CHUNK_BYTES = 1 << 20
# The csv module stops at 131,072 characters, and a cell may be a book.
_MAX_CELL_CHARACTERS = 2**31 - 1
_OPENERS: dict[str | None, Callable[..., IO]] = {
    "xz": lzma.open,
    "gzip": gzip.open,
    "bzip2": bz2.open,
}
_SUFFIXES = {".xz": "xz", ".gz": "gzip", ".bz2": "bzip2"}
_DAMAGE = (lzma.LZMAError, zlib.error, EOFError, gzip.BadGzipFile)


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rules:
    """Rules for reading, cleaning and splitting documents; picklable.

    Attributes:
        input_format: a key of `FORMATS`.
        text_field: field or column with the text.
        language: an ISO 639 code, for sentence splitting.
        min_paragraph_words: shorter paragraphs are dropped.
    """

    input_format: str
    text_field: str = "text"
    language: str = "en"
    min_paragraph_words: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Format:
    """An input format.

    Attributes:
        about: description for the help text.
        read: yields the documents of one file; None if no file is read.
        paragraphs: converts the lines of a document to paragraphs, without
            markup, and counts what it drops.
        is_split: every paragraph is one sentence already.
        min_paragraph_words: default minimum length of paragraphs.
    """

    about: str
    read: Callable[[str, Rules], Iterator[Document]] | None
    paragraphs: Callable[
        [list[str], collections.Counter[str]], Iterable[str]
    ] = cleaning.plain_paragraphs
    is_split: bool = False
    min_paragraph_words: int = 0


# ---------------------------------------------------------------------- Files


@contextlib.contextmanager
def open_to_read(path: str) -> Iterator[IO[bytes]]:
    """Opens a file, decompressed; compression is known by the first bytes.

    Raises:
        OSError: the file cannot be opened.
        ValueError: the file is damaged, truncated, or in an unsupported format
            such as zip; names the file. This includes errors of reading it.
    """
    try:
        with paths.open_to_read(path) as raw:
            file: IO[bytes] = raw
            kind = lines.kind_of(file)
            promised = _SUFFIXES.get(path[path.rfind(".") :].lower())
            if promised and kind is None:
                raise EOFError(f"it does not begin like a {promised} file")
            while kind in _OPENERS:
                file = _OPENERS[kind](file, "rb")
                kind = lines.kind_of(file)
            if kind:
                raise ValueError(
                    f"{path}: must be text, or text compressed by gzip, xz or "
                    f"bzip2; it is a {kind} file. "
                    + (
                        "Pass --input_format=parquet."
                        if kind == "Parquet"
                        else "Extract the text first."
                    )
                )
            yield file
    except (*_DAMAGE, OSError) as error:
        # bz2 raises OSError without errno for damaged data.
        if getattr(error, "errno", None) is not None:
            raise
        raise ValueError(
            f"{path}: damaged or truncated ({error}). Download it again."
        ) from error


def read_lines(path: str) -> Iterator[str]:
    """Yields the lines of a UTF-8 file, without line ends.

    Lines end at "\\n" or "\\r\\n"; a byte-order mark at the start is dropped.

    Raises:
        OSError, ValueError: as when it is opened; or a line is not UTF-8, which
            the message names.
    """
    with open_to_read(path) as file:
        for number, line in enumerate(lines.raw_lines(file), start=1):
            text = lines.utf8(line.removesuffix(b"\r"), path, number)
            if number == 1:
                text = text.removeprefix(lines.BYTE_ORDER_MARK)
            yield text


# -------------------------------------------------------------------- Formats


def read_text(path: str, rules: Rules) -> Iterator[Document]:
    """Yields the documents of a file, separated by empty lines."""
    del rules
    # As released: every carriage return is dropped.
    read = (line.replace("\r", "") for line in read_lines(path))
    for is_blank, group in itertools.groupby(read, lambda x: not x.strip()):
        if not is_blank:
            yield Document(lines=list(group))


def read_wikiextractor(path: str, rules: Rules) -> Iterator[Document]:
    """Yields the articles of WikiExtractor output in either layout.

    The layouts: `<doc id= url= title=>`, the title, an empty line, one
    paragraph per line, `</doc>`; or, with `--json`, one JSON object per line.

    Raises:
        ValueError: `<doc>` without `</doc>`, text outside of them, or an
            invalid JSON line.
    """
    numbered: _Lines = enumerate(read_lines(path), start=1)
    first = next(((n, line) for n, line in numbered if line.strip()), None)
    if first is None:
        return
    numbered = itertools.chain([first], numbered)
    if first[1].lstrip().startswith("{"):
        yield from _json_documents(path, numbered, rules)
    else:
        yield from _articles(path, numbered)


def _articles(path: str, numbered: _Lines) -> Iterator[Document]:
    opened_at, title = 0, None
    article: list[str] = []
    for number, line in numbered:
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
                    f"{path}, line {number}: expected <doc ...>, got "
                    f"{line[:60]!r}. Is this the output of WikiExtractor?"
                )
            article.append(line)
    if opened_at:
        raise ValueError(
            f"{path}, line {opened_at}: <doc> without </doc>. Is the file "
            "truncated?"
        )


def _opening(line: str) -> tuple[bool, str | None]:
    """Returns the title, the last attribute of `<doc ...>`; None for text."""
    if not _DOC.match(line) or not line.endswith(">"):
        return False, None
    # There are two steps, since a single pattern takes quadratic time.
    inside, title = line[:-1].rstrip(), None
    mark = _TITLE.search(inside)
    if mark is not None and inside.endswith('"', mark.end()):
        # A title may contain any character.
        inside, title = inside[: mark.start()], inside[mark.end() : -1]
    return ">" not in inside, title


def read_json_lines(path: str, rules: Rules) -> Iterator[Document]:
    """Yields one document per line, a JSON object; skips blank lines.

    Each line of the text is a paragraph.

    Raises:
        ValueError: not a JSON object, or `rules.text_field` is missing or holds
            something other than text or null.
    """
    numbered = enumerate(read_lines(path), start=1)
    yield from _json_documents(path, numbered, rules)


def _json_documents(
    path: str, numbered: _Lines, rules: Rules
) -> Iterator[Document]:
    for number, line in numbered:
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        value = json_text.parse(line, where)
        if not isinstance(value, dict):
            raise ValueError(
                f"{where}: every line must be a JSON object; got {line[:60]!r}."
            )
        yield _document(value, rules.text_field, where)


def _document(
    fields: Mapping[str, object], text_field: str, where: str
) -> Document:
    text = fields.get(text_field)
    if text is None and text_field in fields:
        text = ""  # Null: a document without text.
    title = fields.get("title") if text_field != "title" else None
    if not isinstance(text, str):
        raise ValueError(
            f"{where}: the text must be a string in the field "
            f"{text_field!r}; got {messages.short(text)}. Fields "
            f"here: {messages.listed(sorted(fields)) or 'none'} (choose "
            "with --text_field)."
        )
    return Document(
        lines=[line for line in text.splitlines() if line.strip()],
        title=title if isinstance(title, str) else None,
    )


def read_csv(path: str, rules: Rules) -> Iterator[Document]:
    """Yields one document for each row below the names of the columns.

    Raises:
        ValueError: not CSV, not exactly one column `rules.text_field`, or a row
            with other cells than the first.
    """
    csv.field_size_limit(_MAX_CELL_CHARACTERS)
    reader = csv.reader((f"{line}\n" for line in read_lines(path)), strict=True)
    names: list[str] = []
    number = 1
    try:
        for cells in reader:
            where = f"{path}, line {number}"
            if cells and not names:
                names = cells
                if (count := names.count(rules.text_field)) != 1:
                    raise ValueError(
                        f"{where}: {count} columns named "
                        f"{rules.text_field!r}; the columns are "
                        f"{messages.listed(names)} (choose with --text_field). "
                        "They must be separated by commas."
                    )
            elif cells:
                if len(cells) != len(names):
                    raise ValueError(
                        f"{where}: the row has {len(cells)} column(s), the "
                        f"first row has {len(names)}."
                    )
                row = dict(zip(names, cells, strict=True))
                yield _document(row, rules.text_field, where)
            number = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {number}: not CSV ({error}); quotes inside a "
            "quoted cell are doubled."
        ) from error


def read_mediawiki(path: str, rules: Rules) -> Iterator[Document]:
    """Yields the articles of an XML dump; see `mediawiki.read_articles`."""
    del rules
    with open_to_read(path) as file:
        for title, text in mediawiki.read_articles(file, path):
            yield Document(lines=text.splitlines(), title=title)


def read_parquet(path: str, rules: Rules) -> Iterator[Document]:
    """Yields one document for each row of a Parquet file.

    Raises:
        ValueError: not Parquet, or no text column `rules.text_field`.
    """
    import pyarrow
    from pyarrow import parquet

    paths.check_readable(path)  # pyarrow opens remote files itself.
    try:
        file = parquet.ParquetFile(
            path, buffer_size=_CHUNK_BYTES, pre_buffer=False
        )
        columns = [
            field.name for field in file.schema_arrow if _is_text(field.type)
        ]
        if rules.text_field not in columns:
            raise ValueError(
                f"{path}: no text column {rules.text_field!r}. "
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
                yield _document(row, rules.text_field, f"{path}, row {number}")
    # Damaged pages raise an OSError without errno.
    except (pyarrow.ArrowException, UnicodeDecodeError, OSError) as error:
        raise ValueError(
            f"{path}: not Parquet, or damaged "
            f"({messages.truncate(str(error), 100)})."
        ) from error


def _is_text(kind: "pyarrow.DataType") -> bool:
    """Returns whether a type of Arrow is text, or a dictionary of texts."""
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    return str(kind) in ("string", "large_string", "string_view")


def read_book(path: str, rules: Rules) -> Iterator[Document]:
    """Yields one document: a book in plain text with hard-wrapped lines."""
    del rules
    yield Document(lines=list(read_lines(path)))


FORMATS: Mapping[str, Format] = {
    "text": Format(
        about="one sentence per line, an empty line between documents",
        read=read_text,
        is_split=True,
    ),
    "paragraphs": Format(
        about="one paragraph per line, an empty line between documents",
        read=read_text,
    ),
    "wikiextractor": Format(
        about="<doc ...> to </doc>, or its JSON lines",
        read=read_wikiextractor,
        paragraphs=cleaning.wiki_paragraphs,
        min_paragraph_words=_MIN_WORDS_OF_PROSE,
    ),
    "jsonl": Format(about="one object per line", read=read_json_lines),
    "csv": Format(
        about="one document per row, below the names of the columns",
        read=read_csv,
    ),
    "parquet": Format(
        about="one document per row, as in Hugging Face data sets",
        read=read_parquet,
    ),
    "mediawiki": Format(
        about="MediaWiki XML dumps",
        read=read_mediawiki,
        paragraphs=mediawiki.paragraphs,
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


def read_documents(
    input_paths: Iterable[str], rules: Rules
) -> Iterator[Document]:
    """Yields the documents of all input files, in order.

    Args:
        input_paths: the files; none for "python_docs".
        rules: format and text field.

    Raises:
        ValueError: the input is not in this format; names file and line.
    """
    read = FORMATS[rules.input_format].read
    if read is None:
        for _, blocks in python_docs.read_documents():
            yield Document(lines=blocks)
        return
    for path in input_paths:
        yield from read(path, rules)
