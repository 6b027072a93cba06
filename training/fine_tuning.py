"""Fine-tuning of any task: checks, data, trials and their summary.

Trials are runs with other seeds, settings or folds.
Source: Devlin et al. 2019, section 4.1: the best learning rate of a grid, and
of several random restarts, on the development set.

TensorFlow is imported after the checks, so that errors appear at once.
"""

import dataclasses
import itertools
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from absl import logging

from files import json_text, paths, run_files, writing
from tasks import task as task_lib
from training import flags as training_flags
from training import option_checks

_Options = TypeVar("_Options", bound=training_flags.FineTuningOptions)


def run(
    make_task: Callable[[Any, Any], task_lib.Task],
    options: training_flags.FineTuningOptions,
    tokenizer: Any,
) -> None:
    """Trains, evaluates and predicts with a task according to the options.

    A trial whose loss is not finite has no results; the other trials run.

    Args:
        make_task: the class of the task, whose constructor checks options and
            data without TensorFlow.
        options: the flags of the script.
        tokenizer: the tokenizer of the model. Its `vocab` maps every piece to
            an id below its `vocab_size`.

    Raises:
        NonFiniteLossError: of the last trial, if all failed; see `loop.train`.
        OSError: a file cannot be read or written.
        ValueError: options, folders, checkpoints and data are inconsistent.
    """
    options = with_best_trial(options)
    config = option_checks.check_task(options, tokenizer.vocab_size)
    task = make_task(options, tokenizer)
    option_checks.check_weights(options)
    from training import loop, task_models

    setup = task_models.prepare(task, config)
    folds = _folds(task, options)
    plan = plan_run(
        dataclasses.replace(options, init_checkpoint=task.init_checkpoint),
        len(folds),
    )
    answers_everything = task.writes_everything or len(plan) == 1
    fine_tuner = task_models.FineTuner(task, setup)
    # Before the records of the checkpoints are replaced.
    for trial in plan:
        fine_tuner.check_trained(trial.options, folds[trial.fold])
    made = [
        {
            split: [task.make_data(setup, data_set) for data_set in data_sets]
            for split, data_sets in fold.items()
        }
        for fold in folds
    ]
    results: list[dict[str, float]] = []  # Empty for a trial that failed.
    for trial in plan:
        data = made[trial.fold]
        fine_tuner.start(trial.options)
        try:
            if trial.options.do_train:
                fine_tuner.train(trial.options, data)
        except loop.NonFiniteLossError as error:
            if trial is plan[-1] and not any(results):
                raise
            logging.error(
                "%s has failed and has no score: %s", trial.name, error
            )
            results.append({})
            continue
        results.append(
            fine_tuner.evaluate(
                trial.options, data, predicts=answers_everything
            )
        )
    if len(plan) == 1:
        return
    constants = [task.constant_score(data[task_lib.EVAL][0]) for data in made]
    best = _summarize(task, plan, results, constants)
    if options.do_predict and not answers_everything:
        data = {task_lib.PREDICT: made[0][task_lib.PREDICT]}
        fine_tuner.evaluate(best, data, predicts=True)


def _folds(
    task: task_lib.Task, options: training_flags.FineTuningOptions
) -> list[dict[str, Sequence[task_lib.DataSet]]]:
    """Lists the data sets of each fold by split."""
    folds_of = {split: task.folds(split) for split in options.needed_splits}
    return [
        dict(zip(folds_of, fold, strict=True))
        for fold in zip(*folds_of.values(), strict=True)
    ]


def _summarize(
    task: task_lib.Task, plan, results, constants: Sequence[float]
) -> training_flags.FineTuningOptions:
    """Writes the summary of the trials; returns the options of the best one."""
    from training import workers

    summaries = {}
    names = next(result for result in results if result).keys()
    for split, prefix in task_lib.RESULTS_PREFIX.items():
        name = f"{prefix}_{task.metric}"
        if split == task_lib.EVAL and name not in names:
            name = task.metric  # SQuAD's names have no prefix.
        if name in names:
            summaries[prefix] = summarize(plan, results, name, constants)
    if workers.cluster().is_chief:
        path = os.path.join(task.options.output_dir, run_files.TRIALS)
        content = summaries if task.writes_everything else summaries["eval"]
        writing.write_json(path, content)
    for summary in summaries.values():
        logging.info("%s", table(summary))
    best = summaries["eval"]["best_trial"]
    return next(trial.options for trial in plan if trial.name == best)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """A run of several.

    Attributes:
        name: the name of the run; empty for a single one.
        setting: its options of the grid, by name.
        fold: the number of its fold of the data, from 0.
        options: its options, with its folder, setting and seed.
    """

    name: str
    setting: Mapping[str, Any]
    fold: int
    options: training_flags.FineTuningOptions


def plan_run(
    options: training_flags.FineTuningOptions, num_folds: int = 1
) -> list[Trial]:
    """Lists the runs of an experiment.

    There is a run for each setting of the grid, seed and fold. A single run
    writes to the output folder itself; several write to `trial-1` and so on in
    it. All settings have the same seeds.
    """
    runs = list(
        itertools.product(
            options.grid, range(options.num_trials), range(num_folds)
        )
    )
    planned = []
    for number, (setting, trial, fold) in enumerate(runs, start=1):
        name = run_files.trial_name(number) if len(runs) > 1 else ""
        own = dataclasses.replace(
            options,
            output_dir=os.path.join(options.output_dir, name)
            if name
            else options.output_dir,
            random_seed=options.random_seed + trial,
            **setting,
        )
        planned.append(
            Trial(name=name, setting=setting, fold=fold, options=own)
        )
    return planned


def with_best_trial(options: _Options) -> _Options:
    """Replaces a folder of trials by that of the best one, without training.

    A run without training evaluates or predicts with one model. If its folder
    contains several trials and no checkpoint of its own, it uses the best trial
    according to `trials.json`.

    Args:
        options: the options of a run.

    Returns:
        The options, with `output_dir` replaced if it is a folder of trials.

    Raises:
        ValueError: there are trials, but `trials.json` does not name the best.
    """
    folder = options.output_dir
    if (
        options.do_train
        or options.has_several_runs
        or paths.is_remote(folder)
        or run_files.checkpoints_in(folder)
    ):
        return options
    names = sorted(
        {
            os.path.basename(os.path.dirname(path))
            for path in run_files.checkpoints_in(folder, in_trials=True)
        },
        key=lambda name: (len(name), name),
    )
    if not names:
        return options
    best = _best_trial(folder)
    if best not in names:
        raise ValueError(
            f"{folder} contains several trials, {', '.join(names)}, but no "
            f"{run_files.TRIALS} that names the best one. Pass "
            f"--output_dir={os.path.join(folder, names[0])}, or the folder of "
            "another trial."
        )
    logging.info(
        "%s contains several trials; using %s, the best one according to %s.",
        *(folder, best, run_files.TRIALS),
    )
    return dataclasses.replace(options, output_dir=os.path.join(folder, best))


def _best_trial(folder: str) -> Any:
    """Reads the name of the best trial; None if there is none."""
    path = os.path.join(folder, run_files.TRIALS)
    summary = json_text.read(path) if paths.exists(path) else None
    if isinstance(summary, dict):
        # Taggers write a summary for each file; that of held-out data decides.
        summary = summary.get("eval", summary)
    return summary.get("best_trial") if isinstance(summary, dict) else None


def summarize(
    runs: Sequence[Trial],
    results: Sequence[Mapping[str, float]],
    metric: str,
    baselines: Sequence[float],
) -> dict[str, Any]:
    """Summarizes the results of several runs for `trials.json`.

    Source: Mosbach et al. 2021, "On the Stability of Fine-tuning BERT",
    section 3: a run has failed, or collapsed, if it is no better than a
    constant answer to the same data. So has a run without results, whose loss
    was not finite. The statistics are of the other runs.

    Args:
        runs: the runs.
        results: the results of each, by metric; some may be empty, not all.
        metric: the metric that decides; higher is better.
        baselines: the score of the best constant answer to each fold.
    """
    values = [float(r[metric]) if r else None for r in results]
    # The first of equal ones.
    best = values.index(max(value for value in values if value is not None))
    collapsed = [
        value is None or value <= baselines[run.fold]
        for run, value in zip(runs, values, strict=True)
    ]

    def grouped(names: Sequence[str]) -> list[dict[str, Any]]:
        groups: dict[tuple[Any, ...], list[int]] = {}
        for place, run in enumerate(runs):
            key = tuple(run.setting[name] for name in names)
            groups.setdefault(key, []).append(place)
        return [
            {
                **dict(zip(names, key, strict=True)),
                **_statistics(
                    [values[place] for place in places],
                    [collapsed[place] for place in places],
                ),
            }
            for key, places in groups.items()
        ]

    by_setting = grouped(list(runs[0].setting))
    num_folds = 1 + max(run.fold for run in runs)
    return {
        "metric": metric,
        "constant_answer": statistics.fmean(baselines),
        "best_trial": runs[best].name,
        **_statistics(values, collapsed),
        "best_setting": max(
            (group for group in by_setting if group["num_scored"]),
            key=lambda group: group["mean"],
        ),
        "by_setting": by_setting,
        "by_learning_rate": sorted(
            grouped(["learning_rate"]),
            key=lambda group: -group["learning_rate"],
        ),
        "trials": [
            {
                "name": run.name,
                **run.setting,
                "random_seed": run.options.random_seed,
                **({"fold": run.fold + 1} if num_folds > 1 else {}),
                "collapsed": has_collapsed,
                **result,
            }
            for run, has_collapsed, result in zip(
                runs, collapsed, results, strict=True
            )
        ],
    }


def table(summary: Mapping[str, Any]) -> str:
    """Formats a summary as a table.

    It has a line for each run; one for each setting, if there are several with
    several runs each; and one for all runs.
    """
    metric, best = summary["metric"], summary["best_trial"]
    lines = [
        f"{'trial':10} {'rate':>8} {'batch':>5} {'epochs':>6} {'seed':>8} "
        f"{'fold':>4} {metric:>12}"
    ]
    for trial in summary["trials"]:
        note = "  collapsed" if trial["collapsed"] else ""
        note += "  best" if trial["name"] == best else ""
        lines.append(
            f"{trial['name']:10} {_setting(trial)} {trial['random_seed']:8} "
            f"{trial.get('fold', ''):>4} {_score(trial.get(metric))}{note}"
        )
    settings = summary["by_setting"]
    if 1 < len(settings) < summary["num_trials"]:
        for group in settings:
            text = _score(group.get("mean"))
            if group["num_scored"]:
                text += f" ± {group['standard_deviation']:.4f}"
            if group["num_scored"] < group["num_trials"]:
                text += f"  {group['num_scored']} of {group['num_trials']} runs"
            if group == summary["best_setting"]:
                text += "  best"
            lines.append(f"{'mean':10} {_setting(group)} {'':13} {text}")
    failed = summary["num_trials"] - summary["num_scored"]
    lines.append(
        f"{metric}: mean {summary['mean']:.4f} ± "
        f"{summary['standard_deviation']:.4f}, median "
        f"{summary['median']:.4f}, best {summary['best']:.4f} ({best}), "
        f"{summary['num_collapsed']} of "
        f"{summary['num_trials']} collapsed (no better than a constant "
        f"answer, {summary['constant_answer']:.4f}"
        f"{', or without a score' if failed else ''})"
    )
    return "\n".join(lines)


def _setting(values: Mapping[str, Any]) -> str:
    return (
        f"{values['learning_rate']:8.1e} {values['train_batch_size']:5} "
        f"{values['num_train_epochs']:6g}"
    )


def _score(value: float | None) -> str:
    return f"{'-':>12}" if value is None else f"{value:12.4f}"


def _statistics(
    values: Sequence[float | None], collapsed: Sequence[bool]
) -> dict[str, Any]:
    """Describes the runs that have a score; only counts them if none has."""
    scores = [value for value in values if value is not None]
    counts = {
        "num_trials": len(values),
        "num_scored": len(scores),
        "num_collapsed": sum(collapsed),
    }
    if not scores:
        return counts
    return {
        **counts,
        "median": statistics.median(scores),
        "mean": statistics.fmean(scores),
        "standard_deviation": (
            statistics.stdev(scores) if len(scores) > 1 else 0.0
        ),
        "best": max(scores),
    }
