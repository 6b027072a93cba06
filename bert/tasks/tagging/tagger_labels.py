"""The labels of a tagger: the names of its outputs, and their tags in IOB2."""

import dataclasses
import functools
import itertools
from collections.abc import Sequence

from bert.tasks.tagging import tag_schemes

# Whether a word is the first of its entity, and the last -> its letters in all
# schemes. The first of them that the labels have is the letter in their scheme.
_LETTERS = {
    (True, True): "SUWBI",
    (True, False): "BI",
    (False, False): "IM",
    (False, True): "ELIM",
}
_ADVICE = (
    "If this is wrong, write the labels in IOB2, such as B-TYPE and I-TYPE, to "
    '"labels" in the task.json of its folder.'
)


@dataclasses.dataclass(frozen=True)
class TaggerLabels:
    """Labels of a tagger in the order of its outputs, in any scheme.

    Attributes:
        names: of the outputs.
        scheme: of the names.
    """

    names: tuple[str, ...]
    scheme: tag_schemes.TagScheme

    @property
    def types(self) -> frozenset[str]:
        """The types of entities."""
        return frozenset(
            kind for letter, kind in self._ids if letter != tag_schemes.OUTSIDE
        )

    def decode(self, names: Sequence[str]) -> tuple[str, ...]:
        """Converts the predicted labels of a sentence to IOB2."""
        return self.scheme.to_iob2(names)

    def encode(self, tags: Sequence[str]) -> list[int]:
        """Returns the outputs for the tags of a sentence.

        A type that the labels lack is outside of entities. If no label is
        outside, as for parts of speech, the first output stands for it.

        Args:
            tags: in well-formed IOB2.
        """
        outside = self._ids.get((tag_schemes.OUTSIDE, ""), 0)
        ids = []
        parts = [*map(tag_schemes.split, tags), (tag_schemes.OUTSIDE, "")]
        for (letter, kind), after in itertools.pairwise(parts):
            is_first = letter == tag_schemes.BEGIN
            is_last = after != (tag_schemes.INSIDE, kind)
            places = [
                self._ids[name, kind]
                for name in _LETTERS[is_first, is_last]
                if letter != tag_schemes.OUTSIDE and (name, kind) in self._ids
            ]
            ids.append(next(iter(places), outside))
        return ids

    @functools.cached_property
    def _ids(self) -> dict[tuple[str, str], int]:
        ids: dict[tuple[str, str], int] = {}
        for number, name in enumerate(self.names):
            ids.setdefault(self.scheme.split(name), number)
        return ids


@functools.lru_cache
def of_model(names: tuple[str, ...], folder: str) -> TaggerLabels:
    """Decides the scheme of the labels of a model."""
    scheme = tag_schemes.decide(
        names, source=f"The labels of {folder}", advice=_ADVICE
    )
    return TaggerLabels(names, scheme)


def of_tags(sentences: Sequence[Sequence[str]]) -> TaggerLabels:
    """Makes the labels of a model that is trained on tags in IOB2.

    They are O, then B and I of each type in order. Every type has both labels,
    even if only one occurs.
    """
    types = {
        tag_schemes.split(tag)[1]
        for tags in sentences
        for tag in tags
        if tag != tag_schemes.OUTSIDE
    }
    names = [
        tag_schemes.join(letter, kind)
        for kind in sorted(types)
        for letter in (tag_schemes.BEGIN, tag_schemes.INSIDE)
    ]
    return TaggerLabels((tag_schemes.OUTSIDE, *names), tag_schemes.IOB2)
