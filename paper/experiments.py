"""Which table or figure of the paper at which scale: one list of all."""

from collections.abc import Callable, Sequence

from paper import (
    ablation_tables,
    costs,
    jobs,
    recipes,
    released_tables,
    small_ablations,
    small_scale,
    small_tables,
    tables,
    tagging_tables,
)

FULL, SMALL = SCALES = ("full", "small")
MODELS = ("base", "large")

# Of models that exist, BASE or LARGE or both.
_OF_MODELS: dict[str, dict[str, Callable[..., tables.Table]]] = {
    "table-1": {FULL: released_tables.table_1, SMALL: small_tables.table_1},
    "table-2": {FULL: released_tables.table_2, SMALL: small_tables.table_2},
    "table-3": {FULL: released_tables.table_3, SMALL: small_tables.table_3},
    "table-4": {FULL: released_tables.table_4, SMALL: small_tables.table_4},
    "table-7": {FULL: tagging_tables.table_7, SMALL: small_tables.table_7},
}
# Of models that the paper trained for them.
_OF_ABLATIONS: dict[str, dict[str, Callable[..., tables.Table]]] = {
    "table-5": {FULL: ablation_tables.table_5, SMALL: small_ablations.table_5},
    "table-6": {FULL: ablation_tables.table_6, SMALL: small_ablations.table_6},
    "table-8": {FULL: ablation_tables.table_8, SMALL: small_ablations.table_8},
    "figure-5": {
        FULL: ablation_tables.figure_5,
        SMALL: small_ablations.figure_5,
    },
}
NAMES = tuple(sorted([*_OF_MODELS, *_OF_ABLATIONS]))


def make(
    name: str,
    scale: str,
    *,
    models: Sequence[str] = MODELS,
    more_flags: tuple[tuple[str, jobs.Value], ...] = (),
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
    bench = small_scale.bench(more_flags)
    if scale == FULL:
        bench = recipes.Bench(machine=costs.GPU, more_flags=more_flags)
    if name in _OF_MODELS:
        return _OF_MODELS[name][scale](bench, models)
    if tuple(models) != MODELS:
        raise ValueError(
            f"--model is for {', '.join(sorted(_OF_MODELS))}; {name} compares "
            "models that are trained for it."
        )
    return _OF_ABLATIONS[name][scale](bench)
