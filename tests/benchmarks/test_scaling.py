import json
import math

import numpy as np
import pytest

from benchmarks import (
    scaling,
    scaling_comparison,
    scaling_costs,
    scaling_plans,
)
from modeling import config as config_lib
from modeling import sizes
from training import records

_CONFIG = config_lib.BertConfig(
    vocab_size=11,
    hidden_size=6,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=10,
    max_position_embeddings=8,
    type_vocab_size=2,
)
_SHAPE = scaling_costs.Shape(max_seq_length=5, max_predictions_per_seq=2)
_DEVICE = scaling_plans.Device(
    name="toy",
    about="",
    peak_flops=1e9,
    memory_bytes=1e6,
    memory_bandwidth=1e6,
    link_bandwidth=1e5,
    network_bandwidth=1e3,
    devices_per_machine=2,
)
_LAYER_FLOPS = 2 * 5 * (4 * 36 + 2 * 60 + 2 * 5 * 6)
_HEAD_FLOPS = 2 * (2 * (36 + 66) + 36 + 12)


def test_training_takes_three_times_the_products_of_a_pass_forward():
    flops = scaling_costs.training_flops(_CONFIG, _SHAPE)
    assert flops == 3 * (2 * _LAYER_FLOPS + _HEAD_FLOPS)


def test_recomputing_adds_one_pass_through_the_layers():
    flops = scaling_costs.training_flops(_CONFIG, _SHAPE, recompute=True)
    assert flops == 4 * 2 * _LAYER_FLOPS + 3 * _HEAD_FLOPS


def test_base_takes_six_operations_a_token_and_weight_and_some_more():
    # The rule of thumb leaves attention out, and counts no embeddings.
    config = scaling_comparison.read_config("bert_base_uncased")
    shape = scaling_plans.PAPER_PHASES[0].shape
    per_token = scaling_costs.training_flops(config, shape) / 128
    weights = 12 * sizes.layer_parameters(config)
    assert 1.05 < per_token / (6 * weights) < 1.10


@pytest.mark.slow
def test_forward_products_are_those_of_the_models_graph():
    import tensorflow as tf

    from modeling import heads

    model = heads.BertForPreTraining(_CONFIG)
    ints = tf.TensorSpec([1, 5], tf.int32)
    function = tf.function(model.call, autograph=False).get_concrete_function(
        *[ints] * 3, tf.TensorSpec([1, 2], tf.int32)
    )
    operations = list(function.graph.get_operations())
    products = [
        op for op in operations if op.type in ("MatMul", "BatchMatMulV2")
    ]
    counted = 0
    for op in products:
        left, right = (x.shape for x in op.inputs[:2])
        transposed = op.get_attr(
            "transpose_a" if op.type == "MatMul" else "adj_x"
        )
        inner = left[-2] if transposed else left[-1]
        counted += 2 * math.prod(op.outputs[0].shape) * inner
        assert right.rank == left.rank
    layers = 2 * scaling_costs.layer_flops(_CONFIG, 5)
    computed = layers + scaling_costs.head_flops(_CONFIG, _SHAPE)
    segments = 2 * 5 * 2 * 6  # The one product that the formula leaves out.
    assert counted == computed + segments


def test_a_layer_keeps_what_is_listed():
    elements = 5 * (9 * 6 + 2 * 10 + 2 * 3 * 5)
    for precision, size in (("float32", 4), ("mixed_bfloat16", 2)):
        kept = scaling_costs.layer_activations(_CONFIG, _SHAPE, precision)
        assert kept == size * elements


def test_memory_counts_rows_of_a_part_and_the_sum_of_gradients():
    count = sizes.pretraining_parameters(_CONFIG)
    whole = scaling_costs.memory(_CONFIG, _SHAPE, 8, scaling_costs.Method())
    assert whole.weights == 4 * count
    assert whole.moments == whole.gradients == 8 * count
    parts = scaling_costs.memory(
        _CONFIG, _SHAPE, 8, scaling_costs.Method(num_parts=4)
    )
    assert parts.activations == whole.activations / 4
    assert parts.gradients == 12 * count
    mixed = scaling_costs.memory(
        _CONFIG, _SHAPE, 8, scaling_costs.Method(precision="mixed_float16")
    )
    assert mixed.weights == 6 * count
    assert mixed.total == (
        mixed.weights + mixed.moments + mixed.gradients + mixed.activations
    )


def test_recomputing_keeps_one_output_of_each_layer():
    activations = [
        scaling_costs.activations(
            _CONFIG, _SHAPE, scaling_costs.Method(recompute=recompute)
        )
        for recompute in (False, True)
    ]
    layer = scaling_costs.layer_activations(_CONFIG, _SHAPE, "float32")
    # The layer that is gone back through is there a second time.
    assert activations[0] - activations[1] == 2 * (layer - 4 * 5 * 6) - layer


@pytest.mark.parametrize(("length", "predictions"), [(128, 20), (512, 77)])
@pytest.mark.parametrize("filled", [1.0, 0.75])
def test_record_is_as_long_as_one_that_is_written(length, predictions, filled):
    tokens, masked = round(length * filled), round(predictions * filled)
    ids = np.where(np.arange(length) < tokens, 2000, 0)
    places = np.linspace(0, tokens - 1, masked).astype(int)
    record = records.serialize(
        {
            "input_ids": ids,
            "input_mask": (ids > 0).astype(int),
            "segment_ids": np.zeros(length, int),
            "masked_lm_positions": np.pad(places, (0, predictions - masked)),
            "masked_lm_ids": np.pad(
                np.full(masked, 2000), (0, predictions - masked)
            ),
            "masked_lm_weights": np.ones(predictions),
            "next_sentence_labels": [0],
        },
        records.pretraining_features(length, predictions),
    )
    shape = scaling_costs.Shape(
        max_seq_length=length, max_predictions_per_seq=predictions
    )
    computed = scaling_costs.record_bytes(shape, id_bytes=2, fill=filled)
    framing = 16  # Length and two checksums of a TFRecord.
    assert abs(computed - (len(record) + framing)) < 0.02 * len(record)


def test_corpus_fills_records_but_for_the_marks_between_texts():
    count = scaling_costs.records_per_copy(
        scaling_plans.PAPER_PHASES[0].shape, 1000, fill=1.0
    )
    assert count == 1000 / 125


def test_ring_sends_twice_all_gradients_but_one_share():
    gradients = 4 * sizes.pretraining_parameters(_CONFIG)
    sent = [scaling_costs.all_reduce_bytes(_CONFIG, n) for n in (1, 2, 4)]
    assert sent == [0, gradients, 1.5 * gradients]


def _plan(device=_DEVICE, num_devices=64, recompute=False):
    return scaling_plans.plan(
        _CONFIG,
        _SHAPE,
        scaling_plans.Cluster(
            device=device, num_devices=num_devices, efficiency=0.5
        ),
        scaling_costs.Method(recompute=recompute),
    )


def test_step_adds_products_update_and_exchange():
    step = _plan().step
    count = sizes.pretraining_parameters(_CONFIG)
    flops = 4 * scaling_costs.training_flops(_CONFIG, _SHAPE)
    assert step.compute == pytest.approx(flops / 0.5e9)
    assert step.update == pytest.approx(40 * count / 1e6)
    assert step.exchange == pytest.approx(2 * 63 / 64 * 4 * count / 1e3)
    assert step.total == step.compute + step.update + step.exchange


def test_one_machine_exchanges_over_its_own_links():
    ratio = (
        _plan(num_devices=4).step.exchange / _plan(num_devices=2).step.exchange
    )
    assert ratio == pytest.approx(1.5 * 100)


def test_batch_is_parted_until_it_fits():
    fixed = 4 * 5 * sizes.pretraining_parameters(_CONFIG)
    row = scaling_costs.activations(_CONFIG, _SHAPE, scaling_costs.Method())
    grown = 4 * sizes.pretraining_parameters(_CONFIG)

    def parts(rows):
        room = (fixed + grown + rows * row) / 0.9 + 1
        device = scaling_plans.dataclasses.replace(_DEVICE, memory_bytes=room)
        found = _plan(device, num_devices=16)
        return found and found.method.num_parts

    assert parts(16) == 1
    assert parts(8) == 2
    assert parts(7.9) == 4
    assert parts(1) == 16
    assert parts(0.5) is None


def test_days_of_the_papers_run():
    step = scaling_plans.Step(compute=0.5, update=0.25, exchange=0.25)
    plan = scaling_plans.dataclasses.replace(_plan(), step=step)
    assert scaling_plans.days([plan, plan]) == pytest.approx(1e6 / 86400)


def test_paper_and_release_agree_on_the_speed_of_a_chip():
    # Published: BASE 4 days on 16 chips, LARGE 4 days on 64 (§A.2), BASE two
    # weeks on one Cloud TPU v2, which is 4 chips (the release). The operations
    # computed here must give the chips of all three about one speed.
    totals = {}
    for name in ("bert_base_uncased", "bert_large_uncased"):
        config = scaling_comparison.read_config(name)
        totals[name] = scaling_plans.PAPER_BATCH * sum(
            phase.num_steps * scaling_costs.training_flops(config, phase.shape)
            for phase in scaling_plans.PAPER_PHASES
        )
    speeds = [
        totals[name] / (chips * days * 86400)
        for name, chips, days in (
            ("bert_base_uncased", 16, 4),
            ("bert_large_uncased", 64, 4),
            ("bert_base_uncased", 4, 14),
        )
    ]
    assert max(speeds) < 1.4 * min(speeds)
    assert 3e12 < min(speeds) < max(speeds) < 45e12  # A chip's peak.


def test_report_has_a_row_for_every_device_and_number():
    options = scaling.Options(devices=["h100", "a100"], num_devices=["1", "8"])
    text = scaling.report(options)
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


def test_network_that_does_not_fit_is_said_so(tmp_path):
    small = {"memory_bytes": 1e9}
    path = tmp_path / "devices.json"
    device = scaling_plans.dataclasses.asdict(_DEVICE) | small
    path.write_text(json.dumps([device]))
    text = scaling.report(scaling.Options(devices_file=str(path)))
    assert "| bert_large_uncased | 1 | does not fit |" in text


def test_unknown_device_is_named():
    options = scaling.Options(devices=["abacus"])
    with pytest.raises(ValueError, match=r"no abacus, only a100, h100"):
        scaling.report(options)


@pytest.mark.parametrize("content", ["{", "[1]", '[{"name": "x"}]'])
def test_file_that_holds_no_devices_is_named(tmp_path, content):
    path = tmp_path / "devices.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"devices\.json: must be a JSON list"):
        scaling_plans.read_devices(str(path))


def test_case_is_read():
    case = scaling_comparison.read_case("bert_tiny:512:8:4", "float32")
    assert case.config.hidden_size == 128
    assert case.shape == scaling_plans.PAPER_PHASES[1].shape
    assert (case.batch_size, case.method.num_parts) == (8, 4)
    case = scaling_comparison.read_case("bert_mini:128:2:recompute", "float32")
    assert case.method.recompute
    assert case.shape == scaling_plans.PAPER_PHASES[0].shape


@pytest.mark.parametrize(
    "text", ["bert_tiny", "bert_tiny:a:b", "bert_tiny:128:4:fast"]
)
def test_case_of_another_form_is_refused(text):
    with pytest.raises(ValueError, match="CONFIG:LENGTH:BATCH"):
        scaling_comparison.read_case(text, "float32")


@pytest.mark.slow
def test_measured_run_is_near_what_was_computed():
    case = scaling_comparison.read_case("bert_tiny:128:8", "float32")
    text = scaling_comparison.tables([case], 5)
    rows = [
        line.split(" | ")[1:]
        for line in text.splitlines()
        if line.startswith("| bert_tiny:128:8")
    ]
    (_, _, _, computed, measured, share), (*_, checkpoint, saved) = rows
    assert 0 < float(computed.split()[0]) < float(measured.split()[0])
    assert 0 < float(share.split()[0]) < 1
    ratio = float(saved.split()[0]) / float(checkpoint.split()[0])
    assert ratio == pytest.approx(1, abs=0.01)
