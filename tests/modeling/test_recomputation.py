"""Gradient checkpointing: layers run again in the backward pass."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import bert, compilation
from tests.support import programs, toy_config

_CONFIG = toy_config.config(num_hidden_layers=2)
# Of each layer: query, key, value, output, the feed-forward's two, and those of
# scores and of the values.
_PRODUCTS_PER_LAYER = 8


@pytest.fixture(scope="module")
def model():
    keras.config.set_dtype_policy("float32")
    keras.utils.set_random_seed(3)
    return bert.BertModel(_CONFIG)


def _gradients_of(model, mode, *, recompute):
    """Returns a function of ids: the output and the gradients, with dropout."""
    model.encoder.recompute = recompute
    variables = [weight.value for weight in model.trainable_weights]

    def compute(ids):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            outputs = model(
                ids,
                tf.cast(ids > 0, tf.int32),
                dropout_seed=tf.constant([5, 9]),
            )
            total = tf.reduce_sum(tf.square(outputs["pooled_output"]))
            total += tf.reduce_sum(outputs["sequence_output"] ** 3)
        gradients = tape.gradient(total, variables)
        dense = [tf.convert_to_tensor(g) for g in gradients]
        return outputs["sequence_output"], dense

    return mode.compiled(compute)


@pytest.mark.integration
@pytest.mark.parametrize("mode", compilation.ExecutionMode)
def test_gradients_are_the_same_with_dropout(model, mode, monkeypatch):
    # Small tensors are not compiled.
    monkeypatch.setattr(compilation, "_WORTH_COMPILING", 0)
    ids = tf.constant([[1, 2, 3, 4, 5], [6, 7, 8, 0, 0]])
    output, gradients = _gradients_of(model, mode, recompute=False)(ids)
    again, others = _gradients_of(model, mode, recompute=True)(ids)
    np.testing.assert_array_equal(output, again)
    for weight, one, other in zip(
        model.trainable_weights, gradients, others, strict=True
    ):
        # The same terms, added in another order.
        tolerance = 1e-6 * max(np.abs(one).max(), 1)
        np.testing.assert_allclose(
            one, other, rtol=0, atol=tolerance, err_msg=weight.path
        )
        assert np.any(one), weight.path


_ROWS, _TOKENS = 48, 128
_LARGER = {
    "num_hidden_layers": 4,
    "hidden_size": 192,
    "intermediate_size": 768,
    "max_position_embeddings": _TOKENS,
}
# Numbers that the gradient of a layer needs for each token: query, key, value
# and their result; the feed-forward's inside before and after its activation;
# the probabilities of each head.
_KEPT_NUMBERS = 4 * 192 + 2 * 768 + 3 * _TOKENS
# Measures after compilation: XLA and TensorFlow merge equal computations.
_MEASURE = """
import json, os, sys, tempfile
folder = tempfile.mkdtemp()
os.environ["XLA_FLAGS"] = (
    f"--xla_dump_to={folder} --xla_dump_hlo_as_text "
    "--xla_dump_hlo_module_re=.*compute.*")
import pathlib, re
import keras
import tensorflow as tf
from tensorflow.python.eager import context
from modeling import bert, compilation
from tests.support import toy_config
from tests.modeling import test_recomputation
mode, precision, recompute = sys.argv[1], sys.argv[2], sys.argv[3] == "True"
keras.config.set_dtype_policy(precision)
model = bert.BertModel(toy_config.config(
    **test_recomputation._LARGER))
compute = test_recomputation._gradients_of(
    model, compilation.ExecutionMode(mode), recompute=recompute)

def peak():
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\\s*(\\d+) kB", status)[1]) * 1024

ids = tf.ones([test_recomputation._ROWS, test_recomputation._TOKENS], tf.int32)
if mode == "xla":
    hlo = compute.experimental_get_compiler_ir(ids)(stage="optimized_hlo")
    products = hlo.count(" dot(") + hlo.count("custom-call(")
    (report, *_) = pathlib.Path(folder).glob("*memory-usage-report.txt")
    used = int(re.search(r"Total bytes used: (\\d+)", report.read_text())[1])
else:
    before = peak()
    context.enable_run_metadata()
    compute(ids)[0].numpy()
    used = peak() - before
    graphs = context.export_run_metadata().partition_graphs
    ops = [n.op for g in graphs for part in (g, *g.library.function)
           for n in getattr(part, "node", getattr(part, "node_def", []))]
    products = sum("MatMul" in op for op in ops)
print(json.dumps([products, used]))
"""


def _measure(mode, precision, *, recompute):
    done = programs.invoke("-c", _MEASURE, mode, precision, str(recompute))
    assert done.exit_code == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.integration
@pytest.mark.parametrize(
    ("mode", "precision"), [("fused", "float32"), ("xla", "mixed_bfloat16")]
)
def test_layers_run_a_second_time_and_need_less_memory(mode, precision):
    products, used = _measure(mode, precision, recompute=False)
    more_products, less_used = _measure(mode, precision, recompute=True)
    assert more_products >= products + 4 * (_PRODUCTS_PER_LAYER - 1)
    # Of four layers, one at a time keeps its activations. Without recomputing
    # them, two measurements differ by a tenth of these bytes.
    num_bytes = 4 if precision == "float32" else 2
    kept = _ROWS * _TOKENS * _KEPT_NUMBERS * num_bytes
    assert used - less_used > 3 * kept
