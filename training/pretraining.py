"""Pre-training: records, devices, training and evaluation of a run."""

import dataclasses
import json
import math
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from absl import logging

from files import json_text, paths, writing
from modeling import checkpoints, heads
from modeling import config as config_lib
from training import (
    checkpointing,
    dynamic_masking,
    initialization,
    input_pipeline,
    loop,
    model_files,
    model_folder,
    objectives,
    pretraining_records,
    record_files,
    record_order,
    records,
    sanity_checks,
    steps,
    workers,
)
from training import flags as training_flags
from training import phases as phases_lib

# Prefixes of the variables of the heads, which many published encoders lack.
_MLM_HEAD, _NSP_HEAD = "cls/predictions/", "cls/seq_relationship/"
# Source: Devlin et al. 2019, Table 6 ("LM (ppl)") and Figure 5.
CHECKPOINT_RESULTS_FILE = "eval_checkpoints.jsonl"
_LOSS, _PERPLEXITY = "masked_lm_loss", "masked_lm_perplexity"
_IDENTITY = (
    *("objective", "num_train_steps", "num_warmup_steps"),
    "max_predictions_per_seq",
)


def _open_records(
    options: training_flags.PretrainingOptions,
    names: Sequence[str],
    config: config_lib.BertConfig,
    all_sidecars: dict[str, records.Metadata | None],
) -> input_pipeline.RecordSource:
    """Opens record files and checks that they fit the flags and the model.

    The contents of their sidecars are added to `all_sidecars`.
    """
    files = record_files.RecordFiles(names)
    logging.info(
        "%s records in %d file(s): %s",
        f"{len(files):,}",
        len(files.paths),
        ", ".join(files.paths[:5]) + (", ..." if files.paths[5:] else ""),
    )
    sidecars = pretraining_records.check(
        files,
        max_seq_length=options.max_seq_length,
        max_predictions_per_seq=options.max_predictions_per_seq,
        vocab_size=config.vocab_size,
    )
    all_sidecars |= sidecars
    masking = dynamic_masking.of_sidecars(sidecars)
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
    return input_pipeline.RecordSource(
        files=files,
        features=features,
        vocab_size=config.vocab_size,
        masking=masking,
    )


def open_sources(
    phases: Sequence[phases_lib.Phase], config: config_lib.BertConfig
) -> tuple[list[input_pipeline.RecordSource], input_pipeline.RecordSource]:
    """Opens the records of training and evaluation.

    Returns:
        The training records of each phase, or this worker's share of them; and
        the held-out records, with the lengths of the last phase. Without
        `--eval_input_file` they are the training records of that phase.

    Raises:
        OSError: a file cannot be opened.
        ValueError: the records do not fit the flags, the model or each other.
    """
    sources = []
    sidecars: dict[str, records.Metadata | None] = {}
    for phase in phases:
        options, names = phase.options, phase.record_files
        if options.shard_input_files:
            names = workers.share_of(names, workers.cluster())
        sources.append(_open_records(options, names, config, sidecars))
    options, held_out = phases[-1].options, sources[-1]
    if options.eval_input_file or options.shard_input_files:
        names = phases[-1].record_files
        if options.eval_input_file:
            names = paths.expand(options.eval_input_file)
        held_out = _open_records(options, names, config, sidecars)
    pretraining_records.check_same_vocabulary(sidecars)
    _warn_of_casings(sidecars, options.init_checkpoint)
    return sources, held_out


def _warn_of_casings(
    sidecars: Mapping[str, records.Metadata | None], init_checkpoint: str | None
) -> None:
    """Warns if only a part of the text, or of the model's, was lower-cased."""
    casings: dict[bool, str] = {}
    for path, metadata in sidecars.items():
        if metadata is not None:
            casings.setdefault(metadata.do_lower_case, path)
    if init_checkpoint:
        found = model_files.casing(config_lib.folder_of(init_checkpoint))
        if found is not None:
            casings.setdefault(found.do_lower_case, init_checkpoint)
    if len(casings) > 1:
        logging.warning(
            "The text of %s was lower-cased, and that of %s was not. Records, "
            "held-out records and the model need the same casing "
            "(create_pretraining_data.py --do_lower_case).",
            *(casings[True], casings[False]),
        )


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
        "attention": model_folder.attention(is_causal=options.is_causal),
        "max_seq_length": options.max_seq_length,
        "max_predictions_per_seq": options.max_predictions_per_seq,
    }
    vocab_file = None
    made_with = records.read_metadata(record_file)
    if made_with is not None:
        description["vocab_sha256"] = made_with.vocab_sha256
        description["do_lower_case"] = made_with.do_lower_case
        description["strip_accents"] = made_with.do_lower_case
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
    )
    if options.init_checkpoint:
        model_folder.check_start(
            options.init_checkpoint, description, vocab_file
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The evaluation on held-out records.

    Attributes:
        source: the records.
        run: evaluates the current weights; returns the release's metrics.
    """

    source: input_pipeline.RecordSource
    run: Callable[[], dict[str, float]]


def make_evaluation(
    strategy: tf.distribute.Strategy,
    objective: objectives.Objective,
    source: input_pipeline.RecordSource,
    options: training_flags.PretrainingOptions,
) -> Evaluation:
    """Prepares the evaluation on records according to the options."""
    evaluator = steps.Evaluator(strategy, objective)
    batches = input_pipeline.evaluation_dataset(
        source,
        batch_size=options.eval_batch_size,
        num_batches=options.max_eval_steps,
    )
    return Evaluation(
        source=source, run=lambda: loop.evaluate(evaluator, batches)
    )


def train(
    strategy: tf.distribute.Strategy,
    objective: objectives.Objective,
    sources: Sequence[input_pipeline.RecordSource],
    phases: Sequence[phases_lib.Phase],
    options: training_flags.PretrainingOptions,
    evaluation: Evaluation,
) -> loop.Result:
    """Trains a model, resuming from the latest checkpoint of its folder.

    Args:
        strategy: holds the variables.
        objective: the model and its losses.
        sources: the records of each phase.
        phases: the phases of the run.
        options: the options of the run.
        evaluation: of `options.eval_every_steps`.

    Raises:
        ValueError: the folder holds another run, or a checkpoint has other
            variables.
    """
    batches = input_pipeline.TrainingBatches(
        [
            _batch_phase(source, phase, options.random_seed + number)
            for number, (source, phase) in enumerate(
                zip(sources, phases, strict=True)
            )
        ]
    )
    new_heads = _new_heads(options.init_checkpoint)
    plan = initialization.Plan(
        num_train_steps=options.num_train_steps,
        num_warmup_steps=options.num_warmup_steps,
        identity=_identity(sources, phases, options),
        new_variables=[f"{head}.*" for head in new_heads],
        evaluate=evaluation.run if options.eval_every_steps else None,
        eval_every_steps=options.eval_every_steps,
        best_metric="loss" if options.keep_best_checkpoint else None,
        higher_is_better=False,
        held_out={
            "records_fingerprint": evaluation.source.files.fingerprint(),
            "masking": _masking_of(evaluation.source),
            "eval_batch_size": options.eval_batch_size,
            "max_eval_steps": options.max_eval_steps,
        },
        make_sanity_check=lambda schedule: _sanity_checks(
            sources, phases, schedule, new_heads
        ),
    )
    return loop.train(strategy, objective, batches, options, plan)


def _new_heads(init_checkpoint: str | None) -> list[str]:
    """Lists the heads, by prefix, of which a checkpoint has no variable."""
    if not init_checkpoint:
        return []
    with checkpoints.opened(init_checkpoint) as source:
        names = list(source.variables)
    return [
        head
        for head in (_MLM_HEAD, _NSP_HEAD)
        if not any(name.startswith(head) for name in names)
    ]


def _sanity_checks(
    sources, phases, schedule, new_heads
) -> sanity_checks.SanityChecks:
    batches = [phase.options.train_batch_size for phase in phases]
    lengths = [phase.options.max_seq_length for phase in phases]
    checks = sanity_checks.SanityChecks(
        sanity_checks.measure(sources[0]),
        sanity_checks.Run(
            vocab_size=sources[0].vocab_size,
            batch_size=max(batches),
            pieces_per_step=min(map(operator.mul, batches, lengths)),
            schedule=schedule,
            is_fresh=not phases[0].options.init_checkpoint,
            has_new_heads=_MLM_HEAD in new_heads,
        ),
    )
    for line in checks.announce():
        logging.info("%s", line)
    return checks


def _batch_phase(source, phase, seed) -> input_pipeline.BatchPhase:
    options = phase.options
    return input_pipeline.BatchPhase(
        source=source,
        end=phase.end,
        batch_size=options.train_batch_size,
        order=record_order.RecordOrder(len(source.files), seed),
        seed=seed,
        num_accumulation_steps=options.num_accumulation_steps,
        workers_reading=len(workers.cluster().names)
        if options.shard_input_files
        else 1,
    )


def _identity(sources, phases, options) -> dict[str, object]:
    """Returns the values that must stay the same when a run resumes."""
    records: dict[str, Any]
    workers_reading = 1
    if options.shard_input_files:
        workers_reading, records = len(workers.cluster().names), {}
    else:
        records = {
            "num_records": [len(source.files) for source in sources],
            "records_fingerprint": [s.files.fingerprint() for s in sources],
        }
        if len(sources) == 1:
            records = {name: value for name, (value,) in records.items()}
    return {
        **{name: getattr(options, name) for name in _IDENTITY},
        **records,
        "workers_reading": workers_reading,
        "masking": [_masking_of(source) for source in sources],
        **phases_lib.identity(phases, options),
    }


def _masking_of(source: input_pipeline.RecordSource) -> list[Any] | None:
    return source.masking.identity() if source.masking else None


def evaluate_checkpoints(
    strategy: tf.distribute.Strategy,
    model: heads.BertForPreTraining,
    output_dir: str,
    evaluate: Callable[[], Mapping[str, float]],
) -> list[dict[str, float]]:
    """Evaluates every checkpoint of a folder in the order of their steps.

    The chief writes one line of JSON for each to `eval_checkpoints.jsonl`, null
    for inf and NaN. Afterwards the model has the weights of the last one.

    Args:
        strategy: holds the variables.
        model: receives the weights.
        output_dir: the run's folder.
        evaluate: returns held-out metrics, `masked_lm_loss` among them.

    Returns:
        For each checkpoint `step`, the metrics and `masked_lm_perplexity`, the
        exponential of `masked_lm_loss`. A checkpoint that cannot be read is
        skipped with a warning.
    """
    results = []
    for step in checkpointing.saved_steps(output_dir):
        prefix = checkpointing.prefix_of(output_dir, step)
        try:
            with strategy.scope():
                initialization.load_weights(model, prefix)
        except (OSError, ValueError) as error:
            logging.warning("Skipping checkpoint %s: %s", prefix, error)
            continue
        metrics = dict(evaluate())
        metrics[_PERPLEXITY] = _exponential(metrics[_LOSS])
        logging.info(
            "Checkpoint of step %d: held-out masked-LM loss %.4f, "
            "perplexity %.3f",
            step,
            metrics[_LOSS],
            metrics[_PERPLEXITY],
        )
        results.append({"step": step, **metrics})
    if not results:
        logging.warning("No checkpoint in %s could be evaluated.", output_dir)
    if workers.cluster().is_chief:
        path = os.path.join(output_dir, CHECKPOINT_RESULTS_FILE)
        with writing.whole_file(path) as file:
            file.writelines(
                f"{json.dumps(json_text.finite(line))}\n" for line in results
            )
    return results


def _exponential(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
