"""Pre-training: records, baselines and plan of a run."""

import math
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from absl import logging

from files import lines, paths, run_files
from modeling import config as config_lib
from training import flags as training_flags
from training import (
    initialization,
    input_pipeline,
    model_folder,
    sidecars,
)

# Patterns of the variables of the heads, which many published encoders lack.
_HEADS = ("cls/predictions/.*", "cls/seq_relationship/.*")
# Samples of records: in blocks, since remote storage reads sequentially.
_NUM_BLOCKS = 40
_RECORDS_PER_BLOCK = 256


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
    made_with = sidecars.read_metadata(record_file)
    if made_with is not None:
        description["vocab_sha256"] = made_with.vocab_sha256
        description["do_lower_case"] = made_with.do_lower_case
        given = made_with.strip_accents
        description["strip_accents"] = (
            made_with.do_lower_case if given is None else given
        )
    vocab_file, problem = _vocab_file(made_with)
    model_folder.describe(
        options.output_dir,
        config.to_dict(),
        description,
        vocab_file,
        is_training=options.do_train,
        start=options.init_checkpoint,
    )
    target = os.path.join(options.output_dir, run_files.VOCABULARY)
    if problem and options.do_train and not paths.exists(target):
        logging.warning(
            "%s has no vocabulary, because %s. Copy the vocabulary to %s: the "
            "programs that use this model need it.",
            options.output_dir,
            problem,
            target,
        )


def _vocab_file(made_with: sidecars.Metadata | None) -> tuple[str | None, str]:
    """Returns the vocabulary of records; or None and the reason."""
    path = made_with.flags.get("vocab_file") if made_with else None
    if made_with is None or path is None:
        return None, "no .meta.json file of the records names it"
    if not paths.exists(path):
        return None, f"that of the records, {path}, does not exist"
    tokens = dict.fromkeys(map(str.strip, lines.read_lines(path)))
    if sidecars.vocab_sha256(tokens) != made_with.vocab_sha256:
        return None, f"{path} is no longer that of the records"
    return path, ""


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
    masked_ids, random_next = [], []
    for start in range(0, len(sample), _RECORDS_PER_BLOCK):
        batch = source.read(sample[start : start + _RECORDS_PER_BLOCK])
        masked_ids.append(
            batch["masked_lm_ids"][batch["masked_lm_weights"] > 0]
        )
        random_next.append(batch.get("next_sentence_labels", ()))
    _, counts = np.unique(np.concatenate(masked_ids), return_counts=True)
    logging.info(
        "Baselines: masked-LM loss %.2f (uniform guess), %.2f (word-piece "
        "frequencies)%s.",
        math.log(source.vocab_size),
        entropy(counts),
        _majority(np.concatenate(random_next)),
    )


def _majority(random_next: np.ndarray) -> str:
    if not len(random_next):
        return ""
    share = random_next.mean()
    return (
        "; next-sentence accuracy "
        f"{100 * max(share, 1 - share):.1f}% (majority class)"
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
