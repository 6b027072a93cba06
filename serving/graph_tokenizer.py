"""Tokenizer of exported models: text to word pieces in a TensorFlow graph.

Its pieces are exactly those of `tokenization.FullTokenizer`, for every string,
in batches and without Python. `normalization` prepares the text; TensorFlow
Text splits it at spaces, and each word into pieces. Each new tokenizer checks
that the installed version gives the pieces of the definition.
"""

import dataclasses
import functools
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text
from tensorflow_text.core.pybinds import (
    pywrap_fast_wordpiece_tokenizer_model_builder as model_builder,
)

from serving import inputs, normalization
from vocab import offsets, tokenization

_UNKNOWN = "[UNK]"
_MAX_WORD_CHARACTERS = 200  # Source: the release.
_MAX_WORD_BYTES = 4 * _MAX_WORD_CHARACTERS  # In UTF-8.
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

    Attributes:
        definition: the tokenizer that defines the result.

    Raises:
        OSError: the file cannot be opened.
        ValueError: a line of the file is not UTF-8, the vocabulary has no
            [UNK], or TensorFlow Text does not give the pieces of the
            definition.
    """

    def __init__(self, vocab_file: str, do_lower_case: bool = True):
        super().__init__(name="tokenizer")
        self.definition = tokenization.FullTokenizer(vocab_file, do_lower_case)
        self.definition.require_tokens(_UNKNOWN)
        self._do_lower_case = do_lower_case
        self._pieces = _Pieces.of(self.definition.vocab)
        _check_rules(do_lower_case=do_lower_case)
        _check(self._pieces, self.definition.vocab, do_lower_case=do_lower_case)

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of `[N]` texts: `[N, (pieces)]` ragged int32.

        Bytes that are not UTF-8 are dropped.
        """
        return _tokenize(
            self._pieces,
            normalization.drop_invalid_utf8(text),
            do_lower_case=self._do_lower_case,
        )

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def tokenize_with_offsets(
        self, text: tf.Tensor
    ) -> dict[str, tf.RaggedTensor]:
        """Returns the ids of `[N]` texts and the offsets of the pieces.

        `vocab.offsets` defines the offsets.

        Returns:
            `ids`, `starts` and `ends`, each `[N, (pieces)]` ragged int32; a
            piece covers the characters (code points) `[start, end)` of its
            text without the bytes that are not UTF-8.
        """
        ids, starts, ends = _tokenize_with_offsets(
            self._pieces,
            normalization.drop_invalid_utf8(text),
            do_lower_case=self._do_lower_case,
        )
        return {"ids": ids, "starts": starts, "ends": ends}

    def basic_text(self, text: tf.Tensor) -> tf.Tensor:
        """Joins the words of `BasicTokenizer` for `[N]` valid texts: `[N]`."""
        words, _ = _words(
            normalization.normalize(text, do_lower_case=self._do_lower_case)
        )
        return tf.strings.reduce_join(words, axis=1, separator=" ")

    @property
    def special(self) -> inputs.SpecialIds:
        """The ids of [CLS] and [SEP]."""
        return inputs.SpecialIds(
            begin=self.id_of("[CLS]"), end=self.id_of("[SEP]")
        )

    def id_of(self, token: str) -> int:
        """Returns the id of a token of the vocabulary."""
        return self.definition.vocab[token]

    def tokens(self, vocab_size: int) -> tf.Tensor:
        """Lists the tokens by id: `[V]` string; "[id N]" if there is none.

        Args:
            vocab_size: V, of the model.
        """
        known = self.definition.inv_vocab
        return tf.constant(
            [known.get(index, f"[id {index}]") for index in range(vocab_size)]
        )


# ------------------------------------------------------------- Words to pieces


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Pieces:
    """The pieces of a vocabulary for TensorFlow Text.

    The number of a piece is not its id: the vocabulary may have a piece twice,
    or pieces that no text contains.

    Attributes:
        model: buffer of the word-piece model.
        ids: `[M]` int32, number of a piece -> its id in the vocabulary.
        unknown: the number of the unknown word.
    """

    model: np.ndarray
    ids: np.ndarray
    unknown: int

    @classmethod
    def of(cls, vocab: Mapping[str, int]) -> "_Pieces":
        """Converts a vocabulary, token -> id.

        Raises:
            ValueError: it has no piece besides [UNK], or one that is too long
                for TensorFlow Text.
        """
        pieces = _possible_pieces(vocab)
        try:
            model = model_builder.build_fast_wordpiece_model(
                pieces,
                _MAX_WORD_BYTES,
                "##",
                _UNKNOWN,
                True,  # Its input is words, not texts.
                False,  # No detokenization.
            )
        except RuntimeError as error:
            raise ValueError(
                f"TensorFlow Text cannot use the vocabulary: {error}"
            ) from error
        return cls(
            model=np.frombuffer(model, np.uint8),
            ids=np.array([vocab[piece] for piece in pieces], np.int32),
            unknown=pieces.index(_UNKNOWN),
        )


def _possible_pieces(vocab: Mapping[str, int]) -> list[str]:
    """Lists the pieces that a text can contain.

    Others may be too long for TensorFlow Text.
    """
    chars = set().union(*vocab)
    alone = set(filter(tokenization.stands_alone, chars))
    never = {
        char
        for char in chars
        if normalization.folded(char, do_lower_case=False) in ("", " ")
    }

    def is_possible(piece: str) -> bool:
        spelling = piece.removeprefix("##")
        return (
            0 < len(spelling) <= _MAX_WORD_CHARACTERS
            and never.isdisjoint(spelling)
            and (len(piece) == 1 or alone.isdisjoint(spelling))
        )

    return [piece for piece in vocab if piece == _UNKNOWN or is_possible(piece)]


def _tokenize(
    pieces: _Pieces, text: tf.Tensor, *, do_lower_case: bool
) -> tf.RaggedTensor:
    """Returns the ids of `[N]` valid texts: `[N, (pieces)]` ragged int32."""
    words, _ = _words(
        normalization.normalize(text, do_lower_case=do_lower_case)
    )
    numbers, _, _ = _cut(pieces, words.values)
    ids = numbers.with_values(tf.gather(pieces.ids, numbers.values))
    return words.with_values(ids).merge_dims(1, 2)


def _tokenize_with_offsets(
    pieces: _Pieces, text: tf.Tensor, *, do_lower_case: bool
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Returns ids, starts and ends, each `[N, (pieces)]`, of valid texts."""
    normalized, origins_of = normalization.normalize_with_origins(
        text, do_lower_case=do_lower_case
    )
    words, word_starts = _words(normalized)
    numbers, starts, ends = _cut(pieces, words.values)  # [words, (pieces)]
    word = numbers.value_rowids()
    first = tf.gather(word_starts.values, word)
    # A word that is too long was replaced.
    length = tf.cast(tf.strings.length(words.values), tf.int64)
    is_unknown = numbers.values == pieces.unknown
    ends = tf.where(is_unknown, tf.gather(length, word), ends.values)

    def by_text(values):
        return words.with_values(numbers.with_values(values)).merge_dims(1, 2)

    return (
        by_text(tf.gather(pieces.ids, numbers.values)),
        origins_of(by_text(first + starts.values)),
        origins_of(by_text(first + ends - 1)) + 1,
    )


def _words(
    normalized: tf.Tensor,
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Splits `[N]` texts at spaces: words and first bytes, `[N, (words)]`."""
    words, starts, _ = tf_text.WhitespaceTokenizer().tokenize_with_offsets(
        normalized
    )
    return words, tf.cast(starts, tf.int64)


def _cut(
    pieces: _Pieces, words: tf.Tensor
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Splits words into pieces.

    Args:
        pieces: of the vocabulary.
        words: `[W]` string.

    Returns:
        `[W, (pieces)]` ragged: numbers of the pieces, int32; their first bytes
        and ends in the word, int64, except for the end of an unknown word.
    """

    def long_ones_unknown():
        length = tf.strings.length(words, unit="UTF8_CHAR")
        # No word contains brackets.
        return tf.where(length > _MAX_WORD_CHARACTERS, _UNKNOWN, words)

    words = tf.cond(
        tf.reduce_any(tf.strings.length(words) > _MAX_WORD_CHARACTERS),  # Bytes
        long_ones_unknown,
        lambda: words,
    )
    return tf_text.FastWordpieceTokenizer(
        model_buffer=tf.constant(pieces.model),
        token_out_type=tf.int32,
        no_pretokenization=True,
    ).tokenize_with_offsets(words)


# ------------------------------------------- Comparison with the definition


@functools.cache
def _check_rules(*, do_lower_case: bool) -> None:
    """Compares the rules, with a vocabulary of all characters."""
    basic = tokenization.BasicTokenizer(do_lower_case)
    chars = sorted({c for p in _PROBES for w in basic.tokenize(p) for c in w})
    tokens = [_UNKNOWN, *chars, *(f"##{char}" for char in chars)]
    vocab = {token: number for number, token in enumerate(tokens)}
    _check(_Pieces.of(vocab), vocab, do_lower_case=do_lower_case)


def _check(
    pieces: _Pieces, vocab: Mapping[str, int], *, do_lower_case: bool
) -> None:
    """Compares the pieces of the probes and their offsets.

    Raises:
        ValueError: TensorFlow Text does not give those of the definition.
    """
    basic = tokenization.BasicTokenizer(do_lower_case)
    wordpiece = tokenization.WordpieceTokenizer(vocab)
    texts = tf.constant(_PROBES)
    ids = _tokenize(pieces, texts, do_lower_case=do_lower_case)
    columns = _tokenize_with_offsets(pieces, texts, do_lower_case=do_lower_case)
    for row, probe in enumerate(_PROBES):
        spans = offsets.tokenize_with_offsets(basic, wordpiece, probe)
        defined = [(vocab[span.piece], span.start, span.end) for span in spans]
        expected = ([vocab[span.piece] for span in spans], defined)
        given = (
            ids[row].numpy().tolist(),
            list(zip(*(c[row].numpy().tolist() for c in columns), strict=True)),
        )
        if given != expected:
            raise ValueError(
                f"TensorFlow Text {tf_text.__version__} must split "
                f"{probe!r:.80} into {expected!s:.200} (ids; id, start and "
                f"end), as the definition does; got {given!s:.200}. Install "
                "the version in requirements.txt."
            )
