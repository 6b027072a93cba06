"""The plans of pre-training on devices, worked by hand."""

import dataclasses
import json

import numpy as np
import pytest

from benchmarks import scaling
from modeling import costs
from tests import programs, toy_config
from training import records

_CONFIG = toy_config.config()
_SHAPE = costs.Shape(max_seq_length=5, max_predictions_per_seq=2)
_DEVICE = scaling.Device(
    name="toy",
    about="",
    peak_flops=1e9,
    memory_bytes=1e6,
    memory_bandwidth=1e6,
    link_bandwidth=1e5,
    network_bandwidth=1e3,
    devices_per_machine=2,
)


@pytest.mark.parametrize(("length", "predictions"), [(128, 20), (512, 77)])
@pytest.mark.parametrize("filled", [1.0, 0.75])
def test_record_is_as_long_as_one_that_is_written(
    tmp_path, length, predictions, filled
):
    tokens, masked = round(length * filled), round(predictions * filled)
    ids = np.where(np.arange(length) < tokens, 2000, 0)
    places = np.linspace(0, tokens - 1, masked).astype(int)
    record = {
        "input_ids": ids,
        "input_mask": (ids > 0).astype(int),
        "segment_ids": np.zeros(length, int),
        "masked_lm_positions": np.pad(places, (0, predictions - masked)),
        "masked_lm_ids": np.pad(
            np.full(masked, 2000), (0, predictions - masked)
        ),
        "masked_lm_weights": np.ones(predictions),
        "next_sentence_labels": [0],
    }
    path = tmp_path / "records"
    features = records.pretraining_features(length, predictions)
    records.write_records(str(path), [record], features)
    shape = costs.Shape(
        max_seq_length=length, max_predictions_per_seq=predictions
    )
    computed = scaling.record_bytes(shape, id_bytes=2, fill=filled)
    written = path.stat().st_size
    assert abs(computed - written) < 0.02 * written


def _plan(device=_DEVICE, num_devices=64, recompute=False):
    return scaling.plan(
        _CONFIG,
        _SHAPE,
        device,
        num_devices,
        scaling.Options(
            precision="float32", recompute=recompute, efficiency=0.5
        ),
    )


def test_step_adds_products_update_and_exchange():
    plan = _plan()
    count = costs.pretraining_parameters(_CONFIG)
    flops = 4 * costs.training_flops(_CONFIG, _SHAPE)
    assert plan.compute == pytest.approx(flops / 0.5e9)
    assert plan.update == pytest.approx(40 * count / 1e6)
    assert plan.exchange == pytest.approx(2 * 63 / 64 * 4 * count / 1e3)
    assert plan.step == plan.compute + plan.update + plan.exchange
    # One machine exchanges over its own links.
    ratio = _plan(num_devices=4).exchange / _plan(num_devices=2).exchange
    assert ratio == pytest.approx(1.5 * 100)
    # The paper's run takes so many days.
    plan = dataclasses.replace(plan, compute=0.5, update=0.25, exchange=0.25)
    assert scaling.days([plan, plan]) == pytest.approx(1e6 / 86400)
    # A corpus fills records but for the marks between texts.
    steps = next(iter(scaling.PAPER_STEPS))
    assert scaling.records_per_copy(steps, 1000, fill=1.0) == 1000 / 125


def test_batch_is_parted_until_it_fits():
    fixed = 4 * 5 * costs.pretraining_parameters(_CONFIG)
    row = costs.activations(_CONFIG, _SHAPE, costs.Method())
    grown = 4 * costs.pretraining_parameters(_CONFIG)

    def parts(rows):
        room = (fixed + grown + rows * row) / 0.9 + 1
        device = dataclasses.replace(_DEVICE, memory_bytes=room)
        found = _plan(device, num_devices=16)
        return found and found.method.num_parts

    assert parts(16) == 1
    assert parts(8) == 2
    assert parts(7.9) == 4
    assert parts(1) == 16
    assert parts(0.5) is None


def test_paper_and_release_agree_on_the_speed_of_a_chip():
    # Published: BASE 4 days on 16 chips, LARGE 4 days on 64 (§A.2), BASE two
    # weeks on one Cloud TPU v2, which is 4 chips (the release). The operations
    # computed here must give the chips of all three about one speed.
    speeds = [
        scaling.paper_flops(scaling.read_config(name)) / (chips * days * 86400)
        for name, chips, days in (
            ("bert_base_uncased", 16, 4),
            ("bert_large_uncased", 64, 4),
            ("bert_base_uncased", 4, 14),
        )
    ]
    assert max(speeds) < 1.4 * min(speeds)
    assert 3e12 < min(speeds) < max(speeds) < 45e12  # A chip's peak.


def test_report_has_a_row_for_every_device_and_number(capsys):
    options = programs.parse(
        scaling.Options, "--devices=h100,a100", "--num_devices=1,8"
    )
    scaling.main(options)
    text = capsys.readouterr().out
    rows = [
        line.split(" | ")[:2]
        for line in text.split("NVLink")[1].splitlines()
        if line.startswith("| bert_")
    ]
    assert rows == [
        [f"| bert_{size}_uncased", count]
        for size in ("base", "large")
        for count in ("1", "8")
    ]


def test_what_does_not_fit_is_marked_and_no_device_named(tmp_path, capsys):
    small = {"memory_bytes": 1e9}
    path = tmp_path / "devices.json"
    device = dataclasses.asdict(_DEVICE) | small
    path.write_text(json.dumps([device]))
    scaling.main(scaling.Options(devices_file=str(path)))
    row = "| bert_large_uncased | 1 | does not fit |"
    assert row in capsys.readouterr().out
    options = scaling.Options(devices=("abacus",))
    with pytest.raises(ValueError, match=r"lacks abacus, and has a100, h100"):
        scaling.main(options)


@pytest.mark.parametrize("content", ["{", "[1]", '[{"name": "x"}]'])
def test_file_that_holds_no_devices_is_named(tmp_path, content):
    path = tmp_path / "devices.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"devices\.json: must be a JSON list"):
        scaling.read_devices(scaling.Options(devices_file=str(path)))
