"""The models of Table 5 that are not BERT: left to right, or below a BiLSTM.

Source: Devlin et al. 2019, §5.1. A left-to-right model stays one when it is
fine-tuned. The paper does not say from which token it labels a sequence; here
it is the last, the only one that has seen all others, as [CLS] has of BERT.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from modeling import bert, heads, layers, tagging
from modeling import config as config_lib

_BILSTM = "bilstm"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ablation:
    """What is different from BERT.

    Attributes:
        causal: each token sees those before it alone.
        bilstm_head: a BiLSTM that begins at random stands between the encoder
            and the output layer, as wide as the encoder in each direction (the
            paper does not say).
    """

    causal: bool = False
    bilstm_head: bool = False


def is_causal(identity: Mapping[str, object]) -> bool:
    """Tells whether a model was trained from left to right.

    Args:
        identity: what its run saved of itself beside the checkpoint: the
            `objective` of pre-training, the `attention` of fine-tuning.
    """
    return (
        identity.get("objective") == "ltr"
        or identity.get("attention") == "causal"
    )


class _AblatedModel(keras.Model):
    """An encoder, a BiLSTM if wanted, and an output layer.

    Args:
        config: the network's sizes.
        ablation: what is different.
        num_outputs: K.
        name: of the model; the first part of its variables' paths.
        dtype: Keras policy or its name; the global one if None.

    Raises:
        ValueError: `num_outputs` is not positive.
    """

    def __init__(
        self,
        config: config_lib.BertConfig,
        ablation: Ablation,
        num_outputs: int,
        *,
        name: str,
        dtype: Any = None,
    ):
        if num_outputs < 1:
            raise ValueError(
                f"num_outputs must be positive; got {num_outputs}."
            )
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.config = config
        self.ablation = ablation
        self.num_outputs = num_outputs
        self.build()

    def build(self, input_shape=None):
        self.bert = bert.BertModel(
            self.config, causal=self.ablation.causal, dtype=self.dtype_policy
        )
        size = self.config.hidden_size
        if self.ablation.bilstm_head:
            self.bilstm = tagging.bidirectional_lstm(
                size, name=_BILSTM, inner_name="lstm"
            )
            self.bilstm.build((None, None, size))
            size *= 2
        self.output_weights, self.output_bias = heads.output_variables(
            self, (self.num_outputs, size), heads.HEAD_INITIALIZER_RANGE
        )

    def encode(self, input_ids, input_mask, segment_ids, dropout_seed):
        """Returns `[B, T, D]`, or `[B, T, 2 D]` with a BiLSTM, and the mask."""
        if input_mask is None:
            input_mask = ops.ones_like(input_ids)
        hidden = self.bert(
            input_ids, input_mask, segment_ids, dropout_seed=dropout_seed
        )["sequence_output"]
        if self.ablation.bilstm_head:
            hidden = ops.cast(hidden, self.compute_dtype)
            hidden = self.bilstm(hidden, mask=ops.cast(input_mask, "bool"))
        return hidden, input_mask

    def head_dropped(self, x, dropout_seed):
        """Drops before the output layer, as `modeling.heads` does."""
        return layers.dropped(
            x,
            self.config.classifier_dropout_prob,
            dropout_seed,
            layers.num_dropout_sites(self.config),
        )


class AblatedSequenceClassification(_AblatedModel):
    """One label, or one score, per sequence.

    Without a BiLSTM the pooler reads the last token, or the first of a model
    that looks both ways. With one, the sequence is what it ends in forwards,
    and backwards; the pooler then learns nothing.

    Call arguments:
        input_ids, input_mask, segment_ids, dropout_seed: as for `BertModel`;
            padding is at the end.

    Returns:
        A dict: `logits` `[B, K]` float32.
    """

    def __init__(
        self,
        config: config_lib.BertConfig,
        ablation: Ablation,
        num_outputs: int,
        *,
        name: str = "ablated_classification",
        dtype: Any = None,
    ):
        super().__init__(config, ablation, num_outputs, name=name, dtype=dtype)

    def call(
        self, input_ids, input_mask=None, segment_ids=None, dropout_seed=None
    ):
        hidden, mask = self.encode(
            input_ids, input_mask, segment_ids, dropout_seed
        )
        if self.ablation.bilstm_head:
            half = self.config.hidden_size
            pooled = ops.concatenate(
                [last_token(hidden[..., :half], mask), hidden[:, 0, half:]],
                axis=-1,
            )  # [B, 2 D]
        elif self.ablation.causal:
            pooled = self.bert.pooler(last_token(hidden, mask))  # [B, D]
        else:
            pooled = self.bert.pooler(hidden[:, 0])  # [B, D]
        pooled = self.head_dropped(pooled, dropout_seed)
        logits = heads.output_logits(
            pooled, self.output_weights, self.output_bias
        )
        return {"logits": logits}


class AblatedTokenClassification(_AblatedModel):
    """One label per word piece.

    Call arguments:
        input_ids, input_mask, segment_ids, dropout_seed: as for `BertModel`.

    Returns:
        A dict: `logits` `[B, T, K]` float32.
    """

    def __init__(
        self,
        config: config_lib.BertConfig,
        ablation: Ablation,
        num_outputs: int,
        *,
        name: str = "ablated_token_classification",
        dtype: Any = None,
    ):
        super().__init__(config, ablation, num_outputs, name=name, dtype=dtype)

    def call(
        self, input_ids, input_mask=None, segment_ids=None, dropout_seed=None
    ):
        hidden, _ = self.encode(
            input_ids, input_mask, segment_ids, dropout_seed
        )
        hidden = self.head_dropped(hidden, dropout_seed)
        logits = heads.output_logits(
            hidden, self.output_weights, self.output_bias
        )
        return {"logits": logits}


class AblatedQuestionAnswering(_AblatedModel):
    """The start and the end of an answer.

    Call arguments:
        input_ids, input_mask, segment_ids, dropout_seed: as for `BertModel`.

    Returns:
        A dict: `start_logits` and `end_logits`, each `[B, T]` float32.
    """

    def __init__(
        self,
        config: config_lib.BertConfig,
        ablation: Ablation,
        *,
        name: str = "ablated_question_answering",
        dtype: Any = None,
    ):
        super().__init__(config, ablation, 2, name=name, dtype=dtype)

    def call(
        self, input_ids, input_mask=None, segment_ids=None, dropout_seed=None
    ):
        hidden, _ = self.encode(
            input_ids, input_mask, segment_ids, dropout_seed
        )
        logits = heads.output_logits(
            hidden, self.output_weights, self.output_bias
        )  # [B, T, 2]
        return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}


def last_token(hidden: Any, input_mask: Any) -> Any:
    """Picks the last real token of each row.

    Args:
        hidden: `[B, T, D]`.
        input_mask: `[B, T]` int, 1 for a token; padding is at the end.

    Returns:
        `[B, D]`; the first token of a row that is all padding.
    """
    places = ops.maximum(ops.sum(input_mask, axis=1) - 1, 0)  # [B]
    chosen = ops.one_hot(places, ops.shape(hidden)[1], dtype=hidden.dtype)
    return ops.einsum("bt,btd->bd", chosen, hidden)
