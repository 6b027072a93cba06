"""Checks that pre-training records of any program fit a run, before it."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bert.files import messages
from bert.records import reading, schema, tfrecords

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


def check_files(
    files: tfrecords.RecordFiles,
    features: Sequence[schema.Feature],
    limits: Mapping[str, int],
) -> tuple[schema.Feature, ...]:
    """Checks the first record of each file, and the first records of all.

    Args:
        files: the record files.
        features: the features that a run reads.
        limits: see `reading.check_ids`.

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
            raise reading.misfit(name, f"{error}.") from error
        reading.check_ids(values, limits, [name])
        stored.setdefault(adapted, name)
    if len(stored) > 1:
        raise ValueError(
            "The files of a run must have features of the same names and "
            f"types; these differ: {', '.join(stored.values())}"
        )
    return next(iter(stored))


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
