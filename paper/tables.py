"""A table of the paper as data: rows of cells, and what is expected of them."""

import dataclasses
from collections.abc import Iterator

from paper import jobs, results

MEAN = "mean"
BEST = "best"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Band:
    """How far ours may be from the reference, and why so far.

    Attributes:
        below: points below the reference.
        above: points above it.
        reason: why.
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
        paper: what the paper prints; None if nothing.
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
        """What ours is compared with; None if there is nothing."""
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
        reason: what in the paper says so.
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
        title: what it shows.
        rows: with cells.
        notes: choices where the paper is silent, and what differs.
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
