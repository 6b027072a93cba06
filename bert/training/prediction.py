"""Prediction: scores of records, and hidden layers of texts."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent import futures

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from bert.files import processes, progress
from bert.records import reading
from bert.tasks import objectives, task
from bert.training import devices, input_pipeline, padding
from modeling import bert, compilation
from modeling import layers as layers_lib

# The scores of a batch, by name.
_Scores = dict[str, np.ndarray]
# Compiling more lengths takes more time than it saves.
_MAX_LENGTHS = 16
# Two batches are in flight: one is dispatched while the other is computed.
_BATCHES_AT_ONCE = 2
# Batches of texts are padded to a multiple of at least this.
_LENGTH_STEP = 8


class ForwardPass:
    """A function of a model, compiled for a distribution strategy.

    Its dense kernels are cast to the compute type once: in bfloat16 on a CPU,
    the casts of a batch take a fifth of the time of its products.

    Args:
        strategy: holds the variables.
        model: built.
        function: returns tensors `[b, ...]` by name for the rows of a replica;
            it assigns no variable.
        mode: how it is executed.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: keras.Model,
        function: Callable[[objectives.Tensors], objectives.Tensors],
        mode: compilation.ExecutionMode,
    ):
        self.strategy, self.mode = strategy, mode
        self._function = function
        self._compiled = mode.compiled(self._with_copies)
        # One trace serves batches of all lengths.
        self.run = tf.function(
            self._run, autograph=False, reduce_retracing=True
        )
        self._dense = [
            layer
            for layer in model._flatten_layers()
            if isinstance(layer, layers_lib.Dense)
            and layer.compute_dtype != layer.kernel.dtype
        ]
        self._copies: list[tf.Variable] = []

    def refresh(self) -> None:
        """Casts the present kernels."""
        cast = [
            tf.cast(layer.kernel, layer.compute_dtype) for layer in self._dense
        ]
        if not self._copies:
            with self.strategy.scope():
                self._copies = [
                    tf.Variable(kernel, trainable=False) for kernel in cast
                ]
        for copy, kernel in zip(self._copies, cast, strict=True):
            copy.assign(kernel)

    def _run(self, batch: objectives.Tensors) -> objectives.Tensors:
        outputs = self.strategy.run(self._replica_run, args=(batch,))
        return {
            name: self.strategy.gather(value, axis=0)
            for name, value in outputs.items()
        }

    def _replica_run(self, rows: objectives.Tensors) -> objectives.Tensors:
        outputs = self._compiled(rows)
        if self.strategy.num_replicas_in_sync > 1:
            return {name: _padded(x) for name, x in outputs.items()}
        return outputs

    def _with_copies(self, rows: objectives.Tensors) -> objectives.Tensors:
        with keras.StatelessScope() as scope:
            for layer, copy in zip(self._dense, self._copies, strict=True):
                scope.add_update((layer.kernel, tf.convert_to_tensor(copy)))
            return self._function(rows)


class RecordPredictor:
    """Scores of records.

    Args:
        strategy: holds the variables.
        objective: its `predictions` score the rows of a replica.
        mode: how the forward pass is executed.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        objective: objectives.FineTuning,
        mode: compilation.ExecutionMode = compilation.ExecutionMode.PLAIN,
    ):
        self._objective = objective
        self._pass = ForwardPass(strategy, objective.model, self._scores, mode)
        self._seen_shapes: set[tf.TensorShape] = set()

    def predict(
        self,
        source: reading.RecordSource,
        *,
        batch_size: int,
        by_length: bool = False,
    ) -> dict[str, np.ndarray]:
        """Scores all records of a source.

        Args:
            source: the N records.
            batch_size: the global batch size; results depend neither on it nor
                on `by_length`.
            by_length: batch records of similar lengths, and remove their common
                padding.

        Returns:
            For each prediction its name and an `[N, ...]` array in file
            order. The scores of removed positions are `task.PADDING_LOGIT`.
        """
        self._pass.refresh()
        strategy, mode = self._pass.strategy, self._pass.mode
        order, lengths = np.arange(len(source.files)), list[int]()
        if by_length:
            order, lengths = longest_first(source.lengths(), batch_size, mode)
        batches = input_pipeline.evaluation_batches(
            strategy,
            source,
            batch_size=batch_size,
            order=order,
            lengths=lengths,
        )
        # Traced here, for batches of all lengths.
        step = self._pass.run.get_concrete_function(batches.element_spec)
        if mode is compilation.ExecutionMode.XLA:
            logging.info(
                "Predicting: XLA compiles the model at the first batch of each "
                "of %d lengths.",
                len(lengths) or 1,
            )

        def score(batch: objectives.Tensors) -> _Scores:
            part = {name: value.numpy() for name, value in step(batch).items()}
            real = part.pop("example_weights") > 0
            return {name: value[real] for name, value in part.items()}

        num_records = len(source.files)
        parts, done, report = [], 0, progress.Progress()
        # Steps of several replicas must start in the same order everywhere. A
        # GPU or TPU runs one after the other.
        is_one_cpu = (
            isinstance(strategy, tf.distribute.OneDeviceStrategy)
            and devices.kind_of(strategy) == devices.CPU
        )
        threads = _BATCHES_AT_ONCE if is_one_cpu else 1
        with futures.ThreadPoolExecutor(threads) as pool:
            for part in self._in_order(pool, score, batches, threads):
                parts.append(part)
                done += len(next(iter(part.values())))
                report("predictions", done, num_records)
        if done != num_records:
            raise RuntimeError(f"Scored {done} of {num_records} records.")
        scores = {
            name: _joined([part[name] for part in parts]) for name in parts[0]
        }
        inverse_order = np.argsort(order)
        return {name: values[inverse_order] for name, values in scores.items()}

    def _in_order(
        self,
        pool: futures.Executor,
        score: Callable[[objectives.Tensors], _Scores],
        batches: Iterable[objectives.Tensors],
        num_pending: int,
    ) -> Iterator[_Scores]:
        """Yields the scores of batches, several at once in a pool.

        The first batch of each shape is computed alone: XLA of TensorFlow 2.21
        may crash if two threads run a compiled function at once and it has not
        run before.
        """
        for is_new, group in itertools.groupby(batches, self._is_new):
            pending = 1 if is_new else num_pending
            yield from processes.in_order(pool, score, group, pending)

    def _is_new(self, batch: objectives.Tensors) -> bool:
        """Returns whether no batch so far had this shape."""
        ids = batch["input_ids"]
        shape = self._pass.strategy.experimental_local_results(ids)[0].shape
        is_new = shape not in self._seen_shapes
        self._seen_shapes.add(shape)
        return is_new

    def _scores(self, features: objectives.Tensors) -> objectives.Tensors:
        return {
            **self._objective.predictions(features),
            "example_weights": features["example_weights"],
        }


def longest_first(
    lengths: np.ndarray,
    batch_size: int,
    mode: compilation.ExecutionMode,
) -> tuple[np.ndarray, list[int]]:
    """Sorts records by length, so that batches need little padding.

    Args:
        lengths: `[N]`, the tokens of each record.
        batch_size: of the batches of sorted records.
        mode: of the forward passes.

    Returns:
        `[N]`, the order in which to read the records, and the few lengths to
        which their batches are truncated.
    """
    order = np.argsort(-lengths, kind="stable")
    longest = lengths[order][::batch_size]
    chosen = np.unique(longest).tolist()
    if mode is not compilation.ExecutionMode.PLAIN:
        # Every length is compiled; with fewer, batches have more padding. Both
        # together cost least near the root of the number of batches.
        most = math.ceil(min(len(longest) ** 0.5, _MAX_LENGTHS))
        chosen = padding.padded_sizes(longest, most)
    return order, chosen


def _padded(scores: tf.Tensor) -> tf.Tensor:
    """Pads `[b, ...]` scores to the greatest length of any replica.

    Each replica removes the common padding of its own rows.
    """
    if scores.shape.rank == 1:
        return scores
    context = tf.distribute.get_replica_context()
    length = tf.shape(scores)[1]
    longest = tf.reduce_max(context.all_gather(length[tf.newaxis], axis=0))
    missing = [[0, 0]] * scores.shape.rank
    missing[1] = [0, longest - length]
    padding = tf.cast(task.PADDING_LOGIT, scores.dtype)
    return tf.pad(scores, missing, constant_values=padding)


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """Concatenates `[b, ...]` arrays whose second axes may differ in length."""
    if parts[0].ndim == 1:
        return np.concatenate(parts)
    longest = max(part.shape[1] for part in parts)
    filled = [
        np.pad(
            part,
            [(0, 0), (0, longest - part.shape[1])],
            constant_values=task.PADDING_LOGIT,
        )
        for part in parts
    ]
    return np.concatenate(filled)


class HiddenLayers:
    """Hidden layers of sequences of ids.

    Args:
        strategy: holds the variables.
        model: the encoder, created in the strategy's scope; its weights are
            final.
        layers: the `L` indices of the layers to return; negative ones count
            from the last layer.
        batch_size: the sequences of a batch over all replicas, at most.
        mode: how the forward pass is executed.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: bert.BertModel,
        layers: Sequence[int],
        batch_size: int,
        mode: compilation.ExecutionMode = compilation.ExecutionMode.PLAIN,
    ):
        self._strategy = strategy
        self._model = model
        self._layers = list(layers)
        # Rounded up: each replica gets the same number of rows.
        self._rows_per_replica = -(-batch_size // strategy.num_replicas_in_sync)
        self._pass = ForwardPass(strategy, model, self._chosen_layers, mode)
        self._pass.refresh()

    def compute(
        self,
        input_ids: Sequence[Sequence[int]],
        segment_ids: Sequence[Sequence[int]],
        max_length: int,
        *,
        pad_to_max_length: bool = False,
    ) -> np.ndarray:
        """Runs the encoder over the sequences of a batch.

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
        step = max(_LENGTH_STEP, -(-max_length // _MAX_LENGTHS))
        length = min(-(-longest // step) * step, max_length)
        if pad_to_max_length:
            length = max_length
        replicas = self._strategy.num_replicas_in_sync
        shape = (replicas * self._rows_per_replica, length)
        batch = {
            name: np.zeros(shape, np.int32) for name in objectives.PIECE_INPUTS
        }
        for row, (ids, segments) in enumerate(
            zip(input_ids, segment_ids, strict=True)
        ):
            batch["input_ids"][row, : len(ids)] = ids
            batch["input_mask"][row, : len(ids)] = 1
            batch["segment_ids"][row, : len(ids)] = segments
        hidden = self._pass.run(self._distributed(batch))["hidden"]
        return hidden.numpy()[: len(input_ids)]

    def _distributed(
        self, batch: Mapping[str, np.ndarray]
    ) -> objectives.Tensors:
        rows = self._rows_per_replica

        def of_replica(
            context: tf.distribute.experimental.ValueContext,
        ) -> dict[str, tf.Tensor]:
            start = context.replica_id_in_sync_group * rows
            return {
                n: tf.constant(a[start : start + rows])
                for n, a in batch.items()
            }

        return self._strategy.experimental_distribute_values_from_function(
            of_replica
        )

    def _chosen_layers(self, batch: objectives.Tensors) -> objectives.Tensors:
        hidden = self._model(**batch)["all_encoder_layers"]
        chosen = [tf.cast(hidden[layer], tf.float32) for layer in self._layers]
        return {"hidden": tf.stack(chosen, axis=2)}  # [B, T, L, D]
