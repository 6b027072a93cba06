"""Whole models against the released program, and the fine-tuning heads."""

import dataclasses
import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import bert, checkpoints, dropout, heads, losses
from modeling import config as config_lib
from tests.support import locations, toy_config, toy_files

_CHECKPOINT = str(locations.CHECKPOINT)
_CONFIG = config_lib.BertConfig.from_json_file(locations.CONFIG_FILE)
_SEED = np.array([3, 5], np.int32)
_CASES = [
    ("gelu", "padded"),
    ("gelu", "masked_row"),
    ("gelu", "defaults"),
    ("relu", "padded"),
]
# float32 against float64; see tests/golden/README.md for both.
_TOLERANCE = 1e-5
_MASKED_ROW = 1  # Its scores are rounded to about 1e-3 by adding -10000.
_MASKED_ROW_TOLERANCE = 2e-3


def _golden(activation, batch):
    """Returns inputs, outputs and gradients by name."""
    with np.load(
        locations.GOLDEN / f"model/forward_{activation}.npz"
    ) as arrays:
        return tuple(
            {
                name.removeprefix(f"{batch}/{part}/"): arrays[name]
                for name in arrays.files
                if name.startswith(f"{batch}/{part}/")
            }
            for part in ("in", "out", "grad")
        )


@functools.cache
def _pretraining(activation):
    config = dataclasses.replace(_CONFIG, hidden_act=activation)
    model = heads.BertForPreTraining(config)
    checkpoints.load(model, _CHECKPOINT)
    return model


def _call(model, inputs):
    return model(
        inputs["input_ids"],
        inputs.get("input_mask"),
        inputs.get("segment_ids"),
        inputs["masked_lm_positions"],
    )


def _check(got, want, batch, *, rows_axis=0, rows=1):
    """Compares; the fully masked row of its batch has its own tolerance."""
    error = np.abs(np.asarray(got) - want)
    if batch != "masked_row":
        assert error.max() < _TOLERANCE
        return
    error = np.moveaxis(error, rows_axis, 0)
    is_masked = np.arange(len(error)) // rows == _MASKED_ROW
    assert error[~is_masked].max() < _TOLERANCE
    assert error[is_masked].max() < _MASKED_ROW_TOLERANCE


@pytest.mark.parametrize(("activation", "batch"), _CASES)
def test_encoder_gives_what_the_release_gives(activation, batch):
    inputs, outputs, _ = _golden(activation, batch)
    model = _pretraining(activation).bert
    arguments = [
        inputs["input_ids"],
        inputs.get("input_mask"),
        inputs.get("segment_ids"),
    ]
    got = model(*arguments)
    _check(got["embedding_output"], outputs["embedding_output"], batch)
    _check(
        np.stack(got["all_encoder_layers"]),
        outputs["all_encoder_layers"],
        batch,
        rows_axis=1,
    )
    _check(got["pooled_output"], outputs["pooled_output"], batch)
    probs = model.attention_probs(*arguments)
    _check(probs[0], outputs["attention_probs_0"], batch)


@pytest.mark.parametrize(("activation", "batch"), _CASES)
def test_heads_and_losses_give_what_the_release_gives(activation, batch):
    inputs, outputs, _ = _golden(activation, batch)
    got = _call(_pretraining(activation), inputs)
    words = tf.nn.log_softmax(got["masked_lm_logits"])
    size = words.shape[1]
    words = np.reshape(words, outputs["masked_lm_log_probs"].shape)
    _check(words, outputs["masked_lm_log_probs"], batch, rows=size)
    pairs = tf.nn.log_softmax(got["next_sentence_logits"])
    _check(pairs, outputs["next_sentence_log_probs"], batch)
    word_losses = losses.cross_entropy(
        got["masked_lm_logits"], inputs["masked_lm_ids"]
    )
    _check(
        np.ravel(word_losses),
        outputs["masked_lm_example_loss"],
        batch,
        rows=size,
    )
    pair_losses = losses.cross_entropy(
        got["next_sentence_logits"], inputs["next_sentence_labels"][:, 0]
    )
    _check(pair_losses, outputs["next_sentence_example_loss"], batch)


def _losses(outputs, inputs):
    weights = inputs["masked_lm_weights"]
    words = losses.cross_entropy(
        outputs["masked_lm_logits"], inputs["masked_lm_ids"]
    )
    pairs = losses.cross_entropy(
        outputs["next_sentence_logits"], inputs["next_sentence_labels"][:, 0]
    )
    return (
        losses.masked_lm_loss(words, weights, weights.sum()),
        losses.mean_loss(pairs, np.ones(len(pairs), np.float32), len(pairs)),
    )


@pytest.mark.parametrize(("activation", "batch"), _CASES)
def test_losses_and_gradients_are_those_of_the_release(activation, batch):
    inputs, outputs, gradients = _golden(activation, batch)
    model = _pretraining(activation)
    variables = checkpoints.variables_by_name(model)
    with tf.GradientTape() as tape:
        got = _call(model, inputs)
        masked_lm, next_sentence = _losses(got, inputs)
        total = masked_lm + next_sentence
    dense = [
        tf.convert_to_tensor(gradient)
        for gradient in tape.gradient(
            total, [v.value for v in variables.values()]
        )
    ]
    has_masked_row = batch == "masked_row"
    for loss, name in (
        (masked_lm, "masked_lm_loss"),
        (next_sentence, "next_sentence_loss"),
        (total, "total_loss"),
    ):
        tolerance = 1e-4 if has_masked_row else _TOLERANCE
        np.testing.assert_allclose(loss, outputs[name], atol=tolerance)
    tolerance = 1e-3 if has_masked_row else _TOLERANCE
    assert gradients.keys() == variables.keys()
    for name, gradient in zip(variables, dense, strict=True):
        np.testing.assert_allclose(
            gradient, gradients[name], atol=tolerance, err_msg=name
        )
    np.testing.assert_allclose(
        tf.linalg.global_norm(dense),
        outputs["dense_grad_global_norm"],
        rtol=1e-3 if has_masked_row else 1e-5,
    )


def _released_variables(key):
    contents = toy_files.read_json(locations.GOLDEN / "model/variables.json")
    return dict(contents[key])


def test_variables_have_the_release_s_names_shapes_and_encoder_order():
    want = _released_variables("model_variables_in_creation_order")
    got = {
        name: list(variable.shape)
        for name, variable in checkpoints.variables_by_name(
            heads.BertForPreTraining(_CONFIG)
        ).items()
    }
    assert got == want
    encoder = [name for name in want if name.startswith("bert/")]
    assert list(got)[: len(encoder)] == encoder


@pytest.mark.parametrize(
    ("model", "head"),
    [
        (
            heads.BertForSequenceClassification(_CONFIG, num_labels=3),
            {"output_weights": [3, 32], "output_bias": [3]},
        ),
        (
            heads.BertForQuestionAnswering(_CONFIG),
            _released_variables("squad_head"),
        ),
    ],
)
def test_fine_tuned_models_have_the_encoder_and_their_head(model, head):
    encoder = {
        name: shape
        for name, shape in _released_variables(
            "model_variables_in_creation_order"
        ).items()
        if name.startswith("bert/")
    }
    got = {
        name: list(variable.shape)
        for name, variable in checkpoints.variables_by_name(model).items()
    }
    assert got == encoder | head
    for variable in model.weights:
        assert variable.path.startswith(f"{model.name}/")


@pytest.mark.shared
def test_variables_are_those_of_a_published_checkpoint():
    found = sorted(locations.SHARED.glob("data/checkpoints/*.variables.tsv"))
    if not found:
        pytest.skip("no list of a published checkpoint's variables")
    for path in found:
        sizes = path.name.split("_")
        layers, hidden, num_heads = (
            int(part.split("-")[1].split(".")[0]) for part in sizes[1:]
        )
        config = config_lib.BertConfig(
            vocab_size=30522,
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=num_heads,
            intermediate_size=4 * hidden,
            type_vocab_size=2,
        )
        model = heads.BertForPreTraining(config)
        got = {
            f"{name}\t{list(variable.shape)}\t{variable.dtype}"
            for name, variable in checkpoints.variables_by_name(model).items()
        }
        lines = path.read_text().splitlines()
        want = {
            line
            for line in lines
            if not line.startswith("global_step\t") and "/adam_" not in line
        }
        assert got == want


@pytest.mark.parametrize("objective", heads.OBJECTIVES)
def test_objectives_have_the_same_variables(objective):
    model = heads.BertForPreTraining(_CONFIG, objective=objective)
    assert list(checkpoints.variables_by_name(model)) == list(
        checkpoints.variables_by_name(heads.BertForPreTraining(_CONFIG))
    )
    assert model.bert.causal == (objective == "ltr")


def test_unknown_objectives_are_refused():
    with pytest.raises(ValueError, match="one of mlm_nsp, mlm, ltr; got 'rtl'"):
        heads.BertForPreTraining(_CONFIG, objective="rtl")


def test_classifier_drops_a_tenth_whatever_the_config():
    config = dataclasses.replace(
        _CONFIG, hidden_dropout_prob=0, attention_probs_dropout_prob=0
    )
    model = heads.BertForSequenceClassification(config, num_labels=32)
    model.output_weights.assign(np.eye(32))
    ids = np.random.default_rng(0).integers(0, 1200, [300, 4]).astype("int32")
    kept = model(ids)["logits"].numpy()
    with_dropout = model(ids, dropout_seed=_SEED)["logits"].numpy()
    is_dropped = with_dropout == 0
    # Five standard deviations of 9,600 draws.
    assert abs(is_dropped.mean() - 0.1) < 5 * (0.1 * 0.9 / 9600) ** 0.5
    np.testing.assert_allclose(
        with_dropout[~is_dropped], kept[~is_dropped] / 0.9, rtol=1e-4
    )
    # The pattern is that of no dropout in the encoder.
    site = dropout.site_seed(_SEED, bert.num_dropout_sites(config))
    pattern = dropout.dropout(tf.ones([300, 32]), 0.1, site)
    np.testing.assert_array_equal(is_dropped, pattern == 0)


@pytest.mark.parametrize(
    ("policy", "tolerance"), [("mixed_bfloat16", 0.05), ("mixed_float16", 5e-3)]
)
def test_low_precision_trains_close_to_float32(policy, tolerance):
    inputs, _, gradients = _golden("gelu", "padded")
    model = heads.BertForPreTraining(_CONFIG, dtype=policy)
    checkpoints.load(model, _CHECKPOINT)
    variables = checkpoints.variables_by_name(model)
    with tf.GradientTape() as tape:
        got = _call(model, inputs)
        loss = sum(_losses(got, inputs))
    assert {value.dtype for value in got.values()} == {tf.float32}
    got = tape.gradient(loss, [v.value for v in variables.values()])
    difference = [
        tf.convert_to_tensor(gradient) - gradients[name]
        for name, gradient in zip(variables, got, strict=True)
    ]
    total = np.sqrt(sum((g**2).sum() for g in gradients.values()))
    assert tf.linalg.global_norm(difference) / total < tolerance


@pytest.mark.parametrize("policy", ["bfloat16", "float16"])
def test_a_policy_of_one_type_keeps_float32_variables(policy):
    ids = np.array([[4, 20, 30, 10, 7], [4, 40, 10, 0, 9]], np.int32)
    positions = np.array([[1], [2]], np.int32)
    model = heads.BertForPreTraining(_CONFIG, dtype=policy)
    assert {v.dtype for v in model.weights} == {"float32"}
    outputs = model(ids, None, None, positions)
    assert {value.dtype for value in outputs.values()} == {tf.float32}
    labeler = heads.BertForTokenClassification(
        _CONFIG, num_labels=3, dtype=policy
    )
    assert {v.dtype for v in labeler.weights} == {"float32"}
    assert labeler(ids)["logits"].dtype == tf.float32


_B, _C, _T, _D = 2, 3, 5, 12


def _chooser(**changes):
    sizes = {"vocab_size": 11, "max_position_embeddings": 7, **changes}
    config = toy_config.config(hidden_size=_D, initializer_range=0.5, **sizes)
    keras.utils.set_random_seed(1)
    return heads.BertForMultipleChoice(config)


def _choices():
    rng = np.random.default_rng(2)
    lengths = rng.integers(2, _T + 1, (_B, _C, 1))
    return {
        "input_ids": rng.integers(0, 11, (_B, _C, _T)).astype("int32"),
        "input_mask": (np.arange(_T) < lengths).astype("int32"),
        "segment_ids": rng.integers(0, 2, (_B, _C, _T)).astype("int32"),
    }


def test_score_of_a_choice_is_its_pooled_output_times_the_vector():
    model, inputs = _chooser(), _choices()
    logits = model(**inputs)["logits"]
    assert logits.shape == (_B, _C) and logits.dtype == "float32"
    vector = model.score.output_weights.numpy()[0]
    for row in range(_B):
        for choice in range(_C):
            one = {k: v[row, choice][np.newaxis] for k, v in inputs.items()}
            pooled = model.bert(**one)["pooled_output"].numpy()[0]
            np.testing.assert_allclose(
                logits[row, choice], pooled @ vector, atol=_TOLERANCE
            )
    # Mask and segments may be left out.
    ids = inputs["input_ids"]
    whole = model(ids, np.ones_like(ids), np.zeros_like(ids))["logits"]
    np.testing.assert_allclose(model(ids)["logits"], whole, atol=_TOLERANCE)


def test_one_vector_is_all_that_is_new():
    model = _chooser()
    names = set(checkpoints.variables_by_name(model))
    encoder = bert.BertModel(model.config)
    assert names - set(checkpoints.variables_by_name(encoder)) == {
        "cls/multiple_choice/output_weights"
    }
    assert model.score.output_weights.shape == (1, _D)
    # The spread of the release's heads, cut at twice that.
    assert np.abs(model.score.output_weights).max() <= 0.04


def test_dropout_is_that_of_the_classifier():
    """With none in the encoder, a tenth of the pooled output goes."""
    model = _chooser(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    copies = 500  # With more, arithmetic is compiled, which takes a second.
    inputs = {k: np.tile(v[:1], (copies, 1, 1)) for k, v in _choices().items()}
    plain = model(**{k: v[:1] for k, v in inputs.items()})["logits"].numpy()[0]
    seed = np.array([5, 6], "int32")
    drawn = model(**inputs, dropout_seed=seed)["logits"].numpy()
    again = model(**inputs, dropout_seed=seed)["logits"].numpy()
    np.testing.assert_array_equal(drawn, again)
    # Each term w·p of the product varies by (w·p)² · 0.1 / 0.9.
    pooled = model.bert(**{k: v[0] for k, v in inputs.items()})["pooled_output"]
    terms = (pooled.numpy() * model.score.output_weights.numpy()[0]) ** 2
    variance = terms.sum(axis=1) * 0.1 / 0.9  # [C]
    # Six standard errors of a mean, and some of a variance.
    error = 6 * np.sqrt(variance / copies)
    assert (np.abs(drawn.mean(axis=0) - plain) < error).all()
    np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=0.3)


def test_any_batch_and_length_share_one_graph():
    model, inputs = _chooser(), _choices()
    spec = tf.TensorSpec([None, _C, None], tf.int32)

    @tf.function(input_signature=[spec, spec, spec])
    def logits(input_ids, input_mask, segment_ids):
        return model(input_ids, input_mask, segment_ids)["logits"]

    expected = model(**inputs)["logits"]
    np.testing.assert_allclose(logits(**inputs), expected, atol=_TOLERANCE)
    padded = {k: np.pad(v, [(0, 1), (0, 0), (0, 2)]) for k, v in inputs.items()}
    np.testing.assert_allclose(logits(**padded)[:_B], expected, atol=_TOLERANCE)
