"""Networks in other runtimes give the numbers of TensorFlow."""

import dataclasses
import importlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert.serving import exporting, loading
from bert.tasks import task as task_lib
from modeling import bert, checkpoints
from tests.support import golden_models, heads_of_tasks, toy_config, toy_files

_CONFIG = toy_config.config(
    vocab_size=17,
    num_hidden_layers=2,
    max_position_embeddings=11,
    initializer_range=0.4,
)
_ENCODER = "embedding"
# float32 in another order of the same sums.
_TOLERANCE = 1e-5


def _made(folder, task, kind=task_lib.SINGLE_LABEL, **changes):
    """Writes a checkpoint of random weights; returns model and network."""
    keras.utils.set_random_seed(3)
    config = dataclasses.replace(_CONFIG, **changes)
    head = heads_of_tasks.HEADS.get(task)
    entries = dict(head.entries) if head else {}
    scores = {}
    if kind == task_lib.REGRESSION:
        scores, entries["labels"] = {"num_labels": 1}, []
    vocabulary = ["[UNK]", "[CLS]", "[SEP]", *map(str, range(14))]
    toy_files.write_lines(folder / "vocab.txt", vocabulary)
    toy_files.write_json(folder / "bert_config.json", config.to_dict())
    golden_models.describe(
        folder,
        **{**entries, "task": task, "problem_type": kind},
        max_seq_length=11,
        max_query_length=4,
    )
    network = head.make(config, **scores) if head else bert.BertModel(config)
    values = {
        name: variable.value
        for name, variable in checkpoints.variables_by_name(network).items()
    }
    for name, value in values.items():  # Biases begin at 0.
        if name.endswith("bias"):
            values[name] = tf.random.normal(value.shape, seed=1)
    checkpoints.save(str(folder / "model.ckpt-1"), values)
    layers = (-1,) if task == _ENCODER else None
    model = loading.read(str(folder), layers=layers)
    return model, loading.load(model)


def _ids(task, batch, length):
    rng = np.random.default_rng(batch)
    shape = (batch, length)
    if task == "multiple_choice":
        shape = (batch, 4, length)
    mask = np.ones(shape, np.int32)
    mask[..., length - 2 :] = rng.integers(0, 2, (*shape[:-1], 2))
    return {
        "input_ids": rng.integers(0, _CONFIG.vocab_size, shape, np.int32),
        "input_mask": mask,
        # An id before or past the table adds nothing.
        "segment_ids": rng.integers(-1, 3, shape, np.int32),
    }


def _runner(path):
    """Opens a converted network in its own runtime."""
    pytest.importorskip("ai_edge_litert")
    interpreter = importlib.import_module("ai_edge_litert.interpreter")
    model = interpreter.Interpreter(model_path=str(path))
    return lambda ids: model.get_signature_runner()(**ids)


def _compare(folder, made, tolerance, quantize=False):
    """Writes a model and compares its outputs; returns the size of its file."""
    model, network = made
    sizes = (3, 7), (2, 11), (1, 4)
    cases = [_ids(model.kind, *size) for size in sizes]
    wanted = [model.outputs(network, ids) for ids in cases]
    exporting.write_litert(model, network, str(folder), {}, quantize=quantize)
    described = toy_files.read_json(folder / "model.json")
    assert described["quantize"] == ("int8" if quantize else None)
    run = _runner(folder / "model.tflite")
    for ids, want in zip(cases, wanted, strict=True):
        got = run(ids)
        assert set(got) == set(want) == set(described["outputs"])
        for name, value in want.items():
            np.testing.assert_allclose(got[name], value, atol=tolerance)
            assert len(described["outputs"][name]) == np.ndim(got[name])
    return (folder / "model.tflite").stat().st_size


_CASES = [
    ("classification", task_lib.SINGLE_LABEL),
    ("classification", task_lib.MULTI_LABEL),
    ("classification", task_lib.REGRESSION),
    ("multiple_choice", task_lib.SINGLE_LABEL),
    ("question_answering", task_lib.SINGLE_LABEL),
    ("tagging", task_lib.SINGLE_LABEL),
    (_ENCODER, task_lib.SINGLE_LABEL),
]


@pytest.mark.integration
@pytest.mark.parametrize(("task", "kind"), _CASES)
def test_litert_computes_what_tensorflow_computes(tmp_path, task, kind):
    _compare(tmp_path / "1", _made(tmp_path, task, kind), _TOLERANCE)


@pytest.mark.integration
def test_litert_has_the_exact_gelu(tmp_path):
    made = _made(tmp_path, "classification", hidden_act="gelu_exact")
    _compare(tmp_path / "1", made, _TOLERANCE)


@pytest.mark.integration
@pytest.mark.parametrize("task", ["classification", "multiple_choice"])
def test_8_bit_matrices_take_a_quarter_and_compute_nearly_the_same(
    tmp_path, task
):
    sizes = {"hidden_size": 192, "vocab_size": 999}
    made = _made(tmp_path, task, initializer_range=0.05, **sizes)
    whole = _compare(tmp_path / "1", made, _TOLERANCE)
    made = _made(tmp_path, task, initializer_range=0.05, **sizes)
    small = _compare(tmp_path / "2", made, 0.05, quantize=True)
    assert small < 0.35 * whole
