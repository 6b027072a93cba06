"""Warnings about files that are read as sentences but have another format."""

import csv
import re
from collections.abc import Iterable

from bert.corpus import cleaning, formats
from bert.files import lines, messages, paths

_HEAD_BYTES = 1 << 16
_HEAD_LINES = 200
_WIKIEXTRACTOR = re.compile(r"<doc\s.*>\Z|</doc>\Z")
_MEDIAWIKI = re.compile(r"<(\?xml|mediawiki)\b")
_JSON_OBJECT = re.compile(r'\{\s*"[^"]*"\s*:')
_NAME_OF_COLUMN = re.compile(r"[^\W\d][\w -]*")
_MIN_ROWS = 3
# A few of the lines of a proper file have two sentences, such as quotations.
_SENTENCES_OF_PARAGRAPHS = 2
_CONTENTS = {
    "wikiextractor": "lines are <doc ...> tags of WikiExtractor",
    "jsonl": "the lines are JSON objects",
    "mediawiki": "the lines are XML",
    "csv": "the rows have the same number of cells, the first one names",
    "paragraphs": "most lines have several sentences",
}


def warnings(names: Iterable[str], language: str) -> list[str]:
    """Checks the first lines of files of one sentence per line.

    Args:
        names: the files; pipes, which can be read only once, are left out.
        language: of the sentences, an ISO 639 code.

    Returns:
        A warning for each other format.

    Raises:
        OSError, ValueError: see `formats.open_to_read`.
    """
    files: dict[str, list[str]] = {}
    for path in names:
        if not paths.is_stream(path):
            files.setdefault(_format_of(_head(path), language), []).append(path)
    return [
        "--input_format=text reads one sentence per line, but in "
        f"{messages.names(files[name])} {content}. Pass --input_format={name}."
        for name, content in _CONTENTS.items()
        if name in files
    ]


def _head(path: str) -> list[str]:
    """Returns the first lines of a file that are not blank."""
    with formats.open_to_read(path) as file:
        head = file.read(_HEAD_BYTES)
    text = head.decode("utf-8", "replace").removeprefix(lines.BYTE_ORDER_MARK)
    rows = text.split("\n")
    # The last one may be incomplete.
    if len(head) == _HEAD_BYTES and len(rows) > 1:
        rows.pop()
    return [row.strip() for row in rows if row.strip()][:_HEAD_LINES]


def _format_of(rows: list[str], language: str) -> str:
    if not rows:
        return "text"
    if any(map(_WIKIEXTRACTOR.match, rows)):
        return "wikiextractor"
    if _MEDIAWIKI.match(rows[0]):
        return "mediawiki"
    if all(map(_JSON_OBJECT.match, rows)):
        return "jsonl"
    if _is_csv(rows):
        return "csv"
    sentences = [cleaning.split_paragraph(row, language) for row in rows]
    several = sum(map(len, sentences)) >= _SENTENCES_OF_PARAGRAPHS * len(rows)
    return "paragraphs" if several else "text"


def _is_csv(rows: list[str]) -> bool:
    """Returns whether rows are those of a table of several named columns."""
    try:
        names, *table = filter(None, csv.reader(f"{row}\n" for row in rows))
    except csv.Error:
        return False
    # The last row may be incomplete.
    table = table[: max(_MIN_ROWS - 1, len(table) - 1)]
    return (
        len(names) > 1
        and len(table) >= _MIN_ROWS - 1
        and all(map(_NAME_OF_COLUMN.fullmatch, map(str.strip, names)))
        and all(len(cells) == len(names) for cells in table)
    )
