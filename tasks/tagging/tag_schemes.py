"""Tagging schemes: the letters that mark the words of an entity.

A tag is `O`, or a letter, a hyphen and the type of the entity; files may have
an underscore in place of the hyphen. In IOB2 the first word of an entity is
B-TYPE, the others are I-TYPE. The program uses IOB2 internally. IOB1 and IO
write I-TYPE unless an entity of the same type ends just before. IOBES, BILOU,
BMEWO and BMESO mark the last word of an entity, and entities of one word, by
further letters. Raw tags are types without letters.
"""

import dataclasses
import re
from collections.abc import Iterable, Sequence

from files import messages
from tasks.tagging import conll

_NUM_SHOWN = 8  # Maximum tags listed in a message.

OUTSIDE = "O"
BEGIN, INSIDE = "B", "I"
AUTO, IOB, RAW = SCHEMES = ("auto", "iob", "raw")

# Roles of the letters; those of all schemes are read by one rule.
# Source: Tjong Kim Sang and Veenstra 1999, "Representing Text Chunks";
# Ratinov and Roth 2009, "Design Challenges and Misconceptions in NER" (BILOU).
_STARTS = frozenset("BSUW")
_ENDS = frozenset("ELSUW")
_LETTERS = "BEILMSUW"
_TYPED = re.compile(rf"[{_LETTERS}][-_].+")


def split(tag: str) -> tuple[str, str]:
    """Splits a tag into letter and type: `B-PER` -> B, PER; `O` -> O, ""."""
    if tag[1:2] in ("-", "_"):
        return tag[0], tag[2:]
    return tag, ""


def detect(file: conll.ColumnFile) -> str:
    """Detects the scheme of the tags of a file.

    Letters without types are no scheme, but raw tags.

    Returns:
        `IOB` or `RAW`.

    Raises:
        ValueError: only some of the tags have a letter and a type.
    """
    tags = sorted({tag for tags in file.tags for tag in tags} - {OUTSIDE})
    typed = [tag for tag in tags if _TYPED.fullmatch(tag)]
    if typed and typed != tags:
        raise ValueError(
            f"{file.path}: all tags but O must be like B-TYPE, or none; got "
            f"{messages.listed(tags, _NUM_SHOWN)}. If they are names without "
            "such letters, pass --scheme=raw."
        )
    return IOB if typed else RAW


def to_iob2(tags: Sequence[str], scheme: str = IOB) -> tuple[str, ...]:
    """Converts the tags of a sentence to IOB2.

    Ill-formed sequences are read as in the evaluation script of CoNLL: an
    entity also begins at an I-TYPE that follows O or another type.

    Args:
        tags: of the words of one sentence.
        scheme: `IOB` for any scheme of letters, or `RAW`, where each run of
            equal tags is an entity.
    """
    if scheme == RAW:
        tags = [tag if tag == OUTSIDE else f"{INSIDE}-{tag}" for tag in tags]
    converted = []
    open_kind = None  # The type of an entity that may continue, or None.
    for tag in tags:
        letter, kind = split(tag)
        if tag == OUTSIDE:
            converted.append(OUTSIDE)
            open_kind = None
            continue
        begins = letter in _STARTS or kind != open_kind
        converted.append(_joined(BEGIN if begins else INSIDE, kind))
        open_kind = None if letter in _ENDS else kind
    return tuple(converted)


def labels_of(sentences: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Lists the labels of a model: O, then B and I of each type in order.

    Every type has both labels, even if only one occurs.
    """
    kinds = {
        split(tag)[1] for tags in sentences for tag in tags if tag != OUTSIDE
    }
    return (
        OUTSIDE,
        *(
            _joined(letter, kind)
            for kind in sorted(kinds)
            for letter in (BEGIN, INSIDE)
        ),
    )


def convert_file(
    file: conll.ColumnFile,
    scheme: str,
    known: Sequence[str] = (),
) -> conll.ColumnFile:
    """Converts the tags of a file to IOB2.

    Args:
        file: the file.
        scheme: `IOB` or `RAW`.
        known: the labels of the model; none to accept all.

    Raises:
        ValueError: the file has no tags, or one that is not in the scheme, or
            unknown; names the file and the line.
    """
    if not file.tags:
        raise ValueError(
            f"{file.path}: must have a column of tags; its rows have only a "
            "word. See --columns."
        )
    sentences = []
    for sentence, given in zip(file.sentences, file.tags, strict=True):
        tags = to_iob2(given, scheme)
        for place, tag in enumerate(given):
            where = f"{file.path}, line {sentence.lines[place]}"
            is_letter = tag in (OUTSIDE, *_LETTERS)
            if scheme == IOB and not (is_letter or _TYPED.fullmatch(tag)):
                raise ValueError(
                    f"{where}: {messages.short(tag)} is not a tag of "
                    "--scheme=iob, which has O and, for example, B-TYPE and "
                    "I-TYPE."
                )
            if known and tags[place] not in known:
                raise ValueError(
                    f"{where}: the tag {tag!r} of {sentence.words[place]!r} is "
                    "not one that the model was trained on; those are "
                    f"{', '.join(known)} (in IOB2)."
                )
        sentences.append(dataclasses.replace(sentence, tags=tags))
    return dataclasses.replace(file, sentences=tuple(sentences))


def _joined(letter: str, kind: str) -> str:
    return f"{letter}-{kind}" if kind else letter
