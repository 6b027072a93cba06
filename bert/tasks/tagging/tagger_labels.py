"""The labels of a tagger: the names of its outputs, and their tags."""

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
    'In the task.json of its folder, write "labels" in IOB2, as O, B-TYPE and '
    'I-TYPE; or "scheme": "words" if each label is of one word, such as a part '
    "of speech."
)


@dataclasses.dataclass(frozen=True)
class TaggerLabels:
    """Labels of a tagger in the order of its outputs.

    Attributes:
        names: of the outputs.
        scheme: of the names. If it is `WORDS`, names are the tags of words;
            otherwise they mark entities, and tags are in IOB2.
    """

    names: tuple[str, ...]
    scheme: str

    @property
    def have_entities(self) -> bool:
        """Whether the labels mark entities."""
        return self.scheme != tag_schemes.WORDS

    @property
    def types(self) -> frozenset[str]:
        """The types of entities."""
        return frozenset(
            kind for letter, kind in self._ids if letter != tag_schemes.OUTSIDE
        )

    def decode(self, names: Sequence[str]) -> tuple[str, ...]:
        """Converts the predicted labels of a sentence to tags."""
        if not self.have_entities:
            return tuple(names)
        return tag_schemes.to_iob2(names, self.scheme)

    def encode(self, tags: Sequence[str]) -> list[int]:
        """Returns the outputs for the tags of a sentence.

        A type that the labels lack is outside of entities. The first output
        stands for the unknown tag of a word, and for a word outside if no label
        is.
        """
        if not self.have_entities:
            ids = {name: number for number, name in enumerate(self.names)}
            return [ids.get(tag, 0) for tag in tags]
        outside = self._ids.get((tag_schemes.OUTSIDE, ""), 0)
        numbers = []
        parts = [*map(tag_schemes.split, tags), (tag_schemes.OUTSIDE, "")]
        for (letter, kind), after in itertools.pairwise(parts):
            is_first = letter == tag_schemes.BEGIN
            is_last = after != (tag_schemes.INSIDE, kind)
            places = [
                self._ids[name, kind]
                for name in _LETTERS[is_first, is_last]
                if letter != tag_schemes.OUTSIDE and (name, kind) in self._ids
            ]
            numbers.append(next(iter(places), outside))
        return numbers

    @functools.cached_property
    def _ids(self) -> dict[tuple[str, str], int]:
        ids: dict[tuple[str, str], int] = {}
        for number, name in enumerate(self.names):
            ids.setdefault(tag_schemes.split(name, self.scheme), number)
        return ids


@functools.lru_cache
def of_model(
    names: tuple[str, ...], folder: str, scheme: str | None = None
) -> TaggerLabels:
    """Returns the labels of a model.

    Args:
        names: of its outputs.
        folder: its folder, for messages.
        scheme: of the tags it was trained on, if known. Unless they are of
            single words, the names of our models are in IOB2; of others, the
            names decide.

    Raises:
        ValueError: the names are of several schemes, or of none.
    """
    if scheme != tag_schemes.WORDS:
        scheme = tag_schemes.decide(
            names, source=f"The labels of {folder}", advice=_ADVICE
        )
    return TaggerLabels(names, scheme)


def of_tags(sentences: Sequence[Sequence[str]], scheme: str) -> TaggerLabels:
    """Makes the labels of a model that is trained on tags.

    They are the tags of words, in order; or O, then B and I of each type in
    order, even if only one of the two occurs.

    Args:
        sentences: the tags of each, in IOB2 if they mark entities.
        scheme: of the tags in the file.
    """
    tags = {tag for sentence in sentences for tag in sentence}
    if scheme == tag_schemes.WORDS:
        return TaggerLabels(tuple(sorted(tags)), scheme)
    types = {tag_schemes.split(tag)[1] for tag in tags - {tag_schemes.OUTSIDE}}
    names = [
        tag_schemes.join(letter, kind)
        for kind in sorted(types)
        for letter in (tag_schemes.BEGIN, tag_schemes.INSIDE)
    ]
    return TaggerLabels((tag_schemes.OUTSIDE, *names), tag_schemes.IOB)
