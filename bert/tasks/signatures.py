"""The parts of signatures of exported models that tasks share.

docs/serving.md lists the signatures, with their inputs and outputs.
"""

from collections.abc import Callable
from typing import TypeAlias

import tensorflow as tf

from bert.files import run_files
from bert.tasks import asking, sentence_pairs, token_rows
from vocab import graph_tokenizer

DEFAULT, PAIRS, IDS = "serving_default", "pairs", "ids"
# The input of a label, which exports of the release's classifiers have.
_LABEL = tf.TensorSpec([None], tf.int32, name="label_ids")
TEXTS, LISTS = [None], [None, None]  # Shapes.

Signature: TypeAlias = tf.types.experimental.PolymorphicFunction


def id_specs(model: asking.Asking) -> list[tf.TensorSpec]:
    """Returns the specs of ids: `[R, T]`, or `[R, C, T]` for choices."""
    return [
        tf.TensorSpec([None] * model.id_rank, tf.int32, name=name)
        for name in asking.ID_NAMES
    ]


def text_signature(
    **shapes: list[None],
) -> Callable[[asking.Compute], Signature]:
    """Makes a decorator that makes a signature of a function of texts.

    Args:
        **shapes: the names of the inputs, `[B]` or `[B, C]` string.
    """

    def decorate(compute: asking.Compute) -> Signature:
        def run(*values: tf.Tensor) -> asking.Tensors:
            # A loaded signature accepts any shape, so it is checked here.
            checked = [
                tf.ensure_shape(value, shape)
                for value, shape in zip(values, shapes.values(), strict=True)
            ]
            first, *others = shapes
            for name, value in zip(others, checked[1:], strict=True):
                tf.debugging.assert_equal(
                    tf.shape(value)[0],
                    tf.shape(checked[0])[0],
                    f"{name} must have as many texts as {first}",
                )
            return compute(*checked)

        specs = [
            tf.TensorSpec(shape, tf.string, name=name)
            for name, shape in shapes.items()
        ]
        return tf.function(run, input_signature=specs, autograph=False)

    return decorate


def of_ids(compute: asking.Compute, model: asking.Asking) -> Signature:
    """Makes a signature of rows that the client made, `[B, T]` int32.

    It raises an error if the shapes differ, T is too large, or a number is not
    an id: gathering counts negative ones from the end.

    Args:
        compute: a function of the rows.
        model: has the limits; of choices, the rows are `[B, C, T]`.
    """
    config = model.model.config
    longest = config.max_position_embeddings
    sizes = {
        "input_ids": config.vocab_size,
        "input_mask": 2,
        "segment_ids": config.type_vocab_size,
    }

    def run(*ids: tf.Tensor) -> asking.Tensors:
        shape = tf.shape(ids[0])
        for name, values in zip(asking.ID_NAMES, ids, strict=True):
            tf.debugging.assert_equal(
                tf.shape(values),
                shape,
                f"{name} must have the shape of input_ids",
            )
            tf.debugging.assert_equal(
                tf.reduce_all((values >= 0) & (values < sizes[name])),
                True,
                f"{name} must be from 0 to {sizes[name] - 1}",
            )
        tf.debugging.assert_less_equal(
            shape[-1],
            longest,
            f"A sequence must have at most {longest} tokens",
        )
        return compute(**dict(zip(asking.ID_NAMES, ids, strict=True)))

    return tf.function(run, input_signature=id_specs(model), autograph=False)


def of_release(ids: Signature, *, takes_label: bool) -> Signature:
    """Makes the signature that exports of the release have.

    Its outputs are numbers alone, so a classifier has one output, whose name
    TensorFlow Serving leaves out.

    Args:
        ids: of `of_ids`.
        takes_label: whether a label must be given, `[B]` int32, to no effect.
    """
    specs = list(ids.input_signature)

    def run(*values: tf.Tensor) -> asking.Tensors:
        outputs = ids(*values[: len(specs)])
        return {k: v for k, v in outputs.items() if v.dtype != tf.string}

    label = [_LABEL] if takes_label else []
    return tf.function(run, input_signature=[*specs, *label], autograph=False)


def check_one_row(truncation: sentence_pairs.Truncation) -> None:
    """Checks that a text has one row.

    Raises:
        ValueError: long texts are split into windows.
    """
    if truncation.long_text == sentence_pairs.WINDOWS:
        raise ValueError(
            "A SavedModel of --long_text=windows is not supported; "
            "tools.predict averages over the windows of a text. With "
            f"long_text head in {run_files.TASK}, the export cuts long texts."
        )


def of_texts(
    compute: asking.Compute,
    tokenizer: graph_tokenizer.GraphTokenizer,
    truncation: sentence_pairs.Truncation,
    *,
    num_segments: int,
) -> asking.Signatures:
    """Makes the signatures of a text, and of a pair.

    A network with one type of segment has no signature of pairs.

    Args:
        compute: a function of their rows.
        tokenizer: of the model.
        truncation: the rule for long texts.
        num_segments: the types of segments of the network.

    Raises:
        ValueError: long texts are split into windows.
    """
    check_one_row(truncation)

    def of_tokens(
        tokens_a: tf.RaggedTensor, tokens_b: tf.RaggedTensor
    ) -> asking.Tensors:
        return compute(
            **token_rows.fit(tokens_a, tokens_b, truncation, tokenizer)
        )

    @text_signature(text_a=TEXTS)
    def single(text_a: tf.Tensor) -> asking.Tensors:
        tokens = tokenizer.tokenize(text_a)
        return of_tokens(tokens, tokens[:, :0])

    @text_signature(text_a=TEXTS, text_b=TEXTS)
    def pairs(text_a: tf.Tensor, text_b: tf.Tensor) -> asking.Tensors:
        return of_tokens(tokenizer.tokenize(text_a), tokenizer.tokenize(text_b))

    if num_segments < 2:
        return {DEFAULT: single}
    return {DEFAULT: single, PAIRS: pairs}
