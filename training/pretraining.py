"""Pre-training: records, baselines and plan of a run."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from files import messages, paths
from modeling import config as config_lib
from training import (
    dynamic_masking,
    initialization,
    input_pipeline,
    model_folder,
    record_files,
    records,
    sidecars,
)
from training import flags as training_flags

# Patterns of the variables of the heads, which many published encoders lack.
_HEADS = ("cls/predictions/.*", "cls/seq_relationship/.*")
# Samples of records: in blocks, since remote storage reads sequentially.
_NUM_BLOCKS = 40
_RECORDS_PER_BLOCK = 256


def open_records(
    options: training_flags.PretrainingOptions, config: config_lib.BertConfig
) -> tuple[input_pipeline.RecordSource, input_pipeline.RecordSource]:
    """Opens the records of training and evaluation.

    Returns:
        The training records and the held-out records; without
        `--eval_input_file` they are the same.

    Raises:
        OSError: a file cannot be opened.
        ValueError: the records do not fit the flags, the model or each other.
    """
    sources = []
    hashes: dict[str, str] = {}
    for patterns in filter(None, (options.input_file, options.eval_input_file)):
        files = record_files.RecordFiles(paths.expand(patterns))
        logging.info(
            "%s records in %d file(s)", f"{len(files):,}", len(files.paths)
        )
        metadata_of_files = {
            path: sidecars.read_metadata(path) for path in files.paths
        }
        for path, metadata in metadata_of_files.items():
            if metadata is not None:
                _check_sidecar(path, metadata, options, config.vocab_size)
                hashes.setdefault(metadata.vocab_sha256, path)
        sources.append(
            _source(files, metadata_of_files, options, config.vocab_size)
        )
    if len(hashes) > 1:
        raise ValueError(
            "All records must be created with the same vocabulary; these "
            "differ: " + ", ".join(hashes.values())
        )
    return sources[0], sources[-1]


def _check_sidecar(
    path: str,
    metadata: sidecars.Metadata,
    options: training_flags.PretrainingOptions,
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
    files: record_files.RecordFiles,
    metadata_of_files: Mapping[str, sidecars.Metadata | None],
    options: training_flags.PretrainingOptions,
    vocab_size: int,
) -> input_pipeline.RecordSource:
    masking = dynamic_masking.of_sidecars(metadata_of_files)
    if masking is None:
        features = records.pretraining_features(
            options.max_seq_length, options.max_predictions_per_seq
        )
    else:
        logging.info("Dynamic masking: each example gets new masks each time.")
        features = records.unmasked_features(
            options.max_seq_length,
            do_whole_word_mask=masking.options.do_whole_word_mask,
        )
    source = input_pipeline.RecordSource(
        files=files,
        features=features,
        vocab_size=vocab_size,
        masking=masking,
    )
    try:
        source.parse(tf.constant(files.read([0])), tf.zeros([1, 2], tf.int64))
    except tf.errors.InvalidArgumentError as error:
        # Files without a sidecar are not checked before.
        raise ValueError(
            f"{files.name(0)} does not fit this run: "
            f"{messages.truncate(error.message)} Check --max_seq_length, "
            "--max_predictions_per_seq and the model's vocab_size. Records of "
            "--dynamic_masking need their .meta.json file."
        ) from error
    return source


def describe(
    options: training_flags.PretrainingOptions,
    config: config_lib.BertConfig,
    record_file: str,
) -> None:
    """Describes the model in its folder; see `model_folder.describe`.

    Args:
        options: the flags of the run.
        config: of the model.
        record_file: its sidecar has the vocabulary and the casing.

    Raises:
        ValueError: the folder has a checkpoint of another model, or the
            records do not fit `init_checkpoint`.
    """
    description: dict[str, Any] = {
        "task": model_folder.PRETRAINING,
        "objective": options.objective,
        "attention": training_flags.ATTENTIONS[options.is_causal],
        "max_seq_length": options.max_seq_length,
        "max_predictions_per_seq": options.max_predictions_per_seq,
    }
    vocab_file = None
    made_with = sidecars.read_metadata(record_file)
    if made_with is not None:
        description["vocab_sha256"] = made_with.vocab_sha256
        description["do_lower_case"] = made_with.do_lower_case
        given = made_with.strip_accents
        description["strip_accents"] = (
            made_with.do_lower_case if given is None else given
        )
        named = made_with.flags.get("vocab_file", "")
        if paths.exists(named) and (
            paths.sha256(named) == made_with.vocab_sha256
        ):
            vocab_file = named
    model_folder.describe(
        options.output_dir,
        config.to_dict(),
        description,
        vocab_file,
        is_training=options.do_train,
        start=options.init_checkpoint,
    )


def plan(
    options: training_flags.PretrainingOptions,
    source: input_pipeline.RecordSource,
    evaluate: Callable[[], Mapping[str, float]],
) -> initialization.Plan:
    """Returns the settings of a run that its flags and records determine."""
    masking = source.masking.identity() if source.masking else None
    return initialization.Plan(
        num_train_steps=options.num_train_steps,
        num_warmup_steps=options.num_warmup_steps,
        stop_at_step=options.stop_at_step,
        data={
            "num_records": len(source.files),
            "records_fingerprint": source.files.fingerprint(),
            "masking": masking,
        },
        new_variables=_HEADS,
        evaluate=evaluate,
        eval_every_steps=options.eval_every_steps,
        best_metric="loss",
        higher_is_better=False,
    )


def _sample(source: input_pipeline.RecordSource) -> np.ndarray:
    """Samples up to 10,240 records, in blocks spread over the files."""
    total = len(source.files)
    starts = np.linspace(
        0, max(total - _RECORDS_PER_BLOCK, 0), _NUM_BLOCKS, dtype=int
    )
    # With few records the blocks overlap; each record counts once.
    sample = np.unique(starts[:, np.newaxis] + np.arange(_RECORDS_PER_BLOCK))
    return sample[sample < total]


def log_baselines(source: input_pipeline.RecordSource) -> None:
    """Logs the losses of models that do not read the text, from a sample."""
    sample = _sample(source)
    masked_ids, num_random = [], 0
    for start in range(0, len(sample), _RECORDS_PER_BLOCK):
        places = sample[start : start + _RECORDS_PER_BLOCK]
        batch = source.parse(
            tf.constant(source.files.read(places)),
            tf.constant(input_pipeline.evaluation_seeds(places)),
        )
        is_masked = batch["masked_lm_weights"].numpy() > 0
        masked_ids.append(batch["masked_lm_ids"].numpy()[is_masked])
        num_random += int(batch["next_sentence_labels"].numpy().sum())
    _, counts = np.unique(np.concatenate(masked_ids), return_counts=True)
    share = num_random / len(sample)
    logging.info(
        "Baselines: masked-LM loss %.2f (uniform guess), %.2f (word-piece "
        "frequencies); next-sentence accuracy %.1f%% (majority class).",
        math.log(source.vocab_size),
        entropy(counts),
        100 * max(share, 1 - share),
    )


def entropy(counts: np.ndarray) -> float:
    """Estimates an entropy in nats, with the correction of Miller (1955).

    Args:
        counts: `[V]` integers, the number of times each value was drawn.
    """
    counts = counts[counts > 0]
    if not len(counts):
        return 0.0
    shares = counts / counts.sum()
    plain = -float(np.sum(shares * np.log(shares)))
    return plain + (len(counts) - 1) / (2 * float(counts.sum()))
