"""Signatures of texts and of rows that a client made."""

import random
import types

import pytest
import tensorflow as tf

from serving import models, signatures
from tests import serving_client


def test_rows_of_a_client_are_checked():
    model = types.SimpleNamespace(
        task="tagging", config=types.SimpleNamespace(max_position_embeddings=5)
    )
    ask = signatures.of_ids(dict, model)
    ids = tf.ones([2, 5], tf.int32)
    assert ask(ids, ids, ids)["input_ids"].numpy().tolist() == [[1] * 5] * 2
    long = tf.ones([2, 6], tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 5 tok"):
        ask(long, long, long)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="segment_ids must have the shape"
    ):
        ask(ids, ids, ids[:, :4])


class _Tags:
    """Stands in for a network: the tag of a token is its id modulo 3."""

    def __call__(self, input_ids, input_mask, segment_ids):
        return {"logits": tf.one_hot(input_ids % 3, 3)}


def test_a_word_has_the_tag_of_its_first_piece(tmp_path):
    folder = serving_client.golden_classifier(tmp_path / "run")
    labels = ["O", "B-X", "I-X"]
    serving_client.describe(
        folder, task="tagging", labels=labels, max_seq_length=40
    )
    model = models.read(str(folder))
    tag = signatures.make(model, _Tags())["serving_default"]
    rng = random.Random(3)
    words = ["it", "rained", "unaffable", "\u200b", "(.)", "Caf\xe9s", "x" * 9]
    texts = [" ".join(rng.choices(words, k=n)) for n in (3, 0, 6, 1, 5)]
    found = tag(tf.constant(texts))
    for row, text in enumerate(texts):
        expected = []
        for word in text.split(" ") if text else []:
            first, *_ = [*model.tokenizer.tokenize(word), "[UNK]"]
            (number,) = model.tokenizer.convert_tokens_to_ids([first])
            expected.append(labels[number % 3])
        kept = found["tags"][row].numpy().tolist()
        assert [tag.decode() for tag in kept if tag] == expected
        kept = found["words"][row].numpy().tolist()
        assert " ".join(word.decode() for word in kept if word) == text
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="at most 40 word pieces"
    ):
        tag(tf.constant(["it " * 39]))
