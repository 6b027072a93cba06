"""Options of question answering; names and defaults as released."""

import dataclasses
import math
from typing import Any

from absl import flags as absl_flags

from commands import flags
from tasks.squad import squad_answers, squad_features

_ANSWERS = flags.Heading("Answers")
# Value of --null_score_diff_threshold that selects the best threshold.
AUTO = "auto"


class _ThresholdParser(absl_flags.ArgumentParser):
    """Reads a number or "auto"."""

    syntactic_help = f"a number or {AUTO}"

    def parse(self, argument: str | float) -> str | float:
        if argument == AUTO:
            return argument
        try:
            number = float(argument)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            raise ValueError(f"must be {self.syntactic_help}")
        return number

    def flag_type(self) -> str:
        return "float or string"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadOptions(squad_features.WindowOptions, squad_answers.AnswerOptions):
    """Flags of run_squad.py for its questions and answers."""

    train_file: str | None = flags.Group.FILES.optional(
        "SQuAD file to train on."
    )
    predict_file: str | None = flags.Group.FILES.optional(
        "SQuAD file with the questions to answer."
    )
    predictions_file: str | None = flags.Group.FILES.optional(
        "Predictions for --do_eval without --do_predict; predictions.json in "
        "--output_dir if not given."
    )
    null_odds_file: str | None = flags.Group.FILES.optional(
        "Null odds of --predictions_file; by default null_odds.json next to it."
    )
    ensemble: str | None = flags.Group.FILES.optional(
        "nbest_predictions.json or logits (.npz) of several systems, "
        "comma-separated names or globs: --do_predict combines them and "
        "runs no model."
    )
    save_logits: bool = flags.Group.FILES.switch(
        "Also write logits.npz, for --ensemble."
    )
    null_score_diff_threshold: float | str = _ANSWERS.flag(
        0.0,
        'Difference of logits above which the answer is "no answer", or '
        f"{AUTO} for the value with the best F1 on --predict_file.",
        parser=_ThresholdParser(),
    )
    verbose_logging: bool = flags.Group.CHECKPOINTS.switch(
        "Log word pieces that could not be located in the paragraph."
    )

    @property
    def windows(self) -> squad_features.WindowOptions:
        """Options for splitting paragraphs into windows."""
        return flags.narrow(squad_features.WindowOptions, self)


def check(options: Any) -> None:
    """Checks the flags of a run before reading files.

    Args:
        options: `SquadOptions` of a run, which also has `do_train`,
            `do_predict`, `do_eval`, `eval_every_steps`, `eval_every_epoch`,
            `use_best_checkpoint`, `has_several_runs`.

    Raises:
        ValueError: the flags are incompatible.
    """
    _ = options.windows  # The constructor checks the values.
    do_train, do_predict = options.do_train, options.do_predict
    if not (do_train or do_predict or options.do_eval):
        raise ValueError(
            "At least one of `do_train`, `do_predict` or `do_eval` must be "
            "True."
        )
    if do_train and options.do_eval and not do_predict:
        raise ValueError(
            "After training, --do_eval scores the output of --do_predict: pass "
            "both."
        )
    for action, file in (
        ("do_train", "train_file"),
        ("do_predict", "predict_file"),
        ("do_eval", "predict_file"),
    ):
        if getattr(options, action) and not getattr(options, file):
            raise ValueError(
                f"If `{action}` is True, then `{file}` must be specified."
            )
    evaluates = options.eval_every_epoch or options.eval_every_steps > 0
    if do_train and not options.predict_file and evaluates:
        raise ValueError(
            "--eval_every_steps and --eval_every_epoch score the answers to "
            "--predict_file, which must be specified."
        )
    _check_predictions(options)


def _check_predictions(options: Any) -> None:
    """Checks the flags of existing predictions and of the threshold."""
    do_train, do_predict = options.do_train, options.do_predict
    if options.ensemble and (do_train or not do_predict):
        raise ValueError(
            "--ensemble combines the predictions of other runs: it requires "
            "--do_predict without --do_train."
        )
    if options.save_logits and (options.ensemble or not do_predict):
        raise ValueError(
            "--save_logits saves the logits of a model's predictions: it "
            "requires --do_predict without --ensemble."
        )
    if (do_predict or do_train) and (
        options.predictions_file or options.null_odds_file
    ):
        raise ValueError(
            "--predictions_file and --null_odds_file require --do_eval without "
            "--do_predict, which predicts again, and without --do_train."
        )
    if options.null_odds_file and not options.version_2_with_negative:
        raise ValueError(
            "--null_odds_file requires --version_2_with_negative: without it "
            "every question has an answer."
        )
    runs_model = do_train or (do_predict and not options.ensemble)
    if not runs_model and (
        options.use_best_checkpoint or options.has_several_runs
    ):
        raise ValueError(
            "--use_best_checkpoint and several runs (--num_trials, "
            "--learning_rates and the like) are for a run of a model: they "
            "require --do_train, or --do_predict without --ensemble."
        )
    threshold = options.null_score_diff_threshold
    if threshold not in (0.0, AUTO) and not (do_predict or do_train):
        raise ValueError(
            "--null_score_diff_threshold chooses between ranked answers: it "
            "requires --do_predict. --do_eval alone scores existing "
            "predictions unchanged."
        )
    is_auto = threshold == AUTO
    if is_auto and not options.version_2_with_negative:
        raise ValueError(
            "--null_score_diff_threshold=auto requires "
            "--version_2_with_negative: without it every question has an "
            "answer."
        )
    if is_auto and not do_predict and not do_train:
        raise ValueError(
            "--null_score_diff_threshold=auto needs ranked answers: "
            "for existing predictions pass --do_predict "
            "--ensemble=nbest_predictions.json."
        )
