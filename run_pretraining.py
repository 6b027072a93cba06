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

from bert.commands import flags, program
from bert.files import paths, tensorflow_start, writing
from bert.models import prepare
from bert.tasks.pretraining import record_sources
from bert.training import options as training_options
from bert.training import resuming, run_record

Options = training_options.PretrainingOptions


def run(options: Options) -> None:
    """Trains and evaluates according to the options.

    Raises:
        OSError: a file cannot be opened.
        ValueError: the options, files and checkpoints are incompatible.
    """
    prepared = prepare.prepare(options, flags.given(), only_text=True)
    options, config = prepared.options, prepared.config
    trained_on = paths.expand(options.input_file)
    held_out = paths.expand(options.eval_input_file or options.input_file)
    # As released: without --eval_input_file the training data are evaluated.
    if options.do_train and (
        options.eval_input_file or options.eval_every_steps
    ):
        both = {*map(_real, held_out)} & {*map(_real, trained_on)}
        if both:
            logging.warning(
                "Evaluations, and with them best/ and early stopping, use "
                "training data: %s. Pass other records as --eval_input_file.",
                ", ".join(sorted(both)),
            )
    writing.check_folder(options.output_dir)
    # Imported after the checks, because TensorFlow takes seconds.
    tensorflow_start.load()
    from bert.training import pretraining
    from bert.training import run as run_lib

    records, held_out_records = record_sources.open_records(
        trained_on, held_out, options, config
    )
    planned = pretraining.planned_model(options, config, records.origin)
    prepared.check(planned)
    resuming.check(prepared.run, options, records.identity)
    run_record.write_start(options)
    setup = pretraining.setup(options, planned, records, held_out_records)
    if options.do_train:
        pretraining.log_baselines(records)
    run_lib.run(setup, options, prepared.run, prepared.init)


def _real(path: str) -> str:
    """Returns the same spelling for each path of a file."""
    return path if paths.is_remote(path) else os.path.realpath(path)


if __name__ == "__main__":
    program.start(Options, run_record.recorded(run))
