"""Devices and their precision."""

import types

import keras
import pytest
import tensorflow as tf

from training import devices, workers


@pytest.mark.parametrize(
    ("num_workers", "options", "kind"),
    [
        (1, {}, "auto"),
        (1, {"use_tpu": True}, "tpu"),
        (1, {"distribution_strategy": "tpu"}, "tpu"),
        (1, {"use_tpu": True, "distribution_strategy": "tpu"}, "tpu"),
        (1, {"distribution_strategy": "mirrored"}, "mirrored"),
        (1, {"num_cpu_devices": 2}, "auto"),
        (2, {}, "multi_worker_mirrored"),
        (
            2,
            {"distribution_strategy": "multi_worker_mirrored"},
            "multi_worker_mirrored",
        ),
    ],
)
def test_options_and_tf_config_choose_the_devices(
    num_workers, options, kind, monkeypatch
):
    monkeypatch.setattr(workers, "count", lambda: num_workers)
    chosen = devices._strategy_kind(devices.DeviceOptions(**options))
    assert chosen == kind


@pytest.mark.parametrize(
    ("gpus", "deterministic", "is_switched_on"),
    [([], True, False), (["GPU:0"], False, False), (["GPU:0"], True, True)],
)
def test_operations_are_made_repeatable_on_gpus_where_asked(
    monkeypatch, gpus, deterministic, is_switched_on
):
    calls = []
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    monkeypatch.setattr(
        tf.config.experimental,
        "enable_op_determinism",
        lambda: calls.append("on"),
    )
    # It may have more than 32 bits.
    devices.set_seed(2**32 + 1, deterministic=deterministic)
    assert bool(calls) == is_switched_on


@pytest.fixture(autouse=True)
def policy():
    before = keras.config.dtype_policy()
    yield
    keras.config.set_dtype_policy(before)


@pytest.mark.parametrize(
    ("flags_of_cpu", "chosen"),
    [
        ("avx2 amx_bf16 avx512_bf16", "mixed_bfloat16"),
        ("avx512f avx512_bf16", "mixed_bfloat16"),
        ("avx2 avx512f", "float32"),
        (None, "float32"),
    ],
)
def test_auto_chooses_what_the_cpu_multiplies_fast(
    tmp_path, flags_of_cpu, chosen, monkeypatch
):
    path = tmp_path / "cpuinfo"
    if flags_of_cpu:
        path.write_text(f"processor\t: 0\nflags\t\t: {flags_of_cpu}\n\nx : y")
    monkeypatch.setattr(devices, "_CPU_INFO", str(path))
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    devices.prepare(devices.DeviceOptions(precision="auto"))
    assert devices.precision_in_use() == chosen
    # Without oneDNN no CPU is fast in bfloat16.
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    devices.prepare(devices.DeviceOptions(precision="auto"))
    assert devices.precision_in_use() == "float32"
    # A requested one is set on any device.
    devices.prepare(devices.DeviceOptions(precision="mixed_bfloat16"))
    assert devices.precision_in_use() == "mixed_bfloat16"


@pytest.mark.parametrize(
    ("flags_of_cpu", "precision", "flags", "num_train_steps", "is_whole"),
    [
        ("avx2 fma", "float32", {}, 343, True),
        ("avx2 fma", "float32", {}, 20, False),
        ("avx2 fma", "float32", {"packing": True}, 343, True),
        ("avx2 fma", "mixed_bfloat16", {}, 343, False),
        ("avx2 avx512f", "float32", {}, 343, False),
        ("avx2 avx512f", "float32", {"jit_compile": "true"}, 20, True),
        ("avx2 fma", "float32", {"jit_compile": "false"}, 343, False),
    ],
)
def test_long_float32_runs_without_avx512_compile_whole_steps(
    flags_of_cpu, precision, flags, num_train_steps, is_whole, monkeypatch
):
    monkeypatch.setattr(
        devices, "cpu_flags", lambda: frozenset(flags_of_cpu.split())
    )
    strategy = devices.prepare(devices.DeviceOptions(precision=precision))
    options = types.SimpleNamespace(
        **{"jit_compile": "auto", "packing": False, "output_dir": ""} | flags
    )
    assert is_whole == devices.compiles_whole_steps(
        strategy, options, num_train_steps
    )


@pytest.mark.parametrize(
    ("capabilities", "chosen"),
    [
        ([(8, 0), (9, 0)], "mixed_bfloat16"),
        ([(9, 0), (7, 5)], "float32"),
        ([None], "float32"),
    ],
)
def test_every_gpu_must_have_bfloat16(monkeypatch, capabilities, chosen):
    strategy = tf.distribute.OneDeviceStrategy("/GPU:0")
    monkeypatch.setattr(
        tf.config, "list_physical_devices", lambda kind: capabilities
    )
    monkeypatch.setattr(
        tf.config.experimental,
        "get_device_details",
        lambda gpu: {"compute_capability": gpu} if gpu else {},
    )
    assert devices.choose_precision(strategy) == chosen
