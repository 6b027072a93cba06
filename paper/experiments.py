"""The tables and figures of the paper: one function each, for both scales."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from paper import costs, full_scale, pretraining, recipes, small_scale, tables

FULL, SMALL = SCALES = ("full", "small")
MODELS = ("base", "large")
MACHINES = {FULL: costs.GPU, SMALL: costs.CORE}

# The rows of Table 5: the objective, and whether a BiLSTM is added.
_ABLATIONS = (
    ("MLM + NSP", pretraining.PRIME, False),
    ("no NSP", pretraining.Variant(objective=pretraining.MLM), False),
    ("LTR & no NSP", pretraining.LEFT_TO_RIGHT, False),
    ("+ BiLSTM", pretraining.LEFT_TO_RIGHT, True),
)
# The six choices of Table 7, and the value of --features.
_FEATURES = {
    "embeddings": "embeddings",
    "second-to-last hidden": "second_to_last",
    "last hidden": "last",
    "weighted sum last four": "sum_last_four",
    "concat last four": "concat_last_four",
    "weighted sum all 12": "sum_all",
}
_NUM_LAYERS_OF_FOUR = 4  # Needed by the choices named after four layers.
# The rows of Table 8: per cent [MASK], same, random.
_MASKINGS = (
    *((80, 10, 10), (100, 0, 0), (80, 0, 20)),
    *((80, 20, 0), (0, 20, 80), (0, 0, 100)),
)


def table_1(scale: tables.Scale, models: Sequence[str]) -> tables.Table:
    """Makes the table of GLUE."""
    return _of_sizes("table-1", scale, models)


def table_2(scale: tables.Scale, models: Sequence[str]) -> tables.Table:
    """Makes the table of SQuAD 1.1: single systems and ensembles."""
    sheet, rows = scale.sheets["table-2"], []
    num_columns = len(sheet.columns)
    for system in scale.systems:
        if system.size not in models:
            continue
        model = scale.models[system.size]
        column = dataclasses.replace(sheet.columns[0], data=system.data)
        made = column.jobs(scale.bench, model, num_trials=system.num_trials)
        rows.append(sheet.row(system.name, [made] * num_columns))
        if system.is_ensemble:
            whole = recipes.ensemble(
                model, system.data, made, scale.ensemble_flags
            )
            name = f"{system.name}, ensemble"
            rows.append(sheet.row(name, [(whole,)] * num_columns))
    return sheet.table("table-2", rows)


def table_3(scale: tables.Scale, models: Sequence[str]) -> tables.Table:
    """Makes the table of SQuAD 2.0."""
    return _of_sizes("table-3", scale, models)


def table_4(scale: tables.Scale, models: Sequence[str]) -> tables.Table:
    """Makes the table of SWAG."""
    return _of_sizes("table-4", scale, models)


def table_5(scale: tables.Scale) -> tables.Table:
    """Makes the table of pre-training tasks."""
    sheet, rows = scale.sheets["table-5"], []
    for name, variant, bilstm in _ABLATIONS:
        model = pretraining.pretrained(scale.scheme, scale.base, variant)
        rows.append(_row(scale, sheet, name, model, bilstm_head=bilstm))
    return sheet.table("table-5", rows)


def table_6(scale: tables.Scale) -> tables.Table:
    """Makes the table of model sizes."""
    sheet = scale.sheets["table-6"]
    rows = [
        _row(scale, sheet, network.name, scale.pretrained(network))
        for network in scale.networks
    ]
    return sheet.table("table-6", rows)


def table_7(scale: tables.Scale, models: Sequence[str]) -> tables.Table:
    """Makes the table of named entities: fine-tuned, and on frozen features."""
    sheet, rows, feature_rows = scale.sheets["table-7"], [], []
    for size in models:
        model, name = scale.taggers[size], scale.fine_tuned_row.format(size)
        rows.append(_row(scale, sheet, name, model))
        if size not in scale.feature_sizes:
            continue
        for label, choice in _FEATURES.items():
            num_layers = model.config.num_hidden_layers
            if "four" in choice and num_layers < _NUM_LAYERS_OF_FOUR:
                continue
            column = scale.feature_column(choice, model)
            name = scale.feature_row.format(size=size, label=label)
            made = column.jobs(scale.bench, model)
            feature_rows.append(sheet.row(name, [made], [column]))
        if scale.name == SMALL:
            rows += feature_rows
            feature_rows = []
    return sheet.table("table-7", rows + feature_rows)


def table_8(scale: tables.Scale) -> tables.Table:
    """Makes the table of maskings."""
    sheet, rows = scale.sheets["table-8"], []
    for masking in _MASKINGS:
        variant = pretraining.Variant(
            masking=masking,
            keeps_checkpoints=masking == pretraining.PRIME.masking,
        )
        model = pretraining.pretrained(scale.scheme, scale.base, variant)
        name = "/".join(map(str, masking))
        rows.append(_row(scale, sheet, name, model))
    return sheet.table("table-8", rows)


def figure_5(scale: tables.Scale) -> tables.Table:
    """Makes the figure of scores after so many steps of pre-training."""
    sheet, rows, series = scale.sheets["figure-5"], [], []
    for name, variant in (
        ("MLM", pretraining.PRIME),
        ("LTR", pretraining.LEFT_TO_RIGHT),
    ):
        for step, label in scale.steps.items():
            model = pretraining.pretrained(
                scale.scheme, scale.base, variant, step
            )
            rows.append(_row(scale, sheet, f"{name} {label}", model))
        for column in sheet.columns:
            is_alone = len(sheet.columns) == 1
            places = [
                (step / 1000, f"{name} {label}")
                for step, label in scale.steps.items()
            ]
            series.append(
                tables.Series(
                    name=name if is_alone else f"{name}, {column.name}",
                    points=tuple((x, (row, column.name)) for x, row in places),
                    paper=tuple(
                        (x, sheet.paper[row][0])
                        for x, row in places
                        if row in sheet.paper
                    ),
                )
            )
    return sheet.table(
        "figure-5",
        rows,
        series=tuple(series),
        x_label="thousand steps of pre-training",
    )


def _of_sizes(
    name: str, scale: tables.Scale, models: Sequence[str]
) -> tables.Table:
    """Makes a table whose rows are the released models, or those for them."""
    sheet, rows = scale.sheets[name], []
    for size in models:
        seeds = sheet.num_trials.get(size)
        changes = {"num_trials": seeds} if seeds else {}
        rows.append(_row(scale, sheet, size, scale.models[size], **changes))
    return sheet.table(name, rows)


def _row(
    scale: tables.Scale,
    sheet: tables.Sheet,
    name: str,
    model: recipes.Model,
    **changes,
) -> tables.Row:
    """Fine-tunes a model on every column; `changes` are of the tuning."""
    made = [
        column.jobs(scale.bench, model, **changes) for column in sheet.columns
    ]
    return sheet.row(name, made)


# Of models that exist, BASE or LARGE or both.
_OF_MODELS: Mapping[str, Callable[..., tables.Table]] = {
    "table-1": table_1,
    "table-2": table_2,
    "table-3": table_3,
    "table-4": table_4,
    "table-7": table_7,
}
# Of models that the paper trained for them.
_OF_ABLATIONS: Mapping[str, Callable[..., tables.Table]] = {
    "table-5": table_5,
    "table-6": table_6,
    "table-8": table_8,
    "figure-5": figure_5,
}
NAMES = tuple(sorted([*_OF_MODELS, *_OF_ABLATIONS]))


def make(
    name: str,
    scale: str,
    *,
    models: Sequence[str] = MODELS,
    more_flags: recipes.Flags = (),
) -> tables.Table:
    """Makes a table of the paper as an experiment.

    Args:
        name: one of `NAMES`.
        scale: one of `SCALES`.
        models: whose rows are wanted, of `MODELS`.
        more_flags: passed to every script that trains.

    Raises:
        ValueError: the table is about models of other sizes alone.
    """
    if name in _OF_ABLATIONS and tuple(models) != MODELS:
        raise ValueError(
            f"--model is for {', '.join(sorted(_OF_MODELS))}; {name} compares "
            "models that are trained for it."
        )
    module = full_scale if scale == FULL else small_scale
    made = module.scale(more_flags)
    if name in _OF_MODELS:
        return _OF_MODELS[name](made, models)
    return _OF_ABLATIONS[name](made)
