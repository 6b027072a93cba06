"""Tagging schemes: the letters that mark the words of an entity.

In IOB2, which the program uses, a tag is `O`, or a letter, a hyphen and the
type of the entity: the first word of an entity is B-TYPE, the others are
I-TYPE. IOB1 and IO write I-TYPE unless an entity of the same type ends just
before. IOBES, BILOU, BMES and BMEWO mark the last word of an entity, and
entities of one word, by further letters. Letters without types mark entities of
one kind. Tags that are types without letters are called raw.
"""

import dataclasses
import functools
import re
from collections.abc import Collection, Iterable, Sequence

from absl import logging

from bert.files import messages
from bert.tasks.tagging import conll

OUTSIDE = "O"
BEGIN, INSIDE = "B", "I"
AUTO, IOB, RAW = SCHEMES = ("auto", "iob", "raw")

_NUM_SHOWN = 8  # Maximum tags listed in a message.
# Roles of the letters; those of all schemes are read by one rule.
# Source: Tjong Kim Sang and Veenstra 1999, "Representing Text Chunks";
# Ratinov and Roth 2009, "Design Challenges and Misconceptions in NER" (BILOU).
_STARTS = frozenset("BSUW")
_ENDS = frozenset("ELSUW")
_LETTERS = "BEILMSUW"
_SCHEMES = tuple(map(frozenset, ("BI", "EI", "BEIS", "BILU", "BEMS", "BEMW")))
# Other signs for a word outside of entities.
_OUTSIDE_SIGNS = frozenset("Oo0_-") | {
    spelling
    for sign in ("none", "null", "nil", "nan", "n/a", "outside")
    for spelling in (sign, sign.capitalize(), sign.upper())
}
# Labels of models for positions that are no words; X is then one of them.
_SPECIAL_LABELS = frozenset(("[PAD]", "[CLS]", "[SEP]", "<pad>", "<PAD>"))
_CONTINUATION = "X"
_SEPARATED_LETTER = re.compile(r"[BbIi][-_:./|].*|.*[-_:./|][BbIi]")
_FLAG = (
    "Pass --scheme=iob if each tag has a letter of a scheme, --scheme=raw if "
    "tags are types without letters."
)


@dataclasses.dataclass(frozen=True)
class _Form:
    """A way to write the tag of a word of an entity.

    Attributes:
        is_suffix: whether the letter follows the type.
        is_lower: whether the letter is a small one.
    """

    is_suffix: bool
    is_lower: bool

    @property
    def example(self) -> str:
        letter = BEGIN.lower() if self.is_lower else BEGIN
        return f"TYPE-{letter}" if self.is_suffix else f"{letter}-TYPE"

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches a tag, with the groups `letter` and `type`.

        A letter may be without a type.
        """
        letters = _LETTERS.lower() if self.is_lower else _LETTERS
        letter = f"(?P<letter>[{letters}])"
        if self.is_suffix:
            return re.compile(f"(?:(?P<type>.+)[-_])?{letter}")
        return re.compile(f"{letter}(?:[-_](?P<type>.+))?")


_PREFIX = _Form(is_suffix=False, is_lower=False)
_FORMS = tuple(
    _Form(is_suffix=is_suffix, is_lower=is_lower)
    for is_lower in (False, True)
    for is_suffix in (False, True)
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TagScheme:
    """The form of the tags of a file, or of the labels of a model.

    Attributes:
        form: of tags with letters; None if tags are types.
        outside: tags of words outside of entities.
    """

    form: _Form | None
    outside: frozenset[str]

    @property
    def name(self) -> str:
        """`IOB` or `RAW`."""
        return IOB if self.form else RAW

    def __str__(self) -> str:
        return self.form.example if self.form else "TYPE"

    def split(self, tag: str) -> tuple[str, str]:
        """Splits a tag into letter and type: `B-PER` -> B, PER.

        Returns:
            O and no type outside of entities; I and the tag for raw tags. The
            type of a letter alone is empty.

        Raises:
            ValueError: the tag is not of this scheme.
        """
        if tag in self.outside:
            return OUTSIDE, ""
        if self.form is None:
            return INSIDE, tag
        match = self.form.pattern.fullmatch(tag)
        if match is None:
            raise ValueError(
                f"{messages.short(tag)} is not a tag of --scheme=iob, which "
                f"has O and, for example, {self.form.example}."
            )
        return match["letter"].upper(), match["type"] or ""

    def to_iob2(self, tags: Sequence[str]) -> tuple[str, ...]:
        """Converts the tags of a sentence to IOB2.

        Ill-formed sequences are read as in the evaluation script of CoNLL: an
        entity also begins at an I-TYPE that follows O or another type. Each run
        of equal raw tags is an entity.

        Raises:
            ValueError: a tag is not of this scheme.
        """
        converted = []
        open_type = None  # The type of an entity that may continue, if any.
        for tag in tags:
            letter, kind = self.split(tag)
            if letter == OUTSIDE:
                converted.append(OUTSIDE)
                open_type = None
                continue
            begins = letter in _STARTS or kind != open_type
            converted.append(join(BEGIN if begins else INSIDE, kind))
            open_type = None if letter in _ENDS else kind
        return tuple(converted)


IOB2 = TagScheme(form=_PREFIX, outside=frozenset(OUTSIDE))


def split(tag: str) -> tuple[str, str]:
    """Splits a tag of IOB2: `B-PER` -> B, PER; `O` -> O, ""."""
    letter, _, kind = tag.partition("-")
    return letter, kind


def join(letter: str, kind: str) -> str:
    """Joins a letter and a type to a tag of IOB2: the inverse of `split`."""
    return f"{letter}-{kind}" if kind else letter


def decide(
    tags: Iterable[str],
    scheme: str = AUTO,
    *,
    source: str,
    advice: str = _FLAG,
) -> TagScheme:
    """Decides the scheme of tags, and logs it.

    A set of tags that may be of another scheme is a warning.

    Args:
        tags: of a file, or the labels of a model.
        scheme: `AUTO`; or `IOB` or `RAW`, which leave less to decide.
        source: of the tags, for messages.
        advice: what to do if the decision is wrong.

    Raises:
        ValueError: only some of the tags have a letter and a type.
    """
    tags = frozenset(tags)
    signs = tags & _OUTSIDE_SIGNS
    special = tags & _SPECIAL_LABELS
    continuation = tags & {_CONTINUATION} if special else frozenset()
    names = tags - signs - special  # Letters with types, or types.
    readings = [_Reading.of(form, names - continuation) for form in _FORMS]
    reading = None
    if scheme == IOB:
        # The first of equal ones.
        reading = min(readings, key=lambda r: (len(r.unread), -r.num_paired))
    elif scheme == AUTO:
        reading = _choose(readings, signs)
        if reading is None and any(map(_is_mixed, readings)):
            raise ValueError(
                f"{source}: all tags but O must be like B-TYPE, or none; got "
                f"{messages.listed(sorted(names), _NUM_SHOWN)}. {advice}"
            )
    if reading is not None:
        outside = _OUTSIDE_SIGNS | special | continuation
        doubts = _doubts_of_letters(reading, readings, signs)
    else:
        outside = special | {OUTSIDE}
        if OUTSIDE not in tags:
            # A tag `o` among single letters is one of them.
            is_letter = max(map(len, names), default=0) == 1
            outside |= signs - {"o"} if is_letter else signs
        doubts = _doubts_of_types(names, signs, outside)
    decision = TagScheme(
        form=reading.form if reading else None, outside=frozenset(outside)
    )
    logging.info(
        "%s: %s; outside of entities: %s.",
        source,
        _description(reading, tags - decision.outside),
        messages.listed(sorted(tags & decision.outside), _NUM_SHOWN) or "none",
    )
    if scheme == AUTO and doubts:
        logging.warning(
            "%s: the scheme of the tags %s is doubtful: %s. %s",
            source,
            messages.listed(sorted(tags), _NUM_SHOWN),
            "; ".join(doubts),
            advice,
        )
    return decision


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Reading:
    """Tags read in a form.

    Attributes:
        form: the form.
        letters_of: the letters of each type, "" of letters without a type.
        unread: tags that are not of this form.
    """

    form: _Form
    letters_of: dict[str, set[str]]
    unread: frozenset[str]

    @classmethod
    def of(cls, form: _Form, tags: Collection[str]) -> "_Reading":
        letters_of: dict[str, set[str]] = {}
        unread = set()
        for tag in tags:
            if match := form.pattern.fullmatch(tag):
                letters = letters_of.setdefault(match["type"] or "", set())
                letters.add(match["letter"].upper())
            else:
                unread.add(tag)
        return cls(form=form, letters_of=letters_of, unread=frozenset(unread))

    @property
    def letters(self) -> frozenset[str]:
        return frozenset().union(*self.letters_of.values())

    @property
    def num_paired(self) -> int:
        """The number of types that have B and another letter."""
        return sum(
            BEGIN in letters and len(letters) > 1
            for letters in self.letters_of.values()
        )

    @property
    def is_complete(self) -> bool:
        """Whether every type has B and I, as the labels of our models."""
        return all(
            letters == {BEGIN, INSIDE} for letters in self.letters_of.values()
        )


def _choose(
    readings: Sequence[_Reading], signs: Collection[str]
) -> _Reading | None:
    """Returns the reading of tags with letters; None if tags are types."""
    accepted = []
    for reading in readings:
        form, letters = reading.form, reading.letters
        if reading.unread:
            continue
        if set(reading.letters_of) == {""}:
            is_scheme = _is_scheme_of_letters(letters)
        else:
            # A name may end in a letter, as in VITAMIN_B.
            is_scheme = (
                not form.is_suffix
                or reading.num_paired > 0
                or (letters <= {BEGIN, INSIDE} and len(reading.letters_of) > 1)
            )
        if form.is_lower and not (
            reading.num_paired
            or {BEGIN, INSIDE} <= letters
            or ("o" in signs and letters & {BEGIN, INSIDE})
        ):
            # Names may begin with a small letter, as in e-mail.
            is_scheme = False
        if is_scheme:
            accepted.append(reading)
    # The first of equal ones.
    return max(accepted, key=lambda r: r.num_paired, default=None)


def _is_scheme_of_letters(letters: frozenset[str]) -> bool:
    """Returns whether letters without types are of a scheme.

    Types may have such names too, as in {I, E} or {S, M}. In schemes that mark
    last words, entities of several words have B and E, or B and L.
    """
    if not any(letters <= scheme for scheme in _SCHEMES):
        return False
    if letters <= {BEGIN, INSIDE} or letters >= {BEGIN, INSIDE}:
        return True
    ends = letters & {"E", "L"}
    return bool(ends) and letters > ends | {BEGIN}


def _is_mixed(reading: _Reading) -> bool:
    """Returns whether some tags have a letter and a type.

    Args:
        reading: of tags of which not all can be read.
    """
    has_typed = bool(set(reading.letters_of) - {""})
    return has_typed and (reading.form == _PREFIX or reading.num_paired > 0)


def _doubts_of_letters(
    reading: _Reading, readings: Sequence[_Reading], signs: Collection[str]
) -> list[str]:
    letters, types = reading.letters, set(reading.letters_of)
    doubts = []
    if len(signs) > 1:
        doubts.append(
            f"{messages.listed(sorted(signs))} are all read as no entity"
        )
    if reading.is_complete:
        return doubts
    if not letters & {BEGIN, INSIDE}:
        doubts.append(f"no tag has the letter B or I, as in {_PREFIX.example}")
    elif not any(letters <= scheme for scheme in _SCHEMES):
        doubts.append(f"no scheme has the letters {', '.join(sorted(letters))}")
    elif reading.form.is_suffix and not letters >= {BEGIN, INSIDE}:
        doubts.append("the last letters may be parts of names")
    if types == {""} and letters == {BEGIN}:
        doubts.append("B may be the name of a type")
    if "" in types and len(types) > 1:
        doubts.append("some letters have a type and others not")
    others = [r for r in readings if r != reading and not r.unread]
    if types != {""} and any(r.num_paired for r in others):
        doubts.append("the letter may be before or after the type")
    return doubts


def _doubts_of_types(
    names: Collection[str], signs: Collection[str], outside: Collection[str]
) -> list[str]:
    doubts = []
    if unused := sorted(set(signs) - set(outside)):
        doubts.append(f"{messages.listed(unused)} may mean no entity")
    if others := sorted(n for n in names if n.casefold() == "other"):
        doubts.append(f"{messages.listed(others)} may mean no entity")
    if names and all(len(name) == 1 for name in names):
        doubts.append("single letters are read as names of types")
    if any(map(_SEPARATED_LETTER.fullmatch, names)):
        doubts.append("all of the tag is read as the name of a type")
    if names and all(map(str.isdecimal, names)):
        doubts.append("numbers are read as names of types")
    if any("*" in name for name in names):
        doubts.append("brackets are read as names of types")
    return doubts


def _description(reading: _Reading | None, tags: Collection[str]) -> str:
    shown = messages.listed(sorted(tags), _NUM_SHOWN) or "none"
    if reading is None:
        return f"tags are types ({shown}), each run of equal tags an entity"
    if set(reading.letters_of) == {""}:
        return f"tags are letters without types ({shown})"
    return f"tags are like {reading.form.example} ({shown})"


def convert_file(file: conll.ColumnFile, scheme: TagScheme) -> conll.ColumnFile:
    """Converts the tags of a file to IOB2.

    Raises:
        ValueError: the file has no tags, or one that is not in the scheme;
            names the file and the line.
    """
    if not file.tags:
        raise ValueError(
            f"{file.path}: must have a column of tags; its rows have only a "
            "word. See --columns."
        )
    sentences = []
    for sentence, tags in zip(file.sentences, file.tags, strict=True):
        for tag, line in zip(tags, sentence.lines, strict=True):
            try:
                scheme.split(tag)
            except ValueError as error:
                raise ValueError(
                    f"{file.path}, line {line}: {error}"
                ) from error
        sentences.append(
            dataclasses.replace(sentence, tags=scheme.to_iob2(tags))
        )
    return dataclasses.replace(file, sentences=tuple(sentences))
