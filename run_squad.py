r"""Answers questions with a part of a paragraph: SQuAD 1.1 and 2.0.

Example:

  python run_squad.py \
    --bert_config_file=$BERT/bert_config.json --vocab_file=$BERT/vocab.txt \
    --init_checkpoint=$BERT/bert_model.ckpt --output_dir=/tmp/squad \
    --do_train --train_file=train-v1.1.json \
    --do_predict --do_eval --predict_file=dev-v1.1.json \
    --train_batch_size=12 --learning_rate=3e-5 --num_train_epochs=2.0

For SQuAD 2.0 add --version_2_with_negative; with
--null_score_diff_threshold=auto the best threshold is found on the way. Stop
the program at any time and run the same command again: it goes on where it
stopped.
"""

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from absl import logging

from commands import program
from files import paths, progress
from tasks.squad import (
    squad_answers,
    squad_ensemble,
    squad_examples,
    squad_features,
    squad_flags,
    squad_results,
)
from training import flags as training_flags
from training import option_checks, run_card
from vocab import tokenization

_METRIC = "f1"  # Of either version; the best checkpoint is chosen by it.
_SPECIAL_TOKENS = ("[UNK]", "[CLS]", "[SEP]")
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


def run(options: Options) -> None:
    """Trains, predicts and evaluates as the options say.

    Raises:
        ValueError: the options, files and checkpoints do not fit together.
    """
    results = {}
    if options.do_train or (options.do_predict and not options.ensemble):
        this = _Run(options)
        if options.do_train:
            this.train()
        if options.do_predict:
            results["global_step"] = this.learner.load()
            questions, answers = this.questions, this.answers()
            if not this.learner.is_chief:
                return  # Of several workers one writes what all computed.
    elif options.do_predict:
        questions, answers = _combine(options)
    if options.do_predict:
        gold = questions.gold
        decisions = squad_results.conclude(
            questions, answers, options, options.output_dir
        )
    elif options.do_eval:
        gold = squad_results.read_gold(options)
        decisions = squad_results.read_given(options, options.output_dir)
    if options.do_eval:
        from training import reporting

        results |= squad_results.score(gold, decisions, options)
        path = os.path.join(options.output_dir, "eval_results.txt")
        reporting.write_results(path, results)


class _Run:
    """A run of the model: its vocabulary, its network and the questions."""

    def __init__(self, options: Options):
        self.options = options
        self.tokenizer = tokenization.open_tokenizer(options, *_SPECIAL_TOKENS)
        config = option_checks.check_task(options, self.tokenizer.vocab_size)
        if options.do_train:
            paths.expand(options.train_file)  # Refuses what is not there.
        needs_gold = option_checks.needs_held_out(options)
        self.questions = self.windows = None
        if options.do_predict or needs_gold:
            self.questions = squad_results.read_questions(
                options, with_gold=needs_gold
            )
        option_checks.check_weights(options)
        from training import experiment, preparation

        self.setup = preparation.prepare(options, self.tokenizer, config)
        if self.questions:
            self.questions = _cut(self.questions, options, self.tokenizer)
        self.learner = experiment.make_learner(
            self.setup, options, self._make_objective
        )

    def train(self) -> None:
        """Trains on the files in their order."""
        from training import ablations, epochs, experiment, phases

        options = self.options
        files = paths.expand(options.train_file)
        with phases.phase("Reading questions to train on"):
            of_files = [
                squad_examples.read_training_examples(
                    [path],
                    version_2_with_negative=options.version_2_with_negative,
                )
                for path in files
            ]
        examples = list(itertools.chain.from_iterable(of_files))
        windows = self._records(
            "train",
            files,
            lambda: squad_features.records_by_example(
                len(examples), _windows(examples, options, self.tokenizer)
            ),
        )
        self.learner.train(
            experiment.Training(
                name="squad",
                source=windows.source,
                # As released: a question counts once, however many its windows.
                num_examples=len(examples),
                parts=epochs.parts(
                    [len(of_file) for of_file in of_files],
                    windows.rows_per_example,
                    options.num_train_epochs,
                ),
                metric=_METRIC,
                evaluate=self._evaluate,
                head=ablations.SPAN_HEAD,
            )
        )

    def answers(self) -> list[squad_answers.RankedAnswers]:
        """Answers the questions with the weights as they are."""
        logits = self._logits()
        if self.options.save_logits and self.learner.is_chief:
            path = os.path.join(self.options.output_dir, _LOGITS)
            squad_ensemble.write_logits(path, logits)
        return _rank(self.questions, logits, self.options, self.tokenizer)

    def _make_objective(self) -> Any:
        from training import ablations, objectives

        model = ablations.question_answering(self.setup.config, self.options)
        return objectives.SpanExtraction(model)

    def _evaluate(self) -> Mapping[str, float]:
        questions, options = self.questions, self.options
        answers = _rank(questions, self._logits(), options, self.tokenizer)
        decisions = squad_results.decide(
            answers, options.null_score_diff_threshold, questions.gold
        )
        return squad_results.score(questions.gold, decisions, options)

    def _logits(self) -> list[squad_answers.WindowLogits]:
        """Runs the network on every window."""
        from training import phases

        examples, features = self.questions.examples, self.questions.features
        if not features:
            return []
        if self.windows is None:
            self.windows = self._records(
                "eval",
                [self.options.predict_file],
                lambda: squad_features.records_by_example(
                    len(examples), features
                ),
            )
        with phases.phase("Predicting"):
            scores = self.learner.predict(
                self.windows.source, self.options.predict_batch_size
            )
        return squad_answers.window_logits(
            **scores, max_seq_length=self.options.max_seq_length
        )

    def _records(
        self,
        name: str,
        files: Sequence[str],
        records_of_examples: Callable[[], Iterable[Sequence[Mapping]]],
    ) -> Any:
        """Writes `NAME.tf_record`, or finds it."""
        from training import phases, records, task_records

        options, is_training = self.options, name == "train"
        with phases.phase(f"Writing {name}.tf_record"):
            return task_records.make_or_reuse(
                self.setup.record_path(name),
                records.squad_features(
                    options.max_seq_length, is_training=is_training
                ),
                self.setup.metadata(
                    "squad training" if is_training else "squad prediction",
                    {
                        "data_sha256": [paths.sha256(path) for path in files],
                        "version_2_with_negative": (
                            options.version_2_with_negative
                        ),
                        **dataclasses.asdict(options.windows),
                    },
                ),
                records_of_examples,
            )


def _windows(
    examples: Sequence[squad_examples.SquadExample],
    options: Options,
    tokenizer: tokenization.FullTokenizer,
) -> Iterator[squad_features.SquadFeatures]:
    return squad_features.convert_examples_to_features(
        examples, tokenizer, options.windows, progress=progress.Progress()
    )


def _cut(
    questions: squad_results.Questions,
    options: Options,
    tokenizer: tokenization.FullTokenizer,
) -> squad_results.Questions:
    """Cuts the paragraphs into windows."""
    from training import phases

    examples = questions.examples
    with phases.phase("Cutting windows"):
        features = list(_windows(examples, options, tokenizer))
    logging.info("%d questions, %d windows", len(examples), len(features))
    return dataclasses.replace(questions, features=features)


def _rank(
    questions: squad_results.Questions,
    logits: Sequence[squad_answers.WindowLogits],
    options: Options,
    tokenizer: tokenization.FullTokenizer,
) -> list[squad_answers.RankedAnswers]:
    from training import phases

    with phases.phase("Ranking answers"):
        return squad_answers.rank_answers(
            questions.examples,
            questions.features,
            logits,
            options.answers,
            tokenizer.basic_tokenizer,
        )


def _combine(
    options: Options,
) -> tuple[squad_results.Questions, list[squad_answers.RankedAnswers]]:
    """Answers by what other runs answered."""
    systems = paths.expand(options.ensemble)
    logging.info("Combining %d systems: %s", len(systems), ", ".join(systems))
    questions = squad_results.read_questions(options, with_gold=options.do_eval)
    if not squad_ensemble.is_logits(systems):
        qas_ids = [example.qas_id for example in questions.examples]
        return questions, squad_ensemble.answer_by_nbest(
            systems, qas_ids, options.answers
        )
    tokenizer = tokenization.open_tokenizer(options, *_SPECIAL_TOKENS)
    questions = _cut(questions, options, tokenizer)
    logits = squad_ensemble.average_logits(
        [squad_ensemble.read_logits(path) for path in systems]
    )
    return questions, _rank(questions, logits, options, tokenizer)


def main(options: Options) -> None:
    """Runs the script with its flags."""
    if options.verbose_logging:
        logging.set_verbosity(logging.DEBUG)
    run_card.record(run, options)


if __name__ == "__main__":
    program.start(Options, main)
