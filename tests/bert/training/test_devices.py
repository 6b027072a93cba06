"""Devices and their precision.

Most devices are not in this machine: what TensorFlow says of devices, and what
the system says of the CPU, has stand-ins. tests/test_gpu.py runs on a GPU.
"""

import json
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert.training import devices
from modeling import compilation
from tests.support import programs, toy_pretraining


def _on(kind):
    """A strategy whose devices are of a kind that this machine may lack."""
    device = f"/job:worker/replica:0/task:0/device:{kind}:0"
    extended = types.SimpleNamespace(worker_devices=(device,))
    return types.SimpleNamespace(extended=extended)


@pytest.mark.parametrize(
    ("file", "hidden", "kind", "warnings"),
    [
        ("nvidia0", None, "auto", 1),
        ("nvidia0", "", "auto", 0),
        ("nvidiactl", None, "auto", 0),
        ("nvidiactl", None, "mirrored", 1),
    ],
)
def test_a_gpu_that_tensorflow_does_not_find_is_warned_of(
    monkeypatch, tmp_path, file, hidden, kind, warnings
):
    shown = []
    monkeypatch.setattr(devices.logging, "warning", shown.append)
    (tmp_path / file).touch()
    monkeypatch.setattr(devices, "_DEVICE_FILES", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if hidden is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    options = devices.DeviceOptions(distribution_strategy=kind)
    devices.make_strategy(options)
    assert len(shown) == warnings
    assert all("TensorFlow finds no GPU" in message for message in shown)


@pytest.mark.parametrize(
    ("kind", "strategy"),
    [
        ("auto", tf.distribute.OneDeviceStrategy),
        ("mirrored", tf.distribute.MirroredStrategy),
    ],
)
def test_a_strategy_that_is_asked_for_is_used_on_one_cpu_too(
    monkeypatch, kind, strategy
):
    monkeypatch.setattr(
        tf.config, "set_logical_device_configuration", lambda *_: None
    )
    options = devices.DeviceOptions(
        distribution_strategy=kind, num_cpu_devices=1
    )
    assert type(devices.make_strategy(options)) is strategy


@pytest.mark.parametrize(
    ("kind", "num_gpus", "strategy", "on"),
    [
        ("auto", 0, "OneDeviceStrategy", "/CPU:0"),
        ("auto", 1, "OneDeviceStrategy", "/GPU:0"),
        ("auto", 2, "MirroredStrategy", ["GPU:0", "GPU:1"]),
        ("one_device", 2, "OneDeviceStrategy", "/GPU:0"),
        ("mirrored", 0, "MirroredStrategy", ["CPU:0"]),
        ("mirrored", 1, "MirroredStrategy", ["GPU:0"]),
        ("multi_worker_mirrored", 2, "MultiWorkerMirroredStrategy", None),
    ],
)
def test_a_run_is_on_all_gpus_and_takes_their_memory_as_it_needs_it(
    monkeypatch, kind, num_gpus, strategy, on
):
    grows = []
    gpus = [f"physical {number}" for number in range(num_gpus)]
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    monkeypatch.setattr(
        tf.config.experimental,
        "set_memory_growth",
        lambda gpu, grow: grows.append((gpu, grow)),
    )
    for name in ("OneDevice", "Mirrored", "MultiWorkerMirrored"):
        monkeypatch.setattr(
            tf.distribute,
            f"{name}Strategy",
            lambda on=None, name=name: (f"{name}Strategy", on),
        )
    options = devices.DeviceOptions(distribution_strategy=kind)
    assert devices.make_strategy(options) == (strategy, on)
    assert grows == [(gpu, True) for gpu in gpus]


@pytest.mark.parametrize(
    ("flags", "address"),
    [
        ({"tpu_name": "node", "master": "grpc://other"}, "node"),
        ({"master": "grpc://host"}, "grpc://host"),
        ({}, ""),
        ({"tpu_zone": "zone", "gcp_project": "project"}, ""),
    ],
)
def test_the_tpu_that_is_named_is_used(monkeypatch, flags, address):
    calls = []
    for part, name in (
        (tf.distribute.cluster_resolver, "TPUClusterResolver"),
        (tf.config, "experimental_connect_to_cluster"),
        (tf.tpu.experimental, "initialize_tpu_system"),
        (tf.distribute, "TPUStrategy"),
    ):
        monkeypatch.setattr(
            part,
            name,
            lambda *args, name=name, **named: (
                calls.append((*args, named)) or name
            ),
        )
    options = devices.DeviceOptions(use_tpu=True, **flags)
    assert devices.make_strategy(options) == "TPUStrategy"
    named = {
        "tpu": address,
        "zone": flags.get("tpu_zone"),
        "project": flags.get("gcp_project"),
    }
    # Each step gets what the first one found.
    assert calls == [(named,), *[("TPUClusterResolver", {})] * 3]


def test_seeds_of_62_bits_have_words_of_their_own():
    for seed, words in (
        (5, [5, 0]),
        (2**31, [0, 1]),
        (2**32 + 3, [3, 2]),
        (2**62 - 1, [2**31 - 1, 2**31 - 1]),
    ):
        assert devices.seed_words(seed).tolist() == words


def test_a_seed_may_have_more_than_32_bits():
    devices.set_seed(2**32 + 1)
    one = np.random.random()
    devices.set_seed(1)
    assert one == np.random.random()


@pytest.mark.parametrize(
    ("message", "part"),
    [
        ("libdevice not found at ./libdevice.10.bc [Op:__inference_f]", None),
        ("Couldn't find a suitable version of ptxas. Options: ...", "ptxas"),
        ("Couldn't get ptxas version string: INTERNAL", "ptxas"),
        ("JIT compilation failed: libNVVM is missing", "libNVVM"),
    ],
)
def test_a_missing_compiler_is_one_sentence_with_the_remedy(
    message, part, monkeypatch
):
    def fail():
        raise tf.errors.InternalError(None, None, message)

    monkeypatch.setattr(devices, "_compile_exponential", fail)
    with pytest.raises(ValueError, match=part or "libdevice") as raised:
        devices.check_compiler()
    for remedy in (
        "requirements/gpu.txt",
        "XLA_FLAGS=--xla_gpu_cuda_data_dir=",
        "--jit_compile=false",
    ):
        assert remedy in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("capability", "override", "described"),
    [
        ((9, 0), None, "NVIDIA X (compute capability 9.0), TensorFloat-32 on"),
        ((9, 0), "0", "NVIDIA X (compute capability 9.0), TensorFloat-32 off"),
        ((7, 5), None, "NVIDIA X (compute capability 7.5), TensorFloat-32 off"),
    ],
)
def test_the_log_names_the_gpu_and_its_precision(
    capability, override, described, monkeypatch
):
    if override:
        monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", override)
    gpu = types.SimpleNamespace(name="GPU:0")
    monkeypatch.setattr(
        tf.config, "list_physical_devices", lambda kind: [gpu, gpu]
    )
    monkeypatch.setattr(
        tf.config.experimental,
        "get_device_details",
        lambda gpu: {
            "device_name": "NVIDIA X",
            "compute_capability": capability,
        },
    )
    strategy = _on("GPU")
    strategy.num_replicas_in_sync = 2
    assert f"2 replica(s) on {described}, " in devices.summary(strategy)


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
    ("kind", "cpu", "precision", "jit_compile", "modes"),
    [
        # In float32 without AVX-512, for runs that regain the compilation.
        ("CPU", "avx2 fma", "float32", "auto", ("xla", "plain")),
        ("CPU", "avx2 fma", "mixed_bfloat16", "auto", ("fused", "fused")),
        ("CPU", "avx2 avx512f", "float32", "auto", ("fused", "plain")),
        ("CPU", "", "float32", "auto", ("fused", "plain")),
        ("CPU", "avx2 avx512f", "float32", "true", ("xla", "xla")),
        ("CPU", "avx2 fma", "mixed_bfloat16", "false", ("plain", "plain")),
        ("GPU", "avx2 avx512f", "float32", "auto", ("xla", "xla")),
        ("GPU", "avx2", "mixed_bfloat16", "false", ("plain", "plain")),
        # It compiles all it runs; nothing inside is compiled separately.
        ("TPU", "avx2", "float32", "auto", ("plain", "plain")),
        ("TPU", "avx512f", "mixed_bfloat16", "true", ("plain", "plain")),
    ],
)
def test_device_and_precision_choose_how_programs_are_executed(
    kind, cpu, precision, jit_compile, modes, monkeypatch
):
    monkeypatch.setattr(devices, "cpu_flags", lambda: frozenset(cpu.split()))
    keras.config.set_dtype_policy(precision)
    mode = devices.execution_mode
    strategy = _on(kind)
    assert modes == (
        mode(strategy, jit_compile, num_train_steps=300),
        mode(strategy, jit_compile),
    )
    if kind == "CPU" and jit_compile == "auto":
        assert mode(strategy, jit_compile, num_train_steps=299) == "fused"


@pytest.mark.parametrize("kind", ["CPU", "GPU"])
@pytest.mark.parametrize("mode", compilation.ExecutionMode)
def test_a_resumed_run_keeps_its_mode_on_devices_of_the_same_kind(kind, mode):
    saved = json.loads(json.dumps(devices.saved_execution(_on(kind), mode)))

    def choose(kind, **options):
        return devices.execution_mode(
            _on(kind), num_train_steps=10**6, saved=saved, **options
        )

    assert choose(kind) == mode
    assert choose(kind, jit_compile="false") == "plain"
    assert choose(kind, jit_compile="true") == "xla"
    (other,) = {"CPU", "GPU"} - {kind}
    assert choose(other) == devices.execution_mode(
        _on(other), num_train_steps=10**6
    )
    assert choose("TPU") == "plain"


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


def test_a_gpu_that_xla_ends_the_process_on_is_named_first(monkeypatch):
    """Only a machine with such a GPU shows it from the outside."""
    gpu = types.SimpleNamespace(name="GPU:0")
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [gpu])
    monkeypatch.setattr(
        tf.config.experimental,
        "get_device_details",
        lambda gpu: {"compute_capability": (12, 0)},
    )
    with pytest.raises(ValueError, match=r"is 12\.0: .*--jit_compile=false"):
        devices.check_compiler()


_DETERMINISTIC = """
import runpy
import sys

import tensorflow as tf

# As `--deterministic` does on a GPU.
tf.config.experimental.enable_op_determinism()
sys.argv[0] = "run_pretraining.py"
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.integration
def test_a_run_measures_nothing_that_op_determinism_forbids(tmp_path):
    flags = toy_pretraining.flags_of(tmp_path, deterministic=True)
    done = programs.invoke(
        "-c", _DETERMINISTIC, *(f"--{k}={v}" for k, v in flags.items())
    )
    assert done.exit_code == 0, done.stderr[-3000:]
    assert "input_wait" not in (tmp_path / "out/metrics.jsonl").read_text()
