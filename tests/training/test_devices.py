"""Devices and their precision."""

import json

import keras
import pytest
import tensorflow as tf

from tests import programs
from training import checkpointing, devices, input_pipeline, workers
from training import flags as training_flags

_ALONE = workers.Cluster()
_TWO = workers.Cluster(
    names=("worker 0 (a:1)", "worker 1 (b:1)"), addresses=("a:1", "b:1")
)


def _kind(members, **options):
    return devices.strategy_kind(devices.DeviceOptions(**options), members)


@pytest.mark.parametrize(
    ("members", "options", "kind"),
    [
        (_ALONE, {}, "auto"),
        (_ALONE, {"use_tpu": True}, "tpu"),
        (_ALONE, {"distribution_strategy": "tpu"}, "tpu"),
        (_ALONE, {"use_tpu": True, "distribution_strategy": "tpu"}, "tpu"),
        (_ALONE, {"distribution_strategy": "mirrored"}, "mirrored"),
        (_ALONE, {"num_cpu_devices": 2}, "auto"),
        (_TWO, {}, "multi_worker_mirrored"),
        (
            _TWO,
            {"distribution_strategy": "multi_worker_mirrored"},
            "multi_worker_mirrored",
        ),
    ],
)
def test_options_and_tf_config_choose_the_devices(members, options, kind):
    assert _kind(members, **options) == kind


@pytest.mark.parametrize(
    ("members", "options", "message"),
    [
        (
            _ALONE,
            {"use_tpu": True, "distribution_strategy": "mirrored"},
            "one of --use_tpu and --distribution_strategy=mirrored",
        ),
        (
            _TWO,
            {"distribution_strategy": "one_device"},
            "is for one process, but TF_CONFIG lists 2",
        ),
        (_TWO, {"num_cpu_devices": 2}, "splits the CPU of one process"),
        (
            _ALONE,
            {"num_cpu_devices": 2, "distribution_strategy": "one_device"},
            "cannot be combined with --distribution_strategy=one_device",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(members, options, message):
    with pytest.raises(ValueError, match=message):
        _kind(members, **options)


def test_a_batch_must_divide_among_replicas_and_parts():
    input_pipeline.check_batch_size("train_batch_size", 24, 4, 3)
    with pytest.raises(ValueError, match="times --num_accumulation_steps; got"):
        input_pipeline.check_batch_size("train_batch_size", 24, 4, 4)
    with pytest.raises(ValueError, match="number of replicas; got 9 and 4"):
        input_pipeline.check_batch_size("train_batch_size", 9, 4)


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


@pytest.mark.parametrize(
    ("strategy", "has_gpu", "warning"),
    [
        ("mirrored", False, "--distribution_strategy=mirrored, but TensorFlow"),
        ("auto", True, "This machine has an NVIDIA GPU, but TensorFlow finds"),
        ("auto", False, ""),
    ],
)
def test_a_missing_gpu_is_warned_of(
    monkeypatch, caplog, tmp_path, strategy, has_gpu, warning
):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    monkeypatch.setattr(devices, "_DEVICE_FILES", str(tmp_path))
    if has_gpu:
        (tmp_path / "nvidia0").touch()
    devices.make_strategy(devices.DeviceOptions(distribution_strategy=strategy))
    assert warning in caplog.text
    assert bool(caplog.records) == bool(warning)


@pytest.fixture(autouse=True)
def policy():
    before = keras.config.dtype_policy()
    yield
    keras.config.set_dtype_policy(before)


def _strategy():
    return tf.distribute.OneDeviceStrategy("/CPU:0")


def _checkpoint(folder, step, state):
    """Puts the files of a checkpoint there, as far as choosing reads them."""
    prefix = checkpointing.prefix_of(str(folder), step)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"model.ckpt-{step}.index").touch()
    with open(f"{prefix}.state.json", "w", encoding="utf-8") as file:
        file.write(state if isinstance(state, str) else json.dumps(state))
    return prefix


@pytest.mark.parametrize(
    ("flags_of_cpu", "chosen"),
    [
        ({"avx2", "amx_bf16", "avx512_bf16"}, "mixed_bfloat16"),
        ({"avx512f", "avx512_bf16"}, "mixed_bfloat16"),
        ({"avx2", "avx512f"}, "float32"),
        ((), "float32"),
    ],
)
def test_a_cpu_multiplies_what_its_flags_say(flags_of_cpu, chosen, monkeypatch):
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    precision, reason = devices.precision_of_cpu(frozenset(flags_of_cpu))
    assert precision == chosen
    assert ("avx512_bf16" in reason) or ("amx_bf16" in reason)
    # Without oneDNN no CPU is fast in bfloat16.
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    precision, reason = devices.precision_of_cpu(frozenset(flags_of_cpu))
    assert precision == "float32"
    is_told = "TF_ENABLE_ONEDNN_OPTS=0" in reason
    assert is_told == (chosen != "float32")


@pytest.mark.parametrize(
    ("capabilities", "chosen", "reason"),
    [
        ([(8, 0), (9, 0)], "mixed_bfloat16", "8.0, 9.0"),
        ([(9, 0), (7, 5)], "float32", "; got 9.0, 7.5"),
        ([None], "float32", "; got unknown"),
    ],
)
def test_every_gpu_must_have_bfloat16(capabilities, chosen, reason):
    precision, told = devices.precision_of_gpus(capabilities)
    assert precision == chosen
    assert reason in told


@pytest.mark.parametrize(
    ("named", "device", "capability", "is_told"),
    [
        ({}, "GPU", (8, 0), True),
        ({}, "GPU", (7, 5), False),
        ({}, "GPU", None, False),
        ({}, "CPU", (8, 0), False),
        ({"tf32": False}, "GPU", (9, 0), False),
        ({"precision": "mixed_bfloat16"}, "GPU", (9, 0), False),
    ],
)
def test_rounded_factors_of_float32_products_are_told(
    monkeypatch, caplog, named, device, capability, is_told
):
    options = programs.parse(
        training_flags.PretrainingOptions,
        input_file="i",
        output_dir="o",
        bert_config_file="c",
        **named,
    )
    enabled = tf.config.experimental.tensor_float_32_execution_enabled
    strategy = tf.distribute.OneDeviceStrategy(f"/{device}:0")
    monkeypatch.setattr(devices, "make_strategy", lambda _: strategy)
    monkeypatch.setattr(devices, "_gpu_capabilities", lambda: [capability])
    try:
        devices.prepare(options)
        assert enabled() == options.tf32
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(True)
    assert ("products in TensorFloat-32" in caplog.text) == is_told


def test_reads_the_flags_of_linux(tmp_path):
    path = tmp_path / "cpuinfo"
    path.write_text("processor\t: 0\nflags\t\t: fpu amx_bf16\n\nflags : x\n")
    assert devices.cpu_flags(str(path)) == {"fpu", "amx_bf16"}
    path.write_text("processor\t: 0\nFeatures\t: asimd\n")
    assert devices.cpu_flags(str(path)) == frozenset()
    assert devices.cpu_flags(str(tmp_path / "none")) == frozenset()


@pytest.mark.parametrize("place", [".", "trial-3"])
@pytest.mark.parametrize("begun_with", ["float32", "mixed_bfloat16"])
def test_a_resumed_run_keeps_its_precision(
    tmp_path, monkeypatch, place, begun_with
):
    other = {"float32": "amx_bf16", "mixed_bfloat16": "avx2"}[begun_with]
    monkeypatch.setattr(devices, "cpu_flags", lambda: frozenset([other]))
    folder = tmp_path / place
    precision, _ = devices.choose_precision(_strategy(), str(tmp_path))
    assert precision != begun_with
    prefix = _checkpoint(folder, 20, {"identity": {"precision": begun_with}})
    _checkpoint(folder, 30, {"identity": {}})
    _checkpoint(folder, 40, "cut sho")
    precision, reason = devices.choose_precision(_strategy(), str(tmp_path))
    assert precision == begun_with
    assert "model.ckpt-20 was trained with it" in reason, prefix


def test_auto_is_resolved_set_and_logged(monkeypatch, caplog):
    monkeypatch.setattr(devices, "cpu_flags", lambda: frozenset(["amx_bf16"]))
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    with caplog.at_level("INFO"):
        devices.prepare(devices.DeviceOptions(precision="auto"))
    assert devices.precision_in_use() == "mixed_bfloat16"
    assert "auto: mixed_bfloat16, since this CPU has amx_bf16" in caplog.text
    # A requested one is set on any device.
    devices.prepare(devices.DeviceOptions(precision="float32"))
    assert devices.precision_in_use() == "float32"


def test_float32_is_the_default_and_auto_is_offered():
    values = programs.defined(training_flags.PretrainingOptions)
    assert values["precision"].default == "float32"
    required = ("--output_dir=o", "--bert_config_file=c")
    values(["program", "--precision=auto", *required])
    assert values.precision == "auto"
