"""The memory of one training step, in a process of its own."""

import dataclasses
import json
import pathlib
import subprocess
import sys
from collections.abc import Mapping

import numpy as np

from benchmarks import scaling_costs, scaling_measurement

_ROOT = pathlib.Path(__file__).parents[1]
_NUM_LABELS = 2
# The first step compiles; later ones may hold what the one before left.
_NUM_STEPS = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """A training step; of fine-tuning where it predicts no masked words.

    Attributes:
        sizes: the keys of a `bert_config.json`.
        num_rows: B, sequences of the step.
        max_seq_length: T.
        max_predictions_per_seq: P; 0 for a step that labels sentences.
        method: the fields of `scaling_costs.Method`.
    """

    sizes: Mapping[str, object]
    num_rows: int
    max_seq_length: int
    max_predictions_per_seq: int
    method: Mapping[str, object]


def peak_bytes_apart(job: Job) -> int:
    """Measures a step in a new process.

    Returns:
        Bytes held at most above those after the imports.

    Raises:
        RuntimeError: the process failed, perhaps for want of memory.
    """
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.memory_step"),
            json.dumps(dataclasses.asdict(job)),
        ],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(
            f"A step of {job.num_rows} x {job.max_seq_length} ended with "
            f"{done.returncode}: {done.stderr[-2000:]}"
        )
    return int(done.stdout.splitlines()[-1])


def _peak_bytes(job: Job) -> int:
    """Measures a step in this process, which must have done nothing before."""
    method = scaling_costs.Method(**job.method)
    import tensorflow as tf

    run = _prepare(job, method)
    tf.zeros([1]).numpy()  # The devices are set up by the first operation.
    before = scaling_measurement.memory_bytes("self", "VmRSS")
    run()
    return scaling_measurement.memory_bytes("self") - before


def _prepare(job: Job, method: scaling_costs.Method):
    """Imports everything; returns what builds a model and makes the steps."""
    import tensorflow as tf

    from modeling import config as config_lib
    from modeling import heads
    from training import (
        checkpointing,
        objectives,
        optimization,
        runtime,
        steps,
    )

    runtime.set_precision(method.precision)
    runtime.set_seed(1)
    strategy = runtime.make_strategy(runtime.DeviceOptions())
    config = config_lib.BertConfig(**job.sizes)

    def objective():
        if job.max_predictions_per_seq:
            model = heads.BertForPreTraining(config)
            return objectives.Pretraining(model, "mlm_nsp")
        model = heads.BertForSequenceClassification(
            config, num_labels=_NUM_LABELS
        )
        return objectives.Classification(model, objectives.SINGLE_LABEL)

    def run():
        with strategy.scope():
            goal = objective()
            goal.model.bert.encoder.recompute = method.recompute
            state = steps.TrainState(
                objective=goal,
                optimizer=optimization.AdamWeightDecayOptimizer(
                    checkpointing.weights(goal.model)
                ),
                schedule=optimization.Schedule(
                    init_lr=1e-4, num_train_steps=_NUM_STEPS
                ),
                loss_scale=steps.LossScale(active=False),
                seed=1,
            )
        trainer = steps.Trainer(strategy, state)
        batch = {name: tf.constant(row) for name, row in rows(job).items()}
        batches = tf.data.Dataset.from_tensors(batch).repeat()
        iterator = iter(strategy.experimental_distribute_dataset(batches))
        for step in range(_NUM_STEPS):
            result = trainer.run(
                iterator, step, 1, num_accumulation_steps=method.num_parts
            )
            result["gradient_norm"].numpy()

    return run


def rows(job: Job) -> dict[str, np.ndarray]:
    """Makes a batch of random words without padding.

    Returns:
        By feature: `[B, T]`, `[B, P]` or `[B, 1]` int32; weights float32.
    """
    rng = np.random.default_rng(1)
    num_rows, length = job.num_rows, job.max_seq_length
    num_words = job.sizes["vocab_size"]
    batch = {
        "input_ids": rng.integers(1, num_words, (num_rows, length)),
        "input_mask": np.ones((num_rows, length)),
        "segment_ids": rng.integers(0, 2, (num_rows, length)),
    }
    predictions = (num_rows, job.max_predictions_per_seq)
    if job.max_predictions_per_seq:
        batch |= {
            "masked_lm_positions": rng.integers(1, length, predictions),
            "masked_lm_ids": rng.integers(1, num_words, predictions),
            "next_sentence_labels": rng.integers(0, 2, (num_rows, 1)),
        }
    else:
        batch["label_ids"] = rng.integers(0, _NUM_LABELS, (num_rows, 1))
    batch = {name: values.astype(np.int32) for name, values in batch.items()}
    if job.max_predictions_per_seq:
        batch["masked_lm_weights"] = np.ones(predictions, np.float32)
    return batch


if __name__ == "__main__":
    sys.stdout.write(f"{_peak_bytes(Job(**json.loads(sys.argv[1])))}\n")
