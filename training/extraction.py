"""Extraction of hidden layers from batches of any length, as TFRecord files."""

from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

import numpy as np
import tensorflow as tf

from modeling import compilation
from training import prediction, record_files

# Batches are padded to a multiple of this, so that few lengths are compiled.
_LENGTH_STEP = 8
_INPUTS = ("input_ids", "input_mask", "segment_ids")


class HiddenLayers:
    """An encoder compiled for a distribution strategy.

    Args:
        strategy: holds the variables.
        model: the encoder, created in the strategy's scope.
        layers: the `L` indices of the layers to return; negative ones count
            from the last layer.
        batch_size: B, the global batch size, a multiple of the number of
            replicas.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: Callable[..., Mapping[str, Any]],
        layers: Sequence[int],
        batch_size: int,
    ):
        self._strategy = strategy
        self._model = model
        self._layers = list(layers)
        self._batch_size = batch_size
        self._compiled = prediction.CompiledByShape(self._step)

    def compute(
        self,
        input_ids: Sequence[Sequence[int]],
        segment_ids: Sequence[Sequence[int]],
        max_length: int,
        *,
        pad_to_max_length: bool = False,
    ) -> np.ndarray:
        """Runs the encoder over at most B sequences.

        Args:
            input_ids: `b` sequences of ids.
            segment_ids: `b` sequences of the same lengths.
            max_length: the greatest length of a batch.
            pad_to_max_length: pad to `max_length`, not to the longest sequence.

        Returns:
            `[b, T, L, D]` float32, T at least the longest sequence; values
            beyond the end of a sequence are meaningless.
        """
        longest = max(map(len, input_ids))
        length = min(-(-longest // _LENGTH_STEP) * _LENGTH_STEP, max_length)
        if pad_to_max_length:
            length = max_length
        shape = (self._batch_size, length)
        batch = {name: np.zeros(shape, np.int32) for name in _INPUTS}
        for row, (ids, segments) in enumerate(
            zip(input_ids, segment_ids, strict=True)
        ):
            batch["input_ids"][row, : len(ids)] = ids
            batch["input_mask"][row, : len(ids)] = 1
            batch["segment_ids"][row, : len(ids)] = segments
        return self._compiled(self._distributed(batch)).numpy()[
            : len(input_ids)
        ]

    def _distributed(self, batch):
        rows = self._batch_size // self._strategy.num_replicas_in_sync

        def of_replica(context):
            start = context.replica_id_in_sync_group * rows
            return {
                n: tf.constant(a[start : start + rows])
                for n, a in batch.items()
            }

        return self._strategy.experimental_distribute_values_from_function(
            of_replica
        )

    def _step(self, batch):
        values = self._strategy.run(self._replica_step, args=(batch,))
        return self._strategy.gather(values, axis=0)

    def _replica_step(self, batch):
        with compilation.forward_only():
            outputs = self._model(**batch)["all_encoder_layers"]
        chosen = [tf.cast(outputs[layer], tf.float32) for layer in self._layers]
        return tf.stack(chosen, axis=2)  # [B, T, L, D]


class FeatureRecords:
    """A writer of one TFRecord for each line of the input.

    A record is a `tf.train.Example` with `linex_index` (one integer), `values`
    (one string: the values as little-endian bytes), `dtype` (one string, such
    as "float32"), `shape` (`[n, L, D]`, or `[L, D]` if the line has one
    vector), `layers` (L integers) and, for several vectors, `tokens` (n
    strings).

    Args:
        file: the output, open in binary mode.
        layers: the `L` indices of the layers.
    """

    def __init__(self, file: IO[bytes], layers: Sequence[int]):
        self._file = file
        self._layers = layers

    def write(self, part) -> None:
        """Writes the records of some lines.

        Args:
            part: for each line its `index`, `names` and `values`.
        """
        for vectors in part:
            message = tf.train.Example()
            stored = message.features.feature
            stored["linex_index"].int64_list.value.append(vectors.index)
            stored["layers"].int64_list.value.extend(self._layers)
            stored["shape"].int64_list.value.extend(vectors.values.shape)
            dtype = vectors.values.dtype
            values = vectors.values.astype(dtype.newbyteorder("<"))
            stored["values"].bytes_list.value.append(values.tobytes())
            stored["dtype"].bytes_list.value.append(dtype.name.encode())
            if vectors.names is not None:
                stored["tokens"].bytes_list.value.extend(
                    name.encode("utf-8") for name in vectors.names
                )
            record = message.SerializeToString(deterministic=True)
            self._file.write(record_files.frame(record))

    def close(self) -> None:
        """Does nothing: the caller closes the file."""
