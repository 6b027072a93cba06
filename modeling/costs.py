"""Estimates of a network's parameters, arithmetic and memory.

They are computed from the configuration, without a model. Arithmetic counts
matrix products, a multiplication and an addition as two operations. Memory
counts the bytes that `modeling` and `training` keep. Symbols in comments: B
batch, T tokens, D hidden size, F inner size, N heads, V vocabulary, P
predictions.
"""

import dataclasses
import math

from modeling import config as config_lib

FLOAT_BYTES = 4
_COMPUTE_BYTES = {"float32": 4, "mixed_bfloat16": 2, "mixed_float16": 2}
PRECISIONS = tuple(_COMPUTE_BYTES)

# The backward pass takes two products for each one of the forward pass.
PRODUCTS_PER_FORWARD = 3
# Clipping reads each gradient twice and writes it once; Adam reads it and
# three values, and writes three.
_UPDATE_PASSES = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shape:
    """The shape of one sequence.

    Attributes:
        max_seq_length: T.
        max_predictions_per_seq: P; 0 in fine-tuning.
    """

    max_seq_length: int
    max_predictions_per_seq: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method:
    """The options of a step that affect its memory.

    Attributes:
        precision: one of `PRECISIONS`; weights and moments are float32.
        recompute: gradient checkpointing: each layer keeps only its output.
        num_parts: number of micro-batches.
    """

    precision: str = "float32"
    recompute: bool = False
    num_parts: int = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Memory:
    """Peak memory of a replica in a step, in bytes."""

    weights: int
    moments: int
    gradients: int
    activations: int

    @property
    def total(self) -> int:
        """The sum of all parts."""
        return sum(dataclasses.astuple(self))


def encoder_parameters(config: config_lib.BertConfig) -> int:
    """Counts the parameters under `bert/`: embeddings, layers and pooler."""
    shapes = config.encoder_shapes()
    return sum(map(math.prod, shapes.values()))


def pretraining_parameters(config: config_lib.BertConfig) -> int:
    """Counts the parameters of the encoder and both pre-training heads.

    The word embeddings, which are also the output weights of the masked
    language model, count once.
    """
    hidden = config.hidden_size
    transform = hidden * hidden + hidden + 2 * hidden  # dense, LayerNorm
    next_sentence = hidden * 2 + 2
    heads = transform + config.vocab_size + next_sentence
    return encoder_parameters(config) + heads


def encoder_flops(config: config_lib.BertConfig, num_tokens: float) -> float:
    """Counts the forward operations of all layers for a sequence."""
    hidden, inner = config.hidden_size, config.intermediate_size
    weights = 4 * hidden**2 + 2 * hidden * inner  # q, k, v, output; F in, out
    attention = 2 * num_tokens * hidden  # scores and context, a token
    return config.num_hidden_layers * 2 * num_tokens * (weights + attention)


def head_flops(config: config_lib.BertConfig, shape: Shape) -> int:
    """Counts the forward operations of pooler and heads for a sequence."""
    hidden = config.hidden_size
    per_prediction = hidden**2 + hidden * config.vocab_size
    pooled = hidden**2 + 2 * hidden
    return 2 * (shape.max_predictions_per_seq * per_prediction + pooled)


def training_flops(
    config: config_lib.BertConfig, shape: Shape, *, recompute: bool = False
) -> float:
    """Counts the operations of a sequence's forward and backward pass."""
    layers = encoder_flops(config, shape.max_seq_length)
    total = PRODUCTS_PER_FORWARD * (layers + head_flops(config, shape))
    return total + (layers if recompute else 0)


def update_traffic(config: config_lib.BertConfig) -> int:
    """Counts the bytes that clipping and the optimizer move in a step."""
    return _UPDATE_PASSES * FLOAT_BYTES * pretraining_parameters(config)


def all_reduce_bytes(config: config_lib.BertConfig, num_replicas: int) -> float:
    """Counts the bytes that each replica sends in a ring all-reduce."""
    gradients = FLOAT_BYTES * pretraining_parameters(config)
    return 2 * (num_replicas - 1) / num_replicas * gradients


def checkpoint_bytes(config: config_lib.BertConfig) -> int:
    """Counts the bytes of a training checkpoint: weights and moments."""
    return 3 * FLOAT_BYTES * pretraining_parameters(config)


def layer_activations(
    config: config_lib.BertConfig, shape: Shape, precision: str
) -> int:
    """Counts the bytes that one layer keeps per sequence for its gradients.

    Per token these are queries, keys and values; the context before and after
    joining its heads; the inputs and outputs of both normalizations: 9 D.
    Before and after the activation: 2 F. Probabilities before and after
    dropout: 2 N T.
    """
    tokens = shape.max_seq_length
    elements = tokens * (
        9 * config.hidden_size
        + 2 * config.intermediate_size
        + 2 * config.num_attention_heads * tokens
    )
    return elements * _COMPUTE_BYTES[precision]


def head_activations(
    config: config_lib.BertConfig, shape: Shape, precision: str
) -> int:
    """Counts the bytes of the masked language model per sequence.

    Per prediction these are logits, probabilities and, unless the products are
    in float32, the logits in float32: V each.
    """
    compute = _COMPUTE_BYTES[precision]
    wide = FLOAT_BYTES if compute != FLOAT_BYTES else 0
    per_word = 2 * compute + wide
    return shape.max_predictions_per_seq * config.vocab_size * per_word


def activations(
    config: config_lib.BertConfig, shape: Shape, method: Method
) -> int:
    """Counts the bytes of a sequence at the start of the backward pass.

    The gradients of the current layer need as much again, as do the recomputed
    activations of a layer.
    """
    layer = layer_activations(config, shape, method.precision)
    head = head_activations(config, shape, method.precision)
    output = (
        shape.max_seq_length
        * config.hidden_size
        * _COMPUTE_BYTES[method.precision]
    )
    # The embeddings' sum is normalized in float32.
    embeddings = FLOAT_BYTES * shape.max_seq_length * config.hidden_size
    kept, at_once = (output, 2 * layer) if method.recompute else (layer, layer)
    return embeddings + config.num_hidden_layers * kept + at_once + head


def memory(
    config: config_lib.BertConfig, shape: Shape, num_rows: int, method: Method
) -> Memory:
    """Counts the bytes a replica needs for a step.

    Args:
        config: of the network.
        shape: of a sequence.
        num_rows: sequences of the replica, all micro-batches together.
        method: how the step is computed.
    """
    count = pretraining_parameters(config)
    narrow = _COMPUTE_BYTES[method.precision]
    casts = narrow if narrow != FLOAT_BYTES else 0
    # Gradients and their clipped copies; with micro-batches also their running
    # sum.
    copies = 2 if method.num_parts == 1 else 3
    rows = -(-num_rows // method.num_parts)
    return Memory(
        weights=(FLOAT_BYTES + casts) * count,
        moments=2 * FLOAT_BYTES * count,
        gradients=copies * FLOAT_BYTES * count,
        activations=rows * activations(config, shape, method),
    )
