"""Named entities in tags of IOB2, and their scores.

Scores are computed as in the evaluation script of CoNLL.
Source: conlleval (Tjong Kim Sang, version of 2004), which scored CoNLL-2000,
2002 and 2003.
"""

import collections
import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from bert.tasks.tagging import tag_schemes

# The type in scores and answers of entities without a type.
UNTYPED = "ENTITY"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entity:
    """An entity of a sentence: words `start` to `end - 1`, and its type."""

    start: int
    end: int
    kind: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counts:
    """Numbers of gold, predicted and correct entities."""

    gold: int = 0
    predicted: int = 0
    correct: int = 0

    @property
    def precision(self) -> float:
        """Precision in percent; 0 if nothing was predicted."""
        return _percent(self.correct, self.predicted)

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
        accuracy: share of words with the correct tag, in percent.
    """

    by_type: Mapping[str, Counts]
    num_words: int
    accuracy: float

    @property
    def overall(self) -> Counts:
        """Total counts of all types."""
        return Counts(
            gold=sum(counts.gold for counts in self.by_type.values()),
            predicted=sum(counts.predicted for counts in self.by_type.values()),
            correct=sum(counts.correct for counts in self.by_type.values()),
        )

    def metrics(self, *, by_type: bool = True) -> dict[str, float]:
        """Returns the scores by name, as fractions of 1.

        They are `f1`, `precision`, `recall` and `accuracy`; with `by_type`,
        also the first three per type, as `f1_TYPE`.
        """
        counts = {"": self.overall}
        if by_type:
            counts |= {f"_{kind}": c for kind, c in self.by_type.items()}
        return {"accuracy": self.accuracy / 100} | {
            name + ending: getattr(entities, name) / 100
            for ending, entities in counts.items()
            for name in ("f1", "precision", "recall")
        }

    def report(self) -> str:
        """Formats the scores like the output of conlleval."""
        overall = self.overall
        lines = [
            f"processed {self.num_words} tokens with {overall.gold} phrases; "
            f"found: {overall.predicted} phrases; correct: {overall.correct}.",
            f"accuracy: {self.accuracy:6.2f}%; {_rates(overall)}",
        ]
        lines += [
            f"{kind:>17}: {_rates(counts)}  {counts.predicted}"
            for kind, counts in self.by_type.items()
        ]
        return "".join(f"{line}\n" for line in lines)


def find_entities(tags: Sequence[str]) -> Iterator[Entity]:
    """Yields the entities of a sentence in IOB1, IOB2 or ill-formed tags.

    An entity begins at B, at any tag after O and at any change of type. It
    continues while I of the same type follows. Thus I-PER after O and I-LOC
    after B-PER also begin entities, although neither is well-formed in IOB2.

    Args:
        tags: O, B-TYPE or I-TYPE; or B or I without a type, whose entities are
            of the type `UNTYPED`.
    """
    start, open_kind = 0, None
    for place, tag in enumerate((*tags, tag_schemes.OUTSIDE)):
        letter, kind = tag_schemes.split(tag)
        is_inside = letter != tag_schemes.OUTSIDE
        goes_on = letter == tag_schemes.INSIDE and kind == open_kind
        if open_kind is not None and not goes_on:
            yield Entity(start=start, end=place, kind=open_kind or UNTYPED)
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
    golds, predictions, corrects = (
        collections.Counter[str]() for _ in range(3)
    )
    for right, guessed in zip(gold, predicted, strict=True):
        right_entities = set(find_entities(right))
        guessed_entities = set(find_entities(guessed))
        golds.update(entity.kind for entity in right_entities)
        predictions.update(entity.kind for entity in guessed_entities)
        corrects.update(
            entity.kind for entity in right_entities & guessed_entities
        )
    return Scores(
        by_type={
            kind: Counts(
                gold=golds[kind],
                predicted=predictions[kind],
                correct=corrects[kind],
            )
            for kind in sorted(golds.keys() | predictions.keys())
        },
        num_words=sum(map(len, gold)),
        accuracy=accuracy(gold, predicted),
    )


def accuracy(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> float:
    """Returns the share of words with the correct tag, in percent.

    Raises:
        ValueError: the numbers of words differ.
    """
    correct = [
        a == b
        for right, guessed in zip(gold, predicted, strict=True)
        for a, b in zip(right, guessed, strict=True)
    ]
    return _percent(sum(correct), len(correct))


def _percent(part: int, total: int) -> float:
    return 100 * part / total if total else 0.0


def _rates(counts: Counts) -> str:
    return (
        f"precision: {counts.precision:6.2f}%; "
        f"recall: {counts.recall:6.2f}%; FB1: {counts.f1:6.2f}"
    )
