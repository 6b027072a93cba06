import json

import keras
import pytest
import tensorflow as tf

from tests import programs
from training import checkpointing, devices
from training import flags as training_flags


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
    choice = devices.precision_of_cpu(frozenset(flags_of_cpu))
    assert choice.precision == chosen
    assert ("avx512_bf16" in choice.reason) or ("amx_bf16" in choice.reason)


def test_without_onednn_no_cpu_is_fast_in_bfloat16(monkeypatch):
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    choice = devices.precision_of_cpu(frozenset(["amx_bf16"]))
    assert choice.precision == "float32"
    assert "TF_ENABLE_ONEDNN_OPTS=0" in choice.reason


@pytest.mark.parametrize(
    ("capabilities", "chosen", "reason"),
    [
        ([(8, 0), (9, 0)], "mixed_bfloat16", "8.0, 9.0"),
        ([(9, 0), (7, 5)], "float32", "; got 9.0, 7.5"),
        ([None], "float32", "; got unknown"),
    ],
)
def test_every_gpu_must_have_bfloat16(capabilities, chosen, reason):
    choice = devices.precision_of_gpus(
        [{"compute_capability": each} if each else {} for each in capabilities]
    )
    assert choice.precision == chosen
    assert reason in choice.reason


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
    assert (
        devices.choose_precision(_strategy(), str(tmp_path)).precision
        != begun_with
    )
    prefix = _checkpoint(folder, 20, {"identity": {"precision": begun_with}})
    _checkpoint(folder, 30, {"identity": {}})
    _checkpoint(folder, 40, "cut sho")
    choice = devices.choose_precision(_strategy(), str(tmp_path))
    assert choice.precision == begun_with
    assert "model.ckpt-20 was trained with it" in choice.reason, prefix


def test_auto_is_resolved_set_and_logged(monkeypatch, caplog):
    monkeypatch.setattr(devices, "cpu_flags", lambda: frozenset(["amx_bf16"]))
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    with caplog.at_level("INFO"):
        devices.prepare(devices.DeviceOptions(precision="auto"))
    assert devices.precision_in_use() == "mixed_bfloat16"
    assert "auto: mixed_bfloat16, since this CPU has amx_bf16" in caplog.text


def test_a_requested_precision_is_set_on_any_device(monkeypatch):
    monkeypatch.setattr(devices, "cpu_flags", lambda: frozenset(["amx_bf16"]))
    devices.prepare(devices.DeviceOptions(precision="float32"))
    assert devices.precision_in_use() == "float32"


def test_float32_is_the_default_and_auto_is_offered():
    values = programs.defined(training_flags.PretrainingOptions)
    assert values["precision"].default == "float32"
    required = ("--output_dir=o", "--bert_config_file=c")
    values(["program", "--precision=auto", *required])
    assert values.precision == "auto"
