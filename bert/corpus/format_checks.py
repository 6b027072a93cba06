"""Warnings of files of sentences that have the marks of another format."""

import re
from collections.abc import Iterable

from bert.files import lines, messages, paths, text_files

_HEAD_BYTES = 1 << 16
_HEAD_LINES = 200
_WIKIEXTRACTOR = re.compile(r"<doc\s.*>\Z|</doc>\Z")
_MEDIAWIKI = re.compile(r"<(\?xml|mediawiki)\b")
_JSON_OBJECT = re.compile(r'\{\s*"[^"]*"\s*:')
_CONTENTS = {
    "wikiextractor": "lines are <doc ...> tags of WikiExtractor",
    "jsonl": "the lines are JSON objects",
    "mediawiki": "the lines are XML",
}


def warnings(names: Iterable[str]) -> list[str]:
    """Checks the first lines of files of one sentence per line.

    Args:
        names: the files; pipes, which can be read only once, are left out.

    Returns:
        A warning for each other format.

    Raises:
        OSError, ValueError: see `text_files.open_to_read`.
    """
    files: dict[str, list[str]] = {}
    for path in names:
        if not paths.is_stream(path):
            files.setdefault(_format_of(_head(path)), []).append(path)
    return [
        "--input_format=text reads one sentence per line, but in "
        f"{messages.names(files[name])} {content}. Pass --input_format={name}."
        for name, content in _CONTENTS.items()
        if name in files
    ]


def _head(path: str) -> list[str]:
    """Returns the first lines of a file that are not blank."""
    with text_files.open_to_read(path) as file:
        head = file.read(_HEAD_BYTES)
    text = head.decode("utf-8", "replace").removeprefix(lines.BYTE_ORDER_MARK)
    rows = text.split("\n")
    # The last one may be incomplete.
    if len(head) == _HEAD_BYTES and len(rows) > 1:
        rows.pop()
    return [row.strip() for row in rows if row.strip()][:_HEAD_LINES]


def _format_of(rows: list[str]) -> str:
    if any(map(_WIKIEXTRACTOR.match, rows)):
        return "wikiextractor"
    if rows and _MEDIAWIKI.match(rows[0]):
        return "mediawiki"
    is_json = rows and all(map(_JSON_OBJECT.match, rows))
    return "jsonl" if is_json else "text"
