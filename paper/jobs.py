"""Commands of the project as data, and their resumable runner.

A job has a program, flags and dependencies. Its name in the work folder is a
hash of its command and of its dependencies. A job that two tables need is run
once; a changed job is run again.
"""

import contextlib
import dataclasses
import functools
import glob
import hashlib
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from absl import logging

from files import json_text, locking, writing

ROOT = pathlib.Path(__file__).parents[1]
FOLDER = "jobs"
_STATE, LOG = "state.json", "log.txt"
DONE, FAILED, STOPPED = "done", "failed", "stopped"
_POLL_SECONDS = 0.2
_REPORT_EVERY_SECONDS = 300.0
_TAIL_LINES = 15
_HASH_LENGTH = 10
# Characters that end a value within a phase.
_DELIMITERS = re.compile(r"""[\s;'"\\]""")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Given:
    """A file, folder or glob in the data folder, provided by the user.

    Attributes:
        path: relative to the data folder.
        is_prefix: whether the path is a prefix of files, as of a checkpoint.
    """

    path: str
    is_prefix: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Output:
    """An output file or folder of a job.

    Attributes:
        job: its job; None for the job that uses this value.
        path: relative to the job's folder; empty for the folder.
    """

    job: "Job | None" = None
    path: str = ""


Path = Given | Output | str


# A part of `--phases` of run_pretraining.py.
Phase = Mapping[str, Path | int]
# Tuples are lists: paths separated by commas, phases by semicolons.
Value = Path | bool | int | float | tuple[Path, ...] | tuple[Phase, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """One command of the project.

    Attributes:
        name: for display.
        program: `run_classifier.py`, or `tools.learn_vocab` for a module.
        flags: in the order of the command line.
        seconds: estimated duration, not part of its identity.
    """

    name: str
    program: str
    flags: Mapping[str, Value]
    seconds: float = dataclasses.field(default=0.0, compare=False)

    def __hash__(self) -> int:
        return hash(self.folder)

    def __repr__(self) -> str:
        return f"Job({self.folder})"  # Its dependencies would fill pages.

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and self.folder == other.folder

    # Cached, because hashing traverses all dependencies.
    @functools.cached_property
    def folder(self) -> str:
        """The name of the job's folder: readable words, then a hash."""
        written: list[Any] = [self.program]
        for name, value in self.flags.items():
            text = _text(value, Folders("DATA", "WORK"), "OWN")
            written.append([name, text])
        digest = hashlib.sha256(json.dumps(written).encode()).hexdigest()
        words = re.sub(r"[^A-Za-z0-9.]+", "-", self.name).strip("-").lower()
        return f"{words}-{digest[:_HASH_LENGTH]}"

    @property
    def needs(self) -> list["Job"]:
        """Lists the direct dependencies."""
        jobs = (
            path.job
            for path in self._paths()
            if isinstance(path, Output) and path.job is not None
        )
        return list(dict.fromkeys(jobs))

    @property
    def given(self) -> list[Given]:
        """Lists the files that the user must provide."""
        paths = (path for path in self._paths() if isinstance(path, Given))
        return list(dict.fromkeys(paths))

    def _paths(self) -> Iterator[Value]:
        for value in self.flags.values():
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, Mapping):
                    yield from part.values()
                else:
                    yield part


@dataclasses.dataclass(frozen=True)
class Folders:
    """The folders of a run.

    Attributes:
        data_dir: data sets and released models.
        work_dir: outputs of all jobs.
    """

    data_dir: str
    work_dir: str

    def job_folder(self, job: Job) -> str:
        """Returns the folder of a job's state, log and output."""
        return os.path.join(self.work_dir, FOLDER, job.folder)

    def output(self, job: Job) -> str:
        """Returns the output folder of a job."""
        return os.path.join(self.job_folder(job), "out")


def arguments(job: Job, folders: Folders) -> list[str]:
    """Lists the arguments of a job's command: program, then flags."""
    is_script = job.program.endswith(".py")
    words = [job.program] if is_script else ["-m", job.program]
    for name, value in job.flags.items():
        text = _text(value, folders, folders.output(job))
        words.append(f"--{name}" if text == "True" else f"--{name}={text}")
    return words


def command(job: Job, folders: Folders) -> str:
    """Returns a job's command as a shell command line, a flag on each line."""
    line = "python"
    for word in arguments(job, folders):
        name, sign, value = word.partition("=")
        line += " \\\n  " if name.startswith("--") else " "
        line += f"{name}={shlex.quote(value)}" if sign else name
    return line


def in_order(wanted: Iterable[Job]) -> list[Job]:
    """Lists jobs and all dependencies, in topological order."""
    ordered: dict[Job, None] = {}

    def add(job: Job) -> None:
        if job not in ordered:
            for needed in job.needs:
                add(needed)
            ordered[job] = None

    for job in wanted:
        add(job)
    return list(ordered)


def _text(value: Value | Phase, folders: Folders, own: str) -> str:
    """Formats the value of a flag; `own` is the output folder of the job."""
    if isinstance(value, tuple):
        separator = "; " if isinstance(value[0], Mapping) else ","
        return separator.join(_text(part, folders, own) for part in value)
    if isinstance(value, Mapping):
        texts = ((n, _text(inner, folders, own)) for n, inner in value.items())
        return " ".join(
            f"{name}={shlex.quote(text) if _DELIMITERS.search(text) else text}"
            for name, text in texts
        )
    if isinstance(value, Given):
        return os.path.join(folders.data_dir, value.path)
    if isinstance(value, Output):
        folder = own if value.job is None else folders.output(value.job)
        return os.path.join(folder, value.path) if value.path else folder
    return str(value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class State:
    """The outcome of a job.

    Attributes:
        state: `DONE`, `FAILED` or `STOPPED`.
        seconds: total duration over all starts.
        command: the command line.
    """

    state: str
    seconds: float
    command: str


def read_state(job: Job, folders: Folders) -> State | None:
    """Reads the outcome of a job; None if it has not ended yet.

    Raises:
        ValueError: its file has other fields than `State`.
    """
    path = os.path.join(folders.job_folder(job), _STATE)
    if not os.path.exists(path):
        return None
    shape = {"state": str, "seconds": (int, float), "command": str}
    content = json_text.read_object(path)
    if content.keys() != shape.keys() or not json_text.has_shape(
        content, shape
    ):
        raise ValueError(
            f"{path} must have the fields {', '.join(shape)}; got "
            f"{', '.join(content) or 'none'}. Delete it to run the command "
            "again."
        )
    return State(**content)


def write_state(job: Job, folders: Folders, state: State) -> None:
    """Writes the outcome of a job."""
    path = os.path.join(folders.job_folder(job), _STATE)
    writing.write_json(path, dataclasses.asdict(state))


def is_done(job: Job, folders: Folders) -> bool:
    """Returns whether a job is done."""
    state = read_state(job, folders)
    return state is not None and state.state == DONE


def log_tail(job: Job, folders: Folders, num_lines: int) -> str:
    """Returns the last lines of a job's log; empty if there is none."""
    path = os.path.join(folders.job_folder(job), LOG)
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return "".join(file.readlines()[-num_lines:]).rstrip()


def missing_files(job: Job, folders: Folders) -> list[str]:
    """Lists the missing files that the user must provide for a job."""
    missing = []
    for given in job.given:
        path = os.path.join(folders.data_dir, given.path)
        pattern = glob.escape(path) + "*" if given.is_prefix else path
        if not (glob.glob(pattern) or os.path.exists(path)):
            missing.append(path)
    return missing


def hours(seconds: float) -> str:
    """Formats a duration."""
    minutes = seconds / 60
    if seconds < 90:
        return f"{seconds:.0f} s"
    if minutes < 90:
        return f"{minutes:.0f} min"
    if minutes < 48 * 60:
        return f"{minutes / 60:.1f} h"
    return f"{minutes / 60 / 24:.1f} days"


def seconds_left(
    todo: Sequence[Job],
    finished: Sequence[tuple[Job, State]],
    num_parallel: int,
) -> float:
    """Estimates the remaining seconds.

    Estimates are corrected by the duration of finished jobs.

    Args:
        todo: jobs to run.
        finished: jobs finished now or in earlier runs.
        num_parallel: number of concurrent jobs.
    """
    expected = sum(job.seconds for job, _ in finished)
    taken = sum(state.seconds for _, state in finished)
    pace = taken / expected if expected > 0 and taken > 0 else 1.0
    return pace * sum(job.seconds for job in todo) / num_parallel


@dataclasses.dataclass
class _Running:
    job: Job
    process: subprocess.Popen
    started: float
    reported: float


class Runner:
    """A runner of commands as parallel processes.

    Args:
        folders: of data and of work.
        num_parallel: number of concurrent commands.
        poll_seconds: polling interval.

    Attributes:
        failed: jobs whose command failed.
        skipped: jobs that were not run, with the reason.
        stopped: whether the runner was interrupted.
    """

    def __init__(
        self,
        folders: Folders,
        *,
        num_parallel: int = 1,
        poll_seconds: float = _POLL_SECONDS,
    ):
        self._folders = folders
        self._num_parallel = num_parallel
        self._poll_seconds = poll_seconds
        self._todo: list[Job] = []
        self._running: list[_Running] = []
        self._finished: list[tuple[Job, State]] = []
        self.failed: list[Job] = []
        self.skipped: dict[Job, str] = {}
        self.stopped = False

    def run(self, wanted: Sequence[Job]) -> bool:
        """Runs jobs and their dependencies, unless they are done.

        If a job fails or a file is missing, its dependents are skipped and
        other jobs continue. SIGINT, SIGTERM and SIGHUP stop the commands,
        which save their progress; so does an error of the runner.

        Returns:
            Whether every job is done.

        Raises:
            LockedError: another program runs jobs in the work folder.
            OSError: a file of the work folder cannot be written.
        """
        for job in in_order(wanted):
            state = read_state(job, self._folders)
            if state is not None and state.state == DONE:
                self._finished.append((job, state))
            else:
                self._todo.append(job)
        logging.info(
            "%d commands are done, %d are to be run: about %s.",
            len(self._finished),
            len(self._todo),
            self._time_left(),
        )
        work_dir = self._folders.work_dir
        lock = locking.lock_folder(work_dir, f"--work_dir={work_dir}")
        with lock, self._signals():
            try:
                while self._running or (self._todo and not self.stopped):
                    if not self.stopped:
                        self._start_ready()
                    if self._running:
                        time.sleep(self._poll_seconds)
                    self._poll()
            finally:
                # After an error, no command may outlive the lock.
                self._stop_commands()
                for running in self._running:
                    running.process.wait()
        return not (self.failed or self.skipped or self.stopped)

    def _start_ready(self) -> None:
        """Starts jobs that are ready, and skips those that cannot run."""
        done = {job for job, _ in self._finished}
        unavailable = {*self.failed, *self.skipped}
        for job in list(self._todo):
            missing = missing_files(job, self._folders)
            blocking = [needed for needed in job.needs if needed in unavailable]
            if missing or blocking:
                reason = ", ".join(
                    [f"{path} is missing" for path in missing]
                    + [f"'{needed.name}' is not done" for needed in blocking]
                )
                logging.warning("Skipped: %s: %s", job.name, reason)
                self.skipped[job] = reason
                unavailable.add(job)
                self._todo.remove(job)
            elif len(self._running) < self._num_parallel and all(
                needed in done for needed in job.needs
            ):
                self._todo.remove(job)
                self._start(job)

    def _start(self, job: Job) -> None:
        folder = self._folders.job_folder(job)
        os.makedirs(self._folders.output(job), exist_ok=True)
        text = command(job, self._folders)
        logging.info("Starting: %s\n%s", job.name, text)
        with open(os.path.join(folder, LOG), "a", encoding="utf-8") as log:
            log.write(f"$ {text}\n")
            log.flush()
            process = subprocess.Popen(
                [sys.executable, *arguments(job, self._folders)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ},
                # The runner alone forwards a Ctrl-C, once.
                start_new_session=True,
            )
        now = time.monotonic()
        self._running.append(
            _Running(job=job, process=process, started=now, reported=now)
        )
        if self.stopped:  # The signal came before the process existed.
            self._stop_commands()

    def _poll(self) -> None:
        """Records ended jobs, and periodically logs running ones."""
        for running in list(self._running):
            code = running.process.poll()
            now = time.monotonic()
            if code is not None:
                self._running.remove(running)
                self._end(running, code, now - running.started)
            elif now - running.reported > _REPORT_EVERY_SECONDS:
                running.reported = now
                logging.info(
                    "Running for %s: %s\n  %s",
                    hours(now - running.started),
                    running.job.name,
                    log_tail(running.job, self._folders, 1),
                )

    def _end(self, running: _Running, code: int, seconds: float) -> None:
        job = running.job
        before = read_state(job, self._folders)
        outcome = DONE if code == 0 else FAILED
        if self.stopped:
            # An interrupted script saves, and may exit with 0.
            outcome = STOPPED
        state = State(
            state=outcome,
            seconds=seconds + (before.seconds if before else 0.0),
            command=command(job, self._folders),
        )
        write_state(job, self._folders, state)
        if state.state == DONE:
            self._finished.append((job, state))
        elif state.state == FAILED:
            self.failed.append(job)
            logging.error(
                "Failed with code %d: %s; %s ends in\n%s",
                code,
                job.name,
                os.path.join(self._folders.job_folder(job), LOG),
                log_tail(job, self._folders, _TAIL_LINES),
            )
        else:
            self._todo.append(job)
        logging.info(
            "%s after %s: %s. %d done, %d left: about %s.",
            state.state.capitalize(),
            hours(seconds),
            job.name,
            len(self._finished),
            len(self._todo) + len(self._running),
            self._time_left(),
        )

    def _stop_commands(self) -> None:
        for running in self._running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.process.pid, signal.SIGTERM)

    def _time_left(self) -> str:
        todo = [*self._todo, *(running.job for running in self._running)]
        return hours(seconds_left(todo, self._finished, self._num_parallel))

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        def stop(*_):
            self.stopped = True
            self._stop_commands()

        numbers = [signal.SIGINT, signal.SIGTERM]
        # `nohup` ignores this one, and commands are to keep running.
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        before = {number: signal.signal(number, stop) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
