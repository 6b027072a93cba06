"""Devices, precision and seeds of a run."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from files import paths
from training import checkpointing, input_pipeline, workers

TRAIN_BATCH_SIZE = "train_batch_size"
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
AUTO = "auto"
FLOAT32, BFLOAT16 = "float32", "mixed_bfloat16"
# A CPU multiplies bfloat16 faster than float32 with one of these. Told by its
# flags and not by the clock: measured on a busy machine, products of the same
# shapes were 1.9 to 5.2 times as fast, and the choice must not be chance.
_CPU_FLAGS = ("amx_bf16", "avx512_bf16")
_CPU_INFO = "/proc/cpuinfo"
_GPU_KINDS = ("mirrored", "multi_worker_mirrored")
_DEVICE_FILES, _GPU_FILES = "/dev", "nvidia[0-9]*"
# Source: NVIDIA's A100 (compute capability 8.0) was the first with bfloat16.
_FIRST_GPU_CAPABILITY = (8, 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """Which devices a run uses; see the flags of these names.

    Of the TPU, names and defaults are the release's.
    """

    distribution_strategy: str = "auto"
    num_cpu_devices: int = 0
    num_accumulation_steps: int = 1
    use_tpu: bool = False
    tpu_name: str | None = None
    tpu_zone: str | None = None
    gcp_project: str | None = None
    master: str | None = None
    num_tpu_cores: int = 8


def prepare(
    options: DeviceOptions,
    *,
    precision: str,
    batch_sizes: Mapping[str, int],
    output_dir: str | None = None,
) -> tf.distribute.Strategy:
    """Chooses devices and precision, and says so in the log.

    Args:
        options: which devices.
        precision: one of `PRECISIONS`, or "auto".
        batch_sizes: by flag; each counts the examples on all devices.
        output_dir: of a run that may be resumed, with the precision it began
            with if that is left to "auto".

    Raises:
        RuntimeError: Keras runs on another library.
        ValueError: a batch does not divide among the devices.
    """
    check_backend()
    strategy = make_strategy(options)
    for name, size in batch_sizes.items():
        input_pipeline.check_batch_size(
            name,
            size,
            strategy.num_replicas_in_sync,
            options.num_accumulation_steps if name == TRAIN_BATCH_SIZE else 1,
        )
    if precision == AUTO:
        choice = choose_precision(strategy, output_dir)
        precision = choice.precision
        logging.info(
            "--precision=auto: %s, since %s.", precision, choice.reason
        )
    set_precision(precision)
    logging.info("%s", describe(strategy))
    return strategy


def steps_per_call(
    *, use_tpu: bool, iterations_per_loop: int, steps_per_loop: int
) -> int:
    """Says how many steps are made without a look at signals and the clock."""
    return steps_per_loop or (iterations_per_loop if use_tpu else 1)


def compiles_whole_steps(strategy: tf.distribute.Strategy, choice: str) -> bool:
    """Says whether XLA is to compile the way forward and back as a whole.

    On a CPU its matrix products are slower than TensorFlow's own; a TPU has
    nothing but XLA, and compiles by itself.

    Args:
        strategy: where the steps run.
        choice: a value of `--jit_compile`.
    """
    if choice != "auto":
        return choice == "true"
    return any("GPU" in name for name in strategy.extended.worker_devices)


def make_strategy(options: DeviceOptions) -> tf.distribute.Strategy:
    """Chooses the distribution strategy of a run.

    Call it before any other TensorFlow operation.

    Raises:
        ValueError: what is asked for does not fit together or is not there.
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
    """Warns where a GPU seems to be meant and TensorFlow finds none."""
    install = (
        "Training runs on the CPU, far slower. For NVIDIA GPUs install "
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
    """Says which way of distribution the options and `TF_CONFIG` ask for.

    Returns:
        One of the values of `--distribution_strategy`; "auto" where that is
        left to the devices of this machine.

    Raises:
        ValueError: they contradict each other.
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
            f"names {len(members.names)}. Unset TF_CONFIG, or pass "
            "--distribution_strategy=multi_worker_mirrored."
        )
    if options.num_cpu_devices and kind not in ("auto", "mirrored"):
        raise ValueError(
            "--num_cpu_devices splits the CPU of one process among replicas; "
            f"it does not go with --distribution_strategy={kind}."
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
            f"No TPU answers at {address or 'this machine'!r} "
            f"({error}). On a TPU VM pass --tpu_name=local; elsewhere the "
            "TPU's name, with --tpu_zone and --gcp_project."
        ) from error
    strategy = tf.distribute.TPUStrategy(resolver)
    if strategy.num_replicas_in_sync != options.num_tpu_cores:
        logging.warning(
            "--num_tpu_cores=%d, but the TPU has %d; using all of them.",
            options.num_tpu_cores,
            strategy.num_replicas_in_sync,
        )
    return strategy


def check_backend() -> None:
    """Refuses a Keras that was told to run on another library.

    Raises:
        RuntimeError: the Keras backend is not TensorFlow.
    """
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            "Training runs on TensorFlow, but Keras is set to the "
            f"{keras.backend.backend()!r} backend by KERAS_BACKEND or "
            "~/.keras/keras.json. Unset it, or set KERAS_BACKEND=tensorflow."
        )


def set_precision(precision: str) -> None:
    """Sets the type of the arithmetic; weights stay float32.

    Raises:
        ValueError: the precision is not one of `PRECISIONS`.
    """
    if precision not in PRECISIONS:
        raise ValueError(
            f"--precision must be one of {', '.join(PRECISIONS)}; "
            f"got {precision!r}."
        )
    keras.config.set_dtype_policy(precision)


def set_seed(seed: int, *, deterministic: bool = False) -> None:
    """Makes initial weights repeatable, and every operation where asked.

    On a CPU every operation used here is repeatable as it is; there, asking
    TensorFlow for it would only replace the fused cross entropy by a slow one
    (measured: a fifth of the time of a small model's step). On GPUs it costs
    more: TensorFlow takes slower kernels, and `tf.data` calls Python, which
    reads the records, for one batch at a time.

    Args:
        seed: of the run.
        deterministic: whether each operation is to give the same bits on each
            run, on GPUs too.
    """
    keras.utils.set_random_seed(seed)
    if deterministic and tf.config.list_physical_devices("GPU"):
        tf.config.experimental.enable_op_determinism()


def seed_words(seed: int) -> np.ndarray:
    """Splits the seed of a run into `[2]` int32.

    Two numbers of 31 bits, so that seeds beyond one of them stay apart.
    """
    return np.array([seed & 0x7FFFFFFF, seed >> 31 & 0x7FFFFFFF], np.int32)


def dropout_seed(
    seed: np.ndarray | tf.Tensor, step: tf.Tensor, replica: tf.Tensor | int
) -> tf.Tensor:
    """Derives the dropout seed of one replica in one step.

    Args:
        seed: `[2]` int32, of `seed_words`.
        step: `[]` integer.
        replica: `[]` integer.

    Returns:
        `[2]` int32.
    """
    fold = tf.random.experimental.stateless_fold_in
    return fold(fold(seed, tf.cast(step, tf.int32)), tf.cast(replica, tf.int32))


def part_seed(replica_seed: tf.Tensor, part: tf.Tensor) -> tf.Tensor:
    """Derives the dropout seed of one part of a replica's rows.

    Args:
        replica_seed: `[2]` int32, of `dropout_seed`.
        part: `[]` integer, the number of the part.

    Returns:
        `[2]` int32.
    """
    fold = tf.random.experimental.stateless_fold_in
    return fold(replica_seed, tf.cast(part, tf.int32))


def describe(strategy: tf.distribute.Strategy) -> str:
    """Describes devices and versions in a line, for the log."""
    workers = tf.config.list_logical_devices()
    kinds = sorted({device.device_type for device in workers})
    return (
        f"TensorFlow {tf.__version__}, Keras {keras.__version__}, "
        f"{type(strategy).__name__.removesuffix('Strategy')}, "
        f"{strategy.num_replicas_in_sync} replica(s) on {', '.join(kinds)}, "
        f"{os.cpu_count()} cores, {keras.config.dtype_policy().name}"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrecisionChoice:
    """A precision, and why it was chosen, in words."""

    precision: str
    reason: str


def precision_in_use() -> str:
    """Returns the precision that was set, as the flag names it."""
    return keras.config.dtype_policy().name


def choose_precision(
    strategy: tf.distribute.Strategy, output_dir: str | None = None
) -> PrecisionChoice:
    """Chooses a precision for the devices of a run.

    Args:
        strategy: names the devices.
        output_dir: the folder of the run. What its checkpoints were made with
            stays: a run must not change on its way.
    """
    for folder in _folders(output_dir) if output_dir else ():
        kept = _kept_precision(folder)
        if kept:
            return kept
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return PrecisionChoice(
            precision=BFLOAT16, reason="TPUs multiply it fastest"
        )
    devices = strategy.extended.worker_devices
    if any("GPU" in device for device in devices):
        return precision_of_gpus(
            [
                tf.config.experimental.get_device_details(gpu)
                for gpu in tf.config.list_physical_devices("GPU")
            ]
        )
    return precision_of_cpu(cpu_flags())


def _folders(output_dir: str) -> list[str]:
    """Lists the folder of a run, and those of its trials."""
    return [output_dir, *paths.matching(output_dir, "trial-*")]


def _kept_precision(folder: str) -> PrecisionChoice | None:
    """Returns what the latest checkpoint that says so was made with."""
    for prefix, state in checkpointing.readable_states(folder):
        precision = state.get("identity", {}).get("precision")
        if precision is not None:
            return PrecisionChoice(
                precision=precision, reason=f"{prefix} was made with it"
            )
    return None


def precision_of_gpus(details: list[dict[str, Any]]) -> PrecisionChoice:
    """Chooses for GPUs.

    Args:
        details: of each, as TensorFlow describes it.
    """
    capabilities = [each.get("compute_capability") for each in details]
    shown = ", ".join(
        "unknown" if each is None else ".".join(map(str, each))
        for each in capabilities
    )
    if all(each and each >= _FIRST_GPU_CAPABILITY for each in capabilities):
        return PrecisionChoice(
            precision=BFLOAT16,
            reason=f"GPUs of compute capability {shown} have bfloat16",
        )
    least = ".".join(map(str, _FIRST_GPU_CAPABILITY))
    return PrecisionChoice(
        precision=FLOAT32,
        reason=f"bfloat16 takes GPUs of compute capability {least} or more, "
        f"and here it is {shown}; mixed_float16 may be faster",
    )


def precision_of_cpu(flags: frozenset[str]) -> PrecisionChoice:
    """Chooses for a CPU, by its flags as Linux names them."""
    found = [flag for flag in _CPU_FLAGS if flag in flags]
    if not found:
        return PrecisionChoice(
            precision=FLOAT32,
            reason=f"this CPU is not known to have {' or '.join(_CPU_FLAGS)}",
        )
    if os.environ.get("TF_ENABLE_ONEDNN_OPTS") == "0":
        return PrecisionChoice(
            precision=FLOAT32,
            reason="TF_ENABLE_ONEDNN_OPTS=0 turns off the products for "
            f"{found[0]}",
        )
    return PrecisionChoice(
        precision=BFLOAT16, reason=f"this CPU has {found[0]}"
    )


def cpu_flags(path: str = _CPU_INFO) -> frozenset[str]:
    """Lists what the CPU can do; nothing where that is not known."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except OSError:  # Not Linux.
        return frozenset()
    for line in text.splitlines():
        name, _, values = line.partition(":")
        if name.strip() == "flags":
            return frozenset(values.split())
    return frozenset()
