"""A table of the paper as data: rows, columns, and expectations."""

import dataclasses
import pathlib
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence

from paper import jobs, pretraining, recipes, results

MEAN = "mean"
BEST = "best"
_NONE = "none"  # In place of a number; TOML has no null.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Band:
    """The accepted difference between ours and the reference.

    Attributes:
        below: points below the reference.
        above: points above it.
        reason: why it is so wide.
    """

    below: float
    above: float
    reason: str

    def holds(self, difference: float) -> bool:
        """Tells whether ours minus the reference lies within."""
        return -self.below <= difference <= self.above


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """One number of a table, and the runs that give it.

    Attributes:
        metric: which number of their results.
        jobs: whose trials are taken together.
        paper: the number that the paper prints, if any.
        paper_is_test: whether the paper's is of a test set that is not public,
            so that ours cannot be compared with it.
        reference: a number on the development set to compare with instead.
        selection: `MEAN` of the seeds, or the `BEST` run, is compared.
        band: of the comparison; None where there is nothing to compare.
    """

    metric: results.Metric
    jobs: tuple[jobs.Job, ...]
    paper: float | None = None
    paper_is_test: bool = False
    reference: float | None = None
    selection: str = MEAN
    band: Band | None = None

    @property
    def target(self) -> float | None:
        """The number that ours is compared with; None if there is none."""
        return self.reference if self.paper_is_test else self.paper


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """A row of a table; cells by the names of their columns."""

    name: str
    cells: dict[str, Cell]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Expectation:
    """An order of two numbers, written down before they were measured.

    Attributes:
        better: row and column of what should be the better one.
        worse: the same of the other.
        reason: the claim of the paper.
    """

    better: tuple[str, str]
    worse: tuple[str, str]
    reason: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Series:
    """A line of a figure.

    Attributes:
        name: in the legend.
        points: x, and the row and column that give y.
        paper: x and y as the paper has them.
    """

    name: str
    points: tuple[tuple[float, tuple[str, str]], ...]
    paper: tuple[tuple[float, float], ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """A table or figure of the paper at one scale.

    Attributes:
        name: "table-5" or "figure-5".
        title: for people.
        rows: with cells.
        notes: choices where the paper is silent, and differences.
        expected: orders that should come out.
        series: lines to plot, for a figure.
        x_label: of the plot.
    """

    name: str
    title: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    expected: tuple[Expectation, ...] = ()
    series: tuple[Series, ...] = ()
    x_label: str = ""

    def __post_init__(self):
        for expectation in self.expected:
            for place in (expectation.better, expectation.worse):
                self.cell(place)

    def cell(self, place: tuple[str, str]) -> Cell:
        """Finds a cell by the names of its row and column.

        Raises:
            KeyError: there is no such cell.
        """
        for row in self.rows:
            if row.name == place[0]:
                return row.cells[place[1]]
        raise KeyError(f"{self.name} has no row {place[0]!r}.")

    def cells(self) -> Iterator[tuple[str, str, Cell]]:
        """Yields row, column and cell, row by row."""
        for row in self.rows:
            for column, cell in row.cells.items():
                yield row.name, column, cell

    def jobs(self) -> list[jobs.Job]:
        """Lists all commands that the table needs, in an order to run them."""
        return jobs.in_order(
            job for _, _, cell in self.cells() for job in cell.jobs
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Column:
    """A task that the models of a table are fine-tuned on.

    Attributes:
        name: in the table.
        metric: of a cell.
        data: of the task; None for the pre-training run itself.
        tuning: of every model.
        flags: of the task.
        selection: as for `Cell`.
        band: as for `Cell`.
    """

    name: str
    metric: results.Metric
    data: recipes.DataSet | None = None
    tuning: recipes.Tuning | None = None
    flags: recipes.Flags = ()
    selection: str = MEAN
    band: Band | None = None

    def jobs(
        self, bench: recipes.Bench, model: recipes.Model, **changes
    ) -> tuple[jobs.Job, ...]:
        """Makes the jobs of a model; `changes` are of its tuning."""
        if self.data is None:
            return (model.checkpoint.job,)
        tuning = dataclasses.replace(self.tuning, **changes)
        return recipes.fine_tune(bench, model, self.data, tuning, self.flags)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Claim:
    """Orders of rows in some columns, all for one reason."""

    rows: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    reason: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sheet:
    """The contents of a table at one scale, beside the models of its rows.

    Attributes:
        title: as of `Table`.
        columns: in order.
        notes: as of `Table`.
        claims: expectations, of which those about absent rows are left out.
        paper: the paper's numbers by row, in the order of the columns.
        references: see `Cell.reference`; empty if the paper's numbers are of
            development sets.
        num_trials: seeds by row, where not those of the column.
    """

    title: str
    columns: tuple[Column, ...]
    notes: tuple[str, ...]
    claims: tuple[Claim, ...]
    paper: Mapping[str, Sequence[float | None]] = dataclasses.field(
        default_factory=dict
    )
    references: Mapping[str, Sequence[float | None]] = dataclasses.field(
        default_factory=dict
    )
    num_trials: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def row(
        self,
        name: str,
        made: Sequence[tuple[jobs.Job, ...]],
        columns: Sequence[Column] | None = None,
    ) -> Row:
        """Makes a row.

        Args:
            name: of the row.
            made: the jobs of each cell.
            columns: in place of those of the sheet.
        """
        columns = self.columns if columns is None else columns
        nothing = [None] * len(columns)
        numbers = zip(
            columns,
            made,
            self.paper.get(name, nothing),
            self.references.get(name, nothing),
            strict=True,
        )
        return Row(
            name=name,
            cells={
                column.name: Cell(
                    metric=column.metric,
                    jobs=cell_jobs,
                    paper=paper,
                    paper_is_test=bool(self.references),
                    reference=reference,
                    selection=column.selection,
                    band=column.band,
                )
                for column, cell_jobs, paper, reference in numbers
            },
        )

    def table(self, name: str, rows: Sequence[Row], **more) -> Table:
        """Makes the table of some rows."""
        present = {row.name for row in rows}
        return Table(
            name=name,
            title=self.title,
            rows=tuple(rows),
            notes=self.notes,
            expected=tuple(
                Expectation(
                    better=(better, column),
                    worse=(worse, column),
                    reason=claim.reason,
                )
                for claim in self.claims
                for better, worse in claim.rows
                for column in claim.columns
                if {better, worse} <= present
            ),
            **more,
        )


def read_sheets(
    name: str, columns: Mapping[str, tuple[Column, ...]]
) -> dict[str, Sheet]:
    """Reads the sheets of a scale.

    Args:
        name: of a TOML file of this package.
        columns: of every table.
    """
    path = pathlib.Path(__file__).with_name(name)
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    common = (content["note"],) if "note" in content else ()
    return {
        table: Sheet(
            title=content[table]["title"],
            columns=columns[table],
            notes=(*common, *content[table]["notes"]),
            claims=tuple(
                Claim(
                    rows=tuple(map(tuple, claim["rows"])),
                    columns=tuple(claim["columns"]),
                    reason=claim["reason"],
                )
                for claim in content[table]["claims"]
            ),
            paper=content[table].get("paper", {}),
            references={
                row: [None if number == _NONE else number for number in numbers]
                for row, numbers in content[table].get("references", {}).items()
            },
            num_trials=content[table].get("num_trials", {}),
        )
        for table in columns
    }


@dataclasses.dataclass(frozen=True, kw_only=True)
class System:
    """Models of Table 2: one size, one training set.

    Attributes:
        name: of the row.
        size: of the model.
        data: to train on.
        num_trials: seeds.
        is_ensemble: whether a row with the ensemble of all seeds follows.
    """

    name: str
    size: str
    data: recipes.DataSet
    num_trials: int
    is_ensemble: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scale:
    """Models, data and hyperparameters of all tables, the paper's or smaller.

    Attributes:
        name: "full" or "small".
        bench: options that commands share.
        scheme: of pre-training.
        networks: the sizes of Table 6.
        base: the network of the ablations.
        models: pre-trained, base and large, that read lower-cased text.
        taggers: the same, to tag words with.
        systems: of Table 2.
        ensemble_flags: the flags with which an ensemble reads questions.
        fine_tuned_row: names rows of Table 7, with a place for the size.
        feature_row: the same of frozen features, for `size` and `label`.
        feature_column: makes the column of these, of a choice and a model.
        feature_sizes: the models with such rows.
        steps: of Figure 5, and their names.
        sheets: by table.
    """

    name: str
    bench: recipes.Bench
    scheme: pretraining.Scheme
    networks: tuple[pretraining.Network, ...]
    base: pretraining.Network
    models: Mapping[str, recipes.Model]
    taggers: Mapping[str, recipes.Model]
    systems: tuple[System, ...]
    ensemble_flags: recipes.Flags = ()
    fine_tuned_row: str
    feature_row: str
    feature_column: Callable[[str, recipes.Model], Column]
    feature_sizes: tuple[str, ...]
    steps: Mapping[int, str]
    sheets: Mapping[str, Sheet]

    def pretrained(self, network: pretraining.Network) -> recipes.Model:
        """Describes a network that is pre-trained with the usual objective."""
        return pretraining.pretrained_as_usual(self.scheme, network, self.base)
