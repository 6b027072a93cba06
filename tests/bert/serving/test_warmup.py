"""Warm-up requests: TensorFlow Serving could send them to the model."""

import pathlib

import pytest
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from bert.serving import exporting, warmup
from bert.tasks import asking, signatures
from tests.support import asked_models, tool_runs

_MESSAGE = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
_STRING = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
# Source: tensorflow_serving/apis/{prediction_log,predict,model}.proto; of each
# message the fields that are written: name, number, type.
_MESSAGES = {
    "PredictionLog": [("predict_log", 6, "PredictLog")],
    "PredictLog": [("request", 1, "PredictRequest")],
    "PredictRequest": [("model_spec", 1, "ModelSpec"), ("inputs", 2, "Entry")],
    "ModelSpec": [("name", 1, None), ("signature_name", 3, None)],
    # As of a map, which is a repeated entry on the wire.
    "Entry": [("key", 1, None), ("value", 2, "tensorflow.TensorProto")],
}


def _prediction_log():
    """Makes the class of the message, without TensorFlow Serving's package."""
    tensor = tf.make_tensor_proto(0).DESCRIPTOR.file.name
    file = descriptor_pb2.FileDescriptorProto(
        name="warmup_test.proto",
        package="warmup_test",
        syntax="proto3",
        dependency=[tensor],
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            added = message.field.add(name=field, number=number)
            many = field == "inputs"
            added.label = added.LABEL_REPEATED if many else added.LABEL_OPTIONAL
            added.type = _MESSAGE if kind else _STRING
            if kind:
                package = "" if "." in kind else "warmup_test."
                added.type_name = f".{package}{kind}"
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName("warmup_test.PredictionLog")
    )


@signatures.text_signature(first=[None], endings=[None, None])
def _choose(first, endings):
    return {"texts": first, "shape": tf.shape(endings)}


@tf.function(
    input_signature=[
        tf.TensorSpec([None, None, None], tf.int32, name=name)
        for name in asking.ID_NAMES
    ]
)
def _ids(*ids):
    return dict(zip(asking.ID_NAMES, ids, strict=True))


def _stored(folder):
    path = pathlib.Path(folder, "assets.extra/tf_serving_warmup_requests")
    return [record.numpy() for record in tf.data.TFRecordDataset([str(path)])]


def test_each_signature_has_a_request_of_one_example(tmp_path):
    functions = {"serving_default": _choose, "ids": _ids}
    warmup.write(functions, str(tmp_path))
    log = _prediction_log()
    answers = {}
    for record in _stored(tmp_path):
        request = log.FromString(record).predict_log.request
        name = request.model_spec.signature_name
        inputs = [tf.make_ndarray(entry.value) for entry in request.inputs]
        specs = functions[name].input_signature
        assert [entry.key for entry in request.inputs] == [
            spec.name for spec in specs
        ]
        answers[name] = functions[name](*map(tf.constant, inputs))
    texts = answers["serving_default"]
    assert texts["texts"].numpy().tolist() == [b"a"]
    assert texts["shape"].numpy().tolist() == [1, 2]
    assert list(answers) == list(functions)
    ids = {
        name: value.numpy().tolist() for name, value in answers["ids"].items()
    }
    zeros, ones = [[[0, 0], [0, 0]]], [[[1, 1], [1, 1]]]
    assert ids == {
        "input_ids": zeros,
        "input_mask": ones,
        "segment_ids": zeros,
    }


def test_a_model_of_short_texts_answers_its_own_requests(tmp_path):
    model = asked_models.asked("tagging", labels=["O", "X"], max_seq_length=3)

    def network(input_ids, **_):
        return {"logits": tf.one_hot(input_ids % 2, 2)}

    functions = exporting.make_signatures(model, network)
    warmup.write(functions, str(tmp_path))
    log = _prediction_log()
    for record in _stored(tmp_path):
        request = log.FromString(record).predict_log.request
        inputs = [tf.make_ndarray(entry.value) for entry in request.inputs]
        ask = functions[request.model_spec.signature_name]
        assert ask(*map(tf.constant, inputs))["tags"].shape[0] == 1


@pytest.mark.peer
def test_an_exported_model_answers_the_messages_of_tensorflow_serving(
    made_once,
):
    apis = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    made = made_once(
        tool_runs.export_golden, "answerer", version_2_with_negative=True
    )
    version = str(made / "served/1")
    model = tf.saved_model.load(version)
    names = []
    for record in _stored(version):
        log = apis.PredictionLog.FromString(record)
        # Nothing in the record is outside of the fields.
        assert log.ByteSize() == len(record)
        request = log.predict_log.request
        names.append(request.model_spec.signature_name)
        inputs = {
            name: tf.constant(tf.make_ndarray(value))
            for name, value in request.inputs.items()
        }
        for value in model.signatures[names[-1]](**inputs).values():
            assert value.shape[0] == 1
    assert sorted(names) == sorted(model.signatures)
