"""What has become of jobs: a small file in the folder of each."""

import dataclasses
import glob
import os
from collections.abc import Sequence

from files import json_text, writing
from paper import jobs

DONE, FAILED, STOPPED = "done", "failed", "stopped"
_FILE = "state.json"
LOG = "log.txt"


@dataclasses.dataclass(frozen=True, kw_only=True)
class State:
    """How a job ended.

    Attributes:
        state: `DONE`, `FAILED` or `STOPPED`.
        seconds: it took, over all its starts.
        command: that was run.
    """

    state: str
    seconds: float
    command: str


def read(job: jobs.Job, places: jobs.Places) -> State | None:
    """Reads how a job ended; None if it was never run to an end."""
    path = os.path.join(places.job_folder(job), _FILE)
    if not os.path.exists(path):
        return None
    return State(**json_text.read_object(path))


def write(job: jobs.Job, places: jobs.Places, state: State) -> None:
    """Writes how a job ended."""
    path = os.path.join(places.job_folder(job), _FILE)
    writing.write_json(path, dataclasses.asdict(state))


def is_done(job: jobs.Job, places: jobs.Places) -> bool:
    """Tells whether a job need not be run."""
    state = read(job, places)
    return state is not None and state.state == DONE


def log_tail(job: jobs.Job, places: jobs.Places, num_lines: int) -> str:
    """Returns the last lines of a job's log; empty if there is none."""
    path = os.path.join(places.job_folder(job), LOG)
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return "".join(file.readlines()[-num_lines:]).rstrip()


def missing(job: jobs.Job, places: jobs.Places) -> list[str]:
    """Lists the files that the user must have for a job, and has not."""
    return [
        path
        for given in job.given
        if not _exists(path := os.path.join(places.data_dir, given.path), given)
    ]


def _exists(path: str, given: jobs.Given) -> bool:
    if given.is_prefix:
        return bool(glob.glob(glob.escape(path) + "*"))
    return os.path.exists(path) or bool(glob.glob(path))


def seconds_left(
    todo: Sequence[jobs.Job],
    finished: Sequence[tuple[jobs.Job, State]],
    num_parallel: int,
) -> float:
    """Estimates how long jobs will take.

    Estimates are corrected by how long the finished ones took.

    Args:
        todo: what is left.
        finished: what is done, here or in earlier runs.
        num_parallel: how many run at a time.
    """
    expected = sum(job.seconds for job, _ in finished)
    taken = sum(state.seconds for _, state in finished)
    pace = taken / expected if expected > 0 and taken > 0 else 1.0
    return pace * sum(job.seconds for job in todo) / num_parallel
