"""Runs whose model gives each example one row of outputs.

Texts with labels or scores, and sets of choices: they are trained, evaluated
and tried again with other seeds and rates in the same way.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from absl import logging

from files import writing
from training import (
    experiment,
    labelled_records,
    objectives,
    prediction,
    preparation,
    trials,
)

_Results = dict[str, float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Problem:
    """What is learnt, and how answers are judged.

    Attributes:
        name: what is learnt; see `experiment.Training`.
        make_objective: makes a model with new weights.
        head: patterns of the variables of its output layer.
        labels: what its outputs mean, as labels.json holds it.
        metric: decides which checkpoint, and which trial, is the best.
        pool: outputs of records `[R, K]`, and how many each example has `[E]`,
            to outputs of examples `[E, K]`.
        score: `label_ids` and outputs of examples to metrics.
        constant_answer: `label_ids` to the metric of the best constant answer.
    """

    name: str
    make_objective: Callable[[], objectives.Classification]
    head: tuple[str, ...]
    labels: Mapping[str, object]
    metric: str
    pool: Callable[[np.ndarray, Sequence[int]], np.ndarray]
    score: Callable[[np.ndarray, np.ndarray], Mapping[str, float]]
    constant_answer: Callable[[np.ndarray], float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Data:
    """What a problem is learnt from and judged by.

    Attributes:
        train: None where nothing is trained.
        held_out: by what the names of their results end in; the first decides.
    """

    train: labelled_records.LabelledRecords | None
    held_out: Mapping[str, labelled_records.LabelledRecords]

    @property
    def decisive(self) -> labelled_records.LabelledRecords:
        """By which checkpoints and trials are chosen."""
        return next(iter(self.held_out.values()))


def run(
    setup: preparation.Setup, problem: Problem, data: Data
) -> experiment.Learner:
    """Trains and evaluates every trial.

    Returns:
        The best one, with its weights loaded if anything is to be answered.

    Raises:
        ValueError: folders, checkpoints and data do not fit together.
    """
    results, plan = [], trials.plan_run(setup.options)
    learner = None
    for _, options in plan:
        learner, result = _run_trial(setup, options, problem, data, learner)
        results.append(result)
    if len(plan) == 1:
        return learner
    return _choose(setup, learner, plan, results, problem, data)


def answer(
    learner: experiment.Learner,
    problem: Problem,
    data: labelled_records.LabelledRecords,
    batch_size: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the outputs of examples `[E, K]`, and losses of records `[R]`."""
    scores = learner.predict(data.source, batch_size)
    outputs = problem.pool(scores["outputs"], data.rows_per_example)
    return outputs, scores["losses"]


def _run_trial(
    setup,
    options,
    problem: Problem,
    data: Data,
    earlier: experiment.Learner | None,
) -> tuple[experiment.Learner, _Results]:
    learner = experiment.make_learner(
        setup,
        options,
        problem.make_objective,
        problem.labels,
        earlier=earlier,
    )

    def evaluate() -> _Results:
        results = _evaluate(learner, problem, data.decisive)
        del results["loss"]
        return {k.removeprefix("eval_"): v for k, v in results.items()}

    if options.do_train:
        learner.train(
            experiment.Training(
                name=problem.name,
                source=data.train.source,
                metric=problem.metric,
                evaluate=evaluate,
                head=problem.head,
            )
        )
    results = {}
    if options.do_eval or options.do_predict:
        step = learner.load()
    if options.do_eval:
        for suffix, held_out in data.held_out.items():
            scores = _evaluate(learner, problem, held_out)
            results |= {f"{k}{suffix}": v for k, v in scores.items()}
        learner.write_results({**results, "global_step": step})
    return learner, results


def _evaluate(learner, problem: Problem, data) -> _Results:
    """Scores a file with labels, as eval_results.txt holds it."""
    size = learner.options.eval_batch_size
    outputs, losses = answer(learner, problem, data, size)
    metrics = problem.score(data.label_ids, outputs)
    return {
        # As released: one averages batches, the other examples.
        "loss": prediction.mean_of_batch_means(losses, size),
        "eval_loss": prediction.mean_of_batch_means(losses, len(losses)),
        **{f"eval_{name}": value for name, value in metrics.items()},
    }


def _choose(
    setup, learner, plan, results, problem: Problem, data: Data
) -> experiment.Learner:
    """Writes what several trials came to; loads the best of them."""
    summary = trials.summarize(
        [trial for trial, _ in plan],
        results,
        f"eval_{problem.metric}",
        problem.constant_answer(data.decisive.label_ids),
    )
    if learner.is_chief:
        path = os.path.join(setup.options.output_dir, trials.SUMMARY_FILE)
        writing.write_json(path, summary)
    logging.info("%s", trials.table(summary))
    best = next(
        options
        for trial, options in plan
        if trial.name == summary["best_trial"]
    )
    chosen = dataclasses.replace(learner, options=best)
    chosen.load()
    return chosen
