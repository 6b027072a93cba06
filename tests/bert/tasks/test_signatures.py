"""Signatures of texts and of rows that a client made."""

import dataclasses
import random

import numpy as np
import pytest
import tensorflow as tf

from bert.serving import exporting, loading
from bert.tasks import asking, registry, signatures
from modeling import checkpoints
from tests.support import asked_models, golden_models
from vocab import tokenization


def _model(kind, type_vocab_size):
    sizes = {
        "vocab_size": 7,
        "max_position_embeddings": 5,
        "type_vocab_size": type_vocab_size,
    }
    return registry.ASKING[kind](asked_models.served(sizes=sizes))


@pytest.mark.parametrize(
    ("name", "greatest"),
    [("input_ids", 6), ("input_mask", 1), ("segment_ids", 2)],
)
@pytest.mark.parametrize("task", ["tagging", "multiple_choice"])
def test_numbers_that_are_no_ids_are_refused(name, greatest, task):
    ask = signatures.of_ids(dict, _model(task, 3))
    shape = [1, 4] if task == "tagging" else [2, 3, 4]
    rows = {each: np.ones(shape, np.int32) for each in asking.ID_NAMES}
    for number, is_right in [
        (-(2**31), False),
        (-100, False),
        (-1, False),
        (0, True),
        (greatest, True),
        (greatest + 1, False),
        (2**31 - 1, False),
    ]:
        rows[name].flat[-2] = number
        if is_right:
            found = ask(*map(tf.constant, rows.values()))
            assert found[name].numpy().tolist() == rows[name].tolist()
            continue
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match=f"{name} must be from 0 to {greatest}",
        ):
            ask(*map(tf.constant, rows.values()))


class _Layers:
    """Stands in for an encoder: the values of a token are its id."""

    def __call__(self, input_ids, input_mask, segment_ids):
        values = tf.cast(input_ids, tf.float32)[..., tf.newaxis] + 1
        return {"sequence_output": values, "all_encoder_layers": [values]}


def _encoder(folder):
    model = loading.read(str(folder), layers=(0,))
    # No pooler.
    return registry.ENCODER(dataclasses.replace(model.model, variables=()))


def test_values_at_padding_are_zero_and_left_out_of_the_mean(tmp_path):
    model = _encoder(golden_models.classifier(tmp_path / "run"))
    ask = exporting.make_signatures(model, _Layers())["ids"]
    found = ask(
        tf.constant([[5, 6, 8, 0], [7, 0, 0, 0]]),
        tf.constant([[1, 1, 1, 1], [1, 0, 0, 0]]),
        tf.zeros([2, 4], tf.int32),
    )
    values = [[6, 7, 9, 1], [8, 0, 0, 0]]
    assert found["sequence_output"].numpy()[..., 0].tolist() == values
    assert found["layers"].numpy()[:, :, 0, 0].tolist() == values
    assert found["mean"].numpy()[:, 0, 0].tolist() == [23 / 4, 8]
    assert found["input_mask"].numpy().tolist()[1] == [1, 0, 0, 0]


@pytest.mark.integration
def test_texts_are_cut_with_the_accents_of_the_model(tmp_path):
    folder = golden_models.classifier(tmp_path / "run", strip_accents=False)
    model = _encoder(folder)
    ask = exporting.make_signatures(model, _Layers())["serving_default"]
    text = "Caf\xe9 cafe\u0301"
    (tokens,) = ask(tf.constant([text]))["tokens"].numpy().tolist()
    definition = tokenization.FullTokenizer(
        model.model.tokenizer.vocab_file, strip_accents=False
    )
    assert [token.decode() for token in tokens] == [
        *("[CLS]", *definition.tokenize(text), "[SEP]")
    ]
    assert "[UNK]" in definition.tokenize(text)


class _Points:
    """Stands in for an encoder: the values of a token are its id and 1."""

    def __call__(self, input_ids, input_mask, segment_ids):
        ids = tf.cast(input_ids, tf.float32)
        return {"sequence_output": tf.stack([ids, tf.ones_like(ids)], axis=-1)}


@pytest.mark.integration
def test_a_sentence_encoder_embeds_texts_and_compares_pairs(tmp_path):
    folder = golden_models.sentence_encoder(tmp_path / "run")
    model = loading.read(str(folder))
    made = exporting.make_signatures(model, _Points())
    # The second is longer than the model reads.
    texts = ["a", "it rained all day and all night and all day"]
    expected = []
    for text in texts:
        tokenizer = model.model.tokenizer
        kept = tokenizer.tokenize(text)[: model.model.max_seq_length - 2]
        ids = tokenizer.convert_tokens_to_ids(["[CLS]", *kept, "[SEP]"])
        mean = np.array([np.mean(ids), 1])
        expected.append(mean / np.linalg.norm(mean))
    got = made["serving_default"](tf.constant(texts))["embedding"]
    np.testing.assert_allclose(got, expected, atol=1e-6)
    pair = made["pairs"](tf.constant(texts[:1]), tf.constant(texts[1:]))
    cosine = np.dot(*expected)
    np.testing.assert_allclose(pair["similarity"], [cosine], atol=1e-6)
    ids = tf.constant([[3, 4]])
    got = made["ids"](ids, tf.ones_like(ids), tf.zeros_like(ids))["embedding"]
    length = np.hypot(3.5, 1)
    np.testing.assert_allclose(got, [[3.5 / length, 1 / length]], atol=1e-6)


class _Logits:
    """Stands in for a classifier: the same logits for each row."""

    def __init__(self, *logits):
        self._logits = tf.constant([logits])

    def __call__(self, input_ids, input_mask, segment_ids):
        return {"logits": tf.repeat(self._logits, tf.shape(input_ids)[0], 0)}


def test_a_label_is_chosen_from_a_probability_of_one_half(tmp_path):
    folder = golden_models.classifier(
        tmp_path / "run", problem_type="multi_label"
    )
    made = exporting.make_signatures(
        loading.read(str(folder)), _Logits(0.0, -1e-6)
    )
    ask = made["serving_default"]
    answer = ask(tf.constant(["it rained", "it"]))
    assert answer["is_chosen"].numpy().tolist() == [[True, False]] * 2


class _Tags:
    """Stands in for a network: the tag of a token is its id modulo 3."""

    def __call__(self, input_ids, input_mask, segment_ids):
        return {"logits": tf.one_hot(input_ids % 3, 3)}


@pytest.mark.integration
def test_a_word_has_the_tag_of_its_first_piece(tmp_path):
    labels = ["O", "B-X", "I-X"]
    folder = golden_models.classifier(
        tmp_path / "run", task="tagging", labels=labels, max_seq_length=40
    )
    # An output for each label; the network of the test is another one.
    weights = checkpoints.read(str(folder))
    weights["output_weights"] = np.zeros((3, 1), np.float32)
    checkpoints.save(str(folder / "mrpc.ckpt-24"), weights)
    model = loading.read(str(folder))
    tag = exporting.make_signatures(model, _Tags())["serving_default"]
    rng = random.Random(3)
    words = ["it", "rained", "unaffable", "\u200b", "(.)", "Caf\xe9s", "x" * 9]
    texts = [" ".join(rng.choices(words, k=n)) for n in (3, 0, 6, 1, 5)]
    found = tag(tf.constant(texts))
    for row, text in enumerate(texts):
        expected = []
        for word in text.split(" ") if text else []:
            first, *_ = [*model.model.tokenizer.tokenize(word), "[UNK]"]
            (number,) = model.model.tokenizer.convert_tokens_to_ids([first])
            expected.append(labels[number % 3])
        kept = found["tags"][row].numpy().tolist()
        assert [tag.decode() for tag in kept if tag] == expected
        kept = found["words"][row].numpy().tolist()
        assert " ".join(word.decode() for word in kept if word) == text
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="at most 40 word pieces"
    ):
        tag(tf.constant(["it " * 39]))
