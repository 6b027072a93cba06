"""Entities found and missed, counted as the evaluation script of CoNLL does.

Source: conlleval (Tjong Kim Sang, version of 2004), which scored CoNLL-2000,
2002 and 2003.
"""

import collections
import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from tasks.tagging import tag_schemes

_OUTSIDE = tag_schemes.OUTSIDE


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entity:
    """An entity of a sentence: words `start` to `end - 1`, and its type."""

    start: int
    end: int
    kind: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counts:
    """How many entities there are, how many were found, and found rightly."""

    gold: int = 0
    found: int = 0
    correct: int = 0

    @property
    def precision(self) -> float:
        """The share of what was found that is right, in percent; 0 of none."""
        return _percent(self.correct, self.found)

    @property
    def recall(self) -> float:
        """The share of what is there that was found, in percent; 0 of none."""
        return _percent(self.correct, self.gold)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall, in percent."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scores:
    """The result of comparing tags.

    Attributes:
        by_type: the counts of each type that occurs, in order of the names.
        num_words: all words.
        num_correct_words: those whose whole tag is right.
    """

    by_type: Mapping[str, Counts]
    num_words: int
    num_correct_words: int

    @property
    def overall(self) -> Counts:
        """The counts of all types together."""
        return Counts(
            gold=sum(counts.gold for counts in self.by_type.values()),
            found=sum(counts.found for counts in self.by_type.values()),
            correct=sum(counts.correct for counts in self.by_type.values()),
        )

    @property
    def accuracy(self) -> float:
        """The share of words whose tag is right, in percent."""
        return _percent(self.num_correct_words, self.num_words)

    def metrics(self, *, by_type: bool = True) -> dict[str, float]:
        """Lists the scores by name, as fractions of 1.

        `f1`, `precision`, `recall` and, if `by_type`, each again for every
        type, as `f1_TYPE`; `accuracy`.
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
        """Formats the scores as the script prints them."""
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
    """Yields the entities of a sentence tagged in IOB1, IOB2 or neither.

    An entity begins at B, at any tag after O and at any change of type; it
    goes on as long as I of the same type follows. So I-PER after O begins an
    entity, and so does I-LOC after B-PER, although neither is well-formed in
    IOB2.

    Args:
        tags: O, B-TYPE or I-TYPE.
    """
    start, open_kind = 0, None
    for place, tag in enumerate((*tags, _OUTSIDE)):
        letter, kind = tag_schemes.split(tag)
        is_inside = letter != _OUTSIDE
        goes_on = letter == tag_schemes.INSIDE and kind == open_kind
        if open_kind is not None and not goes_on:
            yield Entity(start=start, end=place, kind=open_kind)
        if is_inside and not goes_on:
            start = place
        open_kind = kind if is_inside else None


def score(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> Scores:
    """Compares the tags of sentences.

    An entity is right if its first word, its last word and its type are.

    Args:
        gold: the tags of each sentence.
        predicted: as many tags of as many sentences.

    Raises:
        ValueError: the numbers differ.
    """
    golds, founds, corrects = (collections.Counter() for _ in range(3))
    num_words = num_correct = 0
    for number, (right, guessed) in enumerate(
        zip(gold, predicted, strict=True)
    ):
        if len(right) != len(guessed):
            raise ValueError(
                f"Sentence {number} must have as many predicted tags as words, "
                f"{len(right)}; got {len(guessed)}."
            )
        there, found = (
            set(find_entities(right)),
            set(find_entities(guessed)),
        )
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
