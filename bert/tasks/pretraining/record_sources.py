"""Records of a pre-training run, checked against its flags and its model."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol

from absl import logging

from bert.records import checks, reading, schema, sidecars, tfrecords
from bert.tasks.pretraining import dynamic_masking
from modeling import config as config_lib


class Options(Protocol):
    """The flags of a run that its records must fit."""

    @property
    def max_seq_length(self) -> int: ...
    @property
    def max_predictions_per_seq(self) -> int: ...
    @property
    def objective(self) -> str: ...


def open_records(
    training: Sequence[str],
    held_out: Sequence[str],
    options: Options,
    config: config_lib.BertConfig,
) -> tuple[reading.RecordSource, reading.RecordSource]:
    """Opens the records of training and evaluation, and checks the first ones.

    The others are checked when they are read.

    Args:
        training, held_out: the record files, which may be the same.
        options: the flags of the run.
        config: of the model.

    Returns:
        The training records and the held-out records.

    Raises:
        OSError: a file cannot be opened.
        ValueError: the records do not fit the flags, the model or each other.
    """
    sources = []
    texts: dict[tuple[object, ...], str] = {}
    for names in [training] if held_out == training else [training, held_out]:
        files = tfrecords.RecordFiles(names)
        logging.info(
            "%s records in %d file(s)", f"{len(files):,}", len(files.paths)
        )
        metadata_of_files = {
            path: sidecars.read_metadata(path) for path in files.paths
        }
        for path, metadata in metadata_of_files.items():
            if metadata is not None:
                _check_sidecar(path, metadata, options, config.vocab_size)
                texts.setdefault(metadata.text_options, path)
        sources.append(_source(files, metadata_of_files, options, config))
    if len(texts) > 1:
        raise ValueError(
            "All records must be created with the same vocabulary and casing; "
            "these differ: " + ", ".join(texts.values())
        )
    return sources[0], sources[-1]


def _check_sidecar(
    path: str,
    metadata: sidecars.Metadata,
    options: Options,
    vocab_size: int,
) -> None:
    """Checks that records fit the flags and the model."""
    if metadata.kind != "pretraining":
        raise ValueError(
            f"{path} must hold pre-training records; got records for "
            f"{metadata.kind!r}."
        )
    for name in ("max_seq_length", "max_predictions_per_seq"):
        made_with, length = getattr(metadata, name), getattr(options, name)
        if made_with != length:
            raise ValueError(
                f"{path} was created with --{name}={made_with}, but this "
                f"run has --{name}={length}. Pass the same value, or "
                "create the records again."
            )
    if metadata.vocab_size > vocab_size:
        raise ValueError(
            f"{path} was created with a vocabulary of "
            f"{metadata.vocab_size} entries, but the model's vocab_size "
            f"is {vocab_size}. Use the vocabulary that belongs to this "
            "configuration, or a configuration whose vocab_size is that "
            "of the vocabulary."
        )


def _source(
    files: tfrecords.RecordFiles,
    metadata_of_files: Mapping[str, sidecars.Metadata | None],
    options: Options,
    config: config_lib.BertConfig,
) -> reading.RecordSource:
    masking = dynamic_masking.of_sidecars(metadata_of_files)
    if masking is None:
        features = schema.pretraining_features(
            options.max_seq_length, options.max_predictions_per_seq
        )
    else:
        logging.info("Dynamic masking: each example gets new masks each time.")
        features = schema.unmasked_features(
            options.max_seq_length,
            do_whole_word_mask=masking.options.do_whole_word_mask,
        )
    source = reading.RecordSource(
        files=files,
        features=tuple(
            feature
            for feature in features
            if feature.name != "next_sentence_labels"
            or options.objective == "mlm_nsp"
        ),
        vocab_size=config.vocab_size,
        type_vocab_size=config.type_vocab_size,
        masking=masking,
        origin=metadata_of_files[files.paths[0]],
    )
    stored = checks.check_files(files, source.features, source.limits())
    return dataclasses.replace(source, features=stored)
