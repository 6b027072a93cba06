"""Tables 1 to 4 and 7 at small scale.

Rows and expectations are the paper's; columns are data sets that are free to
have, or made here from text.
"""

from collections.abc import Sequence

from paper import (
    pretraining,
    recipes,
    released_tables,
    results,
    small_cells,
    small_scale,
    tables,
    tagging_tables,
)

_NETWORKS = {"base": small_scale.BASE, "large": small_scale.LARGE}


def _model(kit: small_cells.Kit, which: str) -> recipes.Model:
    network = _NETWORKS[which]
    return pretraining.pretrained(
        kit.scheme, network, small_cells.variant(network)
    )


def _sizes_in_order(
    models: Sequence[str], columns: Sequence[str]
) -> tuple[tables.Expectation, ...]:
    both = {"base", "large"} <= set(models)
    pairs = [("large", "base")] if both else []
    return small_cells.in_order(pairs, columns, "section 4: LARGE does better")


def table_1(bench: recipes.Bench, models: Sequence[str]) -> tables.Table:
    """The tasks of GLUE that are small."""
    kit = small_cells.kit(bench)
    rows = [
        tables.Row(
            name=which,
            cells={
                task: small_cells.sentence_cell(kit, _model(kit, which), task)
                for task in small_scale.GLUE
            },
        )
        for which in models
    ]
    return tables.Table(
        name="table-1",
        title="GLUE, small: mean of five seeds, development sets",
        rows=tuple(rows),
        notes=(
            small_cells.SCALE_NOTE,
            f"base is {small_scale.BASE.name}, large {small_scale.LARGE.name}. "
            "No order is expected of CoLA, on which the release's own "
            "miniatures of these sizes score 0, nor of RTE: 277 examples have "
            "a standard error of 3 points.",
        ),
        expected=_sizes_in_order(models, ("SST-2", "STS-B", "MRPC")),
    )


def table_2(bench: recipes.Bench, models: Sequence[str]) -> tables.Table:
    """SQuAD 1.1 from 4,000 questions, alone and in ensembles."""
    kit, rows = small_cells.kit(bench), []
    for which in models:
        model = _model(kit, which)
        made = small_cells.answers(kit, model)
        whole = released_tables.ensemble(
            model,
            small_scale.SQUAD_1,
            made,
            (("max_seq_length", 128), *small_scale.SQUAD_FLAGS),
        )
        for name, used in ((which, made), (f"{which}, ensemble", (whole,))):
            cells = {
                column: tables.Cell(
                    metric=small_cells.squad_metric(key), jobs=used
                )
                for column, key in (("EM", "exact_match"), ("F1", "f1"))
            }
            rows.append(tables.Row(name=name, cells=cells))
    return tables.Table(
        name="table-2",
        title="SQuAD 1.1, small: trained on 4,000 questions",
        rows=tuple(rows),
        notes=(
            small_cells.SCALE_NOTE,
            "An ensemble joins the five seeds of its row.",
        ),
        expected=_sizes_in_order(models, ("F1",))
        + small_cells.in_order(
            [(f"{which}, ensemble", which) for which in models],
            ("F1",),
            "Table 2: ensembles do better",
        ),
    )


def table_3(bench: recipes.Bench, models: Sequence[str]) -> tables.Table:
    """SQuAD 2.0: three quarters of the articles of its development set."""
    kit, rows = small_cells.kit(bench), []
    for which in models:
        made = recipes.answer(
            bench,
            _model(kit, which),
            small_scale.SQUAD_2,
            small_scale.tuning(),
            (
                *small_scale.SQUAD_FLAGS,
                ("version_2_with_negative", True),
                ("null_score_diff_threshold", "auto"),
            ),
        )
        cells = {
            column: tables.Cell(metric=small_cells.squad_metric(key), jobs=made)
            for column, key in (("EM", "exact"), ("F1", "f1"))
        }
        rows.append(tables.Row(name=which, cells=cells))
    return tables.Table(
        name="table-3",
        title="SQuAD 2.0, small: a quarter of the articles of the development "
        "set, trained on the rest",
        rows=tuple(rows),
        notes=(
            small_cells.SCALE_NOTE,
            "Half of the questions have no answer: giving none scores 50.",
        ),
        expected=_sizes_in_order(models, ("F1",)),
    )


def table_4(bench: recipes.Bench, models: Sequence[str]) -> tables.Table:
    """SWAG."""
    kit, rows = small_cells.kit(bench), []
    tuning = small_scale.tuning(
        num_epochs=small_cells.LARGE_EPOCHS, num_trials=3
    )
    for which in models:
        job = recipes.choose_endings(
            bench, _model(kit, which), small_scale.SWAG, tuning
        )
        metric = results.Metric(name="accuracy", key="eval_accuracy")
        cells = {"dev": tables.Cell(metric=metric, jobs=(job,))}
        rows.append(tables.Row(name=which, cells=cells))
    return tables.Table(
        name="table-4",
        title="SWAG, small: mean of three seeds, development set",
        rows=tuple(rows),
        notes=(small_cells.SCALE_NOTE, "Guessing scores 25."),
        expected=_sizes_in_order(models, ("dev",)),
    )


def table_7(bench: recipes.Bench, models: Sequence[str]) -> tables.Table:
    """Tagging names, fine-tuned and on features."""
    kit, rows = small_cells.kit(bench), []
    for which in models:
        model = _model(kit, which)
        choices = [
            (name, choice)
            for name, _, choice in tagging_tables.FEATURE_ROWS
            if model.size.num_layers >= 4 or "four" not in choice
        ]
        cells = {"fine-tuned": small_cells.names_cell(kit, model)} | {
            name: small_cells.features_cell(kit, model, choice)
            for name, choice in choices
        }
        rows += [
            tables.Row(name=f"{which}, {name}", cells={"dev F1": cell})
            for name, cell in cells.items()
        ]
    pairs = [
        (f"{which}, fine-tuned", f"{which}, embeddings") for which in models
    ] + [(f"{which}, last hidden", f"{which}, embeddings") for which in models]
    return tables.Table(
        name="table-7",
        title="Names in lower-cased text, small: mean of five seeds",
        rows=tuple(rows),
        notes=(
            small_cells.SCALE_NOTE,
            "The task is made from held-out text by paper/name_task.py. A "
            "network of two layers has no last four.",
        ),
        expected=small_cells.in_order(
            pairs, ("dev F1",), "Table 7: hidden layers carry the context"
        ),
    )
