"""Predictions of classifiers: answers, scores and files."""

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from files import writing
from tasks import task
from tasks.classification import datasets, labels, metrics

THRESHOLD = 0.5  # for the probability of a label in multi-label tasks
_NUM_EXAMPLES = 50  # Number of listed examples of highest loss.


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
    """
    counts = np.asarray(rows_per_example, np.int64)
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
        return (outputs >= THRESHOLD).astype(np.int32)
    return np.argmax(outputs, axis=-1)


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


def result_lines(outputs: np.ndarray) -> Iterator[str]:
    """Yields the lines of test_results.tsv.

    As released: the `K` values of a row in their shortest float32
    representation, separated by tabs; no header, no ids.
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
    for row, answer in zip(outputs, answers(label_set, outputs), strict=True):
        if label_set.problem_type == task.REGRESSION:
            yield {"score": shortest(row[0])}
            continue
        shares = zip(label_set.names, map(shortest, row), strict=True)
        yield {
            "labels" if several else "label": answer,
            "probabilities": dict(shares),
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
    """

    outputs: np.ndarray
    losses: np.ndarray


class LabeledTask(task.Task[task.Content, Answers]):
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
        self,
        data: task.Records[task.Content],
        outputs: Mapping[str, np.ndarray],
    ) -> Answers:
        losses = outputs["losses"][:, np.newaxis]  # [R, 1]
        return Answers(
            outputs=pool_windows(outputs["outputs"], data.rows_per_example),
            losses=pool_windows(losses, data.rows_per_example)[:, 0],
        )

    def metrics(
        self, data: task.Records[task.Content], answers: Answers
    ) -> dict[str, float]:
        scores = metrics.evaluate(
            self.metric_names,
            self.label_ids(data),
            decide(self.label_set, answers.outputs),
            answers.outputs,
        )
        return {"loss": float(np.mean(answers.losses)), **scores}

    def results(
        self, data: task.Records[task.Content], answers: Answers
    ) -> dict[str, float]:
        # As released: `loss` is a mean over batches, `eval_loss` over examples.
        loss = mean_of_batch_means(answers.losses, self.options.eval_batch_size)
        return {
            f"loss{data.data_set.suffix}": loss,
            **super().results(data, answers),
        }

    def label_ids(self, data: task.Records[task.Content]) -> np.ndarray:
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


def write_report(
    file: datasets.TextFile,
    label_ids: np.ndarray,
    answers: Answers,
    folder: str,
) -> None:
    """Writes the report files of an evaluation.

    `eval_report.txt`, `eval_confusion_matrix.png` (for one label) and
    `eval_highest_loss.jsonl`; for scores only the last one.

    Args:
        file: source of the E examples.
        label_ids: `[E]` class ids or scores, or `[E, K]` 0 or 1.
        answers: predictions with one loss per example, `[E]`.
        folder: output folder.
    """
    label_set, suffix = file.label_set, file.split.suffix
    files: dict[str, Iterable[str]] = {
        f"eval_highest_loss{suffix}.jsonl": _highest_losses(file, answers)
    }
    if label_set.problem_type != task.REGRESSION:
        decisions = decide(label_set, answers.outputs)
        report = metrics.report(label_set, label_ids, decisions)
        files[f"eval_report{suffix}.txt"] = [report]
    writing.write_files(folder, files)
    if label_set.problem_type == task.SINGLE_LABEL:
        plot = os.path.join(folder, f"eval_confusion_matrix{suffix}.png")
        metrics.draw(label_set.names, label_ids, decisions, plot)


def _highest_losses(
    file: datasets.TextFile, predicted: Answers
) -> Iterator[str]:
    """Yields the examples of highest loss as JSON lines, highest first.

    Each has `row`, that of the file, from 0 without the header, `loss`,
    `label`, `prediction` and texts.
    """
    examples = file.examples(with_labels=True)
    decisions = answers(file.label_set, predicted.outputs)
    order = np.argsort(-predicted.losses, kind="stable")
    for place in order[:_NUM_EXAMPLES]:
        example = examples[place]
        line = {
            "row": example.row,
            "loss": round(float(predicted.losses[place]), 6),
            "label": example.label,
            "prediction": decisions[place],
            "text_a": example.text_a,
            **({} if example.text_b is None else {"text_b": example.text_b}),
        }
        yield json.dumps(line, ensure_ascii=False) + "\n"
