r"""Fine-tuning of BERT for token classification, such as named entities.

Examples:

  python run_ner.py \
    --data_dir=/data/conll2003 \
    --init_checkpoint=$BERT --output_dir=/data/ner_output \
    --do_train --do_eval --do_predict --num_trials=5

  python run_ner.py --features=concat_last_four ...

The second command freezes BERT and trains a BiLSTM on its hidden layers. Files
have one word and its tag per line, as in CoNLL-2003. After an interruption, run
the same command again: training resumes from the last checkpoint.
"""

import collections
import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from absl import logging

from bert.files import messages, paths, writing
from bert.models import description as description_lib
from bert.models import folder as folder_lib
from bert.records import schema
from bert.tasks import task
from bert.tasks.tagging import (
    conll,
    entities,
    ner,
    tag_schemes,
    tagger_labels,
)
from bert.training import fine_tuning
from bert.training import options as training_options
from modeling import config as config_lib
from vocab import tokenization

if TYPE_CHECKING:
    import numpy as np

    from bert.training import objectives


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(
    training_options.AblationOptions,
    training_options.TaggingOptions,
    ner.NerOptions,
):
    """The flags of this script; see --help."""

    def __post_init__(self) -> None:
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

    kind = description_lib.TAGGING

    options: Options
    tokenizer: tokenization.FullTokenizer

    def __init__(
        self,
        options: Options,
        tokenizer: tokenization.FullTokenizer,
        trained: folder_lib.ModelFolder | None = None,
    ):
        super().__init__(options, tokenizer, trained)
        files = {
            split: ner.read(options, split) for split in options.needed_splits
        }
        self._scheme = _find_scheme(options, files)
        # Tags of entities are in IOB2 from here on.
        self._files = {
            split: ner.convert_tags(file, self._scheme)
            if file.tags or split != task.PREDICT
            else file
            for split, file in files.items()
        }
        self._labels = _find_labels(
            trained, self._files.get(task.TRAIN), self._scheme
        )
        logging.info("Labels: %s", ", ".join(self._labels.names))
        for file in self._files.values():
            _warn_of_unknown_types(file, self._labels)

    @property
    def metric(self) -> str:
        return "f1" if self._labels.have_entities else "accuracy"

    @property
    def description(self) -> description_lib.Description:
        options = self.options
        return description_lib.Description(
            labels=self._labels.names,
            context=options.context,
            columns=options.columns,
            scheme=self._scheme,
            features=options.features,
        )

    def data_sets(self, split: str) -> list[task.DataSet[conll.ColumnFile]]:
        file, options = self._files[split], self.options
        return [
            task.DataSet(
                split=split,
                kind="tagging",
                made_from={
                    "data_sha256": paths.sha256(file.path),
                    "columns": options.columns,
                    "scheme": self._scheme,
                    "context": options.context,
                    "labels": self._labels.names,
                },
                features=schema.tagging_features(options.max_seq_length),
                examples=lambda: self._records(file),
                has_labels=bool(file.tags),
                content=file,
            )
        ]

    def _records(
        self, file: conll.ColumnFile
    ) -> Iterator[list[dict[str, list[int]]]]:
        length = self.options.max_seq_length
        label_ids = [
            self._labels.encode(s.tags or [tag_schemes.OUTSIDE] * len(s.words))
            for s in file.sentences
        ]
        for windows in ner.make_windows(
            file.sentences, label_ids, self.tokenizer, length
        ):
            yield [window.record(length) for window in windows]

    def make_objective(
        self, config: config_lib.BertConfig
    ) -> "objectives.Tagging":
        from bert.training import objectives
        from modeling import heads

        model = heads.BertForTokenClassification(
            config,
            num_labels=len(self._labels.names),
            features=self.options.features,
            causal=self.options.is_causal,
            bilstm_head=self.options.bilstm_head,
        )
        return objectives.Tagging(model)

    def decode(
        self,
        data: task.Records[conll.ColumnFile],
        outputs: "Mapping[str, np.ndarray]",
    ) -> _Answers:
        names = ner.split_labels(
            outputs["label_ids"],
            outputs["label_mask"],
            data.data_set.content.sentences,
            self._labels.names,
        )
        num_words = sum(map(len, names))
        return _Answers(
            tags=[self._labels.decode(sentence) for sentence in names],
            loss=float(outputs["losses"].sum()) / num_words,
        )

    def metrics(
        self, data: task.Records[conll.ColumnFile], answers: _Answers
    ) -> dict[str, float]:
        scores = self._scores(data, answers, by_type=False)
        return {**scores, "loss": answers.loss}

    def results(
        self, data: task.Records[conll.ColumnFile], answers: _Answers
    ) -> dict[str, float]:
        split = data.data_set.split
        results = {
            f"{task.RESULTS_PREFIX[split]}_{name}": value
            for name, value in self._scores(data, answers).items()
        }
        if split == task.EVAL:
            results["eval_loss"] = answers.loss
        return results

    def _scores(
        self,
        data: task.Records[conll.ColumnFile],
        answers: _Answers,
        *,
        by_type: bool = True,
    ) -> dict[str, float]:
        tags = data.data_set.content.tags
        if self._labels.have_entities:
            return entities.score(tags, answers.tags).metrics(by_type=by_type)
        return {"accuracy": entities.accuracy(tags, answers.tags) / 100}

    def write_answers(
        self,
        data: task.Records[conll.ColumnFile],
        answers: _Answers,
        output_dir: str,
    ) -> None:
        file = data.data_set.content
        prefix = task.RESULTS_PREFIX[data.data_set.split]
        if not file.tags:
            # Beside the scores of labeled data, which stay.
            prefix = os.path.splitext(os.path.basename(file.path))[0]
            if prefix.lower() == task.RESULTS_PREFIX[task.EVAL]:
                prefix = f"unlabeled_{prefix}"
        files: dict[str, Iterable[str]] = {
            f"{prefix}_predictions.txt": conll.prediction_lines(
                file.sentences, answers.tags
            )
        }
        if file.tags and self._labels.have_entities:
            report = entities.score(file.tags, answers.tags).report()
            logging.info("%s\n%s", file.path, report)
            files[f"{prefix}_report.txt"] = [report]
        writing.write_files(output_dir, files)


def _find_scheme(
    options: Options, files: Mapping[str, conll.ColumnFile]
) -> str:
    """Finds the scheme of all files: by flag, or that of the training file.

    Without training, and unless the model states it, the other files decide;
    `AUTO` stays if they have no tags.
    """
    train = files.get(task.TRAIN)
    deciding = [train] if train else list(files.values())
    tags = {tag for f in deciding for sentence in f.tags for tag in sentence}
    if options.scheme != tag_schemes.AUTO or not tags:
        return options.scheme
    return tag_schemes.decide(
        tags, source=", ".join(file.path for file in deciding if file.tags)
    )


def _find_labels(
    trained: folder_lib.ModelFolder | None,
    train: conll.ColumnFile | None,
    scheme: str,
) -> tagger_labels.TaggerLabels:
    """Returns the labels of the model, or those of the training file."""
    if trained is not None and trained.description.labels:
        labels = tagger_labels.of_model(
            trained.description.labels, trained.path, scheme
        )
        if not labels.have_entities and scheme in tag_schemes.OF_ENTITIES:
            raise ValueError(
                f"The labels of {trained.path} are of single words, and the "
                f"tags of the files mark entities (--scheme={scheme})."
            )
        return labels
    if train is None:
        folder = trained.path if trained else "No folder"
        raise ValueError(
            f"{folder} does not say the labels of its model. Add them to its "
            'task.json: {"labels": ["O", ...]}.'
        )
    labels = tagger_labels.of_tags(train.tags, scheme)
    if len(labels.names) < 2:
        raise ValueError(
            f"{train.path}: expected at least one entity, or two tags of "
            f"words; every tag is {labels.names[0]}. Check --columns."
        )
    return labels


def _warn_of_unknown_types(
    file: conll.ColumnFile, labels: tagger_labels.TaggerLabels
) -> None:
    if labels.have_entities:
        unit = "entities are of types"
        types = collections.Counter(
            entity.kind
            for tags in file.tags
            for entity in entities.find_entities(tags)
        )
    else:
        unit = "words have tags"
        types = collections.Counter(itertools.chain(*file.tags))
    known = {kind or entities.UNTYPED for kind in labels.types}
    if unknown := sorted(types.keys() - known):
        logging.warning(
            "%s: %d of %d %s that the model was not trained on (%s). They "
            "count as missed. It knows %s.",
            file.path,
            sum(types[kind] for kind in unknown),
            types.total(),
            unit,
            messages.listed(unknown),
            messages.listed(sorted(known)),
        )


def run(options: Options) -> None:
    """Trains, evaluates and predicts according to the options."""
    fine_tuning.run(Tagging, options)


if __name__ == "__main__":
    fine_tuning.main(Tagging, Options)
