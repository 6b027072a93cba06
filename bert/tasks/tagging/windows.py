"""Windows of word pieces around the sentences of a tagger.

Source: Devlin et al. 2019, §5.3: cased word pieces, "the maximal document
context provided by the data", and the first piece of a word represents it.
"""

import bisect
import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from absl import logging

from bert.records import schema
from bert.tasks import sentence_pairs
from bert.tasks.tagging import conll
from vocab import tokenization

_UNKNOWN = "[UNK]"
_SPECIAL_TOKENS = 2  # [CLS] and [SEP]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Window:
    """Input of the model for one window.

    Attributes:
        input_ids: `[n]`, including [CLS] and [SEP], n at most
            `max_seq_length`.
        label_ids: of the words labeled in this window, in order.
        positions: `[len(label_ids)]`, the indices of their first pieces.
    """

    input_ids: tuple[int, ...]
    label_ids: tuple[int, ...]
    positions: tuple[int, ...]

    def record(self, max_seq_length: int) -> dict[str, list[int]]:
        """Pads the window: lists of `max_seq_length` ids by name.

        `label_mask` is 1 where a word is labeled; `label_ids` is 0 elsewhere.
        """
        label_ids, label_mask = [0] * max_seq_length, [0] * max_seq_length
        for position, label in zip(self.positions, self.label_ids, strict=True):
            label_ids[position], label_mask[position] = label, 1
        segment_ids = [0] * len(self.input_ids)
        inputs = sentence_pairs.padded(
            self.input_ids, segment_ids, max_seq_length
        )
        return {**inputs, "label_ids": label_ids, "label_mask": label_mask}


def make_windows(
    sentences: Sequence[conll.Sentence],
    label_ids: Sequence[Sequence[int]],
    tokenizer: tokenization.FullTokenizer,
    max_seq_length: int,
) -> Iterator[list[Window]]:
    """Splits sentences into windows; each word is labeled in exactly one.

    A sentence has one window, or several if it does not fit into one. The rest
    of a window is text of the document around it. A word without pieces, such
    as a control character, is read as [UNK]. A word with more pieces than a
    window is truncated. The log has the counts of both.

    Args:
        sentences: in file order.
        label_ids: of the words of each sentence.
        tokenizer: its vocabulary has [CLS], [SEP] and [UNK].
        max_seq_length: word pieces of a window, [CLS] and [SEP] included.

    Yields:
        The windows of each sentence, in word order.
    """
    words = {word for sentence in sentences for word in sentence.words}
    pieces_of = {word: tokenizer.tokenize(word) for word in words}
    room = max_seq_length - _SPECIAL_TOKENS
    _log_odd_words(sentences, pieces_of, room)
    ids_of = {
        word: tuple(
            tokenizer.convert_tokens_to_ids((pieces or [_UNKNOWN])[:room])
        )
        for word, pieces in pieces_of.items()
    }
    begin, end = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
    numbered = zip(sentences, label_ids, strict=True)
    for _, group in itertools.groupby(numbered, lambda pair: pair[0].document):
        document = list(group)
        ids = [ids_of[word] for s, _ in document for word in s.words]
        labels = [label for _, labels in document for label in labels]
        bounds = itertools.pairwise(
            itertools.accumulate((len(s.words) for s, _ in document), initial=0)
        )
        sizes = [len(pieces) for pieces in ids]
        offsets = list(itertools.accumulate(sizes, initial=0))
        for sentence in bounds:
            parts = _parts(offsets, sentence, room)
            yield [
                _window(ids, labels, labeled, shown, (begin, end))
                for labeled, shown in parts
            ]


def _window(
    ids: Sequence[tuple[int, ...]],
    labels: Sequence[int],
    labeled: tuple[int, int],
    shown: tuple[int, int],
    special_ids: tuple[int, int],
) -> Window:
    first, stop = labeled
    input_ids, positions = [special_ids[0]], []
    for word in range(*shown):
        if first <= word < stop:
            positions.append(len(input_ids))
        input_ids += ids[word]
    return Window(
        input_ids=(*input_ids, special_ids[1]),
        label_ids=tuple(labels[first:stop]),
        positions=tuple(positions),
    )


def _parts(
    offsets: Sequence[int], sentence: tuple[int, int], room: int
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yields the words that each window of a sentence labels, and shows.

    The space around a sentence is filled evenly on both sides with complete
    words of the document; if one side ends, the other gets the rest. A window
    of a sentence that is too long labels half its words at most, so that every
    word has context on both sides.

    Examples:
        The third of five words has two pieces. Words 2 and 3 are a sentence.

        >>> list(_parts([0, 1, 2, 4, 5, 6], (2, 4), room=5))
        [((2, 4), (1, 5))]
        >>> list(_parts([0, 1, 2, 4, 5, 6], (2, 4), room=2))
        [((2, 3), (2, 3)), ((3, 4), (3, 5))]

    Args:
        offsets: the number of pieces before each word, and of all.
        sentence: its first word, and the first after it.
        room: the number of pieces of a window.
    """
    first, last = sentence
    limit = room
    if offsets[last] - offsets[first] > room:
        limit = max(room // 2, 1)
    while first < last:
        # The last word that ends within the limit, but at least one word.
        stop = bisect.bisect_right(offsets, offsets[first] + limit) - 1
        stop = min(max(stop, first + 1), last)
        left = (room - (offsets[stop] - offsets[first])) // 2
        start = bisect.bisect_left(offsets, offsets[first] - left)
        end = bisect.bisect_right(offsets, offsets[start] + room) - 1
        # Space unused on the right is used on the left.
        start = bisect.bisect_left(offsets, offsets[end] - room)
        yield (first, stop), (start, end)
        first = stop


def _log_odd_words(
    sentences: Sequence[conll.Sentence],
    pieces_of: Mapping[str, Sequence[str]],
    room: int,
) -> None:
    lengths = [len(pieces_of[word]) for s in sentences for word in s.words]
    if empty := lengths.count(0):
        logging.warning(
            "%d word(s) have no word piece and are read as [UNK].", empty
        )
    if long := [length for length in lengths if length > room]:
        logging.warning(
            "%d of %d words have more than %d word pieces and are truncated, "
            "by %d pieces. See --max_seq_length.",
            *(len(long), len(lengths), room, sum(long) - room * len(long)),
        )


def split_labels(
    label_ids: np.ndarray,
    label_mask: np.ndarray,
    sentences: Sequence[conll.Sentence],
    labels: Sequence[str],
) -> list[tuple[str, ...]]:
    """Converts the labels of rows to the tags of sentences.

    Args:
        label_ids: `[N, T]` int, the label of each position of each row.
        label_mask: `[N, T]`, above 0 at the positions of words; row by row
            these are the words of all sentences, in order.
        sentences: the tagged sentences.
        labels: names by id.
    """
    names = iter([labels[i] for i in label_ids[label_mask > 0].tolist()])
    return [tuple(itertools.islice(names, len(s.words))) for s in sentences]


def record_features(max_seq_length: int) -> tuple[schema.Feature, ...]:
    """Returns the features of records of windows.

    `label_mask` is 1 at the first piece of each word labeled in this window.
    """
    sequence = (max_seq_length,)
    return (
        *schema.sequence_features(sequence),
        schema.Feature(name="label_ids", shape=sequence),
        schema.Feature(name="label_mask", shape=sequence),
    )
