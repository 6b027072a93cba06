"""The release's steps on fixed batches, made again and compared."""

import json

import numpy as np
import tensorflow as tf

from bert.tasks.pretraining import objective as pretraining_objective
from bert.training import checkpointing, optimization, steps
from modeling import checkpoints, heads
from modeling import config as config_lib
from tests.support import locations, toy_files


def pretraining(strategy, mode, *, dropout=None, scales_loss=False):
    """Starts the golden pre-training; returns its trainer.

    Args:
        strategy: holds the variables.
        mode: see `compilation.ExecutionMode`.
        dropout: all rates, or None for those of the configuration.
        scales_loss: see `steps.Trainer`.
    """
    sizes = json.loads(
        (locations.GOLDEN / "inputs/bert_config.json").read_text()
    )
    if dropout is not None:
        names = ("hidden_dropout_prob", "attention_probs_dropout_prob")
        sizes |= dict.fromkeys(names, dropout)
    with strategy.scope():
        made = heads.BertForPreTraining(config_lib.BertConfig.from_dict(sizes))
        checkpoints.load(made, str(locations.GOLDEN / "model/tiny.ckpt"))
        return steps.Trainer(
            strategy,
            pretraining_objective.PretrainingObjective(made, "mlm_nsp"),
            optimization.AdamWeightDecayOptimizer(
                checkpointing.weights(made), mode=mode
            ),
            scales_loss=scales_loss,
            mode=mode,
        )


def read(task):
    """Reads the runs of a task, `classifier` or `squad`."""
    return toy_files.read_json(locations.GOLDEN / "optimizer/finetune.json")[
        task
    ]


def model(golden, make):
    """Makes the model from which the runs start, without dropout.

    Args:
        golden: see `read`.
        make: turns a configuration into a model.
    """
    sizes = toy_files.read_json(locations.GOLDEN / "inputs/bert_config.json")
    sizes |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    made = make(config_lib.BertConfig.from_dict(sizes))
    head = golden["head_init"]
    start = str(locations.GOLDEN / golden["init_checkpoint"])
    checkpoints.load(made, start, new=tuple(head))
    for name, value in head.items():
        checkpointing.weights(made)[name].assign(value)
    return made


def train(golden, objective, batches):
    """Makes the steps; returns their results and the weights by name."""
    weights = checkpointing.weights(objective.model)
    schedule = optimization.Schedule(
        init_lr=golden["learning_rate"],
        num_train_steps=golden["num_train_steps"],
        num_warmup_steps=golden["num_warmup_steps"],
    )
    dataset = tf.data.Dataset.from_generator(
        lambda: iter(batches),
        output_signature={
            name: tf.TensorSpec([value.shape[0], None], tf.int32)
            for name, value in batches[0].items()
        },
    )
    trainer = steps.Trainer(
        tf.distribute.get_strategy(),
        objective,
        optimization.AdamWeightDecayOptimizer(weights),
    )
    iterator = iter(dataset)
    results = [
        trainer.run(iterator, i, schedule.learning_rate(i), seed=1)
        for i in range(len(batches))
    ]
    return results, {name: v.numpy() for name, v in weights.items()}


def check_filler_rows(objective, batch, row):
    """Compares the loss without a row with the loss of a weight of 0 for it."""
    weights = np.ones(len(batch["input_ids"]), np.float32)
    weights[row] = 0
    weighted = {**batch, "example_weights": weights}
    kept = {k: np.delete(v, row, axis=0) for k, v in batch.items()}
    losses = [
        objective.outcome(b, objective.denominators(b), None).losses["loss"]
        for b in (weighted, kept)
    ]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


def run(golden):
    """Finds the run that clips by the true norm, as is done here."""
    return next(r for r in golden["runs"] if r["one_hot_embeddings"])


def check(golden, trained, tolerance, **of_weights):
    """Compares steps with those of the release.

    Args:
        golden: see `read`.
        trained: what `train` returned.
        tolerance: of losses and norms, relative.
        **of_weights: tolerances of the weights, `rtol` and `atol`.
    """
    results, weights = trained
    for result, expected in zip(results, run(golden)["log"], strict=True):
        for found, name, rtol in (
            (result.learning_rate, "learning_rate", 1e-6),
            (result.losses["loss"], "loss", tolerance),
            (result.gradient_norm, "dense_gradient_norm", tolerance),
        ):
            np.testing.assert_allclose(
                found, expected[name], rtol=rtol, err_msg=name
            )
    final = run(golden)["final"]
    assert len(final) == 5
    for name, value in final.items():
        np.testing.assert_allclose(
            weights[name], value, err_msg=name, **of_weights
        )
