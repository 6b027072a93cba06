"""Record schemas: features, writing and parsing.

A record is a `tf.train.Example`. Its features have a fixed shape and the names
and types of the original, so that either program reads the other's files.

Importing this module does not import TensorFlow.
"""

import dataclasses
import itertools
import typing
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from bert.records import record_files
from bert.tasks import task

if typing.TYPE_CHECKING:
    import tensorflow as tf

# The names of the encoder's inputs, `[T]` or `[C, T]` each.
SEQUENCES = ("input_ids", "input_mask", "segment_ids")
_EXAMPLES_PER_BATCH = 256
_RECORDS_PER_SCAN = 1024


@dataclasses.dataclass(frozen=True, kw_only=True)
class Feature:
    """A named array of a record.

    Attributes:
        name: the key in the record.
        shape: its shape in one record, without the batch axis.
        dtype: "int64" or "float32".
        stored_name: the key in records of another program; None: `name`.
        stored_dtype: "int64" for whole numbers that another program stored for
            "float32"; None: `dtype`.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "int64"
    stored_name: str | None = None
    stored_dtype: str | None = None


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


def labeled_features(
    max_seq_length: int,
    problem_type: str = task.SINGLE_LABEL,
    num_outputs: int = 1,
) -> tuple[Feature, ...]:
    """Returns the features of texts, or pairs, with labels.

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
    )


def classification_features(
    max_seq_length: int,
    problem_type: str = task.SINGLE_LABEL,
    num_outputs: int = 1,
) -> tuple[Feature, ...]:
    """Returns the features of run_classifier.py.

    Source: run_classifier.py of the release, for one class per text.

    Args: as for `labeled_features`.
    """
    return (
        *labeled_features(max_seq_length, problem_type, num_outputs),
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
    examples: Iterable[task.Record],
    features: Sequence[Feature],
) -> None:
    """Writes examples to a TFRecord file.

    The file appears under its name once it is complete; a few hundred examples
    are kept in memory.
    """
    record_files.write_batches([path], _batches(examples, features))


def _batches(
    examples: Iterable[task.Record], features: Sequence[Feature]
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
    serialized: "tf.Tensor",
    features: Sequence[Feature],
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
    import tensorflow as tf  # Late: writing records does not need it.

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


def scan(
    files: record_files.RecordFiles,
    features: Sequence[Feature],
    indices: np.ndarray | None = None,
) -> Iterator[dict[str, np.ndarray]]:
    """Yields features of records in batches.

    Args:
        files: the record files.
        features: the features to read.
        indices: the records; None for all, in file order.

    Yields:
        For each feature its name and a `[B, *shape]` array; B differs.
    """
    import tensorflow as tf

    if indices is None:
        indices = np.arange(len(files))
    for start in range(0, len(indices), _RECORDS_PER_SCAN):
        chosen = indices[start : start + _RECORDS_PER_SCAN]
        # Otherwise a GPU would receive each feature and send it back.
        with tf.device("CPU:0"):
            parsed = parse(
                tf.constant(files.read(chosen)),
                features,
                tf.constant(files.names(chosen)),
            )
        yield {name: value.numpy() for name, value in parsed.items()}
