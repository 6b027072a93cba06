"""Classification of raw text: a label, several labels or a score."""

import tensorflow as tf

from modeling import heads
from serving import graph_tokenizer, inputs, networks, signatures
from tasks.classification import labels, predictions, sentence_pairs

CLASSIFY, SCORE = "classify", "score"


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
        packing: how texts are fitted into a row.
    """
    net = signatures.Network(model, lambda outputs: outputs["logits"])
    kind = label_set.problem_type

    def of_pairs(text_a, text_b):
        return run(tokenizer.tokenize(text_a), tokenizer.tokenize(text_b))

    def of_single_texts(text_a):
        tokens = tokenizer.tokenize(text_a)
        return run(tokens, inputs.no_tokens(tokens))

    def run(tokens_a, tokens_b):
        fitted = inputs.fit(tokens_a, tokens_b, packing)
        rows = inputs.joined(
            fitted.tokens_a, fitted.tokens_b, tokenizer.special
        )
        outputs = networks.activated(net(rows), kind)
        if packing.long_text == sentence_pairs.WINDOWS:
            outputs = inputs.mean_of_texts(outputs, fitted)
        return _answers(outputs, label_set)

    def of_ids(input_ids, input_mask, segment_ids):
        longest = model.config.max_position_embeddings
        rows = inputs.of_client(input_ids, input_mask, segment_ids, longest)
        return _answers(networks.activated(net(rows), kind), label_set)

    return signatures.Servable(
        task=SCORE if kind == labels.REGRESSION else CLASSIFY,
        signatures={
            signatures.DEFAULT: signatures.of_texts(of_single_texts, "text_a"),
            signatures.PAIRS: signatures.of_texts(of_pairs, "text_a", "text_b"),
            signatures.IDS: signatures.of_ids(of_ids),
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
    """Names what `[B, K]` outputs say."""
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
