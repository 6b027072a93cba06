"""A record of a run, for whoever asks later what was done: `run_card.json`.

It holds the flags, versions, devices, hashes of what was read, speed, memory
and results. It is written when a program ends, also when a signal or an error
ends it; what earlier programs did in the same folder stays in it in short.
"""

import contextlib
import dataclasses
import datetime
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from absl import logging

from files import json_text, lines, locking, paths, writing
from training import card_summary, reporting, run_environment, run_inputs

FILE = "run_card.json"
_FORMAT = 1
_RESULTS_ENDING = "results.txt"
_TRIALS = "trial-"
_NONE = type(None)
# What later cards keep of the programs before.
_KEPT_OF_EARLIER = ("program", "started", "seconds", "ended", "command")
_REPORT = ({"step": int, "*": (int, float, _NONE)}, _NONE)
_SUMMARY = {
    **dict.fromkeys(("last_training", "last_evaluation"), _REPORT),
    **dict.fromkeys(("examples_per_second", "input_wait"), (float, int, _NONE)),
}
# What others read of a card, as `json_text.has_shape` takes it.
_SHAPE = {
    **dict.fromkeys(("program", "started", "ended"), str),
    "seconds": (int, float),
    "flags": dict,
    "inputs": {"*": [{"path": str, "sha256": (str, _NONE)}]},
    "environment": {"packages": (dict, _NONE), "code": (dict, _NONE)},
    "memory": {"host": int},
    "model": {"config": (dict, _NONE), "num_parameters": (int, _NONE)},
    "training": ({"last_step": int, **_SUMMARY}, {"*": _SUMMARY}),
    "results": {"*": {"*": (str, int, float)}},
    "written": {"*": int},
}

_Options = TypeVar("_Options")


def record(run: Callable[[_Options], None], options: _Options) -> None:
    """Runs a script, then writes the card of its folder and logs a summary.

    The folder is locked meanwhile, so that no other run writes there; of
    several workers the chief locks it for all.

    A run that fails before it writes anything leaves no card: the folder may
    be another run's. Of several workers the chief alone writes, and the others
    stay until it has: TensorFlow takes those who leave much earlier for
    crashed.

    Args:
        run: the script.
        options: a dataclass that has `output_dir`.

    Raises:
        LockedError: another run writes to the folder.
    """
    with _locked(options.output_dir):
        _record(run, options)


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Locks the folder of a run; of several workers the chief does."""
    purpose, group = f"--output_dir={folder}", ""
    if _has_others():
        from training import workers  # Late: it imports TensorFlow.

        members = workers.cluster()
        group = ",".join(members.addresses)
        if not members.is_chief:
            locking.check_folder(folder, purpose, group)
            yield
            return
    with locking.lock_folder(folder, purpose, group=group):
        yield


def _has_others() -> bool:
    return "TF_CONFIG" in os.environ


def _record(run, options) -> None:
    started = time.time()
    earlier = _content(options) if _has_others() else None
    ended = "finished"
    try:
        run(options)
    except BaseException as error:
        ended = _how_it_ended(error)
        raise
    finally:
        _finish(options, started, ended)
    if _has_others():
        _follow_chief(options, earlier)


def _content(options) -> bytes | None:
    """Returns the bytes of the card as it stands; None where there is none."""
    path = os.path.join(options.output_dir, FILE)
    if not paths.exists(path):
        return None
    with paths.open_to_read(path) as file:
        return file.read()


def _follow_chief(options, earlier: bytes | None) -> None:
    """Returns when the chief has written its card, or is gone.

    Args:
        options: have `output_dir`.
        earlier: the card as it stood before the run.
    """
    from training import workers

    if workers.cluster().is_chief:
        return

    def find():
        content = _content(options)
        return None if content == earlier else content

    path = os.path.join(options.output_dir, FILE)
    try:
        workers.wait_for(path, find)
    except workers.LostWorkerError as error:
        logging.warning("%s", error)


def _finish(options, started: float, ended: str) -> None:
    folder = options.output_dir
    failed = ended != "finished"
    if not paths.is_remote(folder) and not run_inputs.matching(folder, "*"):
        return  # Nothing was ever written.
    # What fails before TensorFlow is imported has written nothing; that is no
    # reason to wait for the import.
    if failed and not sys.modules.get("tensorflow"):
        return
    from training import workers

    if not workers.cluster().is_chief:
        return
    written = files_written(folder, started)
    if failed and reporting.METRICS_FILE not in written:
        return
    path = os.path.join(folder, FILE)
    card = {
        **_session(options, started, ended),
        "inputs": run_inputs.describe(options),
        "environment": run_environment.describe(),
        "memory": run_environment.peak_memory(),
        "model": run_inputs.describe_model(folder),
        "training": _training(folder),
        "results": results(folder),
        "written": written,
        "earlier": _earlier(path),
    }
    writing.write_json(path, card)
    summary = card_summary.lines(card)
    logging.info("%s", "\n".join([f"{folder}: {ended}", *summary]))
    card_summary.to_tensorboard(folder, card)


def _session(options, started: float, ended: str) -> dict[str, Any]:
    """Says what was asked for, when, and how it ended."""
    moment = datetime.datetime.fromtimestamp(started, datetime.UTC)
    return {
        "format": _FORMAT,
        "program": os.path.basename(sys.argv[0]),
        "command": sys.argv[:],
        "started": moment.isoformat(timespec="seconds"),
        "seconds": round(time.time() - started, 1),
        "ended": ended,
        "flags": dataclasses.asdict(options),
    }


def _how_it_ended(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt | SystemExit):
        return "interrupted"
    return f"failed: {type(error).__name__}: {error}"


def files_written(folder: str, since: float) -> dict[str, int]:
    """Finds the files of a folder that are no older than a moment.

    Args:
        folder: local or remote; folders in it are looked through too.
        since: seconds since 1970.

    Returns:
        Their sizes in bytes, by name within the folder, sorted.
    """
    import tensorflow as tf

    found = {}
    for place, _, names in tf.io.gfile.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            state = tf.io.gfile.stat(path)
            # Some file systems keep whole seconds.
            if state.mtime_nsec >= int(since) * 10**9 and name[0] != ".":
                found[os.path.relpath(path, folder)] = state.length
    return dict(sorted(found.items()))


def _training(folder: str) -> dict[str, Any]:
    """Summarises the reports of a run, or of each of its trials."""
    summary = reporting.summarize(
        reporting.read_metrics(reporting.metrics_path(folder))
    )
    return summary or {
        name: reporting.summarize(reporting.read_metrics(path))
        for name, path in trial_reports(folder).items()
    }


def trial_reports(folder: str) -> dict[str, str]:
    """Finds the reports of several trials in a folder, by trial."""
    found = run_inputs.matching(folder, f"{_TRIALS}*/{reporting.METRICS_FILE}")
    return {os.path.basename(os.path.dirname(path)): path for path in found}


def results(folder: str) -> dict[str, dict[str, Any]]:
    """Reads what evaluations came to, by file."""
    found = run_inputs.matching(folder, f"*{_RESULTS_ENDING}")
    return {os.path.basename(path): read_results(path) for path in found}


def read_results(path: str) -> dict[str, float | str]:
    """Reads a file of `key = value` lines; numbers as numbers."""
    found = lines.read_lines(path)
    pairs = (line.split(" = ", 1) for line in found if " = " in line)
    return {key: _number(value) for key, value in pairs}


def _number(text: str) -> float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def read(path: str) -> dict[str, Any]:
    """Reads a card.

    Raises:
        OSError: there is none.
        ValueError: it is not of this program.
    """
    card = json_text.read_object(path)
    if card.get("format") != _FORMAT:
        raise ValueError(
            f"{path}: must be a run card of format {_FORMAT}; it is not."
        )
    for name, shape in _SHAPE.items():
        if not json_text.has_shape(card.get(name), shape):
            raise ValueError(
                f"{path}: {name} is missing, or not as a run card has it. "
                "Move the file away."
            )
    return card


def _earlier(path: str) -> list[dict[str, Any]]:
    """Lists what earlier programs did in a folder, the first one first."""
    if not paths.exists(path):
        return []
    card = read(path)
    if missing := [n for n in ("earlier", *_KEPT_OF_EARLIER) if n not in card]:
        raise ValueError(
            f"{path}: must hold {', '.join(missing)}; move this file away."
        )
    if not isinstance(card["earlier"], list):
        raise ValueError(f"{path}: earlier must be a list; move it away.")
    return [*card["earlier"], {name: card[name] for name in _KEPT_OF_EARLIER}]
