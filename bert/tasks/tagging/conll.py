"""Column files in the format of CoNLL-2003: one word per line, with tags."""

import dataclasses
import itertools
import re
from collections.abc import Iterator, Sequence

from absl import logging

from bert.files import lines, messages

DOCUMENT_START = "-DOCSTART-"

COMMENT = "#"

_COLUMNS = re.compile(r"(word|tag):(-?\d+)")
# Other white space, such as U+00A0, may be part of a word.
_SEPARATORS = re.compile(r"[ \t]+")
# Ids of CoNLL-U: 3-4 of a token of several words, 3.1 of an empty word.
_TOKEN_ID = re.compile(r"\d{1,9}[-.]\d{1,9}")
_WORD_ID = re.compile(r"\d{1,9}")
_CONLL_U_COLUMNS = 10

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
    """A line of a file.

    Attributes:
        number: of the line, from 1.
        cells: none in an empty line.
        has_tabs: whether tabs separate the cells.
    """

    number: int
    cells: tuple[str, ...]
    has_tabs: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Block:
    """The rows of a sentence, and the number of its document."""

    rows: tuple[_Row, ...]
    document: int


def read(
    path: str, columns: Columns, *, with_documents: bool = True
) -> ColumnFile:
    """Reads a column file.

    Columns are separated by tabs, or by runs of spaces in lines without a tab.
    An empty line ends a sentence; a line with `-DOCSTART-` begins a document.
    A file with a single column has no tags. Comments, which are lines with `#`
    before a sentence, are left out, and so are the tokens of several words and
    the empty words of CoNLL-U.

    Args:
        path: the file, UTF-8.
        columns: columns of words and tags.
        with_documents: whether `-DOCSTART-` lines mark documents; if not, each
            sentence is one.

    Raises:
        OSError: the file cannot be opened.
        ValueError: rows differ in their number of columns, a column is missing,
            the column of words counts them, or there is no sentence; names the
            file and the line.
    """
    blocks = list(_blocks(path))
    has_documents = any(block.document for block in blocks)
    blocks = _without_comments(path, blocks, columns)
    _check_widths(path, [row for block in blocks for row in block.rows])
    blocks = _without_token_ids(path, blocks, columns)
    sentences = [_sentence(path, block, columns) for block in blocks]
    if not sentences:
        raise ValueError(f"{path}: expected at least one sentence; got none.")
    _check_words(path, sentences, columns, len(blocks[0].rows[0].cells))
    if not (has_documents and with_documents):
        sentences = [
            dataclasses.replace(sentence, document=number)
            for number, sentence in enumerate(sentences)
        ]
    return ColumnFile(
        path=path, sentences=tuple(sentences), has_documents=has_documents
    )


def _rows(path: str) -> Iterator[_Row]:
    for number, line in enumerate(lines.read_lines(path), start=1):
        if number == 1:
            line = line.removeprefix(lines.BYTE_ORDER_MARK)  # noqa: PLW2901
        stripped = line.strip(" \t")
        if "\t" in stripped:
            cells = [cell.strip(" ") for cell in stripped.split("\t")]
        else:
            cells = _SEPARATORS.split(stripped) if stripped else []
        yield _Row(number=number, cells=tuple(cells), has_tabs="\t" in stripped)


def _blocks(path: str) -> Iterator[_Block]:
    """Yields the rows between empty lines and starts of documents."""
    rows: list[_Row] = []
    document = 0
    for row in _rows(path):
        # Other columns of such a row are ignored.
        is_start = DOCUMENT_START in row.cells
        if row.cells and not is_start:
            rows.append(row)
            continue
        yield _Block(rows=tuple(rows), document=document)
        rows = []
        document += is_start
    yield _Block(rows=tuple(rows), document=document)


def _without_comments(
    path: str, blocks: Sequence[_Block], columns: Columns
) -> list[_Block]:
    """Leaves out comments, such as `# text = ...` of CoNLL-U.

    The word of a sentence may be `#` too. A comment has another number of
    columns than the words, or no tag of theirs.
    """
    rows = [row for block in blocks for row in block.rows]
    words = [row for row in rows if not row.cells[0].startswith(COMMENT)]
    if not words:
        return list(blocks)
    tags = {_tag(row, columns) for row in words}

    def is_comment(row: _Row) -> bool:
        if not row.cells[0].startswith(COMMENT):
            return False
        is_row = (len(row.cells), row.has_tabs) == (
            len(words[0].cells),
            words[0].has_tabs,
        )
        if row.cells[0] == COMMENT:
            return not is_row or _tag(row, columns) not in tags
        # A word such as #1 without its tag is a mistake.
        return not is_row and len(row.cells) > 1 and row.cells[-1] not in tags

    comments = []
    kept = []
    for block in blocks:
        comments += (first := list(itertools.takewhile(is_comment, block.rows)))
        kept.append(dataclasses.replace(block, rows=block.rows[len(first) :]))
    if comments:
        logging.info(
            "%s: %d lines that begin with %s are comments, the first is line "
            "%d.",
            path,
            len(comments),
            COMMENT,
            comments[0].number,
        )
    return kept


def _tag(row: _Row, columns: Columns) -> str | None:
    """Returns the tag of a row; None without one."""
    place, width = columns[1], len(row.cells)
    if place is None or width == 1 or not -width <= place < width:
        return None
    return row.cells[place]


def _check_widths(path: str, rows: Sequence[_Row]) -> None:
    for previous, row in itertools.pairwise(rows):
        if len(row.cells) != len(previous.cells):
            raise ValueError(
                f"{path}, line {row.number}: all rows must have the same "
                f"number of columns; this one has {len(row.cells)} "
                f"({messages.short(' '.join(row.cells))}) and line "
                f"{previous.number} has {len(previous.cells)}. Is a word or a "
                "tag missing, or does a word contain a space? Comments are "
                f"lines that begin with {COMMENT} before a sentence."
            )


def _without_token_ids(
    path: str, blocks: Sequence[_Block], columns: Columns
) -> list[_Block]:
    """Leaves out rows of CoNLL-U that are no words, such as 3-4 and 3.1."""
    blocks = [block for block in blocks if block.rows]
    first = [[row.cells[0] for row in block.rows] for block in blocks]
    is_numbered = columns[0] != 0 and all(map(_is_count, first))
    ids = [id_ for ids in first for id_ in ids if not _WORD_ID.fullmatch(id_)]
    if not is_numbered or not ids:
        return blocks
    logging.info(
        "%s: %d rows with the numbers of several words or of an empty one, as "
        "%s, are left out.",
        path,
        len(ids),
        ids[0],
    )
    return [
        dataclasses.replace(
            block,
            rows=tuple(r for r in block.rows if _WORD_ID.fullmatch(r.cells[0])),
        )
        for block in blocks
    ]


def _is_count(ids: Sequence[str]) -> bool:
    """Returns whether ids are 1, 2, 3, ..., perhaps with others of CoNLL-U."""
    numbers = [int(id_) for id_ in ids if _WORD_ID.fullmatch(id_)]
    if not all(_WORD_ID.fullmatch(i) or _TOKEN_ID.fullmatch(i) for i in ids):
        return False
    return bool(numbers) and numbers == list(
        range(numbers[0], numbers[0] + len(numbers))
    )


def _check_words(
    path: str, sentences: Sequence[Sentence], columns: Columns, width: int
) -> None:
    """Checks that the column of words does not count them."""

    def counts(words: Sequence[str]) -> bool:
        # The number of the sentence may stand before that of the word.
        return _is_count(words) or _is_count(
            [word.partition("-")[2] for word in words]
        )

    counting = [s.words for s in sentences if counts(s.words)]
    has_several = any(len(words) > 1 for words in counting)
    # A header, or a damaged sentence, does not make the others words.
    if width > 1 and has_several and 2 * len(counting) > len(sentences):
        place = columns[0] % width
        tag = 3 if width == _CONLL_U_COLUMNS else place + 2
        raise ValueError(
            f"{path}: --columns must give the column of words; column {place} "
            "numbers the words of each sentence, "
            f"{', '.join(max(counting, key=len)[:3])}, .... Pass, for example, "
            f"--columns=word:{place + 1},tag:{tag}."
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


def _sentence(path: str, block: _Block, columns: Columns) -> Sentence:
    word, tag = columns
    words = [_cell(path, row, "word", word) for row in block.rows]
    tags = None
    if tag is not None and len(block.rows[0].cells) > 1:
        tags = tuple(_cell(path, row, "tag", tag) for row in block.rows)
    return Sentence(
        words=tuple(words),
        tags=tags,
        lines=tuple(row.number for row in block.rows),
        document=block.document,
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
