"""Signatures of exported models, and the network that they share."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from serving import inputs

DEFAULT = "serving_default"
PAIRS = "pairs"
IDS = "ids"

_Compute = Callable[..., Mapping[str, tf.Tensor]]


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


def of_texts(compute: _Compute, *names: str) -> Any:
    """Makes a signature of a function of texts.

    Args:
        compute: a function of a `[B]` string tensor for each name.
        names: of its inputs, in its order.
    """

    def run(*texts):
        for name, text in zip(names[1:], texts[1:], strict=True):
            tf.debugging.assert_equal(
                tf.shape(text),
                tf.shape(texts[0]),
                f"{name} must have as many texts as {names[0]}",
            )
        return compute(*texts)

    return of_specs(
        run, [tf.TensorSpec([None], tf.string, name=name) for name in names]
    )


def of_single_texts(
    tokenize: Callable[[tf.Tensor], tf.RaggedTensor], compute: _Compute
) -> Any:
    """Makes a signature of `text_a`; for the arguments, see `of_pairs`."""

    def run(text_a):
        tokens = tokenize(text_a)
        return compute(tokens, inputs.no_tokens(tokens))

    return of_texts(run, "text_a")


def of_pairs(
    tokenize: Callable[[tf.Tensor], tf.RaggedTensor], compute: _Compute
) -> Any:
    """Makes a signature of `text_a` and `text_b`.

    Args:
        tokenize: splits `[B]` strings into ids, `[B, (tokens)]` int32.
        compute: a function of the ids of both texts.
    """

    def run(*texts):
        return compute(*map(tokenize, texts))

    return of_texts(run, "text_a", "text_b")


def of_ids(
    compute: Callable[[inputs.ModelInputs], Mapping[str, tf.Tensor]],
    max_seq_length: int,
    *,
    rank: int = 2,
) -> Any:
    """Makes a signature of rows that the client made, `[B, T]` int32.

    Args:
        compute: a function of the rows, after `inputs.of_client`.
        max_seq_length: the limit of T.
        rank: 3 for `[B, C, T]`.
    """

    def run(input_ids, input_mask, segment_ids):
        return compute(
            inputs.of_client(input_ids, input_mask, segment_ids, max_seq_length)
        )

    names = ("input_ids", "input_mask", "segment_ids")
    return of_specs(
        run,
        [tf.TensorSpec([None] * rank, tf.int32, name=name) for name in names],
    )


def of_specs(compute: _Compute, specs: Sequence[tf.TensorSpec]) -> Any:
    """Makes a signature of a function of tensors.

    Args:
        compute: its arguments are positional.
        specs: names, types and shapes of the arguments.
    """

    def run(*values):
        # A loaded signature accepts any shape, so it is checked here.
        checked = [
            tf.ensure_shape(value, spec.shape)
            for value, spec in zip(values, specs, strict=True)
        ]
        return dict(compute(*checked))

    # No Python in it depends on a tensor.
    return tf.function(run, input_signature=specs, autograph=False)


class Network:
    """A model as a function of any number of rows of any length, in float32.

    All signatures of an exported model call this function, so that its graph
    contains the network once. It is traced here, outside of what training
    compiles, so that plain operations are exported.

    Args:
        model: in float32; computed without dropout.
        choose: returns the required part of the model's outputs.
        num_more: number of model inputs after the ids, each `[R, P]` int32.
        rank: of the ids; 3 for `[R, C, T]`.

    Attributes:
        variables: the weights.
    """

    def __init__(
        self,
        model: Any,
        choose: Callable[[Any], Any],
        *,
        num_more: int = 0,
        rank: int = 2,
    ):
        self.variables = [variable.value for variable in model.variables]
        self._run = tf.function(
            lambda *values: choose(model(*values)),
            input_signature=[tf.TensorSpec([None] * rank, tf.int32)]
            * (3 + num_more),
            autograph=False,  # No Python here depends on a tensor.
        )

    def __call__(self, rows: inputs.ModelInputs, *more: tf.Tensor) -> Any:
        """Returns what `choose` returns, for R rows."""
        return self._run(
            rows.input_ids, rows.input_mask, rows.segment_ids, *more
        )
