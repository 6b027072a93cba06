"""BERT models with output layers for pre-training and fine-tuning."""

from typing import TypedDict, Unpack

import keras
import tensorflow as tf
from keras import ops

from bert.files import messages
from modeling import ablations, bert, dropout, layers, losses, name_tables
from modeling import config as config_lib
from modeling.tensor_types import Policy, Shape, Tensor

OBJECTIVES = ("mlm_nsp", "mlm", "ltr")


class _NetworkOptions(TypedDict, total=False):
    """The arguments of `bert.Network` besides the sizes."""

    causal: bool
    name: str | None
    dtype: Policy


class _Options(_NetworkOptions, total=False):
    """The arguments of `BertWithHead` besides the sizes."""

    num_labels: int
    bilstm_head: bool


class MaskedLanguageModel(layers.BertLayer):
    """The masked language model's head, with output weights tied to the words.

    Source: Devlin et al. 2019, §3.1 Task #1.

    Call arguments:
        sequence_output: `[B, T, D]` float.
        positions: `[B, P]` int, in [0, T).
        word_embeddings: `[V, D]` float, the tied output weights.
        ids: `[B, P]` int, in [0, V), or None.
        is_training: whether the losses may be computed in the compute type.

    Returns:
        A dict: `masked_lm_logits` `[B, P, V]` float32. If `ids` are given,
        instead `masked_lm_losses`, the cross entropy of the ids, and
        `masked_lm_correct`, 1 where the id has the highest logit, each
        `[B, P]` float32.
    """

    def __init__(self, config: config_lib.BertConfig):
        super().__init__(name="predictions")
        self.config = config
        self.transform = layers.Transform(
            config, config.hidden_size, name="transform", has_norm=True
        )

    def build(self, input_shape: Shape = None) -> None:
        self.transform.build()
        self.output_bias = layers.add_variable(
            self, "output_bias", (self.config.vocab_size,), "zeros"
        )

    def call(
        self,
        sequence_output: Tensor,
        positions: Tensor,
        word_embeddings: Tensor,
        ids: Tensor | None = None,
        is_training: bool = False,
    ) -> dict[str, Tensor]:
        gathered = tf.gather(sequence_output, positions, batch_dims=1)
        hidden = self.transform(
            tf.reshape(gathered, [-1, self.config.hidden_size])
        )  # [B * P, D]
        # Otherwise the figures of an evaluation would depend on the precision.
        if not is_training:
            hidden = tf.cast(hidden, tf.float32)
        if ids is None:
            logits = losses.tied_logits(
                hidden, word_embeddings, self.output_bias
            )
            sizes = [*ops.shape(positions), self.config.vocab_size]
            return {"masked_lm_logits": tf.reshape(logits, sizes)}
        parts = losses.tied_cross_entropy(
            hidden, word_embeddings, self.output_bias, tf.reshape(ids, [-1])
        )
        names = ("masked_lm_losses", "masked_lm_correct")
        return {
            name: tf.reshape(part, ops.shape(ids))
            for name, part in zip(names, parts, strict=True)
        }


class BertWithHead(bert.Network):
    """The base class of encoders with an output layer.

    Two options change the architecture for the comparisons of Devlin et al.
    2019, §5.1. A left-to-right pre-trained model stays left-to-right.

    Args:
        config: the network's sizes.
        num_labels: K, the width of the output layer.
        bilstm_head: adds a BiLSTM between encoder and output layer. It is
            initialized randomly and as wide as the encoder in each direction
            (the paper does not specify it).
        **options: as for `bert.Network`.

    Call arguments:
        input_ids, input_mask, segment_ids, dropout_seed, packed: as for
            `BertModel`.

    Returns:
        A dict of float32 tensors, documented by each class.

    Attributes:
        frozen_variables: patterns of variables that are not trained.
    """

    frozen_variables: tuple[str, ...] = ()

    def __init__(
        self,
        config: config_lib.BertConfig,
        *,
        num_labels: int,
        bilstm_head: bool = False,
        **options: Unpack[_NetworkOptions],
    ):
        self.num_labels = num_labels
        self.bilstm_head = bilstm_head
        super().__init__(config, **options)

    def build(self, input_shape: Shape = None) -> None:
        self.bert = bert.BertModel(self.config, causal=self.causal)
        width = self.config.hidden_size
        if self.bilstm_head:
            self.bilstm = ablations.bidirectional_lstm(
                width, name="bilstm", inner_name="lstm"
            )
            self.bilstm.build((None, None, width))
            width *= 2
        self.build_head(width)

    def build_head(self, width: int) -> None:
        """Creates the output layer for inputs of a width."""
        self.output_weights, self.output_bias = layers.output_variables(
            self, (self.num_labels, width)
        )

    def build_in_scope(self, *outputs: layers.BertLayer) -> None:
        """Builds output layers whose names begin with `cls`, as released."""
        self.cls = layers.BertLayer(name="cls")
        self.cls.outputs = outputs
        self.cls.build()

    def logits(self, x: Tensor) -> Tensor:
        """Computes the output layer: `[..., K]` float32."""
        return layers.linear(x, self.output_weights, self.output_bias)

    def seeded(
        self, others: dict[str, Tensor | None], training: bool | None
    ) -> dict[str, Tensor | None]:
        """Adds the seed of dropout to the arguments of the encoder."""
        seed = self.seed_of_call(others.get("dropout_seed"), training)
        return {**others, "dropout_seed": seed}

    def sequence_output(
        self,
        input_ids: Tensor,
        input_mask: Tensor | None,
        **others: Tensor | None,
    ) -> Tensor:
        """Returns the encoder's last layer, or the BiLSTM's outputs."""
        outputs = self.bert(input_ids, input_mask, **others)
        if not self.bilstm_head:
            return outputs["sequence_output"]
        hidden = tf.cast(outputs["sequence_output"], self.compute_dtype)
        if input_mask is None:
            input_mask = tf.ones_like(input_ids)
        return self.bilstm(hidden, mask=tf.cast(input_mask, tf.bool))

    def dropped(
        self,
        x: Tensor,
        dropout_seed: Tensor | None = None,
        **_: Tensor | None,
    ) -> Tensor:
        """Applies the dropout before an output layer."""
        site = bert.num_dropout_sites(self.config)
        return dropout.dropout(
            x,
            self.config.classifier_dropout_prob,
            dropout.site_seed(dropout_seed, site),
        )

    def get_config(self) -> dict[str, object]:
        return {
            **super().get_config(),
            "num_labels": self.num_labels,
            "bilstm_head": self.bilstm_head,
        }


@keras.saving.register_keras_serializable("bert")
class BertForPreTraining(BertWithHead):
    """BERT with the masked language model and next sentence prediction.

    Source: Devlin et al. 2019, §3.1; the objectives are those of §5.1.

    Args:
        config: the network's sizes.
        objective: "mlm_nsp", "mlm" or "ltr"; all have the same variables. The
            caller computes the loss; here "ltr" makes attention causal.
        **options: `name` and `dtype`, as for `bert.Network`.

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
    """

    default_name = "pretraining"

    def __init__(
        self,
        config: config_lib.BertConfig,
        *,
        objective: str = "mlm_nsp",
        **options: Unpack[_Options],
    ):
        messages.check_choice("objective", objective, OBJECTIVES)
        self.objective = objective
        if objective != "mlm_nsp":
            self.optional_variables = (
                name_tables.POOLER,
                name_tables.NEXT_SENTENCE,
            )
        options["num_labels"], options["causal"] = 2, objective == "ltr"
        super().__init__(config, **options)

    def build_head(self, width: int) -> None:
        self.predictions = MaskedLanguageModel(self.config)
        self.seq_relationship = layers.OutputLayer(
            width,
            self.num_labels,
            name="seq_relationship",
            initializer_range=self.config.initializer_range,
        )
        self.build_in_scope(self.predictions, self.seq_relationship)

    def call(
        self,
        input_ids: Tensor,
        input_mask: Tensor,
        segment_ids: Tensor,
        masked_lm_positions: Tensor,
        masked_lm_ids: Tensor | None = None,
        training: bool | None = None,
        **others: Tensor | None,
    ) -> dict[str, Tensor]:
        others = self.seeded(others, training)
        outputs = self.bert(input_ids, input_mask, segment_ids, **others)
        words = self.predictions(
            outputs["sequence_output"],
            masked_lm_positions,
            self.bert.embeddings.word_embeddings,
            ids=masked_lm_ids,
            is_training=others["dropout_seed"] is not None,
        )
        pairs = self.seq_relationship(outputs["pooled_output"])
        return {**words, "next_sentence_logits": pairs}

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "objective": self.objective}


@keras.saving.register_keras_serializable("bert")
class BertForSequenceClassification(BertWithHead):
    """BERT with one label, or one score, per sequence.

    Source: Devlin et al. 2019, §4.1. A score is `num_labels=1`. The paper does
    not say which token classifies a sequence in the models of §5.1. With causal
    attention we use the last token, the only one that attends to all others.
    With a BiLSTM we use the last output of each direction, and the pooler is
    not trained.

    Args, call arguments: as for `BertWithHead`; with `causal` or
    `bilstm_head` padding is at the end.

    Returns:
        A dict: `logits` `[B, K]` float32.
    """

    default_name = "classification"

    def call(
        self,
        input_ids: Tensor,
        input_mask: Tensor | None = None,
        segment_ids: Tensor | None = None,
        training: bool | None = None,
        **others: Tensor | None,
    ) -> dict[str, Tensor]:
        others = self.seeded(others, training)
        inputs = {"segment_ids": segment_ids, **others}
        if self.causal or self.bilstm_head:
            hidden = self.sequence_output(input_ids, input_mask, **inputs)
            if input_mask is None:
                input_mask = tf.ones_like(input_ids)
            pooled = self._last(hidden, input_mask)
        else:
            outputs = self.bert(
                input_ids, input_mask, first_only=True, **inputs
            )
            pooled = outputs["pooled_output"]
        return {"logits": self.logits(self.dropped(pooled, **others))}

    def _last(self, hidden: Tensor, input_mask: Tensor) -> Tensor:
        if not self.bilstm_head:
            return self.bert.pooler(last_token(hidden, input_mask))  # [B, D]
        size = self.config.hidden_size
        forwards = last_token(hidden[..., :size], input_mask)
        return tf.concat([forwards, hidden[:, 0, size:]], axis=-1)


def last_token(hidden: Tensor, input_mask: Tensor) -> Tensor:
    """Gathers the last real token of each row.

    Args:
        hidden: `[B, T, D]`.
        input_mask: `[B, T]` int, 1 for a token; padding is at the end.

    Returns:
        `[B, D]`; the first token of a row that is all padding.
    """
    last = tf.maximum(tf.reduce_sum(input_mask, axis=1) - 1, 0)  # [B]
    return tf.gather(hidden, last, batch_dims=1)


@keras.saving.register_keras_serializable("bert")
class BertForTokenClassification(BertWithHead):
    """BERT with one label per word piece.

    Source: Devlin et al. 2019, §5.3. The output layer is that of
    run_classifier.py of the release, at every position instead of the first.
    The pooler exists but is not trained. With `features` the encoder is frozen
    and has no dropout, and the output layer reads a BiLSTM over the words.

    Args: as for `BertWithHead`, and
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
        **options: Unpack[_Options],
    ):
        self.features = features
        if features:
            self.frozen_variables = ("bert/.*",)
        super().__init__(config, **options)

    def build_head(self, width: int) -> None:
        if self.features:
            site = bert.num_dropout_sites(self.config) + 1
            self.words = ablations.WordLstm(self.config, self.features, site)
            self.words.build()
            width = 2 * self.config.hidden_size
        super().build_head(width)

    def call(
        self,
        input_ids: Tensor,
        input_mask: Tensor | None = None,
        segment_ids: Tensor | None = None,
        label_mask: Tensor | None = None,
        training: bool | None = None,
        **others: Tensor | None,
    ) -> dict[str, Tensor]:
        others = self.seeded(others, training)
        others["segment_ids"] = segment_ids
        seed = others["dropout_seed"]
        if self.features:
            if label_mask is None:
                raise ValueError("A model with features needs label_mask.")
            others["dropout_seed"] = None
            outputs = self.bert(input_ids, input_mask, training=False, **others)
            embedded = outputs["embedding_output"]
            # Shared padding is removed from the other inputs alone.
            word_mask = label_mask[:, : ops.shape(input_ids)[1]]
            hidden = self.words(
                [embedded, *outputs["all_encoder_layers"]], word_mask, seed
            )  # [B, T, 2 * D]
        else:
            hidden = self.sequence_output(input_ids, input_mask, **others)
        return {"logits": self.logits(self.dropped(hidden, seed))}

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "features": self.features}


@keras.saving.register_keras_serializable("bert")
class BertForQuestionAnswering(BertWithHead):
    """BERT with the start and the end of an answer.

    Source: Devlin et al. 2019, §4.2. The pooler exists but is not trained.

    Args, call arguments: as for `BertWithHead`, without `num_labels`.

    Returns:
        A dict: `start_logits` and `end_logits`, each `[B, T]` float32.
    """

    default_name = "question_answering"
    optional_variables = (name_tables.POOLER,)

    def __init__(
        self, config: config_lib.BertConfig, **options: Unpack[_Options]
    ):
        options["num_labels"] = 2
        super().__init__(config, **options)

    def build_head(self, width: int) -> None:
        # The names of a BiLSTM or causal attention are a classifier's.
        if self.causal or self.bilstm_head:
            super().build_head(width)
            self.span = self.logits
            return
        self.span = layers.OutputLayer(width, self.num_labels, name="squad")
        self.build_in_scope(self.span)

    def call(
        self,
        input_ids: Tensor,
        input_mask: Tensor | None = None,
        segment_ids: Tensor | None = None,
        training: bool | None = None,
        **others: Tensor | None,
    ) -> dict[str, Tensor]:
        others = self.seeded(others, training)
        hidden = self.sequence_output(
            input_ids, input_mask, segment_ids=segment_ids, **others
        )
        start, end = tf.unstack(self.span(hidden), axis=-1)  # Each [B, T].
        return {"start_logits": start, "end_logits": end}


@keras.saving.register_keras_serializable("bert")
class BertForMultipleChoice(BertWithHead):
    """BERT with a score for each of several texts.

    Source: Devlin et al. 2019, §4.4: the only new parameter is a vector, whose
    dot product with the output of [CLS] scores a choice. That output is the
    pooled one, with the dropout of the classifier.

    Args: as for `BertWithHead`, without `num_labels`.

    Call arguments: as for `BertWithHead`, ids and masks of the C choices of
    each example, `[B, C, T]`; `packed` is of `B * C` texts.

    Returns:
        A dict: `logits` `[B, C]` float32.
    """

    default_name = "choice"

    def __init__(
        self, config: config_lib.BertConfig, **options: Unpack[_Options]
    ):
        options["num_labels"] = 1
        super().__init__(config, **options)

    def build_head(self, width: int) -> None:
        # A bias would add the same value to the scores of all choices.
        self.score = layers.OutputLayer(
            width, self.num_labels, name="multiple_choice", has_bias=False
        )
        self.build_in_scope(self.score)

    def call(
        self,
        input_ids: Tensor,
        input_mask: Tensor | None = None,
        segment_ids: Tensor | None = None,
        training: bool | None = None,
        **others: Tensor | None,
    ) -> dict[str, Tensor]:
        others = self.seeded(others, training)
        _, num_choices, length = ops.shape(input_ids)
        texts = [
            None if x is None else tf.reshape(x, [-1, length])
            for x in (input_ids, input_mask, segment_ids)
        ]
        outputs = self.bert(*texts, first_only=True, **others)
        pooled = self.dropped(outputs["pooled_output"], **others)
        return {"logits": tf.reshape(self.score(pooled), [-1, num_choices])}
