"""Batches of records, read by position as tensors or arrays."""

import contextlib
import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from bert.files import messages
from bert.records import schema, sidecars, tfrecords

if TYPE_CHECKING:
    import tensorflow as tf

# An error of a Python function within TensorFlow follows its traceback.
_OF_PYTHON = re.compile(
    r"\n(?:ValueError|OSError): (.+?)\n+\t \[\[\{\{node PyFunc", re.DOTALL
)
# An error of `tf.io.parse_example` names the record.
_OF_RECORD = re.compile(r"Name: (.+), ((?:Key|Feature): .+)")
_RECORDS_PER_SCAN = 1024
_LIMITS = {
    "input_ids": "the model's vocab_size",
    "masked_lm_ids": "the model's vocab_size",
    "masked_lm_positions": "--max_seq_length",
    "segment_ids": "the model's type_vocab_size",
}


class Masking(Protocol):
    """The masks of records that are stored without."""

    def identity(self) -> list[object]:
        """Returns the settings of the masks, as JSON."""

    def apply(
        self, batch: Mapping[str, "tf.Tensor"], seeds: "tf.Tensor"
    ) -> dict[str, "tf.Tensor"]:
        """Masks the records of a batch, each by its own seed.

        Args:
            batch: `[B, ...]` for each stored feature.
            seeds: `[B, 2]` int64.
        """


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordSource:
    """Records of sequences, and the parser of their batches.

    Attributes:
        files: the record files, in order.
        features: the features of each record.
        vocab_size: token ids must be below it.
        type_vocab_size: segment ids must be below it; None: not checked.
        masking: masks unmasked records when they are read.
        origin: the sidecar of the first file, if it has one.
    """

    files: tfrecords.RecordFiles
    features: Sequence[schema.Feature]
    vocab_size: int
    type_vocab_size: int | None = None
    masking: Masking | None = None
    origin: sidecars.Metadata | None = None

    def identity(self) -> dict[str, object]:
        """Identifies the records of a run, as JSON."""
        return {
            "num_records": len(self.files),
            "records_fingerprint": self.files.fingerprint(),
            "masking": self.masking.identity() if self.masking else None,
        }

    def read(
        self, indices: Sequence[int] | np.ndarray
    ) -> dict[str, np.ndarray]:
        """Reads a batch of `[B]` records, masked as in an evaluation.

        Raises:
            ValueError: a record does not fit; names it.
        """
        import tensorflow as tf

        seeds = evaluation_seeds(np.asarray(indices))
        # Otherwise a GPU would receive each feature and send it back.
        with errors(), tf.device("CPU:0"):
            batch = self.parse(
                tf.constant(self.files.read(indices)),
                tf.constant(self.files.names(indices)),
                tf.constant(seeds),
            )
            return {name: value.numpy() for name, value in batch.items()}

    def limits(self) -> dict[str, int]:
        """Returns the number of values that each kind of id may have."""
        shapes = {feature.name: feature.shape for feature in self.features}
        limits = {
            "input_ids": self.vocab_size,
            "segment_ids": self.type_vocab_size,
            "masked_lm_positions": shapes["input_ids"][-1],
            "masked_lm_ids": self.vocab_size,
            "next_sentence_labels": 2,
        }
        return {name: limit for name, limit in limits.items() if limit}

    def parse(
        self,
        serialized: "tf.Tensor",
        names: "tf.Tensor",
        seeds: "tf.Tensor | None" = None,
    ) -> dict[str, "tf.Tensor"]:
        """Parses `[B]` records to a batch of tensors.

        Args:
            serialized: the records.
            names: of the records, for error messages.
            seeds: `[B, 2]` int64, the seeds of the masks of each record; may be
                None without `masking`.
        """
        batch = parse(serialized, self.features, names)
        check_batch(batch, self.limits(), names)
        if self.masking is not None:
            batch = self.masking.apply(batch, seeds)
        return batch

    @property
    def sequence_length(self) -> int:
        """T, the length of each stored sequence."""
        (feature,) = (f for f in self.features if f.name == "input_mask")
        return feature.shape[-1]

    @functools.cached_property
    def sequence_lengths(self) -> np.ndarray:
        """The tokens of each sequence of all records: `[N]` or `[N, C]` int64.

        They are read once.
        """
        return self.sequence_lengths_of(np.arange(len(self.files)))

    def sequence_lengths_of(self, indices: np.ndarray) -> np.ndarray:
        """Counts the tokens of each sequence of `[n]` records."""
        return np.concatenate(
            [
                mask.sum(axis=-1, dtype=np.int64)
                for mask in self._scan("input_mask", indices)
            ]
        )

    def lengths(self) -> np.ndarray:
        """Counts the tokens of every record: `[N]` int64.

        For a record of several sequences it is the greatest count.
        """
        counts = self.sequence_lengths
        return counts.reshape(len(counts), -1).max(axis=1)

    def values(self, name: str) -> np.ndarray:
        """Reads a feature of all records: `[N, *shape]`."""
        return np.concatenate([*self._scan(name, np.arange(len(self.files)))])

    def _scan(self, name: str, indices: np.ndarray) -> Iterator[np.ndarray]:
        import tensorflow as tf

        (feature,) = (f for f in self.features if f.name == name)
        for start in range(0, len(indices), _RECORDS_PER_SCAN):
            chosen = indices[start : start + _RECORDS_PER_SCAN]
            with errors(), tf.device("CPU:0"):
                parsed = parse(
                    tf.constant(self.files.read(chosen)),
                    [feature],
                    tf.constant(self.files.names(chosen)),
                )
            yield parsed[name].numpy()


def parse(
    serialized: "tf.Tensor",
    features: Sequence[schema.Feature],
    names: "tf.Tensor | None" = None,
) -> dict[str, "tf.Tensor"]:
    """Parses a batch of records.

    Args:
        serialized: `[B]` string.
        features: the features of each record.
        names: `[B]` string, of the records, for error messages.

    Returns:
        For each feature its name and a `[B, *shape]` tensor: int32 for "int64"
        (as the release casts them), else float32.

    Raises:
        tf.errors.InvalidArgumentError: a record lacks a feature, or its number
            of values differs.
    """
    import tensorflow as tf

    parsed = tf.io.parse_example(
        serialized,
        {
            feature.stored_name or feature.name: tf.io.FixedLenFeature(
                feature.shape, feature.stored_dtype or feature.dtype
            )
            for feature in features
        },
        example_names=names,
    )
    return {
        feature.name: tf.cast(
            parsed[feature.stored_name or feature.name],
            tf.int32 if feature.dtype == "int64" else tf.float32,
        )
        for feature in features
    }


def check_batch(
    batch: Mapping[str, "tf.Tensor"],
    limits: Mapping[str, int],
    names: "tf.Tensor",
) -> None:
    """Checks the ids of a batch of tensors when it is read; see `check_ids`.

    Args:
        batch: for each feature `[B, ...]`.
        limits: for features of ids the number that they must be below.
        names: `[B]` string, of the records.
    """
    import tensorflow as tf

    present = [name for name in limits if name in batch]

    def check(names: np.ndarray, *ids: np.ndarray) -> None:
        check_ids(
            dict(zip(present, ids, strict=True)),
            limits,
            [name.decode() for name in names],
        )

    tf.numpy_function(check, [names, *(batch[n] for n in present)], [])


def check_ids(
    batch: Mapping[str, np.ndarray],
    limits: Mapping[str, int],
    names: Sequence[str],
) -> None:
    """Checks the ids of a batch.

    On a GPU the embedding of an id out of range is silently zero.

    Args:
        batch: for each feature `[B, ...]`.
        limits: for features of ids the number that they must be below.
        names: `[B]`, of the records.

    Raises:
        ValueError: an id is out of range; names the first such record.
    """
    for feature, limit in limits.items():
        if feature not in batch:
            continue
        ids = batch[feature]
        is_wrong = (ids < 0) | (ids >= limit)
        if not is_wrong.any():
            continue
        row = int(np.flatnonzero(is_wrong.reshape(len(ids), -1).any(axis=1))[0])
        reason = f" ({_LIMITS[feature]})" if feature in _LIMITS else ""
        raise misfit(
            names[row],
            f"{feature} must be at least 0 and less than {limit}{reason}; "
            f"got {messages.listed(ids[row][is_wrong[row]].tolist())}.",
        )


def misfit(name: str, problem: str) -> ValueError:
    """Returns the error of a record that does not fit a run."""
    return ValueError(f"{name} does not fit this run: {problem}")


def evaluation_seeds(indices: np.ndarray) -> np.ndarray:
    """Returns the seeds, `[B, 2]`, of records `[B]` in every evaluation.

    Their second number is negative; in training it is not. So they differ.
    """
    return row_seeds(0, -1 - indices)


def row_seeds(seed: int, numbers: np.ndarray) -> np.ndarray:
    """Returns the seeds, `[B, 2]` int64, of numbered rows `[B]`."""
    first = np.full(len(numbers), seed & 0x7FFFFFFFFFFFFFFF, np.int64)
    return np.stack([first, numbers], axis=1)


@contextlib.contextmanager
def errors() -> Iterator[None]:
    """Replaces the error of TensorFlow for a record that cannot be read.

    Raises:
        ValueError: with the message of `tfrecords` or `check_ids` alone; or the
            name of a record that does not fit, and the reason.
    """
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        if damage := _OF_PYTHON.search(error.message):
            raise ValueError(damage[1]) from error
        if misfit := _OF_RECORD.search(error.message):
            name, problem = misfit.groups()
            raise ValueError(
                f"{name} does not fit this run: {problem}."
            ) from error
        raise
