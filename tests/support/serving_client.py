"""Asks exported models."""

import tensorflow as tf
import tensorflow_text  # noqa: F401 - the operations of the tokenizer.


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
