"""Files of a run's folder: their names and its results."""

import contextlib
import json
from collections.abc import Mapping

from absl import logging

from bert.files import lines, writing

VOCABULARY = "vocab.txt"
TASK = "task.json"  # The description of the model.
RECORD = "run.jsonl"  # The programs that ran in the folder.
TRIALS = "trials.json"
BEST = "best"  # The folder of the best checkpoint.
BEST_RECORD = "best.json"  # The folder of the best checkpoint has it.


def write_results(path: str, results: Mapping[str, float]) -> None:
    """Writes and logs results, one `key = value` a line, keys sorted.

    As released: floats are printed as float32.
    """
    import numpy as np  # Late, for a fast --help.

    logging.info("***** Eval results *****")
    with writing.whole_file(path) as file:
        for key in sorted(results):
            number = results[key]
            value = np.float32(number) if isinstance(number, float) else number
            logging.info("  %s = %s", key, value)
            file.write(f"{key} = {value!s}\n")


def read_results(path: str) -> dict[str, float | str]:
    """Reads results; skips lines of another form.

    Infinity and NaN, which JSON lacks, stay text.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it is not UTF-8 text.
    """
    pairs = (line.partition(" = ") for line in lines.read_lines(path))
    return {key: _number(value) for key, sign, value in pairs if sign}


def _number(text: str) -> float | str:
    with contextlib.suppress(ValueError):
        return json.loads(text)
    return text
