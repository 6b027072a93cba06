r"""Fine-tuning of BERT to classify or score sentences and sentence pairs.

Examples:

  python run_classifier.py \
    --task_name=MRPC --data_dir=/data/glue/MRPC \
    --init_checkpoint=$BERT --output_dir=/data/mrpc_output \
    --do_train --do_eval --do_predict --max_seq_length=128 \
    --train_batch_size=32 --learning_rate=2e-5 --num_train_epochs=3.0

  python run_classifier.py \
    --task_name=custom --data_dir=/data/reviews \
    --text_a_column=review --label_column=stars ...

The tasks are those of GLUE, XNLI, and `custom` for your own train, dev and test
files in TSV, CSV, JSON Lines or Parquet. After an interruption, run the same
command again: training resumes from the last checkpoint.
"""

import dataclasses

from bert.tasks.classification import (
    learning,
)
from bert.tasks.classification import options as options_lib
from bert.training import fine_tuning
from bert.training import options as training_options


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(
    training_options.AblationOptions,
    training_options.SequenceOptions,
    options_lib.SentenceOptions,
):
    """The flags of this script; see --help."""


def run(options: Options) -> None:
    """Trains, evaluates and predicts according to the options."""
    fine_tuning.run(learning.ClassificationTask, options)


if __name__ == "__main__":
    fine_tuning.main(learning.ClassificationTask, Options)
