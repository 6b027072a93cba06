"""What a run was made from: its files, by size and hash, and its model."""

import dataclasses
import glob
import itertools
import math
import os
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from files import json_text, paths

# Flags that name what is read, whichever script has them.
_DATA_FLAGS = (
    *("input_file", "eval_input_file"),
    *("train_file", "predict_file", "eval_file"),
)
_FILE_FLAGS = ("bert_config_file", "vocab_file", *_DATA_FLAGS)
_FOLDER_FLAGS = ("data_dir",)
_CHECKPOINT_FLAGS = ("init_checkpoint",)
# Of larger inputs the size is noted and what lies beside them: a terabyte of
# records takes an hour to hash.
_MAX_HASHED_BYTES = 4 * 10**9
_SIDECAR_ENDING = ".meta.json"
_CONFIG = "bert_config.json"


def describe(options: Any) -> dict[str, list[dict[str, Any]]]:
    """Describes the files that the flags of a run name.

    Args:
        options: a dataclass of flags.

    Returns:
        For each flag its files: `path`, `bytes`, `sha256` (None of remote files
        and once 4 GB have been hashed) and, of records, what their sidecar
        says. A file that cannot be read has `error` instead; the run itself
        will say more.
    """
    budget = _MAX_HASHED_BYTES
    described = {}
    for flag, names in _named(options).items():
        entries = []
        for name in names:
            entry = _describe_file(name, budget)
            budget -= entry.get("bytes", 0) if entry.get("sha256") else 0
            entries.append(entry)
        described[flag] = entries
    return described


def _named(options: Any) -> dict[str, list[str]]:
    """Lists the files that each flag names; patterns that match none stay."""
    flags = _values(options)
    named = _files(flags, _FILE_FLAGS)
    for flag in _FOLDER_FLAGS:
        if flags.get(flag):
            named[flag] = _files_of(flags[flag])
    for flag in _CHECKPOINT_FLAGS:
        if flags.get(flag):
            named[flag] = _checkpoint_files(flags[flag])
    return named


def data_files(options: Any) -> list[str]:
    """Lists the files that flags of a run name as its data."""
    named = _files(_values(options), _DATA_FLAGS)
    return list(itertools.chain.from_iterable(named.values()))


def _values(options: Any) -> dict[str, Any]:
    return {
        field.name: getattr(options, field.name)
        for field in dataclasses.fields(options)
    }


def _files(
    flags: Mapping[str, Any], names: Iterable[str]
) -> dict[str, list[str]]:
    """Lists the files that flags name, by flag."""
    named = {}
    for flag in names:
        patterns = [flags.get(flag)]
        if flag == "input_file":
            patterns += _of_phases(flags.get("phases") or "")
        found = [path for p in filter(None, patterns) for path in _expand(p)]
        if found:
            named[flag] = list(dict.fromkeys(found))
    return named


def _of_phases(phases: str) -> list[str]:
    """Lists the record files that `--phases` of pre-training names."""
    start = "input_file="
    return [
        word.removeprefix(start).rstrip(",")
        for word in shlex.split(phases.replace(";", " "))
        if word.startswith(start)
    ]


def _expand(patterns: str) -> list[str]:
    try:
        found = paths.expand(patterns)
    except ValueError:
        return [patterns]
    return [path for path in found if not path.endswith(_SIDECAR_ENDING)]


def _files_of(folder: str) -> list[str]:
    return [path for path in matching(folder, "*") if paths.exists(path)]


def matching(folder: str, pattern: str) -> list[str]:
    """Lists what a glob pattern finds in a folder; nothing, if nothing."""
    if not paths.is_remote(folder):
        folder = glob.escape(folder)
    try:
        return paths.expand(os.path.join(folder, pattern))
    except ValueError:
        return []


def _checkpoint_files(path: str) -> list[str]:
    from modeling import checkpoints

    try:
        return checkpoints.files(path)
    except (OSError, ValueError):
        return [path]


def _describe_file(path: str, budget: int) -> dict[str, Any]:
    try:
        with paths.open_to_read(path) as file:
            size = file.seek(0, os.SEEK_END) or file.tell()
        # Remote ones would be fetched a second time.
        is_hashed = size <= budget and not paths.is_remote(path)
        digest = paths.sha256(path) if is_hashed else None
        sidecar = _sidecar(path)
    except (OSError, ValueError) as error:
        return {"path": path, "error": str(error)}
    entry = {"path": path, "bytes": size, "sha256": digest}
    return {**entry, "made": sidecar} if sidecar else entry


def _sidecar(path: str) -> dict[str, Any] | None:
    beside = path + _SIDECAR_ENDING
    if not paths.exists(beside):
        return None
    return json_text.read_object(beside)


def describe_model(folder: str) -> dict[str, Any]:
    """Describes the model in a run's folder, as far as it is there.

    Returns:
        `config`, and `num_parameters` of the latest checkpoint.
    """
    from modeling import checkpoints

    described = {}
    path = os.path.join(folder, _CONFIG)
    if paths.exists(path):
        described["config"] = json_text.read_object(path)
    try:
        variables = checkpoints.list_variables(folder)
    except (OSError, ValueError):
        return described
    described["num_parameters"] = _count(variables, checkpoints)
    return described


def _count(variables: Mapping[str, Any], checkpoints: Any) -> int:
    names: Iterable[str] = (
        name
        for name in variables
        if not checkpoints.is_training_state(name, variables)
    )
    return sum(math.prod(variables[name][0]) for name in names)
