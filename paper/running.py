"""Commands of the scripts as data, and their resumable runner.

A command's folder in the work folder is named by a hash of the command and of
the commands whose outputs it reads. A command that two tables need is run once;
a changed command is run again.
"""

import dataclasses
import functools
import glob
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from absl import logging

ROOT = pathlib.Path(__file__).parents[1]
_LOG = "log.txt"
_TAIL_LINES = 15
_HASH_LENGTH = 10


@dataclasses.dataclass(frozen=True)
class Data:
    """A file, folder, glob or prefix of files in the data folder."""

    path: str


@dataclasses.dataclass(frozen=True)
class Output:
    """A file of the output folder of a command, or with "" the folder.

    Attributes:
        path: relative to the output folder.
        command: None for the command that has this value.
    """

    path: str = ""
    command: "Command | None" = None


Path = Data | Output | str
Value = Path | bool | int | float | tuple[Path, ...]
Flags = Mapping[str, Value]


@dataclasses.dataclass(frozen=True)
class Folders:
    """The folder of the data and that of all outputs."""

    data_dir: str
    work_dir: str


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Command:
    """One command of this repository.

    Attributes:
        name: for display.
        program: `run_classifier.py`, or `tools.learn_vocab` for a module.
        flags: in the order of the command line.
        resumes: the command whose output folder this one continues to use.
    """

    name: str
    program: str
    flags: Flags
    resumes: "Command | None" = None

    @functools.cached_property
    def id(self) -> str:
        """A hash of the command and of all that it needs."""
        words = self.argv(Folders("DATA", "WORK"), output="OUT")
        text = json.dumps([*words, self.resumes.id if self.resumes else ""])
        return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]

    @property
    def folder(self) -> str:
        """The name of its folder in the work folder."""
        if self.resumes:
            return self.resumes.folder
        words = re.sub(r"[^A-Za-z0-9.]+", "-", self.name).strip("-").lower()
        return f"{words}-{self.id}"

    def output(self, folders: Folders) -> str:
        """Returns its output folder."""
        return os.path.join(folders.work_dir, self.folder, "out")

    def values(self) -> Iterator[Path | bool | int | float]:
        """Yields the values of all flags, those of tuples one by one."""
        for value in self.flags.values():
            yield from value if isinstance(value, tuple) else (value,)

    def needs(self) -> list["Command"]:
        """Lists the commands whose output it uses."""
        found = [self.resumes] if self.resumes else []
        for value in self.values():
            if isinstance(value, Output) and value.command:
                found.append(value.command)
        return found

    def missing_data(self, folders: Folders) -> list[str]:
        """Lists the paths of its data that do not exist."""
        paths = [
            os.path.join(folders.data_dir, value.path)
            for value in self.values()
            if isinstance(value, Data)
        ]
        # The `*` is for checkpoints, which are named by a prefix.
        return [path for path in paths if not glob.glob(f"{path}*")]

    def argv(self, folders: Folders, output: str | None = None) -> list[str]:
        """Lists its words after `python`.

        Args:
            folders: of data and outputs.
            output: replaces its output folder.
        """
        own = self.output(folders) if output is None else output

        def text(value: Value) -> str:
            if isinstance(value, tuple):
                return ",".join(map(text, value))
            if isinstance(value, Data):
                return os.path.join(folders.data_dir, value.path)
            if isinstance(value, Output):
                folder = value.command.output(folders) if value.command else own
                return (
                    os.path.join(folder, value.path) if value.path else folder
                )
            return str(value)

        is_script = self.program.endswith(".py")
        words = [self.program] if is_script else ["-m", self.program]
        for name, value in self.flags.items():
            words.append(
                f"--{name}" if value is True else f"--{name}={text(value)}"
            )
        return words

    def is_done(self, folders: Folders) -> bool:
        """Returns whether it has ended well, and its output exists."""
        return os.path.exists(self.marker(folders)) and os.path.isdir(
            self.output(folders)
        )

    def marker(self, folders: Folders) -> str:
        """Returns the path of the empty file that says that it is done."""
        return os.path.join(folders.work_dir, self.folder, f"{self.id}.done")


def in_order(wanted: Iterable[Command]) -> list[Command]:
    """Lists commands and those that they need, each once and after its own."""
    ordered: dict[str, Command] = {}

    def add(command: Command) -> None:
        if command.id not in ordered:
            for needed in command.needs():
                add(needed)
            ordered[command.id] = command

    for command in wanted:
        add(command)
    return list(ordered.values())


def shell_text(command: Command, folders: Folders) -> str:
    """Formats a command for a shell, each flag on a line."""
    line = "python"
    for word in command.argv(folders):
        name, sign, value = word.partition("=")
        line += " \\\n  " if name.startswith("--") else " "
        line += f"{name}={shlex.quote(value)}" if sign else name
    return line


def run(commands: Sequence[Command], folders: Folders) -> None:
    """Runs commands that are not done, in their order.

    Raises:
        FileNotFoundError: the data folder lacks what a command reads.
        RuntimeError: a command failed.
    """
    todo = [each for each in commands if not each.is_done(folders)]
    missing = [path for each in todo for path in each.missing_data(folders)]
    if missing:
        raise FileNotFoundError(
            f"Missing data: {', '.join(dict.fromkeys(missing))}. "
            "docs/reproducing_the_paper.md says how to get them."
        )
    for number, command in enumerate(todo, start=1):
        text = shell_text(command, folders)
        logging.info("%d of %d: %s\n%s", number, len(todo), command.name, text)
        _run(command, folders)


def _run(command: Command, folders: Folders) -> None:
    os.makedirs(command.output(folders), exist_ok=True)
    path = os.path.join(folders.work_dir, command.folder, _LOG)
    with open(path, "a", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, *command.argv(folders)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # A Ctrl-C reaches the command once, from here.
            start_new_session=True,
        )
        try:
            code = process.wait()
        except KeyboardInterrupt:
            process.terminate()  # It saves its progress.
            process.wait()
            raise
    if code:
        lines = pathlib.Path(path).read_text("utf-8", "replace").splitlines()
        raise RuntimeError(
            f"{command.name} failed with code {code}; {path} ends in\n"
            + "\n".join(lines[-_TAIL_LINES:])
        )
    pathlib.Path(command.marker(folders)).touch()
