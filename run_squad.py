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
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from absl import app, flags, logging

from files import paths
from tasks import (
    squad,
    squad_answers,
    squad_ensemble,
    squad_features,
    squad_flags,
    squad_results,
    squad_search,
)
from training import fine_tuning_flags
from training import flags as shared_flags
from vocab import tokenization

_METRIC = "f1"  # Of either version; the best checkpoint is chosen by it.
_LOGITS = "logits" + squad_ensemble.LOGITS_ENDING


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(fine_tuning_flags.TaskOptions, squad_flags.SquadOptions):
    """The flags of this script; see `define_flags` and --help."""

    def __post_init__(self):
        squad_flags.check(self)


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags; names and defaults are the release's."""
    fine_tuning_flags.define_task_flags(values)
    squad_flags.define_flags(values)


def run(options: Options) -> None:
    """Trains, predicts and evaluates as the options say.

    Raises:
        ValueError: the options, files and checkpoints do not fit together.
    """
    if options.do_train or (options.do_predict and not options.ensemble):
        results = _Run(options).results()
    elif options.do_predict:
        results = _combine(options)
    else:
        results = _score_given(options)
    if options.do_eval:
        from training import reporting

        path = os.path.join(options.output_dir, "eval_results.txt")
        reporting.write_results(path, results)


class _Run:
    """A run that needs the model: its vocabulary, network and questions."""

    def __init__(self, options: Options):
        from modeling import config as config_lib
        from modeling import heads
        from training import experiment, fine_tuning, runtime

        self.options = options
        self.config = config_lib.BertConfig.from_json_file(
            options.bert_config_file, paths.open_to_read
        )
        self.tokenizer = _open_tokenizer(options)
        experiment.check_options(
            options, self.config, len(self.tokenizer.vocab)
        )
        self.strategy = experiment.prepare_devices(options)
        self._claim()
        evaluates = experiment.evaluates_while_training(options)
        if options.do_predict or evaluates:
            self._prepare_questions(with_gold=options.do_eval or evaluates)
        runtime.set_seed(options.random_seed)
        with self.strategy.scope():
            model = heads.BertForQuestionAnswering(self.config)
        logging.info("%s parameters", f"{model.count_params():,}")
        self.objective = fine_tuning.SpanExtraction(model)

    def results(self) -> Mapping[str, float]:
        """Trains and predicts; returns the scores, where they are wanted."""
        from training import experiment

        options = self.options
        if options.do_train:
            self._train()
        if not options.do_predict:
            return {}
        step = experiment.load(self.strategy, self.objective, options)
        logits = self._logits()
        if options.save_logits:
            path = os.path.join(options.output_dir, _LOGITS)
            squad_ensemble.write_logits(path, logits)
        answers = _rank(options, self.questions, logits, self.tokenizer)
        results = _conclude(options, self.questions, answers)
        return {**results, "global_step": step}

    def _prepare_questions(self, *, with_gold: bool) -> None:
        options = self.options
        questions = squad_results.read_questions(options, with_gold=with_gold)
        self.questions = _cut(options, questions, self.tokenizer)
        features, num_examples = (
            self.questions.features,
            len(questions.examples),
        )
        self.source = None
        if features:
            self.source, _ = self._records(
                "eval",
                [options.predict_file],
                lambda: squad_features.records_by_example(
                    num_examples, features
                ),
            )

    def _claim(self) -> None:
        from training import checkpointing, model_folder

        options = self.options
        checkpointing.claim(options.output_dir, self.config.to_dict())
        model_folder.claim_text(
            options.output_dir, options.vocab_file, self._text()
        )

    def _text(self) -> dict[str, Any]:
        """Says how text is read, for the files beside models and records."""
        from training import records

        return {
            "vocab_sha256": records.vocab_sha256(self.tokenizer.vocab),
            "do_lower_case": self.options.do_lower_case,
        }

    def _records(
        self,
        name: str,
        files: Sequence[str],
        records_of_examples: Callable[[], Iterable[Sequence[Mapping]]],
    ) -> tuple[Any, Any]:
        """Writes `NAME.tf_record`, or finds it.

        Returns:
            The source of its records, and how many each example has.
        """
        from training import input_pipeline, phases, record_cache, records

        options = self.options
        features = records.squad_features(
            options.max_seq_length, is_training=name == "train"
        )
        made_from = records.Metadata(
            kind=f"squad {name}",
            max_seq_length=options.max_seq_length,
            vocab_size=len(self.tokenizer.vocab),
            num_records=0,
            **self._text(),
            flags={
                "data_sha256": [paths.sha256(path) for path in files],
                "version_2_with_negative": options.version_2_with_negative,
                **dataclasses.asdict(options.windows),
            },
        )
        with phases.phase(f"Writing {name}.tf_record"):
            cached = record_cache.make_or_reuse(
                os.path.join(options.output_dir, f"{name}.tf_record"),
                features,
                made_from,
                records_of_examples,
            )
        source = input_pipeline.RecordSource(
            files=cached.files,
            features=features,
            vocab_size=self.config.vocab_size,
        )
        return source, cached.rows_per_example

    def _train(self) -> None:
        from training import epochs, experiment, fine_tuning, phases

        options = self.options
        files = paths.expand(options.train_file)
        with phases.phase("Reading questions to train on"):
            examples_of_files = [
                squad.read_training_examples(
                    [path],
                    version_2_with_negative=options.version_2_with_negative,
                )
                for path in files
            ]
        examples = list(itertools.chain.from_iterable(examples_of_files))
        source, rows_per_example = self._records(
            "train",
            files,
            lambda: squad_features.records_by_example(
                len(examples), _windows(options, examples, self.tokenizer)
            ),
        )
        training = experiment.Training(
            objective=self.objective,
            name="squad",
            source=source,
            # As released: a question counts once, however many its windows.
            num_examples=len(examples),
            parts=epochs.parts(
                [len(of_file) for of_file in examples_of_files],
                rows_per_example,
                options.num_train_epochs,
            ),
            metric=_METRIC,
            evaluate=self._evaluate,
            head=fine_tuning.SPAN_HEAD,
        )
        experiment.train(self.strategy, training, options)

    def _evaluate(self) -> Mapping[str, float]:
        """Scores the model as it is, for `experiment.train`."""
        options, questions = self.options, self.questions
        answers = _rank(options, questions, self._logits(), self.tokenizer)
        return squad_results.score(
            questions.gold,
            squad_results.decide(
                answers, options.null_score_diff_threshold, questions.gold
            ),
            version_2_with_negative=options.version_2_with_negative,
        )

    def _logits(self) -> list[squad_search.WindowLogits]:
        """Runs the model on every window."""
        from training import experiment, phases

        options = self.options
        if self.source is None:
            return []
        with phases.phase("Predicting"):
            scores = experiment.predict(
                self.strategy,
                self.objective,
                self.source,
                batch_size=options.predict_batch_size,
                bucketed=options.bucket_by_length,
            )
        return squad_search.window_logits(
            **scores, max_seq_length=options.max_seq_length
        )


def _open_tokenizer(options: Options) -> tokenization.FullTokenizer:
    tokenization.validate_case_matches_checkpoint(
        options.do_lower_case, options.init_checkpoint
    )
    tokenizer = tokenization.FullTokenizer(
        options.vocab_file, do_lower_case=options.do_lower_case
    )
    tokenizer.require_tokens("[CLS]", "[SEP]")
    return tokenizer


def _windows(
    options: Options,
    examples: Sequence[squad.SquadExample],
    tokenizer: tokenization.FullTokenizer,
) -> Iterable[squad_features.SquadFeatures]:
    from training import phases

    return squad_features.convert_examples_to_features(
        examples, tokenizer, options.windows, progress=phases.ProgressLog()
    )


def _cut(
    options: Options,
    questions: squad_results.Questions,
    tokenizer: tokenization.FullTokenizer,
) -> squad_results.Questions:
    """Cuts the paragraphs into windows."""
    from training import phases

    with phases.phase("Cutting windows"):
        features = list(_windows(options, questions.examples, tokenizer))
    logging.info(
        "%d questions, %d windows", len(questions.examples), len(features)
    )
    return dataclasses.replace(questions, features=features)


def _rank(
    options: Options,
    questions: squad_results.Questions,
    logits: Sequence[squad_search.WindowLogits],
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


def _conclude(
    options: Options,
    questions: squad_results.Questions,
    answers: Sequence[squad_answers.RankedAnswers],
) -> dict[str, float]:
    """Writes the answers; returns their scores, where they are wanted."""
    decisions = squad_results.decide(
        answers, options.null_score_diff_threshold, questions.gold
    )
    threshold = decisions.null_score_diff_threshold
    if threshold is not None:
        logging.info("null_score_diff_threshold is %r", threshold)
    squad_answers.write_answers(options.output_dir, answers, threshold or 0.0)
    if not options.do_eval:
        return {}
    return squad_results.score(
        questions.gold,
        decisions,
        version_2_with_negative=options.version_2_with_negative,
    )


def _combine(options: Options) -> dict[str, float]:
    """Answers by what other runs answered; see `_conclude`."""
    questions = squad_results.read_questions(options, with_gold=options.do_eval)
    systems = paths.expand(options.ensemble)
    logging.info("Combining %d systems: %s", len(systems), ", ".join(systems))
    if not squad_ensemble.is_logits(systems):
        answers = squad_ensemble.answer_by_nbest(
            systems,
            [example.qas_id for example in questions.examples],
            options.answers,
        )
        return _conclude(options, questions, answers)
    tokenizer = _open_tokenizer(options)
    questions = _cut(options, questions, tokenizer)
    logits = squad_ensemble.average_logits(
        [squad_ensemble.read_logits(path) for path in systems]
    )
    answers = _rank(options, questions, logits, tokenizer)
    return _conclude(options, questions, answers)


def _score_given(options: Options) -> dict[str, float]:
    """Scores answers that are there already."""
    gold = squad_results.read_gold(
        options.predict_file,
        version_2_with_negative=options.version_2_with_negative,
    )
    decisions = squad_results.read_given(
        options.predictions_file
        or os.path.join(options.output_dir, "predictions.json"),
        options.null_odds_file,
    )
    return squad_results.score(
        gold,
        decisions,
        version_2_with_negative=options.version_2_with_negative,
    )


def main(argv: Sequence[str]) -> None:
    """Runs the program with its flags."""
    if len(argv) > 1:
        raise app.UsageError(f"Only flags are expected; got {argv[1:]}.")
    verbose = flags.FLAGS.verbose_logging
    logging.set_verbosity(logging.DEBUG if verbose else logging.INFO)
    run(shared_flags.read_options(Options, flags.FLAGS))


if __name__ == "__main__":
    define_flags()
    fine_tuning_flags.adopt()
    shared_flags.adopt(squad_flags.__name__)
    app.run(main)
