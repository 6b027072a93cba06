"""The record of a run, `run_card.json`: its options, inputs, machine, results.

It contains the flags, versions, devices, hashes of the inputs, speed, memory
and results. It is written when a program ends, also after a signal or an error,
and keeps a short entry for each earlier program in the same folder.
"""

import contextlib
import dataclasses
import datetime
import importlib.metadata
import itertools
import math
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from absl import logging

from commands import program
from files import (
    json_text,
    locking,
    messages,
    paths,
    progress,
    result_files,
    run_files,
    writing,
)
from modeling import config as config_lib
from training import phases, reporting

_FORMAT = 1
_RESULTS_ENDING = "results.txt"

# Flags of input files, over all scripts.
_DATA_FLAGS = (
    *("input_file", "eval_input_file"),
    *("train_file", "predict_file", "eval_file", "ensemble"),
)
_FILE_FLAGS = ("bert_config_file", "vocab_file", *_DATA_FLAGS)
# Of further inputs only the sizes and sidecars are recorded: hashing a terabyte
# of records takes an hour.
_MAX_HASHED_BYTES = 4 * 10**9

# Packages whose versions affect results and speed.
_PACKAGES = ("tensorflow", "tensorflow-text", "keras", "numpy")
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_GIT_SECONDS = 5

# The fields of the entry of an earlier program.
_KEPT_OF_EARLIER = ("program", "started", "seconds", "ended", "command")
_INFINITIES = (math.inf, -math.inf)  # JSON lacks them.
_NONE = type(None)
_REPORT = ({"step": int, "*": (int, float, _NONE)}, _NONE)
_SUMMARY = {
    **dict.fromkeys(("last_training", "last_evaluation"), _REPORT),
    **dict.fromkeys(("examples_per_second", "input_wait"), (float, int, _NONE)),
}
# The parts of a card that tools read; see `json_text.has_shape`.
_SHAPE = {
    **dict.fromkeys(("program", "started", "ended"), str),
    "seconds": (int, float),
    "command": [str],
    "earlier": [dict],
    "flags": dict,
    "inputs": {"*": [{"path": str, "sha256": (str, _NONE)}]},
    "environment": {"packages": (dict, _NONE), "code": (dict, _NONE)},
    "memory": {"host": int},
    "model": {"config": (dict, _NONE), "num_parameters": (int, _NONE)},
    "training": ({"last_step": int, **_SUMMARY}, {"*": _SUMMARY}),
    "results": {"*": {"*": (str, int, float)}},
    "written": {"*": int},
}

_CHECKPOINT_PART = re.compile(r"(model\.ckpt-\d+)\.(index|data-.*|state\.json)")
_EVENTS = re.compile(r"events\.out\.tfevents\..*")
_MOST_FILES_SHOWN = 12
_SUMMARY_COLUMNS = 96
_KILOBYTE, _MEGABYTE = 10**3, 10**6
# Metrics shown elsewhere in the summary, or meaningless for a single step.
_METRICS_NOT_SHOWN = {
    *("step", "examples_per_second", "input_wait"),
    *("gradient_norm", "learning_rate"),
}


def record(run: Callable[[Any], None], options: Any) -> None:
    """Runs a script, then writes the card of its folder and logs a summary.

    The folder is locked meanwhile, so that no other run writes to it; the chief
    locks it for all workers.

    A run that fails before it writes any file leaves no card, since the folder
    may belong to another run. Only the chief writes. The other workers wait for
    it: TensorFlow treats workers that exit much earlier as crashed.

    Args:
        run: the script.
        options: a dataclass with `output_dir`.

    Raises:
        LockedError: another run writes to the folder.
        ValueError: the card of an earlier run is damaged.
    """
    path = os.path.join(options.output_dir, run_files.RUN_CARD)
    with locked(options.output_dir):
        _earlier(path)  # A damaged card would end the run after all its work.
        started, held = time.time(), results(options.output_dir)
        before = _content(path) if _has_others() else None
        try:
            run(options)
        except BaseException as error:
            is_signal = isinstance(error, KeyboardInterrupt | SystemExit)
            ended = (
                "interrupted"
                if is_signal
                else f"failed: {type(error).__name__}: {error}"
            )
            try:
                _finish(options, started, ended, held)
            except program.REFUSALS as fault:
                # As on a full disk. It must not replace the error of the run.
                logging.warning("%s could not be written: %s", path, fault)
            raise
        _finish(options, started, "finished", held)
        if _has_others():
            _wait_for_chief(path, before)


@contextlib.contextmanager
def locked(folder: str) -> Iterator[None]:
    """Locks the folder of a run, on the chief for all workers.

    Raises:
        LockedError: another run writes to the folder.
    """
    if _has_others():
        from training import workers  # Late: it imports TensorFlow.

        if not workers.cluster().is_chief:
            yield
            return
    with locking.lock_folder(folder, f"--output_dir={folder}"):
        yield


def _has_others() -> bool:
    return "TF_CONFIG" in os.environ


def _content(path: str) -> bytes | None:
    return b"".join(paths.chunks_of(path)) if paths.exists(path) else None


def _wait_for_chief(path: str, before: bytes | None) -> None:
    """Waits until the chief has changed its card or exited."""
    from training import workers

    if workers.cluster().is_chief:
        return

    def find():
        content = _content(path)
        return None if content == before else content

    try:
        workers.wait_for(path, find)
    except workers.LostWorkerError as error:
        logging.warning("%s", error)


def _finish(
    options: Any, started: float, ended: str, held: Mapping[str, Any]
) -> None:
    """Writes the card of a run that ended, unless it wrote no files.

    Args:
        options: of the run.
        started: when it did.
        ended: "finished", "interrupted" or an error.
        held: the results in its folder at the start.
    """
    folder = options.output_dir
    failed = ended != "finished"
    if not paths.is_remote(folder) and not paths.matching(folder, "*"):
        return  # No file was ever written.
    # A run that fails before it imports TensorFlow has written no file.
    if failed and not sys.modules.get("tensorflow"):
        return
    from training import workers

    if not workers.cluster().is_chief:
        return
    written = _files_written(folder, started)
    found = results(folder)
    if failed and not _reports_in(written) and found == held:
        return
    path = os.path.join(folder, run_files.RUN_CARD)
    moment = datetime.datetime.fromtimestamp(started, datetime.UTC)
    card = {
        "format": _FORMAT,
        "program": os.path.basename(sys.argv[0]),
        "command": sys.argv[:],
        "started": moment.isoformat(timespec="seconds"),
        "seconds": round(time.time() - started, 1),
        "ended": ended,
        "flags": {
            name: str(value) if value in _INFINITIES else value
            for name, value in dataclasses.asdict(options).items()
        },
        "inputs": describe_inputs(options),
        "environment": _environment(),
        "memory": _peak_memory(),
        "model": _model(folder),
        "training": _training(folder, written),
        "results": {name: found[name] for name in found if name in written},
        "written": written,
        "earlier": _earlier(path),
    }
    writing.write_json(path, card)
    progress.log_paragraph(f"{folder}: {run_text(card)}")
    write_to_tensorboard(folder, card)


def _files_written(folder: str, since: float) -> dict[str, int]:
    """Returns the sizes of the files below a folder modified since a time."""
    import tensorflow as tf

    found = {}
    for place, _, names in tf.io.gfile.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            state = tf.io.gfile.stat(path)
            # Some file systems store whole seconds.
            if state.mtime_nsec >= int(since) * 10**9 and name[0] != ".":
                found[os.path.relpath(path, folder)] = state.length
    return dict(sorted(found.items()))


def _reports_in(written: Iterable[str]) -> list[str]:
    """Lists the reports of a run, or of its trials, among the files written."""
    reports = reporting.METRICS_FILE
    return [path for path in written if os.path.basename(path) == reports]


def _training(folder: str, written: Iterable[str]) -> dict[str, Any]:
    """Summarizes the reports of a run, or of each of its trials.

    In a folder with both, those of the last program count.
    """
    path = reporting.metrics_path(folder)
    last = _reports_in(written)
    summary = reporting.summarize(reporting.read_metrics(path))
    if summary and (not last or reporting.METRICS_FILE in last):
        return summary
    return {
        os.path.basename(os.path.dirname(path)): reporting.summarize(
            reporting.read_metrics(path)
        )
        for path in run_files.trial_files(folder, reporting.METRICS_FILE)
    }


def results(folder: str) -> dict[str, dict[str, float | str]]:
    """Reads the result files of a folder, by name."""
    return {
        os.path.basename(path): result_files.read(path)
        for path in paths.matching(folder, f"*{_RESULTS_ENDING}")
    }


def _earlier(path: str) -> list[dict[str, Any]]:
    """Lists the entries of earlier programs in a folder, oldest first."""
    if not paths.exists(path):
        return []
    card = read(path)
    return [*card["earlier"], {name: card[name] for name in _KEPT_OF_EARLIER}]


def read(path: str) -> dict[str, Any]:
    """Reads a card.

    Raises:
        OSError: the file is missing.
        ValueError: it is not a run card of this format.
    """
    card = json_text.read_object(path)
    if card.get("format") != _FORMAT:
        raise ValueError(
            f"{path}: must be a run card of format {_FORMAT}; "
            f"got {messages.short(card.get('format'))}."
        )
    for name, shape in _SHAPE.items():
        if not json_text.has_shape(card.get(name), shape):
            raise ValueError(
                f"{path}: {name!r} is missing or malformed; move this file "
                "away."
            )
    return card


def describe_inputs(options: Any) -> dict[str, list[dict[str, Any]]]:
    """Describes the input files of a run.

    Args:
        options: a dataclass of flags; `data_paths`, if it has it, replaces some
            by paths.

    Returns:
        For each flag its files: `path`, `bytes`, `sha256` (None for remote
        files and after 4 GB have been hashed) and, for records, `made`, the
        contents of the sidecar. A file that cannot be read has `error` instead.
    """
    flags = vars(options)
    named = _files_of_flags(options, _FILE_FLAGS)
    if folder := flags.get("data_dir"):
        found = paths.matching(folder, "*")
        named["data_dir"] = [path for path in found if paths.exists(path)]
    if checkpoint := flags.get("init_checkpoint"):
        named["init_checkpoint"] = _checkpoint_files(checkpoint)
    budget = _MAX_HASHED_BYTES
    described: dict[str, list[dict[str, Any]]] = {}
    for flag, names in named.items():
        described[flag] = []
        for name in names:
            entry = _describe_file(name, budget)
            budget -= entry.get("bytes", 0) if entry.get("sha256") else 0
            described[flag].append(entry)
    return described


def data_files(options: Any) -> list[str]:
    """Lists the data files of a run; `options` as for `describe_inputs`."""
    named = _files_of_flags(options, _DATA_FLAGS)
    return list(itertools.chain.from_iterable(named.values()))


def _files_of_flags(options: Any, names: Iterable[str]) -> dict[str, list[str]]:
    """Lists the files of each flag; patterns without a match are kept."""
    flags = vars(options) | getattr(options, "data_paths", {})
    named = {}
    for flag in names:
        patterns = [flags.get(flag)]
        if flag == "input_file":
            of_phases = phases.words_of(flags.get("phases") or "")
            words = itertools.chain.from_iterable(of_phases)
            start = "input_file="
            patterns += [w[len(start) :] for w in words if w.startswith(start)]
        found = [path for p in filter(None, patterns) for path in _expand(p)]
        if found:
            named[flag] = list(dict.fromkeys(found))
    return named


def _expand(patterns: str) -> list[str]:
    try:
        found = paths.expand(patterns)
    except ValueError:
        return [patterns]
    ending = paths.SIDECAR_ENDING
    return [path for path in found if not path.endswith(ending)]


def _checkpoint_files(path: str) -> list[str]:
    from modeling import checkpoints

    try:
        return checkpoints.files(path)
    except (OSError, ValueError):
        return [path]


def _describe_file(path: str, budget: int) -> dict[str, Any]:
    sidecar = path + paths.SIDECAR_ENDING
    try:
        paths.check_regular(path)  # Opening a pipe waits for its writer.
        with paths.open_to_read(path) as file:
            size = file.seek(0, os.SEEK_END) or file.tell()
        # Hashing a remote file would download it again.
        is_hashed = size <= budget and not paths.is_remote(path)
        digest = paths.sha256(path) if is_hashed else None
        entry = {"path": path, "bytes": size, "sha256": digest}
        if paths.exists(sidecar) and (made := json_text.read_object(sidecar)):
            entry["made"] = made
    except (OSError, ValueError) as error:
        return {"path": path, "error": str(error)}
    return entry


def _model(folder: str) -> dict[str, Any]:
    """Returns the configuration and size of the model, as far as they exist."""
    from modeling import checkpoints

    described: dict[str, Any] = {}
    path = os.path.join(folder, config_lib.FILE)
    if paths.exists(path):
        described["config"] = json_text.read_object(path)
    try:
        variables = checkpoints.list_variables(folder)
    except (OSError, ValueError):
        return described
    described["num_parameters"] = sum(
        math.prod(shape)
        for name, (shape, _) in variables.items()
        if not checkpoints.is_training_state(name, variables)
    )
    return described


def _environment() -> dict[str, Any]:
    import keras
    import tensorflow as tf

    packages = {}
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            packages[name] = importlib.metadata.version(name)
    return {
        "python": platform.python_version(),
        "packages": packages,
        "code": _code(),
        "platform": platform.platform(),
        "cpu_cores": os.cpu_count(),
        "precision": keras.config.dtype_policy().name,
        "devices": sorted(
            device.name.removeprefix("/physical_device:")
            for device in tf.config.list_physical_devices()
        ),
    }


def _code() -> dict[str, Any] | None:
    """Returns the commit of this clone, and whether files are modified."""
    describe = ["describe", "--always", "--exclude=*", "--abbrev=40", "--dirty"]
    try:
        done = subprocess.run(
            ["git", "-C", _ROOT, *describe],
            capture_output=True,
            check=True,
            text=True,
            timeout=_GIT_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    commit, _, modified = done.stdout.strip().partition("-")
    return {"commit": commit, "is_modified": bool(modified)}


def _peak_memory() -> dict[str, int]:
    """Returns the peak memory so far, in bytes: of `host` and each GPU."""
    import tensorflow as tf

    used = {"host": reporting.peak_host_bytes()}
    for gpu in tf.config.list_logical_devices("GPU"):
        info = tf.config.experimental.get_memory_info(gpu.name)
        used[gpu.name.removeprefix("/device:")] = info["peak"]
    return used


def summary_lines(card: Mapping[str, Any]) -> list[str]:
    """Summarizes a card: the program, its metrics and the files it wrote."""
    num_parameters = card["model"].get("num_parameters")
    parts = [
        ("run", run_text(card)),
        ("model", num_parameters and f"{num_parameters:,} parameters"),
        *((name, _metrics_text(values)) for name, values in _reports(card)),
        *(
            (name, _metrics_text(values))
            for name, values in card["results"].items()
        ),
        ("wrote", ", ".join(_written(card["written"]))),
    ]
    parts = [(title, text) for title, text in parts if text]
    width = max(len(title) for title, _ in parts)
    indent = " " * (width + 4)
    return [
        line
        for title, text in parts
        for line in messages.wrapped(
            f"  {title:<{width}}  {text}", _SUMMARY_COLUMNS, indent
        ).split("\n")
    ]


def run_text(card: Mapping[str, Any]) -> str:
    # Without a new report, the speeds are those of an earlier run.
    trained = reporting.METRICS_FILE in card["written"]
    training = card["training"] if trained else {}
    parts = [
        f"{card['program']} {card['ended']} in "
        f"{progress.duration(card['seconds'])}, started {card['started']}",
        f"peak memory {size_text(card['memory']['host'])}",
    ]
    if training.get("examples_per_second") is not None:
        parts.append(f"{training['examples_per_second']:.1f} examples/s")
    if training.get("input_wait") is not None:
        parts.append(f"input wait {training['input_wait']:.1f} %")
    return ", ".join(parts)


def _reports(
    card: Mapping[str, Any],
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the titles and metrics of the last reports of a run or trials."""
    training = card["training"]
    trials = {"": training} if "last_step" in training else training
    for trial, summary in trials.items():
        for key, kind in (
            ("last_training", "training"),
            ("last_evaluation", "held out"),
        ):
            if key in summary:
                title = f"{kind}, step {summary[key]['step']:,}"
                yield (f"{trial}, {title}" if trial else title), summary[key]


def _metrics_text(values: Mapping[str, Any]) -> str:
    return "  ".join(
        f"{name.removeprefix(reporting.HELD_OUT)} {number_text(value)}"
        for name, value in values.items()
        if name not in _METRICS_NOT_SHOWN
    )


def number_text(value: Any) -> str:
    """Formats a float with 4 digits, and any other value as it is."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def size_text(num_bytes: int) -> str:
    """Formats a number of bytes in units of 10^6, or of 10^3."""
    if num_bytes < _MEGABYTE:
        return f"{num_bytes / _KILOBYTE:,.1f} kB"
    return f"{num_bytes / _MEGABYTE:,.1f} MB"


def _written(files: Mapping[str, int]) -> list[str]:
    """Lists files with their sizes; the files of a checkpoint are one entry."""
    sizes: dict[str, int] = {}
    for name, size in files.items():
        folder, slash, last = name.rpartition("/")
        if _EVENTS.fullmatch(last):
            last = "events.out.tfevents.*"
        elif checkpoint := _CHECKPOINT_PART.fullmatch(last):
            last = f"{checkpoint.group(1)}.*"
        whole = f"{folder}{slash}{last}"
        sizes[whole] = sizes.get(whole, 0) + size
    named = [f"{name} ({size_text(n)})" for name, n in sizes.items()]
    more = len(named) - _MOST_FILES_SHOWN
    return [*named[:_MOST_FILES_SHOWN], *([f"{more} more"] if more > 0 else [])]


def write_to_tensorboard(folder: str, card: Mapping[str, Any]) -> None:
    """Writes the summary and the flags to TensorBoard's "Text"."""
    step = card["training"].get("last_step")
    if step is None:
        return
    import tensorflow as tf

    flags = [f"    --{k}={v}" for k, v in sorted(card["flags"].items())]
    # Four spaces make a Markdown code block, which keeps its lines.
    summary = [f"    {line}" for line in summary_lines(card)]
    writer = tf.summary.create_file_writer(folder)
    with writer.as_default(step=step):
        tf.summary.text("run", "\n".join([*summary, "", *flags]))
    writer.close()
