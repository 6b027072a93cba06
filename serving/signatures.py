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
    """A model with its signatures, ready to be written.

    Attributes:
        task: what it answers.
        signatures: functions by name.
        variables: the weights that they use.
        details: what a client should know besides, values as JSON has them.
    """

    task: str
    signatures: Mapping[str, Any]
    variables: list[tf.Variable]
    details: Mapping[str, Any]


def of_texts(compute: _Compute, *names: str) -> Any:
    """Makes a signature of a function of texts.

    Args:
        compute: takes a `[B]` string for each name.
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


def of_words(compute: _Compute) -> Any:
    """Makes a signature of a function of `words` `[B, W]` string."""
    return of_specs(
        compute, [tf.TensorSpec([None, None], tf.string, name="words")]
    )


def of_ids(compute: _Compute, *, rank: int = 2) -> Any:
    """Makes a signature of a function of ids, `[B, T]` int32.

    Args:
        compute: takes `input_ids`, `input_mask` and `segment_ids`.
        rank: 3 for `[B, C, T]`.
    """
    names = ("input_ids", "input_mask", "segment_ids")
    return of_specs(
        compute,
        [tf.TensorSpec([None] * rank, tf.int32, name=name) for name in names],
    )


def of_specs(compute: _Compute, specs: Sequence[tf.TensorSpec]) -> Any:
    """Makes a signature of a function of tensors.

    Args:
        compute: takes them by position.
        specs: their names, types and shapes.
    """

    def run(*values):
        # A loaded signature takes any shape; here it is checked.
        checked = [
            tf.ensure_shape(value, spec.shape)
            for value, spec in zip(values, specs, strict=True)
        ]
        return dict(compute(*checked))

    # No Python in it depends on a tensor.
    return tf.function(run, input_signature=specs, autograph=False)


class Network:
    """Runs a model in float32 on rows of any number and length.

    All signatures of an exported model call the one function, so that the
    network is in its graph once. It is traced here, outside of what training
    compiles: the plain operations are what is exported.

    Args:
        model: made with the policy float32; read without dropout.
        choose: what is kept of the outputs of the model.
        num_more: inputs of the model behind the ids, each `[R, P]` int32.
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

        def run(*values):
            return choose(model(*values))

        self._run = tf.function(
            run,
            input_signature=[tf.TensorSpec([None] * rank, tf.int32)]
            * (3 + num_more),
            autograph=False,  # No Python here depends on a tensor.
        )

    def __call__(self, rows: inputs.ModelInputs, *more: tf.Tensor) -> Any:
        """Returns what `choose` keeps of the outputs for R rows."""
        return self._run(
            rows.input_ids, rows.input_mask, rows.segment_ids, *more
        )
