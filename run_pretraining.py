r"""Pre-trains BERT: masked language model and next sentence prediction.

Example:

  python run_pretraining.py \
    --input_file=/data/records-* \
    --output_dir=/data/pretraining \
    --bert_config_file=/data/bert_config.json \
    --do_train=True --do_eval=True \
    --train_batch_size=32 --learning_rate=1e-4 \
    --num_train_steps=100000 --num_warmup_steps=10000

The records come from create_pretraining_data.py. Stop the program at any time
and run the same command again: it goes on where it stopped, to the same result.
"""

import dataclasses
import os
from collections.abc import Mapping

from absl import app, flags, logging

from files import paths
from training import flags as shared_flags


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this script; see `define_flags` and --help."""

    bert_config_file: str
    input_file: str
    output_dir: str
    init_checkpoint: str | None
    max_seq_length: int
    max_predictions_per_seq: int
    objective: str
    do_train: bool
    do_eval: bool
    eval_input_file: str | None
    train_batch_size: int
    eval_batch_size: int
    learning_rate: float
    lr_schedule: str
    adam_bias_correction: bool
    num_train_steps: int
    num_warmup_steps: int
    save_checkpoints_steps: int
    keep_checkpoint_max: int
    log_every_steps: int
    iterations_per_loop: int
    max_eval_steps: int
    eval_every_steps: int
    random_seed: int
    precision: str
    use_tpu: bool
    tpu_name: str | None
    tpu_zone: str | None
    gcp_project: str | None
    master: str | None
    num_tpu_cores: int


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags; names and defaults are the release's."""
    shared_flags.define_model_flags(values)
    shared_flags.define_training_flags(values)
    shared_flags.define_evaluation_flags(values)
    shared_flags.define_device_flags(values)
    flags.DEFINE_string(
        "input_file",
        None,
        "Record files: comma-separated names or globs.",
        required=True,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "max_seq_length",
        128,
        "Word pieces per record; as the records were made.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "max_predictions_per_seq",
        20,
        "Masked word pieces per record; as the records were made.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_enum(
        "objective",
        "mlm_nsp",
        ["mlm_nsp", "mlm", "ltr"],
        "What is learnt: masked words and next sentences; masked words alone; "
        "or the next word from those to its left (causal attention).",
        flag_values=values,
    )
    flags.DEFINE_boolean("do_train", False, "Train.", flag_values=values)
    flags.DEFINE_boolean("do_eval", False, "Evaluate.", flag_values=values)
    flags.DEFINE_string(
        "eval_input_file",
        None,
        "Held-out record files to evaluate on; --input_file if not given.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "num_train_steps",
        100000,
        "Steps in all, those before a resume included.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "num_warmup_steps",
        10000,
        "Steps over which the learning rate rises.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "max_eval_steps",
        100,
        "Batches of an evaluation, starting over where the records end; 0 for "
        "every record exactly once.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "eval_every_steps",
        0,
        "Steps between evaluations while training; 0 for none.",
        lower_bound=0,
        flag_values=values,
    )


def run(options: Options) -> None:
    """Trains and evaluates as the options say.

    Raises:
        ValueError: the options, files and checkpoints do not fit together.
    """
    if not options.do_train and not options.do_eval:
        raise ValueError(
            "At least one of `do_train` or `do_eval` must be True."
        )
    from modeling import config as config_lib
    from modeling import heads
    from training import (
        checkpointing,
        input_pipeline,
        loop,
        objectives,
        reporting,
        runtime,
        steps,
    )

    runtime.check_backend()
    config = config_lib.BertConfig.from_json_file(options.bert_config_file)
    _check_lengths(options, config)
    training_records = _open_records(options, options.input_file, config)
    held_out = training_records
    if options.eval_input_file:
        held_out = _open_records(options, options.eval_input_file, config)

    strategy = _prepare_devices(options)
    checkpointing.claim(options.output_dir, config.to_dict())
    with strategy.scope():
        model = heads.BertForPreTraining(config, objective=options.objective)
    logging.info(
        "%s parameters, objective %s",
        f"{model.count_params():,}",
        options.objective,
    )
    objective = objectives.Pretraining(model, options.objective)
    evaluator = steps.Evaluator(strategy, objective)
    evaluation_batches = input_pipeline.evaluation_dataset(
        held_out,
        batch_size=options.eval_batch_size,
        num_batches=options.max_eval_steps,
    )

    def evaluate() -> Mapping[str, float]:
        return loop.evaluate(evaluator, evaluation_batches)

    results = None
    if options.do_train:
        step, results = _train(
            options, strategy, objective, training_records, evaluate
        )
    else:
        step = _load(options, strategy, objective)
    if options.do_eval:
        reporting.write_results(
            os.path.join(options.output_dir, "eval_results.txt"),
            {**(results or evaluate()), "global_step": step},
        )


def _prepare_devices(options: Options):
    """Returns the distribution strategy; sets precision and seed."""
    from training import input_pipeline, runtime

    strategy = runtime.make_strategy(
        shared_flags.narrow(runtime.DeviceOptions, options)
    )
    for name in ("train_batch_size", "eval_batch_size"):
        input_pipeline.check_batch_size(
            name, getattr(options, name), strategy.num_replicas_in_sync
        )
    runtime.set_precision(options.precision)
    runtime.set_seed(options.random_seed)
    logging.info("%s", runtime.describe(strategy))
    return strategy


def _check_lengths(options: Options, config) -> None:
    if options.max_seq_length > config.max_position_embeddings:
        raise ValueError(
            f"Cannot use sequence length {options.max_seq_length} because the "
            "BERT model was only trained up to sequence length "
            f"{config.max_position_embeddings} (max_position_embeddings)."
        )


def _open_records(options: Options, patterns: str, config):
    from training import input_pipeline, record_checks, record_files, records

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


def _train(options, strategy, objective, source, evaluate):
    from training import (
        input_pipeline,
        loop,
        optimization,
        record_order,
        starting,
        steps,
    )

    identity = {
        "objective": options.objective,
        "random_seed": options.random_seed,
        "train_batch_size": options.train_batch_size,
        "num_records": len(source.files),
        "learning_rate": options.learning_rate,
        "lr_schedule": options.lr_schedule,
        "adam_bias_correction": options.adam_bias_correction,
        "num_train_steps": options.num_train_steps,
        "num_warmup_steps": options.num_warmup_steps,
        "precision": options.precision,
        "num_replicas": strategy.num_replicas_in_sync,
    }
    with strategy.scope():
        state, first_step = starting.start(
            objective,
            starting.StartOptions(
                output_dir=options.output_dir,
                init_checkpoint=options.init_checkpoint,
                schedule=optimization.Schedule(
                    init_lr=options.learning_rate,
                    num_train_steps=options.num_train_steps,
                    num_warmup_steps=options.num_warmup_steps,
                    kind=options.lr_schedule,
                ),
                adam=optimization.AdamOptions(
                    bias_correction=options.adam_bias_correction
                ),
                scale_loss=options.precision == "mixed_float16",
                seed=options.random_seed,
                identity=identity,
            ),
        )
    results = loop.train(
        steps.Trainer(strategy, state),
        input_pipeline.TrainingBatches(
            source,
            batch_size=options.train_batch_size,
            order=record_order.RecordOrder(
                len(source.files), options.random_seed
            ),
        ),
        shared_flags.narrow(
            loop.LoopOptions,
            options,
            # Elsewhere every step is watched, so that a signal is obeyed.
            iterations_per_loop=options.iterations_per_loop
            if options.use_tpu
            else 1,
        ),
        first_step=first_step,
        identity=identity,
        evaluate=evaluate if options.eval_every_steps else None,
    )
    return max(first_step, options.num_train_steps), results


def _load(options, strategy, objective) -> int:
    """Loads what is to be evaluated without training."""
    from training import checkpointing, starting

    prefix = checkpointing.latest(options.output_dir)
    if prefix is None and not options.init_checkpoint:
        raise ValueError(
            f"There is nothing to evaluate: {options.output_dir} holds no "
            "checkpoint and --init_checkpoint is not given."
        )
    with strategy.scope():
        starting.load_weights(objective, prefix or options.init_checkpoint)
    return checkpointing.load_step(prefix) if prefix else 0


def main(_: list[str]) -> None:
    logging.set_verbosity(logging.INFO)
    run(shared_flags.read_options(Options, flags.FLAGS))


if __name__ == "__main__":
    define_flags()
    shared_flags.adopt()
    app.run(main)
