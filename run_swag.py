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
import os
from typing import TYPE_CHECKING

from bert.commands import flags
from bert.files import paths, writing
from bert.models import description as description_lib
from bert.models import folder as folder_lib
from bert.records import schema
from bert.tasks import task
from bert.tasks.classification import labeled_task, predictions, sentence_pairs
from bert.tasks.multiple_choice import swag
from bert.training import fine_tuning
from bert.training import options as training_options
from modeling import config as config_lib
from vocab import tokenization

if TYPE_CHECKING:
    from bert.training import objectives


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


class MultipleChoice(labeled_task.LabeledTask[None]):
    """Multiple choice among several endings.

    Raises:
        FileNotFoundError: a file is missing.
    """

    kind = description_lib.MULTIPLE_CHOICE
    metric_names = ("accuracy",)

    options: Options

    def __init__(
        self,
        options: Options,
        tokenizer: tokenization.FullTokenizer,
        trained: folder_lib.ModelFolder | None = None,
    ):
        super().__init__(options, tokenizer, trained)
        self._columns = flags.narrow(swag.Columns, options)
        self.label_set = self._columns.label_set()
        self._paths = {
            split: _find(options, split) for split in options.needed_splits
        }

    @property
    def description(self) -> description_lib.Description:
        # There are no labels: the model scores any number of choices.
        return description_lib.Description(
            ending_columns=self._columns.ending_columns
        )

    def data_sets(self, split: str) -> list[task.DataSet[None]]:
        path, length = self._paths[split], self.options.max_seq_length
        has_labels = split != task.PREDICT
        return [
            task.DataSet(
                split=split,
                kind="multiple choice",
                made_from={
                    "data_sha256": paths.sha256(path),
                    "layout": dataclasses.asdict(self._columns),
                },
                features=schema.choice_features(
                    length, len(self._columns.ending_columns)
                ),
                examples=lambda: swag.records(
                    swag.read_examples(
                        path, self._columns, with_labels=has_labels
                    ),
                    sentence_pairs.Truncation(max_seq_length=length),
                    self.tokenizer,
                    path,
                ),
                has_labels=has_labels,
            )
        ]

    def make_objective(
        self, config: config_lib.BertConfig
    ) -> "objectives.Classification":
        from bert.training import objectives
        from modeling import heads

        model = heads.BertForMultipleChoice(config)
        return objectives.Classification(model, self.label_set.problem_type)

    def write_answers(
        self,
        data: task.Records[None],
        answers: labeled_task.Answers,
        output_dir: str,
    ) -> None:
        if data.data_set.split == task.EVAL:
            return
        files = {
            "test_results.tsv": predictions.result_lines(answers.outputs),
            "predictions.csv": swag.prediction_lines(
                self.label_set, answers.outputs
            ),
        }
        writing.write_files(output_dir, files)


def _find(options: Options, split: str) -> str:
    """Returns the path of the file of a split, which must exist."""
    path = os.path.join(options.data_dir, getattr(options, f"{split}_file"))
    if not paths.exists(path):
        raise FileNotFoundError(
            f"File not found: {path}. Pass --data_dir, and --{split}_file if "
            "the file has a different name.",
        )
    return path


def run(options: Options) -> None:
    """Trains, evaluates and predicts according to the options."""
    fine_tuning.run(MultipleChoice, options)


if __name__ == "__main__":
    fine_tuning.main(MultipleChoice, Options)
