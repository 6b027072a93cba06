"""One pre-training run, from its options to its weights."""

from collections.abc import Callable, Mapping

import tensorflow as tf
from absl import logging

from files import paths
from modeling import config as config_lib
from training import (
    bookkeeping,
    checkpointing,
    input_pipeline,
    loop,
    objectives,
    optimization,
    pretraining_flags,
    record_checks,
    record_files,
    record_order,
    records,
    runtime,
    starting,
    steps,
)
from training import flags as shared_flags

_BATCH_SIZES = ("train_batch_size", "eval_batch_size")
_IDENTITY = (
    *("objective", "random_seed", "train_batch_size", "learning_rate"),
    *("lr_schedule", "adam_bias_correction", "num_train_steps"),
    *("num_warmup_steps", "precision", "optimizer", "num_accumulation_steps"),
)


def open_records(
    options: pretraining_flags.PretrainingOptions,
    patterns: str,
    config: config_lib.BertConfig,
) -> input_pipeline.RecordSource:
    """Opens record files and checks that they fit the flags and the model.

    Args:
        options: of the run.
        patterns: comma-separated names or globs.
        config: of the model.

    Raises:
        OSError: a file cannot be opened.
        ValueError: the records are damaged, or of other lengths or words.
    """
    files = record_files.RecordFiles(paths.expand(patterns))
    logging.info(
        "%s records in %d file(s): %s",
        f"{len(files):,}",
        len(files.paths),
        ", ".join(files.paths[:5]) + (", ..." if files.paths[5:] else ""),
    )
    record_checks.check_pretraining_records(
        files,
        max_seq_length=options.max_seq_length,
        max_predictions_per_seq=options.max_predictions_per_seq,
        vocab_size=config.vocab_size,
    )
    return input_pipeline.RecordSource(
        files=files,
        features=records.pretraining_features(
            options.max_seq_length, options.max_predictions_per_seq
        ),
        vocab_size=config.vocab_size,
    )


def prepare_devices(
    options: pretraining_flags.PretrainingOptions,
) -> tf.distribute.Strategy:
    """Chooses devices, precision and seed; returns the strategy.

    Raises:
        ValueError: a batch does not divide among the devices.
    """
    strategy = runtime.prepare(
        shared_flags.narrow(runtime.DeviceOptions, options),
        precision=options.precision,
        batch_sizes={name: getattr(options, name) for name in _BATCH_SIZES},
    )
    runtime.set_seed(options.random_seed)
    return strategy


def evaluation(
    strategy: tf.distribute.Strategy,
    objective: objectives.Objective,
    source: input_pipeline.RecordSource,
    options: pretraining_flags.PretrainingOptions,
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
    source: input_pipeline.RecordSource,
    options: pretraining_flags.PretrainingOptions,
    evaluate: Callable[[], Mapping[str, float]],
) -> tuple[int, Mapping[str, float] | None]:
    """Trains a model, from wherever its folder stands.

    Returns:
        The number of steps made in all, and the last held-out metrics, if
        any were taken.

    Raises:
        ValueError: the folder is another run's, or a checkpoint does not fit.
    """
    identity = {
        **{name: getattr(options, name) for name in _IDENTITY},
        "num_records": len(source.files),
        "num_replicas": strategy.num_replicas_in_sync,
    }
    with strategy.scope():
        state, first_step = starting.start(
            objective, _start_options(options, identity)
        )
    results = loop.train(
        steps.Trainer(strategy, state),
        input_pipeline.TrainingBatches(
            source,
            batch_size=options.train_batch_size,
            order=record_order.RecordOrder(
                len(source.files), options.random_seed
            ),
            num_accumulation_steps=options.num_accumulation_steps,
        ),
        shared_flags.narrow(
            bookkeeping.LoopOptions,
            options,
            iterations_per_loop=runtime.steps_per_call(
                use_tpu=runtime.wants_tpu(options),
                iterations_per_loop=options.iterations_per_loop,
            ),
        ),
        first_step=first_step,
        identity=identity,
        evaluate=evaluate if options.eval_every_steps else None,
    )
    return max(first_step, options.num_train_steps), results


def _start_options(options, identity) -> starting.StartOptions:
    return starting.StartOptions(
        output_dir=options.output_dir,
        init_checkpoint=options.init_checkpoint,
        schedule=optimization.Schedule(
            init_lr=options.learning_rate,
            num_train_steps=options.num_train_steps,
            num_warmup_steps=options.num_warmup_steps,
            kind=options.lr_schedule,
        ),
        adam=optimization.AdamOptions(
            bias_correction=options.adam_bias_correction,
            layer_adaptation=options.optimizer == "lamb",
        ),
        scale_loss=options.precision == "mixed_float16",
        recompute=options.recompute,
        seed=options.random_seed,
        identity=identity,
    )


def load(
    strategy: tf.distribute.Strategy,
    objective: objectives.Objective,
    options: pretraining_flags.PretrainingOptions,
) -> int:
    """Loads what is to be evaluated without training.

    Returns:
        The step of the folder's latest checkpoint; 0 for `init_checkpoint`.

    Raises:
        ValueError: there is no checkpoint.
    """
    return starting.load_for_evaluation(
        strategy,
        objective,
        checkpointing.latest_readable(options.output_dir),
        options,
    )
