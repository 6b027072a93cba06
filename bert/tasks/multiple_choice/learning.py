"""Multiple choice as it is learned: data sets, model, answers."""

import dataclasses
import os
from typing import TYPE_CHECKING, Any

from bert.commands import flags
from bert.files import paths, writing
from bert.models import description as description_lib
from bert.models import folder as folder_lib
from bert.tasks import sentence_pairs, task
from bert.tasks.classification import labeled_task, predictions
from bert.tasks.multiple_choice import swag
from modeling import config as config_lib
from vocab import tokenization

if TYPE_CHECKING:
    from bert.tasks.classification import objective


class MultipleChoiceTask(labeled_task.LabeledTask[None]):
    """Multiple choice among several endings.

    Raises:
        FileNotFoundError: a file is missing.
    """

    kind = description_lib.MULTIPLE_CHOICE
    metric_names = ("accuracy",)

    options: Any

    def __init__(
        self,
        options: Any,
        tokenizer: tokenization.FullTokenizer,
        trained: folder_lib.ModelFolder | None = None,
    ):
        super().__init__(options, tokenizer, trained)
        self._columns = flags.narrow(swag.Columns, options)
        self.label_set = self._columns.label_set()
        self._paths = {
            split: _find(options, split) for split in options.needed_splits
        }

    def data_sets(self, split: str) -> list[task.DataSet[None]]:
        path, length = self._paths[split], self.options.max_seq_length
        has_labels = split != task.PREDICT or swag.has_labels(
            path, self._columns
        )
        made_from: dict[str, object] = {
            "data_sha256": paths.sha256(path),
            "layout": dataclasses.asdict(self._columns),
        }
        if split == task.PREDICT and has_labels:
            made_from["has_labels"] = True
        return [
            task.DataSet(
                split=split,
                kind="multiple choice",
                made_from=made_from,
                features=swag.record_features(
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
    ) -> "objective.ClassificationObjective":
        from bert.tasks.classification import objective
        from modeling import heads

        model = heads.BertForMultipleChoice(config)
        return objective.ClassificationObjective(
            model, self.label_set.problem_type
        )

    def write_answers(
        self,
        data: task.Records[None],
        answers: labeled_task.Answers,
        output_dir: str,
    ) -> None:
        if data.data_set.split == task.EVAL:
            return
        if not data.data_set.has_labels:
            task.remove_scores(data.data_set, output_dir)
        files = {
            "test_results.tsv": predictions.result_lines(answers.outputs),
            "predictions.csv": swag.prediction_lines(
                self.label_set, answers.outputs
            ),
        }
        writing.write_files(output_dir, files)


def _find(options: Any, split: str) -> str:
    """Returns the path of the file of a split, which must exist."""
    path = os.path.join(options.data_dir, getattr(options, f"{split}_file"))
    if not paths.exists(path):
        raise FileNotFoundError(
            f"File not found: {path}. Pass --data_dir, and --{split}_file if "
            "the file has a different name.",
        )
    return path
