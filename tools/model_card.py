"""The README.md of a Hugging Face folder, in the format of the hub's cards."""

import json
import os
import shlex
from collections.abc import Mapping
from typing import Any

from files import lines, paths, run_files
from training import model_folder, run_record

FILE = "README.md"
_PIPELINE = {
    model_folder.PRETRAINING: "fill-mask",
    model_folder.CLASSIFICATION: "text-classification",
    model_folder.QUESTION_ANSWERING: "question-answering",
    model_folder.TAGGING: "token-classification",
    model_folder.MULTIPLE_CHOICE: "multiple-choice",
}
_RESULTS = "*_results.txt"
_COUNTS = ("global_step", "loss")  # Lines of the results that are no scores.
_DATA_FLAGS = ("task_name", "data_dir", "input_file", "train_file")


def text_of(folder: str, name: str, description: Mapping[str, Any]) -> str:
    """Formats the card of a model.

    Args:
        folder: of the run: its `run.jsonl` and result files are read.
        name: of the model.
        description: the entries of its `task.json`.

    Returns:
        The text: metadata in YAML, then the training and the scores.
    """
    run = _training(folder)
    flags = run.get("flags", {})
    base = (flags.get("init_checkpoint") or "").rstrip("/")
    scores = {
        os.path.basename(path).removesuffix(_RESULTS[1:]): {
            metric: value
            for metric, value in run_files.read_results(path).items()
            if metric not in _COUNTS
        }
        for path in paths.matching(folder, _RESULTS)
    }
    parts = [_metadata(description, base)]
    task = description.get("task", "no known task").replace("_", " ")
    parts.append(f"# {name}\n\nA BERT model for {task}.")
    if settings := [
        f"| {key} | `{json.dumps(value, ensure_ascii=False)}` |"
        for key, value in description.items()
        if key != "vocab_sha256"
    ]:
        parts.append("\n".join(["| setting | value |", "|---|---|", *settings]))
    if run:
        data = {key: flags[key] for key in _DATA_FLAGS if flags.get(key)}
        parts.append(
            "## Training\n\n"
            f"- Base model: {f'`{base}`' if base else 'none, from scratch'}\n"
            f"- Data: {', '.join(f'`{k}={v}`' for k, v in data.items())}\n"
            f"- Commit: {run.get('commit') or 'unknown'}\n\n"
            f"```\n{shlex.join(map(str, run.get('command', [])))}\n```"
        )
    if rows := [
        f"| {split} | {metric} | {value} |"
        for split, found in scores.items()
        for metric, value in found.items()
    ]:
        head = ["## Scores\n", "| data | metric | value |", "|---|---|---|"]
        parts.append("\n".join([*head, *rows]))
    return "\n\n".join(parts) + "\n"


def _training(folder: str) -> dict[str, Any]:
    """Returns the start of the latest training that `run.jsonl` records."""
    path = os.path.join(folder, run_record.FILE)
    if not paths.exists(path):
        return {}
    starts = [
        told
        for line in lines.read_lines(path)
        if "flags" in (told := json.loads(line))
    ]
    trained = [told for told in starts if told["flags"].get("do_train")]
    return [{}, *starts, *trained][-1]


def _metadata(description: Mapping[str, Any], base: str) -> str:
    found = ["library_name: transformers", "tags:", "- bert"]
    tag = _PIPELINE.get(description.get("task", ""))
    if tag:
        found.append(f"pipeline_tag: {tag}")
    if base:
        folder = os.path.dirname(base) if ".ckpt" in base else base
        found.append(f"base_model: {json.dumps(os.path.basename(folder))}")
    return "\n".join(["---", *found, "---"])
