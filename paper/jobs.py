"""Commands of the project as data: programs, flags and dependencies.

A job's name in the work folder is a hash of its command and of its
dependencies. A job that two tables need is run once; a changed job is run
again.
"""

import dataclasses
import functools
import hashlib
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Any

FOLDER = "jobs"
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """A part of `--phases` of run_pretraining.py: key=value pairs.

    Attributes:
        pairs: names and values.
    """

    pairs: tuple[tuple[str, Path | int], ...]


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
    flags: tuple[tuple[str, Value], ...]
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
        for name, value in self.flags:
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
        for _, value in self.flags:
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, Phase):
                    yield from (inner for _, inner in part.pairs)
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
    return [
        *_program(job),
        *(_flag(name, text) for name, text in _texts(job, folders)),
    ]


def command(job: Job, folders: Folders) -> str:
    """Returns a job's command as a shell command line."""
    flags = [
        _flag(name, text if text == "True" else shlex.quote(text))
        for name, text in _texts(job, folders)
    ]
    return " \\\n  ".join([" ".join(["python", *_program(job)]), *flags])


def _program(job: Job) -> list[str]:
    is_script = job.program.endswith(".py")
    return [job.program] if is_script else ["-m", job.program]


def _texts(job: Job, folders: Folders) -> Iterator[tuple[str, str]]:
    for name, value in job.flags:
        yield name, _text(value, folders, folders.output(job))


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


def _flag(name: str, text: str) -> str:
    return f"--{name}" if text == "True" else f"--{name}={text}"


def _text(value: Value | Phase, folders: Folders, own: str) -> str:
    """Formats the value of a flag; `own` is the output folder of the job."""
    if isinstance(value, tuple):
        separator = "; " if isinstance(value[0], Phase) else ","
        return separator.join(_text(part, folders, own) for part in value)
    if isinstance(value, Phase):
        return " ".join(
            f"{name}={_quoted(_text(inner, folders, own))}"
            for name, inner in value.pairs
        )
    if isinstance(value, Given):
        return os.path.join(folders.data_dir, value.path)
    if isinstance(value, Output):
        folder = own if value.job is None else folders.output(value.job)
        return os.path.join(folder, value.path) if value.path else folder
    return str(value)


def _quoted(text: str) -> str:
    """Quotes a value of `--phases` if it contains delimiters."""
    return shlex.quote(text) if _DELIMITERS.search(text) else text
