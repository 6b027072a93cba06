"""The setup of pre-training, and the baselines of its losses."""

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from bert.files import paths, run_files
from bert.models import description as description_lib
from bert.models import folder as folder_lib
from bert.records import reading, sidecars
from bert.tasks import task as task_lib
from bert.tasks.pretraining import objective as pretraining_objective
from bert.training import (
    devices,
    input_pipeline,
    network,
    resuming,
    steps,
    workers,
)
from bert.training import options as training_options
from bert.training import setup as setup_lib
from modeling import config as config_lib
from modeling import heads

_Options = training_options.PretrainingOptions
_Objective = pretraining_objective.PretrainingObjective
# Samples of records: in blocks, since remote storage reads sequentially.
_NUM_BLOCKS = 40
_RECORDS_PER_BLOCK = 256


def setup(
    options: _Options,
    planned: folder_lib.PlannedModel,
    records: reading.RecordSource,
    held_out: reading.RecordSource,
) -> setup_lib.Setup[_Objective]:
    """Sets up the training of a masked language model.

    Args:
        options: the flags of the run.
        planned: the description and the sizes of the model.
        records: to train on.
        held_out: to evaluate on.

    Raises:
        ValueError: the batch size does not suit the number of devices.
    """
    strategy = devices.prepare(options)
    input_pipeline.check_batch_size(options, strategy.num_replicas_in_sync)

    def make_objective() -> _Objective:
        model = heads.BertForPreTraining(
            planned.config, objective=options.objective
        )
        return _Objective(model, options.objective)

    metric = None
    if options.eval_every_steps:
        metric = resuming.HeldOutMetric(
            name="loss",
            higher_is_better=False,
            held_out={
                "held_out_records": held_out.files.fingerprint(),
                "max_eval_steps": options.max_eval_steps,
                "eval_batch_size": options.eval_batch_size,
            },
        )
    return setup_lib.Setup(
        planned=planned,
        # Many published encoders lack the heads.
        new_variables=("cls/predictions/.*", "cls/seq_relationship/.*"),
        is_pretrained=False,
        network=network.Network(strategy, make_objective),
        records=records,
        row_length=options.max_seq_length,
        evaluation=HeldOutLosses(strategy, held_out, options),
        metric=metric,
        splits=(task_lib.EVAL,) if options.do_eval else (),
    )


class HeldOutLosses(setup_lib.Evaluation[_Objective]):
    """The losses and metrics of held-out records.

    Args:
        strategy: holds the variables.
        source: the records.
        options: the sizes of the evaluation, and whether to use XLA.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        source: reading.RecordSource,
        options: _Options,
    ):
        self._strategy, self._source = strategy, source
        self._options = options
        self._evaluator: steps.Evaluator | None = None

    def score(self, objective: _Objective) -> dict[str, float]:
        options = self._options
        if self._evaluator is None:
            self._evaluator = steps.Evaluator(
                self._strategy,
                objective,
                devices.execution_mode(self._strategy, options.jit_compile),
            )
        batches = input_pipeline.evaluation_batches(
            self._strategy,
            self._source,
            batch_size=options.eval_batch_size,
            num_batches=options.max_eval_steps,
        )
        return self._evaluator.average(batches)

    def write_results(
        self,
        objective: _Objective,
        output_dir: str,
        step: int,
        splits: Sequence[str],
        metrics: Mapping[str, float] | None,
    ) -> Mapping[str, float]:
        results = {
            **(metrics or self.score(objective)),
            "global_step": step,
        }
        if workers.is_chief():
            path = os.path.join(output_dir, "eval_results.txt")
            run_files.write_results(path, results)
        return results


def planned_model(
    options: _Options,
    config: config_lib.BertConfig,
    origin: sidecars.Metadata | None,
) -> folder_lib.PlannedModel:
    """Plans the model of a run.

    Args:
        options: the flags of the run.
        config: of the model.
        origin: of the records: their vocabulary and casing.
    """
    description = description_lib.Description(
        task=description_lib.PRETRAINING,
        objective=options.objective,
        attention=training_options.ATTENTIONS[options.is_causal],
        max_seq_length=options.max_seq_length,
        flags={"max_predictions_per_seq": options.max_predictions_per_seq},
    )
    if origin is not None:
        sha256, do_lower_case, strip_accents = origin.text_options
        description = dataclasses.replace(
            description,
            vocab_sha256=sha256,
            do_lower_case=do_lower_case,
            strip_accents=strip_accents,
        )
    vocab_file, problem = _vocab_file(origin)
    return folder_lib.PlannedModel(
        config=config,
        description=description,
        vocab_file=vocab_file,
        lacks_vocabulary=problem,
    )


def _vocab_file(origin: sidecars.Metadata | None) -> tuple[str | None, str]:
    """Returns the vocabulary of records; or None and the reason."""
    path = origin.flags.get("vocab_file") if origin else None
    if origin is None or path is None:
        return None, "no .meta.json file of the records names it"
    if not paths.exists(path):
        return None, f"that of the records, {path}, does not exist"
    if folder_lib.vocab_sha256(path) != origin.vocab_sha256:
        return None, f"{path} is no longer that of the records"
    return path, ""


def _sample(source: reading.RecordSource) -> np.ndarray:
    """Samples up to 10,240 records, in blocks spread over the files."""
    total = len(source.files)
    starts = np.linspace(
        0, max(total - _RECORDS_PER_BLOCK, 0), _NUM_BLOCKS, dtype=int
    )
    # The blocks of few records overlap; each record counts once.
    sample = np.unique(starts[:, np.newaxis] + np.arange(_RECORDS_PER_BLOCK))
    return sample[sample < total]


def log_baselines(source: reading.RecordSource) -> None:
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
