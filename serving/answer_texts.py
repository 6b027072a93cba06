"""Text of an answer, found from its word pieces, as TensorFlow operations.

The rules are those of `tasks.squad.squad_answers`. Characters are code
points of the paragraph; its words are separated by the white space of SQuAD.
"""

import dataclasses

import tensorflow as tf

from serving import graph_tokenizer

# As released: white space is these five (`tasks.squad.squad_examples`).
_SPACES = " \t\r\n\u202f"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Paragraphs:
    """B paragraphs, with their words and pieces.

    Indexing gives one of them, without the first axis.

    Attributes:
        text: `[B]` string, valid UTF-8.
        word_characters: `[B, (n)]` int32, ascending, the characters that are
            not space.
        word_of: `[B, (n)]` int32, ascending, the word of each of those.
        ids: `[B, (pieces)]` int32.
        starts: `[B, (pieces)]` int32, the first character of each piece.
        ends: `[B, (pieces)]` int32.
    """

    text: tf.Tensor
    word_characters: tf.RaggedTensor
    word_of: tf.RaggedTensor
    ids: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor

    def __getitem__(self, index: tf.Tensor) -> "Paragraphs":
        return Paragraphs(
            **{name: values[index] for name, values in vars(self).items()}
        )


def read(
    text: tf.Tensor, tokenizer: graph_tokenizer.GraphTokenizer
) -> Paragraphs:
    """Finds the words and pieces of `[B]` valid texts."""
    chars = tf.strings.unicode_decode(text, "UTF-8")  # [B, (characters)]
    is_space = tf.reduce_any(
        chars.values[:, tf.newaxis] == list(map(ord, _SPACES)), axis=1
    )
    # A word begins after a space and at the beginning of a text.
    after_space = tf.concat([[True], is_space[:-1]], 0)[: tf.size(is_space)]
    at_beginning = tf.ragged.range(chars.row_lengths()).values == 0
    begins = ~is_space & (after_space | at_beginning)
    number = tf.cumsum(tf.cast(begins, tf.int32))
    places = tf.ragged.range(tf.cast(chars.row_lengths(), tf.int32))
    is_kept = chars.with_values(~is_space)
    return Paragraphs(
        text=text,
        word_characters=tf.ragged.boolean_mask(
            places.with_row_splits_dtype(tf.int64), is_kept
        ),
        word_of=tf.ragged.boolean_mask(chars.with_values(number), is_kept),
        **tokenizer.tokenize_with_offsets(text),
    )


def find(
    paragraph: Paragraphs,
    pieces: tf.Tensor,
    tokenizer: graph_tokenizer.GraphTokenizer,
    tokens: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Finds the text of an answer, as `squad_answers.final_text` does.

    Args:
        paragraph: one of them.
        pieces: `[2]` int64, the first and the last piece of the answer.
        tokenizer: of the pieces.
        tokens: `[V]` string, the tokens by id.

    Returns:
        The text, `[]` string, its words separated by one space; and `[2]`
        int32, its first character and the one after its last.
    """
    begin, end = _whole_words(paragraph, pieces)
    orig_text = _text(paragraph, begin, end)
    tok_text = tokenizer.basic_text(orig_text[tf.newaxis])[0]
    ids = paragraph.ids[pieces[0] : pieces[1] + 1]
    pred_text = tf.strings.reduce_join(tf.gather(tokens, ids), separator=" ")
    for marker in (" ##", "##"):
        pred_text = tf.strings.regex_replace(pred_text, marker, "")
    # The part before the first of perhaps several occurrences.
    parts = tf.strings.split(tok_text, pred_text, maxsplit=1)
    num_characters = end - begin
    is_found = (tf.size(parts) > 1) & (_num_visible(tok_text) == num_characters)
    # As released: if tokens and text cannot be compared character by
    # character, the whole words are the answer.
    shift = tf.where(is_found, _num_visible(parts[0]), 0)
    count = tf.where(is_found, _num_visible(pred_text), num_characters)
    begin += shift
    end = begin + count
    return _text(paragraph, begin, end), _characters(paragraph, begin, end)


def _whole_words(paragraph: Paragraphs, pieces):
    """Finds the words of pieces: `[begin, end)` of word_characters."""
    bounds = tf.gather(paragraph.starts, pieces)  # [2] characters
    at = tf.searchsorted(paragraph.word_characters, bounds)
    words = tf.gather(paragraph.word_of, at)  # [2]
    begin = tf.searchsorted(paragraph.word_of, words[:1], "left")[0]
    end = tf.searchsorted(paragraph.word_of, words[1:], "right")[0]
    return begin, end


def _characters(paragraph: Paragraphs, begin, end):
    """Returns first character and end of `[begin, end)` of word_characters."""
    characters = paragraph.word_characters
    return tf.stack([characters[begin], characters[end - 1] + 1])


def _text(paragraph: Paragraphs, begin, end):
    """Returns the text of `[begin, end)`, with one space between words."""
    start, stop = tf.unstack(_characters(paragraph, begin, end))
    text = tf.strings.substr(
        paragraph.text, start, stop - start, unit="UTF8_CHAR"
    )
    return tf.strings.regex_replace(text, f"[{_SPACES}]+", " ")


def _num_visible(text):
    """Counts the characters that are not spaces: `[]` int32."""
    return tf.strings.length(
        tf.strings.regex_replace(text, " ", ""), unit="UTF8_CHAR"
    )
