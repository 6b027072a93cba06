r"""Scores SQuAD predictions, and combines those of several systems.

For example:

  python -m tools.evaluate_squad --predict_file=dev-v1.1.json \
    --predictions_file=squad/predictions.json --output_dir=scores
  python -m tools.evaluate_squad --predict_file=dev-v1.1.json \
    --ensemble=a/nbest_predictions.json,b/nbest_predictions.json \
    --output_dir=ensemble

The scores are those of the official scripts. An ensemble averages the
probabilities of answers; its predictions are written too.
"""

import dataclasses
import os
from collections.abc import Sequence

from absl import logging

from bert.commands import flags, program
from bert.files import paths, run_files, writing
from bert.tasks.squad import answer_files, ensembles, question_files
from bert.tasks.squad import options as squad_options
from bert.training import run_record

_Squad = squad_options.SquadOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this tool; see --help."""

    do_eval: bool = flags.Group.ACTIONS.flag(
        True,
        "Score the answers; --nodo_eval if --predict_file has no ground truth.",
    )
    predict_file: flags.Path = flags.Group.FILES.required(
        "SQuAD file with the questions."
    )
    output_dir: flags.Path = flags.Group.FILES.required(
        "Folder for eval_results.txt and the predictions of an ensemble."
    )
    predictions_file: flags.Path | None = flags.Group.FILES.optional(
        "Predictions to score; predictions.json in --output_dir if not given. "
        "In version 2, null_odds.json is read next to it."
    )
    ensemble: flags.Path | None = flags.Group.FILES.optional(
        "nbest_predictions.json of several systems to combine, comma-separated "
        "names or globs."
    )
    n_best_size: int = flags.redeclare(_Squad, "n_best_size")
    version_2_with_negative: bool = flags.redeclare(
        _Squad, "version_2_with_negative"
    )
    null_score_diff_threshold: float | str = flags.redeclare(
        _Squad, "null_score_diff_threshold"
    )

    scoring: str = flags.redeclare(_Squad, "scoring")

    def __post_init__(self) -> None:
        if self.ensemble and self.predictions_file:
            raise ValueError(
                "Pass one of --ensemble and --predictions_file; got both."
            )
        if not self.ensemble and not self.do_eval:
            raise ValueError("--nodo_eval needs --ensemble.")


def run(options: Options) -> None:
    """Combines, and scores.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: a file has the wrong format, or other questions; or an
            ensemble would replace the answers of one of its systems.
    """
    folder = options.output_dir
    writing.check_folder(folder)
    systems = paths.expand(options.ensemble) if options.ensemble else []
    outputs = [os.path.join(folder, name) for name in answer_files.FILES]
    writing.check_files(outputs, systems)
    with run_record.locked(folder):
        _run(options, systems)


def _run(options: Options, systems: Sequence[str]) -> None:
    version_2, folder = options.version_2_with_negative, options.output_dir
    is_auto = options.null_score_diff_threshold == squad_options.AUTO
    questions, gold = question_files.read_questions(
        options.predict_file,
        version_2_with_negative=version_2,
        with_gold=options.do_eval or is_auto,
    )
    if systems:
        logging.info("Combining %d systems: %s", len(systems), systems)
        answers = ensembles.combine_nbest(
            [ensembles.read_nbest(path) for path in systems],
            [question.qas_id for question in questions],
            n_best_size=options.n_best_size,
            version_2_with_negative=version_2,
        )
        decisions = answer_files.decide(
            answers, options.null_score_diff_threshold, gold, options.scoring
        )
        answer_files.write(folder, answers, decisions)
    else:
        predictions = os.path.join(folder, answer_files.PREDICTIONS)
        decisions = answer_files.read(
            options.predictions_file or predictions,
            version_2_with_negative=version_2,
        )
    if options.do_eval:
        scores = answer_files.score(
            gold,
            decisions,
            version_2_with_negative=version_2,
            scoring=options.scoring,
        )
        run_files.write_results(
            os.path.join(folder, answer_files.SCORES), scores
        )


if __name__ == "__main__":
    program.start(Options, run)
