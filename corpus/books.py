"""Books in plain text: hard-wrapped lines -> paragraphs."""

import re
from collections.abc import Iterable

# Lines such as "*** START OF THE PROJECT GUTENBERG EBOOK EMMA ***"; a long
# title runs over several.
_MARK = re.compile(r"\s*\*\*\*\s?(START|END) OF (THE|THIS) PROJECT GUTENBERG")
_MAX_MARK_LINES = 4
_ENDS_A_SENTENCE = re.compile(r"[.!?:…][\"'”’»)\]_*]*$")


def paragraphs(lines: Iterable[str]) -> list[str]:
    """Joins the hard-wrapped lines of a book into paragraphs.

    Header and footer of Project Gutenberg are cut where their START and END
    lines mark them. A paragraph ends at an empty line. Books without empty
    lines are told apart by their layout: a line that ends a sentence also
    ends its paragraph if the next is indented, or if it was short enough to
    take the next word.

    Args:
        lines: the book; a form feed or a carriage return ends a line too.

    Returns:
        The paragraphs in order, without line ends.
    """
    lines = [part for line in lines for part in _split_line(line)]
    lines = _without_licence(lines)
    width = _wrap_width(lines)
    result: list[str] = []
    previous = ""
    for line in lines:
        if not line.strip():
            previous = ""
            continue
        if previous and not _starts_paragraph(line, previous, width):
            result[-1] += " " + line.strip()
        else:
            result.append(line.strip())
        previous = line.rstrip()
    return result


def _split_line(line: str) -> list[str]:
    return re.split(r"[\r\f]", line)


def _starts_paragraph(line: str, previous: str, width: int) -> bool:
    if not _ENDS_A_SENTENCE.search(previous):
        return False
    first_word = line.split(maxsplit=1)[0]
    would_have_fitted = len(previous) + 1 + len(first_word) <= width
    return line[0].isspace() or would_have_fitted


def _wrap_width(lines: list[str]) -> int:
    """Measures how many characters the lines of a book are wrapped at."""
    lengths = sorted(len(line.rstrip()) for line in lines if line.strip())
    # A few lines in a hundred may stand out: tables, long words.
    return lengths[len(lengths) * 97 // 100] if lengths else 0


def _without_licence(lines: list[str]) -> list[str]:
    start, end = 0, len(lines)
    for i, line in enumerate(lines):
        if mark := _MARK.match(line.upper()):
            if mark.group(1) == "END":
                end = i
                break
            start = _end_of_mark(lines, i)
    return lines[start:end]


def _end_of_mark(lines: list[str], first: int) -> int:
    for i in range(first, min(first + _MAX_MARK_LINES, len(lines))):
        if lines[i].rstrip().endswith("***"):
            return i + 1
    return first + 1
