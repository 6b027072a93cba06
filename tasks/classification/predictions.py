"""Predictions of classifiers: answers, scores and files."""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tasks import task
from tasks.classification import datasets, glue, labels, metrics

THRESHOLD = 0.5  # for the probability of a label in multi-label tasks
# Metrics that are 0 by definition if either side is constant.
_ZERO_FOR_CONSTANTS = (metrics.MATTHEWS, metrics.PEARSON, metrics.SPEARMAN)


def pool_windows(
    outputs: np.ndarray, rows_per_example: Sequence[int] | np.ndarray
) -> np.ndarray:
    """Averages the outputs of the windows of each text.

    Args:
        outputs: `[R, K]` float, probabilities or scores of all windows, grouped
            by text.
        rows_per_example: `[E]`, the number of windows of each text, at least
            1.

    Returns:
        `[E, K]` float.

    Raises:
        ValueError: the counts do not add up to `R`, or one is below 1.
    """
    counts = np.asarray(rows_per_example, np.int64)
    if counts.sum() != len(outputs) or np.any(counts < 1):
        raise ValueError(
            "Every text must have at least one window, and the counts must add "
            f"up to the number of outputs, {len(outputs)}; they add up to "
            f"{counts.sum()}, and the minimum is {counts.min(initial=0)}."
        )
    if len(outputs) == len(counts):
        return outputs
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    sums = np.add.reduceat(outputs, starts, axis=0)  # [E, K]
    return sums / counts[:, None].astype(outputs.dtype)


def decide(label_set: labels.LabelSet, outputs: np.ndarray) -> np.ndarray:
    """Chooses an answer for each example.

    Args:
        label_set: the labels.
        outputs: `[E, K]` float, probabilities, or scores if `regression`.

    Returns:
        `[E]` class ids, `[E, K]` 0 or 1, or `[E]` scores.
    """
    if label_set.problem_type == task.REGRESSION:
        return outputs[:, 0]
    if label_set.problem_type == task.MULTI_LABEL:
        thresholds = np.asarray(label_set.thresholds or THRESHOLD, np.float32)
        return (outputs >= thresholds).astype(np.int32)
    return np.argmax(outputs, axis=-1)


def best_thresholds(
    label_ids: np.ndarray, outputs: np.ndarray
) -> tuple[float, ...]:
    """Chooses the threshold of each label with the highest F1.

    Source: Lipton et al. 2014, "Optimal Thresholding of Classifiers to Maximize
    F1 Measure".

    Args:
        label_ids: `[E, K]`, each 0 or 1.
        outputs: `[E, K]` float, probabilities.

    Returns:
        `K` thresholds, each the midpoint between two probabilities (the higher
        one if no float32 lies between them); 0.5 if no other gives a higher F1.
    """
    chosen = []
    for targets, probabilities in zip(label_ids.T, outputs.T, strict=True):
        order = np.argsort(-probabilities, kind="stable")
        falling = np.append(probabilities[order].astype(np.float64), 0.0)
        # F1 if the first n are positive, n = 1 to E: 2 TP / (predicted + true).
        right = np.cumsum(targets[order])
        scores = 2 * right / (np.arange(1, len(order) + 1) + targets.sum())
        # Equal probabilities are on the same side of any threshold.
        scores[falling[:-1] == falling[1:]] = 0.0
        best = int(np.argmax(scores))
        at_half = np.count_nonzero(probabilities >= THRESHOLD)
        is_better = scores[best] > (scores[at_half - 1] if at_half else 0.0)
        between = (falling[best] + falling[best + 1]) / 2
        if np.float32(between) <= falling[best + 1]:  # They are neighbors.
            between = falling[best]
        chosen.append(float(between) if is_better else THRESHOLD)
    return tuple(chosen)


def constant_answer(
    label_set: labels.LabelSet,
    metric: str,
    label_ids: Sequence[labels.LabelId] | np.ndarray,
) -> float:
    """Computes the score of the best constant answer, the baseline.

    Args:
        label_set: the labels.
        metric: the score; higher is better.
        label_ids: `E` labels, as from `LabelSet.encode`.

    Returns:
        The score of the best class; with several labels, of the best among
        all, none, and those of more than half of the examples.
    """
    if metric in _ZERO_FOR_CONSTANTS:
        return 0.0
    targets = np.asarray(label_ids)
    if label_set.problem_type == task.REGRESSION:
        constants: Sequence[Any] = [np.median(targets)]
    elif label_set.problem_type == task.MULTI_LABEL:
        common = (np.mean(targets, axis=0) > 0.5).astype(targets.dtype)
        constants = [np.ones_like(common), np.zeros_like(common), common]
    else:
        constants = range(label_set.num_outputs)
    return max(
        metrics.evaluate(
            [metric],
            targets,
            np.broadcast_to(np.asarray(answer, targets.dtype), targets.shape),
            label_set.num_outputs,
        )[metric]
        for answer in constants
    )


def answers(
    label_set: labels.LabelSet, outputs: np.ndarray
) -> list[labels.Label]:
    """Returns the answer for each example: a class, several, or a score.

    Args:
        label_set: the labels.
        outputs: `[E, K]` float.
    """
    chosen = decide(label_set, outputs)
    names = label_set.names
    if label_set.problem_type == task.REGRESSION:
        return [float(score) for score in chosen]
    if label_set.problem_type == task.MULTI_LABEL:
        return [tuple(names[i] for i in np.flatnonzero(row)) for row in chosen]
    return [names[i] for i in chosen]


def result_files(
    label_set: labels.LabelSet,
    split: datasets.SplitInfo,
    suffix: str,
    outputs: np.ndarray,
) -> dict[str, Iterable[str]]:
    """Creates the prediction files for one test file.

    Args:
        label_set: the labels, with the thresholds to use.
        split: the test file.
        suffix: identifies its results; "" for the file of the release.
        outputs: `[E, K]` float32, probabilities or scores.

    Returns:
        File name -> lines: `test_results.tsv` as released;
        `predictions.jsonl`, with names; for GLUE also the server's file.
    """
    files: dict[str, Iterable[str]] = {
        f"test_results{suffix}.tsv": result_lines(outputs),
        f"predictions{suffix}.jsonl": prediction_lines(label_set, outputs),
    }
    if split.submission:
        # A list, because its lines are also added to the zip of a submission.
        chosen = answers(label_set, outputs)
        files[f"{split.submission}.tsv"] = list(
            glue.submission_lines(split.submission, chosen)
        )
    return files


def result_lines(outputs: np.ndarray) -> Iterator[str]:
    """Yields the lines of test_results.tsv.

    As released: the `K` values of a row in their shortest float32
    representation, separated by tabs; no header, no ids.

    Args:
        outputs: `[E, K]` float32.
    """
    for row in np.asarray(outputs, np.float32):
        yield "\t".join(map(str, row)) + "\n"


def prediction_lines(
    label_set: labels.LabelSet, outputs: np.ndarray
) -> Iterator[str]:
    """Yields the lines of predictions.jsonl.

    Each is an object: `row`, the index of the example among those read from
    its file, from 0, then the fields of `named_answers`.

    Args:
        label_set: the labels.
        outputs: `[E, K]` float32.
    """
    for index, named in enumerate(named_answers(label_set, outputs)):
        line = {"row": index, **named}
        yield json.dumps(line, ensure_ascii=False) + "\n"


def named_answers(
    label_set: labels.LabelSet, outputs: np.ndarray
) -> Iterator[dict[str, Any]]:
    """Yields the answer for each example as JSON.

    It has `label` and `probabilities` by name, or `labels` and `probabilities`,
    or `score`.

    Args:
        label_set: the labels.
        outputs: `[E, K]` float32.
    """
    several = label_set.problem_type == task.MULTI_LABEL
    answer_key = "labels" if several else "label"
    for row, answer in zip(outputs, answers(label_set, outputs), strict=True):
        if label_set.problem_type == task.REGRESSION:
            yield {"score": shortest(row[0])}
            continue
        probabilities = map(shortest, row)
        yield {
            answer_key: answer,
            "probabilities": dict(
                zip(label_set.names, probabilities, strict=True)
            ),
        }


def shortest(value: Any) -> float:
    """Rounds a float32 to its shortest form: 0.1, not 0.10000000149011612."""
    return float(str(np.float32(value)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answers:
    """Model outputs for labeled examples.

    Attributes:
        outputs: `[E, K]` float32, probabilities or scores.
        losses: `[E]` float32.
        label_set: the labels, with the thresholds to decide by.
    """

    outputs: np.ndarray
    losses: np.ndarray
    label_set: labels.LabelSet


class LabeledTask(task.Task):
    """A task with one label, several labels or a score per example.

    Its objective returns `outputs` and `losses`. A subclass also sets:

    Attributes:
        label_set: the labels.
        metric_names: the metrics; the first one selects checkpoints.
    """

    label_set: labels.LabelSet
    metric_names: tuple[str, ...]

    @property
    def metric(self) -> str:
        return self.metric_names[0]

    def decode(
        self, data: task.Data, outputs: Mapping[str, np.ndarray]
    ) -> Answers:
        losses = outputs["losses"][:, np.newaxis]  # [R, 1]
        return Answers(
            outputs=pool_windows(outputs["outputs"], data.rows_per_example),
            losses=pool_windows(losses, data.rows_per_example)[:, 0],
            label_set=self.label_set,
        )

    def metrics(self, data: task.Data, answers: Answers) -> dict[str, float]:
        chosen = decide(answers.label_set, answers.outputs)
        scores = metrics.evaluate(
            self.metric_names,
            self.label_ids(data),
            chosen,
            self.label_set.num_outputs,
        )
        return {"loss": float(np.mean(answers.losses)), **scores}

    def results(self, data: task.Data, answers: Answers) -> dict[str, float]:
        # As released: `loss` is a mean over batches, `eval_loss` over examples.
        loss = mean_of_batch_means(answers.losses, self.options.eval_batch_size)
        return {
            f"loss{data.data_set.suffix}": loss,
            **super().results(data, answers),
        }

    def constant_score(self, data: task.Data) -> float:
        return constant_answer(
            self.label_set, self.metric, self.label_ids(data)
        )

    def label_ids(self, data: task.Data) -> np.ndarray:
        """Returns `[E]` or, for several labels, `[E, K]`."""
        if self.label_set.problem_type == task.MULTI_LABEL:
            return data.label_ids
        return data.label_ids[:, 0]


def mean_of_batch_means(losses: np.ndarray, batch_size: int) -> float:
    """Returns the mean of the mean losses of batches in file order.

    As released: a short last batch has the weight of a full one, so the result
    depends on the batch size.

    Args:
        losses: `[N]` float.
        batch_size: records in a batch.
    """
    starts = range(0, len(losses), batch_size)
    return float(np.mean([np.mean(losses[i : i + batch_size]) for i in starts]))
