"""A small pre-training run, of which the tests of training make variations."""

import json
import os
import signal
from unittest import mock

import numpy as np
import pytest

import run_pretraining
from bert.records import schema, sidecars, tfrecords
from bert.training import reporting
from modeling import checkpoints
from tests.support import locations, programs, toy_config, warm

GOLDEN = locations.GOLDEN
CONFIG = GOLDEN / "inputs" / "bert_config.json"
CHECKPOINT = GOLDEN / "model" / "tiny.ckpt"
write_config = toy_config.write


def golden_examples() -> dict[str, np.ndarray]:
    """Reads the 211 records of the golden training and evaluation runs."""
    with np.load(GOLDEN / "pretraining" / "ab.npz") as arrays:
        return dict(arrays)


def random_examples(num_examples=50, seq_length=10, seed=1):
    """Draws records of two predictions each over 31 words."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(4, seq_length + 1, num_examples)
    mask = (np.arange(seq_length) < lengths[:, np.newaxis]).astype(int)
    return {
        "input_ids": rng.integers(1, 31, mask.shape) * mask,
        "input_mask": mask,
        "segment_ids": mask * (np.arange(seq_length) > 2),
        "masked_lm_positions": np.tile([1, 3], (num_examples, 1)),
        "masked_lm_ids": rng.integers(1, 31, (num_examples, 2)),
        "masked_lm_weights": np.tile([1.0, 1.0], (num_examples, 1)),
        "next_sentence_labels": rng.integers(0, 2, (num_examples, 1)),
    }


def write_records(path, examples) -> str:
    """Writes examples, a dict of arrays, as one file without a sidecar."""
    features = schema.pretraining_features(
        examples["input_ids"].shape[1], examples["masked_lm_ids"].shape[1]
    )
    rows = (
        {feature.name: examples[feature.name][row] for feature in features}
        for row in range(len(examples["input_ids"]))
    )
    tfrecords.write_rows(str(path), rows, features)
    return str(path)


def metadata_of(**changes) -> sidecars.Metadata:
    """Describes records of `random_examples`, as their sidecar does."""
    values = {
        "kind": "pretraining",
        "max_seq_length": 10,
        "max_predictions_per_seq": 2,
        "vocab_size": 31,
        "vocab_sha256": "0" * 64,
        "do_lower_case": True,
        "num_records": 50,
        **changes,
    }
    return sidecars.Metadata(**values)


def write_unmasked_records(path, num_examples=50, **flags) -> str:
    """Writes records to be masked in training, with the sidecar they need."""
    examples = random_examples(num_examples)
    features = schema.unmasked_features(10, do_whole_word_mask=False)
    rows = (
        {feature.name: examples[feature.name][row] for feature in features}
        for row in range(num_examples)
    )
    tfrecords.write_rows(str(path), rows, features)
    metadata = metadata_of(
        num_records=num_examples,
        flags={
            "masked_lm_prob": 0.15,
            "do_whole_word_mask": False,
            "masking": [80, 10, 10],
            sidecars.MASK_ID: 4,
            **flags,
        },
    )
    sidecars.write_metadata(str(path), metadata)
    return str(path)


def flags_of(folder, **changes) -> dict[str, object]:
    """Names the flags of a run on toy records in a folder, made if missing.

    Args:
        folder: holds `records`, `bert_config.json` and, as `output_dir`, `out`.
        **changes: flags that differ from those of the toy run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "records").exists():
        write_records(folder / "records", random_examples())
    if not (folder / "bert_config.json").exists():
        write_config(folder / "bert_config.json")
    return {
        "input_file": str(folder / "records"),
        "bert_config_file": str(folder / "bert_config.json"),
        "output_dir": str(folder / "out"),
        "max_seq_length": 10,
        "max_predictions_per_seq": 2,
        "do_train": True,
        "train_batch_size": 4,
        "num_train_steps": 13,
        "num_warmup_steps": 3,
        "learning_rate": 0.01,
        "log_every_steps": 1,
        "save_checkpoints_steps": 5,
        **changes,
    }


class OneWorker:
    """Stands in for the strategy of one of several workers."""

    def __init__(self, context):
        self._context = context
        self.num_replicas_in_sync = context.num_replicas_in_sync

    def distribute_datasets_from_function(self, make):
        return make(self._context)


_TOY = programs.Toy(run_pretraining, flags_of)
parse, run, resume = _TOY.parse, _TOY.run, _TOY.resume


def start(folder, environment=None, log="log", until=None, **changes):
    """Starts the toy run as a program of its own; returns its process.

    Args:
        folder: as for `flags_of`.
        environment: variables beside those of this process.
        log: name of the file in the folder that takes what it says.
        until: a name of a file; the process is killed before it is there.
        **changes: flags that differ from those of the toy run.
    """
    named = flags_of(folder, **changes)
    command = ["run_pretraining.py"]
    command += [f"--{name}={value}" for name, value in named.items()]
    if until:
        command = ["-m", "tests.support.killed_program", until, *command]
    return warm.start(command, folder / log, environment=environment)


def metrics(folder) -> list[dict[str, float]]:
    """Reads what a run reported, leaving its speed out."""
    speeds = {"examples_per_second", "input_wait"}
    lines = (folder / "out" / "metrics.jsonl").read_text().splitlines()
    return [
        {k: v for k, v in json.loads(line).items() if k not in speeds}
        for line in lines
    ]


def weights(folder, step) -> dict[str, np.ndarray]:
    """Reads the checkpoint of a step of a run."""
    return checkpoints.read(str(folder / "out" / f"model.ckpt-{step}"))


def check_same_run(folder, unbroken, step, num_resumes=1) -> None:
    """Compares the reports and the last checkpoints of two runs.

    That the one was resumed is for `resume` to see. The first report after a
    resume averages over the steps since then.

    Args:
        folder: of a run that was resumed.
        unbroken: of a run that was not.
        step: the last one.
        num_resumes: the number of reports that may differ in their means.
    """
    pairs = list(zip(metrics(folder), metrics(unbroken), strict=True))
    for ours, theirs in pairs:
        assert ours.keys() == theirs.keys() and ours["step"] == theirs["step"]
        assert ours.get("learning_rate") == theirs.get("learning_rate")
    differing = [ours for ours, theirs in pairs if ours != theirs]
    assert len(differing) <= num_resumes
    assert not any(n.startswith("eval_") for line in differing for n in line)
    found, expected = weights(folder, step), weights(unbroken, step)
    np.testing.assert_equal(found, expected)
    results = [each / "out" / "eval_results.txt" for each in (folder, unbroken)]
    assert results[0].exists() == results[1].exists()
    if results[0].exists():
        assert results[0].read_text() == results[1].read_text()


def stop(folder, step, event="report_training", **changes) -> None:
    """Runs until a step is reported, when SIGTERM comes to this process.

    Args:
        folder: as for `flags_of`.
        step: the one reported; nothing outside tells when that is.
        event: the report, a method of `Reporter`.
        **changes: flags that differ from those of the toy run.
    """
    original = getattr(reporting.Reporter, event)

    def then_stop(self, *args):
        original(self, *args)
        if args[0] == step:
            os.kill(os.getpid(), signal.SIGTERM)

    with (
        mock.patch.object(reporting.Reporter, event, then_stop),
        pytest.raises(SystemExit) as stopped,
    ):
        run(folder, **changes)
    assert stopped.value.code == 128 + signal.SIGTERM
