"""Tagging as it is learned: data sets, model, answers, scores."""

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from absl import logging

from bert.files import paths, writing
from bert.models import description as description_lib
from bert.models import folder as folder_lib
from bert.tasks import task
from bert.tasks.tagging import (
    conll,
    entities,
    tag_schemes,
    tagged_files,
    windows,
)
from modeling import config as config_lib
from vocab import tokenization

if TYPE_CHECKING:
    import numpy as np

    from bert.tasks.tagging import objective


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Answers:
    """Predicted tags of each sentence, and the loss per word."""

    tags: Sequence[tuple[str, ...]]
    loss: float


class TaggingTask(task.Task[conll.ColumnFile, _Answers]):
    """Token classification, with a fine-tuned or a frozen encoder.

    Raises:
        OSError: a file is missing.
        ValueError: a file does not match the options.
    """

    kind = description_lib.TAGGING

    options: Any
    tokenizer: tokenization.FullTokenizer

    def __init__(
        self,
        options: Any,
        tokenizer: tokenization.FullTokenizer,
        trained: folder_lib.ModelFolder | None = None,
    ):
        super().__init__(options, tokenizer, trained)
        self._files = tagged_files.read(options, options.needed_splits, trained)
        self._labels = self._files.labels

    @property
    def metric(self) -> str:
        return "f1" if self._labels.have_entities else "accuracy"

    @property
    def description(self) -> description_lib.Description:
        options = self.options
        return description_lib.Description(
            labels=self._labels.names,
            features=options.features,
            # The flags may leave open what the files decide.
            flags={
                "context": self._files.context,
                "scheme": self._files.scheme,
            },
        )

    def data_sets(self, split: str) -> list[task.DataSet[conll.ColumnFile]]:
        file, options = self._files.by_split[split], self.options
        return [
            task.DataSet(
                split=split,
                kind="tagging",
                made_from={
                    "data_sha256": paths.sha256(file.path),
                    "columns": options.columns,
                    "scheme": self._files.scheme,
                    "context": options.context,
                    "labels": self._labels.names,
                },
                features=windows.record_features(options.max_seq_length),
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
        for parts in windows.make_windows(
            file.sentences, label_ids, self.tokenizer, length
        ):
            yield [window.record(length) for window in parts]

    def make_objective(
        self, config: config_lib.BertConfig
    ) -> "objective.TaggingObjective":
        from bert.tasks.tagging import objective
        from modeling import heads

        model = heads.BertForTokenClassification(
            config,
            num_labels=len(self._labels.names),
            features=self.options.features,
            causal=self.options.is_causal,
            bilstm_head=self.options.bilstm_head,
        )
        return objective.TaggingObjective(model)

    def decode(
        self,
        data: task.Records[conll.ColumnFile],
        outputs: "Mapping[str, np.ndarray]",
    ) -> _Answers:
        names = windows.split_labels(
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
            # The answers to labeled data stay.
            prefix = os.path.splitext(os.path.basename(file.path))[0]
            if prefix.lower() == task.RESULTS_PREFIX[task.EVAL]:
                prefix = f"unlabeled_{prefix}"
            elif prefix == task.RESULTS_PREFIX[task.PREDICT]:
                task.remove_scores(data.data_set, output_dir)
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
