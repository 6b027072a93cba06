"""The release's fine-tuning steps on answer spans, on fixed batches."""

import gzip
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from modeling import checkpoints, heads
from modeling import config as config_lib
from training import checkpointing, objectives, optimization, steps

_GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
# Suggested by the golden README for losses and norms, relative.
_TOLERANCE = 1e-4


def _golden():
    return json.loads((_GOLDEN / "optimizer/finetune.json").read_text())[
        "squad"
    ]


def _batches(golden):
    """Yields the batches that the release was given, in order."""
    with gzip.open(_GOLDEN / "squad/features.json.gz", "rt") as file:
        features = json.load(file)[golden["features"]]
    indexes, size = golden["feature_indexes"], golden["batch_size"]
    for step in range(golden["steps"]):
        rows = [features[i] for i in indexes[step * size : (step + 1) * size]]
        batch = {
            name: np.array([row[name] for row in rows], np.int32)
            for name in ("input_ids", "input_mask", "segment_ids")
        }
        for place in ("start", "end"):
            positions = [[row[f"{place}_position"]] for row in rows]
            batch[f"{place}_positions"] = np.array(positions, np.int32)
        batch["unique_ids"] = np.arange(size, dtype=np.int32)[:, None]
        yield batch


def _trained(golden):
    """Makes the steps; returns their results and the weights by name."""
    config = config_lib.BertConfig.from_dict(
        {
            **json.loads((_GOLDEN / "inputs/bert_config.json").read_text()),
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        }
    )
    strategy = tf.distribute.get_strategy()
    model = heads.BertForQuestionAnswering(config)
    checkpoints.load(model, str(_GOLDEN / golden["init_checkpoint"]))
    weights = checkpointing.weights(model)
    for name, value in golden["head_init"].items():
        weights[name].assign(value)
    state = steps.TrainState(
        objective=objectives.SpanExtraction(model),
        optimizer=optimization.AdamWeightDecayOptimizer(weights),
        schedule=optimization.Schedule(
            init_lr=golden["learning_rate"],
            num_train_steps=golden["num_train_steps"],
            num_warmup_steps=golden["num_warmup_steps"],
        ),
        loss_scale=steps.LossScale(active=False),
        seed=1,
    )
    trainer = steps.Trainer(strategy, state)
    dataset = tf.data.Dataset.from_generator(
        lambda: _batches(golden),
        output_signature={
            name: tf.TensorSpec(value.shape, tf.int32)
            for name, value in next(_batches(golden)).items()
        },
    )
    iterator = iter(dataset)
    results = [trainer.run(iterator, i, 1) for i in range(golden["steps"])]
    return results, {name: v.numpy() for name, v in weights.items()}


def _dense_run(golden):
    """Finds the run that clips by the true norm, as is done here."""
    return next(r for r in golden["runs"] if r["one_hot_embeddings"])


def test_steps_are_the_release_s():
    golden = _golden()
    run = _dense_run(golden)
    results, weights = _trained(golden)
    for result, expected in zip(results, run["log"], strict=True):
        np.testing.assert_allclose(
            result["learning_rate"], expected["learning_rate"], rtol=1e-6
        )
        np.testing.assert_allclose(
            result["losses"]["loss"], expected["loss"], rtol=_TOLERANCE
        )
        np.testing.assert_allclose(
            result["gradient_norm"],
            expected["dense_gradient_norm"],
            rtol=_TOLERANCE,
        )
    assert len(run["final"]) == 5
    for name, value in run["final"].items():
        np.testing.assert_allclose(
            weights[name], value, rtol=0, atol=1e-5, err_msg=name
        )


def test_the_pooler_is_left_as_it_was():
    golden = _golden()
    assert _dense_run(golden)["no_gradient"]
    _, weights = _trained(golden)
    before = checkpoints.read(str(_GOLDEN / golden["init_checkpoint"]))
    for name in _dense_run(golden)["no_gradient"]:
        assert np.array_equal(weights[name], before[name]), name


@pytest.mark.parametrize("row", [0, 3])
def test_filler_rows_weigh_nothing(row):
    golden = _golden()
    config = config_lib.BertConfig.from_json_file(
        str(_GOLDEN / "inputs/bert_config.json")
    )
    objective = objectives.SpanExtraction(
        heads.BertForQuestionAnswering(config)
    )
    batch = next(_batches(golden))
    weights = np.ones(golden["batch_size"], np.float32)
    weights[row] = 0
    weighted = {**batch, "example_weights": weights}
    kept = {k: np.delete(v, row, axis=0) for k, v in batch.items()}
    losses = [
        objective.outcome(b, objective.denominators(b), None).losses["loss"]
        for b in (weighted, kept)
    ]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
