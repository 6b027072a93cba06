"""Evaluation reports: scores by label, confusions, examples of high loss."""

import functools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

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
# Maximum classes for the matrix in eval_report.json, which 2,000 classes would
# make 34 MB long.
_MOST_IN_JSON = 500


def write(
    file: datasets.TextFile,
    label_ids: np.ndarray,
    answers: predictions.Answers,
    folder: str,
) -> None:
    """Writes the report files of an evaluation.

    `eval_report.txt` and `.json`, `eval_confusion_matrix.png` (for one label)
    and `eval_highest_loss.jsonl`; for scores only the last one.

    Args:
        file: source of the E examples.
        label_ids: `[E]` class ids or scores, or `[E, K]` 0 or 1.
        answers: predictions with one loss per example, `[E]`.
        folder: output folder.
    """
    label_set = answers.label_set

    def path(name: str) -> str:
        return os.path.join(folder, name.replace(".", f"{file.suffix}."))

    with writing.whole_file(path("eval_highest_loss.jsonl")) as output:
        output.writelines(_highest_losses(file, answers))
    if label_set.problem_type == task.REGRESSION:
        return
    decisions = predictions.decide(label_set, answers.outputs)
    report, text = scores(label_set, label_ids, decisions)
    with writing.whole_file(path("eval_report.txt")) as output:
        output.write(text)
    logging.info("Scores by label: %s", path("eval_report.txt"))
    logging.debug("%s\n%s", file.path, text)
    matrix = report.get("confusion_matrix")
    if matrix and len(matrix) > _MOST_IN_JSON:
        del report["confusion_matrix"]
    writing.write_json(path("eval_report.json"), report)
    if matrix:
        plot = path("eval_confusion_matrix.png")
        with writing.whole_file(plot, "wb") as output:
            draw(label_set.names, matrix, output)


def scores(
    label_set: labels.LabelSet, targets: np.ndarray, decisions: np.ndarray
) -> tuple[dict[str, Any], str]:
    """Computes the scores of labeled examples by label.

    Args:
        label_set: `K` labels, one or several per example.
        targets: `[E]` class ids, or `[E, K]` 0 or 1.
        decisions: of the same shape.

    Returns:
        The report as JSON and as text. `scores` is scikit-learn's
        `classification_report`, by label and averaged; `label_scores` has the
        labels named like an average, if any. `confusion_matrix` is `[K, K]`
        counts, with a row per true label and a column per predicted label (for
        several labels `confusion_matrices`, name -> `[2, 2]`: without and with
        the label). `most_confused` lists the ten pairs with the highest counts:
        `label`, `prediction`, `count`, and `share` of the label's examples.
    """
    # Imported here, since it takes seconds and reading data does not need it.
    from sklearn import metrics as sklearn_metrics

    names = label_set.names
    several = label_set.problem_type == task.MULTI_LABEL
    targets, decisions, ids = metrics.without_single_column(
        targets, decisions, range(len(names))
    )
    by_label = functools.partial(
        sklearn_metrics.classification_report,
        targets,
        decisions,
        labels=ids,
        zero_division=0.0,
    )
    report: dict[str, Any] = {
        "labels": list(names),
        **_scores_by_name(names, by_label),
    }
    text = by_label(target_names=names, digits=4)
    if several:
        matrices = sklearn_metrics.multilabel_confusion_matrix(
            targets, decisions, labels=ids
        )
        report["confusion_matrices"] = dict(
            zip(names, matrices.tolist(), strict=True)
        )
        report["thresholds"] = list(label_set.thresholds)
        return report, text
    matrix = sklearn_metrics.confusion_matrix(targets, decisions, labels=ids)
    pairs = _most_confused(names, matrix)
    report["confusion_matrix"] = matrix.tolist()
    report["most_confused"] = pairs
    line = "{count:6}  {label} -> {prediction} ({share:.1%} of {label})\n"
    title = "\nmost confused (label -> prediction):\n" if pairs else ""
    return report, "".join([text, title, *(line.format(**p) for p in pairs)])


def _scores_by_name(
    names: Sequence[str], by_label: Callable[..., Any]
) -> dict[str, dict[str, Any]]:
    """Returns `scores` and, if a label is named like an average, its own."""
    # scikit-learn would replace the scores of such a label by the average.
    numbers = [str(number) for number in range(len(names))]
    averages = by_label(target_names=numbers, output_dict=True)
    of_labels = {
        name: averages.pop(number)
        for name, number in zip(names, numbers, strict=True)
    }
    found = {"scores": {**of_labels, **averages}}
    if replaced := [name for name in names if name in averages]:
        found["label_scores"] = {name: of_labels[name] for name in replaced}
    return found


def _most_confused(
    names: Sequence[str], matrix: np.ndarray
) -> list[dict[str, Any]]:
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
    """Plots a confusion matrix as PNG, normalized by row.

    Args:
        names: names of the `K` classes.
        matrix: `[K, K]` counts, a row per true label.
        file: output file.
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
        # Prevents formulas from dollar signs in names.
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
    writing.save_png(figure, file)


def _highest_losses(
    file: datasets.TextFile, answers: predictions.Answers
) -> Iterator[str]:
    """Yields the examples of highest loss as JSON lines, highest first.

    Each has `row`, that of the file, from 0 without the header, `loss`,
    `label`, `prediction` and texts.
    """
    examples = file.examples(with_labels=True)
    decisions = predictions.answers(answers.label_set, answers.outputs)
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
