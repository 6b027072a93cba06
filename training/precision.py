"""The arithmetic that suits the devices: `--precision=auto`."""

import dataclasses
import os
import pathlib

import keras
import tensorflow as tf

from files import paths
from training import checkpointing

AUTO = "auto"
FLOAT32, BFLOAT16 = "float32", "mixed_bfloat16"
# A CPU multiplies bfloat16 faster than float32 with one of these. Told by its
# flags and not by the clock: measured on a busy machine, products of the same
# shapes were 1.9 to 5.2 times as fast, and the choice must not be chance.
_CPU_FLAGS = ("amx_bf16", "avx512_bf16")
_CPU_INFO = "/proc/cpuinfo"
# Source: NVIDIA's A100 (compute capability 8.0) was the first with bfloat16.
_FIRST_GPU_CAPABILITY = (8, 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice:
    """A precision, and why it was chosen, in words."""

    precision: str
    reason: str


def in_use() -> str:
    """Returns the precision that was set, as the flag names it."""
    return keras.config.dtype_policy().name


def choose(
    strategy: tf.distribute.Strategy, output_dir: str | None = None
) -> Choice:
    """Chooses a precision for the devices of a run.

    Args:
        strategy: names the devices.
        output_dir: the folder of the run. What its checkpoints were made with
            stays: a run must not change on its way.
    """
    for folder in _folders(output_dir) if output_dir else ():
        kept = _kept(folder)
        if kept:
            return kept
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return Choice(precision=BFLOAT16, reason="TPUs multiply it fastest")
    devices = strategy.extended.worker_devices
    if any("GPU" in device for device in devices):
        return of_gpus(
            [
                tf.config.experimental.get_device_details(gpu)
                for gpu in tf.config.list_physical_devices("GPU")
            ]
        )
    return of_cpu(cpu_flags())


def _folders(output_dir: str) -> list[str]:
    """Lists the folder of a run, and those of its trials."""
    return [output_dir, *paths.matching(output_dir, "trial-*")]


def _kept(folder: str) -> Choice | None:
    """Returns what the latest checkpoint that says so was made with."""
    for prefix, state in checkpointing.readable_states(folder):
        precision = state.get("identity", {}).get("precision")
        if precision is not None:
            return Choice(
                precision=precision, reason=f"{prefix} was made with it"
            )
    return None


def of_gpus(details: list[dict[str, object]]) -> Choice:
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
        return Choice(
            precision=BFLOAT16,
            reason=f"GPUs of compute capability {shown} have bfloat16",
        )
    least = ".".join(map(str, _FIRST_GPU_CAPABILITY))
    return Choice(
        precision=FLOAT32,
        reason=f"bfloat16 takes GPUs of compute capability {least} or more, "
        f"and here it is {shown}; mixed_float16 may be faster",
    )


def of_cpu(flags: frozenset[str]) -> Choice:
    """Chooses for a CPU, by its flags as Linux names them."""
    found = [flag for flag in _CPU_FLAGS if flag in flags]
    if not found:
        return Choice(
            precision=FLOAT32,
            reason=f"this CPU is not known to have {' or '.join(_CPU_FLAGS)}",
        )
    if os.environ.get("TF_ENABLE_ONEDNN_OPTS") == "0":
        return Choice(
            precision=FLOAT32,
            reason="TF_ENABLE_ONEDNN_OPTS=0 turns off the products for "
            f"{found[0]}",
        )
    return Choice(precision=BFLOAT16, reason=f"this CPU has {found[0]}")


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
