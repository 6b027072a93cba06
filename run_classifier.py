r"""Fine-tunes BERT to label or score sentences and pairs of sentences.

Examples:

  python run_classifier.py \
    --task_name=MRPC --data_dir=/data/glue/MRPC \
    --vocab_file=$BERT/vocab.txt --bert_config_file=$BERT/bert_config.json \
    --init_checkpoint=$BERT/bert_model.ckpt --output_dir=/data/mrpc_output \
    --do_train --do_eval --do_predict

  python run_classifier.py \
    --task_name=custom --data_dir=/data/reviews \
    --text_a_column=review --label_column=stars ...

The tasks are those of GLUE, XNLI, and `custom`: train, dev and test files of
your own in TSV, CSV or JSON Lines. Stop the program at any time and run the
same command again: it goes on where it stopped.
"""

import dataclasses
import functools
import os
from typing import TYPE_CHECKING, Any

from commands import program
from files import writing
from tasks import labelled, task
from tasks.classification import (
    datasets,
    predictions,
    sentence_flags,
    submission,
)
from training import flags as training_flags
from training import option_checks, run_card, trials
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


class SentenceClassification(labelled.LabelledTask):
    """A label, several labels or a score for each text or pair.

    Args:
        options: of the run.
        tokenizer: of the model.

    Raises:
        OSError: a file of the task is missing.
        ValueError: there is no such task, or its files are not as the options
            say.
    """

    def __init__(self, options: Options, tokenizer: tokenization.FullTokenizer):
        super().__init__(options)
        self._tokenizer = tokenizer
        self._info = info = sentence_flags.find_dataset(
            options, options.output_dir, is_training=options.do_train
        )
        self.label_set, self.metric_names = info.label_set, info.metrics
        self.name = f"{info.name}, {info.label_set.problem_type}"
        self.labels = info.label_set.to_dict()
        splits = {
            task.TRAIN: [info.train],
            task.EVAL: info.dev,
            task.PREDICT: info.test,
        }
        packing = sentence_flags.packing(options, options.max_seq_length)
        self._files = {
            split: datasets.find_files(
                info, splits[split], options.data_dir, packing
            )
            for split in option_checks.needed_splits(options)
        }

    def data_sets(self, split: str) -> list[task.DataSet]:
        from training import records

        features = records.classification_features(
            self.options.max_seq_length,
            self.label_set.problem_type,
            self.label_set.num_outputs,
        )
        has_labels = split != task.PREDICT
        return [
            task.DataSet(
                split=split,
                name=split + file.suffix,
                suffix=file.suffix,
                kind="classification",
                made_from=file.origin(),
                features=features,
                examples=functools.partial(
                    file.records, self._tokenizer, with_labels=has_labels
                ),
                has_labels=has_labels,
                content=file.split,
            )
            for file in self._files[split]
        ]

    def make_objective(self, config: "config_lib.BertConfig") -> Any:
        from modeling import heads
        from training import objectives

        model = heads.BertForSequenceClassification(
            config,
            num_labels=self.label_set.num_outputs,
            **self.options.head_arguments,
        )
        return objectives.Classification(model, self.label_set.problem_type)

    def write_answers(
        self, data: task.Data, answers: labelled.Answers, output_dir: str
    ) -> None:
        files = predictions.result_files(
            self._info, data.content, data.data_set.suffix, answers.outputs
        )
        for name, lines in files.items():
            with writing.whole_file(os.path.join(output_dir, name)) as file:
                file.writelines(lines)
        if self.options.write_submission:
            submission.add_to_zip(
                self.options.write_submission,
                predictions.submitted(data.content, files),
            )


def run(options: Options) -> None:
    """Trains, evaluates and predicts as the options say.

    Raises:
        OSError: a file cannot be opened.
        ValueError: the options, files and checkpoints do not fit together.
    """
    options = trials.with_best_trial(options)
    tokenizer = tokenization.open_tokenizer(options, "[UNK]", "[CLS]", "[SEP]")
    config = option_checks.check_task(options, tokenizer.vocab_size)
    learnt = SentenceClassification(options, tokenizer)
    option_checks.check_weights(options)
    from training import fine_tuning

    fine_tuning.run(learnt, config, tokenizer)


def main(options: Options) -> None:
    """Runs the script with its flags."""
    run_card.record(run, options)


if __name__ == "__main__":
    program.start(Options, main)
