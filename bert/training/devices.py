"""Devices, precision and seeds of a run."""

import dataclasses
import os
import pathlib
import re
from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from bert.commands import flags
from bert.training import options as training_options
from bert.training import workers
from modeling import compilation

# The kinds of devices.
CPU, GPU, TPU = "CPU", "GPU", "TPU"
FLOAT32, BFLOAT16 = "float32", "mixed_bfloat16"
# A CPU with one of these flags multiplies bfloat16 faster than float32. Timing
# a product instead would make the choice random: on a busy machine the measured
# speedup at the same shapes varied from 1.9 to 5.2.
_CPU_FLAGS = {"amx_bf16", "avx512_bf16"}
_CPU_INFO = "/proc/cpuinfo"
_DEVICE_FILES, _GPU_FILES = "/dev", "nvidia[0-9]*"
# Fewer steps do not regain the time of compiling complete steps on a CPU.
_LONG_RUN = 300
# The log names these, which decide on precision and execution mode.
_NAMED_CPU_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
# Parts of CUDA that XLA calls, as TensorFlow's errors name them.
_COMPILER_PARTS = re.compile(r"ptxas|libdevice|nvlink|libnvvm", re.IGNORECASE)
# XLA then times no kernels, which might lead to others in a second process.
# Products go to cuBLAS: untimed, XLA's own are many times slower (a step of
# BERT-Base on an H100 took 139 ms instead of 22).
_NO_AUTOTUNING = "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false"
# XLA of TensorFlow 2.21 ends the process on GPUs from this capability on.
# Source: tensorflow/tensorflow#111958.
_BLACKWELL_RTX = (12, 0)
# The compute capability of NVIDIA's A100, the first with bfloat16 and
# TensorFloat-32.
_AMPERE = (8, 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceOptions(training_options.TpuOptions):
    """The devices and precision of a run; see the flags of these names."""

    distribution_strategy: str = training_options.AUTO
    num_cpu_devices: int = 0
    precision: str = FLOAT32
    jit_compile: str = training_options.AUTO
    deterministic: bool = False


def prepare(options: object) -> tf.distribute.Strategy:
    """Chooses and logs the devices and the precision.

    Call it before any other TensorFlow operation.

    Args:
        options: of the run, with some of `DeviceOptions`.

    Raises:
        ValueError: a program that XLA's compiler for GPUs needs is missing.
    """
    chosen = flags.narrow(DeviceOptions, options)
    if chosen.deterministic:
        _make_deterministic()
    # XLA multiplies with kernels of its own, which know only this switch.
    if os.environ.get("NVIDIA_TF32_OVERRIDE") == "0":
        tf.config.experimental.enable_tensor_float_32_execution(False)
    strategy = make_strategy(chosen)
    if kind_of(strategy) == GPU and chosen.jit_compile != "false":
        check_compiler()
    precision = chosen.precision
    if precision == training_options.AUTO:
        precision = choose_precision(strategy)
    keras.config.set_dtype_policy(precision)
    logging.info("%s", summary(strategy))
    return strategy


def execution_mode(
    strategy: tf.distribute.Strategy,
    jit_compile: str = training_options.AUTO,
    *,
    num_train_steps: int = 0,
    saved: Mapping[str, str] | None = None,
) -> compilation.ExecutionMode:
    """Chooses the part of training, evaluation or prediction that XLA compiles.

    XLA compiles complete passes on GPUs. A TPU compiles everything it runs. On
    a CPU, XLA compiles the arithmetic between the products of TensorFlow, which
    are faster with AVX-512 or in bfloat16; in float32 without AVX-512, complete
    steps take 0.71 to 0.90 of the time (benchmarks/README.md), which a short
    run does not regain. In float32 without gradients on a CPU, TensorFlow fuses
    the arithmetic with the products itself, for any shape.

    Args:
        strategy: runs the program.
        jit_compile: the flag: "true" for complete passes, "false" for no XLA
            at all, or "auto".
        num_train_steps: the number of training steps that share a compilation;
            0 for evaluation and prediction.
        saved: `saved_execution` of the run to resume, which "auto" keeps on
            devices of the same kind, since another mode rounds differently.
    """
    modes, kind = compilation.ExecutionMode, kind_of(strategy)
    if kind == TPU or jit_compile == "false":
        return modes.PLAIN
    if jit_compile == "true":
        return modes.XLA
    if saved and saved["device"] == kind:
        return modes(saved["execution_mode"])
    if kind == GPU:
        return modes.XLA
    is_float32 = keras.config.dtype_policy().compute_dtype == FLOAT32
    if not num_train_steps:
        return modes.PLAIN if is_float32 else modes.FUSED
    cpu = cpu_flags()  # Empty if unknown.
    has_avx512 = not cpu or "avx512f" in cpu
    pays = is_float32 and not has_avx512 and num_train_steps >= _LONG_RUN
    return modes.XLA if pays else modes.FUSED


def saved_execution(
    strategy: tf.distribute.Strategy, mode: compilation.ExecutionMode
) -> dict[str, str]:
    """Returns the state with which a resumed run chooses its mode."""
    return {"device": kind_of(strategy), "execution_mode": str(mode)}


def kind_of(strategy: tf.distribute.Strategy) -> str:
    """Returns the kind of a strategy's devices: "CPU", "GPU" or "TPU"."""
    names = " ".join(strategy.extended.worker_devices)
    return next((kind for kind in (TPU, GPU) if kind in names), CPU)


def make_strategy(options: DeviceOptions) -> tf.distribute.Strategy:
    """Chooses the distribution strategy of a run.

    Call it before any other TensorFlow operation.
    """
    kind = _strategy_kind(options)
    if kind == "tpu":
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=options.tpu_name or options.master or "",
            zone=options.tpu_zone,
            project=options.gcp_project,
        )
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    if options.num_cpu_devices:
        return _cpu_strategy(kind, options.num_cpu_devices)
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        _warn_without_gpu(kind)
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    if kind == "multi_worker_mirrored":
        return tf.distribute.MultiWorkerMirroredStrategy()
    if kind == "mirrored" or (kind == "auto" and len(gpus) > 1):
        devices = [f"GPU:{i}" for i in range(len(gpus))]
        return tf.distribute.MirroredStrategy(devices or ["CPU:0"])
    return tf.distribute.OneDeviceStrategy("/GPU:0" if gpus else "/CPU:0")


def _warn_without_gpu(kind: str) -> None:
    """Warns if TensorFlow finds no GPU although the machine may have one."""
    has_gpu = "CUDA_VISIBLE_DEVICES" not in os.environ and any(
        pathlib.Path(_DEVICE_FILES).glob(_GPU_FILES)
    )
    if has_gpu or kind == "mirrored":
        logging.warning(
            "TensorFlow finds no GPU: training runs on the CPU and is far "
            "slower. For NVIDIA GPUs install requirements/gpu.txt and the "
            "driver. TF_CPP_MIN_LOG_LEVEL=0 shows TensorFlow's reason."
        )


def _strategy_kind(options: DeviceOptions) -> str:
    """Returns a value of `--distribution_strategy`.

    It is "auto" if the devices of this machine decide.
    """
    if options.use_tpu:
        return "tpu"
    kind = options.distribution_strategy
    if kind == training_options.AUTO and workers.count() > 1:
        return "multi_worker_mirrored"
    return kind


def _cpu_strategy(kind: str, num_devices: int) -> tf.distribute.Strategy:
    if num_devices == 1 and kind == "auto":
        return tf.distribute.OneDeviceStrategy("/CPU:0")
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * num_devices
    )
    return tf.distribute.MirroredStrategy(
        [f"CPU:{i}" for i in range(num_devices)]
    )


def _make_deterministic() -> None:
    """Makes operations on GPUs return the same bits in each run.

    On a CPU every operation used here is deterministic. Enabling op determinism
    there would only replace the fused cross entropy by a slow one (measured: a
    fifth of the time of a small model's step). On GPUs it costs more:
    TensorFlow uses slower kernels, and `tf.data` calls the Python function that
    reads records for one batch at a time.
    """
    if not tf.config.list_physical_devices("GPU"):
        return
    tf.config.experimental.enable_op_determinism()
    present = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{present} {_NO_AUTOTUNING}".strip()


def check_compiler() -> None:
    """Compiles a function for the GPU.

    Raises:
        ValueError: XLA does not know the GPU, or a program that its compiler
            needs is missing.
    """
    for gpu in tf.config.list_physical_devices("GPU"):
        capability = _compute_capability(gpu)
        if capability >= _BLACKWELL_RTX:
            raise ValueError(
                f"XLA of TensorFlow {tf.__version__} cannot compile for "
                f"{gpu.name}, whose compute capability is "
                f"{'.'.join(map(str, capability))}: it ends the process. Train "
                "without XLA (--jit_compile=false)."
            )
    try:
        _compile_exponential()
    except tf.errors.OpError as error:
        missing = _COMPILER_PARTS.search(error.message)
        if not missing:
            raise
        raise ValueError(
            f"XLA cannot compile for this GPU: it does not find {missing[0]}. "
            "Install requirements/gpu.txt; or pass the folder of the CUDA "
            "toolkit (XLA_FLAGS=--xla_gpu_cuda_data_dir=/usr/local/cuda); or "
            "train without XLA (--jit_compile=false)."
        ) from error


def _compile_exponential() -> None:
    # The exponential is a function of libdevice.
    with tf.device("GPU:0"):
        tf.function(tf.exp, jit_compile=True, autograph=False)(tf.ones([2]))


def set_seed(seed: int) -> None:
    """Seeds the initial weights."""
    keras.utils.set_random_seed(seed % 2**32)  # NumPy's have 32 bits.


def seed_words(seed: int) -> np.ndarray:
    """Splits the seed of a run into `[2]` int32.

    Each number has 31 bits, so that seeds above 2**31 remain distinct.
    """
    return np.array([seed & 0x7FFFFFFF, seed >> 31 & 0x7FFFFFFF], np.int32)


def dropout_seed(
    seed: np.ndarray | tf.Tensor, *numbers: tf.Tensor | int
) -> tf.Tensor:
    """Derives the dropout seed of a step, replica or micro-batch.

    Args:
        seed: `[2]` int32, from `seed_words` or this function.
        *numbers: `[]` integers, such as those of the step and the replica.

    Returns:
        `[2]` int32.
    """
    for number in numbers:
        seed = tf.random.experimental.stateless_fold_in(
            seed, tf.cast(number, tf.int32)
        )
    return seed


def summary(strategy: tf.distribute.Strategy) -> str:
    """Describes versions, devices and precision in one line for the log."""
    return (
        f"TensorFlow {tf.__version__}, Keras {keras.__version__}, "
        f"{type(strategy).__name__.removesuffix('Strategy')}, "
        f"{strategy.num_replicas_in_sync} replica(s) on "
        f"{_describe_device(kind_of(strategy))}, {os.cpu_count()} cores, "
        f"{precision_in_use()}"
    )


def _describe_device(kind: str) -> str:
    if kind == CPU:
        features = ", ".join(n for n in _NAMED_CPU_FLAGS if n in cpu_flags())
        return f"CPU ({features})" if features else CPU
    if kind == TPU:
        return TPU
    described = []
    for gpu in tf.config.list_physical_devices("GPU"):
        details = tf.config.experimental.get_device_details(gpu)
        name = details.get("device_name", gpu.name)
        capability = details.get("compute_capability")
        if capability:
            name += f" (compute capability {capability[0]}.{capability[1]})"
        described.append(name)
    # Both can turn it off; older GPUs have none.
    has_tf32 = (
        tf.config.experimental.tensor_float_32_execution_enabled()
        and os.environ.get("NVIDIA_TF32_OVERRIDE") != "0"
        and _supports_bfloat16()
    )
    names = ", ".join(dict.fromkeys(described))
    return f"{names}, TensorFloat-32 {'on' if has_tf32 else 'off'}"


def precision_in_use() -> str:
    """Returns the current precision, as `--precision` names it."""
    return keras.config.dtype_policy().name


def choose_precision(strategy: tf.distribute.Strategy) -> str:
    """Chooses bfloat16 where the devices are known to multiply it faster."""
    kind = kind_of(strategy)
    if kind == TPU:
        return BFLOAT16
    if kind == GPU:
        return BFLOAT16 if _supports_bfloat16() else FLOAT32
    # No CPU is fast in bfloat16 without oneDNN.
    has_onednn = os.environ.get("TF_ENABLE_ONEDNN_OPTS") != "0"
    return BFLOAT16 if has_onednn and _CPU_FLAGS & cpu_flags() else FLOAT32


def _supports_bfloat16() -> bool:
    return all(
        _compute_capability(gpu) >= _AMPERE
        for gpu in tf.config.list_physical_devices("GPU")
    )


def _compute_capability(gpu: tf.config.PhysicalDevice) -> tuple[int, ...]:
    """Returns the compute capability of a GPU; (0, 0) if it is not known."""
    details = tf.config.experimental.get_device_details(gpu)
    return tuple(details.get("compute_capability") or (0, 0))


def cpu_flags() -> frozenset[str]:
    """Returns the flags of the CPU; an empty set if they are not known."""
    try:
        text = pathlib.Path(_CPU_INFO).read_text(encoding="utf-8")
    except OSError:  # The system is not Linux.
        return frozenset()
    match = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    return frozenset(match[1].split()) if match else frozenset()
