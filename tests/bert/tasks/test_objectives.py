"""The objectives of pre-training and of each task."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert.tasks import objectives
from bert.tasks import task as task_lib
from bert.tasks.classification import objective as classification_objective
from bert.tasks.pretraining import objective as pretraining_objective
from bert.tasks.squad import objective as squad_objective
from bert.tasks.tagging import objective as tagging_objective
from bert.tasks.tagging import windows
from bert.training import padding
from modeling import checkpoints, heads
from tests.support import golden_steps, locations, toy_config, toy_files
from tests.support import toy_pretraining as toy

# --------------------------------------------------- The release's own steps


class _WithoutDropout(classification_objective.ClassificationObjective):
    """The golden steps were made with the head's dropout off, too."""

    def outcome(self, features, denominators, dropout_seed):
        return super().outcome(features, denominators, None)


def _objective(task, golden):
    if task == "squad":
        model = golden_steps.model(golden, heads.BertForQuestionAnswering)
        return squad_objective.SpanExtraction(model)
    make = functools.partial(heads.BertForSequenceClassification, num_labels=2)
    model = golden_steps.model(golden, make)
    return _WithoutDropout(model, task_lib.SINGLE_LABEL)


# Of losses and norms, and of weights. Source: tests/golden/README.md: the
# classifier's steps amplify a difference of 2e-7 to 4e-5.
_TOLERANCES = {
    "classifier": (5e-4, {"rtol": 5e-4, "atol": 2e-5}),
    "squad": (1e-4, {"rtol": 0, "atol": 1e-5}),
}
_TARGETS = {
    "classifier": {"label_ids": "label_id"},
    "squad": {
        "start_positions": "start_position",
        "end_positions": "end_position",
    },
}


@functools.cache
def _released(task):
    """Returns the golden runs of a task and the batches they were given."""
    golden = golden_steps.read(task)
    path = locations.GOLDEN / f"{task}/features.json.gz"
    content = toy_files.read_json(path)
    features = content.get("features", content)[golden["features"]]
    rows = [features[i] for i in golden["feature_indexes"]]
    arrays = {
        **{
            name: np.array([row[name] for row in rows], np.int32)
            for name in objectives.PIECE_INPUTS
        },
        **{
            name: np.array([[row[field]] for row in rows], np.int32)
            for name, field in _TARGETS[task].items()
        },
    }
    parts = {k: np.split(v, golden["steps"]) for k, v in arrays.items()}
    return golden, [
        dict(zip(parts, values, strict=True))
        for values in zip(*parts.values(), strict=True)
    ]


@functools.cache
def _trained(task):
    golden, batches = _released(task)
    return golden_steps.train(golden, _objective(task, golden), batches)


@pytest.mark.parametrize("task", _TARGETS)
def test_steps_are_the_release_s(task):
    golden, _ = _released(task)
    tolerance, of_weights = _TOLERANCES[task]
    golden_steps.check(golden, _trained(task), tolerance, **of_weights)


@pytest.mark.parametrize("task", _TARGETS)
def test_filler_rows_weigh_nothing(task):
    golden, batches = _released(task)
    objective = _objective(task, golden)
    for row in (0, 3):
        golden_steps.check_filler_rows(objective, batches[0], row)


def test_the_pooler_of_a_span_model_is_left_as_it_was():
    golden, _ = _released("squad")
    untouched = golden_steps.run(golden)["no_gradient"]
    assert untouched
    _, weights = _trained("squad")
    start = str(locations.GOLDEN / golden["init_checkpoint"])
    for name, value in checkpoints.read(start, untouched).items():
        assert np.array_equal(weights[name], value), name


@pytest.mark.integration
def test_cutting_shared_padding_changes_no_step():
    golden, batches = _released("classifier")
    cut = []
    for batch in batches:
        longest = batch["input_mask"].sum(axis=1).max()
        pieces = {k: batch[k][:, :longest] for k in objectives.PIECE_INPUTS}
        cut.append(batch | pieces)
    assert any(b["input_ids"].shape[1] < 64 for b in cut)
    objective = _objective("classifier", golden)
    results, weights = golden_steps.train(golden, objective, cut)
    whole_results, whole_weights = _trained("classifier")
    tolerance, of_weights = _TOLERANCES["classifier"]
    for ours, whole in zip(results, whole_results, strict=True):
        np.testing.assert_allclose(
            ours.losses["loss"], whole.losses["loss"], rtol=tolerance
        )
    for name, value in whole_weights.items():
        np.testing.assert_allclose(
            weights[name], value, **of_weights, err_msg=name
        )


# ------------------------------------------------------------ Classification


class _Fixed:
    """Stands for a model that always gives the same logits."""

    def __init__(self, logits):
        self._logits = tf.constant(logits, tf.float32)

    def __call__(self, **_):
        return {"logits": self._logits}


def _trained_on(problem_type, weights, logits, labels, rows=None):
    """Trains on rows, in two parts that share their denominators.

    Returns:
        The loss, and of the accuracy the sum and the weight.
    """
    objective = classification_objective.ClassificationObjective(
        _Fixed(logits), problem_type, weights
    )
    rows = np.ones(len(logits)) if rows is None else rows
    features = {
        **dict.fromkeys(
            ("input_ids", "input_mask", "segment_ids"),
            np.ones([len(logits), 3], np.int32),
        ),
        "label_ids": np.array(
            labels, np.int32 if problem_type == "single_label" else np.float32
        ),
        "example_weights": np.array(rows, np.float32),
    }
    parts = []
    for taken in (slice(0, 1), slice(1, None)):
        part = {name: tf.constant(x[taken]) for name, x in features.items()}
        parts.append((part, np.array(logits)[taken]))
    denominators = {
        "loss": sum(objective.denominators(part)["loss"] for part, _ in parts)
    }
    total, accuracy = 0.0, np.zeros(2)
    for part, its_logits in parts:
        objective.model = _Fixed(its_logits)
        outcome = objective.outcome(part, denominators, None)
        total += outcome.losses["loss"]
        accuracy += outcome.metrics.get("accuracy", 0.0)
    return total, accuracy.tolist()


def test_class_weights_weigh_rows_by_their_label():
    logits = [[0.0, 1.0, 2.0], [1.0, 0.0, 0.0], [0.5, 0.5, 3.0]]
    ids, weights = [2, 0, 1], np.array([0.5, 4.0, 3.0], np.float32)
    each = [
        np.log(np.exp(row).sum()) - row[i]
        for row, i in zip(np.array(logits), ids, strict=True)
    ]
    own = weights[ids]
    labels = [[i] for i in ids]
    got, accuracy = _trained_on("single_label", weights, logits, labels)
    np.testing.assert_allclose(got, (own * each).sum() / own.sum(), rtol=1e-6)
    assert accuracy == [2, 3]
    # A row that only fills the batch counts nowhere.
    own *= (1, 1, 0)
    got, accuracy = _trained_on(
        "single_label", weights, logits, labels, [1, 1, 0]
    )
    np.testing.assert_allclose(got, (own * each).sum() / own.sum(), rtol=1e-6)
    assert accuracy == [2, 2]


def test_class_weights_of_several_labels_weigh_those_that_hold():
    logits = np.array([[0.0, 1.0], [2.0, -1.0], [0.5, 0.1]], np.float32)
    labels = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]], np.float32)
    each = np.logaddexp(0, logits) - labels * logits
    own = np.where(labels > 0, [3.0, 5.0], 1.0)
    got, _ = _trained_on("multi_label", (3.0, 5.0), logits, labels)
    np.testing.assert_allclose(got, (own * each).sum() / own.sum(), rtol=1e-6)
    # Equal weights change nothing.
    logits, labels = [[0.0, 1.0], [2.0, -1.0]], [[1], [1]]
    plain, _ = _trained_on("single_label", (), logits, labels)
    equal, _ = _trained_on("single_label", (3.0, 3.0), logits, labels)
    np.testing.assert_allclose(equal, plain, rtol=1e-6)


def test_the_losses_of_predictions_have_no_class_weights():
    logits = np.array([[0.0, 1.0], [2.0, -1.0], [0.5, 0.1]], np.float32)
    labels = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]], np.float32)
    features = dict.fromkeys(objectives.PIECE_INPUTS, labels)
    features["label_ids"] = tf.constant(labels)
    scores = classification_objective.ClassificationObjective(
        lambda **_: {"logits": tf.constant(logits)}, "multi_label", (3.0, 5.0)
    ).predictions(features)
    expected = np.logaddexp(0, logits) - labels * logits
    np.testing.assert_allclose(
        scores["losses"], expected.mean(axis=1), rtol=1e-6
    )


@pytest.mark.parametrize(
    ("problem_type", "outputs"),
    [
        ("single_label", [[0.25, 0.75]]),
        ("multi_label", [[0.5, 0.75]]),
        ("regression", [[0.0, np.log(3.0)]]),
    ],
)
def test_the_outputs_of_predictions_are_those_of_the_problem(
    problem_type, outputs
):
    features = dict.fromkeys(objectives.PIECE_INPUTS, np.ones([1, 3]))
    labels = [[1]] if problem_type == "single_label" else [[1.0, 0.0]]
    features["label_ids"] = tf.constant(labels)
    objective = classification_objective.ClassificationObjective(
        _Fixed([[0.0, np.log(3.0)]]), problem_type
    )
    scores = objective.predictions(features)
    np.testing.assert_allclose(scores["outputs"], outputs, rtol=1e-6)


# ------------------------------------------------------------------- Tagging

# B=2, T=3, K=2.
_TAG_LOGITS = np.log(
    [[[3.0, 1.0], [1.0, 1.0], [1.0, 4.0]], [[1.0, 1.0], [1.0, 7.0], [2.0, 2.0]]]
).astype(np.float32)


class _Tagger:
    def __init__(self, features=None):
        self.features, self.seen = features, None

    def __call__(self, dropout_seed, **inputs):
        self.seen = (dropout_seed, sorted(inputs))
        return {"logits": tf.constant(_TAG_LOGITS)}


def _tagging_features(**more):
    return {
        **dict.fromkeys(objectives.PIECE_INPUTS, tf.zeros([2, 3], tf.int32)),
        "label_ids": tf.constant([[0, 1, 0], [1, 1, 1]]),
        "label_mask": tf.constant([[1, 0, 1], [0, 1, 0]]),
        **more,
    }


class TaggingTest(tf.test.TestCase):
    def test_loss_and_accuracy_by_hand(self):
        objective = tagging_objective.TaggingObjective(_Tagger())
        features = _tagging_features()
        denominators = objective.denominators(features)
        self.assertAllClose(denominators, {"loss": 3.0})
        outcome = objective.outcome(features, denominators, None)
        # Of labels 0, 0 and 1, with 3/4, 1/5 and 7/8.
        expected = -np.log([3 / 4, 1 / 5, 7 / 8]).sum() / 3
        self.assertAllClose(outcome.losses["loss"], expected, atol=1e-6)
        self.assertAllClose(outcome.metrics["accuracy"], (2.0, 3.0))
        # Rows that fill the batch count nothing.
        features = _tagging_features(example_weights=tf.constant([0.0, 1.0]))
        denominators = objective.denominators(features)
        self.assertAllClose(denominators, {"loss": 1.0})
        outcome = objective.outcome(features, denominators, None)
        self.assertAllClose(outcome.losses["loss"], -np.log(7 / 8), atol=1e-6)

    def test_predictions(self):
        objective = tagging_objective.TaggingObjective(_Tagger())
        features = _tagging_features()
        scores = objective.predictions(features)
        self.assertAllEqual(scores["label_ids"][0], [0, 0, 1])
        self.assertAllEqual(scores["label_mask"], [[1, 0, 1], [0, 1, 0]])
        self.assertAllClose(
            scores["losses"], [-np.log(3 / 4 / 5), -np.log(7 / 8)], atol=1e-6
        )
        # Labels may be longer than inputs whose padding was cut.
        for name in ("label_ids", "label_mask"):
            features[name] = tf.pad(features[name], [[0, 0], [0, 2]])
        self.assertAllClose(objective.predictions(features), scores)

    def test_model_is_called_with_its_inputs_and_the_seed(self):
        model = _Tagger(features="last")
        seed = tf.constant([1, 2])
        objective = tagging_objective.TaggingObjective(model)
        objective.outcome(_tagging_features(), {"loss": 3.0}, seed)
        names = sorted([*objectives.PIECE_INPUTS, "label_mask"])
        self.assertEqual(model.seen, (seed, names))


def test_records_hold_five_rows_of_a_length():
    features = windows.record_features(7)
    assert {f.name: f.shape for f in features} == dict.fromkeys(
        ["input_ids", "input_mask", "segment_ids", "label_ids", "label_mask"],
        (7,),
    )


# -------------------------------------------------------------- Pre-training


def _pretraining_features(num_examples=3):
    return {
        name: tf.constant(
            rows, tf.float32 if name == "masked_lm_weights" else tf.int32
        )
        for name, rows in toy.random_examples(num_examples).items()
    }


@pytest.fixture(scope="module")
def models():
    """One model for each objective, all of the same weights."""
    keras.config.set_dtype_policy("float32")
    config = toy_config.config(initializer_range=0.2)
    made = {
        name: heads.BertForPreTraining(config, objective=name)
        for name in heads.OBJECTIVES
    }
    for model in made.values():
        model.set_weights(made["mlm_nsp"].get_weights())
    return made


def _pretrained(models, name, features, denominators=None):
    objective = pretraining_objective.PretrainingObjective(models[name], name)
    if denominators is None:
        denominators = objective.denominators(features)
    outcome = objective.outcome(features, denominators, None)
    return tf.nest.map_structure(
        lambda x: x.numpy().item(),
        {"losses": outcome.losses, "metrics": outcome.metrics},
    )


def test_masked_words_alone_leave_next_sentences_out(models):
    features = _pretraining_features()
    both = _pretrained(models, "mlm_nsp", features)
    alone = _pretrained(models, "mlm", features)
    assert set(both["losses"]) == {"masked_lm_loss", "next_sentence_loss"}
    assert set(alone["losses"]) == {"masked_lm_loss"}
    assert set(alone["metrics"]) == {"masked_lm_loss", "masked_lm_accuracy"}
    assert alone["losses"]["masked_lm_loss"] == pytest.approx(
        both["losses"]["masked_lm_loss"], rel=1e-6
    )


def test_a_prediction_of_no_weight_counts_for_nothing(models):
    features = _pretraining_features()
    weights = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]], np.float32)
    features["masked_lm_weights"] = tf.constant(weights)
    before = _pretrained(models, "mlm", features)
    ids = features["masked_lm_ids"].numpy()
    ids[weights == 0] = 17
    after = _pretrained(models, "mlm", {**features, "masked_lm_ids": ids})
    assert before == after
    assert before["metrics"]["masked_lm_loss"][1] == 3


def test_left_to_right_reads_the_original_text(models):
    features = _pretraining_features()
    reads = {}
    model = models["ltr"]

    def recorded(**inputs):
        reads.update(inputs)
        return model(**inputs)

    objective = pretraining_objective.PretrainingObjective(recorded, "ltr")
    outcome = objective.outcome(
        features, objective.denominators(features), None
    )
    original = features["input_ids"].numpy()
    rows = np.arange(3)[:, np.newaxis]
    original[rows, features["masked_lm_positions"]] = features["masked_lm_ids"]
    np.testing.assert_array_equal(reads["input_ids"], original)
    np.testing.assert_array_equal(
        reads["masked_lm_positions"], np.tile(np.arange(9), (3, 1))
    )
    # Every token but the first of each text is predicted.
    predicted = outcome.metrics["masked_lm_loss"][1].numpy()
    assert predicted == features["input_mask"].numpy().sum() - 3


def test_left_to_right_need_not_know_the_number_of_rows(models):
    features = _pretraining_features()
    specs = {
        name: tf.TensorSpec([None, *value.shape[1:]], value.dtype)
        for name, value in features.items()
    }

    def run(features):
        objective = pretraining_objective.PretrainingObjective(
            models["ltr"], "ltr"
        )
        return objective.outcome(
            features, objective.denominators(features), None
        ).losses["masked_lm_loss"]

    compiled = tf.function(run, [specs], autograph=False)
    assert float(compiled(features)) == pytest.approx(float(run(features)))


def test_left_to_right_ignores_padded_predictions(models):
    features = _pretraining_features()
    positions = features["masked_lm_positions"].numpy()
    positions[:, 1] = 0
    ids = features["masked_lm_ids"].numpy()
    ids[:, 1] = 0
    padded = {
        **features,
        "masked_lm_positions": tf.constant(positions),
        "masked_lm_ids": tf.constant(ids),
        "masked_lm_weights": tf.constant([[1.0, 0.0]] * 3),
    }
    single = {
        name: value[:, :1] if name.startswith("masked_lm") else value
        for name, value in padded.items()
    }
    assert _pretrained(models, "ltr", padded) == _pretrained(
        models, "ltr", single
    )


def test_left_to_right_gives_padding_no_weight(models):
    features = _pretraining_features()
    before = _pretrained(models, "ltr", features)
    ids = features["input_ids"].numpy()
    ids[features["input_mask"].numpy() == 0] = 9
    after = _pretrained(
        models, "ltr", {**features, "input_ids": tf.constant(ids)}
    )
    assert after["losses"] == pytest.approx(before["losses"], rel=1e-6)


@pytest.mark.parametrize("name", heads.OBJECTIVES)
def test_rows_that_fill_the_batch_count_for_nothing(models, name):
    features = _pretraining_features(3)
    expected = _pretrained(
        models, name, {key: rows[:2] for key, rows in features.items()}
    )
    filled = _pretrained(
        models, name, {**features, "example_weights": tf.constant([1.0, 1, 0])}
    )
    for part in ("losses", "metrics"):
        for key, value in expected[part].items():
            assert filled[part][key] == pytest.approx(value, rel=1e-5), key


@pytest.mark.parametrize("name", heads.OBJECTIVES)
def test_parts_of_a_batch_add_up_to_its_losses(models, name):
    features = _pretraining_features(3)
    whole = _pretrained(models, name, features)
    objective = pretraining_objective.PretrainingObjective(models[name], name)
    denominators = objective.denominators(features)
    parts = [
        _pretrained(
            models,
            name,
            {key: rows[chosen] for key, rows in features.items()},
            denominators,
        )
        for chosen in (slice(0, 1), slice(1, 3))
    ]
    for key, value in whole["losses"].items():
        summed = sum(part["losses"][key] for part in parts)
        assert summed == pytest.approx(value, rel=1e-5)


# ------------------------------------------------------------ Packed batches


def _few_texts():
    lengths = np.array([4, 7, 2, 9, 1])
    mask = (np.arange(9) < lengths[:, np.newaxis]).astype(np.int32)
    ids = np.random.default_rng(3).integers(1, 31, mask.shape) * mask
    features = {
        "input_ids": ids.astype(np.int32),
        "input_mask": mask,
        "segment_ids": np.zeros_like(mask),
        "label_ids": ids.astype(np.int32) % 3,
        "label_mask": mask,
    }
    return features, padding.pack(lengths, 9)


def test_a_packed_tagger_has_the_same_loss():
    model = heads.BertForTokenClassification(
        toy_config.config(initializer_range=0.3), num_labels=3
    )
    objective = tagging_objective.TaggingObjective(model)
    features, packed = _few_texts()
    denominators = objective.denominators(features)
    want, got = (
        objective.outcome(each, denominators, None)
        for each in (features, {**features, "packed": packed})
    )
    np.testing.assert_allclose(got.losses["loss"], want.losses["loss"], 1e-5)
    np.testing.assert_allclose(
        got.metrics["accuracy"], want.metrics["accuracy"]
    )


# Keras warns of the softmax of a text of one token.
@pytest.mark.filterwarnings("ignore:You are using a softmax over axis")
def test_packed_answers_do_not_compete_with_padding():
    model = heads.BertForQuestionAnswering(
        toy_config.config(initializer_range=0.3)
    )
    objective = squad_objective.SpanExtraction(model)
    features, packed = _few_texts()
    features["start_positions"] = np.array([[3], [0], [1], [8], [0]])
    features["end_positions"] = np.array([[3], [6], [1], [8], [0]])
    got = objective.row_losses(
        {**features, "packed": packed},
        objective.outputs({**features, "packed": packed}, None),
    )
    for row, length in enumerate([4, 7, 2, 9, 1]):
        alone = {
            name: value[row : row + 1, :length]
            for name, value in features.items()
        }
        want = objective.row_losses(alone, objective.outputs(alone, None))
        np.testing.assert_allclose(got[row], want[0], atol=1e-5)
