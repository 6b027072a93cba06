"""Choice among endings of raw text."""

import tensorflow as tf

from modeling import heads
from serving import graph_tokenizer, inputs, run_folder, signatures
from tasks.classification import sentence_pairs


def servable(
    model: heads.BertForMultipleChoice,
    tokenizer: graph_tokenizer.GraphTokenizer,
    max_seq_length: int,
) -> signatures.Servable:
    """Makes the signatures of a model that chooses among C endings.

    `serving_default` takes `first` and `second`, each `[B]` string, and
    `endings` `[B, C]` string: the texts of a choice are `first`, and `second`
    with an ending. Outputs: `choice` `[B]` int32, from 0, its `ending` `[B]`
    string, and `probabilities` `[B, C]` float32. `ids` takes `[B, C, T]`, and
    gives `choice` and `probabilities`.

    Args:
        model: in float32.
        tokenizer: of the model's vocabulary.
        max_seq_length: the limit of T; of a longer choice the longer text is
            truncated.
    """
    packing = sentence_pairs.Packing(max_seq_length=max_seq_length)
    net = signatures.Network(
        model, lambda outputs: tf.nn.softmax(outputs["logits"]), rank=3
    )

    def of_rows(rows):
        probabilities = net(rows)  # [B, C]
        best = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        return {"choice": best, "probabilities": probabilities}

    def of_texts(first, second, endings):
        for name, texts in (("second", second), ("endings", endings)):
            tf.debugging.assert_equal(
                tf.shape(texts)[0],
                tf.size(first),
                f"{name} must have as many rows as first",
            )
        rows = _rows(tokenizer, packing, first, second, endings)
        answers = of_rows(rows)
        ending = tf.gather(endings, answers["choice"], batch_dims=1)
        return {**answers, "ending": ending}

    specs = [
        tf.TensorSpec([None], tf.string, name="first"),
        tf.TensorSpec([None], tf.string, name="second"),
        tf.TensorSpec([None, None], tf.string, name="endings"),
    ]
    longest = model.config.max_position_embeddings
    return signatures.Servable(
        task=run_folder.CHOOSE,
        signatures={
            signatures.DEFAULT: signatures.of_specs(of_texts, specs),
            signatures.IDS: signatures.of_ids(of_rows, longest, rank=3),
        },
        variables=net.variables,
        details={"max_seq_length": max_seq_length},
    )


def _rows(tokenizer, packing, first, second, endings) -> inputs.ModelInputs:
    """Makes the inputs of the choices, each `[B, C, T]`."""
    num_choices = tf.shape(endings)[1]
    row = tf.repeat(tf.range(tf.size(first)), num_choices)  # [B * C]
    tokens_a, begun = (
        tf.gather(tokenizer.tokenize(text), row) for text in (first, second)
    )
    # The same pieces as of both texts with a space between them.
    ended = tokenizer.tokenize(tf.reshape(endings, [-1]))
    fitted = inputs.fit(tokens_a, tf.concat([begun, ended], axis=1), packing)
    rows = fitted.rows(tokenizer.special)
    shape = [-1, num_choices, tf.shape(rows.input_ids)[1]]
    return inputs.ModelInputs(
        **{name: tf.reshape(ids, shape) for name, ids in vars(rows).items()}
    )
