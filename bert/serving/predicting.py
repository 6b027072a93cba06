"""Predictions of a trained model for texts, as the scripts make them.

There are no files of records, and nothing is compiled, so that the first
prediction only waits for the weights.
"""

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from bert.files import run_files
from bert.serving import loading
from bert.tasks import asking, sentence_pairs


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncodedExample:
    """An example, by the names of its parts, and its rows."""

    example: asking.Example
    rows: Sequence[asking.Row]


class Predictor:
    """Predicts with a trained model.

    Args:
        model: of `loading.read`; its weights are loaded.
        batch_size: rows per batch.
    """

    def __init__(self, model: asking.Asking, batch_size: int):
        self._model = model
        self._batch_size = batch_size
        self._counts = sentence_pairs.TruncationCounts()
        self._network = loading.load(model)

    def encode(self, example: asking.Example) -> EncodedExample:
        """Makes the rows of an example.

        Raises:
            ValueError: the example does not fit the model.
        """
        rows = self._model.encode(example, self._counts)
        for row in rows:
            segment_ids = row.ids["segment_ids"]
            self._model.model.config.check_segments(segment_ids.flat)
        return EncodedExample(example=example, rows=rows)

    def log_truncation(self) -> None:
        """Warns of the texts that were too long for the model, if any."""
        name, entry, limit = self._model.limit
        place = f"{entry} in the model's {run_files.TASK}"
        self._counts.log(name, limit, place)

    def predict(
        self, examples: Sequence[EncodedExample]
    ) -> list[asking.Answer]:
        """Returns the answers to examples, in order, as in JSON."""
        with _run_eagerly():
            outputs = iter(self._run([row for e in examples for row in e.rows]))
            return [
                self._model.decode(
                    e.example,
                    e.rows,
                    list(itertools.islice(outputs, len(e.rows))),
                )
                for e in examples
            ]

    def _run(self, rows: Sequence[asking.Row]) -> list[dict[str, np.ndarray]]:
        outputs_of: list[dict[str, np.ndarray]] = [{} for _ in rows]
        for batch in self._batches(rows):
            inputs = {
                name: _stacked([rows[index].ids[name] for index in batch])
                for name in rows[batch[0]].ids
            }
            # Padding that all rows share is left out.
            length = max(rows[index].num_tokens for index in batch)
            for name in asking.ID_NAMES:
                inputs[name] = inputs[name][..., :length]
            outputs = self._model.outputs(
                self._network,
                {name: tf.constant(value) for name, value in inputs.items()},
            )
            for name, values in outputs.items():
                for index, value in zip(batch, values.numpy(), strict=True):
                    outputs_of[index][name] = value
        return outputs_of

    def _batches(self, rows: Sequence[asking.Row]) -> Iterator[list[int]]:
        # The rows of a batch have similar lengths.
        def choices(index: int) -> tuple[int, ...]:
            return rows[index].ids["input_ids"].shape[:-1]

        order = sorted(
            range(len(rows)), key=lambda i: (choices(i), rows[i].num_tokens)
        )
        for _, group in itertools.groupby(order, choices):
            # `itertools.batched` is of Python 3.12.
            while batch := list(itertools.islice(group, self._batch_size)):
                yield batch


def _stacked(values: Sequence[np.ndarray]) -> np.ndarray:
    longest = max(value.shape[-1] for value in values)
    shape = (len(values), *values[0].shape[:-1], longest)
    stacked = np.zeros(shape, np.int32)  # Padded with 0, as released.
    for row, value in zip(stacked, values, strict=True):
        row[..., : value.shape[-1]] = value
    return stacked


@contextlib.contextmanager
def _run_eagerly() -> Iterator[None]:
    # Compilation takes seconds for each length of a row.
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)
