"""Devices, precision and seeds of a run."""

import dataclasses
import os
import pathlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from commands import flags
from files import run_files
from training import checkpointing, input_pipeline, model_files, workers
from training import flags as training_flags

AUTO = "auto"
FLOAT32, BFLOAT16 = "float32", "mixed_bfloat16"
# A CPU with one of these flags multiplies bfloat16 faster than float32. Timing
# a product instead would make the choice random: on a busy machine the measured
# speedup at the same shapes varied from 1.9 to 5.2.
_CPU_FLAGS = ("amx_bf16", "avx512_bf16")
_CPU_INFO = "/proc/cpuinfo"
_GPU_KINDS = ("mirrored", "multi_worker_mirrored")
_DEVICE_FILES, _GPU_FILES = "/dev", "nvidia[0-9]*"
# The compute capability of NVIDIA's A100, the first with bfloat16 and
# TensorFloat-32.
_AMPERE = (8, 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceOptions(training_flags.TpuOptions):
    """The devices and precision of a run; see the flags of these names."""

    distribution_strategy: str = AUTO
    num_cpu_devices: int = 0
    precision: str = FLOAT32
    tf32: bool = True


def prepare(
    options: Any,
    batch_sizes: Sequence[str] = (),
    output_dir: str | None = None,
) -> tf.distribute.Strategy:
    """Chooses and logs the devices and the precision.

    Args:
        options: of the run, with some of `DeviceOptions`.
        batch_sizes: the names of its global batch sizes, other than of
            training.
        output_dir: the folder of the run. With "auto", a resumed run keeps the
            precision of its checkpoints.

    Raises:
        RuntimeError: Keras uses another backend than TensorFlow.
        ValueError: a batch does not divide among the devices.
    """
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            "Training needs the TensorFlow backend of Keras, but "
            f"KERAS_BACKEND selects {keras.backend.backend()!r}. Unset it, or "
            "set KERAS_BACKEND=tensorflow."
        )
    chosen = flags.narrow(DeviceOptions, options)
    strategy = make_strategy(chosen)
    for name in batch_sizes:
        input_pipeline.check_batch_size(
            name, getattr(options, name), strategy.num_replicas_in_sync
        )
    precision = chosen.precision
    if precision == AUTO:
        precision, reason = choose_precision(strategy, output_dir)
        logging.info("--precision=auto: %s, since %s.", precision, reason)
    keras.config.set_dtype_policy(precision)
    tf.config.experimental.enable_tensor_float_32_execution(chosen.tf32)
    logging.info("%s", describe(strategy))
    return strategy


def prepare_training(
    options: training_flags.TrainingOptions,
    batch_sizes: Sequence[str],
    stages: Iterable[training_flags.TrainingOptions],
) -> tf.distribute.Strategy:
    """Chooses the devices of a training; checks its checkpoints and workers.

    Args:
        options: the options of the run.
        batch_sizes: as in `prepare`.
        stages: the options of each phase, or of each setting of a grid.

    Raises:
        RuntimeError: as in `prepare`.
        ValueError: a checkpoint has another attention, a batch does not divide
            among the devices, or workers have different flags or do not share
            the folder of the run.
    """
    model_files.check_attention(options)
    strategy = prepare(options, batch_sizes, options.output_dir)
    communicator = workers.Communicator(strategy)
    communicator.check_same_flags(options)
    for stage in stages:
        input_pipeline.check_batch_size(
            "train_batch_size",
            stage.train_batch_size,
            strategy.num_replicas_in_sync,
            stage.num_accumulation_steps,
        )
    communicator.check_shared(options.output_dir)
    return strategy


def compiles_whole_steps(strategy: tf.distribute.Strategy, choice: str) -> bool:
    """Returns whether XLA compiles the forward and backward pass as one.

    On a CPU, XLA's matrix products are slower than TensorFlow's own. On a TPU
    TensorFlow always compiles with XLA.

    Args:
        strategy: runs the steps.
        choice: a value of `--jit_compile`.
    """
    if choice != "auto":
        return choice == "true"
    return _runs_on_gpus(strategy)


def _runs_on_gpus(strategy: tf.distribute.Strategy) -> bool:
    return any("GPU" in name for name in strategy.extended.worker_devices)


def make_strategy(options: DeviceOptions) -> tf.distribute.Strategy:
    """Chooses the distribution strategy of a run.

    Call it before any other TensorFlow operation.

    Raises:
        ValueError: the options contradict each other, or a device is missing.
    """
    kind = strategy_kind(options, workers.cluster())
    if kind == "tpu":
        return _tpu_strategy(options)
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
    install = (
        "Training runs on the CPU and is far slower. For NVIDIA GPUs install "
        "requirements-gpu.txt and the driver."
    )
    if kind in _GPU_KINDS:
        logging.warning(
            "--distribution_strategy=%s, but TensorFlow finds no GPU. %s",
            kind,
            install,
        )
    elif "CUDA_VISIBLE_DEVICES" not in os.environ and any(
        pathlib.Path(_DEVICE_FILES).glob(_GPU_FILES)
    ):
        logging.warning(
            "This machine has an NVIDIA GPU, but TensorFlow finds none. %s",
            install,
        )


def strategy_kind(options: DeviceOptions, members: workers.Cluster) -> str:
    """Determines the kind of strategy from the options and `TF_CONFIG`.

    Returns:
        One of the values of `--distribution_strategy`; "auto" if the devices
        of this machine decide.

    Raises:
        ValueError: options and `TF_CONFIG` contradict each other.
    """
    kind = options.distribution_strategy
    if options.use_tpu and kind not in ("auto", "tpu"):
        raise ValueError(
            f"Pass one of --use_tpu and --distribution_strategy={kind}."
        )
    if options.use_tpu:
        kind = "tpu"
    if members.has_several and kind == "auto":
        kind = "multi_worker_mirrored"
    if members.has_several and kind in ("one_device", "mirrored"):
        raise ValueError(
            f"--distribution_strategy={kind} is for one process, but TF_CONFIG "
            f"lists {len(members.names)}. Unset TF_CONFIG, or pass "
            "--distribution_strategy=multi_worker_mirrored."
        )
    if options.num_cpu_devices and kind not in ("auto", "mirrored"):
        raise ValueError(
            "--num_cpu_devices splits the CPU of one process among replicas; "
            f"it cannot be combined with --distribution_strategy={kind}."
        )
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


def _tpu_strategy(options: DeviceOptions) -> tf.distribute.Strategy:
    address = options.tpu_name or options.master or ""
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=address, zone=options.tpu_zone, project=options.gcp_project
        )
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, OSError, tf.errors.OpError) as error:
        raise ValueError(
            f"Cannot connect to a TPU at {address or 'this machine'!r} "
            f"({error}). On a TPU VM pass --tpu_name=local; elsewhere pass "
            "the name of the TPU, with --tpu_zone and --gcp_project."
        ) from error
    strategy = tf.distribute.TPUStrategy(resolver)
    if strategy.num_replicas_in_sync != options.num_tpu_cores:
        logging.warning(
            "--num_tpu_cores=%d, but the TPU has %d cores; all are used.",
            options.num_tpu_cores,
            strategy.num_replicas_in_sync,
        )
    return strategy


def set_seed(seed: int, *, deterministic: bool = False) -> None:
    """Seeds the initial weights; optionally makes GPU operations deterministic.

    On a CPU every operation used here is deterministic. Enabling op determinism
    there would only replace the fused cross entropy by a slow one (measured: a
    fifth of the time of a small model's step). On GPUs it costs more:
    TensorFlow uses slower kernels, and `tf.data` calls the Python function that
    reads records for one batch at a time.

    Args:
        seed: the seed of the run.
        deterministic: whether operations on GPUs too return the same bits in
            each run.
    """
    keras.utils.set_random_seed(seed % 2**32)  # NumPy's have 32 bits.
    if deterministic and tf.config.list_physical_devices("GPU"):
        tf.config.experimental.enable_op_determinism()


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


def describe(strategy: tf.distribute.Strategy) -> str:
    """Describes versions and devices in one line for the log."""
    logical = tf.config.list_logical_devices()
    kinds = sorted({device.device_type for device in logical})
    products = ", products in TensorFloat-32" if _uses_tf32(strategy) else ""
    return (
        f"TensorFlow {tf.__version__}, Keras {keras.__version__}, "
        f"{type(strategy).__name__.removesuffix('Strategy')}, "
        f"{strategy.num_replicas_in_sync} replica(s) on {', '.join(kinds)}, "
        f"{os.cpu_count()} cores, {precision_in_use()}{products}"
    )


def _uses_tf32(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether a GPU rounds the factors of float32 products."""
    return (
        _runs_on_gpus(strategy)
        and tf.config.experimental.tensor_float_32_execution_enabled()
        and precision_in_use() == FLOAT32
        and any(map(_is_since_ampere, _gpu_capabilities()))
    )


def precision_in_use() -> str:
    """Returns the current precision, as `--precision` names it."""
    return keras.config.dtype_policy().name


def choose_precision(
    strategy: tf.distribute.Strategy, output_dir: str | None
) -> tuple[str, str]:
    """Chooses a precision for the devices of a run.

    Args:
        strategy: the strategy, with its devices.
        output_dir: the folder of the run. The precision of its checkpoints is
            kept, since it must not change during a run.

    Returns:
        The precision, and the reason for its choice.
    """
    folders = []
    if output_dir:
        folders = [output_dir, *run_files.trial_folders(output_dir)]
    for folder in folders:
        # The latest checkpoint that records its precision.
        for prefix, state in checkpointing.readable_states(folder):
            if kept := state.get("identity", {}).get("precision"):
                return kept, f"{prefix} was trained with it"
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return BFLOAT16, "TPUs multiply bfloat16 fastest"
    if _runs_on_gpus(strategy):
        return precision_of_gpus(_gpu_capabilities())
    return precision_of_cpu(cpu_flags())


def _gpu_capabilities() -> list[tuple[int, int] | None]:
    """Returns the compute capability of each GPU; None if it is not known."""
    details = tf.config.experimental.get_device_details
    return [
        details(gpu).get("compute_capability")
        for gpu in tf.config.list_physical_devices("GPU")
    ]


def _is_since_ampere(capability: tuple[int, int] | None) -> bool:
    return capability is not None and capability >= _AMPERE


def precision_of_gpus(
    capabilities: Sequence[tuple[int, int] | None],
) -> tuple[str, str]:
    """Chooses the precision for GPUs.

    Args:
        capabilities: the compute capability of each; None if it is not known.

    Returns:
        As `choose_precision`.
    """
    shown = ", ".join(
        "unknown" if each is None else ".".join(map(str, each))
        for each in capabilities
    )
    if all(map(_is_since_ampere, capabilities)):
        return BFLOAT16, f"GPUs of compute capability {shown} support bfloat16"
    least = ".".join(map(str, _AMPERE))
    return FLOAT32, (
        f"bfloat16 needs GPUs of compute capability {least} or more; got "
        f"{shown}; mixed_float16 may be faster"
    )


def precision_of_cpu(flags: frozenset[str]) -> tuple[str, str]:
    """Chooses the precision for a CPU by its flags, named as in Linux.

    Returns:
        As `choose_precision`.
    """
    found = [flag for flag in _CPU_FLAGS if flag in flags]
    if not found:
        return FLOAT32, f"this CPU does not report {' or '.join(_CPU_FLAGS)}"
    if os.environ.get("TF_ENABLE_ONEDNN_OPTS") == "0":
        return FLOAT32, (
            f"TF_ENABLE_ONEDNN_OPTS=0 disables matrix products with {found[0]}"
        )
    return BFLOAT16, f"this CPU has {found[0]}"


def cpu_flags(path: str = _CPU_INFO) -> frozenset[str]:
    """Returns the flags of the CPU; an empty set if they are not known."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except OSError:  # Not Linux.
        return frozenset()
    found = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    return frozenset(found[1].split()) if found else frozenset()
