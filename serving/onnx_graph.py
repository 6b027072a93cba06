"""Conversion of the network to an ONNX graph, operation by operation.

Source: the operators of ONNX, opset 20 (onnx.ai/onnx/operators). tf2onnx 1.17
converts the TensorFlow graph to the same numbers, but took 6.3 GB of memory for
a model of 90 MB; this takes 1.5 GB, TensorFlow's own included.
"""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from modeling import bert, kernels, layers
from serving import run_folder
from tasks import task as task_lib

if TYPE_CHECKING:
    import onnx

_OPSET, _IR_VERSION = 20, 9  # ONNX Runtime 1.17, of 2024, and newer.
_ACTIVATIONS: dict[Any, tuple[str, dict[str, str]]] = {
    "gelu": ("Gelu", {"approximate": "tanh"}),
    "gelu_exact": ("Gelu", {"approximate": "none"}),
    "relu": ("Relu", {}),
    "tanh": ("Tanh", {}),
    "linear": ("Identity", {}),
}
_PROBABILITIES: dict[str, tuple[str, dict[str, int]]] = {
    task_lib.SINGLE_LABEL: ("Softmax", {"axis": -1}),
    task_lib.MULTI_LABEL: ("Sigmoid", {}),
}


def write(
    task: str,
    model: Any,
    problem_type: str,
    inputs: dict[str, list[Any]],
    outputs: dict[str, list[Any]],
) -> "onnx.ModelProto":
    """Converts the network of a task.

    Args:
        task: one of `run_folder.TASKS`.
        model: of `networks.load`.
        problem_type: of its labels, one of `task.PROBLEM_TYPES`.
        inputs: shapes of the ids by name, None for any size.
        outputs: shapes of the outputs of `networks.outputs_of`, by name.
    """
    graph = _Graph()
    found = _outputs(graph, task, model, problem_type)
    for name in outputs:
        graph.Identity(found[name], output=name)
    helper, onnx_types = graph.onnx.helper, graph.onnx.TensorProto
    network = helper.make_graph(
        graph.nodes,
        task,
        _described(graph, task, inputs, onnx_types.INT32),
        _described(graph, task, outputs, onnx_types.FLOAT),
        graph.weights,
    )
    return helper.make_model(
        network,
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
    )


def _described(
    graph: "_Graph", task: str, shapes, kind
) -> "list[onnx.ValueInfoProto]":
    """Describes inputs or outputs; names their axes of any size."""
    axes = ["batch", "length", ""]
    if task == run_folder.CHOOSE:
        axes.insert(1, "choices")
    return [
        graph.onnx.helper.make_tensor_value_info(
            name,
            kind,
            [size or axis for size, axis in zip(shape, axes, strict=False)],
        )
        for name, shape in shapes.items()
    ]


class _Graph:
    """Nodes and weights; a value is the name of a node's output.

    `graph.MatMul(x, y)` adds that operation, and returns its output.
    """

    def __init__(self):
        import onnx  # Late: of requirements-export.txt.

        self.onnx = onnx
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def __getattr__(self, operator: str) -> Callable[..., str]:
        return functools.partial(self.node, operator)

    def node(self, operator: str, *inputs: str, output="", **attributes) -> str:
        """Adds an operation; returns its output."""
        output = output or f"{operator}_{len(self.nodes)}"
        self.nodes.append(
            self.onnx.helper.make_node(operator, inputs, [output], **attributes)
        )
        return output

    def weight(self, name: str, value: Any, kind: type = np.float32) -> str:
        """Adds a weight, `[...]`, under the release's name."""
        array: np.ndarray = np.asarray(value, kind)
        self.weights.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def constant(self, value: Any, kind: type = np.int64) -> str:
        """Adds a small number or list."""
        return self.weight(f"constant_{len(self.weights)}", value, kind)

    def dense(self, name: str, layer: layers.Dense, x: str) -> str:
        """Adds a dense layer without activation."""
        product = self.MatMul(x, self.weight(f"{name}/kernel", layer.kernel))
        bias = self.weight(f"{name}/bias", layer.bias)
        return self.Add(product, bias)

    def activate(self, layer: layers.Transform, x: str) -> str:
        """Adds the activation of a layer."""
        operator, attributes = _ACTIVATIONS[layer.activation]
        return self.node(operator, x, **attributes)

    def norm(self, name: str, layer: layers.LayerNorm, x: str) -> str:
        """Adds layer normalization."""
        return self.LayerNormalization(
            x,
            self.weight(f"{name}/gamma", layer.gamma),
            self.weight(f"{name}/beta", layer.beta),
            axis=-1,
            epsilon=kernels.LAYER_NORM_EPSILON,
        )

    def logits(self, name: str, weights: Any, bias: Any, x: str) -> str:
        """Adds an output layer, `[..., K]`."""
        kernel = np.asarray(weights).T
        product = self.MatMul(x, self.weight(f"{name}/kernel", kernel))
        return self.Add(product, self.weight(f"{name}/bias", bias))


# --------------------------------------------------------------- The network


def _outputs(
    graph: _Graph, task: str, model: Any, problem_type: str
) -> dict[str, str]:
    """Adds encoder and head; returns the outputs by name."""
    ids = ["input_ids", "input_mask", "segment_ids"]
    if task == run_folder.CHOOSE:
        ids = [_flat(graph, name) for name in ids]
    encoder = model if task == run_folder.EMBED else model.bert
    hidden = _encoder(graph, encoder, *ids)  # [R, T, D]
    if task == run_folder.ANSWER:
        name, span = "cls/squad", model.span
        logits = graph.logits(
            name, span.output_weights, span.output_bias, hidden
        )
        start, end = (
            graph.Gather(logits, graph.constant(side), axis=-1)
            for side in (0, 1)
        )
        return {"start_logits": start, "end_logits": end}
    vectors = hidden
    if task != run_folder.TAG:
        first = graph.Gather(hidden, graph.constant(0), axis=1)  # [R, D]
        dense = graph.dense("bert/pooler/dense", encoder.pooler.dense, first)
        vectors = graph.Tanh(dense)
    if task == run_folder.EMBED:
        return {"sequence_output": hidden, "pooled_output": vectors}
    if task == run_folder.CHOOSE:
        kernel = graph.weight(
            "cls/multiple_choice/kernel",
            np.asarray(model.score.output_weights).T,
        )
        scores = graph.MatMul(vectors, kernel)  # [B * C, 1]
        shape = graph.Shape("input_ids", end=2)
        logits = graph.Reshape(scores, shape)  # [B, C]
    else:
        logits = graph.logits(
            "output", model.output_weights, model.output_bias, vectors
        )
    if task == run_folder.SCORE:
        return {"score": graph.Squeeze(logits, graph.constant([-1]))}
    operator, attributes = _PROBABILITIES[problem_type]
    return {"probabilities": graph.node(operator, logits, **attributes)}


def _flat(graph: _Graph, ids: str) -> str:
    """Reshapes `[B, C, T]` to `[B * C, T]`."""
    length = graph.Shape(ids, start=2)
    shape = graph.Concat(graph.constant([-1]), length, axis=0)
    return graph.Reshape(ids, shape)


def _encoder(
    graph: _Graph, model: bert.BertModel, ids: str, mask: str, segments: str
) -> str:
    """Adds embeddings and layers; returns the last output, `[R, T, D]`."""
    scope, table = "bert/embeddings", model.embeddings
    words = graph.Gather(
        graph.weight(f"{scope}/word_embeddings", table.word_embeddings), ids
    )
    # As released: a product, so that an id outside the table adds zero. ONNX
    # counts negative ids from the end.
    num_types = graph.constant([model.config.type_vocab_size], np.int32)
    is_negative = graph.Less(segments, graph.constant([0], np.int32))
    one_hot = graph.OneHot(
        graph.Where(is_negative, num_types, segments),
        num_types,
        graph.constant([0, 1], np.float32),
    )
    types = graph.weight(
        f"{scope}/token_type_embeddings", table.token_type_embeddings
    )
    positions = graph.Slice(
        graph.weight(f"{scope}/position_embeddings", table.position_embeddings),
        graph.constant([0]),
        graph.Shape(ids, start=1),
        graph.constant([0]),
    )  # [T, D]
    summed = graph.Add(words, graph.MatMul(one_hot, types))
    summed = graph.Add(summed, positions)
    hidden = graph.norm(f"{scope}/LayerNorm", table.norm, summed)
    present = graph.Cast(mask, to=graph.onnx.TensorProto.FLOAT)
    padding = graph.Sub(graph.constant(1.0, np.float32), present)
    adder = graph.Mul(padding, graph.constant(layers.PADDING_SCORE, np.float32))
    adder = graph.Unsqueeze(adder, graph.constant([1, 2]))
    for index, layer in enumerate(model.encoder.stack):
        name = f"bert/encoder/layer_{index}"
        hidden = _attention(
            graph, f"{name}/attention", layer.attention, hidden, adder
        )
        inside = graph.dense(
            f"{name}/intermediate/dense", layer.intermediate.dense, hidden
        )
        inside = graph.activate(layer.intermediate, inside)
        hidden = _block_end(
            graph, f"{name}/output", layer.block_output, inside, hidden
        )
    return hidden


def _attention(
    graph: _Graph, name: str, layer: layers.Attention, hidden: str, adder: str
) -> str:
    """Adds self-attention and the end of its block."""
    attention = layer.self_attention
    num_heads = attention.config.num_attention_heads
    size = attention.config.hidden_size // num_heads
    shape = graph.constant([0, 0, num_heads, size])  # 0 keeps an axis.

    def heads(part: str, axes: list[int]) -> str:
        dense = getattr(attention, part)
        product = graph.dense(f"{name}/self/{part}", dense, hidden)
        by_head = graph.Reshape(product, shape)
        return graph.Transpose(by_head, perm=axes)

    scores = graph.MatMul(
        heads("query", [0, 2, 1, 3]), heads("key", [0, 2, 3, 1])
    )
    scaled = graph.Mul(scores, graph.constant(size**-0.5, np.float32))
    scaled = graph.Add(scaled, adder)
    probs = graph.Softmax(scaled, axis=-1)
    context = graph.MatMul(probs, heads("value", [0, 2, 1, 3]))
    context = graph.Transpose(context, perm=[0, 2, 1, 3])
    joined = graph.Reshape(context, graph.constant([0, 0, num_heads * size]))
    return _block_end(
        graph, f"{name}/output", layer.block_output, joined, hidden
    )


def _block_end(
    graph: _Graph, name: str, layer: layers.BlockOutput, x: str, residual: str
) -> str:
    """Adds projection, residual connection and normalization."""
    projected = graph.dense(f"{name}/dense", layer.dense, x)
    summed = graph.Add(projected, residual)
    return graph.norm(f"{name}/LayerNorm", layer.norm, summed)
