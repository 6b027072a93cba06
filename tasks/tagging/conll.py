"""Column files as CoNLL-2003 is distributed: a word a line, with its tags."""

import dataclasses
import re
from collections.abc import Iterator, Sequence

from absl import logging

from files import lines, messages

DOCUMENT_START = "-DOCSTART-"

_BYTE_ORDER_MARK = "\ufeff"
_COLUMNS = re.compile(r"(word|tag):(-?\d+)")
# White space of other kinds, such as U+00A0, may be part of a word.
_SEPARATORS = re.compile(r"[ \t]+")
_MOST_LINES_SHOWN = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns of a file hold what.

    Attributes:
        word: place of the word; 0 is the first column, -1 the last.
        tag: place of the tag; None where there are no tags.
    """

    word: int = 0
    tag: int | None = -1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sentence:
    """A sentence of a column file.

    Attributes:
        words: as in the file, one or more.
        tags: of the words, as in the file; None if it has no tag column.
        lines: the line of each word, from 1.
        document: the number of its document, from 0.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None
    lines: tuple[int, ...]
    document: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnFile:
    """What a column file holds.

    Attributes:
        path: the file.
        sentences: in file order, one or more.
        has_documents: whether `-DOCSTART-` says where documents begin; if not,
            every sentence is a document of its own.
    """

    path: str
    sentences: tuple[Sentence, ...]
    has_documents: bool

    @property
    def has_tags(self) -> bool:
        """Whether words come with tags."""
        return self.sentences[0].tags is not None

    def num_words(self) -> int:
        """Counts the words of all sentences."""
        return sum(len(sentence.words) for sentence in self.sentences)


def parse_columns(text: str) -> Columns:
    """Reads places of columns, such as `word:0,tag:-1`; `tag` may be absent.

    Raises:
        ValueError: the text says something else.
    """
    found = {}
    for part in text.split(","):
        match = _COLUMNS.fullmatch(part.strip())
        if match is None or match[1] in found:
            raise ValueError(_wrong_columns(text))
        found[match[1]] = int(match[2])
    if "word" not in found or found["word"] == found.get("tag"):
        raise ValueError(_wrong_columns(text))
    return Columns(word=found["word"], tag=found.get("tag"))


def _wrong_columns(text: str) -> str:
    return (
        "--columns must name the column of the words and that of the tags, "
        f"as in word:0,tag:-1 (0 is the first, -1 the last); got {text!r}."
    )


def read(path: str, columns: Columns) -> ColumnFile:
    """Reads a column file.

    Columns are parted by tabs, or by runs of spaces in lines without a tab.
    An empty line ends a sentence; a line with `-DOCSTART-` begins a document.
    A file whose rows hold nothing but a word has no tags.

    Args:
        path: of the file, UTF-8.
        columns: where words and tags are.

    Raises:
        OSError: the file cannot be opened.
        ValueError: the rows differ in their number of columns, or lack one of
            `columns`, or there is no sentence; names the file and the line.
    """
    sentences, starts, document, rows = [], [], 0, []
    previous_row = None
    for number, cells in _rows(path):
        # Whatever else such a row holds, or lacks, is of no meaning.
        is_start = DOCUMENT_START in cells
        if cells and not is_start:
            _check_row(path, number, cells, previous_row)
            previous_row = (number, cells)
            rows.append((number, cells))
            continue
        if rows:
            sentences.append(_sentence(path, rows, columns, document))
            rows = []
        if is_start:
            starts.append(number)
            document += 1
    if rows:
        sentences.append(_sentence(path, rows, columns, document))
    if not sentences:
        raise ValueError(
            f"{path}: must hold at least one sentence; it holds none."
        )
    _warn_of_empty_documents(path, starts, sentences)
    if not starts:
        sentences = [
            dataclasses.replace(sentence, document=number)
            for number, sentence in enumerate(sentences)
        ]
    return ColumnFile(
        path=path, sentences=tuple(sentences), has_documents=bool(starts)
    )


def prediction_lines(
    sentences: Sequence[Sentence],
    gold: Sequence[Sequence[str]] | None,
    predicted: Sequence[Sequence[str]],
) -> Iterator[str]:
    """Formats answers as the evaluation script of CoNLL reads them.

    A line for each word: the word, its tag in IOB2 if that is known, the
    predicted tag; an empty line after each sentence. Columns are parted by one
    space, as in CoNLL-2003, or by a tab where a word holds a space itself.
    """
    for number, sentence in enumerate(sentences):
        columns: list[Sequence[str]] = [sentence.words]
        if gold is not None:
            columns.append(gold[number])
        columns.append(predicted[number])
        for row in zip(*columns, strict=True):
            separator = "\t" if any(" " in cell for cell in row) else " "
            yield separator.join(row) + "\n"
        yield "\n"


def _rows(path: str) -> Iterator[tuple[int, list[str]]]:
    """Yields the number of each line and its cells, none for an empty line."""
    for number, line in enumerate(lines.read_lines(path), start=1):
        if number == 1:
            line = line.removeprefix(_BYTE_ORDER_MARK)  # noqa: PLW2901
        stripped = line.strip(" \t")
        if not stripped:
            yield number, []
        elif "\t" in stripped:
            yield number, [cell.strip(" ") for cell in stripped.split("\t")]
        else:
            yield number, _SEPARATORS.split(stripped)


def _check_row(
    path: str,
    number: int,
    cells: list[str],
    previous: tuple[int, list[str]] | None,
) -> None:
    if previous is not None and len(cells) != len(previous[1]):
        raise ValueError(
            f"{path}, line {number}: all rows must have the same number of "
            f"columns; this one has {len(cells)} "
            f"({messages.short(' '.join(cells))}) and "
            f"line {previous[0]} has {len(previous[1])}. Is a word or a tag "
            "missing, or does a word hold a space?"
        )


def _sentence(
    path: str,
    rows: Sequence[tuple[int, list[str]]],
    columns: Columns,
    document: int,
) -> Sentence:
    words = [_cell(path, row, "word", columns.word) for row in rows]
    tags = None
    if columns.tag is not None and len(rows[0][1]) > 1:
        tags = tuple(_cell(path, row, "tag", columns.tag) for row in rows)
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


def _warn_of_empty_documents(
    path: str, starts: Sequence[int], sentences: Sequence[Sentence]
) -> None:
    held = {sentence.document for sentence in sentences}
    # Document 0 is what stands before the first start.
    empty = [
        line
        for document, line in enumerate(starts, start=1)
        if document not in held
    ]
    if empty:
        logging.warning(
            "%s: %d of %d documents have no sentence and are left out; they "
            "begin at line(s) %s",
            path,
            len(empty),
            len(starts),
            messages.listed(empty, _MOST_LINES_SHOWN),
        )
