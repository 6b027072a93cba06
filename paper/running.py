"""Commands of the scripts, and their resumable runner.

A command's folder in the work folder is named by a hash of its words, and the
folders that it reads are among its words. So a command that two tables need is
run once; a changed command and all that read its output are run again.
"""

import dataclasses
import glob
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence

from absl import logging

ROOT = pathlib.Path(__file__).parents[1]
# Stand for folders in the words of a command: of the data, of all outputs, and
# of its own output.
DATA, WORK, OUT = "$DATA", "$WORK", "$OUT"
_LOG = "log.txt"
_TAIL_LINES = 15
_HASH_LENGTH = 10

Value = str | bool | int | float | tuple[str | float, ...]
Flags = Mapping[str, Value]


@dataclasses.dataclass(frozen=True)
class Folders:
    """The folder of the data and that of all outputs."""

    data_dir: str
    work_dir: str

    def fill(self, text: str) -> str:
        """Replaces `DATA` and `WORK`."""
        return text.replace(DATA, self.data_dir).replace(WORK, self.work_dir)


@dataclasses.dataclass(frozen=True)
class Command:
    """One command of this repository.

    Attributes:
        name: for display.
        words: after `python`, with `DATA`, `WORK` and `OUT`.
        folder: the name of its folder in the work folder.
    """

    name: str
    words: tuple[str, ...]
    folder: str

    @property
    def output(self) -> str:
        """Its output folder, with `WORK`."""
        return f"{WORK}/{self.folder}/out"

    def argv(self, folders: Folders) -> list[str]:
        """Lists its words after `python`."""
        return [folders.fill(w.replace(OUT, self.output)) for w in self.words]

    def marker(self, folders: Folders) -> str:
        """Returns the path of the empty file that says that it is done."""
        name = f"{_hash(self.words)}.done"
        return os.path.join(folders.work_dir, self.folder, name)

    def is_done(self, folders: Folders) -> bool:
        """Returns whether it has ended well, and its output exists."""
        paths = (self.marker(folders), folders.fill(self.output))
        return all(map(os.path.exists, paths))


def words_of(program: str, flags: Flags) -> tuple[str, ...]:
    """Formats a command.

    Args:
        program: `run_classifier.py`, or `tools.learn_vocab` for a module.
        flags: in the order of the command line.
    """
    words = [program] if program.endswith(".py") else ["-m", program]
    for name, value in flags.items():
        values = value if isinstance(value, tuple) else (value,)
        text = ",".join(map(str, values))
        words.append(f"--{name}" if value is True else f"--{name}={text}")
    return tuple(words)


def folder_of(name: str, *commands: Sequence[str]) -> str:
    """Names the folder of commands, by their words."""
    slug = re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-").lower()
    return f"{slug}-{_hash(commands)}"


def _hash(words: Sequence) -> str:
    text = json.dumps(words)
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]


def missing_data(commands: Iterable[Command], folders: Folders) -> list[str]:
    """Lists the files and folders of data that commands read and lack."""
    values = [
        value
        for command in commands
        for word in command.words
        for value in word.partition("=")[2].split(",")
        if value.startswith(DATA)
    ]
    paths = map(folders.fill, dict.fromkeys(values))
    # The `*` is for checkpoints, which are named by a prefix.
    return [path for path in paths if not glob.glob(f"{path}*")]


def shell_text(command: Command, folders: Folders) -> str:
    """Formats a command for a shell, each flag on a line."""
    line = "python"
    for word in command.argv(folders):
        name, sign, value = word.partition("=")
        line += " \\\n  " if name.startswith("--") else " "
        line += f"{name}={shlex.quote(value)}" if sign else name
    return line


def run(commands: Iterable[Command], folders: Folders) -> None:
    """Runs commands that are not done, in their order.

    Commands whose data are missing are left out with a warning, and so are
    those that read their output.

    Raises:
        FileNotFoundError: no command has its data.
        RuntimeError: a command failed.
    """
    todo = [command for command in commands if not command.is_done(folders)]
    left_out: list[Command] = []
    for command in todo:
        needs = [other.output for other in left_out]
        if missing_data([command], folders) or any(
            output in word for output in needs for word in command.words
        ):
            left_out.append(command)
    if left_out:
        missing = (
            f"Missing data: {', '.join(missing_data(left_out, folders))}. "
            "docs/reproducing_the_paper.md says how to get them."
        )
        if left_out == todo:
            raise FileNotFoundError(missing)
        names = ", ".join(command.name for command in left_out)
        logging.warning("%s Left out: %s.", missing, names)
        todo = [command for command in todo if command not in left_out]
    for number, command in enumerate(todo, start=1):
        text = shell_text(command, folders)
        logging.info("%d of %d: %s\n%s", number, len(todo), command.name, text)
        _run(command, folders)


def _run(command: Command, folders: Folders) -> None:
    os.makedirs(folders.fill(command.output), exist_ok=True)
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
