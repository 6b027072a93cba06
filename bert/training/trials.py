"""Trials of an experiment: runs with other seeds or settings.

Source: Devlin et al. 2019, section 4.1: the best learning rate of a grid, and
of several random restarts, on the development set.
"""

import itertools
import os
import statistics
from collections.abc import Mapping

from absl import logging

from bert.files import json_text, paths, run_files, writing
from bert.tasks import task as task_lib
from bert.training import options as training_options
from bert.training import workers

_Options = training_options.FineTuningOptions
# The flags in which each trial differs, by the name of its folder.
_Trials = Mapping[str, json_text.Object]
_Results = Mapping[str, Mapping[str, float]]


def plan(options: _Options) -> dict[str, json_text.Object]:
    """Lists the trials of an experiment: one for each setting and seed.

    All settings have the same seeds.

    Returns:
        The flags in which each trial differs, by the name of its folder in the
        output folder; none for a single run. The name states them, so that a
        larger grid finds its part again.
    """
    if not options.has_several_runs:
        return {}
    seeds = range(options.random_seed, options.random_seed + options.num_trials)
    epochs = _short(options.num_train_epochs)
    return {
        f"trial-lr{_short(setting['learning_rate'])}"
        f"-bs{setting['train_batch_size']}-ep{epochs}-seed{seed}": {
            "random_seed": seed,
            **setting,
        }
        for setting, seed in itertools.product(options.grid, seeds)
    }


def _short(value: float) -> str:
    """Formats a number so that different numbers have different names."""
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


def summarize(task: task_lib.Task, planned: _Trials, results: _Results) -> str:
    """Writes trials.json and logs tables; returns the name of the best trial.

    Args:
        task: its metric compares the trials.
        planned: all trials, see `plan`.
        results: of the trials that did not fail, at least one.
    """
    metric, test_metric = (
        f"{task_lib.RESULTS_PREFIX[split]}_{task.metric}"
        for split in (task_lib.EVAL, task_lib.PREDICT)
    )
    if metric not in next(iter(results.values())):
        metric = task.metric  # The task names its results itself.
    scores = {name: values[metric] for name, values in results.items()}
    best = max(scores, key=scores.__getitem__)  # The first of equal ones.
    summary = {
        "metric": metric,
        "best_trial": best,
        "trials": [
            {
                "name": name,
                "flags": dict(differing),
                "metrics": dict(results.get(name, {})),
            }
            for name, differing in planned.items()
        ],
    }
    if workers.is_chief():
        path = os.path.join(task.options.output_dir, run_files.TRIALS)
        writing.write_json(path, summary)
    logging.info("%s", table(summary, metric))
    if any(test_metric in values for values in results.values()):
        logging.info("%s", table(summary, test_metric))
    return best


def table(summary: json_text.Object, metric: str) -> str:
    """Formats a metric of trials.json.

    The table has a line for each trial, and the mean of each setting that
    several seeds have.
    """
    best = summary["best_trial"]
    lines = [metric]
    settings: dict[str, list[float]] = {}
    for trial in summary["trials"]:
        score, name = trial["metrics"].get(metric), trial["name"]
        shown = "failed" if score is None else f"{score:.4f}"
        lines.append(f"{shown:>10}  {name}{'  best' if name == best else ''}")
        of_setting = settings.setdefault(name.rpartition("-seed")[0], [])
        if score is not None:
            of_setting.append(score)
    for setting, scores in settings.items():
        if len(scores) > 1:
            deviation = f"{statistics.stdev(scores):.4f}"
            lines.append(
                f"{statistics.fmean(scores):10.4f}  {setting}: mean ± "
                f"{deviation} of {len(scores)}"
            )
    return "\n".join(lines)


def find_best(options: _Options) -> str | None:
    """Names the folder of the best trial, for a run that does not train.

    Returns:
        None for a run that trains, for several runs, or if the output folder
        has no trials.
    """
    path = os.path.join(options.output_dir, run_files.TRIALS)
    if options.do_train or options.has_several_runs or not paths.exists(path):
        return None
    best = json_text.read_object(path).get("best_trial")
    if not isinstance(best, str):
        raise ValueError(f"{path} must name the best_trial; it is damaged.")
    return os.path.join(options.output_dir, best)
