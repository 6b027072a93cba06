"""Reproduces a table or figure of the paper, at full or small scale.

  python -m paper.reproduce --table=5 --scale=small --data_dir=data --dry_run
  python -m paper.reproduce --table=5 --scale=small --data_dir=data

It runs the scripts of this project, one command after the other, and writes a
report. After an interruption or a failure, run the same command again; finished
commands are skipped. docs/reproducing_the_paper.md lists the contents of
--data_dir.
"""

import dataclasses
import os
import sys
from collections.abc import Sequence

from absl import logging

from bert.commands import flags, program
from paper import plans, report, running, scales, tables

_GROUP = flags.Group


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this program."""

    table: str | None = _GROUP.ACTIONS.optional(
        "The table of the paper.", choices=tuple("12345678")
    )
    figure: str | None = _GROUP.ACTIONS.optional(
        "The figure of the paper.", choices=("5",)
    )
    scale: str = _GROUP.ACTIONS.flag(
        "full",
        "full: the paper's models and data; small: models that a laptop can "
        "train, to check the paper's rankings.",
        choices=tuple(scales.ALL),
    )
    model: str | None = _GROUP.ACTIONS.optional(
        "Only this model's rows, of tables 1, 2, 3, 4 and 7.",
        choices=scales.SIZES,
    )
    dry_run: bool = _GROUP.ACTIONS.boolean(
        "Write the commands and the missing data; run nothing."
    )
    data_dir: flags.Path = _GROUP.FILES.flag(
        "data", "Folder of data sets and released models."
    )
    work_dir: flags.Path = _GROUP.FILES.flag("runs", "Folder for all outputs.")
    training_flags: tuple[str, ...] = _GROUP.TRAINING.flag(
        (),
        "Flags for every script that trains, such as precision=mixed_bfloat16.",
    )

    def __post_init__(self) -> None:
        if bool(self.table) == bool(self.figure):
            raise ValueError(
                "Pass one of --table and --figure; got "
                f"{'both' if self.table else 'neither'}."
            )
        if self.model and self.name not in tables.OF_SIZES:
            raise ValueError(
                f"--model is for {', '.join(tables.OF_SIZES)}; {self.name} "
                "compares models that are trained for it."
            )

    @property
    def name(self) -> str:
        return f"table-{self.table}" if self.table else f"figure-{self.figure}"


def run(options: Options) -> None:
    """Runs the commands of a table and writes a report of those that are done.

    Raises:
        OSError: data are missing, or a file cannot be written.
        RuntimeError: a command failed.
    """
    scale = dataclasses.replace(
        scales.ALL[options.scale],
        training_flags=_training_flags(options.training_flags),
    )
    sizes = (options.model,) if options.model else scales.SIZES
    table = tables.make(options.name, plans.Plan(scale, sizes))
    # Commands run in the clone, and must find the folders.
    is_there = os.path.samefile(os.curdir, running.ROOT)
    path = os.path.normpath if is_there else os.path.abspath
    folders = running.Folders(path(options.data_dir), path(options.work_dir))
    if options.dry_run:
        sys.stdout.write(_plan(table.commands, folders))
        return
    try:
        running.run(table.commands, folders)
    finally:
        if any(command.is_done(folders) for command in table.commands):
            written = report.write(options.name, options.scale, table, folders)
            logging.info("The report is %s", written)


def _training_flags(texts: Sequence[str]) -> running.Flags:
    """Splits `name=value`, with or without leading dashes."""
    parted = [text.lstrip("-").partition("=") for text in texts]
    return {name: value if sign else True for name, sign, value in parted}


def _plan(commands: Sequence[running.Command], folders: running.Folders) -> str:
    """Formats commands and the missing data."""
    lines: list[str] = []
    for number, command in enumerate(commands, start=1):
        done = ", done" if command.is_done(folders) else ""
        lines += [
            f"# {number} of {len(commands)}: {command.name}{done}",
            running.shell_text(command, folders),
            "",
        ]
    if missing := running.missing_data(commands, folders):
        lines += [f"# Missing: {path}" for path in missing]
        lines.append("# docs/reproducing_the_paper.md says how to get them.")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    program.start(Options, run)
