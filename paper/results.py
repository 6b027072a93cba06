"""Results of finished jobs, read from their result files."""

import dataclasses
import math
import os
import statistics
from collections.abc import Iterable, Sequence

from files import json_text

# Written by scripts with several seeds or rates; see `training/trials.py`.
_TRIALS_FILE = "trials.json"


def shown(metric: str, value: float) -> float:
    """Converts a number of a result file to the paper's unit.

    Args:
        metric: its key. Keys with `eval_` and `test_` are fractions, which the
            paper prints as percentages; SQuAD's numbers are percentages; a loss
            is in nats per word, for which the paper prints the perplexity.
        value: in the file.
    """
    if lower_is_better(metric):
        return math.exp(value)
    return 100 * value if metric.startswith(("eval_", "test_")) else value


def lower_is_better(metric: str) -> bool:
    """Returns whether a metric is a loss."""
    return metric.endswith("_loss")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """The result of one run.

    Attributes:
        learning_rate: None if the file does not contain it.
        value: of the metric, in the paper's unit.
    """

    learning_rate: float | None
    value: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """The results of the trials of a cell.

    Attributes:
        values: of the runs with the chosen rate, in order.
        best: of all runs.
        learning_rate: the chosen rate, with the best mean.
    """

    values: tuple[float, ...]
    best: float
    learning_rate: float | None

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation; None for one value."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def standard_error(self) -> float | None:
        """The standard error of the mean; None for one value."""
        if self.deviation is None:
            return None
        return self.deviation / math.sqrt(len(self.values))


def read_trials(folder: str, metric: str) -> list[Trial]:
    """Reads the results of one job.

    Args:
        folder: the output folder of the job.
        metric: the key in its result file.

    Raises:
        OSError: there is no result file.
        ValueError: the file does not contain the metric.
    """
    path = os.path.join(folder, _TRIALS_FILE)
    if os.path.exists(path):
        content = json_text.read_object(path)
        part = metric.partition("_")[0]
        runs = content.get(part, content)["trials"]
    else:
        name = "test" if metric.startswith("test_") else "eval"
        path = os.path.join(folder, f"{name}_results.txt")
        runs = [_read_results(path)]
    lacking = [run for run in runs if metric not in run]
    if lacking:
        raise ValueError(
            f"{path}: must contain {metric!r}; got "
            f"{', '.join(sorted(lacking[0]))}."
        )
    return [
        Trial(
            learning_rate=run.get("learning_rate"),
            value=shown(metric, float(run[metric])),
        )
        for run in runs
    ]


def _read_results(path: str) -> dict[str, str]:
    """Reads lines of `key = value`."""
    with open(path, encoding="utf-8") as file:
        pairs = (line.partition(" = ") for line in file)
        return {key: value.strip() for key, sign, value in pairs if sign}


def summarize(
    trials: Sequence[Trial], *, lower_is_better: bool = False
) -> Summary:
    """Selects the learning rate with the best mean, and the best run of all.

    Args:
        trials: one or more.
        lower_is_better: whether lower values are better.

    Raises:
        ValueError: there is no trial.
    """
    if not trials:
        raise ValueError("A summary needs at least one trial; got none.")
    choose = min if lower_is_better else max
    by_rate: dict[float | None, list[float]] = {}
    for trial in trials:
        by_rate.setdefault(trial.learning_rate, []).append(trial.value)
    rate = choose(by_rate, key=lambda rate: statistics.fmean(by_rate[rate]))
    return Summary(
        values=tuple(by_rate[rate]),
        best=choose(trial.value for trial in trials),
        learning_rate=rate,
    )


def collect(
    folders: Iterable[str], metric: str
) -> tuple[Summary | None, list[str]]:
    """Summarizes the existing results of several jobs.

    Returns:
        The summary, None without results; and the errors in result files.
    """
    trials, problems = [], []
    for folder in folders:
        try:
            trials += read_trials(folder, metric)
        except (OSError, ValueError, KeyError) as error:
            problems.append(str(error))
    if not trials:
        return None, problems
    summary = summarize(trials, lower_is_better=lower_is_better(metric))
    return summary, problems
