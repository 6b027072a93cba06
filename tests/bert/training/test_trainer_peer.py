"""Fine-tuning here and by Hugging Face's Trainer, which learn the same.

Needs an interpreter with transformers, torch and accelerate, named by
BERT_PEER_PYTHON.
"""

import gzip
import json
import os
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from bert.tasks import task
from bert.tasks.classification import objective as classification_objective
from bert.training import checkpointing, optimization, steps
from modeling import checkpoints, heads
from modeling import config as config_lib
from tests.support import locations, peer
from tools import convert_checkpoint

_ROOT = locations.ROOT
_GOLDEN = locations.GOLDEN
_STEPS, _WARMUP, _BATCH, _RATE = 20, 2, 4, 5e-4

pytestmark = peer.MARKS

# Trains in the order of the file, and writes its log and its weights.
_TRAIN = """
import json, sys
import transformers
folder, rows, output_dir, batch, rate, warmup = sys.argv[1:]
model = transformers.BertForSequenceClassification.from_pretrained(folder)
running = transformers.Trainer(
    model=model,
    args=transformers.TrainingArguments(
        output_dir=output_dir, use_cpu=True, num_train_epochs=1,
        per_device_train_batch_size=int(batch), learning_rate=float(rate),
        warmup_steps=int(warmup),
        adam_epsilon=1e-6, weight_decay=0.01, max_grad_norm=1.0,
        save_strategy="no", report_to="none", logging_steps=1,
        train_sampling_strategy="sequential"),
    train_dataset=json.load(open(rows)))
running.train()
running.save_model(folder + "-trained")
print(json.dumps(running.state.log_history))
"""


def _convert(source, target):
    convert_checkpoint.convert(
        convert_checkpoint.Options(
            input=str(source),
            output=str(target),
            output_format="huggingface",
            vocab_file=str(_GOLDEN / "inputs/vocab.txt"),
        )
    )


@pytest.fixture(name="start")
def _start(tmp_path):
    """Writes a classifier without dropout in Hugging Face's form."""
    config = config_lib.BertConfig.from_dict(
        {
            **json.loads((_GOLDEN / "inputs/bert_config.json").read_text()),
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
            "classifier_dropout_prob": 0.0,
        }
    )
    model = heads.BertForSequenceClassification(config, num_labels=2)
    checkpoints.load(
        model,
        str(_GOLDEN / "model/tiny.ckpt"),
        new=("output_weights", "output_bias"),
    )
    (tmp_path / "ours").mkdir()
    prefix = str(tmp_path / "ours/model.ckpt-0")
    checkpoints.save(prefix, checkpoints.variables_by_name(model))
    text = json.dumps(model.config.to_dict())
    (tmp_path / "ours/bert_config.json").write_text(text)
    _convert(prefix, tmp_path / "hf")
    return str(tmp_path / "hf")


def _rows():
    with gzip.open(_GOLDEN / "classifier/features.json.gz", "rt") as file:
        features = json.load(file)["features"]["MRPC/train/seq64/lower"]
    return [
        features[number % len(features)] for number in range(_STEPS * _BATCH)
    ]


def _train_here(start, rows):
    model = heads.BertForSequenceClassification(
        config_lib.BertConfig.from_checkpoint(start), num_labels=2
    )
    checkpoints.load(model, start)
    weights = checkpointing.weights(model)
    schedule = optimization.Schedule(
        init_lr=_RATE,
        num_train_steps=_STEPS,
        num_warmup_steps=_WARMUP,
        kind="continuous",
    )
    names = ("input_ids", "input_mask", "segment_ids")
    dataset = tf.data.Dataset.from_tensor_slices(
        {
            **{n: np.array([r[n] for r in rows], np.int32) for n in names},
            "label_ids": np.array([[r["label_id"]] for r in rows], np.int32),
        }
    ).batch(_BATCH)
    trainer = steps.Trainer(
        tf.distribute.get_strategy(),
        classification_objective.ClassificationObjective(
            model, task.SINGLE_LABEL
        ),
        optimization.AdamWeightDecayOptimizer(
            weights, optimization.AdamOptions(bias_correction=True)
        ),
    )
    iterator = iter(dataset)
    log = [
        trainer.run(iterator, i, schedule.learning_rate(i), seed=1)
        for i in range(_STEPS)
    ]
    return log, {name: v.numpy() for name, v in weights.items()}


def test_steps_are_those_of_their_trainer(tmp_path, start):
    rows = _rows()
    theirs = [
        {
            "input_ids": row["input_ids"],
            "attention_mask": row["input_mask"],
            "token_type_ids": row["segment_ids"],
            "labels": row["label_id"],
        }
        for row in rows
    ]
    (tmp_path / "rows.json").write_text(json.dumps(theirs))
    settings = [str(_BATCH), str(_RATE), str(_WARMUP)]
    command = [peer.PYTHON, "-c", _TRAIN, start]
    done = subprocess.run(
        [
            *command,
            str(tmp_path / "rows.json"),
            str(tmp_path / "out"),
            *settings,
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=_ROOT,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    expected = json.loads(done.stdout.splitlines()[-1])
    log, weights = _train_here(start, rows)
    for step in range(_STEPS):
        for name, got in (
            ("learning_rate", log[step].learning_rate),
            ("loss", log[step].losses["loss"]),
            ("grad_norm", log[step].gradient_norm),
        ):
            np.testing.assert_allclose(
                got, expected[step][name], rtol=1e-5, err_msg=f"{step} {name}"
            )
    trained = checkpoints.read(f"{start}-trained")
    before = checkpoints.read(start)
    assert trained.keys() == weights.keys()
    for name, value in trained.items():
        if not name.endswith("key/bias"):  # Softmax ignores it: no gradient.
            assert np.abs(value - before[name]).max() > 1e-3, name
        np.testing.assert_allclose(
            weights[name], value, atol=2e-6, rtol=0, err_msg=name
        )
