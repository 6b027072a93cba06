"""Schemes by which tags mark where entities begin and end; IOB2 inside.

A tag is `O` or a letter and, after a hyphen, the type of the entity; files may
have an underscore in place of the hyphen. In IOB2
the first word of an entity is B-TYPE, the others are I-TYPE. IOB1 and IO write
I-TYPE wherever no entity of the type ends just before. The other schemes mark
the last word, and entities of one word, by letters of their own.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from files import wording
from tasks.tagging import conll

# Of a tag in a message: a damaged file may hold one of any length.
_LONGEST_SHOWN = 60

OUTSIDE = conll.OUTSIDE
BEGIN, INSIDE = "B", "I"
AUTO = "auto"
RAW = "raw"

# Letters by what they do. IOB1, IOB2 and IO are read by one rule.
# Source: Tjong Kim Sang and Veenstra 1999, "Representing Text Chunks";
# Ratinov and Roth 2009, "Design Challenges and Misconceptions in NER" (BILOU).
_STARTS = frozenset("BSUW")
_ENDS = frozenset("ELSUW")
_LETTERS = {
    "iob": frozenset("BI"),
    "iobes": frozenset("BIES"),
    "bilou": frozenset("BILU"),
    "bmewo": frozenset("BMEW"),
    "bmeso": frozenset("BMES"),
}
_NAMES = {"iob1": "iob", "iob2": "iob", "io": "iob", "bioes": "iobes"}
SCHEMES = (AUTO, "iob1", "iob2", "io", "iobes", "bioes", "bilou", "bmewo")
SCHEMES += ("bmeso", RAW)
# What letters of a scheme look like behind the type, in lower case, or with
# another sign.
_MARKED_OTHERWISE = re.compile(
    r"[BEILMSUW][^\w-].+|[beilmsuw][\W_].+|.+[\W_][BEILMSUW]"
)


def split(tag: str) -> tuple[str, str]:
    """Parts a tag behind its letter: `B-PER` -> B, PER; `O` -> O, ""."""
    if tag[1:2] in ("-", "_"):
        return tag[0], tag[2:]
    return tag, ""


def detect(tags: Iterable[str]) -> str:
    """Finds the scheme that a data set uses by the letters of its tags.

    Returns:
        "iob" (IOB1, IOB2 or IO), "iobes", "bilou", "bmewo", "bmeso"; "raw" if
        no tag has a hyphen and they are no letters of a scheme either.

    Raises:
        ValueError: the letters are those of no scheme, or they all stand
            elsewhere than before a hyphen.
    """
    tags = {tag for tag in tags if tag != OUTSIDE}
    letters = {split(tag)[0] for tag in tags}
    for name, known in _LETTERS.items():
        if letters <= known:
            return name
    if all(_MARKED_OTHERWISE.fullmatch(tag) for tag in tags):
        raise ValueError(
            "the tags must have their letter in front, as B-TYPE or B_TYPE; "
            f"got {_shown(tags)}. If they are names, pass --scheme=raw."
        )
    if not any("-" in tag for tag in tags):
        return RAW
    raise ValueError(
        "the tags must be of one scheme: O, and B-TYPE, I-TYPE (IOB1, IOB2, "
        "IO), also with E and S (IOBES), L and U (BILOU), M, E and W or S; "
        f"got {_shown(tags)}. If they are names without such letters, pass "
        "--scheme=raw."
    )


def to_iob2(tags: Sequence[str], scheme: str) -> tuple[str, ...]:
    """Converts the tags of a sentence to IOB2.

    Where a sequence is ill-formed, an entity begins as in the evaluation
    script of CoNLL: also at an I-TYPE that follows O or another type.

    Args:
        tags: of the words of one sentence.
        scheme: of `SCHEMES` but `AUTO`, or what `detect` returns. In "raw"
            each run of equal names is an entity.

    Raises:
        ValueError: a tag is not of the scheme; the message begins with its
            place, from 0, as `place: `.
    """
    if scheme == RAW:
        letters = _LETTERS["iob"]
        tags = [tag if tag == OUTSIDE else f"{INSIDE}-{tag}" for tag in tags]
    else:
        letters = _LETTERS[_NAMES.get(scheme, scheme)]
    converted = []
    open_kind = None  # The type of an entity that may go on, or None.
    for place, tag in enumerate(tags):
        letter, kind = split(tag)
        if tag == OUTSIDE:
            converted.append(OUTSIDE)
            open_kind = None
            continue
        if letter not in letters or not (kind or tag == letter):
            raise ValueError(
                f"{place}: {tag!r} is not a tag of the scheme {scheme}, which "
                f"has O and {', '.join(f'{x}-TYPE' for x in sorted(letters))}."
            )
        begins = letter in _STARTS or kind != open_kind
        converted.append(_joined(BEGIN if begins else INSIDE, kind))
        open_kind = None if letter in _ENDS else kind
    return tuple(converted)


def labels_of(sentences: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Lists the labels of a model: O, then B and I of each type in order.

    Every type has both, whether or not both occur.
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
    scheme: str = AUTO,
    ids: Mapping[str, int] | None = None,
) -> list[tuple[str, ...]]:
    """Converts the tags of a file to IOB2.

    Args:
        file: has tags.
        scheme: of `SCHEMES`.
        ids: the labels that are known; any if None.

    Returns:
        The tags of each sentence.

    Raises:
        ValueError: a tag is not of the scheme, or not known; names the file
            and the line.
    """
    if not file.has_tags:
        raise ValueError(
            f"{file.path}: must have a column of tags; its rows hold a word "
            "alone. See --columns."
        )
    if scheme == AUTO:
        try:
            scheme = detect(tag for s in file.sentences for tag in s.tags)
        except ValueError as error:
            raise ValueError(f"{file.path}: {error}") from error
    converted = []
    for sentence in file.sentences:
        try:
            tags = to_iob2(sentence.tags, scheme)
        except ValueError as error:
            place, _, reason = str(error).partition(": ")
            line = sentence.lines[int(place)]
            raise ValueError(f"{file.path}, line {line}: {reason}") from error
        _check_known(file.path, sentence, tags, ids)
        converted.append(tags)
    return converted


def _check_known(
    path: str,
    sentence: conll.Sentence,
    tags: Sequence[str],
    ids: Mapping[str, int] | None,
) -> None:
    for place, tag in enumerate(tags):
        if ids is not None and tag not in ids:
            raise ValueError(
                f"{path}, line {sentence.lines[place]}: the tag "
                f"{sentence.tags[place]!r} of {sentence.words[place]!r} is "
                "not one that the model was trained on; those are "
                f"{', '.join(ids)} (in IOB2)."
            )


def _joined(letter: str, kind: str) -> str:
    return f"{letter}-{kind}" if kind else letter


def _shown(tags: Iterable[str]) -> str:
    shown = [wording.cut(tag, _LONGEST_SHOWN) for tag in sorted(tags)]
    return ", ".join(shown[:8]) + (", ..." if shown[8:] else "")
