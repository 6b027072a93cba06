"""Signatures of exported models.

The ids of texts are ragged tensors, `[N, (tokens)]` int32.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import tensorflow as tf

from serving import token_rows

DEFAULT = "serving_default"
PAIRS = "pairs"
IDS = "ids"
ID_NAMES = ("input_ids", "input_mask", "segment_ids")

_Compute = Callable[..., Mapping[str, tf.Tensor]]
_Tokenize = Callable[[tf.Tensor], tf.RaggedTensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Servable:
    """A model with its signatures, ready to be saved.

    Attributes:
        task: one of `run_folder.TASKS`.
        signatures: functions by name.
        variables: the weights.
        details: further entries of model.json.
    """

    task: str
    signatures: Mapping[str, Any]
    variables: list[tf.Variable]
    details: Mapping[str, Any]


def _of_specs(compute: _Compute, specs: Sequence[tf.TensorSpec]) -> Any:
    def run(*values):
        # A loaded signature accepts any shape, so it is checked here.
        checked = [
            tf.ensure_shape(value, spec.shape)
            for value, spec in zip(values, specs, strict=True)
        ]
        return dict(compute(*checked))

    # No Python in it depends on a tensor.
    return tf.function(run, input_signature=specs, autograph=False)


def of_texts(
    compute: _Compute, *names: str, lists: Collection[str] = ()
) -> Any:
    """Makes a signature of a function of texts.

    Args:
        compute: a function of a `[B]` string tensor for each name.
        names: of its inputs, in its order.
        lists: those inputs that are `[B, C]`.
    """

    def run(*texts):
        for name, text in zip(names[1:], texts[1:], strict=True):
            tf.debugging.assert_equal(
                tf.shape(text)[0],
                tf.shape(texts[0])[0],
                f"{name} must have as many texts as {names[0]}",
            )
        return compute(*texts)

    return _of_specs(
        run,
        [
            tf.TensorSpec(
                [None, None] if name in lists else [None], tf.string, name=name
            )
            for name in names
        ],
    )


def of_single_texts(tokenize: _Tokenize, compute: _Compute) -> Any:
    """Makes a signature of `text_a`; for the arguments, see `of_sequences`."""

    def run(text_a):
        tokens = tokenize(text_a)
        return compute(tokens, tokens[:, :0])

    return of_texts(run, "text_a")


def id_specs(rank: int) -> list[tf.TensorSpec]:
    """Returns the specs of ids: `[R, T]`, or `[R, C, T]` for a rank of 3."""
    return [tf.TensorSpec([None] * rank, tf.int32, name=n) for n in ID_NAMES]


def of_ids(
    compute: Callable[[token_rows.ModelInputs], Mapping[str, tf.Tensor]],
    max_seq_length: int,
    *,
    rank: int = 2,
) -> Any:
    """Makes a signature of rows that the client made, `[B, T]` int32.

    It raises an error if the shapes differ, or T is 0 or too large.

    Args:
        compute: a function of the rows.
        max_seq_length: the limit of T.
        rank: 3 for `[B, C, T]`.
    """

    def run(*values):
        rows = token_rows.ModelInputs(
            **dict(zip(ID_NAMES, values, strict=True))
        )
        shape = tf.shape(rows.input_ids)
        for name, ids in vars(rows).items():
            tf.debugging.assert_equal(
                tf.shape(ids), shape, f"{name} must have the shape of input_ids"
            )
        tf.debugging.assert_positive(shape[-1], "input_ids must have tokens")
        tf.debugging.assert_less_equal(
            shape[-1],
            max_seq_length,
            f"A sequence must have at most {max_seq_length} tokens",
        )
        return compute(rows)

    return _of_specs(run, id_specs(rank))


def of_sequences(
    tokenize: _Tokenize,
    of_tokens: _Compute,
    of_rows: Callable[[token_rows.ModelInputs], Mapping[str, tf.Tensor]],
    max_seq_length: int,
) -> dict[str, Any]:
    """Makes the signatures of texts, of pairs of texts, and of ids.

    Args:
        tokenize: splits `[B]` strings into ids, `[B, (tokens)]` int32.
        of_tokens: a function of the ids of both texts.
        of_rows: a function of the rows that a client made.
        max_seq_length: the limit of T of those rows.
    """

    def of_pairs(*texts):
        return of_tokens(*map(tokenize, texts))

    return {
        DEFAULT: of_single_texts(tokenize, of_tokens),
        PAIRS: of_texts(of_pairs, "text_a", "text_b"),
        IDS: of_ids(of_rows, max_seq_length),
    }
