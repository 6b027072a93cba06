"""Checks that pre-training records of any program fit a run.

The first records are checked before a run, the ids of each batch when it is
read.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bert.files import messages
from bert.records import schema, tfrecords

if TYPE_CHECKING:
    import tensorflow as tf

# Source: create_pretraining_data.py of the TensorFlow Model Garden.
_MODEL_GARDEN_NAMES = {
    "input_ids": "input_word_ids",
    "segment_ids": "input_type_ids",
}
_MOST_CHECKED = 256
_DTYPES = {"int64_list": "int64", "float_list": "float32"}
_LENGTHS = {
    **dict.fromkeys((*schema.SEQUENCES, "word_starts"), "--max_seq_length"),
    **dict.fromkeys(
        ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"),
        "--max_predictions_per_seq",
    ),
}
_LIMITS = {
    "input_ids": "the model's vocab_size",
    "masked_lm_ids": "the model's vocab_size",
    "masked_lm_positions": "--max_seq_length",
    "segment_ids": "the model's type_vocab_size",
}


def check_files(
    files: tfrecords.RecordFiles,
    features: Sequence[schema.Feature],
    limits: Mapping[str, int],
) -> tuple[schema.Feature, ...]:
    """Checks the first record of each file, and the first records of all.

    Args:
        files: the record files.
        features: the features that a run reads.
        limits: see `check_ids`.

    Returns:
        The features, with the names and types by which the files store them.

    Raises:
        ValueError: a record does not fit, or two files store a feature
            differently; names them.
    """
    stored: dict[tuple[schema.Feature, ...], str] = {}
    some = range(min(len(files), _MOST_CHECKED))
    for index in np.union1d(files.first_records(), some).astype(int):
        (serialized,) = files.read([index])
        name = files.name(index)
        try:
            example = _example(serialized)
            adapted = _as_stored(example, features)
            values = {
                feature.name: _values(example, feature)[np.newaxis]
                for feature in adapted
            }
        except ValueError as error:
            raise _misfit(name, f"{error}.") from error
        check_ids(values, limits, [name])
        stored.setdefault(adapted, name)
    if len(stored) > 1:
        raise ValueError(
            "The files of a run must have features of the same names and "
            f"types; these differ: {', '.join(stored.values())}"
        )
    return next(iter(stored))


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
        raise _misfit(
            names[row],
            f"{feature} must be at least 0 and less than {limit}{reason}; "
            f"got {messages.listed(ids[row][is_wrong[row]].tolist())}.",
        )


def _misfit(name: str, problem: str) -> ValueError:
    return ValueError(f"{name} does not fit this run: {problem}")


def _example(serialized: bytes) -> "tf.train.Example":
    import tensorflow as tf
    from google.protobuf import message

    try:
        return tf.train.Example.FromString(serialized)
    except message.DecodeError as error:
        raise ValueError("it is not a tf.train.Example") from error


def _as_stored(
    example: "tf.train.Example", features: Sequence[schema.Feature]
) -> tuple[schema.Feature, ...]:
    """Returns the features with the names and types of a record."""
    dtypes = {
        name: _DTYPES.get(feature.WhichOneof("kind"), "bytes")
        for name, feature in example.features.feature.items()
    }
    adapted = []
    missing = []
    for feature in features:
        name = feature.name
        if name not in dtypes:
            name = _MODEL_GARDEN_NAMES.get(name, name)
        if name not in dtypes:
            missing.append(feature.name)
            continue
        # Whole numbers are also floats.
        if dtypes[name] not in (feature.dtype, "int64"):
            raise ValueError(
                f"{name} must be {feature.dtype}; got {dtypes[name]}"
            )
        adapted.append(
            dataclasses.replace(
                feature,
                stored_name=name if name != feature.name else None,
                stored_dtype=(
                    dtypes[name] if dtypes[name] != feature.dtype else None
                ),
            )
        )
    if missing:
        unmasked = (
            ". Records of --dynamic_masking need their .meta.json file"
            if "masked_lm_positions" in missing
            else ""
        )
        raise ValueError(
            f"it lacks {messages.names(missing)}. It has "
            f"{messages.names(sorted(dtypes), 20) or 'no features'}; needed "
            f"are {messages.names([f.name for f in features], 20)}{unmasked}"
        )
    return tuple(adapted)


def _values(example: "tf.train.Example", feature: schema.Feature) -> np.ndarray:
    name = feature.stored_name or feature.name
    stored = example.features.feature[name]
    is_float = stored.WhichOneof("kind") == "float_list"
    values = (stored.float_list if is_float else stored.int64_list).value
    expected = math.prod(feature.shape)
    if len(values) != expected:
        flag = _LENGTHS.get(feature.name)
        raise ValueError(
            f"{name} must have {expected} values"
            + (f" ({flag})" if flag else "")
            + f"; got {len(values)}"
        )
    return np.array(values).reshape(feature.shape)
