"""A resumable runner of jobs in order of their dependencies."""

import contextlib
import dataclasses
import glob
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from absl import logging

from files import json_text, locking, writing
from paper import costs, jobs

_POLL_SECONDS = 0.2
_REPORT_EVERY_SECONDS = 300.0
_TAIL_LINES = 15
DONE, FAILED, STOPPED = "done", "failed", "stopped"
_FILE = "state.json"
LOG = "log.txt"


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


def read_state(job: jobs.Job, folders: jobs.Folders) -> State | None:
    """Reads the outcome of a job; None if it has not ended yet."""
    path = os.path.join(folders.job_folder(job), _FILE)
    if not os.path.exists(path):
        return None
    return State(**json_text.read_object(path))


def write_state(job: jobs.Job, folders: jobs.Folders, state: State) -> None:
    """Writes how a job ended."""
    path = os.path.join(folders.job_folder(job), _FILE)
    writing.write_json(path, dataclasses.asdict(state))


def is_done(job: jobs.Job, folders: jobs.Folders) -> bool:
    """Returns whether a job is done."""
    state = read_state(job, folders)
    return state is not None and state.state == DONE


def log_tail(job: jobs.Job, folders: jobs.Folders, num_lines: int) -> str:
    """Returns the last lines of a job's log; empty if there is none."""
    path = os.path.join(folders.job_folder(job), LOG)
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return "".join(file.readlines()[-num_lines:]).rstrip()


def missing_files(job: jobs.Job, folders: jobs.Folders) -> list[str]:
    """Lists the missing files that the user must provide for a job."""
    missing = []
    for given in job.given:
        path = os.path.join(folders.data_dir, given.path)
        pattern = glob.escape(path) + "*" if given.is_prefix else path
        if not (glob.glob(pattern) or os.path.exists(path)):
            missing.append(path)
    return missing


def seconds_left(
    todo: Sequence[jobs.Job],
    finished: Sequence[tuple[jobs.Job, State]],
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """The outcome of all jobs.

    Attributes:
        failed: jobs whose command failed.
        skipped: jobs that were not run, with the reason.
        stopped: whether the runner was interrupted.
    """

    failed: tuple[jobs.Job, ...]
    skipped: tuple[tuple[jobs.Job, str], ...]
    stopped: bool

    @property
    def is_complete(self) -> bool:
        """Whether every job is done."""
        return not (self.failed or self.skipped or self.stopped)


@dataclasses.dataclass
class _Running:
    """A command that runs now."""

    job: jobs.Job
    process: subprocess.Popen
    started: float
    reported: float


class Runner:
    """A runner of commands as parallel processes.

    Args:
        folders: of data and of work.
        num_parallel: number of concurrent commands.
        poll_seconds: polling interval.
    """

    def __init__(
        self,
        folders: jobs.Folders,
        *,
        num_parallel: int = 1,
        poll_seconds: float = _POLL_SECONDS,
    ):
        self._folders = folders
        self._num_parallel = num_parallel
        self._poll_seconds = poll_seconds
        self._todo: list[jobs.Job] = []
        self._running: list[_Running] = []
        self._finished: list[tuple[jobs.Job, State]] = []
        self._failed: list[jobs.Job] = []
        self._skipped: dict[jobs.Job, str] = {}
        self._stopping = False

    def run(self, wanted: Sequence[jobs.Job]) -> Summary:
        """Runs jobs and their dependencies, unless they are done.

        If a job fails or a file is missing, its dependents are skipped and
        other jobs continue. SIGINT and SIGTERM are forwarded to the commands,
        which save their progress.

        Raises:
            LockedError: another program runs jobs in the work folder.
            OSError: a file of the work folder cannot be written.
        """
        for job in jobs.in_order(wanted):
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
            while self._running or (self._todo and not self._stopping):
                if not self._stopping:
                    self._start_ready()
                if self._running:
                    time.sleep(self._poll_seconds)
                self._poll()
        return Summary(
            failed=tuple(self._failed),
            skipped=tuple(self._skipped.items()),
            stopped=self._stopping,
        )

    def _start_ready(self) -> None:
        """Starts jobs that are ready, and skips those that cannot run."""
        done = {job for job, _ in self._finished}
        unavailable = {*self._failed, *self._skipped}
        for job in list(self._todo):
            missing = missing_files(job, self._folders)
            blocking = [needed for needed in job.needs if needed in unavailable]
            if missing or blocking:
                reason = ", ".join(
                    [f"{path} is missing" for path in missing]
                    + [f"'{needed.name}' is not done" for needed in blocking]
                )
                logging.warning("Skipped: %s: %s", job.name, reason)
                self._skipped[job] = reason
                unavailable.add(job)
                self._todo.remove(job)
            elif len(self._running) < self._num_parallel and all(
                needed in done for needed in job.needs
            ):
                self._todo.remove(job)
                self._start(job)

    def _start(self, job: jobs.Job) -> None:
        folder = self._folders.job_folder(job)
        os.makedirs(self._folders.output(job), exist_ok=True)
        text = jobs.command(job, self._folders)
        logging.info("Starting: %s\n%s", job.name, text)
        with open(os.path.join(folder, LOG), "a", encoding="utf-8") as log:
            log.write(f"$ {text}\n")
            log.flush()
            process = subprocess.Popen(
                [sys.executable, *jobs.arguments(job, self._folders)],
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
        if self._stopping:  # The signal came before the process existed.
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
                    costs.hours(now - running.started),
                    running.job.name,
                    log_tail(running.job, self._folders, 1),
                )

    def _end(self, running: _Running, code: int, seconds: float) -> None:
        job = running.job
        before = read_state(job, self._folders)
        outcome = DONE if code == 0 else FAILED
        if self._stopping:
            # An interrupted script saves, and may exit with 0.
            outcome = STOPPED
        state = State(
            state=outcome,
            seconds=seconds + (before.seconds if before else 0.0),
            command=jobs.command(job, self._folders),
        )
        write_state(job, self._folders, state)
        if state.state == DONE:
            self._finished.append((job, state))
        elif state.state == FAILED:
            self._failed.append(job)
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
            costs.hours(seconds),
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
        return costs.hours(
            seconds_left(todo, self._finished, self._num_parallel)
        )

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Forwards signals to stop to the commands."""

        def stop(*_):
            self._stopping = True
            self._stop_commands()

        before = {
            number: signal.signal(number, stop)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
