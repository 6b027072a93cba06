"""One pre-training run, from its options to its weights."""

import json
import math
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from absl import logging

from commands import flags
from files import json_text, paths, writing
from modeling import config as config_lib
from training import (
    attention_checks,
    checkpointing,
    devices,
    dynamic_masking,
    initialization,
    input_pipeline,
    loop,
    objectives,
    pretraining_phases,
    record_files,
    record_order,
    records,
    run,
    sanity_checks,
    steps,
    workers,
)
from training import flags as training_flags

# Source: Devlin et al. 2019, Table 6 ("LM (ppl)") and Figure 5.
CHECKPOINT_RESULTS_FILE = "eval_checkpoints.jsonl"
_LOSS, _PERPLEXITY = "masked_lm_loss", "masked_lm_perplexity"
_IDENTITY = (
    *("objective", "num_train_steps", "num_warmup_steps"),
    "max_predictions_per_seq",
)


def open_records(
    options: training_flags.PretrainingOptions,
    names: Sequence[str],
    config: config_lib.BertConfig,
) -> input_pipeline.RecordSource:
    """Opens record files and checks that they fit the flags and the model.

    Args:
        options: of the run, or of a phase of it.
        names: of the files.
        config: of the model.

    Raises:
        OSError: a file cannot be opened.
        ValueError: the records are damaged, or of other lengths or words.
    """
    files = record_files.RecordFiles(names)
    logging.info(
        "%s records in %d file(s): %s",
        f"{len(files):,}",
        len(files.paths),
        ", ".join(files.paths[:5]) + (", ..." if files.paths[5:] else ""),
    )
    sidecars = records.check_pretraining_records(
        files,
        max_seq_length=options.max_seq_length,
        max_predictions_per_seq=options.max_predictions_per_seq,
        vocab_size=config.vocab_size,
    )
    masking = dynamic_masking.of_sidecars(sidecars)
    if masking is None:
        features = records.pretraining_features(
            options.max_seq_length, options.max_predictions_per_seq
        )
    else:
        logging.info("Each example is masked anew whenever it is trained on.")
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


def open_training_records(
    phases: Sequence[pretraining_phases.Phase], config: config_lib.BertConfig
) -> list[input_pipeline.RecordSource]:
    """Opens what each phase trains on, or what this worker does in it.

    Raises:
        OSError: a file cannot be opened.
        ValueError: the records do not fit, or the model has fewer positions.
    """
    sources = []
    for phase in phases:
        options = phase.options
        config.check_length(options.max_seq_length)
        names = paths.expand(flags.given(options.input_file, "input_file"))
        if options.shard_input_files:
            names = workers.share_of(names, workers.cluster())
        sources.append(open_records(options, names, config))
    return sources


def open_held_out_records(
    phases: Sequence[pretraining_phases.Phase],
    training_sources: Sequence[input_pipeline.RecordSource],
    config: config_lib.BertConfig,
) -> input_pipeline.RecordSource:
    """Opens what the run evaluates on: as the last phase's, if not those."""
    options = phases[-1].options
    if not (options.eval_input_file or options.shard_input_files):
        return training_sources[-1]
    names = options.eval_input_file or flags.given(
        options.input_file, "input_file"
    )
    return open_records(options, paths.expand(names), config)


def prepare_devices(
    options: training_flags.PretrainingOptions,
    phases: Sequence[pretraining_phases.Phase],
) -> tf.distribute.Strategy:
    """Chooses devices, precision and seed; returns the strategy.

    Raises:
        ValueError: a batch does not divide among the devices.
    """
    strategy = devices.prepare(
        flags.narrow(devices.DeviceOptions, options),
        precision=options.precision,
        batch_sizes={"eval_batch_size": options.eval_batch_size},
        output_dir=options.output_dir,
    )
    for phase in phases:
        input_pipeline.check_batch_size(
            "train_batch_size",
            phase.options.train_batch_size,
            strategy.num_replicas_in_sync,
            phase.options.num_accumulation_steps,
        )
    devices.set_seed(options.random_seed, deterministic=options.deterministic)
    return strategy


def evaluation(
    strategy: tf.distribute.Strategy,
    objective: objectives.Objective,
    source: input_pipeline.RecordSource,
    options: training_flags.PretrainingOptions,
) -> Callable[[], dict[str, float]]:
    """Prepares an evaluation; calling it gives the metrics, as released."""
    evaluator = steps.Evaluator(strategy, objective)
    batches = input_pipeline.evaluation_dataset(
        source,
        batch_size=options.eval_batch_size,
        num_batches=options.max_eval_steps,
    )
    return lambda: loop.evaluate(evaluator, batches)


def train(
    strategy: tf.distribute.Strategy,
    objective: objectives.Objective,
    sources: Sequence[input_pipeline.RecordSource],
    options: training_flags.PretrainingOptions,
    evaluate: Callable[[], Mapping[str, float]],
) -> run.Result:
    """Trains a model, from wherever its folder stands.

    Args:
        strategy: where the variables live.
        objective: the model and its losses.
        sources: the records of each phase.
        options: of the run.
        evaluate: returns held-out metrics.

    Raises:
        ValueError: the folder is another run's, or a checkpoint does not fit,
            or reads in another direction.
    """
    attention_checks.check_checkpoints(options)
    phases = pretraining_phases.of_run(options)
    batches = input_pipeline.TrainingBatches(
        [
            _batch_phase(source, phase, options.random_seed + number)
            for number, (source, phase) in enumerate(
                zip(sources, phases, strict=True)
            )
        ]
    )
    return run.train(
        strategy,
        objective,
        batches,
        options,
        run.Plan(
            num_train_steps=options.num_train_steps,
            num_warmup_steps=options.num_warmup_steps,
            identity=_identity(sources, options),
            evaluate=evaluate if options.eval_every_steps else None,
            eval_every_steps=options.eval_every_steps,
            best_metric="loss" if options.keep_best_checkpoint else None,
            higher_is_better=False,
            make_sanity_check=lambda: _sanity_checks(sources, phases, options),
        ),
    )


def _sanity_checks(
    sources, phases, options
) -> sanity_checks.SanityChecks | None:
    """Measures the records, for the worker that reports."""
    if not workers.cluster().is_chief:
        return None
    batches = [phase.options.train_batch_size for phase in phases]
    lengths = [phase.options.max_seq_length for phase in phases]
    return sanity_checks.make(
        sources,
        sanity_checks.Plan(
            vocab_size=sources[0].vocab_size,
            batch_size=max(batches),
            pieces_per_step=min(map(operator.mul, batches, lengths)),
            schedule=run.schedule(
                options, options.num_train_steps, options.num_warmup_steps
            ),
            is_fresh=not phases[0].options.init_checkpoint,
        ),
    )


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


def _identity(sources, options) -> dict[str, object]:
    """Names what a resumed run must share with the one it goes on with."""
    records: dict[str, Any]
    if options.shard_input_files:
        records = {"workers_reading": len(workers.cluster().names)}
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
        **pretraining_phases.identity(pretraining_phases.of_run(options)),
    }


def load(
    strategy: tf.distribute.Strategy,
    objective: objectives.Objective,
    options: training_flags.PretrainingOptions,
) -> int:
    """Loads what is to be evaluated without training.

    Returns:
        The step of the folder's latest checkpoint; 0 for `init_checkpoint`.

    Raises:
        ValueError: there is no checkpoint.
    """
    attention_checks.check_checkpoints(options)
    return initialization.load_for_evaluation(
        strategy,
        objective,
        checkpointing.latest_readable(options.output_dir),
        options,
    )


def evaluate_checkpoints(
    strategy: tf.distribute.Strategy,
    objective: objectives.Objective,
    output_dir: str,
    evaluate: Callable[[], Mapping[str, float]],
) -> list[dict[str, float]]:
    """Evaluates every checkpoint of a folder, the first one first.

    The model has the weights of the last one afterwards.

    Args:
        strategy: where the variables live.
        objective: its model takes the weights.
        output_dir: the run's folder.
        evaluate: returns held-out metrics, `masked_lm_loss` among them.

    Returns:
        For each checkpoint `step`, the metrics and `masked_lm_perplexity`, the
        exponential of the loss of a predicted word. A checkpoint that cannot
        be read is left out with a warning.
    """
    results = []
    for step in checkpointing.saved_steps(output_dir):
        prefix = checkpointing.prefix_of(output_dir, step)
        try:
            with strategy.scope():
                initialization.load_weights(objective, prefix)
        except (OSError, ValueError) as error:
            logging.warning("%s is not evaluated: %s", prefix, error)
            continue
        metrics = dict(evaluate())
        metrics[_PERPLEXITY] = _exponential(metrics[_LOSS])
        logging.info(
            "Checkpoint of step %d: held-out loss of a predicted word %.4f, "
            "perplexity %.3f",
            step,
            metrics[_LOSS],
            metrics[_PERPLEXITY],
        )
        results.append({"step": step, **metrics})
    return results


def write_evaluations(
    output_dir: str, results: Sequence[Mapping[str, float]]
) -> None:
    """Writes a line of JSON for each checkpoint; null where not finite."""
    path = os.path.join(output_dir, CHECKPOINT_RESULTS_FILE)
    with writing.whole_file(path) as file:
        file.writelines(
            f"{json.dumps(json_text.finite(line))}\n" for line in results
        )


def _exponential(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
