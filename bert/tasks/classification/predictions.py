"""Predictions of classifiers: from outputs to labels, and their files."""

import csv
import io
import json
from collections.abc import Iterator, Sequence

import numpy as np

from bert.files import lines
from bert.tasks import asking, task
from bert.tasks.classification import class_labels, text_examples

THRESHOLD = 0.5  # for the probability of a label in multi-label tasks


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


def decide(label_set: class_labels.LabelSet, outputs: np.ndarray) -> np.ndarray:
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


def predicted_labels(
    label_set: class_labels.LabelSet, outputs: np.ndarray
) -> list[class_labels.Label]:
    """Returns the label of each example: a class, several, or a score.

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
    label_set: class_labels.LabelSet,
    outputs: np.ndarray,
    examples: Sequence[text_examples.InputExample],
) -> Iterator[str]:
    """Yields the lines of predictions.jsonl.

    Each is an object: `row`, that of the file, from 0 without the header, the
    fields of `named_answers`, and the texts.

    Args:
        label_set: the labels.
        outputs: `[E, K]` float32.
        examples: the E examples.
    """
    for example, named in zip(
        examples, named_answers(label_set, outputs), strict=True
    ):
        line = {"row": example.row, **named, **example.texts}
        yield json.dumps(line, ensure_ascii=False) + "\n"


def table_lines(
    label_set: class_labels.LabelSet,
    outputs: np.ndarray,
    examples: Sequence[text_examples.InputExample],
    *,
    has_labels: bool,
) -> Iterator[str]:
    """Yields the rows of predictions.csv, with the mark that Excel needs.

    The columns are `row`, the texts, `label` if it is known, `prediction` and,
    for one label, its `probability`.

    Args:
        label_set: the labels.
        outputs: `[E, K]` float32.
        examples: the E examples.
        has_labels: whether the labels are known.
    """
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    has_probability = label_set.problem_type == task.SINGLE_LABEL
    names = ["row", *examples[0].texts]
    names += ["label"] if has_labels else []
    names += ["prediction", "probability"][: 1 + has_probability]
    file.write(lines.BYTE_ORDER_MARK)
    writer.writerow(names)
    for example, answer, row in zip(
        examples, predicted_labels(label_set, outputs), outputs, strict=True
    ):
        cells: list[object] = [example.row, *example.texts.values()]
        cells += [_cell(example.label)] if has_labels else []
        cells += [_cell(answer)]
        cells += [asking.shortest(row.max())] if has_probability else []
        writer.writerow(cells)
        yield file.getvalue()
        file.seek(0)
        file.truncate()


def _cell(label: class_labels.Label | None) -> str | float | None:
    if isinstance(label, tuple):
        return ",".join(label)
    return asking.shortest(label) if isinstance(label, float) else label


def named_answers(
    label_set: class_labels.LabelSet, outputs: np.ndarray
) -> Iterator[dict[str, object]]:
    """Yields the answer for each example as JSON.

    It has `label` and `probabilities` by name, or `labels` and `probabilities`,
    or `score`.

    Args:
        label_set: the labels.
        outputs: `[E, K]` float32.
    """
    several = label_set.problem_type == task.MULTI_LABEL
    for row, answer in zip(
        outputs, predicted_labels(label_set, outputs), strict=True
    ):
        if label_set.problem_type == task.REGRESSION:
            yield {"score": asking.shortest(row[0])}
            continue
        shares = zip(label_set.names, map(asking.shortest, row), strict=True)
        yield {
            "labels" if several else "label": answer,
            "probabilities": dict(shares),
        }
