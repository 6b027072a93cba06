"""Cells of the small tables: what is trained, on what, and which number."""

import dataclasses
from collections.abc import Sequence

from paper import jobs, pretraining, recipes, results, small_scale, tables

_KEYS = {"STS-B": "spearman", "CoLA": "matthews_correlation"}
LARGE_EPOCHS = 2.0  # Of sets of tens of thousands.
# Figure 5 looks at these on the way.
PRIME = pretraining.Variant(keeps_checkpoints=True)
LTR = pretraining.Variant(objective=pretraining.LTR, keeps_checkpoints=True)
SCALE_NOTE = (
    "Networks of millions of weights on 45 million words: the paper's orders "
    "are looked for, not its numbers."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kit:
    """What the tables are made with.

    Attributes:
        bench: what commands share.
        scheme: how models are pre-trained.
        names: the task of tagging names.
    """

    bench: recipes.Bench
    scheme: pretraining.Scheme
    names: recipes.DataSet


def kit(bench: recipes.Bench) -> Kit:
    scheme = small_scale.scheme(bench)
    return Kit(bench=bench, scheme=scheme, names=small_scale.names(scheme.text))


def variant(network: pretraining.Network) -> pretraining.Variant:
    """The usual objective; Figure 5 looks at the smaller network on the way."""
    is_base = network == small_scale.BASE
    return PRIME if is_base else small_scale.WITHOUT_CHECKPOINTS


def sentence_cell(
    kit: Kit,
    model: recipes.Model,
    task: str,
    *,
    bilstm_head: bool = False,
    max_seq_length: int = 128,
    num_trials: int = small_scale.NUM_TRIALS,
) -> tables.Cell:
    key = _KEYS.get(task, "accuracy")
    tuning = small_scale.tuning(
        num_trials=num_trials,
        max_seq_length=max_seq_length,
        bilstm_head=bilstm_head,
    )
    if task == "SST-2":
        tuning = dataclasses.replace(tuning, num_epochs=LARGE_EPOCHS)
    job = recipes.classify(kit.bench, model, small_scale.GLUE[task], tuning)
    metric = results.Metric(name=key, key=f"eval_{key}")
    return tables.Cell(metric=metric, jobs=(job,))


def answers_cell(
    kit: Kit,
    model: recipes.Model,
    data: recipes.DataSet = small_scale.SQUAD_1,
    *,
    bilstm_head: bool = False,
) -> tables.Cell:
    return tables.Cell(
        metric=squad_metric("f1"),
        jobs=answers(kit, model, data, bilstm_head=bilstm_head),
    )


def answers(
    kit: Kit,
    model: recipes.Model,
    data: recipes.DataSet = small_scale.SQUAD_1,
    *,
    bilstm_head: bool = False,
) -> tuple[jobs.Job, ...]:
    return recipes.answer(
        kit.bench,
        model,
        data,
        small_scale.tuning(bilstm_head=bilstm_head),
        small_scale.SQUAD_FLAGS,
    )


def squad_metric(key: str) -> results.Metric:
    return results.Metric(name=key, key=key, convert=results.unchanged)


def names_cell(
    kit: Kit,
    model: recipes.Model,
    *,
    bilstm_head: bool = False,
    max_seq_length: int = 128,
    num_trials: int = small_scale.NUM_TRIALS,
) -> tables.Cell:
    tuning = small_scale.tuning(
        num_epochs=LARGE_EPOCHS,
        num_trials=num_trials,
        max_seq_length=max_seq_length,
        bilstm_head=bilstm_head,
    )
    job = recipes.tag(
        kit.bench, model, kit.names, tuning, small_scale.TAG_FLAGS
    )
    return tables.Cell(metric=_tag_metric(), jobs=(job,))


def features_cell(kit: Kit, model: recipes.Model, choice: str) -> tables.Cell:
    job = recipes.tag(
        kit.bench,
        model,
        kit.names,
        small_scale.features_tuning(),
        (
            *small_scale.TAG_FLAGS,
            ("features", choice),
            ("lstm_units", model.size.hidden_size),
        ),
    )
    return tables.Cell(metric=_tag_metric(), jobs=(job,))


def _tag_metric() -> results.Metric:
    return results.Metric(name="F1", key="eval_f1")


def in_order(
    pairs: Sequence[tuple[str, str]], columns: Sequence[str], reason: str
) -> tuple[tables.Expectation, ...]:
    """Expects the first row of each pair to be better in every column."""
    return tuple(
        tables.Expectation(
            better=(better, column), worse=(worse, column), reason=reason
        )
        for better, worse in pairs
        for column in columns
    )
