"""The models inside other people's Keras code."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import bert, checkpoints, heads
from tests.support import locations, toy_config

_CONFIG = toy_config.config(initializer_range=0.3)
_IDS = np.random.default_rng(0).integers(1, 31, (16, 7)).astype(np.int32)


_CHOICES = np.stack([_IDS[:4], _IDS[4:8]], axis=1)  # [4, 2, T]
_CASES = {
    "encoder": (lambda: bert.BertModel(_CONFIG, causal=True), {}),
    "classes": (
        lambda: heads.BertForSequenceClassification(
            _CONFIG, num_labels=3, causal=True
        ),
        {},
    ),
    "tags": (
        lambda: heads.BertForTokenClassification(
            _CONFIG, num_labels=3, bilstm_head=True, dtype="mixed_bfloat16"
        ),
        {},
    ),
    "frozen": (
        lambda: heads.BertForTokenClassification(
            _CONFIG, num_labels=3, features="last"
        ),
        {"label_mask": np.ones_like(_IDS)},
    ),
    "answers": (lambda: heads.BertForQuestionAnswering(_CONFIG), {}),
    "choices": (
        lambda: heads.BertForMultipleChoice(_CONFIG),
        {"input_ids": _CHOICES},
    ),
    "words": (
        lambda: heads.BertForPreTraining(_CONFIG, objective="ltr"),
        {
            "input_mask": np.ones_like(_IDS),
            "segment_ids": np.zeros_like(_IDS),
            "masked_lm_positions": np.full([len(_IDS), 1], 2, np.int32),
        },
    ),
}


@pytest.mark.parametrize(("make", "inputs"), _CASES.values(), ids=_CASES)
def test_a_saved_model_is_loaded_without_custom_objects(tmp_path, make, inputs):
    path, saved = str(tmp_path / "model.keras"), make()
    saved.save(path)
    loaded = keras.saving.load_model(path)
    assert type(loaded) is type(saved)
    assert loaded.get_config() == saved.get_config()
    before = checkpoints.variables_by_name(saved)
    after = checkpoints.variables_by_name(loaded)
    assert before.keys() == after.keys()
    for name, variable in before.items():
        np.testing.assert_array_equal(after[name], variable, err_msg=name)
    expected, outputs = (
        model(**{"input_ids": _IDS, **inputs}) for model in (saved, loaded)
    )
    tf.nest.map_structure(np.testing.assert_array_equal, outputs, expected)


@pytest.mark.integration
def test_a_functional_classifier_is_fitted_and_saved(tmp_path):
    keras.utils.set_random_seed(0)
    ids = keras.Input([None], dtype="int32")
    mask = keras.ops.cast(ids > 0, "int32")
    pooled = bert.BertModel(_CONFIG)(ids, mask)["pooled_output"]
    model = keras.Model(ids, keras.layers.Dense(2)(pooled))
    model.compile(
        keras.optimizers.Adam(1e-2),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    labels = _IDS[:, 1] > 15
    data = tf.data.Dataset.from_tensor_slices((_IDS, labels)).batch(8)
    losses = model.fit(data, epochs=8, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for one, other in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(loaded(_IDS), model(_IDS), atol=1e-6)


@pytest.mark.integration
def test_fit_trains_with_dropout_and_evaluates_without():
    keras.utils.set_random_seed(0)
    ids = keras.Input([None], dtype="int32")
    pooled = bert.BertModel(_CONFIG)(ids)["pooled_output"]
    model = keras.Model(ids, keras.layers.Dense(2)(pooled))
    model.compile(
        keras.optimizers.SGD(0.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    data = tf.data.Dataset.from_tensors((_IDS, _IDS[:, 1] > 15))
    losses = model.fit(data, epochs=2, verbose=0).history["loss"]
    evaluated = [model.evaluate(data, verbose=0) for _ in range(2)]
    assert losses[0] != losses[1]
    assert evaluated[0] == evaluated[1] not in losses


def _means(model, **inputs):
    return [float(tf.reduce_mean(x)) for x in tf.nest.flatten(model(**inputs))]


@pytest.mark.parametrize(("make", "inputs"), _CASES.values(), ids=_CASES)
def test_training_draws_dropout_that_calls_and_seeds_change(make, inputs):
    keras.utils.set_random_seed(7)
    model = make()
    inputs = {"input_ids": _IDS, **inputs}
    plain = _means(model, **inputs)
    drawn = [_means(model, **inputs, training=True) for _ in range(2)]
    assert drawn[0] != plain != drawn[1] != drawn[0]
    assert _means(model, **inputs) == plain
    assert _means(model, **inputs, training=False) == plain
    keras.utils.set_random_seed(7)
    again = make()
    assert _means(again, **inputs, training=True) == drawn[0]


def test_a_seed_that_is_given_decides_the_dropout_of_training():
    model, seed = bert.BertModel(_CONFIG), np.array([1, 2], np.int32)
    given = _means(model, input_ids=_IDS, dropout_seed=seed)
    for _ in range(2):
        assert given == _means(
            model, input_ids=_IDS, dropout_seed=seed, training=True
        )


def test_a_frozen_encoder_has_no_dropout_while_its_head_is_trained():
    config = toy_config.config(
        initializer_range=0.3,
        hidden_dropout_prob=0.5,
        classifier_dropout_prob=0.0,
    )
    model = heads.BertForTokenClassification(
        config, num_labels=3, features="last"
    )
    inputs = {"input_ids": _IDS, "label_mask": np.ones_like(_IDS)}
    assert _means(model, **inputs, training=True) == _means(model, **inputs)


def test_evaluation_computes_the_logits_of_words_in_float32():
    """In bfloat16 these logits, 256 and 257, would be a tie."""
    ids, positions = _IDS[:1], np.array([[1]], np.int32)
    model = heads.BertForPreTraining(_CONFIG, dtype="mixed_bfloat16")
    model.bert.embeddings.word_embeddings.assign(
        np.zeros((_CONFIG.vocab_size, _CONFIG.hidden_size))
    )
    bias = np.zeros(_CONFIG.vocab_size, np.float32)
    bias[[3, 4]] = 256, 257
    model.predictions.output_bias.assign(bias)
    outputs = model(ids, None, None, positions, np.array([[4]], np.int32))
    assert float(outputs["masked_lm_correct"][0, 0]) == 1
    expected = np.log1p(np.exp(-1))
    np.testing.assert_allclose(
        outputs["masked_lm_losses"][0, 0], expected, rtol=1e-5
    )


@pytest.mark.integration
def test_the_example_of_the_manual_runs(tmp_path, monkeypatch):
    page = (locations.ROOT / "docs/keras.md").read_text()
    code, _ = re.findall(r"```python\n(.*?)```", page, re.S)
    assert len(list(filter(None, code.splitlines()))) <= 15
    text = code.replace("data/all-MiniLM-L6-v2", str(tmp_path / "bert"))
    (tmp_path / "bert").mkdir()
    for name in ("bert_config.json", "vocab.txt"):
        source = locations.GOLDEN / "inputs" / name
        (tmp_path / "bert" / name).write_bytes(source.read_bytes())
    for path in (locations.GOLDEN / "model").glob("tiny.ckpt.*"):
        name = path.name.replace("tiny.ckpt", "bert_model.ckpt")
        (tmp_path / "bert" / name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(text, "docs/keras.md", "exec"), names)
    model = names["model"]
    assert model.history.epoch == [0, 1, 2]
    shown = model.predict(names["rows"], verbose=0)
    np.testing.assert_allclose(shown.sum(axis=1), 1, rtol=1e-6)
