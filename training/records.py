"""Records: schemas, writing, parsing, sidecars and shards.

A record is a `tf.train.Example`. Its features have a fixed shape and the names
and types of the release, so that either program reads the other's files. The
sidecar of each record file (`NAME.meta.json`) describes how it was created.

Importing this module does not import TensorFlow.
"""

import dataclasses
import glob
import hashlib
import itertools
import json
import os
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from files import json_text, messages, paths, writing
from tasks import task
from training import record_files

if typing.TYPE_CHECKING:
    import tensorflow as tf

# The names of the encoder's inputs, `[T]` or `[C, T]` each.
SEQUENCES = ("input_ids", "input_mask", "segment_ids")
_EXAMPLES_PER_BATCH = 256
_RECORDS_PER_SCAN = 1024
# The key of a sidecar's `flags` for the number of records of each example.
ROWS_PER_EXAMPLE = "rows_per_example"
# The key of a sidecar's `flags` for the id of [MASK] of unmasked records.
MASK_ID = "mask_id"
_SHARD = "-%05d"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Feature:
    """A named array of a record.

    Attributes:
        name: the key in the record.
        shape: its shape in one record, without the batch axis.
        dtype: "int64" or "float32", as stored.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "int64"


def _sequence_features(shape: tuple[int, ...]) -> tuple[Feature, ...]:
    return tuple(Feature(name=name, shape=shape) for name in SEQUENCES)


def pretraining_features(
    max_seq_length: int, max_predictions_per_seq: int
) -> tuple[Feature, ...]:
    """Returns the features of masked sentence pairs.

    Source: create_pretraining_data.py and run_pretraining.py of the release.
    """
    predictions = (max_predictions_per_seq,)
    return (
        *_sequence_features((max_seq_length,)),
        Feature(name="masked_lm_positions", shape=predictions),
        Feature(name="masked_lm_ids", shape=predictions),
        Feature(name="masked_lm_weights", shape=predictions, dtype="float32"),
        Feature(name="next_sentence_labels", shape=(1,)),
    )


def unmasked_features(
    max_seq_length: int, *, do_whole_word_mask: bool
) -> tuple[Feature, ...]:
    """Returns the features of sentence pairs for dynamic masking.

    `word_starts` is 0 for a token that continues a word.
    """
    sequence = (max_seq_length,)
    words = (Feature(name="word_starts", shape=sequence),)
    return (
        *_sequence_features(sequence),
        *(words if do_whole_word_mask else ()),
        Feature(name="next_sentence_labels", shape=(1,)),
    )


def classification_features(
    max_seq_length: int,
    problem_type: str = task.SINGLE_LABEL,
    num_outputs: int = 1,
) -> tuple[Feature, ...]:
    """Returns the features of texts, or pairs, with labels.

    Source: run_classifier.py of the release, for one class per text.

    Args:
        max_seq_length: T, tokens of a record.
        problem_type: one of `task.PROBLEM_TYPES`.
        num_outputs: K, the width of the output layer.
    """
    num_labels = num_outputs if problem_type == task.MULTI_LABEL else 1
    dtype = "int64" if problem_type == task.SINGLE_LABEL else "float32"
    return (
        *_sequence_features((max_seq_length,)),
        Feature(name="label_ids", shape=(num_labels,), dtype=dtype),
        Feature(name="is_real_example", shape=(1,)),
    )


def choice_features(
    max_seq_length: int, num_choices: int
) -> tuple[Feature, ...]:
    """Returns the features of multiple choice: one sequence for each choice.

    Args:
        max_seq_length: T, tokens of a sequence.
        num_choices: C.
    """
    return (
        *_sequence_features((num_choices, max_seq_length)),
        Feature(name="label_ids", shape=(1,)),
    )


def squad_features(
    max_seq_length: int, *, is_training: bool
) -> tuple[Feature, ...]:
    """Returns the features of windows over paragraphs.

    Source: run_squad.py of the release.

    Args:
        max_seq_length: tokens of a window.
        is_training: whether the records hold the positions of the answer.
    """
    features = (
        Feature(name="unique_ids", shape=(1,)),
        *_sequence_features((max_seq_length,)),
    )
    if not is_training:
        return features
    return (
        *features,
        Feature(name="start_positions", shape=(1,)),
        Feature(name="end_positions", shape=(1,)),
        Feature(name="is_impossible", shape=(1,)),
    )


def tagging_features(max_seq_length: int) -> tuple[Feature, ...]:
    """Returns the features of windows with labeled words.

    `label_mask` is 1 at the first piece of each word labeled in this window.
    """
    sequence = (max_seq_length,)
    return (
        *_sequence_features(sequence),
        Feature(name="label_ids", shape=sequence),
        Feature(name="label_mask", shape=sequence),
    )


def write_records(
    path: str,
    examples: Iterable[Mapping[str, Any]],
    features: Sequence[Feature],
) -> None:
    """Writes examples to a TFRecord file.

    The file appears under its name once it is complete; a few hundred examples
    are kept in memory.
    """
    record_files.write_batches([path], _batches(examples, features))


def _batches(
    examples: Iterable[Mapping[str, Any]], features: Sequence[Feature]
) -> Iterator[dict[str, np.ndarray]]:
    remaining = iter(examples)
    while rows := list(itertools.islice(remaining, _EXAMPLES_PER_BATCH)):
        yield {
            feature.name: np.array(
                [row[feature.name] for row in rows], feature.dtype
            )
            for feature in features
        }


def parse(
    serialized: "tf.Tensor", features: Sequence[Feature]
) -> dict[str, "tf.Tensor"]:
    """Parses a batch of records.

    Args:
        serialized: `[B]` string.
        features: the features of each record.

    Returns:
        For each feature its name and a `[B, *shape]` tensor: int32 for "int64"
        (as the release casts them), else float32.

    Raises:
        tf.errors.InvalidArgumentError: a record lacks a feature, or its number
            of values differs.
    """
    import tensorflow as tf  # Late: writing records does not need it.

    parsed = tf.io.parse_example(
        serialized,
        {
            feature.name: tf.io.FixedLenFeature(feature.shape, feature.dtype)
            for feature in features
        },
    )
    return {
        name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
        for name, value in parsed.items()
    }


def scan(
    files: record_files.RecordFiles, features: Sequence[Feature]
) -> Iterator[dict[str, np.ndarray]]:
    """Yields features of all records in batches, in file order.

    Args:
        files: the record files.
        features: the features to read.

    Yields:
        For each feature its name and a `[B, *shape]` array; B differs.
    """
    import tensorflow as tf

    for start in range(0, len(files), _RECORDS_PER_SCAN):
        stop = min(start + _RECORDS_PER_SCAN, len(files))
        serialized = tf.constant(files.read(np.arange(start, stop)))
        parsed = parse(serialized, features)
        yield {name: value.numpy() for name, value in parsed.items()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Metadata:
    """The contents of a sidecar: the origin of a record file.

    Attributes:
        kind: the use of the records, e.g. "pretraining".
        max_seq_length: tokens per record.
        max_predictions_per_seq: masked tokens per record; None for other
            records.
        vocab_size: the size of the vocabulary: ids are below it.
        vocab_sha256: the `vocab_sha256` of the vocabulary.
        do_lower_case: whether text was lower-cased.
        strip_accents: whether accents were removed; None: as `do_lower_case`.
        num_records: the records of this file.
        text_sha256: hash of their text; None if not known.
        flags: the flags of the program that created the file, as JSON values.
    """

    kind: str
    max_seq_length: int
    max_predictions_per_seq: int | None = None
    vocab_size: int
    vocab_sha256: str
    do_lower_case: bool
    strip_accents: bool | None = None
    num_records: int
    text_sha256: str | None = None
    flags: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def vocab_sha256(tokens: Iterable[str]) -> str:
    """Hashes a vocabulary: its tokens in order, each followed by a line feed.

    For a vocabulary file without repeated lines this is its SHA-256.
    """
    digest = hashlib.sha256()
    for token in tokens:
        digest.update(token.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def metadata_path(record_path: str) -> str:
    """Returns the path of the sidecar of a record file."""
    return record_path + paths.SIDECAR_ENDING


def write_metadata(record_path: str, metadata: Metadata) -> None:
    """Writes the sidecar of a record file."""
    values = dataclasses.asdict(metadata)
    writing.write_json(metadata_path(record_path), values)


def remove_metadata(record_path: str) -> None:
    """Removes the sidecar of a record file before the file is replaced.

    A sidecar must never describe an earlier version of its record file.
    """
    paths.remove(metadata_path(record_path))


def read_metadata(record_path: str) -> Metadata | None:
    """Reads the sidecar of a record file.

    Returns:
        None if there is no sidecar: another program created the records.

    Raises:
        ValueError: the sidecar is not JSON, or has other names.
    """
    path = metadata_path(record_path)
    if not paths.exists(path):
        return None
    try:
        return Metadata(**json_text.read_object(path))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{path} does not describe records "
            f"({messages.short(str(error))}). Create the records again, or "
            "delete this file to use them without its checks."
        ) from error


def is_same_data(held: Metadata, wanted: Metadata) -> bool:
    """Returns whether two sidecars describe records of the same data.

    All values must be equal except the numbers of records, which are known only
    after all records are created.
    """

    def comparable(metadata: Metadata) -> dict[str, Any]:
        values = dataclasses.asdict(metadata)
        del values["num_records"]
        values["flags"].pop(ROWS_PER_EXAMPLE, None)
        return json.loads(json.dumps(values))

    return comparable(held) == comparable(wanted)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingRecords:
    """The record files of the shards of pre-training data.

    A shard is complete when all its files and their sidecars exist; sidecars
    are written last. Files are written atomically, so that an interrupted run
    leaves no partial file under its final name.

    Attributes:
        record_paths: the files; records are distributed over them in turn.
        made_with: the contents of their sidecars, with flags as JSON values
            and the `random_seed` of shard 0.
        is_sharded: whether each name includes the number of the shard.
    """

    record_paths: tuple[str, ...]
    made_with: Metadata
    is_sharded: bool = False

    def paths_of(self, shard: int) -> list[str]:
        """Returns the files of a shard: `a.b` -> `a-00003.b` if sharded."""
        if not self.is_sharded:
            return list(self.record_paths)
        return [
            f"{stem}{_SHARD % shard}{ending}"
            for stem, ending in map(os.path.splitext, self.record_paths)
        ]

    def outputs(self) -> list[str]:
        """Lists the output files that are known in advance.

        The number of shards is not known: those of the first shard and all
        numbered files that exist are listed.
        """
        records_of = self.paths_of(0)
        for stem, ending in map(os.path.splitext, self.record_paths):
            if self.is_sharded and not paths.is_remote(stem):
                pattern = glob.escape(stem) + "-" + "[0-9]" * 5 + ending
                records_of += sorted({*glob.glob(pattern)} - {*records_of})
        sidecars = [
            metadata_path(path)
            for path in records_of
            if not paths.is_stream(path)
        ]
        return records_of + sidecars

    def remove(self, shard: int) -> None:
        """Removes the files of a shard whose text has no sentence any more."""
        for path in self.paths_of(shard) if self.is_sharded else ():
            paths.remove(metadata_path(path))
            paths.remove(path)

    def holds(self, shard: int, text_sha256: str) -> bool:
        """Returns whether this shard was already created from this text."""
        wanted = self._metadata(shard, text_sha256, 0)
        names = self.paths_of(shard)
        try:
            return all(
                paths.exists(path)
                and (held := read_metadata(path)) is not None
                and is_same_data(held, wanted)
                for path in names
            )
        except ValueError as error:
            logging.warning("Creating shard %d again: %s", shard, error)
            return False

    def write(
        self,
        shard: int,
        batches: Iterable[Mapping[str, np.ndarray]],
        text_sha256: str,
    ) -> dict[str, int]:
        """Writes the records of a shard.

        Args:
            shard: its number.
            batches: for each feature `[B, ...]`.
            text_sha256: hash of their text.

        Returns:
            The number of records in each file.
        """
        names = self.paths_of(shard)
        for path in names:
            remove_metadata(path)
        counts = record_files.write_batches(names, batches)
        for path, count in zip(names, counts, strict=True):
            if paths.is_stream(path):
                continue
            write_metadata(path, self._metadata(shard, text_sha256, count))
        return dict(zip(names, counts, strict=True))

    def _metadata(
        self, shard: int, text_sha256: str, num_records: int
    ) -> Metadata:
        flags = dict(self.made_with.flags)
        if self.is_sharded:
            # With these flags the release creates this shard from its text.
            flags["shard"] = shard
            flags["random_seed"] += shard
        return dataclasses.replace(
            self.made_with,
            flags=flags,
            text_sha256=text_sha256,
            num_records=num_records,
        )
