"""The estimates, worked by hand and counted in the model's graph."""

import math
import pathlib

import pytest

from modeling import config as config_lib
from modeling import costs
from tests import toy_config

_BASE = config_lib.BertConfig.from_json_file(
    str(
        pathlib.Path(config_lib.__file__).parent
        / "configs"
        / "bert_base_uncased.json"
    )
)
_CONFIG = toy_config.config(num_hidden_layers=2)
_SHAPE = costs.Shape(max_seq_length=5, max_predictions_per_seq=2)
_LAYER_FLOPS = 2 * 5 * (4 * 12 * 12 + 2 * 12 * 17 + 2 * 5 * 12)
_HEAD_FLOPS = 2 * (2 * (12 * 12 + 12 * 31) + 12 * 12 + 12 * 2)


def test_training_takes_three_times_the_products_of_a_pass_forward():
    flops = costs.training_flops(_CONFIG, _SHAPE)
    assert flops == 3 * (2 * _LAYER_FLOPS + _HEAD_FLOPS)


def test_recomputing_adds_one_pass_through_the_layers():
    flops = costs.training_flops(_CONFIG, _SHAPE, recompute=True)
    assert flops == 4 * 2 * _LAYER_FLOPS + 3 * _HEAD_FLOPS


def test_base_takes_six_operations_a_token_and_weight_and_some_more():
    # The rule of thumb leaves attention out, and counts no embeddings.
    shape = costs.Shape(max_seq_length=128, max_predictions_per_seq=20)
    per_token = costs.training_flops(_BASE, shape) / 128
    weights = 12 * 7_087_872  # Of the layers.
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
    layers = costs.encoder_flops(_CONFIG, 5)
    computed = layers + costs.head_flops(_CONFIG, _SHAPE)
    segments = 2 * 5 * 2 * 12  # The one product that the formula leaves out.
    assert counted == computed + segments


def test_a_layer_keeps_what_is_listed():
    elements = 5 * (9 * 12 + 2 * 17 + 2 * 3 * 5)
    for precision, size in (("float32", 4), ("mixed_bfloat16", 2)):
        kept = costs.layer_activations(_CONFIG, _SHAPE, precision)
        assert kept == size * elements


def test_memory_counts_rows_of_a_part_and_the_sum_of_gradients():
    count = costs.pretraining_parameters(_CONFIG)
    whole = costs.memory(_CONFIG, _SHAPE, 8, costs.Method())
    assert whole.weights == 4 * count
    assert whole.moments == whole.gradients == 8 * count
    parts = costs.memory(_CONFIG, _SHAPE, 8, costs.Method(num_parts=4))
    assert parts.activations == whole.activations / 4
    assert parts.gradients == 12 * count
    mixed = costs.memory(
        _CONFIG, _SHAPE, 8, costs.Method(precision="mixed_float16")
    )
    assert mixed.weights == 6 * count
    assert mixed.total == (
        mixed.weights + mixed.moments + mixed.gradients + mixed.activations
    )


def test_recomputing_keeps_one_output_of_each_layer():
    activations = [
        costs.activations(_CONFIG, _SHAPE, costs.Method(recompute=recompute))
        for recompute in (False, True)
    ]
    layer = costs.layer_activations(_CONFIG, _SHAPE, "float32")
    # The layer that is gone back through is there a second time.
    assert activations[0] - activations[1] == 2 * (layer - 4 * 5 * 12) - layer


def test_ring_sends_twice_all_gradients_but_one_share():
    gradients = 4 * costs.pretraining_parameters(_CONFIG)
    sent = [costs.all_reduce_bytes(_CONFIG, n) for n in (1, 2, 4)]
    assert sent == [0, gradients, 1.5 * gradients]
