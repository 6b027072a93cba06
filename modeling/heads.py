"""BERT models with output layers for pre-training and fine-tuning.

A model creates its encoder in `build`, inside its own scope, so that every path
is the model's name followed by the release's name of the variable.
"""

from typing import Any

import keras
from keras import ops

from files import messages
from modeling import bert, layers, losses, name_tables, tagging
from modeling import config as config_lib
from modeling.compilation import Policy, Tensor

OBJECTIVES = ("mlm_nsp", "mlm", "ltr")

# Source: run_classifier.py and run_squad.py of the release, which ignore the
# config's range for the heads.
HEAD_INITIALIZER_RANGE = 0.02


def output_variables(
    layer: keras.layers.Layer, shape: tuple[int, int], initializer_range: float
) -> tuple[Tensor, Tensor]:
    """Adds float32 `output_weights` `[K, D]` and `output_bias` `[K]`."""
    weights = layer.add_weight(
        shape=shape,
        initializer=layers.truncated_normal(initializer_range),
        name="output_weights",
        dtype="float32",
        autocast=False,
    )
    bias = layer.add_weight(
        shape=shape[:1],
        initializer="zeros",
        name="output_bias",
        dtype="float32",
        autocast=False,
    )
    return weights, bias


def output_logits(x: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
    """Multiplies `[..., D]` by `[K, D]` and adds `[K]`, all in float32."""
    product = ops.matmul(ops.cast(x, "float32"), ops.transpose(weights))
    return product + bias  # [..., K]


class OutputLayer(layers.BertLayer):
    """A float32 linear layer with the variables of the release's heads.

    Args:
        config: for the width D.
        num_outputs: K.
        initializer_range: of the weights.
        name: of the release.

    Call arguments:
        x: `[..., D]` float.

    Returns:
        `[..., K]` float32 logits.
    """

    def __init__(
        self,
        config: config_lib.BertConfig,
        num_outputs: int,
        initializer_range: float = HEAD_INITIALIZER_RANGE,
        *,
        name: str,
    ):
        super().__init__(name=name)
        self.shape = (num_outputs, config.hidden_size)
        self.initializer_range = initializer_range

    def build(self, input_shape=None):
        self.output_weights, self.output_bias = output_variables(
            self, self.shape, self.initializer_range
        )

    def call(self, x):
        return output_logits(x, self.output_weights, self.output_bias)


class Heads(layers.BertLayer):
    """A container of layers under the release's scope "cls".

    Args:
        children: layers by attribute name, built in this order.
    """

    def __init__(self, children: dict[str, keras.layers.Layer]):
        super().__init__(name="cls")
        self.children = children


class MaskedLanguageModel(layers.BertLayer):
    """The masked language model's head, with output weights tied to the words.

    Source: Devlin et al. 2019, §3.1 Task #1.

    Args:
        config: the network's sizes.

    Call arguments:
        sequence_output: `[B, T, D]` float.
        positions: `[B, P]` int, in [0, T).
        word_embeddings: `[V, D]` float, the tied output weights.
        ids: `[B, P]` int, in [0, V), or None.

    Returns:
        `[B, P, V]` float32 logits. If `ids` are given, instead the cross
        entropy of the ids, and 1 where the id has the highest logit, each
        `[B, P]` float32.
    """

    def __init__(self, config: config_lib.BertConfig):
        super().__init__(name="predictions")
        self.config = config
        self.transform = layers.Transform(
            config, config.hidden_size, name="transform", has_norm=True
        )

    def build(self, input_shape=None):
        self.transform.build()
        self.output_bias = self.add_variable(
            "output_bias", (self.config.vocab_size,), "zeros"
        )

    def call(self, sequence_output, positions, word_embeddings, ids=None):
        hidden = self.transform(_gather_positions(sequence_output, positions))
        if ids is None:
            return losses.tied_logits(hidden, word_embeddings, self.output_bias)
        rows = ops.reshape(hidden, (-1, self.config.hidden_size))  # [B * P, D]
        parts = losses.fused_tied_cross_entropy(
            rows, word_embeddings, self.output_bias, ops.reshape(ids, (-1,))
        )
        return tuple(ops.reshape(part, ops.shape(ids)) for part in parts)


def _gather_positions(sequence: Tensor, positions: Tensor) -> Tensor:
    """Gathers `[B, P, D]` from `[B, T, D]` at positions `[B, P]`."""
    batch, length, size = ops.shape(sequence)
    rows = ops.reshape(sequence, (batch * length, size))  # [B * T, D]
    firsts = ops.cast(ops.arange(batch) * length, positions.dtype)  # [B]
    return ops.take(rows, positions + firsts[:, None], axis=0)


class ChoiceScore(layers.BertLayer):
    """A layer that scores a text by its dot product with one vector.

    It has no bias, which would shift the scores of all choices equally.

    Args:
        config: for the width D.

    Call arguments:
        pooled_output: `[B, D]` float.

    Returns:
        `[B]` float32.
    """

    def __init__(self, config: config_lib.BertConfig):
        super().__init__(name="multiple_choice")
        self.width = config.hidden_size

    def build(self, input_shape=None):
        self.output_weights = self.add_variable(
            "output_weights",
            (1, self.width),
            layers.truncated_normal(HEAD_INITIALIZER_RANGE),
        )

    def call(self, pooled_output):
        pooled = ops.cast(pooled_output, "float32")
        return ops.matmul(pooled, self.output_weights[0])  # [B]


class BertWithHead(keras.Model):
    """The base class of encoders with an output layer, by default per token.

    Two options change the architecture for the comparisons of Devlin et al.
    2019, §5.1. A left-to-right pre-trained model stays left-to-right.

    Args:
        config: the network's sizes.
        num_labels: K, the width of the output layer.
        causal: each token attends only to itself and earlier tokens.
        bilstm_head: adds a BiLSTM between encoder and output layer. It is
            initialized randomly and as wide as the encoder in each direction
            (the paper does not specify it).
        name: of the model, the first part of its variables' paths; the class
            default if None.
        dtype: Keras policy or its name; the global one if None.

    Call arguments:
        input_ids, input_mask, segment_ids, dropout_seed, packed: as for
            `BertModel`.

    Returns:
        A dict of float32 tensors, documented by each class.

    Attributes:
        optional_variables: patterns of variables that a checkpoint may lack,
            because no output depends on them.
        frozen_variables: patterns of variables that are not trained.

    Raises:
        ValueError: `num_labels` is not positive.
    """

    default_name: str
    optional_variables: tuple[str, ...] = ()
    frozen_variables: tuple[str, ...] = ()

    def __init__(
        self,
        config: config_lib.BertConfig,
        *,
        num_labels: int,
        causal: bool = False,
        bilstm_head: bool = False,
        name: str | None = None,
        dtype: Policy = None,
    ):
        if num_labels < 1:
            raise ValueError(f"num_labels must be positive; got {num_labels}.")
        super().__init__(
            name=name or self.default_name, dtype=dtype, autocast=False
        )
        self.config = config
        self.num_labels = num_labels
        self.causal = causal
        self.bilstm_head = bilstm_head
        with layers.with_policy(self.dtype_policy):
            self.build()

    def build(self, input_shape=None):
        self.bert = bert.BertModel(self.config, causal=self.causal)
        width = self.config.hidden_size
        if self.bilstm_head:
            self.bilstm = tagging.bidirectional_lstm(
                width, name="bilstm", inner_name="lstm"
            )
            self.bilstm.build((None, None, width))
            width *= 2
        self.build_head(width)

    @property
    def reads_first_only(self) -> bool:
        """Whether only the last layer's output of [CLS] is used."""
        return False

    def build_head(self, width: int) -> None:
        """Creates the output layer for inputs of a width."""
        self.output_weights, self.output_bias = output_variables(
            self, (self.num_labels, width), HEAD_INITIALIZER_RANGE
        )

    def call(
        self,
        input_ids,
        input_mask=None,
        segment_ids=None,
        dropout_seed=None,
        packed=None,
    ):
        if input_mask is None:
            input_mask = ops.ones_like(input_ids)
        outputs = self.encode(
            input_ids, input_mask, segment_ids, dropout_seed, packed
        )
        return self.call_head(outputs, input_mask, dropout_seed)

    def encode(
        self,
        input_ids: Tensor,
        input_mask: Tensor,
        segment_ids: Tensor | None,
        dropout_seed: Tensor | None,
        packed: Tensor | None,
    ) -> dict[str, Tensor]:
        """Calls the encoder and, if there is one, the BiLSTM on its output.

        With a BiLSTM `sequence_output` is `[B, T, 2 * D]`.
        """
        outputs = self.bert(
            input_ids,
            input_mask,
            segment_ids,
            dropout_seed=dropout_seed,
            first_only=self.reads_first_only,
            packed=packed,
        )
        if self.bilstm_head:
            hidden = ops.cast(outputs["sequence_output"], self.compute_dtype)
            mask = ops.cast(input_mask, "bool")
            outputs["sequence_output"] = self.bilstm(hidden, mask=mask)
        return outputs

    def call_head(
        self,
        outputs: dict[str, Tensor],
        input_mask: Tensor,
        dropout_seed: Tensor | None,
    ) -> dict[str, Tensor]:
        """Computes the model's result from the outputs of `encode`.

        Returns:
            By default `logits` `[B, T, K]` float32, for each position.
        """
        hidden = outputs["sequence_output"]
        return {"logits": self.logits(self.dropped(hidden, dropout_seed))}

    def dropped(self, x: Tensor, dropout_seed: Tensor | None) -> Tensor:
        """Applies the dropout before an output layer."""
        return layers.dropped(
            x,
            self.config.classifier_dropout_prob,
            dropout_seed,
            layers.num_dropout_sites(self.config),
        )

    def logits(self, x: Tensor) -> Tensor:
        """Computes the output layer: `[..., K]` float32."""
        return output_logits(x, self.output_weights, self.output_bias)


class BertForPreTraining(BertWithHead):
    """BERT with the masked language model and next sentence prediction.

    Source: Devlin et al. 2019, §3.1; the objectives are those of §5.1.

    Args:
        config: the network's sizes.
        objective: "mlm_nsp", "mlm" or "ltr"; all have the same variables. The
            caller computes the loss; here "ltr" makes attention causal.
        name, dtype: as for `BertWithHead`.

    Call arguments:
        input_ids, input_mask, segment_ids, dropout_seed, packed: as for
            `BertModel`.
        masked_lm_positions: `[B, P]` int32, in [0, T).
        masked_lm_ids: `[B, P]` int32, in [0, V), or None.

    Returns:
        A dict of float32: `masked_lm_logits` `[B, P, V]`,
        `next_sentence_logits` `[B, 2]` (0 the next text, 1 a random one).
        With `masked_lm_ids` the former, which use most of a step's memory, are
        replaced by `masked_lm_losses` and `masked_lm_correct`, each `[B, P]`.

    Raises:
        ValueError: the objective is unknown.
    """

    default_name = "pretraining"

    def __init__(
        self,
        config: config_lib.BertConfig,
        *,
        objective: str = "mlm_nsp",
        name: str | None = None,
        dtype: Policy = None,
    ):
        messages.check_choice("objective", objective, OBJECTIVES)
        self.objective = objective
        if objective != "mlm_nsp":
            self.optional_variables = (
                *(name_tables.POOLER, name_tables.NEXT_SENTENCE),
            )
        super().__init__(
            config,
            num_labels=2,
            causal=objective == "ltr",
            name=name,
            dtype=dtype,
        )

    def build_head(self, width):
        self.predictions = MaskedLanguageModel(self.config)
        self.seq_relationship = OutputLayer(
            self.config,
            self.num_labels,
            self.config.initializer_range,
            name="seq_relationship",
        )
        heads = {
            "predictions": self.predictions,
            "seq_relationship": self.seq_relationship,
        }
        self.cls = Heads(heads)
        self.cls.build()

    # It has the masked positions as inputs, unlike the other models.
    def call(  # type: ignore[override]  # noqa: PLR0913, PLR0917
        self,
        input_ids,
        input_mask,
        segment_ids,
        masked_lm_positions,
        masked_lm_ids=None,
        dropout_seed=None,
        packed=None,
    ):
        outputs = self.bert(
            input_ids,
            input_mask,
            segment_ids,
            dropout_seed=dropout_seed,
            packed=packed,
        )
        words = self.predictions(
            outputs["sequence_output"],
            masked_lm_positions,
            self.bert.embeddings.word_embeddings,
            ids=masked_lm_ids,
        )
        if masked_lm_ids is None:
            scores = {"masked_lm_logits": words}
        else:
            scores = {
                "masked_lm_losses": words[0],
                "masked_lm_correct": words[1],
            }
        scores["next_sentence_logits"] = self.seq_relationship(
            outputs["pooled_output"]
        )
        return scores


class BertForSequenceClassification(BertWithHead):
    """BERT with one label, or one score, per sequence.

    Source: Devlin et al. 2019, §4.1. A score is `num_labels=1`. The paper does
    not say which token classifies a sequence in the models of §5.1. With causal
    attention we use the last token, the only one that attends to all others.
    With a BiLSTM we use the last output of each direction, and the pooler is
    not trained.

    Args, call arguments, raises: as for `BertWithHead`; with `causal` or
    `bilstm_head` padding is at the end.

    Returns:
        A dict: `logits` `[B, K]` float32.
    """

    default_name = "classification"

    @property
    def reads_first_only(self):
        return not self.causal and not self.bilstm_head

    def call_head(self, outputs, input_mask, dropout_seed):
        hidden, pooled = outputs["sequence_output"], outputs["pooled_output"]
        if self.bilstm_head:
            size = self.config.hidden_size
            forwards = last_token(hidden[..., :size], input_mask)
            pooled = ops.concatenate(
                [forwards, hidden[:, 0, size:]], axis=-1
            )  # [B, 2 * D]
        elif self.causal:
            pooled = self.bert.pooler(last_token(hidden, input_mask))  # [B, D]
        return {"logits": self.logits(self.dropped(pooled, dropout_seed))}


def last_token(hidden: Tensor, input_mask: Tensor) -> Tensor:
    """Gathers the last real token of each row.

    Args:
        hidden: `[B, T, D]`.
        input_mask: `[B, T]` int, 1 for a token; padding is at the end.

    Returns:
        `[B, D]`; the first token of a row that is all padding.
    """
    places = ops.maximum(ops.sum(input_mask, axis=1) - 1, 0)  # [B]
    chosen = ops.one_hot(places, ops.shape(hidden)[1], dtype=hidden.dtype)
    return ops.einsum("bt,btd->bd", chosen, hidden)


class BertForTokenClassification(BertWithHead):
    """BERT with one label per word piece.

    Source: Devlin et al. 2019, §5.3. The output layer is that of
    run_classifier.py of the release, at every position instead of the first.
    The pooler exists but is not trained. With `features` the encoder is frozen
    and has no dropout, and the output layer reads a BiLSTM over the words.

    Args, raises: as for `BertWithHead`, and
        features: the hidden layers that the BiLSTM reads, a row of table 7;
            None for a fine-tuned encoder.

    Call arguments: as for `BertWithHead`, and
        label_mask: `[B, T]` int32, 1 for the first piece of a word; required
            with `features` and not used otherwise.

    Returns:
        A dict: `logits` `[B, T, K]` float32.
    """

    default_name = "token_classification"
    optional_variables = (name_tables.POOLER,)

    def __init__(
        self,
        config: config_lib.BertConfig,
        *,
        features: str | None = None,
        **options: Any,
    ):
        self.features = features
        if features:
            self.frozen_variables = ("bert/.*",)
        super().__init__(config, **options)

    def build_head(self, width):
        if self.features:
            self.words = tagging.WordLstm(self.config, self.features)
            self.words.build()
            width = 2 * self.config.hidden_size
        super().build_head(width)

    def call(
        self,
        input_ids,
        input_mask=None,
        segment_ids=None,
        dropout_seed=None,
        packed=None,
        label_mask=None,
    ):
        if not self.features:
            return super().call(
                input_ids, input_mask, segment_ids, dropout_seed, packed
            )
        outputs = self.bert(input_ids, input_mask, segment_ids, packed=packed)
        hidden = [outputs["embedding_output"], *outputs["all_encoder_layers"]]
        # Shared padding is removed from the other inputs alone.
        word_mask = label_mask[:, : ops.shape(input_ids)[1]]
        words = self.words(hidden, word_mask, dropout_seed)  # [B, T, 2 * D]
        return {"logits": self.logits(self.dropped(words, dropout_seed))}


class BertForQuestionAnswering(BertWithHead):
    """BERT with the start and the end of an answer.

    Source: Devlin et al. 2019, §4.2. The pooler exists but is not trained.

    Args, call arguments: as for `BertWithHead`, without `num_labels`.

    Returns:
        A dict: `start_logits` and `end_logits`, each `[B, T]` float32.
    """

    default_name = "question_answering"
    optional_variables = (name_tables.POOLER,)

    def __init__(self, config: config_lib.BertConfig, **options: Any):
        super().__init__(config, num_labels=2, **options)

    def build_head(self, width):
        # With a BiLSTM or causal attention the names are a classifier's.
        if self.causal or self.bilstm_head:
            super().build_head(width)
            return
        self.span = OutputLayer(self.config, self.num_labels, name="squad")
        self.cls = Heads({"squad": self.span})
        self.cls.build()

    def call_head(self, outputs, input_mask, dropout_seed):
        hidden = outputs["sequence_output"]
        is_bert = not (self.causal or self.bilstm_head)
        logits = self.span(hidden) if is_bert else self.logits(hidden)
        # Each [B, T] of [B, T, 2].
        return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}


class BertForMultipleChoice(BertWithHead):
    """BERT with a score for each of several texts.

    Source: Devlin et al. 2019, §4.4: the only new parameter is a vector, whose
    dot product with the output of [CLS] scores a choice. That output is the
    pooled one, with the dropout of the classifier.

    Args:
        config: the network's sizes.
        name, dtype: as for `BertWithHead`.

    Call arguments:
        input_ids: `[B, C, T]` int32, the C choices of each example.
        input_mask: `[B, C, T]` int32, as for `BertModel`; ones if None.
        segment_ids: `[B, C, T]` int32; zeros if None.
        dropout_seed, packed: as for `BertModel`, of `B * C` texts.

    Returns:
        A dict: `logits` `[B, C]` float32.
    """

    default_name = "choice"

    def __init__(
        self,
        config: config_lib.BertConfig,
        *,
        name: str | None = None,
        dtype: Policy = None,
    ):
        super().__init__(config, num_labels=1, name=name, dtype=dtype)

    def build_head(self, width):
        self.score = ChoiceScore(self.config)
        self.cls = Heads({"multiple_choice": self.score})
        self.cls.build()

    @property
    def reads_first_only(self):
        return True

    def encode(self, input_ids, input_mask, segment_ids, dropout_seed, packed):
        return super().encode(
            _flat(input_ids),
            _flat(input_mask),
            None if segment_ids is None else _flat(segment_ids),
            dropout_seed,
            packed,
        )

    def call_head(self, outputs, input_mask, dropout_seed):
        pooled = self.dropped(outputs["pooled_output"], dropout_seed)
        scores = self.score(pooled)  # [B * C]
        num_choices = ops.shape(input_mask)[1]
        return {"logits": ops.reshape(scores, (-1, num_choices))}


def _flat(ids: Tensor) -> Tensor:
    """Reshapes `[B, C, T]` to `[B * C, T]`."""
    ids = ops.convert_to_tensor(ids)
    return ops.reshape(ids, (-1, ops.shape(ids)[-1]))
