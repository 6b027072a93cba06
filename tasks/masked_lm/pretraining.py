"""Documents -> pairs of sentences, masked: what BERT is pre-trained on.

Source: Devlin et al. 2019, §3.1 and App. A.1, A.2; for the same text, flags
and seed the instances are those of create_pretraining_data.py of the release,
in its order. That fixes the order of every random draw below: a draw more, less
or earlier changes all that follow. No draw depends on the tokens themselves
(whole words apart), so that places are drawn here and tokens are looked up
afterwards, many instances at once: `tasks.masked_lm.pretraining_instances`.
"""

import bisect
import dataclasses
import random
from collections.abc import Callable

from tasks.masked_lm import (
    draws,
    masking,
    pretraining_instances,
    pretraining_text,
)

# [CLS] A [SEP] B [SEP]
_NUM_SPECIAL_TOKENS = 3
# Source: the release. A document other than the pair's own is drawn at most so
# often, then the last one drawn is taken, even the pair's own.
_TRIES_FOR_ANOTHER_DOCUMENT = 10

# A sentence, or part of a text: its first token in the corpus and one past the
# last.
_Span = tuple[int, int]


@dataclasses.dataclass(frozen=True, kw_only=True)
class InstanceOptions(masking.MaskingOptions):
    """How instances are made; defaults are the release's.

    Attributes:
        max_seq_length: tokens per instance, [CLS] and both [SEP] included.
        dupe_factor: passes over the corpus, each cut and masked anew.
        short_seq_prob: share of documents cut for a random shorter length.

    Raises:
        ValueError: a value is impossible; names it and what must hold.
    """

    max_seq_length: int = 128
    dupe_factor: int = 10
    short_seq_prob: float = 0.1

    def __post_init__(self):
        super().__post_init__()
        shortest = _NUM_SPECIAL_TOKENS + 2
        if self.max_seq_length < shortest:
            raise ValueError(
                f"max_seq_length must be {shortest} or more: [CLS], two [SEP] "
                f"and a token of each sentence; got {self.max_seq_length}."
            )
        if self.dupe_factor < 1:
            raise ValueError(
                f"dupe_factor must be 1 or more; got {self.dupe_factor}."
            )
        if not 0 <= self.short_seq_prob <= 1:
            raise ValueError(
                "short_seq_prob must be from 0 to 1; "
                f"got {self.short_seq_prob}."
            )


def create_instances(
    corpus: pretraining_text.Corpus,
    vocabulary: pretraining_text.Vocabulary,
    options: InstanceOptions,
    rng: random.Random,
    on_progress: Callable[[float], None] = lambda share: None,
) -> pretraining_instances.Instances:
    """Makes the instances of a corpus, in random order.

    Args:
        corpus: one document or more.
        vocabulary: the one that the corpus was tokenized with.
        options: how instances are made.
        rng: draws everything.
        on_progress: is told now and then which share is done, 0 to 1.
    """
    order = list(range(corpus.num_documents))
    draws.shuffle(order, rng)
    drawer = _Drawer(corpus, vocabulary, options, rng, order)
    num_rounds = options.dupe_factor * len(order)
    for number in range(num_rounds):
        drawer.draw_document(number % len(order))
        on_progress((number + 1) / num_rounds)
    drawer.instances.shuffle(rng)
    return drawer.instances


class _Drawer:
    """Draws the instances of one document after the other.

    Args:
        corpus: the text.
        vocabulary: its vocabulary.
        options: how instances are made.
        rng: draws.
        order: `[D]`, the documents as they were shuffled.

    Attributes:
        instances: what has been drawn so far.
    """

    def __init__(self, corpus, vocabulary, options, rng, order):
        self.instances = pretraining_instances.Instances(
            corpus=corpus,
            vocabulary=vocabulary,
            max_seq_length=options.max_seq_length,
            max_predictions_per_seq=options.max_predictions_per_seq,
        )
        self._starts = corpus.sentence_starts
        self._document_starts = corpus.document_starts
        self._num_words = len(vocabulary.ids)
        self._options = options
        # By the tokens of A and B together: counted once, not each time.
        most = options.max_seq_length - _NUM_SPECIAL_TOKENS
        self._places = list(range(most))
        self._num_predictions = [
            options.num_predictions(count + _NUM_SPECIAL_TOKENS)
            for count in range(most + 1)
        ]
        self._rng = rng
        self._order = order
        self._continues = b""
        if options.do_whole_word_mask:
            self._continues = vocabulary.continues[corpus.ids].tobytes()

    def draw_document(self, place: int) -> None:
        """Cuts a document into pairs, about half with a random second part.

        Args:
            place: of the document in `order`.
        """
        rng, starts = self._rng, self._starts
        max_num_tokens = self._options.max_seq_length - _NUM_SPECIAL_TOKENS
        # Some pairs are shorter than the rest, as inputs are when fine-tuning.
        target_length = max_num_tokens
        if rng.random() < self._options.short_seq_prob:
            target_length = draws.between(2, max_num_tokens, rng)
        first, document_end = self._sentences(place)
        while first < document_end:
            end = _chunk_end(starts, first, document_end, target_length)
            is_single = end - first == 1
            a_end = first + (
                1 if is_single else draws.between(1, end - first - 1, rng)
            )
            span_a = starts[first], starts[a_end]
            # As released: a chunk of one sentence always gets a random next.
            is_random_next = is_single or rng.random() < 0.5
            if is_random_next:
                length_a = span_a[1] - span_a[0]
                span_b = self._random_next(place, target_length - length_a)
                # The sentences that B would have had begin the next chunk.
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
        """Takes sentences from a random place of another document."""
        for _ in range(_TRIES_FOR_ANOTHER_DOCUMENT):
            other = draws.below(len(self._order), self._rng)
            if other != place:
                break
        begin, document_end = self._sentences(other)
        first = begin + draws.below(document_end - begin, self._rng)
        end = _chunk_end(self._starts, first, document_end, target_length)
        return self._starts[first], self._starts[end]

    def _add(self, span_a: _Span, span_b: _Span, is_random_next: bool) -> None:
        """Draws the masking of a pair and keeps the instance."""
        (begin_a, end_a), (begin_b, end_b) = span_a, span_b
        num_places = end_a - begin_a + end_b - begin_b
        places = self._places[:num_places]
        num_to_predict = self._num_predictions[num_places]
        if self._options.do_whole_word_mask:
            continues = (
                self._continues[begin_a:end_a] + self._continues[begin_b:end_b]
            )
            chosen = masking.choose_words(
                masking.whole_words(places, continues),
                num_to_predict,
                self._rng,
            )
        else:
            chosen = masking.choose_tokens(places, num_to_predict, self._rng)
        replacements = masking.draw_replacements(
            len(chosen), self._num_words, self._options.masking, self._rng
        )
        self.instances.append(
            (begin_a, end_a, begin_b, end_b, is_random_next),
            chosen,
            replacements,
        )


def _chunk_end(starts, first: int, document_end: int, target_length: int):
    """Finds the end of as few sentences as have enough tokens, one or more.

    Args:
        starts: `[S + 1]`, where each sentence begins.
        first: the sentence to begin with.
        document_end: one past the last sentence that may be taken.
        target_length: enough tokens.
    """
    return bisect.bisect_left(
        starts, starts[first] + target_length, first + 1, document_end
    )


def truncate_pair_at_random_ends(
    span_a: _Span, span_b: _Span, max_num_tokens: int, rng: random.Random
) -> tuple[_Span, _Span]:
    """Shortens a pair, token by token from the longer one (B if equal).

    Each token is taken from the front or the back at random, so that neither
    end of a sentence is seen more often. Fine-tuning has another rule: see
    `tasks.classification.sentence_pairs`.

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
    # First the longer one loses tokens, then B and A in turns.
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
