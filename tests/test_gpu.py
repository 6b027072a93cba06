"""Training and prediction on a GPU, against the CPU of the same machine.

  ./run_tests.sh -m gpu

BERT_GPU_TESTS_DEVICE=CPU runs the same tests on a CPU, to test the tests.
"""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert.records import reading, schema, tfrecords
from bert.tasks import task
from bert.tasks.classification import objective as classification_objective
from bert.training import (
    checkpointing,
    devices,
    optimization,
    prediction,
)
from modeling import bert, compilation, heads
from tests.support import golden_steps, programs, toy_config
from tests.support import toy_pretraining as toy

pytestmark = pytest.mark.gpu

_DEVICE = os.environ.get("BERT_GPU_TESTS_DEVICE", "GPU")
_MODES = compilation.ExecutionMode
_NUM_STEPS, _BATCH = 20, 8
# Float32 sums of other orders, through twenty steps of Adam.
_TOLERANCE = 1e-4
# As many bits as bfloat16 has.
_BFLOAT16_TOLERANCE = 2e-2


@pytest.fixture(autouse=True)
def _device():
    if not tf.config.list_physical_devices(_DEVICE):
        pytest.skip("There is no GPU.")
    before = keras.config.dtype_policy()
    tf.config.experimental.enable_tensor_float_32_execution(False)
    yield
    tf.config.experimental.enable_tensor_float_32_execution(True)
    keras.config.set_dtype_policy(before)


def _strategy(device=_DEVICE):
    return tf.distribute.OneDeviceStrategy(f"/{device}:0")


def _trainer(strategy, mode=_MODES.XLA, *, scales_loss=False):
    """Creates the trainer of the golden run, with dropout."""
    return golden_steps.pretraining(strategy, mode, scales_loss=scales_loss)


def _iterator(strategy):
    examples = {
        name: rows.astype(
            np.float32 if name == "masked_lm_weights" else np.int32
        )
        for name, rows in toy.golden_examples().items()
    }
    dataset = tf.data.Dataset.from_tensor_slices(examples)
    batches = dataset.batch(_BATCH, drop_remainder=True).repeat()
    return iter(strategy.experimental_distribute_dataset(batches))


def _train(strategy, mode=_MODES.XLA):
    """Returns the losses of twenty steps, and the weights and moments after."""
    trainer, iterator = _trainer(strategy, mode), _iterator(strategy)
    schedule = optimization.Schedule(
        init_lr=2e-3, num_train_steps=_NUM_STEPS, num_warmup_steps=4
    )
    losses = [
        sum(
            float(loss)
            for loss in trainer.run(
                iterator, step, schedule.learning_rate(step), seed=7
            ).losses.values()
        )
        for step in range(_NUM_STEPS)
    ]
    return losses, _tensors(trainer)


def _tensors(trainer):
    variables = {
        **checkpointing.weights(trainer.objective.model),
        **trainer.optimizer.slots(),
    }
    return {name: value.numpy() for name, value in variables.items()}


@pytest.fixture(scope="module")
def on_cpu():
    keras.config.set_dtype_policy("float32")
    return _train(_strategy("CPU"), _MODES.PLAIN)


def _check_alike(got, expected, tolerance):
    np.testing.assert_allclose(got[0], expected[0], rtol=0, atol=tolerance)
    for name, value in expected[1].items():
        np.testing.assert_allclose(
            got[1][name], value, rtol=0, atol=tolerance, err_msg=name
        )


@pytest.mark.parametrize("mode", _MODES)
def test_steps_of_every_mode_are_those_of_the_cpu(mode, on_cpu):
    _check_alike(_train(_strategy(), mode), on_cpu, _TOLERANCE)


def test_bfloat16_trains_as_float32_does(on_cpu):
    keras.config.set_dtype_policy("mixed_bfloat16")
    losses, _ = _train(_strategy())
    np.testing.assert_allclose(losses, on_cpu[0], rtol=_BFLOAT16_TOLERANCE)


def test_a_skipped_step_in_float16_changes_nothing_but_the_scale():
    keras.config.set_dtype_policy("mixed_float16")
    strategy = _strategy()
    trainer, iterator = (
        _trainer(strategy, scales_loss=True),
        _iterator(strategy),
    )
    before = _tensors(trainer)
    trainer.loss_scale.restore({"loss_scale": 2.0**40, "finite_steps": 5})
    result = trainer.run(iterator, 4, np.float32(1e-3), seed=7)
    assert int(result.skipped_steps) == 1
    np.testing.assert_equal(_tensors(trainer), before)
    assert trainer.loss_scale.state()["loss_scale"] == 2.0**39
    trainer.loss_scale.restore({"loss_scale": 2.0**7, "finite_steps": 0})
    result = trainer.run(iterator, 5, np.float32(1e-3), seed=7)
    assert int(result.skipped_steps) == 0
    assert any((v != before[k]).any() for k, v in _tensors(trainer).items())


def _peak_bytes(mode, *, recompute):
    """Returns the peak memory of a step of a deep and narrow model."""
    with _strategy().scope():
        model = bert.BertModel(
            toy_config.config(
                num_hidden_layers=6,
                hidden_size=96,
                intermediate_size=384,
                max_position_embeddings=128,
            )
        )
    model.encoder.recompute = recompute
    weights = [weight.value for weight in model.trainable_weights]

    def gradients(ids):
        with tf.GradientTape() as tape:
            outputs = model(ids, dropout_seed=tf.constant([5, 9]))
            loss = tf.reduce_sum(outputs["sequence_output"] ** 3)
        found = tape.gradient(loss, weights)
        return [tf.convert_to_tensor(x) for x in found if x is not None]

    compute = mode.compiled(gradients)
    with tf.device(f"{_DEVICE}:0"):
        ids = tf.ones([32, 128], tf.int32)
        compute(ids)[0].numpy()
        tf.config.experimental.reset_memory_stats(f"{_DEVICE}:0")
        compute(ids)[0].numpy()
    return tf.config.experimental.get_memory_info(f"{_DEVICE}:0")["peak"]


@pytest.mark.parametrize("mode", [_MODES.FUSED, _MODES.XLA])
def test_recomputation_needs_less_memory(mode):
    if _DEVICE == "CPU":
        pytest.skip("TensorFlow does not count the memory of a CPU.")
    used = _peak_bytes(mode, recompute=False)
    assert _peak_bytes(mode, recompute=True) < 0.75 * used


def test_a_deterministic_run_resumes_with_the_same_bits(tmp_path):
    flags = {
        "deterministic": True,
        "num_train_steps": 12,
        "save_checkpoints_steps": 4,
        "num_cpu_devices": int(_DEVICE == "CPU"),
    }
    for folder, ends in (("unbroken", [0]), ("resumed", [6, 0])):
        for end in ends:
            process = toy.start(tmp_path / folder, **flags, stop_at_step=end)
            log = tmp_path / folder / "log"
            assert process.wait() == 0, log.read_text()[-3000:]
    np.testing.assert_equal(
        toy.weights(tmp_path / "resumed", 12),
        toy.weights(tmp_path / "unbroken", 12),
    )


def test_predictions_are_those_of_the_cpu(tmp_path):
    config, length = toy_config.config(), 16
    features = schema.labeled_features(length)
    path = str(tmp_path / "texts.tfrecord")
    rng = np.random.default_rng(1)
    masks = [[1] * n + [0] * (length - n) for n in rng.integers(2, length, 13)]
    rows = (
        {
            "input_ids": rng.integers(1, config.vocab_size, length) * mask,
            "input_mask": mask,
            "segment_ids": [0] * length,
            "label_ids": [0],
            "is_real_example": [1],
        }
        for mask in masks
    )
    tfrecords.write_rows(path, rows, features)
    source = reading.RecordSource(
        files=tfrecords.RecordFiles([path]),
        features=features,
        vocab_size=config.vocab_size,
    )
    outputs, weights = [], None
    for device in (_DEVICE, "CPU"):
        strategy = _strategy(device)
        with strategy.scope():
            model = heads.BertForSequenceClassification(config, num_labels=3)
        weights = weights or model.get_weights()
        model.set_weights(weights)
        predictor = prediction.RecordPredictor(
            strategy,
            classification_objective.ClassificationObjective(
                model, task.SINGLE_LABEL
            ),
            devices.execution_mode(strategy),
        )
        scores = predictor.predict(source, batch_size=4, by_length=True)
        outputs.append(scores["outputs"])
    np.testing.assert_allclose(*outputs, rtol=0, atol=1e-5)


_TWO_REPLICAS = f"""
import tensorflow as tf

device = tf.config.list_physical_devices("{_DEVICE}")[0]
limit = None if "{_DEVICE}" == "CPU" else 2048
tf.config.set_logical_device_configuration(
    device, [tf.config.LogicalDeviceConfiguration(memory_limit=limit)] * 2
)
from tests.bert.training import test_steps

test_steps.check_two_replicas(
    tf.distribute.MirroredStrategy(["{_DEVICE}:0", "{_DEVICE}:1"])
)
"""


def test_two_replicas_on_a_device_train_as_one():
    done = programs.python("-c", _TWO_REPLICAS)
    assert done.returncode == 0, done.stderr[-3000:]
