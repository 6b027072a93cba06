"""Fine-tuning of any task: checks, data, trials and their summary.

Trials are runs with other seeds or settings.
Source: Devlin et al. 2019, section 4.1: the best learning rate of a grid, and
of several random restarts, on the development set.

TensorFlow is imported after the checks, so that errors appear at once.
"""

import dataclasses
import itertools
import os
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from absl import logging

from files import json_text, paths, run_files, writing
from tasks import task as task_lib
from training import flags as training_flags
from training import model_folder, option_checks, reporting, run_record

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
    config = option_checks.check_task(options, tokenizer.vocab_size)
    task = make_task(options, tokenizer)
    option_checks.check_weights(options)
    run_record.write_start(task.options)
    from training import task_models

    setup = task_models.prepare(task, config)
    plan = plan_run(
        dataclasses.replace(options, init_checkpoint=task.init_checkpoint)
    )
    fine_tuner = task_models.FineTuner(task, setup)
    # Before the records of the checkpoints are replaced.
    for trial in plan:
        fine_tuner.check_trained(trial.options)
    data = {
        split: [task.make_data(setup, each) for each in task.data_sets(split)]
        for split in options.needed_splits
    }
    # Each trial has test scores if there are labels; else the best one answers.
    predicts = len(plan) == 1 or any(
        each.data_set.has_labels for each in data.get(task_lib.PREDICT, ())
    )
    results: list[dict[str, float]] = []  # Empty for a trial that failed.
    for trial in plan:
        fine_tuner.start(trial.options)
        try:
            if trial.options.do_train:
                fine_tuner.train(trial.options, data)
        except reporting.NonFiniteLossError as error:
            if trial is plan[-1] and not any(results):
                raise
            logging.error(
                "%s has failed and has no score: %s", trial.name, error
            )
            results.append({})
            continue
        results.append(
            fine_tuner.evaluate(trial.options, data, predicts=predicts)
        )
    if len(plan) == 1:
        return
    best = _summarize(task, plan, results)
    if options.do_predict and not predicts:
        test = {task_lib.PREDICT: data[task_lib.PREDICT]}
        fine_tuner.evaluate(best, test, predicts=True)


def _summarize(
    task: task_lib.Task, plan, results
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
            summaries[prefix] = summarize(plan, results, name)
    if workers.is_chief():
        path = os.path.join(task.options.output_dir, run_files.TRIALS)
        content = summaries if len(summaries) > 1 else summaries["eval"]
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
        options: its options, with its folder, setting and seed.
    """

    name: str
    setting: Mapping[str, Any]
    options: training_flags.FineTuningOptions


def plan_run(options: training_flags.FineTuningOptions) -> list[Trial]:
    """Lists the runs of an experiment.

    There is a run for each setting of the grid and seed. A single run writes to
    the output folder itself; several write to `trial-1` and so on in it. All
    settings have the same seeds.
    """
    runs = list(itertools.product(options.grid, range(options.num_trials)))
    planned = []
    for number, (setting, trial) in enumerate(runs, start=1):
        name = run_files.trial_name(number) if len(runs) > 1 else ""
        own = dataclasses.replace(
            options,
            output_dir=os.path.join(options.output_dir, name)
            if name
            else options.output_dir,
            random_seed=options.random_seed + trial,
            **setting,
        )
        planned.append(Trial(name=name, setting=setting, options=own))
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


def follow_model(
    options: _Options, task: str, given: Collection[str]
) -> _Options:
    """Chooses the model of a run that does not train, and follows its folder.

    Args:
        options: of the run.
        task: of the run, one of `model_folder.TASKS`.
        given: the names of the flags on the command line.

    Returns:
        The options: those of the best trial, if the folder has several; flags
        that are not given have the values with which the model was trained.
    """
    return model_folder.follow(with_best_trial(options), task, given)


def _best_trial(folder: str) -> Any:
    """Reads the name of the best trial; None if there is none."""
    path = os.path.join(folder, run_files.TRIALS)
    summary = json_text.read(path) if paths.exists(path) else None
    if isinstance(summary, dict):
        # There may be one of the test data too; held-out data decide.
        summary = summary.get("eval", summary)
    return summary.get("best_trial") if isinstance(summary, dict) else None


def summarize(
    runs: Sequence[Trial],
    results: Sequence[Mapping[str, float]],
    metric: str,
) -> dict[str, Any]:
    """Summarizes the results of several runs for `trials.json`.

    The statistics leave out runs without results, whose loss was not finite.

    Args:
        runs: the runs.
        results: the results of each, by metric; some may be empty, not all.
        metric: the metric that decides; higher is better.
    """
    values = [float(r[metric]) if r else None for r in results]
    # The first of equal ones.
    best = values.index(max(value for value in values if value is not None))

    def grouped(names: Sequence[str]) -> list[dict[str, Any]]:
        groups: dict[tuple[Any, ...], list[int]] = {}
        for place, run in enumerate(runs):
            key = tuple(run.setting[name] for name in names)
            groups.setdefault(key, []).append(place)
        return [
            {
                **dict(zip(names, key, strict=True)),
                **_statistics([values[place] for place in places]),
            }
            for key, places in groups.items()
        ]

    by_setting = grouped(list(runs[0].setting))
    return {
        "metric": metric,
        "best_trial": runs[best].name,
        **_statistics(values),
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
                **result,
            }
            for run, result in zip(runs, results, strict=True)
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
        f"{metric:>12}"
    ]
    for trial in summary["trials"]:
        note = "  best" if trial["name"] == best else ""
        lines.append(
            f"{trial['name']:10} {_setting(trial)} {trial['random_seed']:8} "
            f"{_score(trial.get(metric))}{note}"
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
            lines.append(f"{'mean':10} {_setting(group)} {'':8} {text}")
    failed = summary["num_trials"] - summary["num_scored"]
    lines.append(
        f"{metric}: mean {summary['mean']:.4f} ± "
        f"{summary['standard_deviation']:.4f}, median "
        f"{summary['median']:.4f}, best {summary['best']:.4f} ({best})"
        + (f", {failed} of {summary['num_trials']} failed" if failed else "")
    )
    return "\n".join(lines)


def _setting(values: Mapping[str, Any]) -> str:
    return (
        f"{values['learning_rate']:8.1e} {values['train_batch_size']:5} "
        f"{values['num_train_epochs']:6g}"
    )


def _score(value: float | None) -> str:
    return f"{'-':>12}" if value is None else f"{value:12.4f}"


def _statistics(values: Sequence[float | None]) -> dict[str, Any]:
    """Describes the runs that have a score; only counts them if none has."""
    scores = [value for value in values if value is not None]
    counts = {"num_trials": len(values), "num_scored": len(scores)}
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
