"""Are these the records that the flags and the model expect?

Asked before the first step, since the wrong length or vocabulary otherwise
shows as an error deep in the input pipeline, or as nonsense learnt in silence.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from training import record_files, records

# Records looked at in files that have no sidecar: in all of them together, and
# in each of very many.
_SAMPLED_RECORDS = 1000
_SAMPLED_RECORDS_PER_FILE = 10


def check_pretraining_records(
    files: record_files.RecordFiles,
    *,
    max_seq_length: int,
    max_predictions_per_seq: int,
    vocab_size: int,
) -> None:
    """Compares pre-training records with the flags and the model.

    By the sidecars that create_pretraining_data writes; records without one
    are looked into.

    Raises:
        ValueError: the lengths differ, or the records use a larger vocabulary
            than the model has, or files were made with different ones.
    """
    lengths = {
        "max_seq_length": max_seq_length,
        "max_predictions_per_seq": max_predictions_per_seq,
    }
    hashes = {}
    for number, path in enumerate(files.paths):
        metadata = records.read_metadata(path)
        if metadata is None:
            _check_sample(files, number, lengths, vocab_size)
            continue
        if metadata.kind != "pretraining":
            raise ValueError(
                f"{path} must hold pre-training records; it holds those of "
                f"{metadata.kind!r}."
            )
        made_with = {name: getattr(metadata, name) for name in lengths}
        _check_lengths(path, made_with, lengths)
        _check_vocabulary(path, metadata.vocab_size, vocab_size)
        hashes.setdefault(metadata.vocab_sha256, path)
    if len(hashes) > 1:
        raise ValueError(
            "All records must be made with one vocabulary; these were not: "
            + ", ".join(hashes.values())
        )


def _check_lengths(
    path: str, made_with: Mapping[str, int], lengths: Mapping[str, int]
) -> None:
    for name, length in lengths.items():
        if made_with[name] != length:
            raise ValueError(
                f"{path} was made with --{name}={made_with[name]}, but this "
                f"run has --{name}={length}. Pass the same, or create the "
                "records again."
            )


def _check_vocabulary(path: str, made_with: int, vocab_size: int) -> None:
    if made_with > vocab_size:
        raise ValueError(
            f"{path} was made with a vocabulary of {made_with} entries, but "
            f"the model's vocab_size is {vocab_size}. Use the vocabulary that "
            "belongs to this configuration, or a configuration whose "
            "vocab_size is that of the vocabulary."
        )
    if made_with < vocab_size:
        logging.warning(
            "%s was made with a vocabulary of %d entries; the model's "
            "vocab_size is %d. The last %d rows of its word embeddings will "
            "not be used.",
            path,
            made_with,
            vocab_size,
            vocab_size - made_with,
        )


def _check_sample(
    files: record_files.RecordFiles,
    number: int,
    lengths: Mapping[str, int],
    vocab_size: int,
) -> None:
    """Looks into records spread over a file that has no sidecar."""
    path, count = files.paths[number], files.counts()[number]
    if not count:
        return
    first = sum(files.counts()[:number])
    share = max(_SAMPLED_RECORDS // len(files.paths), _SAMPLED_RECORDS_PER_FILE)
    spread = np.unique(np.linspace(0, count - 1, share, dtype=int))
    examples = [
        _parse(path, place, record)
        for place, record in zip(
            spread, files.read(first + spread), strict=True
        )
    ]
    for place, example in zip(spread, examples, strict=True):
        made_with = {
            "max_seq_length": len(_ints(example, "input_ids")),
            "max_predictions_per_seq": len(_ints(example, "masked_lm_ids")),
        }
        _check_lengths(f"{path}, record {place}", made_with, lengths)
    largest = max(
        max(_ints(example, name), default=0)
        for example in examples
        for name in ("input_ids", "masked_lm_ids")
    )
    if largest >= vocab_size:
        raise ValueError(
            f"{path} holds the word id {largest}, but the model's vocab_size "
            f"is {vocab_size}. Use the vocabulary that belongs to this "
            "configuration."
        )


def _parse(path: str, place: int, record: bytes) -> tf.train.Example:
    from google.protobuf import message

    example = tf.train.Example()
    try:
        example.ParseFromString(record)
    except message.DecodeError as error:
        raise ValueError(
            f"{path}, record {place}: not a tf.train.Example."
        ) from error
    missing = {"input_ids", "masked_lm_ids", "next_sentence_labels"} - set(
        example.features.feature
    )
    if missing:
        raise ValueError(
            f"{path}, record {place}: not a pre-training record; it lacks "
            f"{', '.join(sorted(missing))} and has "
            f"{', '.join(sorted(example.features.feature))}."
        )
    return example


def _ints(example: tf.train.Example, name: str) -> Sequence[int]:
    return example.features.feature[name].int64_list.value
