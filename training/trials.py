"""Trials of an experiment: runs with other seeds or settings.

Source: Devlin et al. 2019, section 4.1: the best learning rate of a grid, and
of several random restarts, on the development set.
"""

import dataclasses
import itertools
import os
import statistics
from collections.abc import Mapping

from absl import logging

from files import json_text, paths, run_files, writing
from modeling import checkpoint_files
from tasks import task as task_lib
from training import options as training_options
from training import workers

_Options = training_options.FineTuningOptions
# Options of each trial, by the name of its folder.
_Trials = Mapping[str, _Options]
_Results = Mapping[str, Mapping[str, float]]


def plan(options: _Options) -> dict[str, _Options]:
    """Lists the runs of an experiment: one for each setting and seed.

    All settings have the same seeds.

    Returns:
        The options of each run by its name: "" for a single run, which writes
        to the output folder itself. Several write to folders of these names in
        it, which state the setting, so that a larger grid finds its part again.
    """
    planned = {}
    seeds = range(options.random_seed, options.random_seed + options.num_trials)
    for setting, seed in itertools.product(options.grid, seeds):
        trial = dataclasses.replace(options, random_seed=seed, **setting)
        name = ""
        if options.has_several_runs:
            name = (
                f"trial-lr{_short(trial.learning_rate)}"
                f"-bs{trial.train_batch_size}"
                f"-ep{_short(trial.num_train_epochs)}-seed{seed}"
            )
            folder = os.path.join(options.output_dir, name)
            trial = dataclasses.replace(trial, output_dir=folder)
        planned[name] = trial
    return planned


def _short(value: float) -> str:
    """Formats a number so that different numbers have different names."""
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


def summarize(
    task: task_lib.Task, planned: _Trials, results: _Results
) -> _Options:
    """Writes trials.json and logs a table; returns the best trial's options.

    Args:
        task: its metric compares the trials.
        planned: the options of all trials.
        results: of the trials that did not fail, at least one.
    """
    metric = task_lib.RESULTS_PREFIX[task_lib.EVAL] + f"_{task.metric}"
    if metric not in next(iter(results.values())):
        metric = task.metric  # SQuAD's names have no prefix.
    scores = {name: values[metric] for name, values in results.items()}
    best = max(scores, key=scores.__getitem__)  # The first of equal ones.
    names = ("random_seed", *task.options.grid[0])
    summary = {
        "metric": metric,
        "best_trial": best,
        "trials": [
            {
                "name": name,
                "flags": {key: getattr(trial, key) for key in names},
                "metrics": dict(results.get(name, {})),
            }
            for name, trial in planned.items()
        ],
    }
    if workers.is_chief():
        path = os.path.join(task.options.output_dir, run_files.TRIALS)
        writing.write_json(path, summary)
    logging.info("%s", table(summary))
    return planned[best]


def _has_model(folder: str) -> bool:
    location = checkpoint_files.in_folder(folder)
    return location is not None and location.is_latest


def table(summary: json_text.Object) -> str:
    """Formats the content of trials.json.

    It has a line for each trial, and the mean of each setting that several
    seeds have.
    """
    metric, best = summary["metric"], summary["best_trial"]
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


def best_of(options: _Options) -> _Options:
    """Returns the options of the best trial for a run that does not train.

    They are the same if the output folder has a model itself, or no trials.
    """
    folder = options.output_dir
    path = os.path.join(folder, run_files.TRIALS)
    if (
        options.do_train
        or options.has_several_runs
        or _has_model(folder)
        or not paths.exists(path)
    ):
        return options
    best = json_text.read_object(path)["best_trial"]
    logging.info("Using %s, the best trial in %s.", best, folder)
    return dataclasses.replace(options, output_dir=os.path.join(folder, best))
