"""Predictions of classifiers: answers, scores, files and GLUE submissions."""

import io
import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from absl import logging

from files import locking, paths, writing
from tasks.classification import datasets, labels, metrics

THRESHOLD = 0.5  # for the probability of a label in multi-label tasks
# Metrics that are 0 by definition if either side is constant.
_ZERO_FOR_CONSTANTS = (metrics.MATTHEWS, metrics.PEARSON, metrics.SPEARMAN)
# The files of a submission and the number of rows of their test sets.
# Source: the test files as GLUE distributes them; the sizes in table 1 of
# Wang et al. 2019.
SUBMISSION_ROWS = {
    "CoLA": 1063,
    "SST-2": 1821,
    "MRPC": 1725,
    "STS-B": 1379,
    "QQP": 390965,
    "MNLI-m": 9796,
    "MNLI-mm": 9847,
    "QNLI": 5463,
    "RTE": 3000,
    "WNLI": 146,
    "AX": 1104,
}
_SCORE_RANGE = (0.0, 5.0)  # Source: Cer et al. 2017, STS-B.
_EARLIEST_ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # a fixed date, for identical bytes


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
    if label_set.problem_type == labels.REGRESSION:
        return outputs[:, 0]
    if label_set.problem_type == labels.MULTI_LABEL:
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


def evaluate(
    label_set: labels.LabelSet,
    names: Sequence[str],
    label_ids: Sequence[labels.LabelId] | np.ndarray,
    outputs: np.ndarray,
) -> dict[str, float]:
    """Scores outputs against the labels.

    Args:
        label_set: the labels.
        names: metrics, as in `metrics.evaluate`.
        label_ids: `E` labels, as from `LabelSet.encode`.
        outputs: `[E, K]` float.
    """
    targets = np.asarray(label_ids)
    return metrics.evaluate(names, targets, decide(label_set, outputs))


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
    if label_set.problem_type == labels.REGRESSION:
        constants: Sequence[Any] = [np.median(targets)]
    elif label_set.problem_type == labels.MULTI_LABEL:
        common = (np.mean(targets, axis=0) > 0.5).astype(targets.dtype)
        constants = [np.ones_like(common), np.zeros_like(common), common]
    else:
        constants = range(label_set.num_outputs)
    return max(
        metrics.evaluate(
            [metric],
            targets,
            np.broadcast_to(np.asarray(answer, targets.dtype), targets.shape),
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
    if label_set.problem_type == labels.REGRESSION:
        return [float(score) for score in chosen]
    if label_set.problem_type == labels.MULTI_LABEL:
        return [tuple(names[i] for i in np.flatnonzero(row)) for row in chosen]
    return [names[i] for i in chosen]


def result_files(
    info: datasets.DatasetInfo,
    split: datasets.SplitInfo,
    suffix: str,
    outputs: np.ndarray,
) -> dict[str, Iterable[str]]:
    """Creates the prediction files for one test file.

    Args:
        info: the data set.
        split: the test file.
        suffix: identifies its results; "" for the file of the release.
        outputs: `[E, K]` float32, probabilities or scores.

    Returns:
        File name -> lines: `test_results.tsv` as released;
        `predictions.jsonl`, with names; for GLUE also the server's file.
    """
    files: dict[str, Iterable[str]] = {
        f"test_results{suffix}.tsv": result_lines(outputs),
        f"predictions{suffix}.jsonl": prediction_lines(info.label_set, outputs),
    }
    if split.submission:
        # A list, because its lines are also added to the zip of a submission.
        files[f"{split.submission}.tsv"] = list(
            submission_lines(split.submission, answers(info.label_set, outputs))
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

    Each is an object: `row`, the index of the example in its file, from 0
    without the header, then the fields of `named_answers`.

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
    several = label_set.problem_type == labels.MULTI_LABEL
    answer_key = "labels" if several else "label"
    for row, answer in zip(outputs, answers(label_set, outputs), strict=True):
        if label_set.problem_type == labels.REGRESSION:
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


def submission_lines(
    name: str, answers: Sequence[labels.Label]
) -> Iterator[str]:
    """Yields the lines of a file: a header, then index and label or score.

    The index counts from 0; scores are clipped to the range of STS-B.

    Args:
        name: a key of `SUBMISSION_ROWS`.
        answers: a class name or a score for each row of the test set.
    """
    if len(answers) != SUBMISSION_ROWS[name]:
        logging.warning(
            "%s.tsv has %d rows; the GLUE server expects %d",
            *(name, len(answers), SUBMISSION_ROWS[name]),
        )
    yield "index\tprediction\n"
    for index, answer in enumerate(answers):
        is_score = isinstance(answer, float)
        text = f"{np.clip(answer, *_SCORE_RANGE):.3f}" if is_score else answer
        yield f"{index}\t{text}\n"


def check_zip(zip_path: str) -> None:
    """Checks before training that predictions can be added to a zip.

    Raises:
        OSError: the zip cannot be read or written.
        ValueError: its name does not end in .zip, or it has other contents.
    """
    if not zip_path.lower().endswith(".zip"):
        raise ValueError(
            f"--write_submission must name a file that ends in .zip; got "
            f"{zip_path!r}."
        )
    writing.check_file(zip_path)
    writing.check_seekable([zip_path])
    _read_zip(zip_path)


def add_to_zip(zip_path: str, files: dict[str, str]) -> list[str]:
    """Adds predictions to a submission, keeping those of other tasks.

    Args:
        zip_path: the zip, created if missing and replaced atomically.
            Concurrent processes wait for each other.
        files: name, a key of `SUBMISSION_ROWS` -> content of its file.

    Returns:
        The missing names of the submission: the server requires all.

    Raises:
        ValueError: `zip_path` is not a zip or has other contents.
    """
    added = {name: text.encode() for name, text in files.items()}
    if not paths.is_remote(zip_path):
        zip_path = os.path.realpath(zip_path)
        os.makedirs(os.path.dirname(zip_path), exist_ok=True)
    with locking.lock(f"{zip_path}.lock", zip_path, wait=True):
        texts = _read_zip(zip_path) | added
        _write_zip(zip_path, texts)
    missing = [name for name in SUBMISSION_ROWS if name not in texts]
    if missing:
        logging.info("%s still lacks %s", zip_path, ", ".join(missing))
    return missing


def _write_zip(path: str, texts: dict[str, bytes]) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in SUBMISSION_ROWS:
            if name in texts:
                entry = zipfile.ZipInfo(f"{name}.tsv", _EARLIEST_ZIP_DATE)
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, texts[name])
    with writing.whole_file(path, "wb") as file:
        file.write(buffer.getvalue())


def _read_zip(path: str) -> dict[str, bytes]:
    if not paths.exists(path):
        return {}
    with paths.open_to_read(path) as file:
        content = io.BytesIO(file.read())
    try:
        with zipfile.ZipFile(content) as archive:
            texts = {
                name.removesuffix(".tsv"): archive.read(name)
                for name in archive.namelist()
            }
    except zipfile.BadZipFile as error:
        raise ValueError(f"{path}: not a zip file ({error}).") from error
    unknown = sorted(set(texts) - set(SUBMISSION_ROWS))
    if unknown:
        raise ValueError(
            f"{path}: a submission has only {', '.join(SUBMISSION_ROWS)}, each "
            f"as .tsv; got {', '.join(unknown)}. Choose another zip."
        )
    return texts
