"""Tagging of raw text: a label for each word of a sentence."""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from modeling import heads, tagging
from serving import (
    graph_tokenizer,
    inputs,
    networks,
    normalization,
    signatures,
)
from tasks.tagging import ner

TASK = "tag"
WORDS = "words"
DOCUMENT = "document"


def servable(
    model: heads.BertForTokenClassification | networks.FeatureTagger,
    tokenizer: graph_tokenizer.GraphTokenizer,
    labels: Sequence[str],
    max_seq_length: int,
) -> signatures.Servable:
    """Makes the signatures of a tagger.

    They are `serving_default` (`text` `[B]` string, words parted by white
    space of ASCII), `words` (`[B, W]` string, "" after the last word of a
    row), `document` (as `serving_default`, but the B sentences are one
    document, in order, and each is read with its neighbours around it, as
    `run_ner.py --context=document` does) and `ids`. Outputs: `words`, `tags`
    `[B, W]` string, "" after the last, and `probabilities` `[B, W]` float32 of
    those tags. For `ids` `[B, T]`: `tags` and `probabilities` of each token;
    a model that reads words has none.

    Args:
        model: in float32.
        tokenizer: of the model's vocabulary.
        labels: in the order of the model's outputs.
        max_seq_length: word pieces of a window.
    """
    sentence = ner.WindowOptions(
        max_seq_length=max_seq_length, context=ner.SENTENCE
    )
    document = dataclasses.replace(sentence, context=ner.DOCUMENT)
    tagger = _Tagger(model, tokenizer, labels)
    text = signatures.of_texts
    ids = {signatures.IDS: signatures.of_ids(tagger.of_ids)}
    if isinstance(model, networks.FeatureTagger):
        ids = {}
    return signatures.Servable(
        task=TASK,
        signatures={
            signatures.DEFAULT: text(
                lambda text: tagger.of_text(text, sentence), "text"
            ),
            WORDS: signatures.of_words(
                lambda words: tagger.of_words(words, sentence)
            ),
            DOCUMENT: text(lambda text: tagger.of_text(text, document), "text"),
            **ids,
        },
        variables=tagger.net.variables,
        details={"labels": list(labels), "max_seq_length": max_seq_length},
    )


class _Tagger:
    """Tags the words of B sentences at once."""

    def __init__(
        self, model, tokenizer: graph_tokenizer.GraphTokenizer, labels
    ):
        self._words = None
        if isinstance(model, networks.FeatureTagger):
            self._words = model.tagger
            self.net = signatures.Network(model, tf.identity)
        else:
            self.net = signatures.Network(model, lambda out: out["logits"])
        self._tokenizer = tokenizer
        self._labels = labels
        self._longest = model.config.max_position_embeddings

    def of_text(self, text, options: ner.WindowOptions):
        # Decoded first: a word of invalid bytes alone is none.
        return self._tag(
            tf.strings.split(normalization.drop_invalid_utf8(text)), options
        )

    def of_words(self, words, options: ner.WindowOptions):
        # An empty word between others is one, as in a file.
        rows = tf.RaggedTensor.from_tensor(words, padding="")
        decoded = rows.with_values(normalization.drop_invalid_utf8(rows.values))
        return self._tag(decoded, options)

    def of_ids(self, input_ids, input_mask, segment_ids):
        longest = self._longest
        rows = inputs.of_client(input_ids, input_mask, segment_ids, longest)
        return _best(self.net(rows), self._labels)

    def _tag(self, words, options: ner.WindowOptions):
        """Tags `[B, (words)]` string."""
        pieces = _pieces(words.values, self._tokenizer, options.room)
        cut = cut_windows(pieces, words.row_lengths(), options)
        rows = inputs.joined(
            cut.tokens, inputs.no_tokens(cut.tokens), self._tokenizer.special
        )
        places = tf.stack([cut.window_of_word, cut.place_of_word], axis=1)
        logits = tf.gather_nd(self.net(rows), places)  # [words, K]
        if self._words is not None:  # So far, hidden layers.
            logits = tag_vectors(self._words, words.with_values(logits)).values
        found = _best(logits, self._labels)
        return {
            "words": words.to_tensor(),
            **{k: words.with_values(x).to_tensor() for k, x in found.items()},
        }


def tag_vectors(
    tagger: tagging.LstmTagger, vectors: tf.RaggedTensor
) -> tf.RaggedTensor:
    """Reads sentences of vectors, `[B, (words), L * D]`: `[B, (words), K]`."""
    lengths = vectors.row_lengths()  # [B]
    features = vectors.to_tensor()  # [B, W, L * D]
    label_mask = tf.sequence_mask(lengths, tf.shape(features)[1], tf.int32)
    logits = tagger(features, label_mask)["logits"]  # [B, W, K]
    return tf.RaggedTensor.from_tensor(logits, lengths=lengths)


def _pieces(
    words, tokenizer: graph_tokenizer.GraphTokenizer, room: int
) -> tf.RaggedTensor:
    """Cuts `[W]` words into pieces as `ner.make_windows` does.

    Returns:
        `[W, (pieces)]` int32, of each word at least one and at most `room`.
    """
    pieces = tokenizer.tokenize(words)[:, :room]
    is_empty = tf.cast(pieces.row_lengths() == 0, tf.int64)
    unknown = tf.RaggedTensor.from_row_lengths(
        tf.fill([tf.reduce_sum(is_empty)], tokenizer.id_of("[UNK]")),
        is_empty,
        validate=False,
    )
    return tf.concat([pieces, unknown], axis=1)


def _best(logits, labels: Sequence[str]):
    """Names the best of `[..., K]` logits, and its probability: `[...]`."""
    probs = tf.nn.softmax(logits)
    best = tf.argmax(logits, axis=-1)
    return {
        "tags": tf.gather(tf.constant(labels), best),
        "probabilities": tf.reduce_max(probs, axis=-1),
    }


# ------------------------------------------------------------------- Windows

# They are those of `tagging.ner`, for whole batches at once. The words of all
# sentences stand one after the other, `W` of them.


@dataclasses.dataclass(frozen=True, kw_only=True)
class TagWindows:
    """`R` windows, and where the words are in them.

    Attributes:
        tokens: `[R, (tokens)]` int32, without [CLS] and [SEP].
        window_of_word: `[W]` int64, the window that a word is labelled in.
        place_of_word: `[W]` int64, its first piece there, [CLS] being 0.
    """

    tokens: tf.RaggedTensor
    window_of_word: tf.Tensor
    place_of_word: tf.Tensor


def cut_windows(
    pieces: tf.RaggedTensor,
    sentence_lengths: tf.Tensor,
    options: ner.WindowOptions,
) -> TagWindows:
    """Cuts sentences into windows; each word is labelled in just one.

    Args:
        pieces: `[W, (pieces)]` int32, of each word at least one and at most
            `options.room`.
        sentence_lengths: `[S]` int64, the words of each sentence.
        options: with `ner.DOCUMENT` all sentences are one document.
    """
    sizes = pieces.row_lengths()
    offsets = tf.concat([[tf.constant(0, tf.int64)], tf.cumsum(sizes)], 0)
    ends = tf.cumsum(sentence_lengths)  # [S]
    sentence = _Words(
        first=tf.repeat(ends - sentence_lengths, sentence_lengths),
        end=tf.repeat(ends, sentence_lengths),
    )
    outer = sentence
    if options.context == ner.DOCUMENT:
        none = tf.zeros_like(sizes)
        outer = _Words(first=none, end=none + tf.size(sizes, tf.int64))
    stops = _stops(offsets, sentence, options.room)
    begins = _begins(ends - sentence_lengths, ends, stops)  # [W] int32
    first = tf.where(begins > 0)[:, 0]  # [R]
    start, end = _surrounded(
        offsets,
        _Words(first=first, end=tf.gather(stops, first)),
        outer.of(first),
        options.room,
    )
    tokens = inputs.slices(
        _as_one_row(pieces),
        tf.zeros_like(start),
        tf.gather(offsets, start),
        tf.gather(offsets, end) - tf.gather(offsets, start),
    )
    window = tf.cumsum(tf.cast(begins, tf.int64)) - 1  # [W]
    before = tf.gather(offsets, tf.gather(start, window))
    return TagWindows(
        tokens=tokens,
        window_of_word=window,
        place_of_word=1 + offsets[:-1] - before,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Words:
    """Runs of words, `[first, end)` each; both int64 of one shape."""

    first: tf.Tensor
    end: tf.Tensor

    def of(self, index: tf.Tensor) -> "_Words":
        return _Words(
            first=tf.gather(self.first, index), end=tf.gather(self.end, index)
        )


def _stops(offsets, sentence: _Words, room: int):
    """Says where a window that begins at each word would stop: `[W]`."""
    size = tf.gather(offsets, sentence.end) - tf.gather(offsets, sentence.first)
    # As `ner.spans`: in a long sentence half is left for what stands around.
    limit = tf.where(size > room, max(room // 2, 1), room)
    limit = tf.cast(limit, tf.int64)
    reached = _bisect_right(offsets, offsets[:-1] + limit) - 1
    next_word = tf.range(1, tf.size(offsets, tf.int64))
    return tf.minimum(tf.maximum(reached, next_word), sentence.end)


def _begins(firsts, ends, stops):
    """Follows the windows of each sentence: `[W]` int32, 1 where one begins.

    Args:
        firsts: `[S]` int64, the first word of each sentence.
        ends: `[S]` int64.
        stops: `[W]` int64, where a window that begins at a word stops.
    """

    def follow(word, begins):
        open_ones = tf.boolean_mask(word, word < ends)
        begins = tf.tensor_scatter_nd_add(
            begins, open_ones[:, tf.newaxis], tf.ones_like(open_ones, tf.int32)
        )
        last = tf.maximum(tf.size(stops, tf.int64) - 1, 0)
        after = tf.gather(stops, tf.minimum(word, last))
        return tf.where(word < ends, after, word), begins

    _, begins = tf.while_loop(
        lambda word, _: tf.reduce_any(word < ends),
        follow,
        (firsts, tf.zeros_like(stops, tf.int32)),
    )
    return begins


def _surrounded(offsets, inner: _Words, outer: _Words, room: int):
    """Widens runs of words to as many of `outer` as `room` takes.

    Returns:
        Their first words and ends, each `[R]` int64.
    """
    from_piece = tf.gather(offsets, inner.first)
    left = (room - (tf.gather(offsets, inner.end) - from_piece)) // 2
    start = tf.maximum(_bisect_left(offsets, from_piece - left), outer.first)
    reached = _bisect_right(offsets, tf.gather(offsets, start) + room) - 1
    end = tf.minimum(reached, outer.end)
    # What the right side did not need goes to the left.
    reached = _bisect_left(offsets, tf.gather(offsets, end) - room)
    return tf.maximum(reached, outer.first), end


def _bisect_left(offsets, values):
    return tf.searchsorted(offsets, values, "left", tf.int64)


def _bisect_right(offsets, values):
    return tf.searchsorted(offsets, values, "right", tf.int64)


def _as_one_row(pieces: tf.RaggedTensor) -> tf.RaggedTensor:
    """Puts the pieces of all words into one row: `[1, (pieces)]`."""
    return tf.RaggedTensor.from_row_lengths(
        pieces.values, [tf.size(pieces.values, tf.int64)], validate=False
    )
