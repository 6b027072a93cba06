"""Asks exported models in a process that has TensorFlow (Text) alone."""

import json
import os
import shutil
import subprocess
import sys

from tests.support import locations

_ROOT = locations.ROOT
_ASK = """
import json, pathlib, sys
import tensorflow as tf
import tensorflow_text

folder, signature, root = sys.argv[1:]
function = tf.saved_model.load(folder).signatures[signature]
_, wanted = function.structured_input_signature

def tensor(name, value):
    if wanted[name].dtype == tf.string:
        value = encoded(value)
    shape = None if value else [0] * wanted[name].shape.rank
    return tf.constant(value, wanted[name].dtype, shape)

def encoded(value):
    if isinstance(value, list):
        return [encoded(x) for x in value]
    return bytes.fromhex(value)

def plain(value):
    if isinstance(value, list):
        return [plain(x) for x in value]
    return value.decode() if isinstance(value, bytes) else value

answers = []
for inputs in json.load(sys.stdin):
    outputs = function(**{k: tensor(k, v) for k, v in inputs.items()})
    answers.append({k: plain(v.numpy().tolist()) for k, v in outputs.items()})
ours = sorted(
    name
    for name, module in sys.modules.items()
    for file in [getattr(module, "__file__", None) or ""]
    if file.startswith(root) and "site-packages" not in file
)
print(json.dumps([answers, ours]))
"""


def golden_classifier(folder):
    """Makes the folder of a run out of the release's classifier."""
    _golden(folder, "classifier/mrpc.ckpt-24.*")
    describe(
        folder,
        task="classification",
        labels=["0", "1"],
        problem_type="single_label",
        max_seq_length=128,
    )
    return folder


def golden_model(folder):
    """Makes a folder of the release's model, which answers questions too."""
    return _golden(folder, "model/tiny.ckpt.*")


def golden_sentence_encoder(folder, pooling="mean"):
    """Makes the folder of a sentence encoder out of the release's model."""
    _golden(folder, "model/tiny.ckpt.*")
    # The weights have the output layers of all tasks.
    describe(folder, task="pretraining", max_seq_length=9)
    types = ("Transformer", "Pooling", "Normalize")
    modules = [
        {"type": f"sentence_transformers.models.{name}", "path": path}
        for name, path in zip(types, ("", "1_Pooling", "2_N"), strict=True)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    config = json.dumps({"pooling_mode": pooling})
    (folder / "1_Pooling/config.json").write_text(config)
    return folder


def _golden(folder, weights):
    folder.mkdir()
    golden = _ROOT / "tests/golden"
    files = [golden / "inputs/vocab.txt", golden / "inputs/bert_config.json"]
    for file in (*golden.glob(weights), *files):
        shutil.copy(file, folder)
    return folder


def describe(folder, **description):
    """Writes task.json."""
    values = {"do_lower_case": True, **description}
    (folder / "task.json").write_text(json.dumps(values))


def ask(folder, *requests, signature="serving_default"):
    """Asks a model.

    Args:
        folder: of a version.
        *requests: inputs by name: lists of `str` or `bytes`, or of numbers.
        signature: which.

    Returns:
        For each request its outputs by name, as lists.
    """
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    process = subprocess.run(
        [sys.executable, "-c", _ASK, str(folder), signature, f"{_ROOT}/"],
        input=json.dumps(
            [{k: _in_hex(v) for k, v in r.items()} for r in requests]
        ),
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env=environment,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    answers, ours = json.loads(process.stdout.splitlines()[-1])
    assert ours == []
    return answers


def _in_hex(value):
    if isinstance(value, list):
        return [_in_hex(x) for x in value]
    if isinstance(value, str):
        value = value.encode("utf-8")
    return value.hex() if isinstance(value, bytes) else value
