"""From what a sentence classifier puts out to answers, scores and files."""

import json
from collections.abc import Iterator, Sequence

import numpy as np

from tasks.classification import labels, metrics

_THRESHOLD = 0.5  # of a label's own probability, where several may hold


def pool_windows(
    outputs: np.ndarray, rows_per_example: Sequence[int]
) -> np.ndarray:
    """Averages the outputs of the windows of each text.

    Args:
        outputs: `[R, K]` float, probabilities or scores of all windows, those
            of one text together.
        rows_per_example: how many windows each of the `E` texts has, 1 or
            more.

    Returns:
        `[E, K]` float.

    Raises:
        ValueError: the counts do not add up to `R`, or one is below 1.
    """
    counts = np.asarray(rows_per_example, np.int64)
    if counts.sum() != len(outputs) or np.any(counts < 1):
        raise ValueError(
            "Every text must have at least one window, and all together as "
            f"many as there are outputs, {len(outputs)}; the counts add up to "
            f"{counts.sum()}, the least is {counts.min(initial=0)}."
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
    if label_set.problem_type == labels.REGRESSION:
        return outputs[:, 0]
    if label_set.problem_type == labels.MULTI_LABEL:
        return (outputs >= _THRESHOLD).astype(np.int32)
    return np.argmax(outputs, axis=-1)


def evaluate(
    label_set: labels.LabelSet,
    names: Sequence[str],
    label_ids: Sequence[labels.LabelId],
    outputs: np.ndarray,
) -> dict[str, float]:
    """Scores outputs against the labels.

    Args:
        label_set: the labels.
        names: metrics, as in `metrics.evaluate`.
        label_ids: `E` labels, as `LabelSet.encode` gives them.
        outputs: `[E, K]` float.
    """
    targets = np.asarray(label_ids)
    return metrics.evaluate(names, targets, decide(label_set, outputs))


def answers(
    label_set: labels.LabelSet, outputs: np.ndarray
) -> list[labels.Label]:
    """Names the answer for each example: a class, several, or a score.

    Args:
        label_set: the labels.
        outputs: `[E, K]` float.
    """
    chosen = decide(label_set, outputs)
    names = label_set.names
    if label_set.problem_type == labels.REGRESSION:
        return [float(score) for score in chosen]
    if label_set.problem_type == labels.MULTI_LABEL:
        return [tuple(names[i] for i in np.flatnonzero(row)) for row in chosen]
    return [names[i] for i in chosen]


def result_lines(outputs: np.ndarray) -> Iterator[str]:
    """Yields the lines of test_results.tsv.

    As released: the `K` values of a row in their shortest float32 spelling,
    parted by tabs; no header, no ids.

    Args:
        outputs: `[E, K]` float32.
    """
    for row in np.asarray(outputs, np.float32):
        yield "\t".join(map(str, row)) + "\n"


def prediction_lines(
    label_set: labels.LabelSet, outputs: np.ndarray
) -> Iterator[str]:
    """Yields the lines of predictions.jsonl.

    Each is an object: `row`, the place of the example in its file, from 0 and
    without the header; then `label` and `probabilities` by name, or `labels`
    and `probabilities`, or `score`.

    Args:
        label_set: the labels.
        outputs: `[E, K]` float32.
    """
    several = label_set.problem_type == labels.MULTI_LABEL
    answer_key = "labels" if several else "label"
    for index, answer in enumerate(answers(label_set, outputs)):
        line = {"row": index}
        if label_set.problem_type == labels.REGRESSION:
            line["score"] = _shortest(outputs[index, 0])
        else:
            line[answer_key] = answer
            line["probabilities"] = {
                name: _shortest(value)
                for name, value in zip(
                    label_set.names, outputs[index], strict=True
                )
            }
        yield json.dumps(line, ensure_ascii=False) + "\n"


def _shortest(value: np.float32) -> float:
    # 0.1 rather than 0.10000000149011612.
    return float(str(np.float32(value)))
