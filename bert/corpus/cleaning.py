"""Removal of markup, licenses and code from raw text; sentence splitting.

Each input format names one function of this module, or of its own module, that
converts the lines of a document to paragraphs, and counts what it drops by the
words for it in the log.

The sentence splitter is sentencex by Wikimedia, for some 300 languages. It
splits 65 MB of text per second and core; pysbd 0.2, syntok 0.8, blingfire 28.
"""

import collections
import functools
import html
import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator

import sentencex

_Counts = collections.Counter[str]
# "x<y and y>z" has no tag: what follows the name are attributes, or nothing.
_TAG = re.compile(r"</?[A-Za-z][\w:-]*(?:\s[^<>]*[=/][^<>]*)?\s*/?>")
# Remains of templates, tables and links at the start of a line.
_WIKI_RESIDUE = ("|", "!", "{", "}", "#", "<", "[[")
# JSON can contain lone surrogates, which UTF-8 cannot encode.
_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"  # The tokenizer drops it.
# Lines such as "*** START OF THE PROJECT GUTENBERG EBOOK EMMA ***"; a long
# title spans several.
_MARK = re.compile(r"\s*\*\*\*\s?(START|END) OF (THE|THIS) PROJECT GUTENBERG")
_MAX_MARK_LINES = 4

# An English word has about five letters. In translations, a Chinese character
# stands for about three of them, a syllable of Japanese or Korean for two, a
# letter or vowel sign of Thai, Lao, Khmer or Burmese for one.
_LETTERS_PER_WORD = 5
_CHINESE = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_SYLLABLE = re.compile("[\u3040-\u30ff\uff66-\uff9f\uac00-\ud7a3]")

# A longer "sentence" is usually an unclosed opening quotation mark. The limit
# is about the length of an example of 128 word pieces.
_LONG_SENTENCE_CHARACTERS = 500
_MARKS = "\"'“”„‟«»‹›‘’‚‛「」『』《》()[]{}<>"
_TO_SPACES = str.maketrans(dict.fromkeys(_MARKS, " "))
# Sentence-final marks in the scripts in use today: Latin, Armenian,
# Arabic, Syriac, Devanagari and its sisters, Tibetan, Burmese, Ethiopic,
# Canadian, Khmer, Mongolian, Balinese, Lepcha, Ol Chiki, Javanese, Cham,
# Meetei, Chinese and Japanese, of all widths.
_ENDS = tuple(".!?:…‼⁇⁈⁉։؟۔؝܀܁܂।॥།༎༏༐༑။።፧፨᙮។៕᠃᠉᭞᭟᰻᰼᱾᱿꧈꧉꩝꩞꩟꫰꫱꯫。．！？｡﹒﹖﹗")
_CLOSES = "\"'”’»›)]_*」』》〉）］】〕｣"
# Sentence ends that sentencex does not recognize, followed by a space.
_MISSED_END = re.compile(rf"(?:[།༎༏༐༑។៕][{re.escape(_CLOSES)}]*\s+)+")
_OPENING_AT_END = re.compile(rf"(?<=\s)[{re.escape(_MARKS)}]+\s*$")


def without_title(
    lines: list[str], title: str | None, counts: _Counts
) -> list[str]:
    """Drops the first line if it is the document title."""
    plain = html.unescape(title or "").strip()
    if lines and plain and html.unescape(lines[0]).strip() == plain:
        counts["titles"] += 1
        return lines[1:]
    return lines


def plain_paragraphs(lines: Iterable[str], counts: _Counts) -> Iterator[str]:
    """Yields the non-blank lines unchanged."""
    for line in lines:
        stripped = line.strip()
        if stripped and not stripped.isascii():
            stripped, num_replaced = _SURROGATE.subn(_REPLACEMENT, stripped)
            counts["lone surrogates (replaced by U+FFFD)"] += num_replaced
        if stripped:
            yield stripped


def wiki_paragraphs(lines: Iterable[str], counts: _Counts) -> Iterator[str]:
    """Resolves character references; drops tags and lines of markup."""
    for paragraph in plain_paragraphs(lines, counts):
        cleaned = paragraph
        if "&" in cleaned:
            cleaned = html.unescape(cleaned)
        if "<" in cleaned:
            cleaned, num_tags = _TAG.subn(" ", cleaned)
            counts["tags"] += num_tags
        cleaned = cleaned.strip()
        if cleaned.startswith(_WIKI_RESIDUE):
            counts["paragraphs of left-over markup"] += 1
        elif cleaned:
            yield cleaned
        else:
            counts["paragraphs without text"] += 1


def book_paragraphs(lines: Iterable[str], counts: _Counts) -> Iterator[str]:
    """Joins the hard-wrapped lines of a book into paragraphs.

    The text before the START line of Project Gutenberg and after its END
    line are dropped. A paragraph ends at an empty line. In books without
    empty lines, layout shows the paragraphs: a line that ends a sentence
    also ends its paragraph if the next line is indented, or if the line was
    too short because it had room for the next word.

    Args:
        lines: the book; a form feed or a carriage return also ends a line.
        counts: incremented by the dropped lines.
    """
    lines = [part for line in lines for part in re.split(r"[\r\f]", line)]
    lines = _without_license(lines, counts)
    width = _wrap_width(lines)
    paragraph: list[str] = []
    previous = ""
    for line in lines:
        stripped = line.strip()
        if paragraph and (
            not stripped or _starts_paragraph(line, previous, width)
        ):
            yield " ".join(paragraph)
            paragraph = []
        if stripped:
            paragraph.append(stripped)
            previous = line.rstrip()
    if paragraph:
        yield " ".join(paragraph)


def _starts_paragraph(line: str, previous: str, width: int) -> bool:
    if not ends_sentence(previous):
        return False
    first_word = line.split(maxsplit=1)[0]
    would_have_fitted = len(previous) + 1 + len(first_word) <= width
    return line[0].isspace() or would_have_fitted


def _wrap_width(lines: list[str]) -> int:
    """Estimates the line width at which a book is wrapped."""
    lengths = sorted(len(line.rstrip()) for line in lines if line.strip())
    # A few percent of the lines may be longer: tables, long words.
    return lengths[len(lengths) * 97 // 100] if lengths else 0


def _without_license(lines: list[str], counts: _Counts) -> list[str]:
    """Keeps the text between the marks; a file may contain several books."""
    kept: list[str] = []
    start, ended = 0, False
    num_lines = sum(1 for line in lines if line.strip())
    for i, line in enumerate(lines):
        # `upper` is slower than all of the code below.
        if "***" not in line or not (mark := _MARK.match(line.upper())):
            continue
        if mark.group(1) == "END":
            kept += lines[start:i] if not ended else []
            ended = True
        else:
            ended = False
            start = _end_of_mark(lines, i)
    if not ended:
        kept += lines[start:]
    counts["lines of a license"] += num_lines - sum(
        1 for line in kept if line.strip()
    )
    return kept


def _end_of_mark(lines: list[str], first: int) -> int:
    for i in range(first, min(first + _MAX_MARK_LINES, len(lines))):
        if lines[i].rstrip().endswith("***"):
            return i + 1
    return first + 1


def is_short(paragraph: str, min_words: int) -> bool:
    """Returns whether a paragraph is shorter than one of so many words.

    It is, if it has fewer words and no more letters than such a paragraph has
    in English: many scripts have no spaces between words.
    """
    if len(paragraph.split()) >= min_words:
        return False
    room = (min_words - 1) * _LETTERS_PER_WORD
    for character in paragraph:
        room -= _english_letters(character)
        if room < 0:
            return False
    return True


@functools.lru_cache(maxsize=1 << 16)
def _english_letters(character: str) -> int:
    """Returns the number of letters of English that a character stands for."""
    if unicodedata.category(character)[0] not in "LM":
        return 0
    if _CHINESE.match(character):
        return 3
    return 2 if _SYLLABLE.match(character) else 1


def ends_sentence(line: str) -> bool:
    """Returns whether a line ends like a sentence, or with a colon."""
    return line.rstrip(_CLOSES).endswith(_ENDS)


def split_paragraph(paragraph: str, language: str) -> list[str]:
    """Splits a paragraph into sentences, with single spaces between words.

    sentencex never ends a sentence inside quotation marks or brackets. If
    the result is longer than 500 characters, it is split again without
    regard to them.

    Args:
        paragraph: text, in which a newline is equivalent to a space.
        language: an ISO 639 code, such as "en". Languages that sentencex does
            not support use its general rules.

    Returns:
        The sentences, none empty. Words and their order are kept.
    """
    paragraph = " ".join(paragraph.split())
    sentences = []
    for sentence in sentencex.segment(language, paragraph):
        if len(sentence) > _LONG_SENTENCE_CHARACTERS:
            sentences += _split_inside_quotations(sentence, language)
        else:
            sentences.append(sentence)
    parts = (part for sentence in sentences for part in _split_missed(sentence))
    return [stripped for part in parts if (stripped := part.strip())]


def _split_missed(sentence: str) -> list[str]:
    if sentence.isascii():
        return [sentence]
    ends = [mark.end() for mark in _MISSED_END.finditer(sentence)]
    places = [0, *ends, len(sentence)]
    return [sentence[a:b] for a, b in itertools.pairwise(places)]


def _split_inside_quotations(sentence: str, language: str) -> list[str]:
    # Marks become spaces, so that offsets in both texts agree.
    parts = sentencex.segment(language, sentence.translate(_TO_SPACES))
    ends = [0, *itertools.accumulate(map(len, parts))]
    # The spaces after a full stop belong to it, and so would the opening mark
    # of the next sentence.
    for i, end in enumerate(ends[1:-1], start=1):
        if opening := _OPENING_AT_END.search(sentence[ends[i - 1] : end]):
            ends[i] -= len(opening.group())
    return [sentence[a:b] for a, b in itertools.pairwise(ends)]
