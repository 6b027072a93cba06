r"""Fine-tuning of BERT to classify or score sentences and sentence pairs.

Examples:

  python run_classifier.py \
    --task_name=MRPC --data_dir=/data/glue/MRPC \
    --vocab_file=$BERT/vocab.txt --bert_config_file=$BERT/bert_config.json \
    --init_checkpoint=$BERT/bert_model.ckpt --output_dir=/data/mrpc_output \
    --do_train --do_eval --do_predict

  python run_classifier.py \
    --task_name=custom --data_dir=/data/reviews \
    --text_a_column=review --label_column=stars ...

The tasks are those of GLUE, XNLI, and `custom` for your own train, dev and test
files in TSV, CSV or JSON Lines. After an interruption, run the same command
again: training resumes from the last checkpoint.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from commands import program
from files import paths, run_files, writing
from tasks import task
from tasks.classification import (
    datasets,
    glue,
    labels,
    predictions,
    report,
    sentence_flags,
    sentence_pairs,
)
from training import fine_tuning, model_folder, run_card
from training import flags as training_flags
from vocab import tokenization

if TYPE_CHECKING:
    from modeling import config as config_lib


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(
    training_flags.AblationOptions,
    training_flags.SequenceOptions,
    sentence_flags.SentenceOptions,
):
    """The flags of this script; see --help."""

    @property
    def has_several_runs(self) -> bool:
        return bool(self.num_folds) or super().has_several_runs


class SentenceClassification(predictions.LabeledTask):
    """Classification or regression of texts and pairs of texts.

    Raises:
        OSError: a file of the task is missing.
        ValueError: the task is unknown, or its files do not match the options.
    """

    def __init__(self, options: Options, tokenizer: tokenization.FullTokenizer):
        super().__init__(options, tokenizer)
        if options.tune_thresholds and not options.do_eval:
            raise ValueError(
                "--tune_thresholds tunes on evaluated data: pass --do_eval too."
            )
        info = sentence_flags.find_dataset(
            options,
            options.output_dir,
            is_training=options.do_train,
            read_beside=lambda: model_folder.labels_beside(
                options.init_checkpoint
            ),
        )
        if options.write_submission and not options.do_predict:
            raise ValueError(
                "--write_submission adds the predictions for the test set: "
                "pass --do_predict too."
            )
        self.label_set, self.metric_names = info.label_set, info.metrics
        self.name = f"{info.name}, {info.label_set.problem_type}"
        self.labels = info.label_set.to_dict()
        splits = {
            task.TRAIN: [info.train],
            task.EVAL: (
                [info.train] if options.splits_training_file else info.dev
            ),
            task.PREDICT: info.test,
        }
        truncation = sentence_flags.truncation(options)
        files = {
            split: datasets.find_files(
                info, splits[split], options.data_dir, truncation
            )
            for split in options.needed_splits
        }
        self._class_weights: tuple[float, ...] = ()
        if options.do_train:
            self._class_weights = sentence_flags.weights_of_labels(
                options, files[task.TRAIN][0]
            )
        self._files_of_folds = sentence_flags.split(options, files)

    @property
    def identity(self) -> Mapping[str, Any]:
        return {
            **super().identity,
            "class_weights": list(self._class_weights),
        }

    def data_sets(self, split: str) -> list[task.DataSet]:
        return self.folds(split)[0]

    def folds(self, split: str) -> list[list[task.DataSet]]:
        return [
            [self._data_set(split, file) for file in files[split]]
            for files in self._files_of_folds
        ]

    def _data_set(self, split: str, file: datasets.TextFile) -> task.DataSet:
        from training import records

        has_labels = split != task.PREDICT
        return task.DataSet(
            split=split,
            name=split + file.record_suffix,
            suffix=file.suffix,
            kind="classification",
            made_from=file.origin(),
            features=records.classification_features(
                self.options.max_seq_length,
                self.label_set.problem_type,
                self.label_set.num_outputs,
            ),
            examples=lambda: sentence_pairs.records(
                file.examples(with_labels=has_labels),
                self.label_set,
                file.truncation,
                self.tokenizer,
            ),
            has_labels=has_labels,
            held_out_rows=file.held_out_rows(),
            content=file,
        )

    def make_objective(self, config: "config_lib.BertConfig") -> Any:
        from modeling import heads
        from training import objectives

        model = heads.BertForSequenceClassification(
            config,
            num_labels=self.label_set.num_outputs,
            **self.options.head_arguments,
        )
        return objectives.Classification(
            model, self.label_set.problem_type, self._class_weights
        )

    def calibrate(
        self, data: task.Data, answers: predictions.Answers, output_dir: str
    ) -> predictions.Answers:
        if self.label_set.problem_type != task.MULTI_LABEL:
            return answers
        if self._chooses_thresholds(data):
            thresholds = predictions.best_thresholds(
                self.label_ids(data), answers.outputs
            )
        else:
            thresholds = self._saved_thresholds(output_dir)
        tuned = dataclasses.replace(answers.label_set, thresholds=thresholds)
        return dataclasses.replace(answers, label_set=tuned)

    def _saved_thresholds(self, output_dir: str) -> tuple[float, ...]:
        """Reads the thresholds saved with the weights; none if not tuned."""
        from modeling import config

        names, checkpoint = self.label_set.names, self._evaluated(output_dir)
        folders = [output_dir, config.folder_of(checkpoint)]
        if self.options.use_best_checkpoint:
            folders.reverse()
        for folder in dict.fromkeys(folders):
            path = os.path.join(folder, run_files.LABELS)
            if not paths.exists(path):
                continue
            saved = labels.load(path).for_checkpoint(checkpoint)
            # The outputs of the model are in the order of this run's labels.
            tuned = dict(zip(saved.names, saved.thresholds, strict=False))
            if tuned.keys() == set(names):
                return tuple(tuned[name] for name in names)
        return ()

    def _evaluated(self, output_dir: str) -> str:
        """Returns the checkpoint that is evaluated."""
        from modeling import checkpoints
        from training import checkpointing

        prefix = checkpointing.best_or_latest(
            output_dir, best=self.options.use_best_checkpoint
        )
        return prefix or checkpoints.find(self.options.init_checkpoint).path

    def _chooses_thresholds(self, data: task.Data) -> bool:
        is_evaluated = data.data_set.split == task.EVAL
        return self.options.tune_thresholds and is_evaluated

    def write_report(
        self, data: task.Data, answers: predictions.Answers, output_dir: str
    ) -> None:
        if self._chooses_thresholds(data):
            checkpoint = self._evaluated(output_dir)
            tuned = self.label_set.tuned(
                answers.label_set.thresholds, checkpoint
            )
            folders = {output_dir}
            if self.options.use_best_checkpoint:
                folders.add(os.path.dirname(checkpoint))
            for folder in folders:
                tuned.save(os.path.join(folder, run_files.LABELS))
        report.write(data.content, self.label_ids(data), answers, output_dir)

    def write_answers(
        self, data: task.Data, answers: predictions.Answers, output_dir: str
    ) -> None:
        split: datasets.SplitInfo = data.content.split
        files = predictions.result_files(
            answers.label_set,
            split,
            data.data_set.suffix,
            answers.outputs,
        )
        writing.write_files(output_dir, files)
        if self.options.write_submission and (name := split.submission):
            glue.add_to_zip(
                self.options.write_submission,
                {name: "".join(files[f"{name}.tsv"])},
            )


def run(options: Options) -> None:
    """Trains, evaluates and predicts according to the options."""
    tokenizer = tokenization.open_tokenizer(options)
    fine_tuning.run(SentenceClassification, options, tokenizer)


if __name__ == "__main__":
    program.start(Options, lambda options: run_card.record(run, options))
