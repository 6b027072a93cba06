"""Text to tokens as TensorFlow operations, with the model's vocabulary."""

import tensorflow as tf

from serving import basic_ops, fast_tokenization, inputs, text_ops
from vocab import tokenization


class TextReader:
    """Cuts texts exactly as `tokenization.FullTokenizer` does, in graphs.

    Args:
        vocab_file: one token a line.
        do_lower_case: what the model was trained with.

    Attributes:
        definition: the tokenizer that says what is right.
        special: the ids of [CLS] and [SEP].

    Raises:
        OSError: the file cannot be opened.
        ValueError: the vocabulary lacks a special token, or TensorFlow Text
            cannot cut as the definition does.
    """

    def __init__(self, vocab_file: str, do_lower_case: bool = True):
        self.definition = tokenization.FullTokenizer(vocab_file, do_lower_case)
        self.definition.require_tokens("[UNK]", "[CLS]", "[SEP]")
        self._tokenizer = fast_tokenization.graph_tokenizer(
            vocab_file, do_lower_case
        )
        self.special = inputs.SpecialIds(
            begin=self.id_of("[CLS]"), end=self.id_of("[SEP]")
        )

    def id_of(self, token: str) -> int:
        """Returns the id of a token of the vocabulary."""
        return self.definition.vocab[token]

    def decoded(self, text: tf.Tensor) -> tf.Tensor:
        """Skips the bytes of `[N]` texts that are not UTF-8, as released."""
        return text_ops.decoded(text)

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Cuts `[N]` string texts: `[N, (tokens)]` int32 ids."""
        return self._tokenizer.tokenize(text)

    def tokenize_with_offsets(
        self, text: tf.Tensor
    ) -> dict[str, tf.RaggedTensor]:
        """Cuts `[N]` string texts and tells where each token came from.

        Returns:
            `ids`, `starts` and `ends`, each `[N, (tokens)]` int32; starts and
            ends count code points of the decoded text.
        """
        return self._tokenizer.tokenize_with_offsets(text)

    def basic_text(self, text: tf.Tensor) -> tf.Tensor:
        """Cuts `[N]` valid texts into words, parted by one space: `[N]`."""
        return basic_ops.basic_text(
            text, do_lower_case=self.definition.basic_tokenizer.do_lower_case
        )

    def tokens(self, vocab_size: int) -> tf.Tensor:
        """Lists the tokens by id: `[V]` string; "[id N]" where there is none.

        Args:
            vocab_size: V, of the model.
        """
        known = self.definition.inv_vocab
        return tf.constant(
            [known.get(index, f"[id {index}]") for index in range(vocab_size)]
        )
