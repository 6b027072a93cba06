"""Submissions to the GLUE server."""

import io
import os
import zipfile
from collections.abc import Iterator, Sequence

import numpy as np
from absl import logging

from files import locking, paths, writing
from tasks.classification import labels

# The files of a submission and the number of rows of their test sets.
# Source: the test files as GLUE distributes them; the sizes in table 1 of
# Wang et al. 2019.
NUM_ROWS = {
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


def lines(name: str, answers: Sequence[labels.Label]) -> Iterator[str]:
    """Yields the lines of a file: a header, then index and label or score.

    The index counts from 0; scores are clipped to the range of STS-B.

    Args:
        name: a key of `NUM_ROWS`.
        answers: a class name or a score for each row of the test set.
    """
    if len(answers) != NUM_ROWS[name]:
        logging.warning(
            "%s.tsv has %d rows; the GLUE server expects %d",
            *(name, len(answers), NUM_ROWS[name]),
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
        files: name, a key of `NUM_ROWS` -> content of its file.

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
    missing = [name for name in NUM_ROWS if name not in texts]
    if missing:
        logging.info("%s still lacks %s", zip_path, ", ".join(missing))
    return missing


def _write_zip(path: str, texts: dict[str, bytes]) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in NUM_ROWS:
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
    unknown = sorted(set(texts) - set(NUM_ROWS))
    if unknown:
        raise ValueError(
            f"{path}: a submission has only {', '.join(NUM_ROWS)}, each as "
            f".tsv; got {', '.join(unknown)}. Choose another zip."
        )
    return texts
