"""Tables and figures of the paper: rows, columns, numbers and expectations.

A table is defined in the file of a scale: `columns`, the tasks; `rows`, the
models; `paper`, its numbers; `claims`, the expected rankings. `make` returns
the commands of every cell.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paper import jobs, recipes, scales

MODELS = ("base", "large")
NAMES = ("figure-5", *(f"table-{number}" for number in range(1, 9)))
MEAN, BEST = "mean", "best"
_NONE = "none"  # In place of a number; TOML has no null.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Band:
    """The accepted difference between ours and the reference.

    Attributes:
        below: points below the reference.
        above: points above it.
        reason: the justification of its width.
    """

    below: float
    above: float
    reason: str

    def holds(self, difference: float) -> bool:
        """Returns whether ours minus the reference is within the band."""
        return -self.below <= difference <= self.above


@dataclasses.dataclass(frozen=True, kw_only=True)
class Column:
    """A task that the models of a table are fine-tuned on.

    Attributes:
        name: in the table.
        metric: the key of a number in the result files.
        data: of the task; None for the pre-training run itself.
        tuning: of every model.
        flags: of the task.
        selection: compare the `MEAN` of the seeds or the `BEST` run.
        band: of the comparison; None without a reference.
    """

    name: str
    metric: str
    data: recipes.DataSet | None = None
    tuning: recipes.Tuning | None = None
    flags: recipes.Flags = ()
    selection: str = MEAN
    band: Band | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """The models of a row, as defined in the file of a scale.

    Attributes:
        model: one of `Scale.models`; None for a model pre-trained for the table
            with the next four options.
        network: one of `Scheme.networks`; None for the base.
        objective: of pre-training.
        masking: see `recipes.Variant`.
        step: of the checkpoint to fine-tune; None for the last.
        data: replaces the training data of the columns.
        num_trials: replaces the number of seeds of the columns.
        bilstm_head: whether a BiLSTM is added.
        is_ensemble: whether the answers of all seeds are combined.
        flags: added to those of the columns. With `features` among them the row
            has the `feature_columns` of the table.
    """

    model: str | None = None
    network: str | None = None
    objective: str = recipes.MLM_NSP
    masking: Sequence[int] = recipes.MASKING
    step: int | None = None
    data: str | None = None
    num_trials: int | None = None
    bilstm_head: bool = False
    is_ensemble: bool = False
    flags: Mapping[str, jobs.Value] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """One number of a table, and its runs.

    Attributes:
        column: the task.
        jobs: whose trials are pooled.
        paper: the paper's number, if any.
        paper_is_test: whether the paper's number is of a test set without
            public labels, with which ours cannot be compared.
        reference: a dev set number to compare with instead.
    """

    column: Column
    jobs: tuple[jobs.Job, ...]
    paper: float | None = None
    paper_is_test: bool = False
    reference: float | None = None

    @property
    def target(self) -> float | None:
        """The number to compare ours with, if any."""
        return self.reference if self.paper_is_test else self.paper


@dataclasses.dataclass(frozen=True, kw_only=True)
class Expectation:
    """An expected ranking of two rows, recorded before the measurement.

    Attributes:
        better: the row expected to be better.
        worse: the other row.
        column: of both.
        reason: the claim of the paper.
    """

    better: str
    worse: str
    column: str
    reason: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """A table or figure of the paper at one scale.

    Attributes:
        name: one of `NAMES`.
        title: for display.
        rows: cells by the names of row and column.
        notes: choices that the paper does not specify, and differences.
        expected: expected rankings.
        steps: of a figure, the pre-training steps of each row; rows whose names
            differ only in the last word are points of one line.
    """

    name: str
    title: str
    rows: Mapping[str, Mapping[str, Cell]]
    notes: tuple[str, ...] = ()
    expected: tuple[Expectation, ...] = ()
    steps: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        for expectation in self.expected:
            for row in (expectation.better, expectation.worse):
                if expectation.column not in self.rows.get(row, {}):
                    raise ValueError(
                        f"Expectations must be of cells of {self.name}; it has "
                        f"none in row {row!r}, column {expectation.column!r}."
                    )

    def cells(self) -> Iterator[tuple[str, str, Cell]]:
        """Yields row, column and cell, row by row."""
        for row, cells in self.rows.items():
            for column, cell in cells.items():
                yield row, column, cell

    def jobs(self) -> list[jobs.Job]:
        """Lists all commands that the table needs, in an order to run them."""
        return jobs.in_order(
            job for _, _, cell in self.cells() for job in cell.jobs
        )


def make(
    name: str, scale: scales.Scale, models: Sequence[str] = MODELS
) -> Table:
    """Returns a table of the paper as an experiment.

    Args:
        name: one of `NAMES`.
        scale: of its models and data.
        models: members of `MODELS`, whose rows to include.

    Raises:
        ValueError: the table has only models of other sizes.
    """
    content = scale.content[name]
    described = {row: Row(**each) for row, each in content["rows"].items()}
    if tuple(models) != MODELS:
        if any(row.model is None for row in described.values()):
            raise ValueError(
                f"--model is for {', '.join(_tables_of_models(scale))}; {name} "
                "compares models that are trained for it."
            )
        described = {
            row: each
            for row, each in described.items()
            if each.model and each.model.partition("-")[0] in models
        }
    rows = {
        row: _cells(row, each, content, scale)
        for row, each in described.items()
    }
    note = scale.content.get("note")
    return Table(
        name=name,
        title=content["title"],
        rows=rows,
        notes=(*([note] if note else []), *content["notes"]),
        expected=tuple(
            Expectation(
                better=better,
                worse=worse,
                column=column,
                reason=claim["reason"],
            )
            for claim in content["claims"]
            for better, worse in claim["rows"]
            for column in claim["columns"]
            if {better, worse} <= set(rows)
        ),
        steps={
            row: each.step
            for row, each in described.items()
            if each.step is not None
        },
    )


def _tables_of_models(scale: scales.Scale) -> list[str]:
    """Lists the tables with rows of the released models, BASE and LARGE."""
    return [
        name
        for name in NAMES
        if all("model" in row for row in scale.content[name]["rows"].values())
    ]


def _cells(
    name: str, row: Row, content: Mapping[str, Any], scale: scales.Scale
) -> dict[str, Cell]:
    """Returns the cells of a row of a table that `content` defines."""
    kind = "feature_columns" if "features" in row.flags else "columns"
    columns = [
        _column({**content.get("column", {}), **each}, scale)
        for each in content[kind]
    ]
    references = content.get("references", {})
    nothing = [None] * len(columns)
    numbers = zip(
        columns,
        content.get("paper", {}).get(name, nothing),
        references.get(name, nothing),
        strict=True,
    )
    return {
        column.name: Cell(
            column=column,
            jobs=_jobs(row, column, content, scale),
            paper=paper,
            paper_is_test=bool(references),
            reference=None if reference == _NONE else reference,
        )
        for column, paper, reference in numbers
    }


def _column(values: Mapping[str, Any], scale: scales.Scale) -> Column:
    """Returns a column, with its names of data and tuning resolved."""
    named = {
        "data": scale.data,
        "tuning": scale.tuning,
        "band": {
            band: Band(**each)
            for band, each in scale.content.get("band", {}).items()
        },
    }
    found = {key: named[key][values[key]] for key in named if key in values}
    flags = tuple(values.get("flags", {}).items())
    return Column(**{**values, **found, "flags": flags})


def _jobs(
    row: Row, column: Column, content: Mapping[str, Any], scale: scales.Scale
) -> tuple[jobs.Job, ...]:
    if column.data is None or column.tuning is None:
        return (recipes.pretrain(scale.scheme, _variant(row, scale)),)
    model = (
        scale.models[row.model]
        if row.model
        else recipes.pretrained(scale.scheme, _variant(row, scale), row.step)
    )
    data = scale.data[row.data] if row.data else column.data
    made = recipes.fine_tune(
        scale.scheme.common,
        model,
        data,
        dataclasses.replace(
            column.tuning,
            num_trials=row.num_trials or column.tuning.num_trials,
            bilstm_head=row.bilstm_head,
        ),
        (*column.flags, *row.flags.items()),
    )
    if not row.is_ensemble:
        return made
    more_flags = tuple(content.get("ensemble_flags", {}).items())
    return (recipes.ensemble(model, data, made, more_flags),)


def _variant(row: Row, scale: scales.Scale) -> recipes.Variant:
    return recipes.Variant(
        network=row.network or scale.scheme.base,
        objective=row.objective,
        masking=tuple(row.masking),
    )
