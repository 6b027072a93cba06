import doctest

import numpy as np
import pytest
import tensorflow as tf

from bert.training import optimization
from modeling import compilation
from tests.support import locations, toy_files

_GOLDEN = locations.GOLDEN / "optimizer"
_ONE_DEVICE = tf.distribute.OneDeviceStrategy("/CPU:0")


def _apply(optimizer, gradients, learning_rate=0.5, step=0, **options):
    options = {
        "factor": tf.constant(1.0),
        "only_if": tf.constant(True),
        **options,
    }
    named = zip(optimizer.variables, gradients, strict=True)
    _ONE_DEVICE.run(
        lambda: optimizer.apply_gradients(
            {name: g for name, g in named if g is not None},
            learning_rate=tf.constant(learning_rate, tf.float32),
            step=tf.constant(step, tf.int64),
            **options,
        )
    )


def _optimizer(values, mode=compilation.ExecutionMode.FUSED, **options):
    with _ONE_DEVICE.scope():
        variables = {name: tf.Variable(v) for name, v in values.items()}
        return optimization.AdamWeightDecayOptimizer(
            variables, optimization.AdamOptions(**options), mode
        )


def _values(optimizer):
    held = {**optimizer.variables, **optimizer.slots()}
    return {name: value.numpy().copy() for name, value in held.items()}


def test_rates_are_those_of_the_release():
    cases = toy_files.read_json(_GOLDEN / "lr_schedule.json")
    assert len(cases) > 20
    for case in cases:
        schedule = optimization.Schedule(
            init_lr=case["init_lr"],
            num_train_steps=case["num_train_steps"],
            num_warmup_steps=case["num_warmup_steps"] or 0,
        )
        # A few roundings of float32; the rate is of the order of init_lr.
        np.testing.assert_allclose(
            schedule.learning_rate(case["step"]),
            case["lr"],
            rtol=2e-6,
            atol=1e-7 * case["init_lr"],
            err_msg=str(case),
        )


@pytest.mark.parametrize(
    ("kind", "warmup", "steps", "rates"),
    [
        ("release", 0, [0, 5, 10], [2, 1, 0]),
        ("continuous", 0, [0, 5, 10], [2, 1, 0]),
        # The decay starts at the peak; after the end the rate stays 0.
        ("continuous", 4, [2, 4, 7, 10, 12], [1, 2, 1, 0, 0]),
        ("release", 4, [2, 4, 7, 10, 12], [1, 1.2, 0.6, 0, 0]),
        # A ramp longer than the run is followed.
        ("release", 20, [9, 15], [0.9, 1.5]),
    ],
)
def test_rates_of_other_warm_ups(kind, warmup, steps, rates):
    schedule = optimization.Schedule(
        init_lr=2.0, num_train_steps=10, num_warmup_steps=warmup, kind=kind
    )
    found = schedule.learning_rate(np.array(steps))
    np.testing.assert_allclose(found, rates, rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "description"),
    [
        (
            {"num_warmup_steps": 4},
            "0 to 2 over 4 steps, then 1.2 falling to 0 at step 10",
        ),
        (
            {"num_warmup_steps": 4, "kind": "continuous"},
            "0 to 2 over 4 steps, then 2 falling to 0 at step 10",
        ),
        ({}, "2 falling to 0 at step 10"),
        (
            {"num_warmup_steps": 10},
            "0 to 2 over 10 steps, of which the run makes 10",
        ),
    ],
)
def test_the_rates_of_a_run_are_described(changes, description):
    schedule = optimization.Schedule(init_lr=2.0, num_train_steps=10, **changes)
    assert schedule.summary() == description


def test_ten_updates_are_those_of_the_release():
    names = toy_files.read_json(_GOLDEN / "weight_decay_by_name.json")
    hyper = names["hyperparameters"]
    with np.load(_GOLDEN / "optimizer_alone.npz") as arrays:
        golden = dict(arrays)
    init = {
        key.removeprefix("init/"): value
        for key, value in golden.items()
        if key.startswith("init/")
    }
    optimizer = _optimizer(
        init,
        weight_decay_rate=hyper["weight_decay_rate"],
        beta_1=hyper["beta_1"],
        beta_2=hyper["beta_2"],
        epsilon=hyper["epsilon"],
        exclude_from_weight_decay=tuple(names["exclude_from_weight_decay"]),
    )
    assert "skipped/kernel" in init
    assert "grads/skipped/kernel" not in golden
    for step in range(10):
        gradients = [
            tf.constant(golden[f"grads/{name}"][step])
            if f"grads/{name}" in golden
            else None
            for name in init
        ]
        _apply(optimizer, gradients, hyper["learning_rate"], step)
        for name, variable in optimizer.variables.items():
            after = golden.get(f"after/{name}")
            expected = init[name] if after is None else after[step]
            np.testing.assert_allclose(
                variable, expected, rtol=1e-6, atol=1e-7, err_msg=name
            )
    slots = optimizer.slots()
    for key, value in golden.items():
        if key.startswith("slot_after_10/"):
            name = key.removeprefix("slot_after_10/")
            np.testing.assert_allclose(
                slots[name], value, rtol=2e-6, atol=1e-8, err_msg=name
            )


def test_decay_follows_the_names_as_in_the_release():
    names = toy_files.read_json(_GOLDEN / "weight_decay_by_name.json")
    optimizer = _optimizer(
        {},
        exclude_from_weight_decay=tuple(names["exclude_from_weight_decay"]),
    )
    found = {name: optimizer.decays(name) for name in names["decayed"]}
    assert found == names["decayed"]
    assert set(found.values()) == {True, False}


def test_bias_correction_divides_the_moments():
    optimizer = _optimizer({"bias": [2.0]}, bias_correction=True)
    # At the first step the corrected moments are g and g^2.
    _apply(optimizer, [tf.constant([3.0])])
    np.testing.assert_allclose(
        _values(optimizer)["bias"], 2 - 0.5 * 3 / (3 + 1e-6), rtol=1e-6
    )
    # Then, with g = 1: m = 0.9 * 0.3 + 0.1, v = 0.999 * 0.009 + 0.001.
    before = _values(optimizer)["bias"]
    _apply(optimizer, [tf.constant([1.0])], step=1)
    m, v = 0.37 / (1 - 0.9**2), 0.009991 / (1 - 0.999**2)
    np.testing.assert_allclose(
        _values(optimizer)["bias"],
        before - 0.5 * m / (np.sqrt(v) + 1e-6),
        rtol=1e-5,
    )


@pytest.mark.parametrize(("beta_1", "beta_2"), [(0, 0.999), (0.9, 0), (0, 0)])
def test_a_moment_that_decays_at_once_needs_no_correction(beta_1, beta_2):
    optimizer = _optimizer(
        {"bias": [2.0]}, beta_1=beta_1, beta_2=beta_2, bias_correction=True
    )
    # At the first step the corrected moments are g and g^2 for every rate.
    _apply(optimizer, [tf.constant([3.0])])
    np.testing.assert_allclose(
        _values(optimizer)["bias"], 2 - 0.5 * 3 / (3 + 1e-6), rtol=1e-6
    )


@pytest.mark.parametrize("mode", compilation.ExecutionMode)
def test_every_mode_makes_the_same_update(mode):
    def trained(mode):
        optimizer = _optimizer(
            {"kernel": [2.0, 3.0], "dense/bias": [1.0]},
            mode=mode,
            bias_correction=True,
            layer_adaptation=True,
        )
        for step in range(3):
            gradients = [tf.constant([0.1, -3.0]), tf.constant([step + 1.0])]
            _apply(optimizer, gradients, step=step)
        return _values(optimizer)

    expected = trained(compilation.ExecutionMode.PLAIN)
    for name, value in trained(mode).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-6)


def test_first_update_of_lamb_as_worked_by_hand():
    optimizer = _optimizer(
        {"kernel": [3.0, 4.0], "new/kernel": [0.0, 0.0], "dense/bias": [2.0]},
        layer_adaptation=True,
    )
    _apply(optimizer, [tf.constant([1.0, -1.0])] * 2 + [tf.constant([1.0])])
    # m = 0.1 g and v = 0.001 g^2: m / (sqrt(v) + 1e-6) = 3.162178 g.
    # With decay, 3.192178 and -3.122178, of norm 4.465198; the weights' is 5:
    # the rate of 0.5 becomes 0.559886.
    values = _values(optimizer)
    np.testing.assert_allclose(
        values["kernel"], [1.212745, 5.748062], rtol=1e-5
    )
    # Where weights are 0, and where nothing decays, the rate stays.
    np.testing.assert_allclose(
        values["new/kernel"], [-1.581089, 1.581089], rtol=1e-6
    )
    np.testing.assert_allclose(values["dense/bias"], [0.418911], rtol=1e-5)
    np.testing.assert_allclose(values["kernel/adam_m"], [0.1, -0.1])
    # Without an update nothing changes.
    optimizer = _optimizer(
        {"kernel": [3.0, 4.0]}, layer_adaptation=True, weight_decay_rate=0.0
    )
    _apply(optimizer, [tf.zeros([2])])
    np.testing.assert_array_equal(_values(optimizer)["kernel"], [3.0, 4.0])


def test_no_gradient_leaves_a_variable_and_its_slots_alone():
    optimizer = _optimizer({"kernel": [2.0], "other/kernel": [2.0]})
    _apply(optimizer, [None, tf.constant([3.0])])
    values = _values(optimizer)
    assert values["kernel"] == 2.0
    assert values["kernel/adam_m"] == values["kernel/adam_v"] == 0.0
    assert values["other/kernel"] != 2.0


@pytest.mark.parametrize("mode", compilation.ExecutionMode)
def test_condition_decides_whether_anything_changes(mode):
    optimizer = _optimizer({"kernel": [2.0]}, mode)
    before = _values(optimizer)
    _apply(optimizer, [tf.constant([np.inf])], only_if=tf.constant(False))
    assert _values(optimizer) == before
    _apply(optimizer, [tf.constant([3.0])], only_if=tf.constant(True))
    plain = _optimizer({"kernel": [2.0]}, mode)
    _apply(plain, [tf.constant([3.0])])
    assert _values(optimizer) == _values(plain)


def test_joint_norm_is_clipped_only_above_the_limit():
    gradients = [tf.constant([3.0]), tf.constant([[4.0]])]
    factor, norm = optimization.clipping_factor(gradients, 1.0)
    assert norm == 5.0
    np.testing.assert_allclose(factor, 0.2, rtol=1e-6)
    factor, norm = optimization.clipping_factor(gradients, 5.0)
    assert (factor, norm) == (1.0, 5.0)
    factor, norm = optimization.clipping_factor(gradients, 0.0)  # No limit.
    assert (float(factor), float(norm)) == (1.0, 5.0)
    factor, norm = optimization.clipping_factor([tf.zeros([2])], 1.0)
    assert (factor, norm) == (1.0, 0.0)


def test_the_factor_scales_all_gradients():
    optimizer = _optimizer({"kernel": [2.0], "bias": [1.0]})
    _apply(
        optimizer,
        [tf.constant([3.0]), tf.constant([4.0])],
        factor=tf.constant(0.2),
    )
    plain = _optimizer({"kernel": [2.0], "bias": [1.0]})
    _apply(plain, [tf.constant([3.0 * 0.2]), tf.constant([4.0 * 0.2])])
    expected = _values(plain)
    for name, value in _values(optimizer).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-6)


def test_examples_of_the_docstrings():
    assert doctest.testmod(optimization) == (0, 5)
