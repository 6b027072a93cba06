"""Evaluation reports: scores by label, confusions, examples of high loss."""

import dataclasses
import functools
import json
import os
from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np
from absl import logging

from files import writing
from tasks.classification import datasets, labels, predictions

_NUM_PAIRS = 10  # Confused pairs that are listed.
_NUM_EXAMPLES = 50  # Examples of the highest loss that are listed.
_MOST_NUMBERS = 30  # Classes up to which the picture has numbers and names.
_LONGEST_NAME = 25  # Characters of a name in the picture.
_LARGE_INCHES = 10.0
_DOTS_PER_INCH = 120


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluated:
    """The answers to the E examples of a labelled file.

    Attributes:
        label_set: the labels, and the thresholds that decided.
        file: of the examples.
        label_ids: `[E]` class ids or scores, or `[E, K]` 0 or 1.
        outputs: `[E, K]` float32, probabilities or scores.
        losses: `[E]` float32.
    """

    label_set: labels.LabelSet
    file: datasets.TextFile
    label_ids: np.ndarray
    outputs: np.ndarray
    losses: np.ndarray


def write(evaluated: Evaluated, folder: str, suffix: str) -> None:
    """Writes what there is to say of an evaluation beside its metrics.

    `eval_report.txt` and `.json`, `eval_confusion_matrix.png` (of one label)
    and `eval_highest_loss.jsonl`; of scores the last one alone.

    Args:
        evaluated: the answers.
        folder: to write in.
        suffix: what the results of this file are told apart by.
    """
    label_set = evaluated.label_set

    def opened(name: str, mode: str = "w"):
        stem, ending = os.path.splitext(name)
        path = os.path.join(folder, f"{stem}{suffix}{ending}")
        return writing.whole_file(path, mode)

    with opened("eval_highest_loss.jsonl") as file:
        file.writelines(highest_losses(evaluated))
    if label_set.problem_type == labels.REGRESSION:
        return
    decisions = predictions.decide(label_set, evaluated.outputs)
    report, text = scores(label_set, evaluated.label_ids, decisions)
    logging.info("%s\n%s", evaluated.file.path, text)
    with opened("eval_report.txt") as file:
        file.write(text)
    writing.write_json(
        os.path.join(folder, f"eval_report{suffix}.json"), report
    )
    if label_set.problem_type == labels.SINGLE_LABEL:
        with opened("eval_confusion_matrix.png", "wb") as file:
            draw(label_set.names, report["confusion_matrix"], file)


def scores(
    label_set: labels.LabelSet, targets: np.ndarray, decisions: np.ndarray
) -> tuple[dict[str, Any], str]:
    """Scores the answers to labelled examples, label by label.

    Args:
        label_set: `K` labels, one or several of which each example has.
        targets: `[E]` class ids, or `[E, K]` 0 or 1.
        decisions: of the same shape.

    Returns:
        The report as JSON, and for people. `scores` is scikit-learn's
        `classification_report`, by label and averaged; `confusion_matrix` is
        `[K, K]` counts, a row for each right label, a column for each answer
        (of several labels `confusion_matrices`, name -> `[2, 2]`: without it,
        with it); `most_confused` lists the ten pairs with the highest counts:
        `label`, `prediction`, `count`, and `share` of the label's examples.
    """
    # Imported late: it takes seconds, and reading data needs none of it.
    from sklearn import metrics

    names = label_set.names
    several = label_set.problem_type == labels.MULTI_LABEL
    ids = list(range(len(names)))
    if several and len(names) == 1:
        # To scikit-learn a single column is one of class ids.
        targets, decisions, ids = targets[:, 0], decisions[:, 0], [1]
    by_label = functools.partial(
        metrics.classification_report,
        targets,
        decisions,
        labels=ids,
        target_names=names,
        zero_division=0.0,
    )
    report: dict[str, Any] = {
        "labels": list(names),
        "scores": by_label(output_dict=True),
    }
    text = by_label(digits=4)
    if several:
        matrices = metrics.multilabel_confusion_matrix(
            targets, decisions, labels=ids
        )
        report["confusion_matrices"] = dict(
            zip(names, matrices.tolist(), strict=True)
        )
        report["thresholds"] = list(label_set.thresholds)
        return report, text
    matrix = metrics.confusion_matrix(targets, decisions, labels=ids)
    report["confusion_matrix"] = matrix.tolist()
    report["most_confused"] = _most_confused(names, matrix)
    if report["most_confused"]:
        text += "\nmost confused (label -> prediction):\n"
    for pair in report["most_confused"]:
        text += (
            f"{pair['count']:6}  {pair['label']} -> {pair['prediction']} "
            f"({pair['share']:.1%} of {pair['label']})\n"
        )
    return report, text


def _most_confused(
    names: Sequence[str], matrix: np.ndarray
) -> list[dict[str, Any]]:
    """Lists the wrong answers given most often."""
    pairs = [
        {
            "label": names[row],
            "prediction": names[column],
            "count": int(matrix[row, column]),
            "share": float(matrix[row, column] / matrix[row].sum()),
        }
        for row, column in np.argwhere(matrix)
        if row != column
    ]
    return sorted(pairs, key=lambda pair: -pair["count"])[:_NUM_PAIRS]


def draw(names: Sequence[str], matrix: np.ndarray, file: IO[bytes]) -> None:
    """Draws a confusion matrix as PNG: each row in shares of its label.

    Args:
        names: of the `K` classes.
        matrix: `[K, K]` counts, a row for each right label.
        file: to write to.
    """
    from matplotlib.figure import Figure

    counts = np.asarray(matrix)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
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
        # A dollar sign in a name begins no formula.
        axis.set_yticks(range(len(names)), shown, parse_math=False)
        axis.set_xticks(
            *(range(len(names)), shown),
            rotation=45,
            ha="right",
            parse_math=False,
        )
        for row, column in np.ndindex(counts.shape):
            axis.text(
                *(column, row, str(counts[row, column])),
                ha="center",
                va="center",
                fontsize=8,
                color="white" if shares[row, column] > 0.5 else "black",
            )
    axis.set_xlabel("prediction")
    axis.set_ylabel("label")
    figure.colorbar(image, shrink=0.8, label="share of the label")
    figure.savefig(file, format="png", dpi=_DOTS_PER_INCH)


def highest_losses(evaluated: Evaluated) -> Iterator[str]:
    """Yields the examples of the highest loss as JSON lines, worst first.

    Each has its `row`, from 0 and without the header, `loss`, `label`,
    `prediction`, and texts.
    """
    file, losses = evaluated.file, evaluated.losses
    examples = file.examples(with_labels=True)
    answers = predictions.answers(evaluated.label_set, evaluated.outputs)
    rows = file.part.held_out if file.part else range(len(examples))
    for place in np.argsort(-losses, kind="stable")[:_NUM_EXAMPLES]:
        example = examples[place]
        line = {
            "row": rows[place],
            "loss": round(float(losses[place]), 6),
            "label": example.label,
            "prediction": answers[place],
            "text_a": example.text_a,
            **({} if example.text_b is None else {"text_b": example.text_b}),
        }
        yield json.dumps(line, ensure_ascii=False) + "\n"
