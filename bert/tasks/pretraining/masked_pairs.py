"""Masked sentence pairs for pre-training.

Source: Devlin et al. 2019, §3.1 and App. A.1, A.2. For the same text, flags
and seed the instances are those of create_pretraining_data.py of the original,
in its order. This fixes the order of all random draws: an additional, missing
or earlier draw changes all that follow.

Except for whole words, no draw depends on the tokens themselves. Positions in
the corpus are drawn here, and tokens are looked up when records are written,
many instances at once. An instance takes about 210 bytes.
"""

import array
import bisect
import random
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from bert.records import schema
from bert.tasks.pretraining import encoded_corpus, fast_random, instance_options

# A sentence, or part of a text: its first token in the corpus and one past its
# last.
_Span = tuple[int, int]
_Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]

# Source: the release. It redraws a document equal to the pair's own at most
# this often, and then uses the last one even if it is the pair's own.
_TRIES_FOR_ANOTHER_DOCUMENT = 10
_SAME = -1  # Means that a predicted token is not replaced.
_BATCH_INSTANCES = 512
# The columns of `Instances`: begin and end of A and of B in the corpus, whether
# the next is random, and begin and end of its predictions.
_BEGIN_A, _END_A, _BEGIN_B, _END_B, _IS_RANDOM_NEXT, _BEGIN, _END = range(7)
_NUM_COLUMNS = 7


class Instances:
    """Ordered masked sentence pairs, `[CLS] A [SEP] B [SEP]`.

    Args:
        corpus: the source of A and B.
        vocab: token -> id, with the special tokens.
        options: for creating instances.
    """

    def __init__(
        self,
        corpus: encoded_corpus.Corpus,
        vocab: Mapping[str, int],
        options: instance_options.InstanceOptions,
    ):
        self._corpus = corpus
        self._vocab = vocab
        self._options = options
        self._continues = _continuations(vocab)
        self._rows = array.array("q")
        # The first is of no instance: it fills rows with fewer predictions.
        self._places = array.array("i", [0])
        self._replacements = array.array("i", [_SAME])
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
            replacements: for each the id that is shown, or -1 for its own.
        """
        begin = len(self._places)
        self._places.fromlist(places)
        self._replacements.fromlist(replacements)
        self._rows.fromlist([*spans, begin, len(self._places)])
        self._order.append(len(self._order))

    def shuffle(self, rng: random.Random) -> None:
        """Shuffles the instances."""
        fast_random.shuffle(self._order, rng)

    def num_random_next(self) -> int:
        """Returns the number of pairs with a random second part."""
        return int(self._table()[:, _IS_RANDOM_NEXT].sum())

    def _table(self) -> np.ndarray:
        return np.frombuffer(self._rows, np.int64).reshape(-1, _NUM_COLUMNS)

    def batches(self) -> Iterator[dict[str, np.ndarray]]:
        """Yields the arrays of `B` records each, padded with zeros.

        As released: padding is id 0, whatever token has that id.

        Yields:
            `input_ids`, `input_mask`, `segment_ids`: `[B, T]` integers;
            `masked_lm_positions`, `masked_lm_ids`: `[B, P]` integers;
            `masked_lm_weights`: `[B, P]` float32; `next_sentence_labels`:
            `[B, 1]`, 1 for a random next. T is `max_seq_length`, P is
            `max_predictions_per_seq`. With `dynamic_masking` there are no
            `masked_lm` arrays; for whole words there is `word_starts`,
            `[B, T]`, 0 for a token that continues a word.
        """
        table = self._table()
        for start in range(0, len(self), _BATCH_INSTANCES):
            order = self._order[start : start + _BATCH_INSTANCES]
            yield self._features(table[order])

    def _features(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        input_ids, input_mask, segment_ids = self._tokens(rows)
        features = {
            "input_ids": input_ids,
            "input_mask": input_mask,
            "segment_ids": segment_ids,
            "next_sentence_labels": rows[:, _IS_RANDOM_NEXT, np.newaxis],
        }
        if self._options.dynamic_masking:
            if self._options.do_whole_word_mask:
                starts = ~self._continues[input_ids]
                features["word_starts"] = starts * input_mask
            return features
        positions, replacements, weights = self._masked(rows)
        is_masked = weights > 0  # [B, P]
        labels = np.take_along_axis(input_ids, positions, axis=1)
        labels = np.where(is_masked, labels, 0)  # [B, P]
        shown = np.where(replacements == _SAME, labels, replacements)  # [B, P]
        rows, _ = np.nonzero(is_masked)
        input_ids[rows, positions[is_masked]] = shown[is_masked]
        return {
            **features,
            "masked_lm_positions": positions,
            "masked_lm_ids": labels,
            "masked_lm_weights": weights,
        }

    def _tokens(self, rows: np.ndarray) -> _Arrays:
        """Returns the ids, mask and segments before masking, each `[B, T]`."""
        column = np.arange(self._options.max_seq_length, dtype=np.int32)
        begin_a, end_a, begin_b, end_b = (
            rows[:, number, np.newaxis]
            for number in (_BEGIN_A, _END_A, _BEGIN_B, _END_B)
        )  # [B, 1]
        first_sep = (end_a - begin_a + 1).astype(np.int32)
        last_sep = (first_sep + end_b - begin_b + 1).astype(np.int32)
        is_after_a = column > first_sep  # [B, T]
        is_token = column <= last_sep
        place = column + np.where(
            is_after_a, begin_b - first_sep - 1, begin_a - 1
        )  # [B, T]
        np.clip(place, 0, len(self._corpus.ids) - 1, out=place)
        input_ids = self._corpus.ids[place] * is_token
        input_ids[:, 0] = self._vocab["[CLS]"]
        for sep in (first_sep, last_sep):
            np.put_along_axis(input_ids, sep, self._vocab["[SEP]"], axis=1)
        return (
            input_ids,
            is_token.view(np.uint8),
            (is_after_a & is_token).view(np.uint8),
        )

    def _masked(self, rows: np.ndarray) -> _Arrays:
        """Returns positions, in order, replacements and weights, `[B, P]`."""
        begin_a, end_a, begin, end = (
            rows[:, number, np.newaxis]
            for number in (_BEGIN_A, _END_A, _BEGIN, _END)
        )  # [B, 1]
        column = np.arange(self._options.max_predictions_per_seq)
        is_masked = column < end - begin  # [B, P]
        source = np.where(is_masked, begin + column, 0)
        places = np.frombuffer(self._places, np.int32)[source]
        # [CLS] shifts all of them, and the first [SEP] those of B.
        places = places + 1 + (places >= end_a - begin_a)
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
    vocab: Mapping[str, int],
    options: instance_options.InstanceOptions,
    rng: random.Random,
    on_progress: Callable[[float], None] = lambda share: None,
) -> Instances:
    """Creates the instances of a corpus, in random order.

    As released: all instances of `dupe_factor` passes are in memory.

    Args:
        corpus: at least one document.
        vocab: token -> id, with the special tokens.
        options: for creating instances.
        rng: source of all random draws.
        on_progress: called with the fraction done, 0 to 1.
    """
    order = list(range(corpus.num_documents))
    fast_random.shuffle(order, rng)
    creator = _Creator(corpus, vocab, options, rng, order)
    num_rounds = options.dupe_factor * len(order)
    for number in range(num_rounds):
        creator.create_instances_from_document(number % len(order))
        on_progress((number + 1) / num_rounds)
    creator.instances.shuffle(rng)
    return creator.instances


class _Creator:
    """The instances of `[D]` shuffled documents, by random draws."""

    def __init__(
        self,
        corpus: encoded_corpus.Corpus,
        vocab: Mapping[str, int],
        options: instance_options.InstanceOptions,
        rng: random.Random,
        order: Sequence[int],
    ):
        self.instances = Instances(corpus, vocab, options)
        self._options = options
        self._rng = rng
        self._order = order
        self._starts = corpus.sentence_starts
        self._document_starts = corpus.document_starts
        # As released, any token may be a random replacement, including [PAD],
        # [CLS] and [unused1].
        self._ids = list(vocab.values())
        self._mask_id = vocab["[MASK]"]
        self._max_num_tokens = (
            options.max_seq_length - schema.NUM_SPECIAL_TOKENS
        )
        # The index of the second list is the number of tokens of A and B.
        self._places = list(range(self._max_num_tokens))
        self._num_predictions = [
            options.num_predictions(count + schema.NUM_SPECIAL_TOKENS)
            for count in range(self._max_num_tokens + 1)
        ]
        self._continues = b""
        if options.do_whole_word_mask:
            self._continues = _continuations(vocab)[corpus.ids].tobytes()

    def create_instances_from_document(self, place: int) -> None:
        """Splits the document at a place of `order` into pairs."""
        rng, starts = self._rng, self._starts
        # Some pairs are shorter, like inputs in fine-tuning.
        target_length = self._max_num_tokens
        if rng.random() < self._options.short_seq_prob:
            target_length = rng.randint(2, self._max_num_tokens)
        first, document_end = self._sentences(place)
        while first < document_end:
            end = self._chunk_end(first, document_end, target_length)
            is_single = end - first == 1
            a_end = first + (
                1 if is_single else rng.randint(1, end - first - 1)
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
            span_a, span_b = truncate_pair_at_random_ends(
                span_a, span_b, self._max_num_tokens, rng
            )
            places, replacements = self._create_masked_lm_predictions(
                span_a, span_b
            )
            self.instances.append(
                (*span_a, *span_b, is_random_next), places, replacements
            )

    def _sentences(self, place: int) -> tuple[int, int]:
        document = self._order[place]
        return (
            self._document_starts[document],
            self._document_starts[document + 1],
        )

    def _chunk_end(
        self, first: int, document_end: int, target_length: int
    ) -> int:
        """Returns the end of the fewest sentences, at least 1, that suffice."""
        starts = self._starts
        return bisect.bisect_left(
            starts, starts[first] + target_length, first + 1, document_end
        )

    def _random_next(self, place: int, target_length: int) -> _Span:
        """Chooses sentences from a random position in another document."""
        for _ in range(_TRIES_FOR_ANOTHER_DOCUMENT):
            other = self._rng.randrange(len(self._order))
            if other != place:
                break
        begin, document_end = self._sentences(other)
        first = begin + self._rng.randrange(document_end - begin)
        end = self._chunk_end(first, document_end, target_length)
        return self._starts[first], self._starts[end]

    def _create_masked_lm_predictions(
        self, span_a: _Span, span_b: _Span
    ) -> tuple[list[int], list[int]]:
        # The places, as drawn, and the replacement of each.
        options, rng = self._options, self._rng
        if options.dynamic_masking:
            return [], []
        (begin_a, end_a), (begin_b, end_b) = span_a, span_b
        num_tokens = end_a - begin_a + end_b - begin_b
        places = self._places[:num_tokens]
        num_to_predict = self._num_predictions[num_tokens]
        if options.do_whole_word_mask:
            continues = (
                self._continues[begin_a:end_a] + self._continues[begin_b:end_b]
            )
            words = _whole_words(places, continues)
            chosen = choose_words(words, num_to_predict, rng)
        else:
            fast_random.shuffle(places, rng, num_to_predict)
            chosen = places[:num_to_predict]
        # As released: each piece of a word is drawn separately
        # (google-research/bert#910).
        mask_prob, same_prob = options.draw_probs
        draw = rng.random
        return chosen, [
            self._mask_id
            if draw() < mask_prob
            else _SAME
            if draw() < same_prob
            else self._ids[rng.randrange(len(self._ids))]
            for _ in chosen
        ]


def _continuations(vocab: Mapping[str, int]) -> np.ndarray:
    """Tells which ids continue a word, `[max id + 1]` bool."""
    continues = np.zeros(max(vocab.values()) + 1, bool)
    for token, index in vocab.items():
        continues[index] = token.startswith("##")
    return continues


def truncate_pair_at_random_ends(
    span_a: _Span, span_b: _Span, max_num_tokens: int, rng: random.Random
) -> tuple[_Span, _Span]:
    """Truncates a pair, token by token from the longer part (B if equal).

    Each token is removed from the front or the back at random, to avoid a bias
    towards either end. Fine-tuning has a different rule: see
    `bert.tasks.sentence_pairs`.

    >>> truncate_pair_at_random_ends((0, 6), (6, 8), 5, random.Random(1))
    ((1, 4), (6, 8))

    Returns:
        Both spans, together at most `max_num_tokens` tokens.
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

    >>> choose_words([[0, 1, 2], [3], [4, 5]], 3, random.Random(1))
    [3, 4, 5]

    Args:
        words: the positions of the pieces of each word; shuffled in place.
        num_to_predict: maximum number, reached if the words allow it.
        rng: draws the order of the words.
    """
    fast_random.shuffle(words, rng)
    places: list[int] = []
    for word in words:
        if len(places) == num_to_predict:
            break
        if len(places) + len(word) <= num_to_predict:
            places += word
    return places


def _whole_words(places: list[int], continues: bytes) -> list[list[int]]:
    # As released: if B begins within a word, its first piece joins the last
    # word of A, over the [SEP] between them.
    words: list[list[int]] = []
    for place, is_continuation in zip(places, continues, strict=True):
        if is_continuation and words:
            words[-1].append(place)
        else:
            words.append([place])
    return words
