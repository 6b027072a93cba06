"""Column files in the format of CoNLL-2003: one word per line, with tags."""

import dataclasses
import re
from collections.abc import Iterator, Sequence

from absl import logging

from bert.files import lines, messages, row_files

DOCUMENT_START = "-DOCSTART-"
FORMAT = (
    "A column file has one word and its tag per line, in columns separated by "
    "spaces or tabs (see --columns), and an empty line after each sentence."
)

_COLUMNS = re.compile(r"(word|tag):(-?\d+)")
# Other white space, such as U+00A0, may be part of a word.
_SEPARATORS = re.compile(r"[ \t]+")
_OTHER_FORMATS = (".csv", ".json", ".jsonl", ".parquet", ".xml")
# Source: https://conll.cemantix.org/2012/data.html (OntoNotes)
_DOCUMENT_MARKS = (("#begin", "document"), ("#end", "document"))
# Source: https://universaldependencies.org/format.html
_CONLL_U = (".conllu", ".conllup")
# A comment, a token of several words (3-4) or an empty word (3.1).
_CONLL_U_NO_WORD = re.compile(r"#.*|\d+[-.]\d+")

# The columns of words and tags: 0 is the first, -1 the last; None without tags.
Columns = tuple[int, int | None]
WORD_AND_TAG: Columns = (0, -1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sentence:
    """A sentence of a column file.

    Attributes:
        words: as in the file, at least one.
        tags: of the words, in one spelling each; None without a tag column.
        lines: line number of each word, from 1.
        document: number of its document, from 0.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None
    lines: tuple[int, ...]
    document: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnFile:
    """Content of a column file.

    Attributes:
        path: the file.
        sentences: in file order, at least one.
        has_documents: whether `-DOCSTART-` lines mark documents; if not, each
            sentence is a document.
    """

    path: str
    sentences: tuple[Sentence, ...]
    has_documents: bool

    @property
    def tags(self) -> list[tuple[str, ...]]:
        """The tags of each sentence; none without a tag column."""
        return [s.tags for s in self.sentences if s.tags is not None]


def parse_columns(text: str) -> Columns:
    """Parses columns such as `word:0,tag:-1`; `tag` is optional.

    Raises:
        ValueError: the text has another format.
    """
    parts = [_COLUMNS.fullmatch(part.strip()) for part in text.split(",")]
    numbers = {match[1]: int(match[2]) for match in parts if match}
    is_complete = len(numbers) == len(parts) and "word" in numbers
    if not is_complete or numbers["word"] == numbers.get("tag"):
        raise ValueError(
            "--columns must give the columns of word and tag, as in "
            f"word:0,tag:-1 (0 is the first, -1 the last); got {text!r}."
        )
    return numbers["word"], numbers.get("tag")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Row:
    """A line of a file: its number, from 1, and its cells, if it has any."""

    number: int
    cells: tuple[str, ...]


def read(
    path: str, columns: Columns, *, with_documents: bool = True
) -> ColumnFile:
    """Reads a column file.

    Columns are separated by tabs, or by runs of spaces in lines without a tab.
    An empty line ends a sentence; a line with `-DOCSTART-` begins a document.
    A file with a single column has no tags. What is no word in OntoNotes or,
    by its name, in CoNLL-U, such as a comment, is left out.

    Args:
        path: the file, UTF-8.
        columns: columns of words and tags.
        with_documents: whether `-DOCSTART-` lines mark documents; if not, each
            sentence is one.

    Raises:
        OSError: the file cannot be opened.
        ValueError: the file is of another format, rows differ in their number
            of columns, a column is missing, or there is no sentence; names the
            file and the line.
    """
    is_conll_u = path.lower().endswith(_CONLL_U)
    if path.lower().endswith(_OTHER_FORMATS):
        raise ValueError(f"{path} must be a column file. {FORMAT}")
    if is_conll_u and columns[0] == 0:
        raise ValueError(
            f"{path}: --columns must give the column of words; column 0 of "
            "CoNLL-U has their numbers. For parts of speech, pass "
            "--columns=word:1,tag:3."
        )
    sentences: list[Sentence] = []
    rows: list[_Row] = []
    previous: _Row | None = None
    document = num_left_out = 0
    for row in _rows(path):
        # Other columns of such a row are ignored.
        is_start = DOCUMENT_START in row.cells
        if _is_no_word(row, is_conll_u=is_conll_u):
            num_left_out += 1
        elif row.cells and not is_start:
            _check_width(path, previous or row, row)
            rows.append(row)
            previous = row
        else:
            if rows:
                sentences.append(_sentence(path, rows, columns, document))
            rows = []
            document += is_start
    if num_left_out:
        logging.info(
            "%s: %d rows that are no words, such as comments, are left out.",
            path,
            num_left_out,
        )
    if not sentences:
        raise ValueError(f"{path}: expected at least one sentence; got none.")
    if not (document and with_documents):
        sentences = [
            dataclasses.replace(sentence, document=number)
            for number, sentence in enumerate(sentences)
        ]
    return ColumnFile(
        path=path, sentences=tuple(sentences), has_documents=document > 0
    )


def _is_no_word(row: _Row, *, is_conll_u: bool) -> bool:
    """Returns whether a row is a mark, a comment or another token."""
    if is_conll_u and row.cells:
        return _CONLL_U_NO_WORD.fullmatch(row.cells[0]) is not None
    return row.cells[:2] in _DOCUMENT_MARKS


def _rows(path: str) -> Iterator[_Row]:
    """Yields the lines of a file, and an empty one after the last."""
    number = 0
    for number, line in enumerate(lines.read_lines(path), start=1):
        if number == 1:
            line = line.removeprefix(lines.BYTE_ORDER_MARK)  # noqa: PLW2901
        stripped = line.strip(" \t")
        if "\t" in stripped:
            cells = [cell.strip(" ") for cell in stripped.split("\t")]
        else:
            cells = _SEPARATORS.split(stripped) if stripped else []
        yield _Row(number=number, cells=tuple(cells))
    yield _Row(number=number + 1, cells=())


def _check_width(path: str, previous: _Row, row: _Row) -> None:
    if len(row.cells) != len(previous.cells):
        shown = [messages.short(" ".join(r.cells)) for r in (row, previous)]
        raise ValueError(
            f"{path}, line {row.number}: all rows must have the same number of "
            f"columns; this one has {len(row.cells)} ({shown[0]}) and line "
            f"{previous.number} has {len(previous.cells)} ({shown[1]}). "
            f"{FORMAT} Comments are left out of files named NAME.conllu alone."
        )


def prediction_lines(
    sentences: Sequence[Sentence],
    predicted: Sequence[Sequence[str]],
) -> Iterator[str]:
    """Formats predictions for the evaluation script of CoNLL.

    Each line has the word, its tag if known, and the predicted tag; an
    empty line follows each sentence. Columns are separated by one space, as in
    CoNLL-2003, or by a tab if a word contains a space.
    """
    for sentence, tags in zip(sentences, predicted, strict=True):
        columns = [sentence.words, tags]
        if sentence.tags is not None:
            columns.insert(1, sentence.tags)
        for row in zip(*columns, strict=True):
            separator = "\t" if any(" " in cell for cell in row) else " "
            yield separator.join(row) + "\n"
        yield "\n"


def _sentence(
    path: str, rows: Sequence[_Row], columns: Columns, document: int
) -> Sentence:
    word, tag = columns
    words = [_cell(path, row, "word", word) for row in rows]
    tags = None
    if tag is not None and len(rows[0].cells) > 1:
        tags = tuple(
            row_files.spelling_key(_cell(path, row, "tag", tag)) for row in rows
        )
    return Sentence(
        words=tuple(words),
        tags=tags,
        lines=tuple(row.number for row in rows),
        document=document,
    )


def _cell(path: str, row: _Row, name: str, place: int) -> str:
    number, cells = row.number, row.cells
    if not -len(cells) <= place < len(cells):
        raise ValueError(
            f"{path}, line {number}: --columns puts the {name} in column "
            f"{place}; the row has {len(cells)} column(s): "
            f"{messages.short(' '.join(cells))}."
        )
    if not cells[place]:
        raise ValueError(
            f"{path}, line {number}: the {name} (column {place}) is empty."
        )
    return cells[place]
