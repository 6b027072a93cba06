"""Table 7 at full scale: named entities, fine-tuned and on features."""

from collections.abc import Sequence

from paper import full_scale, recipes, results, tables

_NER = tables.Band(
    below=0.6,
    above=0.6,
    reason="rate and epochs are not in the paper; restarts differ by 0.2",
)
_FEATURES = tables.Band(
    below=1.0,
    above=1.0,
    reason="the paper does not say how the BiLSTM is trained",
)

# The six choices of Table 7, its dev F1, and the flag.
FEATURE_ROWS = (
    ("embeddings", 91.0, "embeddings"),
    ("second-to-last hidden", 95.6, "second_to_last"),
    ("last hidden", 94.9, "last"),
    ("weighted sum last four", 95.9, "sum_last_four"),
    ("concat last four", 96.1, "concat_last_four"),
    ("weighted sum all 12", 95.5, "sum_all"),
)


def table_7(bench: recipes.Bench, models: Sequence[str]) -> tables.Table:
    """CoNLL-2003, fine-tuned and on features."""
    paper = {"large": (96.6, 92.8), "base": (96.4, 92.4)}
    rows = []
    for which in models:
        job = recipes.tag(
            bench,
            full_scale.CASED[which],
            full_scale.CONLL,
            full_scale.NER_TUNING,
            (("do_predict", True),),
        )
        cells = {
            column: tables.Cell(
                metric=results.Metric(name="F1", key=f"{part}_f1"),
                jobs=(job,),
                paper=number,
                band=_NER,
            )
            for column, part, number in zip(
                ("dev F1", "test F1"),
                ("eval", "test"),
                paper[which],
                strict=True,
            )
        }
        rows.append(tables.Row(name=f"fine-tuned, {which}", cells=cells))
    if "base" in models:
        rows += _feature_rows(bench)
    return tables.Table(
        name="table-7",
        title="CoNLL-2003 named entities, mean of five restarts",
        rows=tuple(rows),
        notes=(
            "Cased models, each sentence within its document. Rate: of the "
            "paper's range the one with the best mean; four epochs.",
            "Feature-based: BERT stays as it is, a BiLSTM of two layers of 768 "
            "units in each direction is trained for 20 epochs at 1e-3.",
        ),
        expected=_features_expected() if "base" in models else (),
    )


def _feature_rows(bench: recipes.Bench) -> list[tables.Row]:
    return [
        tables.Row(
            name=name,
            cells={
                "dev F1": tables.Cell(
                    metric=results.Metric(name="F1", key="eval_f1"),
                    jobs=(
                        recipes.tag(
                            bench,
                            full_scale.CASED["base"],
                            full_scale.CONLL,
                            full_scale.NER_FEATURES_TUNING,
                            (("features", choice),),
                        ),
                    ),
                    paper=number,
                    band=_FEATURES,
                )
            },
        )
        for name, number, choice in FEATURE_ROWS
    ]


def _features_expected() -> tuple[tables.Expectation, ...]:
    pairs = (
        ("concat last four", "last hidden", "section 5.3"),
        ("second-to-last hidden", "last hidden", "Table 7"),
        ("last hidden", "embeddings", "Table 7"),
        ("fine-tuned, base", "concat last four", "section 5.3: 0.3 F1 behind"),
    )
    return tuple(
        tables.Expectation(
            better=(better, "dev F1"), worse=(worse, "dev F1"), reason=reason
        )
        for better, worse, reason in pairs
    )
