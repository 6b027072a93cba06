"""Named entities as tags of words: schemes and scores.

A tag is `O`, or a letter, a hyphen and the type of the entity; files may have
an underscore in place of the hyphen. In IOB2 the first word of an entity is
B-TYPE, the others are I-TYPE. The program uses IOB2 internally. IOB1 and IO
write I-TYPE unless an entity of the same type ends just before. IOBES, BILOU,
BMEWO and BMESO mark the last word of an entity, and entities of one word, by
further letters. Raw tags are types without letters.

Scores are computed as in the evaluation script of CoNLL.
Source: conlleval (Tjong Kim Sang, version of 2004), which scored CoNLL-2000,
2002 and 2003.
"""

import collections
import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entity:
    """An entity of a sentence: words `start` to `end - 1`, and its type."""

    start: int
    end: int
    kind: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counts:
    """Numbers of gold, found and correct entities."""

    gold: int = 0
    found: int = 0
    correct: int = 0

    @property
    def precision(self) -> float:
        """Precision in percent; 0 if nothing was found."""
        return _percent(self.correct, self.found)

    @property
    def recall(self) -> float:
        """Recall in percent; 0 if there are no entities."""
        return _percent(self.correct, self.gold)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall, in percent."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scores:
    """Scores of predicted tags.

    Attributes:
        by_type: the counts of each type, sorted by name.
        num_words: number of all words.
        num_correct_words: words with a correct tag.
    """

    by_type: Mapping[str, Counts]
    num_words: int
    num_correct_words: int

    @property
    def overall(self) -> Counts:
        """Total counts of all types."""
        return Counts(
            gold=sum(counts.gold for counts in self.by_type.values()),
            found=sum(counts.found for counts in self.by_type.values()),
            correct=sum(counts.correct for counts in self.by_type.values()),
        )

    @property
    def accuracy(self) -> float:
        """Share of words with the correct tag, in percent."""
        return _percent(self.num_correct_words, self.num_words)

    def metrics(self, *, by_type: bool = True) -> dict[str, float]:
        """Returns the scores by name, as fractions of 1.

        They are `f1`, `precision`, `recall` and `accuracy`; with `by_type`,
        also the first three per type, as `f1_TYPE`.
        """
        counts = {"": self.overall}
        if by_type:
            counts |= {f"_{kind}": own for kind, own in self.by_type.items()}
        return {"accuracy": self.accuracy / 100} | {
            name + ending: getattr(own, name) / 100
            for ending, own in counts.items()
            for name in ("f1", "precision", "recall")
        }

    def report(self) -> str:
        """Formats the scores like the output of conlleval."""
        overall = self.overall
        lines = [
            f"processed {self.num_words} tokens with {overall.gold} phrases; "
            f"found: {overall.found} phrases; correct: {overall.correct}.",
            f"accuracy: {self.accuracy:6.2f}%; {_rates(overall)}",
        ]
        lines += [
            f"{kind:>17}: {_rates(counts)}  {counts.found}"
            for kind, counts in self.by_type.items()
        ]
        return "".join(f"{line}\n" for line in lines)


def find_entities(tags: Sequence[str]) -> Iterator[Entity]:
    """Yields the entities of a sentence in IOB1, IOB2 or ill-formed tags.

    An entity begins at B, at any tag after O and at any change of type. It
    continues while I of the same type follows. Thus I-PER after O and I-LOC
    after B-PER also begin entities, although neither is well-formed in IOB2.

    Args:
        tags: O, B-TYPE or I-TYPE.
    """
    start, open_kind = 0, None
    for place, tag in enumerate((*tags, OUTSIDE)):
        letter, kind = split(tag)
        is_inside = letter != OUTSIDE
        goes_on = letter == INSIDE and kind == open_kind
        if open_kind is not None and not goes_on:
            yield Entity(start=start, end=place, kind=open_kind)
        if is_inside and not goes_on:
            start = place
        open_kind = kind if is_inside else None


def score(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> Scores:
    """Scores the predicted tags of sentences.

    An entity is correct if its first word, last word and type are.

    Args:
        gold: the tags of each sentence.
        predicted: predicted tags of the same words.

    Raises:
        ValueError: the numbers differ.
    """
    golds, founds, corrects = (collections.Counter[str]() for _ in range(3))
    num_words = num_correct = 0
    for right, guessed in zip(gold, predicted, strict=True):
        there = set(find_entities(right))
        found = set(find_entities(guessed))
        golds.update(entity.kind for entity in there)
        founds.update(entity.kind for entity in found)
        corrects.update(entity.kind for entity in there & found)
        num_words += len(right)
        num_correct += sum(a == b for a, b in zip(right, guessed, strict=True))
    return Scores(
        by_type={
            kind: Counts(
                gold=golds[kind], found=founds[kind], correct=corrects[kind]
            )
            for kind in sorted(golds.keys() | founds.keys())
        },
        num_words=num_words,
        num_correct_words=num_correct,
    )


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


def _rates(counts: Counts) -> str:
    return (
        f"precision: {counts.precision:6.2f}%; "
        f"recall: {counts.recall:6.2f}%; FB1: {counts.f1:6.2f}"
    )
