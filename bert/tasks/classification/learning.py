"""Classification as it is learned: data sets, model, answers."""

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from bert.commands import flags
from bert.files import writing
from bert.models import description as description_lib
from bert.models import folder as folder_lib
from bert.tasks import needs, sentence_pairs, task
from bert.tasks.classification import (
    class_labels,
    custom,
    dataset_choice,
    datasets,
    glue,
    labeled_task,
    predictions,
    report,
    text_examples,
)
from bert.tasks.classification import options as options_lib
from modeling import config as config_lib
from vocab import tokenization

if TYPE_CHECKING:
    from bert.tasks.classification import objective


class ClassificationTask(labeled_task.LabeledTask[datasets.TextFile]):
    """Classification or regression of texts and pairs of texts.

    Raises:
        OSError: a file of the task is missing.
        ValueError: the task is unknown, or its files do not match the options.
    """

    kind = description_lib.CLASSIFICATION

    options: Any

    def __init__(
        self,
        options: Any,
        tokenizer: tokenization.FullTokenizer,
        trained: folder_lib.ModelFolder | None = None,
    ):
        super().__init__(options, tokenizer, trained)
        info = dataset_choice.find_dataset(
            options, _stated_labels(options, trained)
        )
        self.label_set, self.metric_names = info.label_set, info.metrics
        self._name = info.name
        self._files = {
            split: datasets.find_files(
                info, split, options.data_dir, options.dev_fraction
            )
            for split in options.needed_splits
        }
        self._truncation = flags.narrow(sentence_pairs.Truncation, options)
        self._class_weights: tuple[float, ...] = ()
        if options.do_train and options.class_weights:
            # Read only for balanced weights.
            train_labels = (
                label
                for file in self._files[task.TRAIN]
                for label in datasets.labels_of(file.examples())
            )
            self._class_weights = class_labels.class_weights(
                options.class_weights, self.label_set, train_labels
            )

    @property
    def description(self) -> description_lib.Description:
        of_xnli = ("xnli_language", "xnli_mode")
        of_custom = ("text_a_column", "text_b_column", "label_column")
        # Flags of other data sets are not stated.
        others = {glue.XNLI: of_custom, custom.NAME: of_xnli}.get(
            self._name, of_xnli + of_custom
        )
        return description_lib.Description(
            name=self._name,
            problem_type=self.label_set.problem_type,
            labels=self.label_set.names,
            flags=dict.fromkeys(others),
        )

    def data_sets(self, split: str) -> list[task.DataSet[datasets.TextFile]]:
        return [self._data_set(split, file) for file in self._files[split]]

    def _data_set(
        self, split: str, file: datasets.TextFile
    ) -> task.DataSet[datasets.TextFile]:
        return task.DataSet(
            split=split,
            suffix=file.split.suffix,
            kind="classification",
            made_from=file.made_from() | dataclasses.asdict(self._truncation),
            features=text_examples.record_features(
                self.options.max_seq_length,
                task.label_feature(
                    self.label_set.problem_type, self.label_set.num_outputs
                ),
            ),
            examples=lambda: text_examples.records(
                file.examples(),
                self.label_set,
                self._truncation,
                self.tokenizer,
                file.path,
            ),
            has_labels=file.has_labels,
            content=file,
        )

    def make_objective(
        self, config: config_lib.BertConfig
    ) -> "objective.ClassificationObjective":
        from bert.tasks.classification import objective
        from modeling import heads

        model = heads.BertForSequenceClassification(
            config,
            num_labels=self.label_set.num_outputs,
            causal=self.options.is_causal,
            bilstm_head=self.options.bilstm_head,
        )
        return objective.ClassificationObjective(
            model, self.label_set.problem_type, self._class_weights
        )

    def write_answers(
        self,
        data: task.Records[datasets.TextFile],
        answers: labeled_task.Answers,
        output_dir: str,
    ) -> None:
        file = data.data_set.content
        examples = file.examples()
        if file.has_labels:
            rows = self.labeled_rows(data)
            report.write(
                data.data_set,
                [example for example in examples if example.label is not None],
                self.label_ids(data)[rows],
                labeled_task.Answers(
                    outputs=answers.outputs[rows], losses=answers.losses[rows]
                ),
                output_dir,
            )
        else:
            task.remove_scores(data.data_set, output_dir)
        if data.data_set.split == task.EVAL:
            return
        suffix, outputs = file.split.suffix, answers.outputs
        files: dict[str, Iterable[str]] = {
            f"test_results{suffix}.tsv": predictions.result_lines(outputs),
            f"predictions{suffix}.jsonl": predictions.prediction_lines(
                self.label_set, outputs, examples
            ),
            f"predictions{suffix}.csv": predictions.table_lines(
                self.label_set, outputs, examples, has_labels=file.has_labels
            ),
        }
        if name := file.split.submission:
            chosen = predictions.predicted_labels(self.label_set, outputs)
            files[f"{name}.tsv"] = glue.submission_lines(chosen)
        writing.write_files(output_dir, files)

    def labeled_rows(
        self, data: task.Records[datasets.TextFile]
    ) -> np.ndarray | slice:
        if data.data_set.split == task.EVAL:
            return slice(None)  # The others were left out.
        return data.data_set.content.labeled_places


def _stated_labels(
    options: options_lib.SentenceOptions, trained: folder_lib.ModelFolder | None
) -> class_labels.LabelSet | None:
    """Returns what the folder of a trained model says about its outputs.

    Args:
        options: the flags.
        trained: the model, if it is not trained now.

    Returns:
        None if the model is trained now; if the flags say it; or if another
        program than Hugging Face's trained the model for a task of GLUE or
        XNLI: the order is then that of the original program.

    Raises:
        ValueError: nobody says it.
    """
    if trained is None or trained.description.task not in (
        None,
        ClassificationTask.kind,
    ):
        return None
    description = trained.description
    num_outputs = len(description.labels or ()) or 1
    needs.check_outputs(description, num_outputs, trained.path)
    is_score = description.problem_type == task.REGRESSION
    if is_score and description.activation == needs.SIGMOID:
        raise ValueError(
            f"{trained.path}: this script answers with scores before an "
            "activation; the files of the model state sigmoid. tools.predict "
            "and tools.export_model apply it."
        )
    if description.labels or description.problem_type == task.REGRESSION:
        return class_labels.LabelSet(
            problem_type=description.problem_type or task.SINGLE_LABEL,
            names=description.labels or (),
        )
    advice = (
        "Pass --label_names in the order of its outputs, and --problem_type "
        "if it is not single_label."
    )
    is_scored = options.problem_type == task.REGRESSION
    if options.task_name.lower() != custom.NAME:
        info = glue.find_dataset(options.task_name, others=(custom.NAME,))
        if trained.is_release is not False:
            return None
        names = info.label_set.names
        is_scored = not names
        advice = (
            f"Pass --label_names: {', '.join(names)}, in the order of its "
            "outputs."
        )
    if options.label_names or is_scored:
        return None
    raise ValueError(
        f"{trained.path} does not say the labels of its model. {advice}"
    )
