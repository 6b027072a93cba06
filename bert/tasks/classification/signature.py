"""Signatures of an exported classifier: a text, a pair, ids."""

import tensorflow as tf

from bert.tasks import asking, signatures, task
from bert.tasks.classification import asking as classification
from bert.tasks.classification import predictions
from vocab import graph_tokenizer


def make(
    model: classification.Classification,
    compute: asking.Compute,
    tokenizer: graph_tokenizer.GraphTokenizer,
) -> asking.Signatures:
    """Makes the signatures; see `asking.Asking.signatures`."""
    names = tf.constant(model.label_set.names, tf.string)  # [K]

    def answer(**rows: tf.Tensor) -> signatures.Tensors:
        outputs = compute(**rows)
        if "score" in outputs:
            return outputs
        probabilities = outputs["probabilities"]
        if model.problem_type == task.MULTI_LABEL:
            is_chosen = probabilities >= predictions.THRESHOLD
            return {"probabilities": probabilities, "is_chosen": is_chosen}
        label = tf.gather(names, tf.argmax(probabilities, axis=-1))
        return {"label": label, "probabilities": probabilities}

    return {
        **signatures.of_texts(
            answer,
            tokenizer,
            model.truncation,
            num_segments=model.model.config.type_vocab_size,
        ),
        signatures.IDS: signatures.of_ids(answer, model),
    }
