"""Classification of raw text: a label, several labels or a score."""

import tensorflow as tf

from modeling import heads
from serving import graph_tokenizer, inputs, networks, run_folder, signatures
from tasks.classification import labels, predictions, sentence_pairs


def servable(
    model: heads.BertForSequenceClassification,
    tokenizer: graph_tokenizer.GraphTokenizer,
    label_set: labels.LabelSet,
    packing: sentence_pairs.Packing,
) -> signatures.Servable:
    """Makes the signatures of a classifier.

    They are `serving_default` (`text_a` `[B]` string), `pairs` (also
    `text_b`) and `ids`. Outputs, for B texts or pairs and K labels:

    - of one label: `label` `[B]` string, `probabilities` `[B, K]` float32;
    - of several: `probabilities` `[B, K]` and `is_chosen` `[B, K]` bool;
    - of a score: `score` `[B]` float32.

    Args:
        model: in float32.
        tokenizer: of the model's vocabulary.
        label_set: the labels, in the order of the model's outputs.
        packing: how texts are truncated or split.
    """
    net = signatures.Network(model, lambda outputs: outputs["logits"])
    kind = label_set.problem_type

    def of_tokens(tokens_a, tokens_b):
        fitted = inputs.fit(tokens_a, tokens_b, packing)
        outputs = networks.activated(net(fitted.rows(tokenizer.special)), kind)
        if packing.long_text == sentence_pairs.WINDOWS:
            # The mean of each text's windows; every text has one.
            outputs = tf.math.segment_mean(outputs, fitted.text)
        return _answers(outputs, label_set)

    def of_rows(rows):
        return _answers(networks.activated(net(rows), kind), label_set)

    is_score = kind == labels.REGRESSION
    tokenize = tokenizer.tokenize
    longest = model.config.max_position_embeddings
    return signatures.Servable(
        task=run_folder.SCORE if is_score else run_folder.CLASSIFY,
        signatures={
            signatures.DEFAULT: signatures.of_single_texts(tokenize, of_tokens),
            signatures.PAIRS: signatures.of_pairs(tokenize, of_tokens),
            signatures.IDS: signatures.of_ids(of_rows, longest),
        },
        variables=net.variables,
        details={
            **label_set.to_dict(),
            "max_seq_length": packing.max_seq_length,
            "long_text": packing.long_text,
            "window_stride": packing.window_stride,
        },
    )


def _answers(outputs, label_set: labels.LabelSet):
    """Returns the answers of `[B, K]` outputs, by name."""
    if label_set.problem_type == labels.REGRESSION:
        return {"score": outputs[:, 0]}
    if label_set.problem_type == labels.MULTI_LABEL:
        thresholds = label_set.thresholds or predictions.THRESHOLD
        return {"probabilities": outputs, "is_chosen": outputs >= thresholds}
    names = tf.constant(label_set.names)  # [K]
    return {
        "label": tf.gather(names, tf.argmax(outputs, axis=-1)),
        "probabilities": outputs,
    }
