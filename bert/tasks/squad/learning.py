"""Question answering as it is learned: data sets, model, answers, scores."""

import dataclasses
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import logging

from bert.commands import flags
from bert.files import paths, progress, run_files
from bert.models import description as description_lib
from bert.models import folder as folder_lib
from bert.tasks import sentence_pairs, task
from bert.tasks.squad import (
    answer_files,
    answer_ranking,
    question_files,
    window_features,
)
from bert.tasks.squad import options as squad_options
from modeling import config as config_lib
from vocab import tokenization

if TYPE_CHECKING:
    from bert.tasks.squad import objective

_Ranked = Sequence[answer_ranking.RankedAnswers]


class QuestionAnsweringTask(task.Task[None, _Ranked]):
    """Extractive question answering: a span of the paragraph, or no answer.

    Raises:
        OSError: a file is missing.
        ValueError: a file is not in SQuAD format, or has the wrong version.
    """

    kind = description_lib.QUESTION_ANSWERING
    metric = "f1"  # Reported for both versions.

    options: Any

    def __init__(
        self,
        options: Any,
        tokenizer: tokenization.FullTokenizer,
        trained: folder_lib.ModelFolder | None = None,
    ):
        super().__init__(options, tokenizer, trained)
        if options.verbose_logging:
            logging.set_verbosity(logging.DEBUG)
        if options.do_train:
            paths.check_readable(flags.needed(options.train_file, "train_file"))
        if {task.EVAL, task.PREDICT} & {*options.needed_splits}:
            self._questions, self._gold = question_files.read_questions(
                flags.needed(options.predict_file, "predict_file"),
                version_2_with_negative=options.version_2_with_negative,
                # The best threshold needs them too.
                with_gold=task.EVAL in options.needed_splits
                or options.null_score_diff_threshold == squad_options.AUTO,
            )

    @property
    def description(self) -> description_lib.Description:
        options = self.options
        return description_lib.Description(
            version_2_with_negative=options.version_2_with_negative,
            null_score_diff_threshold=options.null_score_diff_threshold,
            packing=options.packing,
        )

    @functools.cached_property
    def _features(self) -> list[list[window_features.SquadFeatures]]:
        """The windows of each question to answer."""
        features = list(self._windows(self._questions, "eval questions"))
        num_windows = sum(map(len, features))
        logging.info("%d questions, %d windows", len(features), num_windows)
        return features

    def _windows(
        self, examples: Sequence[question_files.SquadExample], name: str
    ) -> Iterator[list[window_features.SquadFeatures]]:
        """Yields the windows of each question, and logs how many were cut."""
        windows, counts = (
            self.options.windows,
            sentence_pairs.TruncationCounts(),
        )
        yield from window_features.convert_examples_to_features(
            examples,
            self.tokenizer,
            windows,
            progress=progress.Progress(),
            counts=counts,
        )
        counts.log(name, windows.max_query_length, "--max_query_length")

    def data_sets(self, split: str) -> list[task.DataSet[None]]:
        options, is_training = self.options, split == task.TRAIN
        made_from: dict[str, object] = {
            "version_2_with_negative": options.version_2_with_negative,
            **dataclasses.asdict(options.windows),
        }
        if is_training:
            path = flags.needed(options.train_file, "train_file")
            made_from["answer_alignment"] = options.answer_alignment
            questions = question_files.read_training_examples(
                path,
                version_2_with_negative=options.version_2_with_negative,
                answer_alignment=options.answer_alignment,
            )
        else:
            path = flags.needed(options.predict_file, "predict_file")
            # Weights in best/ are compared by one measure.
            made_from["scoring"] = options.scoring
            questions = self._questions
        return [
            task.DataSet(
                split=split,
                name="train" if is_training else "eval",
                kind="squad training" if is_training else "squad prediction",
                made_from={"data_sha256": paths.sha256(path), **made_from},
                features=window_features.record_features(
                    options.max_seq_length, is_training=is_training
                ),
                examples=lambda: (
                    [window.record() for window in windows]
                    for windows in (
                        self._windows(questions, "train questions")
                        if is_training
                        else self._features
                    )
                ),
                has_labels=split != task.PREDICT,
                # As released: a question counts once, not once per window.
                counts_examples=True,
            )
        ]

    def make_objective(
        self, config: config_lib.BertConfig
    ) -> "objective.SpanExtraction":
        from bert.tasks.squad import objective
        from modeling import heads

        model = heads.BertForQuestionAnswering(
            config,
            causal=self.options.is_causal,
            bilstm_head=self.options.bilstm_head,
        )
        return objective.SpanExtraction(model)

    def decode(
        self, data: task.Records[None], outputs: Mapping[str, np.ndarray]
    ) -> _Ranked:
        logits = {}
        if outputs:  # All paragraphs may be empty.
            columns = outputs["start_logits"], outputs["end_logits"]
            unique_ids = outputs["unique_ids"].tolist()
            logits = {
                unique_id: np.stack(scores)
                for unique_id, *scores in zip(unique_ids, *columns, strict=True)
            }
        return answer_ranking.rank_answers(
            self._questions,
            self._features,
            logits,
            self.options,
            self.tokenizer.basic_tokenizer,
            without_padding=self.options.packing,
        )

    def metrics(
        self, data: task.Records[None], answers: _Ranked
    ) -> dict[str, float]:
        return answer_files.score(
            self._gold,
            self._decide(answers),
            version_2_with_negative=self.options.version_2_with_negative,
            scoring=self.options.scoring,
        )

    def results(
        self, data: task.Records[None], answers: _Ranked
    ) -> dict[str, float]:
        return self.metrics(data, answers)

    def _decide(self, answers: _Ranked) -> answer_files.Decisions:
        return answer_files.decide(
            answers,
            self.options.null_score_diff_threshold,
            self._gold,
            self.options.scoring,
        )

    def write_answers(
        self, data: task.Records[None], answers: _Ranked, output_dir: str
    ) -> None:
        if data.data_set.split != task.PREDICT:
            return
        decisions = self._decide(answers)
        answer_files.write(output_dir, answers, decisions)
        if self.options.null_score_diff_threshold == squad_options.AUTO:
            if self.options.use_best_checkpoint:
                output_dir = os.path.join(output_dir, run_files.BEST)
            threshold = decisions.threshold
            folder_lib.update(output_dir, null_score_diff_threshold=threshold)
