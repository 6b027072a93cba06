"""Options of question answering; names and defaults as released."""

import dataclasses
from typing import Any

from absl import flags as absl_flags

from commands import flags
from tasks.squad import squad_answers, squad_features

# Value of --null_score_diff_threshold that selects the best threshold.
AUTO = "auto"


class _Threshold(absl_flags.FloatParser):
    """Parses a number or "auto"."""

    syntactic_help = f"a number or {AUTO}"

    def convert(self, argument: Any) -> Any:
        return argument if argument == AUTO else super().convert(argument)


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
        "--output_dir if not given. In version 2, null_odds.json is read next "
        "to it."
    )
    ensemble: str | None = flags.Group.FILES.optional(
        "nbest_predictions.json of several systems, comma-separated names or "
        "globs: --do_predict combines them and runs no model."
    )
    null_score_diff_threshold: float | str = squad_answers.ANSWERS.flag(
        0.0,
        'Difference of logits above which the answer is "no answer", or '
        f"{AUTO} for the value with the best F1 on --predict_file.",
        parser=_Threshold(),
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
            `do_predict` and `do_eval`.

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
