"""Input formats of raw text, and their document readers.

Readers stream: they keep only a few documents in memory. They remove only
blank lines; `bert.corpus.cleaning` removes and counts everything else.
"""

import collections
import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from bert.corpus import cleaning, mediawiki
from bert.files import row_files, text_files

_DOC = re.compile(r"<doc\b")
_TITLE = re.compile(r'\btitle="')
# Source: Devlin et al. 2019, §3.1: of Wikipedia "we extract only the text
# passages and ignore lists, tables, and headers".
_MIN_WORDS_OF_PROSE = 8


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
        read: yields the documents of one file.
        paragraphs: converts the lines of a document to paragraphs, without
            markup, and counts what it drops.
        is_split: every paragraph is one sentence already.
        min_paragraph_words: default minimum length of paragraphs.
    """

    about: str
    read: Callable[[str, Rules], Iterator[Document]]
    paragraphs: Callable[
        [list[str], collections.Counter[str]], Iterable[str]
    ] = cleaning.plain_paragraphs
    is_split: bool = False
    min_paragraph_words: int = 0


def read_text(path: str, rules: Rules) -> Iterator[Document]:
    """Yields the documents of a file of sentences, as `read_paragraphs` does.

    As released: every carriage return is dropped.
    """
    for document in read_paragraphs(path, rules):
        yield Document(lines=[x.replace("\r", "") for x in document.lines])


def read_paragraphs(path: str, rules: Rules) -> Iterator[Document]:
    """Yields the documents of a file, separated by empty lines."""
    del rules
    for is_blank, group in itertools.groupby(
        text_files.read_lines(path), lambda line: not line.strip()
    ):
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
    numbered: _Lines = enumerate(text_files.read_lines(path), start=1)
    first = next(((n, line) for n, line in numbered if line.strip()), None)
    if first is None:
        return
    numbered = itertools.chain([first], numbered)
    if first[1].lstrip().startswith("{"):
        yield from _row_documents(row_files.json_rows(path, numbered), rules)
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
    # A single pattern for both steps takes quadratic time.
    inside, title = line[:-1].rstrip(), None
    mark = _TITLE.search(inside)
    if mark is not None and inside.endswith('"', mark.end()):
        # A title may contain any character.
        inside, title = inside[: mark.start()], inside[mark.end() : -1]
    return ">" not in inside, title


def read_rows(path: str, rules: Rules, file_format: str) -> Iterator[Document]:
    """Yields one document for each row of a file.

    Args:
        path: the file.
        rules: its `text_field` is the column of the text; null is a document
            without text. A column `title` has the titles.
        file_format: one of `row_files.FORMATS`.

    Raises:
        ValueError: another format, or a row without such a text; names the
            line.
    """
    rows = row_files.read_rows(
        path,
        (rules.text_field,),
        has_header=True,
        same_width=True,
        file_format=file_format,
        optional=("title",),
    )
    yield from _row_documents(rows, rules)


def _row_documents(
    rows: Iterable[row_files.Row], rules: Rules
) -> Iterator[Document]:
    """Yields the document of each row; its lines are paragraphs."""
    try:
        for row in rows:
            title = None
            # A text is no title of itself.
            if rules.text_field != "title" and row.has("title"):
                title = row.cell("title")
            text = row.read(rules.text_field, _text_or_null)
            yield Document(
                lines=[line for line in text.splitlines() if line.strip()],
                title=title if isinstance(title, str) else None,
            )
    except row_files.ColumnError as error:
        raise ValueError(f"{error} Choose it with --text_field.") from error


def _text_or_null(value: object) -> str:
    return "" if value is None else row_files.text(value)


def read_mediawiki(path: str, rules: Rules) -> Iterator[Document]:
    """Yields the articles of an XML dump; see `mediawiki.read_articles`."""
    del rules
    with text_files.open_to_read(path) as file:
        for title, text in mediawiki.read_articles(file, path):
            yield Document(lines=text.splitlines(), title=title)


def read_book(path: str, rules: Rules) -> Iterator[Document]:
    """Yields one document: a book in plain text with hard-wrapped lines."""
    del rules
    yield Document(lines=list(text_files.read_lines(path)))


FORMATS: Mapping[str, Format] = {
    "text": Format(
        about="one sentence per line, an empty line between documents",
        read=read_text,
        is_split=True,
    ),
    "paragraphs": Format(
        about="one paragraph per line, an empty line between documents",
        read=read_paragraphs,
    ),
    "wikiextractor": Format(
        about="<doc ...> to </doc>, or its JSON lines",
        read=read_wikiextractor,
        paragraphs=cleaning.wiki_paragraphs,
        min_paragraph_words=_MIN_WORDS_OF_PROSE,
    ),
    "jsonl": Format(
        about="one object per line",
        read=functools.partial(read_rows, file_format=row_files.JSON_LINES),
    ),
    "csv": Format(
        about="one document per row, below the names of the columns",
        read=functools.partial(read_rows, file_format=row_files.CSV),
    ),
    "parquet": Format(
        about="one document per row, as in Hugging Face data sets",
        read=functools.partial(read_rows, file_format=row_files.PARQUET),
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
}


def read_documents(
    input_paths: Iterable[str], rules: Rules
) -> Iterator[Document]:
    """Yields the documents of all input files, in order.

    Args:
        input_paths: the files.
        rules: format and text field.

    Raises:
        ValueError: the input is not in this format; names file and line.
    """
    read = FORMATS[rules.input_format].read
    for path in input_paths:
        yield from read(path, rules)
