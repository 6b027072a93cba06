"""Reader of MediaWiki XML dumps, and extraction of prose from wiki markup."""

import collections
import re
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING
from xml.etree import ElementTree

from bert.corpus import cleaning
from bert.files import messages

if TYPE_CHECKING:
    from mwparserfromhell import nodes, wikicode

_ARTICLES = "0"
_FILES, _CATEGORIES = "6", "14"
# Names valid in every wiki, in addition to those in its language.
_UNSEEN_NAMESPACES = {"file", "image", "media", "category"}
_INTERLANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z]+)*")
# These are left out in addition to those that mwparserfromhell treats as
# invisible.
_LEFT_OUT_TAGS = {"ref", "references", "table", "ul", "ol", "dl", "pre"}
_BLOCK_TAGS = {"blockquote", "center", "div", "p"}
_LIST_MARKUP = tuple("*#:;")
_LIST_ITEM = "\0"
_MAGIC_WORD = re.compile(r"__[A-Z]+__")
_QUOTES = re.compile(r"'{2,}")  # Italic (two), bold (three), both (five).
_QUOTES_IN_WORD = re.compile(r"(?<=\w)'''(?=\w)")
# Remains of removed templates: "Moss (; ) is", "Moss (; plural mosses) is" and
# "Moss (plural mosses; ) is".
_EMPTY_BRACKETS = re.compile(r" ?\([\s,;:]*\)")
_OPENED_BRACKETS = re.compile(r"\([\s,;:]+")
_CLOSED_BRACKETS = re.compile(r"(?<![ ,;:])[ ,;:]+\)")  # In linear time.


def read_articles(file: IO[bytes], name: str) -> Iterator[tuple[str, str]]:
    """Yields title and markup of the last revision of each article of a dump.

    Redirects and pages that are not articles are skipped.

    Args:
        file: XML in the format of `pages-articles`.
        name: of the file, for messages.

    Raises:
        ValueError: not a MediaWiki dump, or truncated; names the line.
    """
    events = ElementTree.iterparse(file, events=("start", "end"))
    localized: list[str] = []
    text, root = "", None
    try:
        for event, element in events:
            tag = element.tag.rpartition("}")[2]
            if root is None:
                root = element
                if tag != "mediawiki":
                    raise ValueError(
                        f"{name}: expected <mediawiki>, got "
                        f"<{messages.truncate(tag, 60)}>. Is this a MediaWiki "
                        "dump such as pages-articles.xml.bz2?"
                    )
            elif event == "start":
                continue
            elif tag == "namespace":
                if element.get("key") in (_FILES, _CATEGORIES) and element.text:
                    localized.append(re.escape(element.text))
            elif tag == "revision":
                is_prose = element.findtext("{*}model") in (None, "wikitext")
                text = (element.findtext("{*}text") or "") if is_prose else ""
                element.clear()  # A page can have thousands of revisions.
            elif tag == "page":
                is_article = element.findtext("{*}ns") == _ARTICLES
                if is_article and element.find("{*}redirect") is None:
                    title = element.findtext("{*}title") or ""
                    yield title, _with_file_namespace(text, localized)
                text = ""
                root.clear()
    except ElementTree.ParseError as error:
        raise ValueError(
            f"{name}, line {error.position[0]}: not XML ({error}). Is the file "
            "truncated?"
        ) from error


def _with_file_namespace(text: str, localized: list[str]) -> str:
    """Replaces localized names of the file namespace by `[[File:...]]`."""
    if not localized:
        return text
    names = "|".join(localized)
    return re.sub(rf"\[\[\s*(?:{names})\s*:", "[[File:", text, flags=re.I)


def paragraphs(
    lines: Iterable[str], counts: collections.Counter[str]
) -> Iterator[str]:
    """Yields the paragraphs of wiki markup, without lists, tables and headers.

    Templates are dropped, since their text is not in the page.

    Args:
        lines: of one page.
        counts: incremented for each page that cannot be parsed, and by
            what `cleaning.wiki_paragraphs` drops.
    """
    import mwparserfromhell

    try:
        text = _prose(
            mwparserfromhell.parse("\n".join(lines), skip_style_tags=True)
        )
    except mwparserfromhell.parser.ParserError:
        counts["paragraphs of left-over markup"] += 1
        return
    text = _without_quotes(_MAGIC_WORD.sub("", text))
    text = _OPENED_BRACKETS.sub("(", _EMPTY_BRACKETS.sub("", text))
    text = _CLOSED_BRACKETS.sub(")", text)
    kept = [
        line for line in text.split("\n") if not line.startswith(_LIST_ITEM)
    ]
    joined = (
        " ".join(paragraph.split())
        for paragraph in re.split(r"\n\s*\n", "\n".join(kept))
    )
    yield from cleaning.wiki_paragraphs(joined, counts)


def _prose(code: "wikicode.Wikicode") -> str:
    """Returns the visible text of the paragraphs of a parsed page."""
    from mwparserfromhell import definitions, nodes

    parts = []
    for node in code.nodes:
        if isinstance(node, nodes.Text):
            parts.append(node.value)
        elif isinstance(node, nodes.Wikilink):
            parts.append(_text_of_link(node))
        elif isinstance(node, nodes.HTMLEntity):
            parts.append(node.normalize() or "")
        elif isinstance(node, nodes.ExternalLink):
            parts.append(_prose(node.title) if node.title else "")
        elif isinstance(node, nodes.Heading):
            parts.append("\n\n")
        elif isinstance(node, nodes.Tag):
            tag = str(node.tag).strip().lower()
            if (node.wiki_markup or "").startswith(_LIST_MARKUP):
                parts.append(_LIST_ITEM)
            elif tag == "br":
                parts.append(" ")
            elif definitions.is_visible(tag) and tag not in _LEFT_OUT_TAGS:
                inside = _prose(node.contents) if node.contents else ""
                is_block = tag in _BLOCK_TAGS
                parts.append(f"\n\n{inside}\n\n" if is_block else inside)
    return "".join(parts)


def _without_quotes(text: str) -> str:
    """Removes the marks of bold and italic text, which end with their line.

    Source: MediaWiki reads `'''` as an apostrophe and `''` if a line has an
    odd number of both: `''Iliad'''s`.
    """
    lines = text.split("\n")
    for i, line in enumerate(lines):
        lengths = [len(run) for run in _QUOTES.findall(line)]
        if lengths.count(2) % 2 and lengths.count(3) % 2:
            lines[i] = _QUOTES_IN_WORD.sub("'", line, count=1)
    return _QUOTES.sub("", "\n".join(lines))


def _text_of_link(link: "nodes.Wikilink") -> str:
    title = str(link.title).strip()
    namespace, colon, _ = title.partition(":")
    if link.text is None:
        label = title.removeprefix(":")
    else:
        label = _without_quotes(_prose(link.text))
    is_unseen = colon and (
        namespace.strip().lower() in _UNSEEN_NAMESPACES
        or _INTERLANGUAGE.fullmatch(namespace)
    )
    # Options of an image whose namespace has a different name.
    return "" if is_unseen or "|" in label else label
