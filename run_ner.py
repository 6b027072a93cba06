r"""Fine-tuning of BERT for token classification, such as named entities.

Examples:

  python run_ner.py \
    --data_dir=/data/conll2003 \
    --vocab_file=$BERT/vocab.txt --bert_config_file=$BERT/bert_config.json \
    --init_checkpoint=$BERT/bert_model.ckpt --output_dir=/data/ner_output \
    --do_train --do_eval --do_predict --num_trials=5

  python run_ner.py --features=concat_last_four ...

The second command freezes BERT and trains a BiLSTM on its hidden layers. Files
have one word and its tag per line, as in CoNLL-2003. After an interruption, run
the same command again: training resumes from the last checkpoint.
"""

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from absl import logging

from commands import flags, program
from files import paths, writing
from modeling import config as config_lib
from tasks import task
from tasks.tagging import conll, entities, ner, tag_schemes
from training import fine_tuning, model_folder, records, run_record
from training import flags as training_flags
from vocab import tokenization


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(
    training_flags.AblationOptions,
    training_flags.TaggingOptions,
    ner.NerOptions,
):
    """The flags of this script; see --help."""

    def __post_init__(self):
        super().__post_init__()
        if self.features and self.bilstm_head:
            raise ValueError(
                "--features has a BiLSTM of its own; pass no --bilstm_head "
                "with it."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Answers:
    """Predicted tags of each sentence, and the loss per word."""

    tags: Sequence[tuple[str, ...]]
    loss: float


class Tagging(task.Task[conll.ColumnFile, _Answers]):
    """Token classification, with a fine-tuned or a frozen encoder.

    Raises:
        OSError: a file is missing.
        ValueError: a file does not match the options.
    """

    kind = model_folder.TAGGING
    metric = "f1"

    def __init__(self, options: Options, tokenizer: tokenization.FullTokenizer):
        super().__init__(options, tokenizer)
        self._files = {
            split: ner.read(options, split) for split in options.needed_splits
        }
        self._scheme = _find_scheme(options, self._files)
        train = self._files.get(task.TRAIN)
        self._names = _find_labels(options, train, self._scheme)
        logging.info("Labels: %s", ", ".join(self._names))

    @property
    def description(self) -> Mapping[str, Any]:
        return {
            "labels": list(self._names),
            "context": self.options.context,
            "scheme": self._scheme,
            "features": self.options.features,
        }

    def data_sets(self, split: str) -> list[task.DataSet[conll.ColumnFile]]:
        file, options = self._files[split], self.options
        ids = {label: number for number, label in enumerate(self._names)}
        if file.tags or split != task.PREDICT:
            file = tag_schemes.convert_file(file, self._scheme, self._names)
        label_ids = [
            [ids[tag] for tag in s.tags or [tag_schemes.OUTSIDE] * len(s.words)]
            for s in file.sentences
        ]
        return [
            task.DataSet(
                split=split,
                name=split,
                kind="tagging",
                made_from={
                    "data_sha256": paths.sha256(file.path),
                    "columns": options.columns,
                    "scheme": self._scheme,
                    "context": options.context,
                    "labels": self._names,
                },
                features=records.tagging_features(options.max_seq_length),
                examples=lambda: self._records(file, label_ids),
                has_labels=bool(file.tags),
                content=file,
            )
        ]

    def _records(self, file, label_ids) -> Iterator[list[Any]]:
        length = self.options.max_seq_length
        for windows in ner.make_windows(
            file.sentences, label_ids, self.tokenizer, length
        ):
            yield [window.record(length) for window in windows]

    def make_objective(self, config: config_lib.BertConfig) -> Any:
        from modeling import heads
        from training import objectives

        model = heads.BertForTokenClassification(
            config,
            num_labels=len(self._names),
            features=self.options.features,
            **self.options.head_arguments,
        )
        return objectives.Tagging(model)

    def decode(
        self, data: task.Records[conll.ColumnFile], outputs: Mapping[str, Any]
    ) -> _Answers:
        tags = ner.split_labels(
            outputs["label_ids"],
            outputs["label_mask"],
            data.data_set.content.sentences,
            self._names,
        )
        num_words = sum(map(len, tags))
        return _Answers(
            tags=tags, loss=float(outputs["losses"].sum()) / num_words
        )

    def metrics(
        self, data: task.Records[conll.ColumnFile], answers: _Answers
    ) -> dict[str, float]:
        scores = entities.score(data.data_set.content.tags, answers.tags)
        return {**scores.metrics(by_type=False), "loss": answers.loss}

    def results(
        self, data: task.Records[conll.ColumnFile], answers: _Answers
    ) -> dict[str, float]:
        scores = entities.score(data.data_set.content.tags, answers.tags)
        split = data.data_set.split
        results = {
            f"{task.RESULTS_PREFIX[split]}_{name}": value
            for name, value in scores.metrics().items()
        }
        if split == task.EVAL:
            results["eval_loss"] = answers.loss
        return results

    def write_answers(
        self,
        data: task.Records[conll.ColumnFile],
        answers: _Answers,
        output_dir: str,
    ) -> None:
        file = data.data_set.content
        prefix = task.RESULTS_PREFIX[data.data_set.split]
        if not file.tags:
            # Beside the scores of labelled test data, which stay.
            prefix = os.path.splitext(os.path.basename(file.path))[0]
        files: dict[str, Iterable[str]] = {
            f"{prefix}_predictions.txt": conll.prediction_lines(
                file.sentences, answers.tags
            )
        }
        if file.tags:
            report = entities.score(file.tags, answers.tags).report()
            logging.info("%s\n%s", file.path, report)
            files[f"{prefix}_report.txt"] = [report]
        writing.write_files(output_dir, files)


def _find_scheme(
    options: Options, files: Mapping[str, conll.ColumnFile]
) -> str:
    """Returns the scheme of all files: given, or that of the training file.

    Without training and the scheme of the model, it is that of a file at hand.
    """
    if options.scheme != tag_schemes.AUTO:
        return options.scheme
    tagged = [file for file in files.values() if file.tags]
    return tag_schemes.detect(tagged[0]) if tagged else tag_schemes.IOB


def _find_labels(
    options: Options, train: conll.ColumnFile | None, scheme: str
) -> tuple[str, ...]:
    known = model_folder.known(options)
    if "labels" in known:
        return tuple(known["labels"])
    if train is None:
        raise ValueError(
            f"{known['folder']} does not say the labels of its model. Add them "
            f'to its task.json: {{"labels": ["O", ...]}}.'
        )
    found = tag_schemes.labels_of(tag_schemes.convert_file(train, scheme).tags)
    if found == (tag_schemes.OUTSIDE,):
        raise ValueError(
            f"{train.path}: expected at least one entity; every tag is O. "
            "Check --columns."
        )
    return found


def run(options: Options) -> None:
    """Trains, evaluates and predicts according to the options."""
    # A model that is not trained keeps the flags of its training.
    options = fine_tuning.follow_model(options, Tagging.kind, flags.given())
    fine_tuning.run(Tagging, options, tokenization.open_tokenizer(options))


if __name__ == "__main__":
    program.start(Options, run_record.recorded(run))
