"""Reproduces a table or figure of the paper, at full or small scale.

  python -m paper.reproduce --table=5 --scale=small --data_dir=data --dry_run
  python -m paper.reproduce --table=5 --scale=small --data_dir=data

It runs the scripts of this project and writes a report. To resume after an
interruption, run the same command again; finished commands are skipped.
docs/reproducing_the_paper.md lists the contents of --data_dir.
"""

import dataclasses
import os
import subprocess
import sys
from collections.abc import Sequence

from absl import logging

from commands import flags, program
from files import paths, writing
from paper import jobs, recipes, report, tables

_GROUP = flags.Group


def _numbers(kind: str) -> tuple[str, ...]:
    names = (name.partition("-") for name in tables.NAMES)
    return tuple(number for each, _, number in names if each == kind)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this program."""

    table: str | None = _GROUP.ACTIONS.optional(
        "The table of the paper.", choices=_numbers("table")
    )
    figure: str | None = _GROUP.ACTIONS.optional(
        "The figure of the paper.", choices=_numbers("figure")
    )
    scale: str = _GROUP.ACTIONS.flag(
        tables.FULL,
        "full: the paper's models and data; small: models that a laptop can "
        "train, to check the paper's rankings.",
        choices=tables.SCALES,
    )
    model: str | None = _GROUP.ACTIONS.optional(
        "Only this model's rows, of tables 1, 2, 3, 4 and 7.",
        choices=tables.MODELS,
    )
    dry_run: bool = _GROUP.ACTIONS.switch(
        "Write the commands, their times and the missing data; run nothing."
    )
    report_only: bool = _GROUP.ACTIONS.switch(
        "Write the report of existing results; run nothing."
    )
    data_dir: str = _GROUP.FILES.flag(
        "data", "Folder of data sets and released models."
    )
    work_dir: str = _GROUP.FILES.flag("runs", "Folder for all outputs.")
    training_flags: tuple[str, ...] = _GROUP.TRAINING.flag(
        (),
        "Flags for every script that trains, such as precision=mixed_bfloat16.",
    )
    jobs: int = _GROUP.TRAINING.count(
        1, "Number of commands to run in parallel."
    )

    def __post_init__(self):
        if bool(self.table) == bool(self.figure):
            raise ValueError(
                "Pass one of --table and --figure; got "
                f"{'both' if self.table else 'neither'}."
            )
        for name in ("data_dir", "work_dir"):
            if paths.is_remote(getattr(self, name)):
                raise ValueError(
                    f"--{name} must be a local folder; got "
                    f"{getattr(self, name)}."
                )

    @property
    def name(self) -> str:
        return f"table-{self.table}" if self.table else f"figure-{self.figure}"


def run(options: Options) -> bool:
    """Runs the commands of a table and writes its report.

    Returns:
        Whether all requested results exist.

    Raises:
        OSError: a file cannot be written, or another program uses the work
            folder.
        ValueError: the flags contradict each other.
    """
    scale = tables.read_scale(
        options.scale, _more_flags(options.training_flags)
    )
    models = (options.model,) if options.model else tables.MODELS
    table = tables.make(options.name, scale, models)
    folder_names = [options.data_dir, options.work_dir]
    # Commands run in the clone, and must find the folders.
    if not os.path.samefile(os.curdir, jobs.ROOT):
        folder_names = list(map(os.path.abspath, folder_names))
    folders = jobs.Folders(*folder_names)
    if options.training_flags:
        _check_training_flags(table, folders)
    if options.dry_run:
        machine = scale.scheme.machine.name
        sys.stdout.write(report.plan(table, folders, machine))
        return True
    if options.report_only:
        needed = [job for _, _, cell in table.cells() for job in cell.jobs]
        is_complete = all(jobs.is_done(job, folders) for job in needed)
    else:
        runner = jobs.Runner(folders, num_parallel=options.jobs)
        is_complete = runner.run(table.jobs())
    measured = report.measure(table, folders)
    path = write_report(table, options.scale, measured, folders)
    logging.info("The report is %s", path)
    return (
        is_complete and all(measured.found.values()) and not measured.problems
    )


def write_report(
    table: tables.Table,
    scale: str,
    measured: report.Measured,
    folders: jobs.Folders,
) -> str:
    """Writes the report of existing results, and the plot of a figure.

    Returns:
        The path of the report.
    """
    folder = os.path.join(folders.work_dir, "reports")
    name = f"{table.name}-{scale}"
    plot_file = f"{name}.png" if table.steps else None
    if plot_file and not report.draw(
        table, measured.found, os.path.join(folder, plot_file)
    ):
        plot_file = None
    path = os.path.join(folder, f"{name}.md")
    with writing.whole_file(path) as file:
        file.write(report.write(table, scale, measured, folders, plot_file))
    return path


def _more_flags(given: Sequence[str]) -> recipes.Flags:
    """Splits `name=value`, with or without leading dashes."""
    parted = [text.lstrip("-").partition("=") for text in given]
    return {name: value if sign else True for name, sign, value in parted}


def _check_training_flags(table: tables.Table, folders: jobs.Folders) -> None:
    """Lets every script that trains parse the flags of its first command.

    Names and types of values are checked, not combinations of flags.

    Raises:
        ValueError: a script refuses its flags.
    """
    first: dict[str, jobs.Job] = {}
    for job in table.jobs():
        if "do_train" in job.flags:
            first.setdefault(job.program, job)
    for program_name, job in first.items():
        words = [*jobs.arguments(job, folders), "--only_check_args"]
        checked = subprocess.run(
            [sys.executable, *words],
            cwd=jobs.ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if checked.returncode:
            message = checked.stderr.strip().splitlines()[-1]
            raise ValueError(
                f"{program_name} refuses --training_flags: {message}"
            )


def main(options: Options) -> int:
    """Runs the program; exits with 0 if all results exist."""
    return 0 if run(options) else 1


if __name__ == "__main__":
    program.start(Options, main)
