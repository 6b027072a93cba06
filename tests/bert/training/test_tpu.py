"""Steps as a TPU runs them, built on the host without one.

`tpu.replicate` builds the graph of a TPU program on any machine, and XLA:CPU
compiles nearly the operations that the compiler of a TPU does.
"""

import functools
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.tpu import tpu

from bert.tasks import task
from bert.tasks.classification import objective as classification_objective
from bert.tasks.pretraining import objective as pretraining_objective
from bert.tasks.squad import objective as squad_objective
from bert.tasks.tagging import objective as tagging_objective
from bert.training import (
    checkpointing,
    devices,
    optimization,
    steps,
)
from modeling import dropout, heads
from tests.support import toy_config

_BATCH, _LENGTH, _CHOICES = 4, 7, 3
_CONFIG = toy_config.config()
_HOST = tf.distribute.OneDeviceStrategy("/CPU:0")


@pytest.fixture(autouse=True)
def _in_scope():
    before = keras.config.dtype_policy()
    keras.utils.set_random_seed(1)
    with _HOST.scope():
        yield
    keras.config.set_dtype_policy(before)


def _ids(*shape, high=_CONFIG.vocab_size):
    return np.random.default_rng(1).integers(0, high, shape).astype(np.int32)


def _pieces(*shape):
    mask = np.ones(shape, np.int32)
    mask[..., -2:] = 0
    return {
        "input_ids": _ids(*shape),
        "input_mask": mask,
        "segment_ids": _ids(*shape, high=2),
    }


def _pretraining(objective):
    model = heads.BertForPreTraining(_CONFIG, objective=objective)
    return pretraining_objective.PretrainingObjective(model, objective), {
        **_pieces(_BATCH, _LENGTH),
        "masked_lm_positions": _ids(_BATCH, 2, high=_LENGTH),
        "masked_lm_ids": _ids(_BATCH, 2),
        "masked_lm_weights": np.ones([_BATCH, 2], np.float32),
        "next_sentence_labels": _ids(_BATCH, 1, high=2),
    }


def _classification(problem_type, labels, class_weights=(), **options):
    model = heads.BertForSequenceClassification(
        _CONFIG, num_labels=3, **options
    )
    return classification_objective.ClassificationObjective(
        model, problem_type, class_weights
    ), {
        **_pieces(_BATCH, _LENGTH),
        "label_ids": labels,
    }


def _squad():
    model = heads.BertForQuestionAnswering(_CONFIG)
    return squad_objective.SpanExtraction(model), {
        **_pieces(_BATCH, _LENGTH),
        "start_positions": _ids(_BATCH, 1, high=_LENGTH),
        "end_positions": _ids(_BATCH, 1, high=_LENGTH),
        "unique_ids": _ids(_BATCH, 1),
    }


def _tagging(features=None):
    model = heads.BertForTokenClassification(
        _CONFIG, num_labels=5, features=features
    )
    return tagging_objective.TaggingObjective(model), {
        **_pieces(_BATCH, _LENGTH),
        "label_ids": _ids(_BATCH, _LENGTH, high=5),
        "label_mask": _pieces(_BATCH, _LENGTH)["input_mask"],
    }


def _swag():
    model = heads.BertForMultipleChoice(_CONFIG)
    return classification_objective.ClassificationObjective(
        model, task.SINGLE_LABEL
    ), {
        **_pieces(_BATCH, _CHOICES, _LENGTH),
        "label_ids": _ids(_BATCH, 1, high=_CHOICES),
    }


_LABELS = _ids(_BATCH, 1, high=3)
_OBJECTIVES = {
    "pre-training": functools.partial(_pretraining, "mlm_nsp"),
    "left to right": functools.partial(_pretraining, "ltr"),
    "classification": functools.partial(
        _classification, task.SINGLE_LABEL, _LABELS, (1.0, 2.0, 3.0)
    ),
    "several labels": functools.partial(
        _classification, task.MULTI_LABEL, np.eye(_BATCH, 3, dtype=np.float32)
    ),
    "scores": functools.partial(
        _classification, task.REGRESSION, _LABELS.astype(np.float32)
    ),
    "causal classification": functools.partial(
        _classification, task.SINGLE_LABEL, _LABELS, causal=True
    ),
    "squad": _squad,
    "tagging": _tagging,
    "tagging with frozen layers": functools.partial(_tagging, "embeddings"),
    "swag": _swag,
}


def _of_kind(kind):
    names = (f"/job:worker/replica:0/task:0/device:{kind}:0",)
    extended = types.SimpleNamespace(worker_devices=names)
    return types.SimpleNamespace(extended=extended)


def _trainer(objective, *, recompute=False, **options):
    model = objective.model
    model.bert.encoder.recompute = recompute
    trained = {
        name: variable
        for name, variable in checkpointing.weights(model).items()
        if not (model.frozen_variables and name.startswith("bert/"))
    }
    mode = devices.execution_mode(_of_kind("TPU"), num_train_steps=10**6)
    return steps.Trainer(
        _HOST,
        objective,
        optimization.AdamWeightDecayOptimizer(
            trained, optimization.AdamOptions(**options), mode
        ),
        mode=mode,
    )


def _run_as_on_a_tpu(function, args=()):
    """Runs a function of one replica as `TPUStrategy.run` does."""
    structures = []

    def replica(*tensors):
        assert all(map(tf.is_tensor, tf.nest.flatten(tensors)))
        structures.append(_run_on_host(function, args=tensors))
        return tf.nest.flatten(structures[-1])

    (outputs,) = tpu.replicate(replica, [list(args)])
    return tf.nest.pack_sequence_as(structures[-1], outputs)


_run_on_host = _HOST.run


def _check_builds(trainer, features, num_parts, monkeypatch):
    dataset = tf.data.Dataset.from_tensors(features).repeat()
    with monkeypatch.context() as patched:
        patched.setattr(_HOST, "run", _run_as_on_a_tpu)
        graph = trainer._compiled_step.get_concrete_function(
            iter(dataset),
            tf.constant(3, tf.int64),
            tf.constant(1e-3),
            tf.constant([1, 2]),
            num_parts,
        ).graph
    operations = graph.get_operations()
    assert any(op.type == "TPUReplicateMetadata" for op in operations)
    functions = [f.graph for f in graph._functions.values()]
    inside = [op for g in functions for op in g.get_operations()]
    for op in (*operations, *inside):
        # A TPU compiles everything; a compiled function inside is a second
        # compiler's.
        names = {name for name, _ in op.node_def.attr.items()}
        assert "_XlaMustCompile" not in names or not op.get_attr(
            "_XlaMustCompile"
        ), op.name
        assert "PyFunc" not in op.type


# One part at a time is the same for each of them.
_CASES = [("pre-training", 1), *((name, 2) for name in _OBJECTIVES)]
_SLOW = ("left to right", "several labels", "scores", "causal classification")
_EACH = [
    pytest.param(*case, marks=pytest.mark.integration)
    if case[0] in _SLOW
    else case
    for case in _CASES
]


@pytest.mark.parametrize(("name", "num_parts"), _EACH)
def test_a_step_of_each_task_builds_for_a_tpu(name, num_parts, monkeypatch):
    objective, features = _OBJECTIVES[name]()
    trainer = _trainer(objective)
    _check_builds(trainer, features, num_parts, monkeypatch)


def test_a_step_with_other_options_builds_for_a_tpu(monkeypatch):
    keras.config.set_dtype_policy("mixed_bfloat16")
    objective, features = _OBJECTIVES["pre-training"]()
    trainer = _trainer(
        objective, recompute=True, layer_adaptation=True, bias_correction=True
    )
    _check_builds(trainer, features, 2, monkeypatch)


@pytest.mark.integration
@pytest.mark.parametrize(("name", "num_parts"), _CASES)
def test_a_step_is_one_program_of_xla(name, num_parts, monkeypatch):
    """Its update included: a TPU compiles all that a replica does."""
    # Of a negative seed, XLA and TensorFlow derive different ones.
    monkeypatch.setattr(dropout, "rate_and_seed", lambda *_: (0.0, [0]))
    objective, features = _OBJECTIVES[name]()
    trainer = _trainer(objective)
    replica_step = functools.partial(trainer._replica_step, num_parts=num_parts)
    inputs = [
        {key: tf.constant(value) for key, value in features.items()},
        tf.constant(3, tf.int64),
        tf.constant(0.0),  # So that both runs have the same weights.
        tf.constant([1, 2]),
    ]

    def step(*args):
        return tf.nest.flatten(_HOST.run(replica_step, args=args))

    compiled = tf.function(step, autograph=False, jit_compile=True)(*inputs)
    plain = tf.function(step, autograph=False)(*inputs)
    assert len(compiled) == len(plain) > 1
    for one, other in zip(compiled, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
