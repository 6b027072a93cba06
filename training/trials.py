"""Several runs of one experiment: other seeds, other learning rates.

Source: Devlin et al. 2019, section 4.1: the best learning rate of a grid, and
of several random restarts, on the development set.
"""

import dataclasses
import glob
import os
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from absl import logging

from files import json_text, paths
from training import flags as training_flags

SUMMARY_FILE = "trials.json"
_NAME = "trial-"

_Options = TypeVar("_Options", bound=training_flags.TrialOptions)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """One run of several.

    Attributes:
        name: of the run.
        folder: everything of the run is in it.
        learning_rate: its peak rate.
        random_seed: of its order of examples, output layer and dropout.
    """

    name: str
    folder: str
    learning_rate: float
    random_seed: int


def plan(
    output_dir: str,
    learning_rates: Sequence[float],
    num_trials: int,
    first_seed: int,
) -> list[Trial]:
    """Lists the runs of a grid: each learning rate with each seed.

    A single run takes the whole folder; several take `trial-1` and so on in
    it. The seeds of every learning rate are the same.
    """
    settings = [
        (rate, first_seed + number)
        for rate in learning_rates
        for number in range(num_trials)
    ]
    if len(settings) == 1:
        names, folders = [""], [output_dir]
    else:
        names = [f"{_NAME}{n}" for n in range(1, len(settings) + 1)]
        folders = [os.path.join(output_dir, name) for name in names]
    return [
        Trial(name=name, folder=folder, learning_rate=rate, random_seed=seed)
        for name, folder, (rate, seed) in zip(
            names, folders, settings, strict=True
        )
    ]


def plan_run(options: _Options) -> list[tuple[Trial, _Options]]:
    """Lists the runs that options ask for, each with options of its own."""
    runs = plan(
        options.output_dir,
        options.peak_rates,
        options.num_trials,
        options.random_seed,
    )
    return [
        (
            run,
            dataclasses.replace(
                options,
                output_dir=run.folder,
                learning_rate=run.learning_rate,
                random_seed=run.random_seed,
            ),
        )
        for run in runs
    ]


def with_best_trial(options: _Options) -> _Options:
    """Turns a folder of trials into that of the best one, where one answers.

    A run that trains nothing evaluates or predicts with one model. Where its
    folder holds several trials and no checkpoint of its own, that is the trial
    that did best, as `trials.json` names it.

    Args:
        options: of a run.

    Returns:
        The options, `output_dir` replaced if it is a folder of trials.

    Raises:
        ValueError: there are trials, but the file does not name the best one.
    """
    folder = options.output_dir
    several = options.num_trials > 1 or len(options.peak_rates) > 1
    if (
        options.do_train
        or several
        or options.init_checkpoint
        or paths.is_remote(folder)
        or _checkpoints_in(folder)
    ):
        return options
    names = sorted(
        {
            os.path.basename(os.path.dirname(path))
            for path in _checkpoints_in(folder, f"{_NAME}[0-9]*")
        },
        key=lambda name: (len(name), name),
    )
    if not names:
        return options
    best = _best_trial(folder)
    if best not in names:
        raise ValueError(
            f"{folder} holds several trials, {', '.join(names)}, but no "
            f"{SUMMARY_FILE} that names the best one of them. Pass "
            f"--output_dir={os.path.join(folder, names[0])}, or that of "
            "another one."
        )
    logging.info(
        "%s holds several trials; %s, the best one by %s, answers.",
        *(folder, best, SUMMARY_FILE),
    )
    return dataclasses.replace(options, output_dir=os.path.join(folder, best))


def _checkpoints_in(*parts: str) -> list[str]:
    folder, *patterns = parts
    return glob.glob(os.path.join(glob.escape(folder), *patterns, "*.index"))


def _best_trial(folder: str) -> Any:
    """Reads the name of the best trial; None where there is none."""
    path = os.path.join(folder, SUMMARY_FILE)
    if not paths.exists(path):
        return None
    with paths.open_to_read(path) as file:
        summary = json_text.parse(file.read(), path)
    if not isinstance(summary, dict):
        return None
    # Taggers have a summary of each file; the held-out one decides.
    decisive = summary.get("eval", summary)
    return decisive.get("best_trial") if isinstance(decisive, dict) else None


def best_of(values: Sequence[float]) -> int:
    """Returns the place of the highest value, the first of equal ones."""
    return max(range(len(values)), key=lambda place: values[place])


def summarize(
    runs: Sequence[Trial],
    results: Sequence[Mapping[str, float]],
    metric: str,
    baseline: float,
) -> dict[str, Any]:
    """Summarises the results of several runs, as `trials.json` holds them.

    Source: Mosbach et al. 2021, "On the Stability of Fine-tuning BERT",
    section 3: a run has failed, or collapsed, if it does no better than an
    answer that ignores the text.

    Args:
        runs: the runs.
        results: what each came to, by metric.
        metric: the one that decides; higher is better.
        baseline: the score of the best constant answer.
    """
    values = [float(result[metric]) for result in results]
    best = best_of(values)
    rates = sorted({run.learning_rate for run in runs}, reverse=True)
    return {
        "metric": metric,
        "constant_answer": baseline,
        "best_trial": runs[best].name,
        **_statistics(values, baseline),
        "by_learning_rate": [
            {
                "learning_rate": rate,
                **_statistics(
                    [
                        value
                        for run, value in zip(runs, values, strict=True)
                        if run.learning_rate == rate
                    ],
                    baseline,
                ),
            }
            for rate in rates
        ],
        "trials": [
            {
                "name": run.name,
                "learning_rate": run.learning_rate,
                "random_seed": run.random_seed,
                "collapsed": value <= baseline,
                **result,
            }
            for run, value, result in zip(runs, values, results, strict=True)
        ],
    }


def table(summary: Mapping[str, Any]) -> str:
    """Formats a summary for people: a line for each run, then one for all."""
    metric, best = summary["metric"], summary["best_trial"]
    lines = [f"{'trial':10} {'rate':>8} {'seed':>8} {metric:>12}"]
    for trial in summary["trials"]:
        note = "  collapsed" if trial["collapsed"] else ""
        note += "  best" if trial["name"] == best else ""
        lines.append(
            f"{trial['name']:10} {trial['learning_rate']:8.1e} "
            f"{trial['random_seed']:8} {trial[metric]:12.4f}{note}"
        )
    lines.append(
        f"{metric}: mean {summary['mean']:.4f} ± "
        f"{summary['standard_deviation']:.4f}, median "
        f"{summary['median']:.4f}, best {summary['best']:.4f} ({best}), "
        f"{summary['num_collapsed']} of "
        f"{summary['num_trials']} collapsed (no better than a constant "
        f"answer, {summary['constant_answer']:.4f})"
    )
    return "\n".join(lines)


def _statistics(values: Sequence[float], baseline: float) -> dict[str, Any]:
    return {
        "num_trials": len(values),
        "num_collapsed": sum(value <= baseline for value in values),
        "median": statistics.median(values),
        "mean": statistics.fmean(values),
        "standard_deviation": (
            statistics.stdev(values) if len(values) > 1 else 0.0
        ),
        "best": max(values),
    }
