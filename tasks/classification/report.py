"""Evaluation reports: scores by label, confusions, examples of high loss."""

import json
import os
from collections.abc import Iterator, Sequence
from typing import IO

import numpy as np
from absl import logging

from files import writing
from tasks import task
from tasks.classification import datasets, labels, metrics, predictions

_NUM_PAIRS = 10  # Number of listed confused pairs.
_NUM_EXAMPLES = 50  # Number of listed examples of highest loss.
_MOST_NUMBERS = 30  # Maximum classes for numbers and names in the plot.
_LONGEST_NAME = 25  # Maximum characters of a name in the plot.
_LARGE_INCHES = 10.0


def write(
    file: datasets.TextFile,
    label_ids: np.ndarray,
    answers: predictions.Answers,
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
    label_set = file.info.label_set

    def path(name: str) -> str:
        return os.path.join(folder, name.replace(".", f"{file.suffix}."))

    with writing.whole_file(path("eval_highest_loss.jsonl")) as output:
        output.writelines(_highest_losses(file, answers))
    if label_set.problem_type == task.REGRESSION:
        return
    decisions = predictions.decide(label_set, answers.outputs)
    with writing.whole_file(path("eval_report.txt")) as output:
        output.write(scores(label_set, label_ids, decisions))
    logging.info("Scores by label: %s", path("eval_report.txt"))
    if label_set.problem_type == task.SINGLE_LABEL:
        matrix = _confusions(label_set, label_ids, decisions)
        with writing.whole_file(
            path("eval_confusion_matrix.png"), "wb"
        ) as output:
            draw(label_set.names, matrix, output)


def scores(
    label_set: labels.LabelSet, targets: np.ndarray, decisions: np.ndarray
) -> str:
    """Formats scikit-learn's scores by label, and the commonest confusions.

    Args:
        label_set: `K` labels, one or several per example.
        targets: `[E]` class ids, or `[E, K]` 0 or 1.
        decisions: of the same shape.
    """
    # Imported here, since it takes seconds and reading data does not need it.
    from sklearn import metrics as sklearn_metrics

    names = label_set.names
    rows, columns, ids = metrics.without_single_column(
        targets, decisions, range(len(names))
    )
    text = sklearn_metrics.classification_report(
        rows,
        columns,
        labels=ids,
        target_names=names,
        digits=4,
        zero_division=0.0,
    )
    if label_set.problem_type == task.MULTI_LABEL:
        return text
    matrix = _confusions(label_set, targets, decisions)
    wrong = matrix * (1 - np.eye(len(names), dtype=int))
    pairs = np.argwhere(wrong)
    order = np.argsort(-wrong[tuple(pairs.T)], kind="stable")[:_NUM_PAIRS]
    if len(order):
        text += "\nmost confused (label -> prediction):\n"
    for row, column in pairs[order].tolist():
        count, label = matrix[row, column], names[row]
        share = count / matrix[row].sum()
        text += (
            f"{count:6}  {label} -> {names[column]} ({share:.1%} of {label})\n"
        )
    return text


def _confusions(
    label_set: labels.LabelSet, targets: np.ndarray, decisions: np.ndarray
) -> np.ndarray:
    """Returns `[K, K]` counts, with a row per true label."""
    matrix = np.zeros([len(label_set.names)] * 2, int)
    np.add.at(matrix, (targets, decisions), 1)
    return matrix


def draw(names: Sequence[str], matrix: np.ndarray, file: IO[bytes]) -> None:
    """Plots a confusion matrix as PNG, normalized by row.

    Args:
        names: names of the `K` classes.
        matrix: `[K, K]` counts, a row per true label.
        file: output file.
    """
    from matplotlib.figure import Figure

    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    has_numbers = len(names) <= _MOST_NUMBERS
    size = 3.5 + 0.5 * len(names) if has_numbers else _LARGE_INCHES
    figure = Figure((size + 1, size), layout="constrained")
    axis = figure.subplots()
    image = axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    if has_numbers:
        shown = [
            name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"
            for name in names
        ]
        # Prevents formulas from dollar signs in names.
        axis.set_yticks(range(len(names)), shown, parse_math=False)
        axis.set_xticks(range(len(names)), shown, parse_math=False)
        axis.tick_params("x", rotation=90)
        for row, column in np.ndindex(matrix.shape):
            axis.text(
                column,
                row,
                str(matrix[row, column]),
                ha="center",
                va="center",
                fontsize=8,
                color="white" if shares[row, column] > 0.5 else "black",
            )
    axis.set_xlabel("prediction")
    axis.set_ylabel("label")
    figure.colorbar(image, shrink=0.8, label="share of the label")
    writing.save_png(figure, file)


def _highest_losses(
    file: datasets.TextFile, answers: predictions.Answers
) -> Iterator[str]:
    """Yields the examples of highest loss as JSON lines, highest first.

    Each has `row`, that of the file, from 0 without the header, `loss`,
    `label`, `prediction` and texts.
    """
    examples = file.examples(with_labels=True)
    decisions = predictions.answers(file.info.label_set, answers.outputs)
    order = np.argsort(-answers.losses, kind="stable")
    for place in order[:_NUM_EXAMPLES]:
        example = examples[place]
        line = {
            "row": example.row,
            "loss": round(float(answers.losses[place]), 6),
            "label": example.label,
            "prediction": decisions[place],
            "text_a": example.text_a,
            **({} if example.text_b is None else {"text_b": example.text_b}),
        }
        yield json.dumps(line, ensure_ascii=False) + "\n"
