r"""Fine-tuning of BERT for multiple choice: SWAG.

Example:

  python run_swag.py \
    --data_dir=/data/swag --output_dir=/data/swag_output \
    --vocab_file=$BERT/vocab.txt --bert_config_file=$BERT/bert_config.json \
    --init_checkpoint=$BERT/bert_model.ckpt \
    --do_train --do_eval --do_predict

Other multiple-choice data sets with a fixed number of choices work with the
column names of SWAG, and --ending_columns for the choices. After an
interruption, run the same command again: training resumes from the last
checkpoint.
"""

import dataclasses

from bert.commands import flags
from bert.tasks.multiple_choice import learning, swag
from bert.training import fine_tuning
from bert.training import options as training_options


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(training_options.SequenceOptions, swag.Columns):
    """The flags of this script; see --help.

    Source: Devlin et al. 2019, section 4.4; the release has no such script.
    """

    data_dir: flags.Path = flags.Group.FILES.required("Folder of the files.")
    train_file: flags.Path = flags.Group.FILES.flag(
        "train.csv",
        "Training file in --data_dir: .csv, .tsv, .jsonl or .parquet.",
    )
    eval_file: flags.Path = flags.Group.FILES.flag(
        "val.csv", "Dev file in --data_dir: .csv, .tsv, .jsonl or .parquet."
    )
    predict_file: flags.Path = flags.Group.FILES.flag(
        "test.csv",
        "File to predict in --data_dir: .csv, .tsv, .jsonl or .parquet.",
    )
    train_batch_size: int = flags.redeclare(
        training_options.SequenceOptions, "train_batch_size", 16
    )
    learning_rate: float = flags.redeclare(
        training_options.SequenceOptions, "learning_rate", 2e-5
    )


def run(options: Options) -> None:
    """Trains, evaluates and predicts according to the options."""
    fine_tuning.run(learning.MultipleChoiceTask, options)


if __name__ == "__main__":
    fine_tuning.main(learning.MultipleChoiceTask, Options)
