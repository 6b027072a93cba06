"""Warm-up requests of TensorFlow Serving, one for each signature.

TensorFlow Serving sends the requests in this file of a SavedModel to the model
before it serves a version, so that the first client does not wait while graphs
are prepared.
"""

import os
from collections.abc import Iterator, Mapping, Sequence

import tensorflow as tf

from bert.tasks import asking

# Source: https://www.tensorflow.org/tfx/serving/saved_model_warmup
_FILE = os.path.join("assets.extra", "tf_serving_warmup_requests")
# One word piece, and two texts or ids, are few enough for every model.
_TEXT = b"a"
_LENGTH = 2


def write(functions: asking.Signatures, folder: str) -> None:
    """Writes a request for each signature.

    Args:
        functions: of `exporting.make_signatures`.
        folder: of the SavedModel.
    """
    path = os.path.join(folder, _FILE)
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.TFRecordWriter(path) as writer:
        for name, function in functions.items():
            writer.write(_request(name, _inputs(function.input_signature)))


def _inputs(specs: Sequence[tf.TensorSpec]) -> dict[str, tf.Tensor]:
    """Returns a batch of one example."""
    inputs = {}
    for spec in specs:
        shape = [1, *[_LENGTH] * (spec.shape.rank - 1)]
        # In `input_mask`, 1 marks a token; 0 is an id of every vocabulary.
        value = (
            _TEXT if spec.dtype == tf.string else int(spec.name == "input_mask")
        )
        inputs[spec.name] = tf.constant(value, spec.dtype, shape)
    return inputs


def _request(signature: str, inputs: Mapping[str, tf.Tensor]) -> bytes:
    """Encodes a `PredictionLog` of TensorFlow Serving.

    Its package `tensorflow-serving-api` is not needed for these few fields.
    Source: tensorflow_serving/apis/{prediction_log,predict,model}.proto
    """
    request = _field(1, _field(3, signature.encode()))  # model_spec
    for name, tensor in inputs.items():
        value = tf.make_tensor_proto(tensor).SerializeToString()
        request += _field(2, _field(1, name.encode()) + _field(2, value))
    return _field(6, _field(1, request))  # predict_log, its request


def _field(number: int, content: bytes) -> bytes:
    """Encodes a field of bytes, a text or a message."""
    return bytes([*_varint(number << 3 | 2), *_varint(len(content))]) + content


def _varint(number: int) -> Iterator[int]:
    """Yields the bytes of a number: seven bits in each, the lowest first."""
    while number > 0x7F:
        yield number & 0x7F | 0x80
        number >>= 7
    yield number
