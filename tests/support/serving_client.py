"""Asks exported models, and makes folders of models to export."""

import json
import shutil

import tensorflow as tf
import tensorflow_text  # noqa: F401 - the operations of the tokenizer.

from tests.support import locations


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
    inputs = locations.GOLDEN / "inputs"
    files = [inputs / "vocab.txt", inputs / "bert_config.json"]
    for file in (*locations.GOLDEN.glob(weights), *files):
        shutil.copy(file, folder)
    return folder


def describe(folder, **description):
    """Writes task.json."""
    values = {"do_lower_case": True, **description}
    (folder / "task.json").write_text(json.dumps(values))


def ask(folder, *requests, signature="serving_default"):
    """Asks a model.

    That it needs nothing of ours is for the server of docs/serving.md to show,
    which tests start as a program of its own.

    Args:
        folder: of a version.
        *requests: inputs by name: lists of `str` or `bytes`, or of numbers.
        signature: which.

    Returns:
        For each request its outputs by name, as lists.
    """
    function = tf.saved_model.load(str(folder)).signatures[signature]
    _, wanted = function.structured_input_signature
    answers = []
    for request in requests:
        inputs = {k: _tensor(wanted[k], v) for k, v in request.items()}
        outputs = function(**inputs)
        answers.append(
            {k: _plain(v.numpy().tolist()) for k, v in outputs.items()}
        )
    return answers


def _tensor(spec, values):
    if spec.dtype == tf.string:
        values = _encoded(values)
    shape = None if values else [0] * spec.shape.rank
    return tf.constant(values, spec.dtype, shape)


def _encoded(value):
    if isinstance(value, list):
        return [_encoded(x) for x in value]
    return value.encode("utf-8") if isinstance(value, str) else value


def _plain(value):
    if isinstance(value, list):
        return [_plain(x) for x in value]
    return value.decode() if isinstance(value, bytes) else value
