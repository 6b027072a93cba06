r"""Pre-training of BERT: masked language model and next sentence prediction.

Example:

  python run_pretraining.py \
    --input_file=/data/records-* \
    --output_dir=/data/pretraining \
    --bert_config_file=/data/bert_config.json \
    --do_train=True --do_eval=True \
    --train_batch_size=32 --learning_rate=1e-4 \
    --num_train_steps=100000 --num_warmup_steps=10000

The records come from create_pretraining_data.py. After an interruption, run the
same command again: training resumes from the last checkpoint, and the result is
identical to that of an uninterrupted run.
"""

import functools
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from absl import logging

from commands import program
from files import paths, run_files, writing
from modeling import config as config_lib
from training import flags as training_flags
from training import model_folder, run_record, workers

if TYPE_CHECKING:
    import tensorflow as tf

    from training import input_pipeline, objectives

Options = training_flags.PretrainingOptions


def run(options: Options) -> None:
    """Trains and evaluates according to the options.

    Raises:
        OSError: a file cannot be opened.
        ValueError: the options, files and checkpoints are incompatible.
    """
    config = check(options)
    run_record.write_start(options)
    # After the checks, because TensorFlow takes seconds to import.
    from modeling import heads
    from training import (
        devices,
        initialization,
        input_pipeline,
        loop,
        objectives,
        pretraining,
        pretraining_data,
        steps,
    )

    strategy = devices.prepare(options)
    train_records, held_out_records = pretraining_data.open_records(
        options, config
    )
    input_pipeline.check_batch_size(options, strategy.num_replicas_in_sync)
    devices.set_seed(options.random_seed)
    with strategy.scope():
        model = heads.BertForPreTraining(config, objective=options.objective)
    logging.info("%s parameters", f"{model.count_params():,}")
    objective = objectives.Pretraining(model, options.objective)
    communicator = workers.Communicator(strategy)
    if workers.is_chief():
        pretraining.describe(options, config, train_records.files.paths[0])
    communicator.barrier()

    evaluate = functools.partial(
        loop.evaluate,
        steps.Evaluator(
            strategy,
            objective,
            devices.execution_mode(strategy, options.jit_compile),
        ),
        held_out_records,
        batch_size=options.eval_batch_size,
        num_batches=options.max_eval_steps,
    )
    metrics: Mapping[str, float] | None = None
    if options.do_train:
        step, metrics = _train(
            strategy, objective, train_records, options, evaluate
        )
    else:
        step = initialization.load_for_evaluation(strategy, model, options)
    if options.do_eval:
        results = {**(metrics or evaluate()), "global_step": step}
        if workers.is_chief():
            path = os.path.join(options.output_dir, "eval_results.txt")
            run_files.write_results(path, results)
    communicator.barrier()


def check(options: Options) -> config_lib.BertConfig:
    """Checks the files of a run; returns the configuration of the model.

    Raises:
        OSError: the configuration cannot be read, the output folder cannot be
            written, or `--init_checkpoint` does not exist.
        ValueError: the configuration is invalid, or no file matches.
    """
    trained_on = paths.expand(options.input_file)
    config = config_lib.BertConfig.from_json_file(options.bert_config_file)
    config.check_length(options.max_seq_length)
    held_out = paths.expand(options.eval_input_file or options.input_file)
    if options.eval_input_file and options.do_train:
        both = {*map(_real, held_out)} & {*map(_real, trained_on)}
        if both:
            logging.warning(
                "--eval_input_file and --input_file overlap: %s. The "
                "evaluation uses records of the training data.",
                ", ".join(sorted(both)),
            )
    writing.check_folder(options.output_dir)
    model_folder.check_weights(options)
    return config


def _real(path: str) -> str:
    """Returns the same spelling for each path of a file."""
    return path if paths.is_remote(path) else os.path.realpath(path)


def _train(
    strategy: "tf.distribute.Strategy",
    objective: "objectives.Pretraining",
    source: "input_pipeline.RecordSource",
    options: Options,
    evaluate: Callable[[], Mapping[str, float]],
) -> tuple[int, Mapping[str, float] | None]:
    """Trains; returns the last step and its held-out metrics, if any."""
    from training import (
        checkpointing,
        devices,
        initialization,
        input_pipeline,
        loop,
        pretraining,
    )

    plan = pretraining.plan(options, source, evaluate)
    saved = checkpointing.latest_state(options.output_dir)
    mode = devices.execution_mode(
        strategy,
        options.jit_compile,
        num_train_steps=plan.num_train_steps,
        saved=saved.get("execution"),
    )
    # The batch of a step is a function of the seed and the step.
    batches = input_pipeline.training_batches(
        source,
        options,
        strategy.num_replicas_in_sync,
        row_length=options.max_seq_length,
    )
    trainer = initialization.make_trainer(strategy, objective, options, mode)
    # Weights, moments and step: those of the latest checkpoint, if any.
    step = initialization.initialize(trainer, options, plan)
    if step < plan.end:
        pretraining.log_baselines(source)
    return loop.train(trainer, batches, options, plan, step)


if __name__ == "__main__":
    program.start(Options, run_record.recorded(run))
