"""The flags of run_squad.py for its questions and answers."""

import dataclasses
from typing import Any

from absl import flags as absl_flags

from bert.commands import flags
from bert.tasks.squad import (
    answer_measures,
    answer_ranking,
    question_files,
    window_features,
)

# Value of --null_score_diff_threshold that selects the best threshold.
AUTO = "auto"


class _Threshold(absl_flags.FloatParser):
    """Parses a number or "auto"."""

    syntactic_help = f"a number or {AUTO}"

    def convert(self, argument: str | float) -> Any:
        return argument if argument == AUTO else super().convert(argument)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadOptions(window_features.WindowOptions, answer_ranking.AnswerOptions):
    """Flags of run_squad.py for its questions and answers."""

    train_file: flags.Path | None = flags.Group.FILES.optional(
        "SQuAD file to train on."
    )
    predict_file: flags.Path | None = flags.Group.FILES.optional(
        "SQuAD file with the questions to answer."
    )
    answer_alignment: str = flags.Group.TRAINING.flag(
        question_files.WORD,
        "The label of an answer to train on: its first occurrence in the words "
        "at answer_start, as in the original; or that at answer_start, for "
        "text without spaces between words.",
        choices=question_files.ALIGNMENTS,
        changes_result=True,
    )
    null_score_diff_threshold: float | str = answer_ranking.ANSWERS.flag(
        0.0,
        'Difference of logits above which the answer is "no answer", or '
        f"{AUTO} for the value with the best F1 on --predict_file.",
        parser=_Threshold(),
        of_model=True,
    )
    scoring: str = flags.Group.EVALUATION.flag(
        answer_measures.SQUAD,
        "Official scores: of SQuAD, by words; of CMRC 2018, by Chinese "
        "characters, common for DRCD too; of KorQuAD, by characters.",
        choices=tuple(answer_measures.MEASURES),
    )
    verbose_logging: bool = flags.Group.CHECKPOINTS.boolean(
        "Log word pieces that could not be located in the paragraph."
    )

    @property
    def windows(self) -> window_features.WindowOptions:
        """Options for splitting paragraphs into windows."""
        return flags.narrow(window_features.WindowOptions, self)
