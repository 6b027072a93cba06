"""Text of an answer, found from its word pieces, as TensorFlow operations.

The rules are those of `tasks.squad.squad_answers`. Characters are code
points of the paragraph; its words are what stands between the white space of
SQuAD.
"""

import dataclasses

import tensorflow as tf

from serving import graph_tokenizer

# As released: white space is these five (`tasks.squad.squad_examples`).
_SPACES = (" ", "\t", "\r", "\n", "\u202f")
_RUN_OF_SPACES = "[ \t\r\n\u202f]+"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Places:
    """Where the words of B paragraphs stand.

    Attributes:
        word_characters: `[B, (n)]` int32, the characters that are not space.
        word_of: `[B, (n)]` int32, the word that each of those is of.
    """

    word_characters: tf.RaggedTensor
    word_of: tf.RaggedTensor


@dataclasses.dataclass(frozen=True, kw_only=True)
class Paragraph:
    """One paragraph, its words and its pieces.

    Attributes:
        text: `[]` string, valid UTF-8.
        word_characters: `[n]` int32, ascending, as in `Places`.
        word_of: `[n]` int32, ascending.
        ids: `[pieces]` int32.
        starts: `[pieces]` int32, the first character of each piece.
        ends: `[pieces]` int32.
    """

    text: tf.Tensor
    word_characters: tf.Tensor
    word_of: tf.Tensor
    ids: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor


def find_words(text: tf.Tensor) -> Places:
    """Finds the words of `[B]` valid texts."""
    chars = tf.strings.unicode_decode(text, "UTF-8")  # [B, (characters)]
    is_space = tf.reduce_any(
        chars.values[:, tf.newaxis] == [ord(space) for space in _SPACES], axis=1
    )
    # A word begins after a space and at the beginning of a text.
    after_space = tf.concat([[True], is_space[:-1]], 0)[: tf.size(is_space)]
    at_beginning = tf.ragged.range(chars.row_lengths()).values == 0
    begins = ~is_space & (after_space | at_beginning)
    number = tf.cumsum(tf.cast(begins, tf.int32))
    places = tf.ragged.range(tf.cast(chars.row_lengths(), tf.int32))
    is_kept = chars.with_values(~is_space)
    return Places(
        word_characters=tf.ragged.boolean_mask(
            places.with_row_splits_dtype(tf.int64), is_kept
        ),
        word_of=tf.ragged.boolean_mask(chars.with_values(number), is_kept),
    )


class TextFinder:
    """Finds what pieces of a paragraph stand for.

    Args:
        tokenizer: cut the paragraph into those pieces.
        tokens: `[V]` string, the tokens by id.
    """

    def __init__(
        self, tokenizer: graph_tokenizer.GraphTokenizer, tokens: tf.Tensor
    ):
        self._tokenizer = tokenizer
        self._tokens = tokens

    def find(
        self, paragraph: Paragraph, first: tf.Tensor, last: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Does what `squad_answers.project` does.

        Args:
            paragraph: where to look.
            first: `[]` int64, a piece.
            last: `[]` int64, the last piece of the answer.

        Returns:
            The text, `[]` string, its words parted by one space; its first
            character and the one after its last, `[]` int32 each.
        """
        begin, end = _whole_words(paragraph, first, last)
        orig_text = _text(paragraph, begin, end)
        tok_text = self._tokenizer.basic_text(orig_text[tf.newaxis])[0]
        pred_text = self._joined(paragraph.ids[first : last + 1])
        # The part before the first of perhaps several occurrences.
        parts = tf.strings.split(tok_text, pred_text, maxsplit=1)
        num_characters = end - begin
        is_found = (tf.size(parts) > 1) & (
            _num_visible(tok_text) == num_characters
        )
        # As released: where tokens and text cannot be compared character by
        # character, the whole words are the answer.
        shift = tf.where(is_found, _num_visible(parts[0]), 0)
        count = tf.where(is_found, _num_visible(pred_text), num_characters)
        begin += shift
        end = begin + count
        return (
            _text(paragraph, begin, end),
            paragraph.word_characters[begin],
            paragraph.word_characters[end - 1] + 1,
        )

    def _joined(self, ids):
        """Joins `[pieces]` to words with one space between them: `[]`."""
        text = tf.strings.reduce_join(
            tf.gather(self._tokens, ids), separator=" "
        )
        text = tf.strings.regex_replace(text, " ##", "")
        return tf.strings.regex_replace(text, "##", "")


def _whole_words(paragraph: Paragraph, first, last):
    """Finds the words that hold pieces: `[begin, end)` of word_characters."""
    bounds = tf.stack(
        [paragraph.starts[first], paragraph.starts[last]]
    )  # [2] characters
    at = tf.searchsorted(paragraph.word_characters, bounds)
    words = tf.gather(paragraph.word_of, at)  # [2]
    begin = tf.searchsorted(paragraph.word_of, words[:1], "left")[0]
    end = tf.searchsorted(paragraph.word_of, words[1:], "right")[0]
    return begin, end


def _text(paragraph: Paragraph, begin, end):
    """Cuts out `[begin, end)` of word_characters; one space between words."""
    start = paragraph.word_characters[begin]
    length = paragraph.word_characters[end - 1] + 1 - start
    text = tf.strings.substr(paragraph.text, start, length, unit="UTF8_CHAR")
    return tf.strings.regex_replace(text, _RUN_OF_SPACES, " ")


def _num_visible(text):
    """Counts the characters that are not spaces: `[]` int32."""
    return tf.strings.length(
        tf.strings.regex_replace(text, " ", ""), unit="UTF8_CHAR"
    )
