"""Networks in other runtimes give the numbers of TensorFlow."""

import dataclasses
import importlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from modeling import checkpoints
from serving import exporting, networks, run_folder
from tasks import task as task_lib
from tasks.classification import labels, sentence_pairs
from tests import toy_config

_CONFIG = toy_config.config(
    vocab_size=17,
    num_hidden_layers=2,
    max_position_embeddings=11,
    initializer_range=0.4,
)
# float32 in another order of the same sums.
_TOLERANCE = 1e-5


def _made(folder, task, kind=task_lib.SINGLE_LABEL, **changes):
    """Writes a checkpoint of random weights, and returns model and settings."""
    keras.utils.set_random_seed(3)
    config = dataclasses.replace(_CONFIG, **changes)
    names = () if kind == task_lib.REGRESSION else ("a", "b", "c")
    label_set = labels.LabelSet(problem_type=kind, names=names)
    options = {}
    if task in (run_folder.CLASSIFY, run_folder.SCORE, run_folder.TAG):
        options = {"num_labels": label_set.num_outputs}
    model = networks._MODELS[task](config, **options)
    values = {
        name: variable.value
        for name, variable in checkpoints.variables_by_name(model).items()
    }
    for name, value in values.items():  # Biases begin at 0.
        if name.endswith("bias"):
            values[name] = tf.random.normal(value.shape, seed=1)
    prefix = str(folder / "model.ckpt-1")
    checkpoints.save(prefix, values)
    settings = run_folder.Settings(
        model=run_folder.find(None, prefix),
        config=config,
        vocab_file="",
        do_lower_case=True,
        truncation=sentence_pairs.Truncation(max_seq_length=11),
        label_set=label_set,
    )
    return networks.load(task, settings), settings


def _ids(task, batch, length):
    rng = np.random.default_rng(batch)
    shape = (batch, length)
    if task == run_folder.CHOOSE:
        shape = (batch, 4, length)
    mask = np.ones(shape, np.int32)
    mask[..., length - 2 :] = rng.integers(0, 2, (*shape[:-1], 2))
    return {
        "input_ids": rng.integers(0, _CONFIG.vocab_size, shape, np.int32),
        "input_mask": mask,
        # An id before or past the table adds nothing.
        "segment_ids": rng.integers(-1, 3, shape, np.int32),
    }


def _runner(converted):
    """Opens a converted network in its own runtime."""
    pytest.importorskip("ai_edge_litert")
    interpreter = importlib.import_module("ai_edge_litert.interpreter")
    model = interpreter.Interpreter(model_content=converted.content)
    return lambda ids: model.get_signature_runner()(**ids)


def _compare(task, model, settings, tolerance, quantize=None):
    compute = networks.outputs_of(task, model, settings)
    cases = [_ids(task, 3, 7), _ids(task, 2, 11), _ids(task, 1, 4)]
    wanted = [compute(*ids.values()) for ids in cases]
    converted = exporting.convert(task, model, settings, quantize)
    run = _runner(converted)
    for ids, want in zip(cases, wanted, strict=True):
        got = run(ids)
        assert set(got) == set(want) == set(converted.description["outputs"])
        for name, value in want.items():
            np.testing.assert_allclose(got[name], value, atol=tolerance)
            said = converted.description["outputs"][name]
            assert len(said) == np.ndim(got[name])
    return converted


_CASES = [
    (run_folder.CLASSIFY, task_lib.SINGLE_LABEL),
    (run_folder.CLASSIFY, task_lib.MULTI_LABEL),
    (run_folder.SCORE, task_lib.REGRESSION),
    *(
        (task, task_lib.SINGLE_LABEL)
        for task in (
            *(run_folder.CHOOSE, run_folder.ANSWER, run_folder.TAG),
            run_folder.EMBED,
        )
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("task", "kind"), _CASES)
def test_litert_computes_what_tensorflow_computes(tmp_path, task, kind):
    model, settings = _made(tmp_path, task, kind)
    _compare(task, model, settings, _TOLERANCE)


@pytest.mark.slow
def test_litert_has_the_exact_gelu(tmp_path):
    task = run_folder.CLASSIFY
    model, settings = _made(tmp_path, task, hidden_act="gelu_exact")
    _compare(task, model, settings, _TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize("task", [run_folder.CLASSIFY, run_folder.CHOOSE])
def test_8_bit_matrices_take_a_quarter_and_compute_nearly_the_same(
    tmp_path, task
):
    sizes = {"hidden_size": 192, "vocab_size": 999}
    model, settings = _made(tmp_path, task, initializer_range=0.05, **sizes)
    whole = _compare(task, model, settings, _TOLERANCE)
    model, settings = _made(tmp_path, task, initializer_range=0.05, **sizes)
    small = _compare(task, model, settings, 0.05, "int8")
    assert len(small.content) < 0.35 * len(whole.content)


def test_notices_of_the_converter_are_hidden(tmp_path, caplog):
    model, settings = _made(tmp_path, run_folder.CLASSIFY)
    caplog.clear()
    caplog.set_level("INFO")
    exporting.convert(run_folder.CLASSIFY, model, settings, "int8")
    assert caplog.text == ""
    # Ours that follow are shown.
    logging.info("Wrote %s", "it")
    assert "Wrote it" in caplog.text
