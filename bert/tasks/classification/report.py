"""The report of an evaluation: scores by label, confusions, worst examples."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from bert.files import writing
from bert.tasks import asking, task
from bert.tasks.classification import (
    class_labels,
    datasets,
    labeled_task,
    metrics,
    predictions,
    text_examples,
)

_NUM_EXAMPLES = 50  # Number of listed examples of highest loss.
_NUM_PAIRS = 10  # Number of listed confused pairs.
_MOST_NUMBERS = 30  # Maximum classes for numbers and names in the plot.
_LONGEST_NAME = 25  # Maximum characters of a name in the plot.
_LARGE_INCHES = 10.0
_MOST_PLOTTED = 1000  # The plot has about a pixel for each class.


def write(
    data: task.DataSet[datasets.TextFile],
    examples: Sequence[text_examples.InputExample],
    label_ids: np.ndarray,
    answers: labeled_task.Answers,
    folder: str,
) -> None:
    """Writes the report files of labeled data.

    `eval_report.txt`, `eval_confusion_matrix.png` (for one of up to 1,000
    labels) and `eval_highest_loss.jsonl`; for scores only the last one. Those
    of a test set begin with `test_`.

    Args:
        data: the data set.
        examples: its E examples, with labels.
        label_ids: `[E]` class ids or scores, or `[E, K]` 0 or 1.
        answers: predictions with one loss per example, `[E]`.
        folder: output folder.
    """
    label_set = data.content.label_set
    prefix = task.RESULTS_PREFIX[data.split]
    files: dict[str, Iterable[str]] = {
        f"{prefix}_highest_loss{data.suffix}.jsonl": _highest_losses(
            label_set, examples, answers
        )
    }
    if label_set.problem_type != task.REGRESSION:
        decisions = predictions.decide(label_set, answers.outputs)
        text = scores_by_label(label_set, label_ids, decisions)
        files[f"{prefix}_report{data.suffix}.txt"] = [text]
    writing.write_files(folder, files)
    if (
        label_set.problem_type == task.SINGLE_LABEL
        and len(label_set.names) <= _MOST_PLOTTED
    ):
        plot = f"{prefix}_confusion_matrix{data.suffix}.png"
        draw(label_set.names, label_ids, decisions, os.path.join(folder, plot))


def _highest_losses(
    label_set: class_labels.LabelSet,
    examples: Sequence[text_examples.InputExample],
    answers: labeled_task.Answers,
) -> Iterator[str]:
    """Yields the examples of highest loss as JSON lines, highest first.

    Each has `row`, that of the file, from 0 without the header, `loss`,
    `label`, `prediction` and texts.
    """
    predicted = predictions.predicted_labels(label_set, answers.outputs)
    order = np.argsort(-answers.losses, kind="stable")
    for place in order[:_NUM_EXAMPLES]:
        example, prediction = examples[place], predicted[place]
        if isinstance(prediction, float):
            prediction = asking.shortest(prediction)
        line = {
            "row": example.row,
            "loss": round(float(answers.losses[place]), 6),
            "label": example.label,
            "prediction": prediction,
            **example.texts,
        }
        yield json.dumps(line, ensure_ascii=False) + "\n"


def scores_by_label(
    label_set: class_labels.LabelSet, targets: np.ndarray, decisions: np.ndarray
) -> str:
    """Formats scikit-learn's scores by label, and the commonest confusions.

    Args:
        label_set: `K` labels, one or several per example.
        targets: `[E]` class ids, or `[E, K]` 0 or 1.
        decisions: of the same shape.
    """
    # Imported here, since it takes seconds and reading data does not need it.
    from sklearn import metrics as sklearn_metrics

    names, label_ids = label_set.names, range(len(label_set.names))
    text = sklearn_metrics.classification_report(
        metrics.as_columns(targets),
        metrics.as_columns(decisions),
        labels=label_ids,
        target_names=names,
        digits=4,
        zero_division=0.0,
    )
    text += f"\n{metrics.describe_majority(label_set, targets)}\n"
    if label_set.problem_type == task.MULTI_LABEL:
        return text
    # Not a matrix: that of 6,000 labels has 36 million entries.
    wrong = np.stack([targets, decisions], axis=1)[targets != decisions]
    pairs, counts = np.unique(wrong, axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_NUM_PAIRS]
    if len(order):
        text += "\nmost confused (label -> prediction):\n"
    for place in order:
        (row, column), count = pairs[place], counts[place]
        label, share = names[row], count / np.count_nonzero(targets == row)
        text += (
            f"{count:6}  {label} -> {names[column]} ({share:.1%} of {label})\n"
        )
    return text


def draw(
    names: Sequence[str],
    targets: np.ndarray,
    decisions: np.ndarray,
    path: str,
) -> None:
    """Plots a confusion matrix as PNG, as shares of each label.

    Args:
        names: names of the `K` classes.
        targets: `[E]` class ids.
        decisions: `[E]` class ids.
        path: the PNG file to write.
    """
    from matplotlib.figure import Figure
    from sklearn import metrics as sklearn_metrics

    has_numbers = len(names) <= _MOST_NUMBERS
    size = 3.5 + 0.5 * len(names) if has_numbers else _LARGE_INCHES
    figure = Figure((size + 1, size), layout="constrained")
    axis = figure.subplots()
    sklearn_metrics.ConfusionMatrixDisplay.from_predictions(
        targets,
        decisions,
        labels=range(len(names)),
        display_labels=list(map(_shown, names)),
        normalize="true",
        include_values=has_numbers,
        xticks_rotation="vertical",
        values_format=".2f",
        cmap="Blues",
        ax=axis,
    )
    if not has_numbers:
        axis.set(xticks=[], yticks=[])
    writing.write_png(path, figure)


def _shown(name: str) -> str:
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}…"
    return name.replace("$", r"\$")  # It would begin a formula.
