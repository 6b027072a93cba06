"""Tagging of raw text: a label for each word of a sentence."""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from modeling import heads
from serving import (
    graph_tokenizer,
    networks,
    normalization,
    run_folder,
    signatures,
    token_rows,
)
from tasks.tagging import ner

WORDS = "words"
DOCUMENT = "document"


def servable(
    model: heads.BertForTokenClassification,
    tokenizer: graph_tokenizer.GraphTokenizer,
    labels: Sequence[str],
    max_seq_length: int,
) -> signatures.Servable:
    """Makes the signatures of a tagger.

    They are `serving_default` (`text` `[B]` string, words separated by white
    space of ASCII), `words` (`[B, W]` string, "" after the last word of a
    row), `document` (as `serving_default`, but the B sentences are one
    document, in order, and each is read with its neighbors around it, as
    `run_ner.py --context=document` does) and `ids`. Outputs: `words`, `tags`
    `[B, W]` string, "" after the last, and `probabilities` `[B, W]` float32 of
    those tags. For `ids` `[B, T]`: `tags` and `probabilities` of each token.

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
    made = {
        signatures.DEFAULT: signatures.of_texts(
            lambda text: tagger.of_text(text, sentence), "text"
        ),
        WORDS: signatures.of_texts(
            lambda words: tagger.of_words(words, sentence),
            "words",
            lists=["words"],
        ),
        DOCUMENT: signatures.of_texts(
            lambda text: tagger.of_text(text, document), "text"
        ),
    }
    longest = model.config.max_position_embeddings
    made[signatures.IDS] = signatures.of_ids(
        lambda rows: _best(tagger.net(rows), labels), longest
    )
    return signatures.Servable(
        task=run_folder.TAG,
        signatures=made,
        variables=tagger.net.variables,
        details={"labels": list(labels), "max_seq_length": max_seq_length},
    )


class _Tagger:
    """Tags the words of B sentences at once."""

    def __init__(
        self, model, tokenizer: graph_tokenizer.GraphTokenizer, labels
    ):
        self.net = networks.Network(model, lambda out: out["logits"])
        self._tokenizer = tokenizer
        self._labels = labels

    def of_text(self, text, options: ner.WindowOptions):
        # Decoded first: invalid bytes alone are no word.
        return self._tag(
            tf.strings.split(normalization.drop_invalid_utf8(text)), options
        )

    def of_words(self, words, options: ner.WindowOptions):
        # An empty word between others is one, as in a file.
        rows = tf.RaggedTensor.from_tensor(words, padding="")
        decoded = rows.with_values(normalization.drop_invalid_utf8(rows.values))
        return self._tag(decoded, options)

    def _tag(self, words, options: ner.WindowOptions):
        """Tags `[B, (words)]` string."""
        pieces = _pieces(words.values, self._tokenizer, options.room)
        cut = cut_windows(pieces, words.row_lengths(), options)
        rows = token_rows.joined(cut.tokens, cut.tokens[:, :0], self._tokenizer)
        places = tf.stack([cut.window_of_word, cut.place_of_word], axis=1)
        logits = tf.gather_nd(self.net(rows), places)  # [words, K]
        found = _best(logits, self._labels)
        return {
            "words": words.to_tensor(),
            **{k: words.with_values(x).to_tensor() for k, x in found.items()},
        }


def _pieces(
    words, tokenizer: graph_tokenizer.GraphTokenizer, room: int
) -> tf.RaggedTensor:
    """Splits `[W]` words into pieces as `ner.make_windows` does.

    Returns:
        `[W, (pieces)]` int32, of each word at least one and at most `room`.
    """
    pieces = tokenizer.tokenize(words)[:, :room]
    is_empty = tf.cast(pieces.row_lengths() == 0, tf.int64)
    unknown = token_rows.repeated(tokenizer.id_of("[UNK]"), is_empty)
    return tf.concat([pieces, unknown], axis=1)


def _best(logits, labels: Sequence[str]):
    """Returns the best label of `[..., K]` logits, and its probability."""
    probs = tf.nn.softmax(logits)
    best = tf.argmax(logits, axis=-1)
    return {
        "tags": tf.gather(tf.constant(labels), best),
        "probabilities": tf.reduce_max(probs, axis=-1),
    }


# ------------------------------------------------------------------- Windows

# The rules are those of `tagging.ner`, for a batch of sentences at once. The
# words of all sentences are in one row, `W` of them.


@dataclasses.dataclass(frozen=True, kw_only=True)
class TagWindows:
    """`R` windows, and the positions of the words in them.

    Attributes:
        tokens: `[R, (tokens)]` int32, without [CLS] and [SEP].
        window_of_word: `[W]` int64, the window in which a word is labeled.
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
    """Splits sentences into windows; each word is labeled in just one.

    Args:
        pieces: `[W, (pieces)]` int32, of each word at least one and at most
            `options.room`.
        sentence_lengths: `[S]` int64, the words of each sentence.
        options: with `ner.DOCUMENT` all sentences are one document.
    """
    sizes = pieces.row_lengths()
    num_words = tf.size(sizes, tf.int64)
    offsets = tf.concat([[tf.constant(0, tf.int64)], tf.cumsum(sizes)], 0)
    ends = tf.cumsum(sentence_lengths)  # [S]
    firsts = ends - sentence_lengths
    # Of each word the first word of its sentence, and its end.
    sentence = tf.repeat(
        tf.stack([firsts, ends], axis=1), sentence_lengths, axis=0
    )  # [W, 2]
    outer = sentence
    if options.context == ner.DOCUMENT:
        document = tf.stack([tf.zeros_like(num_words), num_words])
        outer = tf.broadcast_to(document, [num_words, 2])
    stops = _stops(offsets, sentence, options.room)
    begins = _begins(firsts, ends, stops)  # [W] int32
    first = tf.where(begins > 0)[:, 0]  # [R]
    inner = tf.stack([first, tf.gather(stops, first)], axis=1)  # [R, 2]
    start, end = _surrounded(
        offsets, inner, tf.gather(outer, first), options.room
    )
    one_row = tf.RaggedTensor.from_row_lengths(
        pieces.values, [tf.size(pieces.values, tf.int64)], validate=False
    )  # [1, (pieces)]
    tokens = token_rows.slices(
        one_row,
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


def _stops(offsets, sentence, room: int):
    """Returns where a window that begins at each word would stop: `[W]`."""
    bounds = tf.gather(offsets, sentence)  # [W, 2]
    # As in `ner`: in a long sentence half is left for the surroundings.
    is_long = bounds[:, 1] - bounds[:, 0] > room
    limit = tf.cast(tf.where(is_long, max(room // 2, 1), room), tf.int64)
    reached = _bisect(offsets, offsets[:-1] + limit) - 1
    next_word = tf.range(1, tf.size(offsets, tf.int64))
    return tf.minimum(tf.maximum(reached, next_word), sentence[:, 1])


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


def _surrounded(offsets, inner, outer, room: int):
    """Extends runs of words to as many of `outer` as fit into `room` pieces.

    Args:
        offsets: `[W + 1]` int64, the first piece of each word.
        inner: `[R, 2]` int64, first words and ends.
        outer: `[R, 2]` int64.
        room: pieces of a window.

    Returns:
        First words and ends, each `[R]` int64.
    """
    from_piece, to_piece = tf.unstack(tf.gather(offsets, inner), axis=1)
    left = (room - (to_piece - from_piece)) // 2
    start = tf.maximum(_bisect(offsets, from_piece - left, "left"), outer[:, 0])
    reached = _bisect(offsets, tf.gather(offsets, start) + room) - 1
    end = tf.minimum(reached, outer[:, 1])
    # The left side gets the room that the right side does not need.
    reached = _bisect(offsets, tf.gather(offsets, end) - room, "left")
    return tf.maximum(reached, outer[:, 0]), end


def _bisect(offsets, values, side: str = "right"):
    return tf.searchsorted(offsets, values, side, tf.int64)
