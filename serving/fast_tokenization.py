"""The tokens of `vocab.tokenization`, in batches and in graphs.

`FastTokenizer` cuts many texts at once on the host. `graph_tokenizer` makes
a `tf.Module` that can be part of an exported model. Both run TensorFlow Text
and give exactly the ids of the definition, for every string; that this holds
for the installed version is checked when a tokenizer is made.
"""

import dataclasses
import functools
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from absl import logging

from serving import fast_model
from vocab import offsets, tokenization, word_memory

if typing.TYPE_CHECKING:
    import tensorflow as tf

_BATCH_CHARACTERS = 1 << 20  # Texts go through in batches of about that size.
_SURROGATES = re.compile("[\ud800-\udfff]")

# Texts that together need every special rule.
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class RaggedSpans(word_memory.RaggedIds):
    """The ids of `N` texts and the characters that each covers.

    Attributes:
        starts: `[total]` int32, the first character (code point) of each, in
            the text as it was given.
        ends: `[total]` int32, one past the last.
    """

    starts: np.ndarray
    ends: np.ndarray


class FastTokenizer:
    """Cuts many texts at once, exactly as `FullTokenizer` cuts each.

    What TensorFlow Text cannot do exactly (a vocabulary without [UNK], say)
    the definition does, which a warning tells once.

    Args:
        vocab_file: one token a line.
        do_lower_case: must be what the model was trained with.

    Attributes:
        definition: the tokenizer that says what is right.
        slow_reason: why the definition does the work, None if it need not.

    Raises:
        OSError: the file cannot be opened.
        ValueError: a line of the file is not UTF-8.
    """

    def __init__(self, vocab_file: str, do_lower_case: bool = True):
        self.definition = tokenization.FullTokenizer(vocab_file, do_lower_case)
        self.slow_reason = None
        try:
            self._model = _checked_model(self.definition)
        except ValueError as error:
            self.slow_reason = str(error)
            logging.warning("%s: tokenizing slowly. %s", vocab_file, error)
        else:
            self._cut = _function(self._model, with_offsets=False)
            self._cut_with_offsets = _function(self._model, with_offsets=True)

    def __reduce__(self):
        # Compiled functions stay in their process; another makes its own.
        do_lower_case = self.definition.basic_tokenizer.do_lower_case
        return type(self), (self.definition.vocab_file, do_lower_case)

    @property
    def is_fast(self) -> bool:
        """Tells whether TensorFlow Text does the work."""
        return self.slow_reason is None

    def encode(self, texts: Iterable[str | bytes]) -> word_memory.RaggedIds:
        """Returns the ids of the pieces of every text.

        Args:
            texts: `N` texts; bytes are UTF-8, invalid ones are skipped.

        Raises:
            KeyError: a word is unknown and the vocabulary has no [UNK].
            ValueError: a text is neither `str` nor `bytes`.
        """
        if not self.is_fast:
            return _ragged(map(self._defined_ids, texts))
        parts = [self._cut(batch) for batch in self._batches(texts)]
        return word_memory.RaggedIds(
            ids=_joined([part.values for part in parts], np.int32),
            row_lengths=_joined(
                [part.row_lengths() for part in parts], np.int64
            ),
        )

    def encode_with_offsets(self, texts: Iterable[str | bytes]) -> RaggedSpans:
        """Returns the ids of the pieces and the characters that each covers.

        `vocab.offsets` says which those are.

        Args:
            texts: `N` texts; bytes are UTF-8, invalid ones are skipped and
                not counted.

        Raises:
            KeyError: a word is unknown and the vocabulary has no [UNK].
            ValueError: a text is neither `str` nor `bytes`.
        """
        if not self.is_fast:
            return self._defined_spans(texts)
        parts = [
            self._cut_with_offsets(batch) for batch in self._batches(texts)
        ]
        return RaggedSpans(
            ids=_joined([ids.values for ids, _, _ in parts], np.int32),
            row_lengths=_joined(
                [i.row_lengths() for i, _, _ in parts], np.int64
            ),
            starts=_joined([starts.values for _, starts, _ in parts], np.int32),
            ends=_joined([ends.values for _, _, ends in parts], np.int32),
        )

    def _batches(self, texts: Iterable[str | bytes]) -> Iterator:
        import tensorflow as tf

        for batch in _in_batches(texts):
            yield tf.constant([self._utf8(text) for text in batch], tf.string)

    def _utf8(self, text: str | bytes) -> bytes:
        text = tokenization.convert_to_unicode(text)
        try:
            return text.encode("utf-8")
        except UnicodeEncodeError:
            # No file has a lone surrogate, so that its word is unknown.
            unknown = self._model.unknown_character
            return _SURROGATES.sub(unknown, text).encode("utf-8")

    def _defined_ids(self, text: str | bytes) -> list[int]:
        tokens = self.definition.tokenize(text)
        return self.definition.convert_tokens_to_ids(tokens)

    def _defined_spans(self, texts: Iterable[str | bytes]) -> RaggedSpans:
        rows = [
            offsets.tokenize_with_offsets(self.definition, text)
            for text in texts
        ]
        spans = [span for row in rows for span in row]
        tokens = [span.piece for span in spans]
        return RaggedSpans(
            ids=np.array(
                self.definition.convert_tokens_to_ids(tokens), np.int32
            ),
            row_lengths=np.array([len(row) for row in rows], np.int64),
            starts=np.array([span.start for span in spans], np.int32),
            ends=np.array([span.end for span in spans], np.int32),
        )


def graph_tokenizer(vocab_file: str, do_lower_case: bool = True) -> "tf.Module":
    """Makes a tokenizer of TensorFlow operations alone.

    It can be saved with `tf.saved_model.save`, also as a part of another
    module; who loads it imports `tensorflow` and `tensorflow_text` only. The
    Unicode tables of the Python that makes it are saved in it.

    Args:
        vocab_file: one token a line.
        do_lower_case: must be what the model was trained with.

    Returns:
        A `tf.Module` with two functions of `[N]` string texts, whose bytes
        that are not UTF-8 are skipped and not counted:
        `tokenize` -> `[N, (pieces)]` ragged int32 ids;
        `tokenize_with_offsets` -> a dict of `ids`, `starts`, `ends`, each
        `[N, (pieces)]` ragged int32; a piece covers the characters (code
        points) `[start, end)` of its text.

    Raises:
        OSError: the file cannot be opened.
        ValueError: a line of the file is not UTF-8, or TensorFlow Text
            cannot give the tokens of the definition; says why.
    """
    import tensorflow as tf

    from serving import text_ops

    definition = tokenization.FullTokenizer(vocab_file, do_lower_case)
    model = _checked_model(definition)

    def tokenize(text):
        return text_ops.tokenize(model, text_ops.decoded(text))

    def tokenize_with_offsets(text):
        ids, starts, ends = text_ops.tokenize_with_offsets(
            model, text_ops.decoded(text)
        )
        return {"ids": ids, "starts": starts, "ends": ends}

    module = tf.Module(name="tokenizer")
    module.tokenize = _compiled(tokenize)
    module.tokenize_with_offsets = _compiled(tokenize_with_offsets)
    return module


def _function(model: fast_model.FastModel, *, with_offsets: bool) -> Callable:
    from serving import text_ops

    run = text_ops.tokenize_with_offsets if with_offsets else text_ops.tokenize
    return _compiled(lambda text: run(model, text))


def _compiled(function: Callable) -> Callable:
    import tensorflow as tf

    return tf.function(
        function,
        input_signature=[tf.TensorSpec([None], tf.string, name="text")],
        autograph=False,  # No Python here depends on a tensor.
    )


def _in_batches(texts: Iterable[str | bytes]) -> Iterator[list[str | bytes]]:
    batch, size = [], 0
    for text in texts:
        batch.append(text)
        size += len(text) if isinstance(text, str | bytes) else 0
        if size >= _BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _joined(parts: Sequence, dtype: type) -> np.ndarray:
    arrays = [part.numpy() for part in parts]
    return np.concatenate([np.zeros(0, dtype), *arrays], dtype=dtype)


def _ragged(rows: Iterable[list[int]]) -> word_memory.RaggedIds:
    rows = list(rows)
    return word_memory.RaggedIds(
        ids=np.array([i for row in rows for i in row], np.int32),
        row_lengths=np.array([len(row) for row in rows], np.int64),
    )


# ------------------------------------------------------- Is it the same?


def _checked_model(
    definition: tokenization.FullTokenizer,
) -> fast_model.FastModel:
    """Makes the model of a tokenizer and compares the two.

    Raises:
        ValueError: TensorFlow Text cannot give the tokens of the definition.
    """
    do_lower_case = definition.basic_tokenizer.do_lower_case
    _check_rules(do_lower_case=do_lower_case)
    model = fast_model.build(definition.vocab, do_lower_case=do_lower_case)
    _check(model, definition.wordpiece_tokenizer.vocab)
    return model


@functools.cache
def _check_rules(*, do_lower_case: bool) -> None:
    """Compares the rules, with a vocabulary that spells every probe."""
    basic = tokenization.BasicTokenizer(do_lower_case)
    chars = sorted({c for p in _PROBES for w in basic.tokenize(p) for c in w})
    pieces = [fast_model.UNKNOWN, *chars, *(f"##{char}" for char in chars)]
    vocab = {piece: number for number, piece in enumerate(pieces)}
    _check(fast_model.build(vocab, do_lower_case=do_lower_case), vocab)


def _check(model: fast_model.FastModel, vocab: dict[str, int]) -> None:
    import tensorflow as tf
    import tensorflow_text as tf_text

    from serving import text_ops

    basic = tokenization.BasicTokenizer(model.do_lower_case)
    wordpiece = tokenization.WordpieceTokenizer(vocab)
    cut = text_ops.tokenize(model, tf.constant(_PROBES)).to_list()
    for probe, ids in zip(_PROBES, cut, strict=True):
        words = " ".join(basic.tokenize(probe))
        expected = [vocab[piece] for piece in wordpiece.tokenize(words)]
        if ids != expected:
            raise ValueError(
                f"TensorFlow Text {tf_text.__version__} must cut {probe!r:.80} "
                f"into {expected!s:.200}, as the definition does; it gave "
                f"{ids!s:.200}. Install the version in requirements.txt."
            )
