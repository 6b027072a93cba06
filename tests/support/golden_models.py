"""Folders of the release's models, as a run or an author leaves them."""

import pathlib
import shutil
from collections.abc import Callable
from typing import Any

from modeling import checkpoints
from tests.support import locations, toy_files


def classifier(folder: pathlib.Path, **entries: Any) -> pathlib.Path:
    """Makes the folder of a run out of the release's classifier.

    Args:
        folder: a new one.
        **entries: of task.json, beside or in place of those of the run.
    """
    run = {
        "task": "classification",
        "labels": ["0", "1"],
        "problem_type": "single_label",
        "max_seq_length": 128,
    }
    return _copied(folder, "classifier/mrpc.ckpt-24.*", {**run, **entries})


def bert(
    folder: pathlib.Path,
    keep: Callable[[str], bool] | None = None,
    **entries: Any,
) -> pathlib.Path:
    """Makes a folder of the release's model, which answers questions too.

    Args:
        folder: a new one.
        keep: tells of a variable whether it stays in the checkpoint.
        **entries: of task.json, which is not written without any.
    """
    _copied(folder, "model/tiny.ckpt.*", entries)
    if keep:
        prefix = str(folder / "tiny.ckpt")
        stored = checkpoints.read(prefix)
        checkpoints.save(prefix, {k: v for k, v in stored.items() if keep(k)})
    return folder


def answerer(folder: pathlib.Path, **entries: Any) -> pathlib.Path:
    """Makes the folder of a run of SQuAD out of the release's model."""
    run = {
        "task": "question_answering",
        "version_2_with_negative": False,
        "max_seq_length": 32,
        "max_query_length": 8,
    }
    return bert(folder, **{**run, **entries})


def sentence_encoder(
    folder: pathlib.Path, pooling: str = "mean"
) -> pathlib.Path:
    """Makes the folder of a sentence encoder out of the release's model."""
    # The weights have the output layers of all tasks.
    bert(folder, task="pretraining", max_seq_length=9)
    types = ("Transformer", "Pooling", "Normalize")
    modules = [
        {"type": f"sentence_transformers.models.{name}", "path": path}
        for name, path in zip(types, ("", "1_Pooling", "2_N"), strict=True)
    ]
    toy_files.write_json(folder / "modules.json", modules)
    (folder / "1_Pooling").mkdir()
    config = {"pooling_mode": pooling}
    toy_files.write_json(folder / "1_Pooling/config.json", config)
    return folder


def _copied(
    folder: pathlib.Path, weights: str, entries: dict[str, Any]
) -> pathlib.Path:
    folder.mkdir(parents=True)
    files = [locations.VOCAB_FILE, locations.CONFIG_FILE]
    for file in (*locations.GOLDEN.glob(weights), *files):
        shutil.copy(file, folder)
    if entries:
        describe(folder, **entries)
    return folder


def describe(folder: pathlib.Path, **entries: Any) -> None:
    """Writes task.json."""
    values = {"do_lower_case": True, **entries}
    toy_files.write_json(folder / "task.json", values)
