import pytest
import tensorflow as tf

from training import devices, input_pipeline, workers

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
    devices.set_seed(1, deterministic=deterministic)
    assert bool(calls) == is_switched_on


def test_a_seed_may_have_more_than_32_bits():
    devices.set_seed(2**32 + 1)


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
