"""Models of raw text for export: their signatures, by task."""

from typing import Any

import tensorflow as tf

from modeling import bert, heads
from serving import (
    answerer,
    graph_tokenizer,
    networks,
    normalization,
    run_folder,
    signatures,
    tagger,
    token_rows,
)
from tasks import features
from tasks import task as task_lib
from tasks.classification import labels, predictions, sentence_pairs

VECTORS = "vectors"
_MASK = "[MASK]"


def servable(
    task: str, model: Any, settings: run_folder.Settings
) -> signatures.Servable:
    """Makes the signatures of a model.

    Args:
        task: one of `run_folder.TASKS`.
        model: of `networks.load`, in float32.
        settings: of the model.

    Raises:
        ValueError: the settings lack a value that the task requires.
    """
    tokenizer = graph_tokenizer.GraphTokenizer(
        settings.vocab_file, settings.do_lower_case
    )
    if task == run_folder.ANSWER:
        return answerer.servable(model, tokenizer, settings.answering)
    if task == run_folder.TAG:
        names = settings.known_labels.names
        length = settings.truncation.max_seq_length
        return tagger.servable(model, tokenizer, names, length)
    make = {
        run_folder.CHOOSE: _chooser,
        run_folder.EMBED: _embedder,
        run_folder.FILL_MASK: _mask_filler,
    }.get(task, _classifier)
    return make(model, tokenizer, settings)


def _classifier(
    model: heads.BertForSequenceClassification,
    tokenizer: graph_tokenizer.GraphTokenizer,
    settings: run_folder.Settings,
) -> signatures.Servable:
    """Makes the signatures of a classifier.

    They are `serving_default` (`text_a` `[B]` string), `pairs` (also
    `text_b`) and `ids`. Outputs, for B texts or pairs and K labels:

    - of one label: `label` `[B]` string, `probabilities` `[B, K]` float32;
    - of several: `probabilities` `[B, K]` and `is_chosen` `[B, K]` bool;
    - of a score: `score` `[B]` float32.
    """
    net = networks.Network(model, lambda outputs: outputs["logits"])
    label_set, truncation = settings.known_labels, settings.truncation
    kind = label_set.problem_type

    def of_tokens(tokens_a, tokens_b):
        rows, text = token_rows.fit(tokens_a, tokens_b, truncation, tokenizer)
        outputs = networks.activated(net(rows), kind)
        if truncation.long_text == sentence_pairs.WINDOWS:
            # The mean of each text's windows; every text has one.
            outputs = tf.math.segment_mean(outputs, text)
        return _answers(outputs, label_set)

    def of_rows(rows):
        return _answers(networks.activated(net(rows), kind), label_set)

    is_score = kind == task_lib.REGRESSION
    longest = model.config.max_position_embeddings
    return signatures.Servable(
        task=run_folder.SCORE if is_score else run_folder.CLASSIFY,
        signatures=signatures.of_sequences(
            tokenizer.tokenize, of_tokens, of_rows, longest
        ),
        variables=net.variables,
        details={
            **label_set.to_dict(),
            "max_seq_length": truncation.max_seq_length,
            "long_text": truncation.long_text,
            "window_stride": truncation.window_stride,
        },
    )


def _answers(outputs, label_set: labels.LabelSet):
    """Returns the answers of `[B, K]` outputs, by name."""
    if label_set.problem_type == task_lib.REGRESSION:
        return {"score": outputs[:, 0]}
    if label_set.problem_type == task_lib.MULTI_LABEL:
        is_chosen = outputs >= predictions.THRESHOLD
        return {"probabilities": outputs, "is_chosen": is_chosen}
    names = tf.constant(label_set.names)  # [K]
    return {
        "label": tf.gather(names, tf.argmax(outputs, axis=-1)),
        "probabilities": outputs,
    }


def _chooser(
    model: heads.BertForMultipleChoice,
    tokenizer: graph_tokenizer.GraphTokenizer,
    settings: run_folder.Settings,
) -> signatures.Servable:
    """Makes the signatures of a model that chooses among C endings.

    `serving_default` takes `first` and `second`, each `[B]` string, and
    `endings` `[B, C]` string: the texts of a choice are `first`, and `second`
    with an ending. Outputs: `choice` `[B]` int32, from 0, its `ending` `[B]`
    string, and `probabilities` `[B, C]` float32. `ids` takes `[B, C, T]`, and
    gives `choice` and `probabilities`. The longer text of a longer choice is
    truncated.
    """
    max_seq_length = settings.truncation.max_seq_length
    truncation = sentence_pairs.Truncation(max_seq_length=max_seq_length)
    net = networks.Network(
        model, lambda outputs: tf.nn.softmax(outputs["logits"]), rank=3
    )

    def of_rows(rows):
        probabilities = net(rows)  # [B, C]
        best = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        return {"choice": best, "probabilities": probabilities}

    def of_texts(first, second, endings):
        rows = _choice_rows(tokenizer, truncation, first, second, endings)
        answers = of_rows(rows)
        ending = tf.gather(endings, answers["choice"], batch_dims=1)
        return {**answers, "ending": ending}

    names = ("first", "second", "endings")
    longest = model.config.max_position_embeddings
    return signatures.Servable(
        task=run_folder.CHOOSE,
        signatures={
            signatures.DEFAULT: signatures.of_texts(
                of_texts, *names, lists=["endings"]
            ),
            signatures.IDS: signatures.of_ids(of_rows, longest, rank=3),
        },
        variables=net.variables,
        details={"max_seq_length": max_seq_length},
    )


def _choice_rows(
    tokenizer, truncation, first, second, endings
) -> token_rows.ModelInputs:
    """Makes the inputs of the choices, each `[B, C, T]`."""
    num_choices = tf.shape(endings)[1]
    row = tf.repeat(tf.range(tf.size(first)), num_choices)  # [B * C]
    tokens_a, begun = (
        tf.gather(tokenizer.tokenize(text), row) for text in (first, second)
    )
    # The same pieces as of both texts with a space between them.
    ended = tokenizer.tokenize(tf.reshape(endings, [-1]))
    tokens_b = tf.concat([begun, ended], axis=1)
    rows, _ = token_rows.fit(tokens_a, tokens_b, truncation, tokenizer)
    shape = [-1, num_choices, tf.shape(rows.input_ids)[1]]
    return token_rows.ModelInputs(
        **{name: tf.reshape(ids, shape) for name, ids in vars(rows).items()}
    )


def _embedder(
    model: bert.BertModel,
    tokenizer: graph_tokenizer.GraphTokenizer,
    settings: run_folder.Settings,
) -> signatures.Servable:
    """Makes the signatures of an encoder.

    They are `serving_default` (`text_a` `[B]` string), `pairs` (also
    `text_b`), `ids` and `vectors`, which is `serving_default` without the
    outputs of T positions. Outputs, for the L chosen layers:

    - `tokens` `[B, T]` string, "" after the last; `input_mask` `[B, T]` int32;
    - `sequence_output` `[B, T, D]` float32, the last layer;
    - `layers` `[B, T, L, D]` float32, as `extract_features.py` writes them;
    - `mean` `[B, L, D]` float32, of all tokens, including [CLS] and [SEP];
    - `pooled_output` `[B, D]` float32, if the model has it.

    Values at padding are 0.

    Raises:
        ValueError: the model lacks a layer, or texts are split into windows.
    """
    layers, truncation = settings.layers, settings.truncation
    features.check_layers(layers, model.config.num_hidden_layers)
    if truncation.long_text == sentence_pairs.WINDOWS:
        raise ValueError(
            "A text must have one row to be embedded; long_text windows makes "
            "several. Choose head or head_tail."
        )
    encoder = _Encoder(model, tokenizer, settings)
    tokenize, longest = tokenizer.tokenize, model.config.max_position_embeddings
    return signatures.Servable(
        task=run_folder.EMBED,
        signatures={
            **signatures.of_sequences(
                tokenize, encoder.of_tokens, encoder.of_rows, longest
            ),
            VECTORS: signatures.of_single_texts(tokenize, encoder.vectors),
        },
        variables=encoder.net.variables,
        details={
            "max_seq_length": truncation.max_seq_length,
            "long_text": truncation.long_text,
            "layers": list(layers),
            "hidden_size": model.config.hidden_size,
        },
    )


class _Encoder:
    """Encodes B texts at once."""

    def __init__(self, model, tokenizer, settings: run_folder.Settings):
        kept = ["sequence_output", "pooled_output"]
        kept = kept if settings.model.has_pooler else kept[:1]

        def chosen(outputs):
            every = outputs["all_encoder_layers"]
            wanted = [every[layer] for layer in settings.layers]
            stacked = tf.stack(wanted, axis=2)  # [B, T, L, D]
            return {"layers": stacked, **{name: outputs[name] for name in kept}}

        self.net = networks.Network(model, chosen)
        self._vocab_size = model.config.vocab_size
        self._tokenizer = tokenizer
        self._truncation = settings.truncation

    def of_tokens(self, tokens_a, tokens_b):
        rows = self._rows(tokens_a, tokens_b)
        names = self._tokenizer.tokens(self._vocab_size)
        names = tf.where(
            rows.input_mask > 0, tf.gather(names, rows.input_ids), ""
        )
        return {"tokens": names, **self.of_rows(rows)}

    def vectors(self, tokens_a, tokens_b):
        found = self.of_rows(self._rows(tokens_a, tokens_b))
        return {k: found[k] for k in ("mean", "pooled_output") if k in found}

    def _rows(self, tokens_a, tokens_b):
        rows, _ = token_rows.fit(
            tokens_a, tokens_b, self._truncation, self._tokenizer
        )
        return rows

    def of_rows(self, rows: token_rows.ModelInputs):
        """Sets values at padding to 0 and averages tokens."""
        outputs = self.net(rows)
        is_token = tf.cast(rows.input_mask > 0, tf.float32)
        is_token = is_token[..., tf.newaxis]  # [B, T, 1]
        layers = outputs.pop("layers") * is_token[..., tf.newaxis]
        sums = tf.reduce_sum(layers, axis=1)  # [B, L, D]
        counts = tf.reduce_sum(is_token, axis=1)[..., tf.newaxis]  # [B, 1, 1]
        return {
            "input_mask": rows.input_mask,
            "layers": layers,  # [B, T, L, D]
            "sequence_output": outputs.pop("sequence_output") * is_token,
            "mean": tf.math.divide_no_nan(sums, counts),
            **outputs,
        }


def _mask_filler(
    model: heads.BertForPreTraining,
    tokenizer: graph_tokenizer.GraphTokenizer,
    settings: run_folder.Settings,
) -> signatures.Servable:
    """Makes the signatures of a masked language model.

    They are `serving_default` (`text_a` `[B]` string), `pairs` (also
    `text_b`) and `ids`. Outputs, P being the most masks of a row: `tokens`
    `[B, P, k]` string and `probabilities` `[B, P, k]` float32, the most
    probable first, masks from the left; `num_masks` `[B]` int32. Rows with
    fewer masks are filled with "" and 0.

    A text that is too long is an error, as for `tools.predict_masked`:
    truncation could remove a mask.

    Raises:
        ValueError: the vocabulary has no [MASK].
    """
    tokenizer.definition.require_tokens(_MASK)
    max_seq_length = settings.truncation.max_seq_length
    top_k = min(settings.top_k, model.config.vocab_size)
    filler = _MaskFiller(model, tokenizer, max_seq_length, top_k)
    return signatures.Servable(
        task=run_folder.FILL_MASK,
        signatures=signatures.of_sequences(
            filler.tokenize, filler.of_tokens, filler.of_rows, max_seq_length
        ),
        variables=filler.net.variables,
        details={"max_seq_length": max_seq_length, "top_k": top_k},
    )


class _MaskFiller:
    """Fills the masks of B texts at once."""

    def __init__(self, model, tokenizer, max_seq_length: int, top_k: int):
        self.net = networks.Network(
            model, lambda outputs: outputs["masked_lm_logits"], num_more=1
        )
        self._top_k = top_k
        self._tokenizer = tokenizer
        self._mask_id = tokenizer.id_of(_MASK)
        self._vocab_size = model.config.vocab_size
        self._max_seq_length = max_seq_length

    def tokenize(self, text):
        """Splits `[B]` texts but keeps each [MASK]: `[B, (tokens)]` int32."""
        # Decoded first: there may be an invalid byte inside of "[MASK]".
        parts = tf.strings.split(
            normalization.drop_invalid_utf8(text), _MASK
        )  # [B, (parts)]
        tokens = self._tokenizer.tokenize(parts.values)  # [parts, (tokens)]
        is_later = tf.ragged.range(parts.row_lengths()).values > 0  # [parts]
        masks = token_rows.repeated(self._mask_id, tf.cast(is_later, tf.int64))
        tokens = tf.concat([masks, tokens], axis=1)
        return parts.with_values(tokens).merge_dims(1, 2)

    def of_tokens(self, tokens_a, tokens_b):
        rows = token_rows.joined(tokens_a, tokens_b, self._tokenizer)
        tf.debugging.assert_less_equal(
            tf.shape(rows.input_ids)[1],
            self._max_seq_length,
            f"A text must have at most {self._max_seq_length} word pieces "
            "with [CLS] and [SEP]; shorten it",
        )
        return self.of_rows(rows)

    def of_rows(self, rows: token_rows.ModelInputs):
        is_mask = (rows.input_ids == self._mask_id) & (rows.input_mask > 0)
        found = tf.where(is_mask)  # [masks, 2]
        places = tf.RaggedTensor.from_value_rowids(
            tf.cast(found[:, 1], tf.int32),
            found[:, 0],
            nrows=tf.shape(rows.input_ids, out_type=tf.int64)[0],
            validate=False,
        )  # [B, (masks)]
        logits = self.net(rows, places.to_tensor())  # [B, P, V]
        # Of equal ones, the first in the vocabulary is first.
        probs, ids = tf.math.top_k(tf.nn.softmax(logits), self._top_k)
        is_given = tf.sequence_mask(places.row_lengths())[..., tf.newaxis]
        tokens = tf.gather(self._tokenizer.tokens(self._vocab_size), ids)
        return {
            "tokens": tf.where(is_given, tokens, ""),
            "probabilities": tf.where(is_given, probs, 0.0),
            "num_masks": tf.cast(places.row_lengths(), tf.int32),
        }
