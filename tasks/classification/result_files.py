"""The files that hold the answers for a test set."""

from collections.abc import Iterable

import numpy as np

from tasks.classification import classification, custom, predictions, submission

PREDICTIONS_FILE = "predictions.jsonl"


def result_files(
    task: classification.Task,
    part: classification.Part,
    suffix: str,
    outputs: np.ndarray,
) -> dict[str, Iterable[str]]:
    """Makes the files of the answers for one test file.

    Args:
        task: the task.
        part: the test file.
        suffix: what its results are told apart by; "" for the release's file.
        outputs: `[E, K]` float32, probabilities or scores.

    Returns:
        File name -> lines: `test_results.tsv` as released; for the user's own
        data also `predictions.jsonl`; for GLUE also the server's file.
    """
    files = {f"test_results{suffix}.tsv": predictions.result_lines(outputs)}
    if task.name == custom.NAME:
        files[PREDICTIONS_FILE] = predictions.prediction_lines(
            task.label_set, outputs
        )
    if part.submission:
        # A list: its lines go into the zip of a submission as well.
        files[f"{part.submission}.tsv"] = list(
            submission.lines(part.submission, task.label_set, outputs)
        )
    return files


def submitted(
    part: classification.Part, files: dict[str, Iterable[str]]
) -> dict[str, str]:
    """Picks what `submission.add_to_zip` takes of the files of a test set."""
    name = part.submission
    return {name: "".join(files[f"{name}.tsv"])} if name else {}
