"""What a pre-training step costs, from the sizes of the network alone.

Arithmetic counts matrix products, a multiplication and an addition as two
operations; memory counts what `modeling` and `training` keep. Symbols in
comments are those of the house: B batch, T tokens, D hidden size, F inner size,
N heads, V vocabulary, P predictions.
"""

import dataclasses

from modeling import config as config_lib
from modeling import sizes

FLOAT_BYTES = 4
_COMPUTE_BYTES = {"float32": 4, "mixed_bfloat16": 2, "mixed_float16": 2}
PRECISIONS = tuple(_COMPUTE_BYTES)

# A step's way back takes two products for each one of the way forward.
_PRODUCTS_PER_FORWARD = 3
# Clipping reads each gradient twice and writes it once; Adam reads it and
# three values, and writes three.
_UPDATE_PASSES = 10

# Of the bytes of a record; see `record_bytes`.
_EXAMPLE_OVERHEAD = 16 + 8
_FEATURE_NAMES = (
    *("input_ids", "input_mask", "segment_ids", "masked_lm_positions"),
    *("masked_lm_ids", "masked_lm_weights", "next_sentence_labels"),
)
_FEATURE_OVERHEAD = 12


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shape:
    """One sequence, as records hold it.

    Attributes:
        max_seq_length: T.
        max_predictions_per_seq: P.
    """

    max_seq_length: int
    max_predictions_per_seq: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method:
    """How a step is computed.

    Attributes:
        precision: one of `PRECISIONS`; weights and moments are float32.
        recompute: keep only each layer's output for the way back.
        num_parts: parts of a replica's rows, one after the other.
    """

    precision: str = "float32"
    recompute: bool = False
    num_parts: int = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes a replica holds at the height of a step."""

    weights: int
    moments: int
    gradients: int
    activations: int

    @property
    def total(self) -> int:
        """All of them together."""
        return sum(dataclasses.astuple(self))


def layer_flops(config: config_lib.BertConfig, num_tokens: int) -> int:
    """Counts the operations of one encoder layer, forward, for a sequence."""
    hidden, inner = config.hidden_size, config.intermediate_size
    weights = 4 * hidden**2 + 2 * hidden * inner  # q, k, v, output; F in, out
    attention = 2 * num_tokens * hidden  # scores and context, a token
    return 2 * num_tokens * (weights + attention)


def head_flops(config: config_lib.BertConfig, shape: Shape) -> int:
    """Counts the operations of pooler and heads, forward, for a sequence."""
    hidden = config.hidden_size
    per_prediction = hidden**2 + hidden * config.vocab_size
    pooled = hidden**2 + 2 * hidden
    return 2 * (shape.max_predictions_per_seq * per_prediction + pooled)


def training_flops(
    config: config_lib.BertConfig, shape: Shape, *, recompute: bool = False
) -> int:
    """Counts the operations of training on a sequence, forward and back."""
    layers = config.num_hidden_layers * layer_flops(
        config, shape.max_seq_length
    )
    total = _PRODUCTS_PER_FORWARD * (layers + head_flops(config, shape))
    return total + (layers if recompute else 0)


def update_traffic(config: config_lib.BertConfig) -> int:
    """Counts the bytes that clipping and the optimizer move in a step."""
    return _UPDATE_PASSES * FLOAT_BYTES * sizes.pretraining_parameters(config)


def layer_activations(
    config: config_lib.BertConfig, shape: Shape, precision: str
) -> int:
    """Counts the bytes that one layer keeps of a sequence for the way back.

    By token and layer: queries, keys and values; the context before and after
    its heads are joined; the two products that end in a normalisation, and
    their results, which are the next inputs: 9 D. Before and after the
    activation: 2 F. Probabilities before and after dropout: 2 N T.
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
    """Counts the bytes of the masked language model, of a sequence.

    Logits, probabilities, and the logits in float32 where that is not the
    type of the products: V each, by prediction.
    """
    compute = _COMPUTE_BYTES[precision]
    wide = FLOAT_BYTES if compute != FLOAT_BYTES else 0
    per_word = 2 * compute + wide
    return shape.max_predictions_per_seq * config.vocab_size * per_word


def activations(
    config: config_lib.BertConfig, shape: Shape, method: Method
) -> int:
    """Counts the bytes a sequence takes where the way back begins.

    The layer that is gone back through needs as much again for its gradients;
    one that is computed a second time is there once more itself.
    """
    layer = layer_activations(config, shape, method.precision)
    head = head_activations(config, shape, method.precision)
    output = (
        shape.max_seq_length
        * config.hidden_size
        * _COMPUTE_BYTES[method.precision]
    )
    # The sum of the embeddings is normalised in float32.
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
        num_rows: sequences of the replica; parts of them are gone through one
            after the other.
        method: how.
    """
    count = sizes.pretraining_parameters(config)
    narrow = _COMPUTE_BYTES[method.precision]
    casts = narrow if narrow != FLOAT_BYTES else 0
    # Gradients and their clipped copies; with parts, their sum so far is there
    # while the next part goes forward and back.
    copies = 2 if method.num_parts == 1 else 3
    rows = -(-num_rows // method.num_parts)
    return Memory(
        weights=(FLOAT_BYTES + casts) * count,
        moments=2 * FLOAT_BYTES * count,
        gradients=copies * FLOAT_BYTES * count,
        activations=rows * activations(config, shape, method),
    )


def checkpoint_bytes(config: config_lib.BertConfig) -> int:
    """Counts the bytes of a checkpoint to resume from: weights and moments."""
    return 3 * FLOAT_BYTES * sizes.pretraining_parameters(config)


def record_bytes(shape: Shape, *, id_bytes: float, fill: float) -> float:
    """Counts the bytes of a record on disk, on average.

    Numbers are varints, of 7 bits a byte; three lists of T numbers, of which
    one holds word ids, two lists of P, and P floats.

    Args:
        shape: of the record.
        id_bytes: of a word id, on average: 2 from 128, 3 from 16,384 on.
        fill: share of a sequence that is no padding.
    """
    tokens, predictions = shape.max_seq_length, shape.max_predictions_per_seq
    ids = tokens * (fill * id_bytes + (1 - fill))
    # From 128 on a position takes two bytes.
    positions = 1 if tokens <= 128 else 2 - 128 / tokens
    masked = predictions * fill * (positions + id_bytes)
    padding = predictions * (1 - fill) * 2
    names = sum(len(name) + _FEATURE_OVERHEAD for name in _FEATURE_NAMES)
    lists = ids + 2 * tokens + masked + padding + FLOAT_BYTES * predictions
    return lists + names + _EXAMPLE_OVERHEAD


def records_per_copy(shape: Shape, num_pieces: float, *, fill: float) -> float:
    """Says how many records a corpus makes at a `dupe_factor` of 1.

    Args:
        shape: of the records.
        num_pieces: word pieces of the corpus.
        fill: as for `record_bytes`; [CLS] and twice [SEP] are part of it.
    """
    return num_pieces / (fill * shape.max_seq_length - 3)


def all_reduce_bytes(config: config_lib.BertConfig, num_replicas: int) -> float:
    """Counts the bytes each replica sends in a step, in a ring."""
    gradients = FLOAT_BYTES * sizes.pretraining_parameters(config)
    return 2 * (num_replicas - 1) / num_replicas * gradients
