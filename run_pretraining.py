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

import os
from collections.abc import Mapping

from absl import logging

from commands import program
from files import result_files
from training import flags as training_flags
from training import option_checks, run_record

Options = training_flags.PretrainingOptions


def run(options: Options) -> None:
    """Trains and evaluates according to the options.

    Raises:
        OSError: a file cannot be opened.
        ValueError: the options, files and checkpoints are incompatible.
    """
    config = option_checks.check_pretraining(options)
    run_record.write_start(options)
    # After the checks, because TensorFlow takes seconds to import.
    from modeling import heads
    from training import (
        checkpointing,
        devices,
        initialization,
        loop,
        objectives,
        pretraining,
        steps,
        workers,
    )

    # Data: the batch of a step is a function of the seed and the step.
    train_records, held_out_records = pretraining.open_records(options, config)
    strategy = devices.prepare_training(options, [options])
    batches = pretraining.training_batches(train_records, options, strategy)

    # Model and objective.
    devices.set_seed(options.random_seed, deterministic=options.deterministic)
    with strategy.scope():
        model = heads.BertForPreTraining(config, objective=options.objective)
    objective = objectives.Pretraining(model, options.objective)
    logging.info(
        "%s parameters, objective %s",
        f"{model.count_params():,}",
        options.objective,
    )
    communicator = workers.Communicator(strategy)
    if workers.is_chief():
        pretraining.describe(options, config, train_records.files.paths[0])
    communicator.barrier()

    evaluator = steps.Evaluator(strategy, objective)
    held_out = pretraining.evaluation_batches(held_out_records, options)

    def evaluate() -> Mapping[str, float]:
        return loop.evaluate(evaluator, held_out)

    results = None
    if options.do_train:
        # Optimizer, schedule and weights: those of the latest checkpoint.
        plan = pretraining.plan(options, batches, evaluate).complete_identity(
            options, strategy
        )
        with strategy.scope():
            state, step = initialization.initialize(objective, options, plan)
        trainer = steps.Trainer(
            strategy,
            state,
            jit_compile=devices.compiles_whole_steps(
                strategy, options.jit_compile
            ),
        )
        if step < plan.end:
            pretraining.log_baselines(train_records)
        trained = loop.train(trainer, batches, options, plan, step)
        step, results = trained.step, trained.metrics
    else:
        step = initialization.load_for_evaluation(
            strategy,
            model,
            checkpointing.latest(options.output_dir),
            options,
        )
    if options.do_eval:
        results = {**(results or evaluate()), "global_step": step}
        if workers.is_chief():
            result_files.write(
                os.path.join(options.output_dir, "eval_results.txt"), results
            )
    if options.eval_all_checkpoints:
        pretraining.evaluate_checkpoints(
            strategy, model, options.output_dir, evaluate
        )
    communicator.barrier()
    loop.warn_of_more_steps(step, options.num_train_steps)


if __name__ == "__main__":
    program.start(Options, run_record.recorded(run))
