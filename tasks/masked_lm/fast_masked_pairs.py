"""Masked sentence pairs for pre-training: the fast version of `masked_pairs`.

It creates the same instances from the same random draws. Except for whole
words, no draw depends on the tokens themselves. Positions in the corpus are
drawn here, and tokens are looked up when records are written, many instances at
once. An instance takes about 200 bytes.
"""

import array
import bisect
import functools
import random
from collections.abc import Callable, Iterable, MutableSequence

import numpy as np

from tasks.masked_lm import encoded_corpus, masked_pairs

# A sentence, or part of a text: its first token in the corpus and one past its
# last.
_Span = tuple[int, int]

# Replacements of a predicted token that are not an index of a token.
MASK = -1
SAME = -2

_BATCH_INSTANCES = 512
_NUM_COLUMNS = 6


class Instances:
    """Ordered masked sentence pairs, `[CLS] A [SEP] B [SEP]`.

    Args:
        corpus: the source of A and B.
        vocabulary: of the corpus.
        options: for creating instances; a record has T tokens and P
            predictions.
    """

    def __init__(
        self,
        *,
        corpus: encoded_corpus.Corpus,
        vocabulary: encoded_corpus.Vocabulary,
        options: masked_pairs.InstanceOptions,
    ):
        self._corpus = corpus
        self._vocabulary = vocabulary
        self._options = options
        # For each instance: begin and end of A and of B in the corpus, whether
        # the next is random, and the end of its masked positions.
        self._rows = array.array("q")
        self._places = array.array("i")
        self._replacements = array.array("i")
        self._order = array.array("q")

    def __len__(self) -> int:
        return len(self._order)

    def append(
        self,
        spans: tuple[int, int, int, int, bool],
        places: list[int],
        replacements: list[int],
    ) -> None:
        """Adds an instance.

        Args:
            spans: begin and end of A, of B, and whether the next is random.
            places: the predicted tokens, in any order, counted from the first
                of A to the last of B.
            replacements: for each `MASK`, `SAME` or the index of a token.
        """
        self._places.fromlist(places)
        self._replacements.fromlist(replacements)
        self._rows.fromlist([*spans, len(self._places)])
        self._order.append(len(self._order))

    def shuffle(self, rng: random.Random) -> None:
        """Shuffles the instances."""
        shuffle(self._order, rng)

    def num_random_next(self) -> int:
        """Returns the number of pairs with a random second part."""
        return int(self._table()[:, 4].sum())

    def _table(self) -> np.ndarray:
        return np.frombuffer(self._rows, np.int64).reshape(-1, _NUM_COLUMNS)

    def batches(self):
        """Yields `features` of all instances in order, in batches."""
        for start in range(0, len(self), _BATCH_INSTANCES):
            yield self.features(start, start + _BATCH_INSTANCES)

    def features(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Returns the arrays of `B` records, padded with zeros.

        As released: padding is id 0, whatever token has that id.

        Args:
            start: the first instance.
            stop: one past the last; the end if there are fewer.

        Returns:
            `input_ids`, `input_mask`, `segment_ids`: `[B, T]` integers;
            `masked_lm_positions`, `masked_lm_ids`: `[B, P]` integers;
            `masked_lm_weights`: `[B, P]` float32; `next_sentence_labels`:
            `[B, 1]`, 1 for a random next. With `dynamic_masking` as in
            `masked_pairs.instance_features`.
        """
        order = np.array(self._order[start:stop], np.int64)  # [B]
        table = self._table()
        begin_a, end_a, begin_b, end_b, is_random_next, _ = table[order].T
        input_ids, input_mask, segment_ids = self._tokens(
            begin_a, end_a - begin_a, begin_b, end_b - begin_b
        )
        features = {
            "input_ids": input_ids,
            "input_mask": input_mask,
            "segment_ids": segment_ids,
            "next_sentence_labels": is_random_next[:, np.newaxis],
        }
        if self._options.dynamic_masking:
            if self._options.do_whole_word_mask:
                starts = ~self._vocabulary.continues[input_ids]
                features["word_starts"] = starts * input_mask
            return features
        positions, replacements, weights = self._masked(table, order)
        is_masked = weights > 0  # [B, P]
        labels = np.take_along_axis(input_ids, positions, axis=1)
        labels = np.where(is_masked, labels, 0)  # [B, P]
        hidden = np.where(
            replacements == MASK,
            self._vocabulary.mask_id,
            np.where(
                replacements == SAME, labels, self._vocabulary.ids[replacements]
            ),
        )  # [B, P]
        rows, _ = np.nonzero(is_masked)
        input_ids[rows, positions[is_masked]] = hidden[is_masked]
        return {
            **features,
            "masked_lm_positions": positions,
            "masked_lm_ids": labels,
            "masked_lm_weights": weights,
        }

    def _tokens(self, begin_a, length_a, begin_b, length_b):
        """Looks up the tokens before masking.

        Args:
            begin_a, length_a, begin_b, length_b: `[B]` integers.

        Returns:
            `input_ids`, `input_mask`, `segment_ids`, each `[B, T]`.
        """
        column = np.arange(self._options.max_seq_length, dtype=np.int32)
        begin_a, length_a, begin_b, length_b = (
            values[:, np.newaxis]
            for values in (begin_a, length_a, begin_b, length_b)
        )  # [B, 1]
        first_sep = (length_a + 1).astype(np.int32)
        last_sep = (first_sep + length_b + 1).astype(np.int32)
        is_after_a = column > first_sep  # [B, T]
        is_token = column <= last_sep
        place = column + np.where(
            is_after_a, begin_b - first_sep - 1, begin_a - 1
        )  # [B, T]
        np.clip(place, 0, len(self._corpus.ids) - 1, out=place)
        input_ids = self._corpus.ids[place] * is_token
        input_ids[:, 0] = self._vocabulary.cls_id
        for sep in (first_sep, last_sep):
            np.put_along_axis(input_ids, sep, self._vocabulary.sep_id, axis=1)
        return (
            input_ids,
            is_token.view(np.uint8),
            (is_after_a & is_token).view(np.uint8),
        )

    def _masked(self, table: np.ndarray, order: np.ndarray):
        """Collects the predictions, in the order of positions.

        Returns:
            `positions` and `replacements`, `[B, P]` int32; `weights`, `[B, P]`
            float32, 1 where there is a prediction.
        """
        end = table[order, 5]  # [B]
        begin = np.where(order > 0, table[order - 1, 5], 0)
        column = np.arange(self._options.max_predictions_per_seq)
        is_masked = column < (end - begin)[:, np.newaxis]  # [B, P]
        source = np.where(is_masked, begin[:, np.newaxis] + column, 0)
        if not self._places:
            zeros = np.zeros(source.shape, np.int32)
            return zeros, zeros, zeros.astype(np.float32)
        places = np.frombuffer(self._places, np.int32)[source]
        length_a = table[order, 1] - table[order, 0]  # [B]
        # Offset by [CLS], and in B also by the first [SEP].
        places = places + 1 + (places >= length_a[:, np.newaxis])
        replacements = np.frombuffer(self._replacements, np.int32)[source]
        places = np.where(is_masked, places, self._options.max_seq_length)
        by_place = np.argsort(places, axis=1)
        places = np.take_along_axis(places, by_place, axis=1)
        replacements = np.take_along_axis(replacements, by_place, axis=1)
        # There are at most as many predictions as positions, so those sorted to
        # the front are those counted.
        return (
            np.where(is_masked, places, 0),
            replacements,
            is_masked.astype(np.float32),
        )


def create_instances(
    corpus: encoded_corpus.Corpus,
    vocabulary: encoded_corpus.Vocabulary,
    options: masked_pairs.InstanceOptions,
    rng: random.Random,
    on_progress: Callable[[float], None] = lambda share: None,
) -> Instances:
    """Creates the instances of a corpus, in random order.

    Args:
        corpus: at least one document.
        vocabulary: of the corpus.
        options: for creating instances.
        rng: source of all random draws.
        on_progress: called with the fraction done, 0 to 1.
    """
    order = list(range(corpus.num_documents))
    shuffle(order, rng)
    drawer = _Drawer(corpus, vocabulary, options, rng, order)
    num_rounds = options.dupe_factor * len(order)
    for number in range(num_rounds):
        drawer.draw_document(number % len(order))
        on_progress((number + 1) / num_rounds)
    drawer.instances.shuffle(rng)
    return drawer.instances


class _Drawer:
    """Creator of the instances of `[D]` shuffled documents, by random draws."""

    def __init__(self, corpus, vocabulary, options, rng, order):
        self.instances = Instances(
            corpus=corpus, vocabulary=vocabulary, options=options
        )
        self._starts = corpus.sentence_starts
        self._document_starts = corpus.document_starts
        self._num_words = len(vocabulary.ids)
        self._options = options
        # By the number of tokens of A and B, precomputed.
        most = options.max_seq_length - masked_pairs.NUM_SPECIAL_TOKENS
        self._places = list(range(most))
        self._num_predictions = [
            options.num_predictions(count + masked_pairs.NUM_SPECIAL_TOKENS)
            for count in range(most + 1)
        ]
        self._rng = rng
        self._order = order
        self._continues = b""
        if options.do_whole_word_mask:
            self._continues = vocabulary.continues[corpus.ids].tobytes()

    def draw_document(self, place: int) -> None:
        """Splits a document into pairs, about half with a random second part.

        Args:
            place: index of the document in `order`.
        """
        rng, starts = self._rng, self._starts
        max_num_tokens = (
            self._options.max_seq_length - masked_pairs.NUM_SPECIAL_TOKENS
        )
        # Some pairs are shorter, like inputs in fine-tuning.
        target_length = max_num_tokens
        if rng.random() < self._options.short_seq_prob:
            target_length = between(2, max_num_tokens, rng)
        first, document_end = self._sentences(place)
        while first < document_end:
            end = _chunk_end(starts, first, document_end, target_length)
            is_single = end - first == 1
            a_end = first + (
                1 if is_single else between(1, end - first - 1, rng)
            )
            span_a = starts[first], starts[a_end]
            # As released: a chunk of one sentence always gets a random next.
            is_random_next = is_single or rng.random() < 0.5
            if is_random_next:
                length_a = span_a[1] - span_a[0]
                span_b = self._random_next(place, target_length - length_a)
                # The unused sentences of the chunk begin the next one.
                first = a_end
            else:
                span_b = starts[a_end], starts[end]
                first = end
            self._add(
                *truncate_pair_at_random_ends(
                    span_a, span_b, max_num_tokens, rng
                ),
                is_random_next,
            )

    def _sentences(self, place: int) -> tuple[int, int]:
        document = self._order[place]
        return (
            self._document_starts[document],
            self._document_starts[document + 1],
        )

    def _random_next(self, place: int, target_length: int) -> _Span:
        """Chooses sentences from a random position in another document."""
        for _ in range(masked_pairs.TRIES_FOR_ANOTHER_DOCUMENT):
            other = below(len(self._order), self._rng)
            if other != place:
                break
        begin, document_end = self._sentences(other)
        first = begin + below(document_end - begin, self._rng)
        end = _chunk_end(self._starts, first, document_end, target_length)
        return self._starts[first], self._starts[end]

    def _add(self, span_a: _Span, span_b: _Span, is_random_next: bool) -> None:
        """Draws the masking of a pair, unless masking is dynamic."""
        (begin_a, end_a), (begin_b, end_b) = span_a, span_b
        num_places = end_a - begin_a + end_b - begin_b
        spans = (begin_a, end_a, begin_b, end_b, is_random_next)
        if self._options.dynamic_masking:
            self.instances.append(spans, [], [])
            return
        places = self._places[:num_places]
        num_to_predict = self._num_predictions[num_places]
        if self._options.do_whole_word_mask:
            continues = (
                self._continues[begin_a:end_a] + self._continues[begin_b:end_b]
            )
            words = _whole_words(places, continues)
            chosen = choose_words(words, num_to_predict, self._rng)
        else:
            chosen = first_of_shuffled(places, num_to_predict, self._rng)
        replacements = self._draw_replacements(len(chosen))
        self.instances.append(spans, chosen, replacements)

    def _draw_replacements(self, num_places: int) -> list[int]:
        # As released: each piece of a word is drawn separately
        # (google-research/bert#910).
        mask_prob, same_prob = self._options.draw_probs
        draw = self._rng.random
        return [
            MASK
            if draw() < mask_prob
            else SAME
            if draw() < same_prob
            else below(self._num_words, self._rng)
            for _ in range(num_places)
        ]


def _chunk_end(starts, first: int, document_end: int, target_length: int):
    """Returns the end of the fewest sentences, at least 1, of that length."""
    return bisect.bisect_left(
        starts, starts[first] + target_length, first + 1, document_end
    )


def truncate_pair_at_random_ends(
    span_a: _Span, span_b: _Span, max_num_tokens: int, rng: random.Random
) -> tuple[_Span, _Span]:
    """Truncates a pair, token by token from the longer part (B if equal).

    It is `masked_pairs.truncate_pair_at_random_ends` on spans.

    Args:
        span_a: first token of A and one past its last.
        span_b: those of B.
        max_num_tokens: of both together.
        rng: draws the ends.

    Returns:
        Both spans, shortened.
    """
    (begin_a, end_a), (begin_b, end_b) = span_a, span_b
    surplus = end_a - begin_a + end_b - begin_b - max_num_tokens
    if surplus <= 0:
        return span_a, span_b
    draw = rng.random
    is_front = [draw() < 0.5 for _ in range(surplus)]
    # First the longer part is truncated, then B and A in turns.
    longer_by = end_a - begin_a - (end_b - begin_b)
    from_longer = is_front[: abs(longer_by)]
    turns = is_front[len(from_longer) :]
    from_a, from_b = turns[1::2], turns[::2]
    if longer_by > 0:
        from_a += from_longer
    else:
        from_b += from_longer
    front_a, front_b = sum(from_a), sum(from_b)
    return (
        (begin_a + front_a, end_a - len(from_a) + front_a),
        (begin_b + front_b, end_b - len(from_b) + front_b),
    )


def choose_words(
    words: list[list[int]], num_to_predict: int, rng: random.Random
) -> list[int]:
    """Draws the words to predict.

    As released, a word with more pieces than predictions left is skipped in
    favor of a shorter one.

    Args:
        words: the positions of the pieces of each word; shuffled in place.
        num_to_predict: maximum number, reached if the words allow it.
        rng: draws the order of the words.

    Returns:
        The predicted positions, in the order drawn.
    """
    shuffle(words, rng)
    places: list[int] = []
    for word in words:
        if len(places) == num_to_predict:
            break
        if len(places) + len(word) <= num_to_predict:
            places += word
    return places


def _whole_words(places: Iterable[int], continues: bytes) -> list[list[int]]:
    # As released: if B begins within a word, its first piece joins the last
    # word of A, over the [SEP] between them.
    words: list[list[int]] = []
    for place, is_continuation in zip(places, continues, strict=True):
        if is_continuation and words:
            words[-1].append(place)
        else:
            words.append([place])
    return words


# ------------------------- Faster equivalents of methods of `random.Random`


def shuffle(items: MutableSequence, rng: random.Random) -> None:
    """Equivalent to `rng.shuffle(items)`, about three times as fast.

    The order of the items and the state of the generator afterwards are the
    same.
    """
    getrandbits = rng.getrandbits
    for bits, highest, end in _rounds(len(items)):
        for last in range(highest, end, -1):
            other = getrandbits(bits)
            while other > last:
                other = getrandbits(bits)
            items[last], items[other] = items[other], items[last]


def first_of_shuffled(items: list, count: int, rng: random.Random) -> list:
    """Equivalent to `rng.shuffle(items)` followed by `items[:count]`.

    The state of the generator is the same; that of the items is not.
    """
    getrandbits = rng.getrandbits
    for bits, highest, end in _rounds(len(items)):
        for last in range(highest, max(end, count - 1), -1):
            other = getrandbits(bits)
            while other > last:
                other = getrandbits(bits)
            # Only the first items are needed.
            items[other] = items[last]
        for last in range(min(highest, count - 1), end, -1):
            other = getrandbits(bits)
            while other > last:
                other = getrandbits(bits)
            items[last], items[other] = items[other], items[last]
    return items[:count]


def below(limit: int, rng: random.Random) -> int:
    """Equivalent to `rng.randrange(limit)`, in half the time."""
    bits = limit.bit_length()
    number = rng.getrandbits(bits)
    while number >= limit:
        number = rng.getrandbits(bits)
    return number


def between(low: int, high: int, rng: random.Random) -> int:
    """Equivalent to `rng.randint(low, high)`, in half the time."""
    return low + below(high - low + 1, rng)


@functools.lru_cache(maxsize=4096)
def _rounds(num_items: int) -> tuple[tuple[int, int, int], ...]:
    """Groups the positions of a shuffle by the number of bits to draw.

    Each position from the last down to the second is swapped with one at or
    below it, drawn with as many bits as their number has, and redrawn while too
    large.

    Returns:
        The bits, the first position, and one below the last position.
    """
    rounds = []
    highest = num_items - 1
    while highest > 0:
        bits = (highest + 1).bit_length()
        end = max((1 << (bits - 1)) - 2, 0)
        rounds.append((bits, highest, end))
        highest = end
    return tuple(rounds)
