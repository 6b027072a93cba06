"""Column files in the format of CoNLL-2003: one word per line, with tags."""

import dataclasses
import re
from collections.abc import Iterator, Sequence

from files import lines, messages

DOCUMENT_START = "-DOCSTART-"

_COLUMNS = re.compile(r"(word|tag):(-?\d+)")
# Other white space, such as U+00A0, may be part of a word.
_SEPARATORS = re.compile(r"[ \t]+")


# The columns of words and tags: 0 is the first, -1 the last; None without tags.
Columns = tuple[int, int | None]
WORD_AND_TAG: Columns = (0, -1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sentence:
    """A sentence of a column file.

    Attributes:
        words: as in the file, at least one.
        tags: of the words, as in the file; None without a tag column.
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
    found = {match[1]: int(match[2]) for match in parts if match}
    is_complete = len(found) == len(parts) and "word" in found
    if not is_complete or found["word"] == found.get("tag"):
        raise ValueError(
            "--columns must give the columns of word and tag, as in "
            f"word:0,tag:-1 (0 is the first, -1 the last); got {text!r}."
        )
    return found["word"], found.get("tag")


def read(
    path: str, columns: Columns, *, with_documents: bool = True
) -> ColumnFile:
    """Reads a column file.

    Columns are separated by tabs, or by runs of spaces in lines without a tab.
    An empty line ends a sentence; a line with `-DOCSTART-` begins a document.
    A file with a single column has no tags.

    Args:
        path: the file, UTF-8.
        columns: columns of words and tags.
        with_documents: whether `-DOCSTART-` lines mark documents; if not, each
            sentence is one.

    Raises:
        OSError: the file cannot be opened.
        ValueError: rows differ in their number of columns, a column is missing,
            or there is no sentence; names the file and the line.
    """
    sentences, rows = [], []
    num_documents = 0
    previous: tuple[int, list[str]] | None = None
    for number, cells in _rows(path):
        # Other columns of such a row are ignored.
        is_start = DOCUMENT_START in cells
        if cells and not is_start:
            if previous and len(cells) != len(previous[1]):
                raise ValueError(
                    f"{path}, line {number}: all rows must have the same "
                    f"number of columns; this one has {len(cells)} "
                    f"({messages.short(' '.join(cells))}) and line "
                    f"{previous[0]} has {len(previous[1])}. Is a word or a tag "
                    "missing, or does a word contain a space?"
                )
            previous = (number, cells)
            rows.append(previous)
            continue
        if rows:
            sentences.append(_sentence(path, rows, columns, num_documents))
            rows = []
        if is_start:
            num_documents += 1
    if not sentences:
        raise ValueError(f"{path}: expected at least one sentence; got none.")
    if not (num_documents and with_documents):
        sentences = [
            dataclasses.replace(sentence, document=number)
            for number, sentence in enumerate(sentences)
        ]
    return ColumnFile(
        path=path, sentences=tuple(sentences), has_documents=num_documents > 0
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


def _rows(path: str) -> Iterator[tuple[int, list[str]]]:
    """Yields line numbers and cells: none for an empty line and the end."""
    number = 0
    for number, line in enumerate(lines.read_lines(path), start=1):
        if number == 1:
            line = line.removeprefix(lines.BYTE_ORDER_MARK)  # noqa: PLW2901
        stripped = line.strip(" \t")
        if not stripped:
            yield number, []
        elif "\t" in stripped:
            yield number, [cell.strip(" ") for cell in stripped.split("\t")]
        else:
            yield number, _SEPARATORS.split(stripped)
    yield number + 1, []


def _sentence(
    path: str,
    rows: Sequence[tuple[int, list[str]]],
    columns: Columns,
    document: int,
) -> Sentence:
    word, tag = columns
    words = [_cell(path, row, "word", word) for row in rows]
    tags = None
    if tag is not None and len(rows[0][1]) > 1:
        tags = tuple(_cell(path, row, "tag", tag) for row in rows)
    return Sentence(
        words=tuple(words),
        tags=tags,
        lines=tuple(number for number, _ in rows),
        document=document,
    )


def _cell(path: str, row: tuple[int, list[str]], name: str, place: int) -> str:
    number, cells = row
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
