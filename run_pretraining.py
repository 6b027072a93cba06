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

from absl import logging

from commands import program
from files import result_files
from training import flags as training_flags
from training import option_checks, run_card

Options = training_flags.PretrainingOptions


def run(options: Options) -> None:
    """Trains and evaluates according to the options.

    Raises:
        OSError: a file cannot be opened.
        ValueError: the options, files and checkpoints are incompatible.
    """
    config, phases = option_checks.check_pretraining(options)
    from modeling import heads
    from training import (
        checkpointing,
        devices,
        initialization,
        objectives,
        pretraining,
        workers,
    )

    sources, held_out = pretraining.open_sources(phases, config)
    strategy = devices.prepare_training(
        options, ["eval_batch_size"], [phase.options for phase in phases]
    )
    devices.set_seed(options.random_seed, deterministic=options.deterministic)
    workers.Communicator(strategy).run_on_chief(
        options.output_dir,
        lambda: pretraining.describe(
            options, config, sources[0].files.paths[0]
        ),
    )
    with strategy.scope():
        model = heads.BertForPreTraining(config, objective=options.objective)
    logging.info(
        "%s parameters, objective %s",
        f"{model.count_params():,}",
        options.objective,
    )
    objective = objectives.Pretraining(model, options.objective)
    evaluation = pretraining.make_evaluation(
        strategy, objective, held_out, options
    )
    results = None
    if options.do_train:
        trained = pretraining.train(
            strategy, objective, sources, phases, options, evaluation
        )
        step, results = trained.step, trained.metrics
    else:
        step = initialization.load_for_evaluation(
            strategy,
            model,
            checkpointing.latest_readable(options.output_dir),
            options,
        )
    if options.do_eval:
        results = {**(results or evaluation.run()), "global_step": step}
        if workers.cluster().is_chief:
            result_files.write(
                os.path.join(options.output_dir, "eval_results.txt"), results
            )
    if options.eval_all_checkpoints:
        pretraining.evaluate_checkpoints(
            strategy, model, options.output_dir, evaluation.run
        )


if __name__ == "__main__":
    program.start(Options, lambda options: run_card.record(run, options))
