import time
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert.tasks import objectives
from bert.training import (
    checkpointing,
    devices,
    optimization,
    steps,
)
from modeling import checkpoints, compilation
from tests.support import golden_steps, programs, toy_files
from tests.support import toy_pretraining as toy

_GOLDEN = toy.GOLDEN / "optimizer"
_FUSED = compilation.ExecutionMode.FUSED
_STEPS = 12
# Source: tests/golden/README.md, "Tolerances".
_TOLERANCE = 2e-5
_SLOT_TOLERANCES = {"adam_m": 1e-6, "adam_v": 1e-8}


def _golden_batches():
    """Cuts the golden records into the twelve batches of eight."""
    examples = toy.golden_examples()
    for i in range(_STEPS):
        yield {
            name: tf.constant(
                rows[8 * i : 8 * i + 8],
                tf.float32 if name == "masked_lm_weights" else tf.int32,
            )
            for name, rows in examples.items()
        }


_SCHEDULE = optimization.Schedule(
    init_lr=2e-3, num_train_steps=_STEPS, num_warmup_steps=4
)


def _trainer(strategy, *, dropout=0.0, scales_loss=False, mode=_FUSED):
    return golden_steps.pretraining(
        strategy, mode, dropout=dropout, scales_loss=scales_loss
    )


def _iterator(strategy):
    """Deals each batch out to the replicas, row by row in order."""
    replicas = strategy.num_replicas_in_sync
    parts = []
    for batch in _golden_batches():
        for rows in np.split(np.arange(8), replicas):
            parts.append({k: tf.gather(v, rows) for k, v in batch.items()})

    def dataset(_):
        return tf.data.Dataset.from_tensor_slices(
            {
                name: tf.stack([part[name] for part in parts])
                for name in parts[0]
            }
        )

    return iter(strategy.distribute_datasets_from_function(dataset))


def _numbers(result):
    return tf.nest.map_structure(lambda x: x.numpy().item(), result)


def _train(trainer, num_accumulation_steps=1):
    """Makes the steps of the golden run."""
    iterator = _iterator(trainer.strategy)
    results = []
    for step in range(_STEPS):
        result = trainer.run(
            iterator,
            step,
            _SCHEDULE.learning_rate(step),
            seed=7,
            num_accumulation_steps=num_accumulation_steps,
        )
        numbers = _numbers(result)
        assert numbers.input_seconds > 0
        # It is never the same.
        results.append(numbers._replace(input_seconds=None))
    return results


def _variables(trainer):
    return {
        **checkpointing.weights(trainer.objective.model),
        **trainer.optimizer.slots(),
    }


def _tensors(trainer):
    return {name: v.numpy() for name, v in _variables(trainer).items()}


@pytest.fixture(scope="module")
def golden_run(tmp_path_factory):
    """Makes the twelve steps once: results, trainer and the checkpoint."""
    folder = tmp_path_factory.mktemp("train12")
    keras.config.set_dtype_policy("float32")
    strategy = tf.distribute.OneDeviceStrategy("/CPU:0")
    trainer = _trainer(strategy)
    results = _train(trainer)
    prefix = checkpointing.save(
        str(folder), _STEPS, _variables(trainer), {}, keep=0
    )
    return results, trainer, prefix


def _check_against_golden(results, tensors):
    log = toy_files.read_json(_GOLDEN / "train12.json")["log"]
    for result, expected in zip(results, log, strict=True):
        found = {
            **result.losses,
            "loss": sum(result.losses.values()),
            "gradient_norm": result.gradient_norm,
        }
        for name, value in found.items():
            assert abs(value - expected[name]) < _TOLERANCE, (name, expected)
        assert result.learning_rate == pytest.approx(
            expected["learning_rate"], rel=1e-6, abs=1e-12
        )
    with np.load(_GOLDEN / "train12_final.npz") as golden:
        assert set(golden) == {*tensors, "global_step"}
        for name, value in tensors.items():
            tolerance = _SLOT_TOLERANCES.get(
                name.rpartition("/")[2], _TOLERANCE
            )
            np.testing.assert_allclose(
                value, golden[name], rtol=0, atol=tolerance, err_msg=name
            )


def test_twelve_steps_are_those_of_the_release(golden_run):
    results, trainer, _ = golden_run
    _check_against_golden(results, _tensors(trainer))
    assert all(result.first_bad_step == -1 for result in results)
    assert all(result.skipped_steps == 0 for result in results)


def test_metrics_are_sums_and_weights(golden_run):
    first = golden_run[0][0]
    weights = next(_golden_batches())["masked_lm_weights"].numpy().sum()
    total, weight = first.metrics["masked_lm_loss"]
    assert weight == weights
    assert total / (weight + 1e-5) == pytest.approx(
        first.losses["masked_lm_loss"], rel=1e-6
    )
    assert first.metrics["next_sentence_accuracy"][1] == 8


def test_checkpoint_has_the_names_and_types_of_the_release(golden_run):
    *_, prefix = golden_run
    ours = checkpoints.list_variables(prefix)
    theirs = checkpoints.list_variables(str(_GOLDEN / "train12.ckpt"))
    assert ours == theirs
    reader = tf.train.load_checkpoint(prefix)
    assert reader.get_tensor("global_step") == _STEPS
    released = tf.train.load_checkpoint(str(_GOLDEN / "train12.ckpt"))
    for name in theirs:
        if not name.endswith(("adam_m", "adam_v")):
            np.testing.assert_allclose(
                reader.get_tensor(name),
                released.get_tensor(name),
                rtol=0,
                atol=_TOLERANCE,
            )


@pytest.mark.integration
@pytest.mark.parametrize(
    ("mode", "num_parts"),
    [
        (compilation.ExecutionMode.XLA, 1),
        (compilation.ExecutionMode.XLA, 4),
        (compilation.ExecutionMode.PLAIN, 2),
    ],
)
def test_steps_of_all_modes_are_those_of_the_release(mode, num_parts):
    strategy = tf.distribute.OneDeviceStrategy("/CPU:0")
    trainer = _trainer(strategy, mode=mode)
    results = _train(trainer, num_parts)
    _check_against_golden(results, _tensors(trainer))


@pytest.mark.integration
def test_an_overflow_in_float16_changes_nothing_but_the_scale():
    strategy = tf.distribute.OneDeviceStrategy("/CPU:0")
    keras.config.set_dtype_policy("mixed_float16")
    try:
        trainer = _trainer(strategy, scales_loss=True)
        iterator, scale = _iterator(strategy), trainer.loss_scale
        before = _tensors(trainer)
        scale.restore({"loss_scale": 2.0**40, "finite_steps": 5})
        result = _numbers(trainer.run(iterator, 4, np.float32(1e-3), seed=7))
        assert result.skipped_steps == 1
        assert result.gradient_norm == 0
        assert result.first_bad_step == -1
        after = _tensors(trainer)
        for name, value in before.items():
            np.testing.assert_array_equal(after[name], value, err_msg=name)
        assert scale.state() == {"loss_scale": 2.0**39, "finite_steps": 0}
        scale.restore({"loss_scale": 2.0**7, "finite_steps": 1999})
        result = _numbers(trainer.run(iterator, 5, np.float32(1e-3), seed=7))
        assert result.skipped_steps == 0
        changed = [
            n for n, v in _tensors(trainer).items() if (v != after[n]).any()
        ]
        assert len(changed) > len(before) / 2
        assert scale.state() == {"loss_scale": 2.0**8, "finite_steps": 0}
    finally:
        keras.config.set_dtype_policy("float32")


class _RootOfWeight:
    """An objective whose loss at 0 is 0 and whose gradient is infinite."""

    def __init__(self):
        self.model = keras.Sequential([keras.layers.Dense(1, use_bias=False)])
        self.model.build((None, 1))
        self.model.weights[0].assign([[0.0]])

    def denominators(self, features):
        return {}

    def outcome(self, features, denominators, dropout_seed):
        loss = tf.reduce_sum(tf.sqrt(self.model.weights[0].value))
        return objectives.Outcome(losses={"loss": loss}, metrics={})


_STRATEGY = tf.distribute.OneDeviceStrategy("/CPU:0")


def _one_weight(objective, weight, *, scales_loss=False):
    with _STRATEGY.scope():
        return steps.Trainer(
            _STRATEGY,
            objective,
            optimization.AdamWeightDecayOptimizer({"w": weight}),
            scales_loss=scales_loss,
        )


def _run(trainer, iterator, step, rate=1e-2, seed=1, **options):
    return trainer.run(iterator, step, np.float32(rate), seed=seed, **options)


def test_an_infinite_gradient_of_a_finite_loss_is_reported():
    with _STRATEGY.scope():
        objective = _RootOfWeight()
        weight = objective.model.weights[0].value
    trainer = _one_weight(objective, weight)
    dataset = tf.data.Dataset.from_tensors({"x": tf.zeros([1])}).repeat()
    iterator = iter(_STRATEGY.experimental_distribute_dataset(dataset))
    assert int(_run(trainer, iterator, 3).first_bad_step) == 3


class _LaterTerm:
    """Its second loss is not a number; no gradient flows through it."""

    def __init__(self, weight):
        self._weight = weight

    def denominators(self, features):
        return {}

    def outcome(self, features, denominators, dropout_seed):
        first = tf.reduce_sum(self._weight)
        second = tf.stop_gradient(first * np.nan)
        terms = {"first": first, "second": second}
        return objectives.Outcome(losses=terms, metrics={})


@pytest.mark.parametrize("scales_loss", [False, True])
def test_a_loss_of_any_term_that_is_not_finite_is_reported(scales_loss):
    with _STRATEGY.scope():
        weight = tf.Variable([2.0])
    trainer = _one_weight(_LaterTerm(weight), weight, scales_loss=scales_loss)
    dataset = tf.data.Dataset.from_tensors({"x": tf.zeros([1])}).repeat()
    iterator = iter(_STRATEGY.experimental_distribute_dataset(dataset))
    assert int(_run(trainer, iterator, 0).first_bad_step) == 0


class _Noise:
    """Its loss is a weight times a number drawn with the dropout's seed."""

    def __init__(self, weight):
        self._weight = weight
        self.num_traces = 0

    def denominators(self, features):
        return {}

    def outcome(self, features, denominators, dropout_seed):
        self.num_traces += 1
        drawn = tf.random.stateless_uniform([], dropout_seed)
        loss = self._weight * drawn * features["x"][0]
        return objectives.Outcome(losses={"loss": loss}, metrics={})


def _replica_step(trainer, features, num_parts=1, replica=0, step=3):
    """Makes a step as one of several replicas does; returns its loss.

    More devices need a process of their own: tests/test_distribution.py.
    """
    context = types.SimpleNamespace(
        num_replicas_in_sync=1, replica_id_in_sync_group=replica
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tf.distribute, "get_replica_context", lambda: context)
        outcome, _ = trainer._replica_step(
            features,
            tf.constant(step, tf.int64),
            tf.constant(0.0),
            tf.constant([1, 2]),
            num_parts=num_parts,
        )
    return float(outcome.losses["loss"])


def _noise_trainer():
    weight = tf.Variable(2.0)
    return steps.Trainer(
        tf.distribute.get_strategy(),
        _Noise(weight),
        optimization.AdamWeightDecayOptimizer({"w": weight}),
    )


def test_replicas_and_steps_draw_their_own_dropout():
    trainer, features = _noise_trainer(), {"x": tf.ones([2])}
    losses = {
        (replica, step): _replica_step(
            trainer, features, replica=replica, step=step
        )
        for replica in range(3)
        for step in range(3)
    }
    assert len({*losses.values()}) == 9
    again = _replica_step(trainer, features, replica=2, step=1)
    assert again == losses[2, 1]


def test_micro_batches_draw_their_own_dropout():
    # Equal draws would cancel out.
    features = {"x": tf.constant([1.0, -1.0])}
    loss = _replica_step(_noise_trainer(), features, num_parts=2)
    assert abs(loss) > 1e-3


def test_the_loss_scale_grows_after_2000_finite_steps():
    scale = steps.LossScale(active=True)
    scale.restore({"loss_scale": 64.0, "finite_steps": 1998})
    scale.update(tf.constant(True))
    assert scale.state() == {"loss_scale": 64.0, "finite_steps": 1999}
    scale.update(tf.constant(True))
    assert scale.state() == {"loss_scale": 128.0, "finite_steps": 0}
    scale.update(tf.constant(False))
    assert scale.state() == {"loss_scale": 64.0, "finite_steps": 0}


@pytest.mark.parametrize("active", [False, True])
def test_a_loss_scale_is_restored_if_both_runs_scale(active):
    scale = steps.LossScale(active=active)
    before = float(scale.scale)
    scale.restore({})
    assert float(scale.scale) == before
    scale.restore({"loss_scale": 64.0, "finite_steps": 3})
    assert float(scale.scale) == (64.0 if active else 1.0)
    assert int(scale.finite_steps) == (3 if active else 0)


def test_the_loss_scale_never_shrinks_gradients():
    scale = steps.LossScale(active=True)
    scale.restore({"loss_scale": 1.5, "finite_steps": 3})
    for _ in range(2):
        scale.update(tf.constant(False))
        assert scale.state() == {"loss_scale": 1.0, "finite_steps": 0}


class _TwoUses(_Noise):
    """Its gradient is the sum of two tensors of the weight's shape."""

    def outcome(self, features, denominators, dropout_seed):
        self.num_traces += 1
        x = tf.reduce_sum(features["x"])
        loss = x * tf.reduce_sum(self._weight) + tf.reduce_sum(self._weight * x)
        return objectives.Outcome(losses={"loss": loss}, metrics={})


def test_the_loss_scale_is_in_no_norm():
    with _STRATEGY.scope():
        weight = tf.Variable([0.0])
    trainer = _one_weight(_TwoUses(weight), weight, scales_loss=True)
    dataset = tf.data.Dataset.from_tensors({"x": tf.ones([4])}).repeat()
    iterator = iter(_STRATEGY.experimental_distribute_dataset(dataset))
    assert trainer.loss_scale.state()["loss_scale"] > 1
    # The gradient is that of two uses, each with the factor 4.
    assert float(_run(trainer, iterator, 0).gradient_norm) == 8.0


def test_a_loop_over_batches_in_parts_has_one_trace_and_leaves_nothing():
    # TensorFlow's memory optimizer rewrites such sums in graphs that need more
    # than 200 MB.
    with _STRATEGY.scope():
        weight = tf.Variable(tf.zeros([1 << 18, 64]))
    objective = _TwoUses(weight)
    trainer = _one_weight(objective, weight)
    dataset = tf.data.Dataset.from_tensors({"x": tf.ones([4])}).repeat()
    iterator = iter(_STRATEGY.experimental_distribute_dataset(dataset))
    for step in range(3):
        result = _run(trainer, iterator, step, num_accumulation_steps=4)
        # A gradient of 2 * 4 in each of 2**24 places.
        assert float(result.gradient_norm) == pytest.approx(8 * 2**12)
    assert objective.num_traces == 1


class _Watching(_Noise):
    """Notes when it begins with what does not depend on the batch."""

    def __init__(self, weight, note):
        super().__init__(weight)
        self._note = note

    def outcome(self, features, denominators, dropout_seed):
        noted = tf.numpy_function(
            self._note, [dropout_seed], tf.float64, stateful=False
        )
        outcome = super().outcome(features, denominators, dropout_seed)
        return objectives.Outcome(
            losses=outcome.losses, metrics={"noted": (noted, 1.0)}
        )


def test_a_step_begins_when_the_wait_for_its_batch_is_over():
    # Else a process of one core takes the time of the step for waiting.
    ended = []

    def make(_):
        time.sleep(0.2)
        ended.append(time.monotonic())
        return np.ones([1], np.float32)

    dataset = tf.data.Dataset.range(1).map(
        lambda n: {
            "x": tf.ensure_shape(tf.numpy_function(make, [n], tf.float32), [1])
        }
    )
    with _STRATEGY.scope():
        weight = tf.Variable(2.0)
    objective = _Watching(weight, lambda _: np.float64(len(ended)))
    trainer = _one_weight(objective, weight)
    iterator = iter(_STRATEGY.experimental_distribute_dataset(dataset))
    result = _numbers(_run(trainer, iterator, 0))
    assert result.metrics["noted"][0] == 1
    assert result.input_seconds > 0.1


def test_a_run_with_the_steps_of_another_is_as_if_alone(caplog):
    caplog.set_level("INFO")
    dataset = tf.data.Dataset.from_tensors({"x": tf.ones([1])}).repeat()

    def start():
        with _STRATEGY.scope():
            weight = tf.Variable(2.0)
        return _one_weight(_Noise(weight), weight, scales_loss=True)

    def run(trainer, rate, seed):
        iterator = iter(_STRATEGY.experimental_distribute_dataset(dataset))
        results = [
            _numbers(_run(trainer, iterator, step, rate, seed))
            for step in range(3)
        ]
        # The time is never the same.
        results = [r._replace(input_seconds=None) for r in results]
        return results, _values(trainer)

    expected = run(start(), 1e-2, 1 << 40)
    trainer = start()
    first = run(trainer, 1e-1, 3)
    trainer.reset()
    trainer.optimizer.variables["w"].assign(2.0)
    assert run(trainer, 1e-2, 1 << 40) == expected != first
    assert trainer.objective.num_traces == 1
    # The log names the compilation of each of the two trainers once.
    assert caplog.text.count("Compiling the first step") == 2
    assert caplog.text.count("The first step took") == 2


def _values(trainer):
    return {
        "w": trainer.optimizer.variables["w"].numpy(),
        **{k: v.numpy() for k, v in trainer.optimizer.slots().items()},
        **trainer.loss_scale.state(),
    }


def test_dropout_depends_on_seed_step_and_replica():
    def drawn(seed, step, replica):
        words = devices.seed_words(seed)
        step = tf.constant(step, tf.int64)
        return tuple(devices.dropout_seed(words, step, replica).numpy())

    seeds = [
        drawn(seed, step, replica)
        for seed in (0, 1, 1 << 31, (1 << 31) + 1)
        for step in (0, 1, 2)
        for replica in (0, 1)
    ]
    assert len(set(seeds)) == len(seeds)
    assert drawn(1, 2, 1) == drawn(1, 2, 1)
    # So do the parts of a batch.
    seed = tf.constant(drawn(1, 2, 3))
    parts = {
        tuple(devices.dropout_seed(seed, tf.constant(part)).numpy())
        for part in range(5)
    }
    assert len(parts | {tuple(seed.numpy())}) == 6


_TWO_REPLICAS = """
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2
)
from tests.bert.training import test_steps

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
test_steps.check_two_replicas(strategy)
"""


def check_two_replicas(strategy):
    """Checks a run on two replicas; called in a process that has two."""
    assert strategy.num_replicas_in_sync == 2
    trainer = _trainer(strategy)
    results = _train(trainer)
    _check_against_golden(results, _tensors(trainer))

    # In an evaluation the replicas have different numbers of predictions.
    evaluator = steps.Evaluator(strategy, trainer.objective)
    of_two = evaluator.run(next(_iterator(strategy)))
    batch = next(_golden_batches())
    denominators = trainer.objective.denominators(batch)
    of_all = trainer.objective.outcome(batch, denominators, None)
    tf.nest.map_structure(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5),
        _numbers(of_two),
        _numbers(of_all),
    )

    # With dropout, two replicas given the same rows must not agree.
    objective = _trainer(strategy, dropout=0.5).objective
    seen = strategy.run(
        lambda: objective.outcome(
            batch,
            objective.denominators(batch),
            devices.dropout_seed(
                devices.seed_words(1),
                tf.constant(0),
                tf.distribute.get_replica_context().replica_id_in_sync_group,
            ),
        ).losses["masked_lm_loss"]
    )
    first, second = strategy.experimental_local_results(seen)
    assert float(first) != float(second)


@pytest.mark.integration
def test_two_replicas_train_as_one():
    done = programs.invoke("-c", _TWO_REPLICAS)
    assert done.exit_code == 0, done.stderr[-3000:]


def test_parts_add_up():
    features = {"x": tf.reshape(tf.range(12.0), [6, 2])}

    @tf.function
    def total(num_parts):
        def part(index):
            rows = features
            if num_parts > 1:
                rows = steps.part_of(features, index, num_parts)
            gradients = {"x": tf.reduce_sum(rows["x"], axis=0)}
            return gradients, {"count": (tf.shape(rows["x"])[0],)}

        return steps.sum_over_parts(part, num_parts)

    for num_parts in (1, 2, 3, 6):
        gradients, sums = total(num_parts)
        np.testing.assert_array_equal(gradients["x"], [30.0, 36.0])
        assert int(sums["count"][0]) == 6


def test_the_second_part_begins_after_the_first():
    """Otherwise the activations of both are in memory at once."""

    @tf.function(autograph=False)
    def total(x):
        return steps.sum_over_parts(lambda index: {"sum": x + 1.0}, 3)

    operations = total.get_concrete_function(
        tf.ones([2])
    ).graph.get_operations()
    (first,) = [op for op in operations if op.type == "AddV2"]
    (loop,) = [op for op in operations if op.type.endswith("While")]
    waiting = [tensor.op.control_inputs for tensor in loop.inputs]
    assert [first] in waiting


def test_parts_are_consecutive_rows_of_known_shape():
    features = {"x": tf.reshape(tf.range(12), [6, 2]), "y": tf.range(6)}
    part = steps.part_of(features, tf.constant(2), 3)
    np.testing.assert_array_equal(part["x"], [[8, 9], [10, 11]])
    np.testing.assert_array_equal(part["y"], [4, 5])
    assert part["x"].shape == [2, 2]

    # Of an unknown number of rows, too.
    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.int32)])
    def last(rows):
        return steps.part_of({"x": rows}, tf.constant(2), 3)["x"]

    np.testing.assert_array_equal(last(features["x"]), [[8, 9], [10, 11]])
