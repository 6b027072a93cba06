"""Tokenizer of exported models: text to word pieces in a TensorFlow graph.

Its pieces are exactly those of `tokenization.FullTokenizer`, for every string,
in batches and without Python. `normalization` splits the text into
words, TensorFlow Text the words into pieces. Each new tokenizer checks
that the installed version gives the pieces of the definition.
"""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text
from tensorflow_text.core.pybinds import (
    pywrap_fast_wordpiece_tokenizer_model_builder as model_builder,
)

from serving import normalization
from vocab import tokenization

_UNKNOWN = "[UNK]"
_MAX_WORD_CHARACTERS = 200  # Source: the release.
_MAX_WORD_BYTES = 4 * _MAX_WORD_CHARACTERS  # In UTF-8.
_UNCHANGED = normalization.Rules(do_lower_case=False, strip_accents=False)
_TEXTS = tf.TensorSpec([None], tf.string, name="text")

# Together, these texts need every special rule.
_PROBES = (
    "Plain text, as it comes: it's [MASK]ed at $5.00 (or 10%)...",
    "a\0b\x0bc\x0cd\x1ce\x7ff\x85g\xadh\u200bi\u200dj\ufeffk\ufffdl",
    "a\tb\nc\rd\xa0e\u1680f\u2003g\u2028h\u2029i\u202fj\u3000k",
    "\xc5ngstr\xf6m caf\xe9 cafe\u0301 \u0130I\u0131 \u1e9e\xdf \ufb01 \u2460",
    "\u4e2d\u6587\u5b57x\uf900y\U0002f800z\U0002a700 \u30ab\u306a \uff21\uff0c",
    "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab a\u302eb",
    "\u039f\u0394\u039f\u03a3 \u03a3\u0391 \u03a3 \u0391\u03a3\u03a3\u03a3'"
    "\u0301\u0391\xad\u03a3.\u0391 \u0391\u03a3\u03a3",
    "a\u1b44\u0301\U00016ff0\u0334\u1b44 \U0001d15f\u0900\U00016ff1"
    " \U0001d160\U0001d16d\u302e",
    "a\u20ac\u2192\u2212\U0001f642b \u2014\xa1\xbf\u2019 \u226e\u037e\u2260",
    "\U000e0041a\ufe0fb\ue000c\U0010fffdd\U000323b0 a\u1b7fb\U00011f43c",
    "x" * 200 + " " + "y" * 201 + " " + "\U00010400" * 201,
)


class GraphTokenizer(tf.Module):
    """Tokenizer with the pieces of `tokenization.FullTokenizer`, in graphs.

    It can be saved with `tf.saved_model.save`, also as a part of another
    module; a program that loads it imports `tensorflow` and `tensorflow_text`
    only. The Unicode tables of this Python are saved in it.

    Args:
        vocab_file: one token a line.
        do_lower_case: as in the training of the model.
        strip_accents: likewise; None: as `do_lower_case`.

    Attributes:
        definition: the tokenizer that defines the result.

    Raises:
        OSError: the file cannot be opened.
        ValueError: a line of the file is not UTF-8, the vocabulary has no
            [UNK], or TensorFlow Text does not give the pieces of the
            definition.
    """

    def __init__(
        self,
        vocab_file: str,
        do_lower_case: bool = True,
        strip_accents: bool | None = None,
    ):
        super().__init__(name="tokenizer")
        self.definition = tokenization.FullTokenizer(
            vocab_file, do_lower_case, strip_accents
        )
        self.definition.require_tokens(_UNKNOWN)
        basic = self.definition.basic_tokenizer
        rules = normalization.Rules(
            do_lower_case=basic.do_lower_case, strip_accents=basic.strip_accents
        )
        self._splitter = _Splitter(self.definition.vocab, rules)
        self._splitter.check()

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of `[N]` texts: `[N, (pieces)]` ragged int32.

        Bytes that are not UTF-8 are dropped.
        """
        return self._splitter.tokenize(text)["ids"]

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def tokenize_with_offsets(
        self, text: tf.Tensor
    ) -> dict[str, tf.RaggedTensor]:
        """Returns the ids of `[N]` texts and the offsets of the pieces.

        `vocab.tokenization` defines the offsets.

        Returns:
            `ids`, `starts` and `ends`, each `[N, (pieces)]` ragged int32; a
            piece covers the characters (code points) `[start, end)` of its
            text without the bytes that are not UTF-8.
        """
        return self._splitter.tokenize(text)

    def id_of(self, token: str) -> int:
        """Returns the id of a token of the vocabulary."""
        return self.definition.vocab[token]


# ------------------------------------------------------------ Words and pieces


class _Splitter:
    def __init__(self, vocab: Mapping[str, int], rules: normalization.Rules):
        # The number of a piece in TensorFlow Text is not its id: the vocabulary
        # may have a piece twice, or pieces that no text contains.
        pieces = _possible_pieces(vocab)
        model = model_builder.build_fast_wordpiece_model(
            pieces,
            _MAX_WORD_BYTES,
            "##",
            _UNKNOWN,
            True,  # Its input is words, not texts.
            False,  # No detokenization.
        )
        self._model = np.frombuffer(model, np.uint8)
        self._ids = np.array([vocab[piece] for piece in pieces], np.int32)
        self._unknown = pieces.index(_UNKNOWN)
        self._vocab = vocab
        self._rules = rules

    def tokenize(self, text: tf.Tensor) -> dict[str, tf.RaggedTensor]:
        found = normalization.split(text, self._rules)
        words = found.words
        length = tf.strings.length(words.values, unit="UTF8_CHAR")
        # No word contains brackets.
        short = tf.where(length > _MAX_WORD_CHARACTERS, _UNKNOWN, words.values)
        splitter = tf_text.FastWordpieceTokenizer(
            model_buffer=tf.constant(self._model),
            token_out_type=tf.int32,
            no_pretokenization=True,
        )
        # Bytes of the words, `[W, (pieces)]`.
        numbers, starts, ends = splitter.tokenize_with_offsets(short)
        num_bytes = tf.cast(tf.strings.length(words.values), tf.int64)  # [W]
        word = numbers.value_rowids()
        # A word that is too long was replaced.
        is_unknown = numbers.values == self._unknown
        ends = tf.where(is_unknown, tf.gather(num_bytes, word), ends.values)
        # Of each byte of the words, its character.
        codes = found.chars.values[:, tf.newaxis]  # [characters, 1]
        is_longer = tf.cast(codes >= [0x80, 0x800, 0x10000], tf.int32)
        origins = tf.repeat(
            found.origins.values, 1 + tf.reduce_sum(is_longer, axis=1)
        )
        first = tf.gather(tf.cumsum(num_bytes, exclusive=True), word)

        def by_text(values):
            values = numbers.with_values(tf.cast(values, tf.int32))
            return words.with_values(values).merge_dims(1, 2)

        return {
            "ids": by_text(tf.gather(self._ids, numbers.values)),
            "starts": by_text(tf.gather(origins, first + starts.values)),
            "ends": by_text(tf.gather(origins, first + ends - 1) + 1),
        }

    def check(self) -> None:
        basic = tokenization.BasicTokenizer(**vars(self._rules))
        wordpiece = tokenization.WordpieceTokenizer(self._vocab)
        columns = self.tokenize(tf.constant(_PROBES)).values()
        for row, probe in enumerate(_PROBES):
            spans = tokenization.tokenize_with_offsets(basic, wordpiece, probe)
            expected = [
                (self._vocab[span.piece], span.start, span.end)
                for span in spans
            ]
            rows = (column[row].numpy().tolist() for column in columns)
            given = list(zip(*rows, strict=True))
            if given != expected:
                raise ValueError(
                    f"TensorFlow Text {tf_text.__version__} must split "
                    f"{probe!r:.80} into {expected!s:.200} (id, start and "
                    f"end), as the definition does; got {given!s:.200}. "
                    "Install the version in requirements.txt."
                )


def _possible_pieces(vocab: Mapping[str, int]) -> list[str]:
    # Those that a text can contain; others may be too long for TensorFlow Text.
    chars = set().union(*vocab)
    alone = set(filter(tokenization.stands_alone, chars))
    never = {
        char
        for char in chars
        if normalization.folded(char, _UNCHANGED) in ("", " ")
    }

    def is_possible(piece: str) -> bool:
        spelling = piece.removeprefix("##")
        return (
            0 < len(spelling) <= _MAX_WORD_CHARACTERS
            and never.isdisjoint(spelling)
            and (len(piece) == 1 or alone.isdisjoint(spelling))
        )

    return [piece for piece in vocab if piece == _UNKNOWN or is_possible(piece)]
