"""Reproduces a table or figure of the paper, at its scale or a laptop's.

  python -m paper.reproduce --table=5 --scale=small --data_dir=data --dry_run
  python -m paper.reproduce --table=5 --scale=small --data_dir=data

It runs the scripts of this project with flags that a user would pass, one after
the other, and writes a report. Stop it at any time and run the same command
again: what is done is not done again. docs/paper.md says what --data_dir must
hold.
"""

import dataclasses
import os
import sys
from collections.abc import Sequence

from absl import flags, logging

from commands import flag_groups, program
from files import writing
from paper import (
    costs,
    experiments,
    jobs,
    plots,
    report,
    runner,
    tables,
)

_MACHINES = {
    experiments.FULL: costs.GPU,
    experiments.SMALL: costs.CORE,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What the flags say; see `define_flags`."""

    table: str | None
    figure: str | None
    scale: str
    model: str | None
    data_dir: str
    work_dir: str
    jobs: int
    dry_run: bool
    report_only: bool
    training_flags: Sequence[str]

    def __post_init__(self):
        if bool(self.table) == bool(self.figure):
            raise ValueError(
                "Pass one of --table and --figure; got "
                f"{'both' if self.table else 'neither'}."
            )

    @property
    def name(self) -> str:
        return f"table-{self.table}" if self.table else f"figure-{self.figure}"


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of this program."""
    _define_action_flags(values)
    _define_file_flags(values)
    _define_training_flags(values)


@flag_groups.under(flag_groups.Group.ACTIONS)
def _define_action_flags(values: flags.FlagValues) -> None:
    kinds = ("table", "figure")
    for kind in kinds:
        numbers = [
            name.partition("-")[2]
            for name in experiments.NAMES
            if name.startswith(kind)
        ]
        flags.DEFINE_enum(
            kind, None, numbers, f"The {kind} of the paper.", flag_values=values
        )
    flags.DEFINE_enum(
        "scale",
        experiments.FULL,
        experiments.SCALES,
        "full: what the paper did. small: what a laptop can do, for the orders "
        "that the paper found.",
        flag_values=values,
    )
    flags.DEFINE_enum(
        "model",
        None,
        experiments.MODELS,
        "Only this model's rows, of tables 1, 2, 3, 4 and 7.",
        flag_values=values,
    )
    for name, meaning in (
        ("dry_run", "Write the commands and what they cost; run nothing."),
        ("report_only", "Write the report of what is there; run nothing."),
    ):
        flags.DEFINE_boolean(name, False, meaning, flag_values=values)


@flag_groups.under(flag_groups.Group.FILES)
def _define_file_flags(values: flags.FlagValues) -> None:
    for name, default, meaning in (
        ("data_dir", "data", "Folder of data sets and released models."),
        ("work_dir", "runs", "Folder for all that is made."),
    ):
        flags.DEFINE_string(name, default, meaning, flag_values=values)


@flag_groups.under(flag_groups.Group.TRAINING)
def _define_training_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_list(
        "training_flags",
        [],
        "Passed to every script that trains, such as precision=mixed_bfloat16.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "jobs", 1, "Commands at a time.", lower_bound=1, flag_values=values
    )


def run(options: Options) -> bool:
    """Runs the commands of a table and writes its report.

    Returns:
        Whether all that was asked for is there.

    Raises:
        OSError: a file cannot be written.
        ValueError: the flags do not fit together, or another program uses the
            work folder.
    """
    table = experiments.make(
        options.name,
        options.scale,
        models=(options.model,) if options.model else experiments.MODELS,
        more_flags=_more_flags(options.training_flags),
    )
    places = jobs.Places(options.data_dir, options.work_dir)
    if options.dry_run:
        machine = _MACHINES[options.scale].name
        sys.stdout.write(report.plan(table, places, machine))
        return True
    is_complete = True
    if not options.report_only:
        summary = runner.Runner(places, num_parallel=options.jobs).run(
            table.jobs()
        )
        is_complete = summary.is_complete
    path = write_report(table, options.scale, places)
    logging.info("The report is %s", path)
    return is_complete


def write_report(table: tables.Table, scale: str, places: jobs.Places) -> str:
    """Writes the report of what is there, and the plot of a figure.

    Returns:
        The name of the report.
    """
    measured = report.measure(table, places)
    folder = os.path.join(places.work_dir, "reports")
    name = f"{table.name}-{scale}"
    plot_file = f"{name}.png" if table.series else None
    if plot_file and not plots.draw(
        table, measured.found, os.path.join(folder, plot_file)
    ):
        plot_file = None
    path = os.path.join(folder, f"{name}.md")
    with writing.whole_file(path) as file:
        file.write(report.write(table, scale, measured, places, plot_file))
    return path


def _more_flags(
    given: Sequence[str],
) -> tuple[tuple[str, jobs.Value], ...]:
    """Parts `name=value`, with or without dashes before it."""
    parted = (text.lstrip("-").partition("=") for text in given)
    return tuple((name, value or True) for name, _, value in parted)


def main(_: list[str]) -> int:
    """Runs the program with its flags."""
    values = flags.FLAGS
    chosen = {
        field.name: values[field.name].value
        for field in dataclasses.fields(Options)
    }
    return 0 if run(Options(**chosen)) else 1


if __name__ == "__main__":
    program.start(define_flags, main)
