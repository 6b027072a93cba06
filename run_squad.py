r"""Fine-tuning of BERT for extractive question answering: SQuAD 1.1 and 2.0.

Example:

  python run_squad.py \
    --bert_config_file=$BERT/bert_config.json --vocab_file=$BERT/vocab.txt \
    --init_checkpoint=$BERT/bert_model.ckpt --output_dir=/tmp/squad \
    --do_train --train_file=train-v1.1.json \
    --do_predict --do_eval --predict_file=dev-v1.1.json \
    --train_batch_size=12 --learning_rate=3e-5 --num_train_epochs=2.0

For SQuAD 2.0 add --version_2_with_negative; the flag
--null_score_diff_threshold=auto then chooses the best threshold. After an
interruption, run the same command again: training resumes from the last
checkpoint.
"""

import dataclasses
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import logging

from commands import flags, program
from files import paths, progress, result_files
from tasks import task
from tasks.squad import (
    squad_answers,
    squad_ensemble,
    squad_examples,
    squad_features,
    squad_flags,
    squad_results,
)
from training import (
    fine_tuning,
    model_folder,
    option_checks,
    reporting,
    run_card,
)
from training import flags as training_flags
from vocab import tokenization

if TYPE_CHECKING:
    from modeling import config as config_lib

_LOGITS = "logits" + squad_ensemble.LOGITS_ENDING


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(
    training_flags.AblationOptions,
    training_flags.FineTuningOptions,
    squad_flags.SquadOptions,
):
    """The flags of this script; see --help."""

    def __post_init__(self):
        squad_flags.check(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Answers:
    """Ranked answers to each question, and the logits behind them."""

    ranked: Sequence[squad_answers.RankedAnswers]
    logits: squad_answers.Logits


class QuestionAnswering(task.Task):
    """Extractive question answering: a span of the paragraph, or no answer.

    Raises:
        OSError: a file is missing.
        ValueError: a file is not in SQuAD format, or has the wrong version.
    """

    name = "squad"
    metric = "f1"  # Reported for both versions.

    def __init__(self, options: Options, tokenizer: tokenization.FullTokenizer):
        super().__init__(options, tokenizer)
        if options.do_train:
            paths.check_readable(flags.needed(options.train_file, "train_file"))
        self._questions: squad_results.Questions | None = None
        needs_gold = task.EVAL in options.needed_splits
        if options.do_predict or needs_gold:
            self._questions = squad_results.read_questions(
                options, with_gold=needs_gold
            )

    @property
    def description(self) -> Mapping[str, Any]:
        names = (
            "doc_stride",
            "max_query_length",
            "n_best_size",
            "max_answer_length",
            "version_2_with_negative",
            squad_results.THRESHOLD,
            "packing",
        )
        return {
            "task": model_folder.QUESTION_ANSWERING,
            **{name: getattr(self.options, name) for name in names},
        }

    @functools.cached_property
    def _questions_with_windows(self) -> squad_results.Questions:
        questions = flags.needed(self._questions, "predict_file")
        return _split(questions, self.options, self.tokenizer)

    def data_sets(self, split: str) -> list[task.DataSet]:
        if split == task.TRAIN:
            return [self._training_data()]
        questions = self._questions_with_windows
        return [
            self._data_set(
                split,
                "eval",
                flags.needed(self.options.predict_file, "predict_file"),
                lambda: squad_features.records_by_example(
                    len(questions.examples), questions.features
                ),
                has_labels=split == task.EVAL,
                content=questions,
            )
        ]

    def _training_data(self) -> task.DataSet:
        options = self.options
        path = flags.needed(options.train_file, "train_file")
        with reporting.log_cost("Reading training questions"):
            examples = squad_examples.read_training_examples(
                path, version_2_with_negative=options.version_2_with_negative
            )
        return self._data_set(
            task.TRAIN,
            "train",
            path,
            lambda: squad_features.records_by_example(
                len(examples), _windows(examples, options, self.tokenizer)
            ),
            # As released: a question counts once, not once per window.
            counts_examples=True,
        )

    def _data_set(self, split, name, path, examples, **more) -> task.DataSet:
        from training import records

        options, is_training = self.options, split == task.TRAIN
        return task.DataSet(
            split=split,
            name=name,
            kind="squad training" if is_training else "squad prediction",
            made_from={
                "data_sha256": paths.sha256(path),
                "version_2_with_negative": options.version_2_with_negative,
                **dataclasses.asdict(options.windows),
            },
            features=records.squad_features(
                options.max_seq_length, is_training=is_training
            ),
            examples=examples,
            **more,
        )

    def make_data(self, setup: Any, data_set: task.DataSet) -> task.Data:
        if data_set.content is None or data_set.content.features:
            return super().make_data(setup, data_set)
        # The paragraphs are empty.
        return task.Data(
            data_set=data_set,
            source=None,
            rows_per_example=np.zeros(0, np.int64),
        )

    def make_objective(self, config: "config_lib.BertConfig") -> Any:
        from modeling import heads
        from training import objectives

        model = heads.BertForQuestionAnswering(
            config, **self.options.head_arguments
        )
        return objectives.SpanExtraction(model)

    def decode(self, data: task.Data, outputs: Mapping[str, Any]) -> _Answers:
        logits = squad_answers.NO_LOGITS
        if outputs:
            logits = squad_answers.padded_logits(
                **outputs, max_seq_length=self.options.max_seq_length
            )
            if self.options.packing or self.options.bucket_by_length:
                logits = squad_answers.without_padding(
                    logits, data.content.features
                )
        ranked = _rank(data.content, logits, self.options, self.tokenizer)
        return _Answers(ranked=ranked, logits=logits)

    def metrics(self, data: task.Data, answers: _Answers) -> dict[str, float]:
        gold, options = data.content.gold, self.options
        decisions = squad_results.decide(
            answers.ranked, options.null_score_diff_threshold, gold
        )
        return squad_results.score(gold, decisions, options)

    def results(self, data: task.Data, answers: _Answers) -> dict[str, float]:
        return self.metrics(data, answers)

    def write_answers(
        self, data: task.Data, answers: _Answers, output_dir: str
    ) -> None:
        if data.data_set.split == task.EVAL:
            return
        path = os.path.join(output_dir, _LOGITS)
        if self.options.save_logits:
            squad_ensemble.write_logits(path, answers.logits)
        else:
            paths.remove(path)  # Of other predictions.
        squad_results.decide_and_write(
            data.content, answers.ranked, self.options, output_dir
        )


def _windows(
    examples: Sequence[squad_examples.SquadExample],
    options: Options,
    tokenizer: tokenization.FullTokenizer,
) -> Iterator[squad_features.SquadFeatures]:
    return squad_features.convert_examples_to_features(
        examples, tokenizer, options.windows, progress=progress.Progress()
    )


def _split(
    questions: squad_results.Questions,
    options: Options,
    tokenizer: tokenization.FullTokenizer,
) -> squad_results.Questions:
    examples = questions.examples
    with reporting.log_cost("Splitting paragraphs"):
        features = list(_windows(examples, options, tokenizer))
    logging.info("%d questions, %d windows", len(examples), len(features))
    return dataclasses.replace(questions, features=features)


def _rank(
    questions: squad_results.Questions,
    logits: squad_answers.Logits,
    options: Options,
    tokenizer: tokenization.FullTokenizer,
) -> list[squad_answers.RankedAnswers]:
    with reporting.log_cost("Ranking answers"):
        return squad_answers.rank_answers(
            questions.examples,
            questions.features,
            logits,
            options,
            tokenizer.basic_tokenizer,
        )


def run(options: Options) -> None:
    """Trains, predicts and evaluates according to the options.

    Raises:
        ValueError: the options, files and checkpoints are incompatible.
    """
    if options.do_train or (options.do_predict and not options.ensemble):
        tokenizer = tokenization.open_tokenizer(options)
        fine_tuning.run(QuestionAnswering, options, tokenizer)
    else:
        _run_without_model(options)


def _run_without_model(options: Options) -> None:
    """Combines predictions of other runs, or scores given predictions."""
    own = os.path.join(options.output_dir, squad_results.PREDICTIONS)
    given = options.do_predict or options.predictions_file
    if not (given or paths.exists(own)):
        options = fine_tuning.with_best_trial(options)
    option_checks.check_outputs(options)
    folder, kept = options.output_dir, {}
    if options.do_predict:
        questions, answers = _combine(options)
        decisions = squad_results.decide_and_write(
            questions, answers, options, folder
        )
    else:
        questions = squad_results.read_questions(options, with_gold=True)
        decisions = squad_results.read_given(options, folder)
        # Tools that predict with the model of the folder read it there.
        kept = squad_results.read_null_threshold(folder)
    if options.do_eval and questions.gold is not None:
        results = squad_results.score(questions.gold, decisions, options)
        path = os.path.join(folder, squad_results.SCORES)
        result_files.write(path, {**results, **kept})


def _combine(
    options: Options,
) -> tuple[squad_results.Questions, list[squad_answers.RankedAnswers]]:
    systems = paths.expand(flags.needed(options.ensemble, "ensemble"))
    logging.info("Combining %d systems: %s", len(systems), ", ".join(systems))
    questions = squad_results.read_questions(options, with_gold=options.do_eval)
    if not squad_ensemble.is_logits(systems):
        qas_ids = [example.qas_id for example in questions.examples]
        nbest = [squad_ensemble.read_nbest(path) for path in systems]
        return questions, squad_ensemble.combine_nbest(nbest, qas_ids, options)
    tokenizer = tokenization.open_tokenizer(options)
    questions = _split(questions, options, tokenizer)
    logits = squad_ensemble.average_logits(
        [squad_ensemble.read_logits(path) for path in systems]
    )
    return questions, _rank(questions, logits, options, tokenizer)


def main(options: Options) -> None:
    """Runs the script; writes its run card unless it only scores predictions.

    A card states the settings of the last training or prediction.
    """
    if options.verbose_logging:
        logging.set_verbosity(logging.DEBUG)
    if options.do_train or options.do_predict:
        run_card.record(run, options)
    else:
        with run_card.locked(options.output_dir):
            run(options)


if __name__ == "__main__":
    program.start(Options, main)
