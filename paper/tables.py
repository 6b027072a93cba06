"""The tables and figures of the paper, at the full and the small scale.

`full_scale.toml` and `small_scale.toml` define the commands that make data,
the models, data sets, hyperparameters and tables of a scale. A value of a
command or data set is text, a number, a list, or a file:
`{ given = PATH }` in the data folder, `{ own = PATH }` in the output folder of
the command, or `{ job = NAME, path = PATH }` of another command.

A table has `columns`, the tasks; `rows`, the models; `paper`, its numbers; and
`claims`, the expected rankings. `make` returns the commands of every cell.
"""

import dataclasses
import pathlib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paper import jobs, recipes

FULL, SMALL = SCALES = ("full", "small")

MODELS = ("base", "large")
NAMES = ("figure-5", *(f"table-{number}" for number in range(1, 9)))
MEAN, BEST = "mean", "best"
_Jobs = dict[str, jobs.Job]
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
        selected_by: the metric that selects the learning rate and the best run;
            None for `metric`.
        band: of the comparison; None without a reference.
    """

    name: str
    metric: str
    data: recipes.DataSet | None = None
    tuning: recipes.Tuning | None = None
    flags: recipes.Flags = dataclasses.field(default_factory=dict)
    selection: str = MEAN
    selected_by: str | None = None
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
    flags: recipes.Flags = dataclasses.field(default_factory=dict)


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scale:
    """Models, data and hyperparameters of all tables.

    Attributes:
        scheme: machine, text and hyperparameters of all models.
        models: to fine-tune, "base" and "large", and at full scale also
            "base-cased" and "large-cased".
        data: data sets by name.
        tuning: hyperparameters of fine-tuning by name.
        content: the scale's file, which describes its tables.
    """

    scheme: recipes.Scheme
    models: Mapping[str, recipes.Model]
    data: Mapping[str, recipes.DataSet]
    tuning: Mapping[str, recipes.Tuning]
    content: Mapping[str, Any]


def read_scale(name: str, more_flags: recipes.Flags | None = None) -> Scale:
    """Reads a scale.

    Args:
        name: one of `SCALES`.
        more_flags: passed to every script that trains.
    """
    path = pathlib.Path(__file__).with_name(f"{name}_scale.toml")
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    made: _Jobs = {}
    for job, values in content["jobs"].items():
        flags = _value(values["flags"], made)
        made[job] = jobs.Job(name=job, **{**values, "flags": flags})
    pretraining = _value(content["pretraining"], made)
    phases = tuple(recipes.Phase(**each) for each in pretraining["phases"])
    scheme = recipes.Scheme(
        machine=recipes.Machine(**content["machine"]),
        more_flags=more_flags or {},
        **content.get("common", {}),
        **{**pretraining, "phases": phases},
    )
    return Scale(
        scheme=scheme,
        models={
            model: _model(values, scheme)
            for model, values in content["models"].items()
        },
        data={
            data: _data_set(data, values, made)
            for data, values in content["data"].items()
        },
        tuning={
            tuning: recipes.Tuning(**_value(values, made))
            for tuning, values in content["tuning"].items()
        },
        content=content,
    )


def _value(described: Any, made: _Jobs) -> Any:
    """Returns the value that the file of a scale describes."""
    if isinstance(described, list):
        return tuple(_value(each, made) for each in described)
    if not isinstance(described, dict):
        return described
    if "given" in described:
        return jobs.Given(path=described["given"])
    if "job" in described:
        return jobs.Output(job=made[described["job"]], path=described["path"])
    if "own" in described:
        return jobs.Output(path=described["own"])
    return {name: _value(each, made) for name, each in described.items()}


def _data_set(
    name: str, values: Mapping[str, Any], made: _Jobs
) -> recipes.DataSet:
    """Returns a data set, of which a text names a file of the data folder."""
    paths = {
        key: jobs.Given(path=path) if isinstance(path, str) else path
        for key in ("path", "dev_path")
        if (path := _value(values.get(key), made))
    }
    return recipes.DataSet(name=name, **{**values, **paths})


def _model(values: Mapping[str, str], scheme: recipes.Scheme) -> recipes.Model:
    """Returns a pre-trained network, or a model of the release."""
    if "network" in values:
        variant = recipes.Variant(network=values["network"])
        return recipes.pretrained(scheme, variant)
    folder = values["folder"]
    return recipes.Model(
        name=folder,
        config=recipes.read_config(values["config_file"]),
        config_file=jobs.Given(path=f"{folder}/bert_config.json"),
        vocab_file=jobs.Given(path=f"{folder}/vocab.txt"),
        checkpoint=jobs.Given(path=f"{folder}/bert_model.ckpt", is_prefix=True),
        do_lower_case=folder.startswith("uncased"),
    )


def make(name: str, scale: Scale, models: Sequence[str] = MODELS) -> Table:
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
            of_models = [
                each
                for each in NAMES
                if all(
                    "model" in r for r in scale.content[each]["rows"].values()
                )
            ]
            raise ValueError(
                f"--model is for {', '.join(of_models)}; {name} compares "
                "models that are trained for it."
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


def _cells(
    name: str, row: Row, content: Mapping[str, Any], scale: Scale
) -> dict[str, Cell]:
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


def _column(values: Mapping[str, Any], scale: Scale) -> Column:
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
    return Column(**{**values, **found})


def _jobs(
    row: Row, column: Column, content: Mapping[str, Any], scale: Scale
) -> tuple[jobs.Job, ...]:
    variant = recipes.Variant(
        network=row.network or scale.scheme.base,
        objective=row.objective,
        masking=tuple(row.masking),
    )
    if column.data is None or column.tuning is None:
        return (recipes.pretrain(scale.scheme, variant),)
    model = (
        scale.models[row.model]
        if row.model
        else recipes.pretrained(scale.scheme, variant, row.step)
    )
    data = scale.data[row.data] if row.data else column.data
    made = recipes.fine_tune(
        scale.scheme,
        model,
        data,
        dataclasses.replace(
            column.tuning,
            num_trials=row.num_trials or column.tuning.num_trials,
            bilstm_head=row.bilstm_head,
        ),
        {**column.flags, **row.flags},
    )
    if not row.is_ensemble:
        return made
    more_flags = content.get("ensemble_flags", {})
    return (recipes.ensemble(model, data, made, more_flags),)
