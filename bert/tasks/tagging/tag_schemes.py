"""Tagging schemes: the letters that mark the words of an entity.

In IOB2, which the program uses, a tag is `O`, or a letter, a hyphen and the
type of the entity: the first word of an entity is B-TYPE, the others are
I-TYPE. IOB1 and IO write I-TYPE unless an entity of the same type ends just
before. IOBES, BILOU, BMES and BMEWO mark the last word of an entity, and
entities of one word, by further letters. Letters without types mark entities of
one kind. Tags that are types without letters are called raw: each run of equal
tags is an entity. Tags that mark no entities, such as parts of speech, are
labels of single words, and stay as they are.
"""

import re
from collections.abc import Collection, Sequence

from absl import logging

from bert.files import messages

OUTSIDE = "O"
BEGIN, INSIDE = "B", "I"
AUTO, IOB, RAW, WORDS = SCHEMES = ("auto", "iob", "raw", "words")
OF_ENTITIES = (IOB, RAW)

_NUM_SHOWN = 8  # Maximum tags listed in a message.
# Roles of the letters; those of all schemes are read by one rule.
# Source: Tjong Kim Sang and Veenstra 1999, "Representing Text Chunks";
# Ratinov and Roth 2009, "Design Challenges and Misconceptions in NER" (BILOU).
_STARTS = frozenset("BSUW")
_ENDS = frozenset("ELSUW")
_SCHEMES = tuple(map(frozenset, ("BIES", "BILU", "BMES", "BMEW")))
_LETTERED = re.compile("([BEILMSUW])(?:[-_](.+))?")
# Tags that may have a letter, in a form that is not read.
_AMBIGUOUS = re.compile("[BEILMSUWbi][-_:./| ].*|.*[-_:./| ][BEILMSUWbi]")
# Signs for no entity in a file with entities.
_OUTSIDE_SIGNS = frozenset((OUTSIDE, *"o0_-", "none", "None", "NONE"))
_FLAG = (
    "Pass --scheme=iob if each tag has a letter before its type, --scheme=raw "
    "if each run of equal tags is an entity, --scheme=words if each tag is the "
    "label of one word, such as its part of speech."
)


def decide(tags: Collection[str], *, source: str, advice: str = _FLAG) -> str:
    """Decides the scheme of a set of tags, and logs it.

    Tags that are all letters of one scheme, with or without types, are `IOB`.
    Without letters they are `RAW` if there is an O, and `WORDS` if not.

    Args:
        tags: of a file, or the labels of a model.
        source: of the tags, for messages.
        advice: how to state the scheme.

    Raises:
        ValueError: the tags are of several schemes, or of none.
    """
    signs = sorted(_OUTSIDE_SIGNS.intersection(tags))
    names = sorted(set(tags).difference(signs))
    lettered = [name for name in names if _LETTERED.fullmatch(name)]
    others = [name for name in names if name not in lettered]
    letters = {name[0] for name in lettered}
    is_scheme = any(letters <= scheme for scheme in _SCHEMES)
    if not others and is_scheme and letters & {BEGIN, INSIDE}:
        scheme, meaning = IOB, "letters of words of entities"
    elif any(map(_AMBIGUOUS.fullmatch, names)):
        parts = [messages.listed(part, 4) for part in (others, lettered)]
        raise ValueError(
            f"{source}: every tag but O must have a letter of one scheme, as "
            "in B-TYPE and I-TYPE, or none; got "
            f"{' beside '.join(filter(None, parts))}. {advice}"
        )
    elif OUTSIDE in signs:
        scheme, meaning = RAW, "types; each run of equal tags is an entity"
    elif signs:
        raise ValueError(
            f"{source}: {messages.listed(signs)} may stand for no entity, or "
            f"be a tag like {messages.listed(names, 4)}. {advice}"
        )
    else:
        scheme, meaning = WORDS, "labels of single words, as none is O"
    logging.info(
        "%s: the tags (%s) are %s (--scheme=%s).",
        source,
        messages.listed(signs + names, _NUM_SHOWN),
        meaning,
        scheme,
    )
    return scheme


def split(tag: str, scheme: str = IOB) -> tuple[str, str]:
    """Splits a tag into letter and type.

    Examples:
        >>> split("B-PER"), split("I"), split("O"), split("PER", RAW)
        (('B', 'PER'), ('I', ''), ('O', ''), ('I', 'PER'))

    Args:
        tag: of a word.
        scheme: of the tag; I stands for the letter that `RAW` and `WORDS` lack.

    Raises:
        ValueError: the tag is not of this scheme.
    """
    if scheme == WORDS:
        return INSIDE, tag
    if tag in _OUTSIDE_SIGNS:
        return OUTSIDE, ""
    if scheme == RAW:
        return INSIDE, tag
    match = _LETTERED.fullmatch(tag)
    if match is None:
        raise ValueError(
            f"{messages.short(tag)} is not a tag of --scheme=iob, which has O "
            "and, for example, B-TYPE."
        )
    return match[1], match[2] or ""


def join(letter: str, kind: str) -> str:
    """Joins a letter and a type to a tag of IOB2: the inverse of `split`."""
    return f"{letter}-{kind}" if kind else letter


def to_iob2(tags: Sequence[str], scheme: str = IOB) -> tuple[str, ...]:
    """Converts the tags of a sentence to IOB2.

    Ill-formed sequences are read as in the evaluation script of CoNLL: an
    entity also begins at an I-TYPE that follows O or another type.

    Examples:
        >>> to_iob2(["I-PER", "I-PER", "B-PER", "O", "S-LOC"])
        ('B-PER', 'I-PER', 'B-PER', 'O', 'B-LOC')
        >>> to_iob2(["PER", "PER", "O", "LOC"], RAW)
        ('B-PER', 'I-PER', 'O', 'B-LOC')

    Args:
        tags: of the words, in order.
        scheme: `IOB` or `RAW`.

    Raises:
        ValueError: a tag is not of this scheme.
    """
    converted = []
    open_type = None  # The type of an entity that may continue, if any.
    for tag in tags:
        letter, kind = split(tag, scheme)
        if letter == OUTSIDE:
            converted.append(OUTSIDE)
            open_type = None
            continue
        begins = letter in _STARTS or kind != open_type
        converted.append(join(BEGIN if begins else INSIDE, kind))
        open_type = None if letter in _ENDS else kind
    return tuple(converted)
