"""A network as one compiled function, and the weights that it needs."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from serving import inputs


class Network:
    """Runs a model in float32 on rows of any number and length.

    All signatures of an exported model call the one function, so that the
    network is in its graph once. It is traced here, outside of what training
    compiles: the plain operations are what is exported.

    Args:
        model: made with the policy float32; read without dropout.
        choose: what is kept of the outputs of the model.
        num_more: inputs of the model behind the ids, each `[R, P]` int32.

    Attributes:
        variables: the weights.
    """

    def __init__(
        self,
        model: keras.Model,
        choose: Callable[[Mapping[str, Any]], Any],
        *,
        num_more: int = 0,
    ):
        self.variables = [variable.value for variable in model.variables]

        def run(*values):
            return choose(model(*values))

        self._run = tf.function(
            run,
            input_signature=[tf.TensorSpec([None, None], tf.int32)]
            * (3 + num_more),
            autograph=False,  # No Python here depends on a tensor.
        )

    def __call__(self, rows: inputs.ModelInputs, *more: tf.Tensor) -> Any:
        """Returns what `choose` keeps of the outputs for R rows."""
        return self._run(
            rows.input_ids, rows.input_mask, rows.segment_ids, *more
        )
