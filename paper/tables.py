"""Tables 1 to 8 and Figure 5 of the paper, a function each.

A function adds the commands of its table to a plan, and returns the cells of
the table, each with its commands and the paper's number, and the rankings that
the paper claims. Source of numbers: Devlin et al. 2019, unless stated.
"""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence

from paper import plans, running, scales

_Numbers = Sequence[float | None]
_BLIMP = "BLiMP"
_PRETRAINED = "The text and the order of the vocabulary are not the paper's."


@dataclasses.dataclass(frozen=True)
class Column:
    """A task of a table, and how it is scored.

    Attributes:
        name: in the table.
        task: None for pre-training.
        metric: the key of the number in the result files.
        selected_by: the metric that selects the learning rate and the best run;
            None for `metric`.
        is_mean: whether the paper has the mean of the seeds, not the best run.
    """

    name: str
    task: plans.Task | None
    metric: str
    selected_by: str | None = None
    is_mean: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """One number of a table, and its runs.

    Attributes:
        row: the name of the model.
        column: the task.
        commands: whose trials are pooled.
        paper: the paper's number, if any.
        dev: for a paper's number on a test set without public labels, what
            others report for the dev set.
        is_of_the_paper: whether model and data are the paper's. If not, only
            the ranking of its rows can be compared.
        pretrainings: the seed of the pre-training of each command, if they
            are of several.
    """

    row: str
    column: Column
    commands: tuple[running.Command, ...]
    paper: float | None = None
    dev: float | None = None
    is_of_the_paper: bool = True
    pretrainings: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Claim:
    """A ranking that the paper states: the better row, the worse one, where."""

    better: str
    worse: str
    columns: Sequence[str]
    source: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """A table or figure of the paper at a scale.

    Attributes:
        title: for display.
        cells: row by row.
        claims: the rankings that are expected.
        notes: choices that the paper does not specify, and differences.
        commands: all that it needs, in an order to run them.
    """

    title: str
    cells: Sequence[Cell]
    claims: Sequence[Claim] = ()
    notes: Sequence[str] = ()
    commands: Sequence[running.Command] = ()


def make(name: str, plan: plans.Plan) -> Table:
    """Makes a table by its name, a key of `ALL`."""
    table = ALL[name](plan)
    cells, notes = table.cells, [*table.notes]
    if not plan.scale.is_full:
        # Seeds of small models differ by more than what is compared.
        cells = [
            dataclasses.replace(
                cell,
                column=dataclasses.replace(cell.column, is_mean=True),
                dev=None,
                is_of_the_paper=False,
            )
            for cell in cells
        ]
        sizes = [
            f"{size.upper()} is {n}" for size, n in plan.scale.sizes.items()
        ]
        if any(cell.column.name == _BLIMP for cell in cells):
            notes.append(
                "BLiMP: the share of 67,000 pairs of sentences whose "
                "acceptable one is more probable, before fine-tuning; ± is "
                "its standard error over the pairs, not over pre-trainings."
            )
        notes.append(
            f"{', '.join(sizes)}; the paper's numbers are of its own models "
            "and data."
        )
    return dataclasses.replace(
        table, cells=cells, notes=notes, commands=plan.commands
    )


def _rows(
    plan: plans.Plan,
    models: Mapping[str, plans.Model],
    columns: Sequence[Column],
    paper: Mapping[str, _Numbers],
) -> list[Cell]:
    """Returns the cells of models that are fine-tuned on each task.

    Args:
        plan: gets the commands.
        models: by row.
        columns: the tasks.
        paper: the paper's numbers by row, for the first columns.
    """
    return [
        Cell(
            row=row,
            column=column,
            commands=plan.fine_tune(model, column.task)
            if column.task
            else model.commands,
            paper=number,
        )
        for row, model in models.items()
        for column, number in itertools.zip_longest(columns, paper.get(row, ()))
    ]


def _multiberts(
    plan: plans.Plan,
    row: str,
    seeds: Sequence[int],
    columns: Sequence[Column],
    numbers: _Numbers,
    step: int = 0,
) -> list[Cell]:
    """Returns the cells of a row that pools several pre-trainings."""
    models = [plan.multiberts(seed, step) for seed in seeds]
    cells = []
    for column, number in zip(columns, numbers, strict=True):
        if column.task is None:
            raise ValueError(f"{column.name} has no task.")
        groups = [plan.fine_tune(model, column.task) for model in models]
        cells.append(
            Cell(
                row=row,
                column=column,
                commands=tuple(itertools.chain(*groups)),
                paper=number,
                pretrainings=tuple(
                    seed
                    for seed, group in zip(seeds, groups, strict=True)
                    for _ in group
                ),
            )
        )
    return cells


def _reported(
    plan: plans.Plan,
    columns: Sequence[str],
    systems: Mapping[str, _Numbers],
) -> list[Cell]:
    """Returns the paper's numbers of which there is no run here.

    Args:
        plan: none is returned at small scale, whose numbers are no match.
        columns: the tasks.
        systems: the numbers by row, for each column.
    """
    if not plan.scale.is_full:
        return []
    return [
        Cell(row=row, column=Column(name, None, ""), commands=(), paper=number)
        for row, numbers in systems.items()
        for name, number in zip(columns, numbers, strict=True)
        if number is not None
    ]


def _blimp(plan: plans.Plan) -> list[Column]:
    """Returns BLiMP, which the paper does not have, at small scale.

    It needs no fine-tuning, whose seeds hide the differences of small models.
    """
    if plan.scale.is_full:
        return []
    return [Column(_BLIMP, plan.blimp(), "eval_blimp")]


def _names(columns: Sequence[Column]) -> list[str]:
    return [column.name for column in columns]


def _large_is_better(plan: plans.Plan, *columns: str) -> list[Claim]:
    if tuple(plan.sizes) != scales.SIZES:
        return []
    return [Claim("large", "base", columns, "section 4: on every task")]


# The scores are in the order of `_glue_columns`.
_TABLE_1: Mapping[str, _Numbers] = {
    "base": (84.6, 83.4, 71.2, 90.5, 93.5, 52.1, 85.8, 88.9, 66.4, None),
    "large": (86.7, 85.9, 72.1, 92.7, 94.9, 60.5, 86.5, 89.3, 70.1, None),
}
# Source: the paper's Table 5 or Hugging Face's README (one run, cased) for the
# first, ALBERT's README for the second.
_TABLE_1_DEV: Mapping[str, _Numbers] = {
    "base": (84.4, 84.1, 87.5, 90.7, 92.7, 56.5, 88.5, 88.9, 65.7, None),
    "large": (86.6, None, None, 92.3, 93.2, 60.6, None, None, 70.4, None),
}


# The averages of MNLI-m, MNLI-mm and the seven other tasks.
_TABLE_1_AVERAGES: Mapping[str, _Numbers] = {"base": [79.6], "large": [82.1]}
# In the order of `_glue_columns` without WNLI, and the average.
_TABLE_1_OTHERS: Mapping[str, _Numbers] = {
    "pre-OpenAI SOTA": (
        *(80.6, 80.1, 66.1, 82.3, 93.2, 35.0, 81.0, 86.0, 61.7),
        74.0,
    ),
    "BiLSTM+ELMo+Attn": (
        *(76.4, 76.1, 64.8, 79.8, 90.4, 36.0, 73.3, 84.9, 56.8),
        71.0,
    ),
    "OpenAI GPT": (
        *(82.1, 81.4, 70.3, 87.4, 91.3, 45.4, 80.0, 82.3, 56.0),
        75.1,
    ),
}
# Source: section 4.1. The score of GLUE's server, which counts WNLI.
_TABLE_1_LEADERBOARD: Mapping[str, _Numbers] = {
    "large": [80.5],
    "OpenAI GPT": [72.8],
}


def _glue_columns(plan: plans.Plan, **flags: running.Value) -> list[Column]:
    accuracy = "eval_accuracy"

    def column(
        name: str, task: str, metric: str, selected_by: str | None = None
    ) -> Column:
        return Column(name, plan.glue(task, **flags), metric, selected_by)

    return [
        column("MNLI-m", "MNLI", accuracy),
        column("MNLI-mm", "MNLI", "eval_accuracy_mismatched", accuracy),
        column("QQP", "QQP", "eval_f1"),
        column("QNLI", "QNLI", accuracy),
        column("SST-2", "SST-2", accuracy),
        column("CoLA", "CoLA", "eval_matthews_correlation"),
        column("STS-B", "STS-B", "eval_spearman", "eval_pearson"),
        column("MRPC", "MRPC", "eval_f1"),
        column("RTE", "RTE", accuracy),
        column(_WNLI, _WNLI, accuracy),
    ]


_WNLI = "WNLI"  # Source: the paper leaves it out, GLUE's server needs it.


def table_1(plan: plans.Plan) -> Table:
    """GLUE: the best of four rates on the dev sets (section 4.1)."""
    cells: list[Cell] = []
    for size, model in plan.models().items():
        flags: dict[str, running.Value] = {"do_predict": True}
        if size == scales.LARGE:
            flags["num_trials"] = plan.scale.num_restarts
        columns = _glue_columns(plan, **flags)
        row = _rows(plan, {size: model}, columns, _TABLE_1)
        cells += [
            dataclasses.replace(cell, dev=number)
            for cell, number in zip(row, _TABLE_1_DEV[size], strict=True)
        ]
    names = {cell.column.name: None for cell in cells}
    names.pop(_WNLI)
    average = "average"
    cells += _reported(plan, [average], _TABLE_1_AVERAGES)
    cells += _reported(plan, [*names, average], _TABLE_1_OTHERS)
    cells += _reported(plan, ["leaderboard"], _TABLE_1_LEADERBOARD)
    return Table(
        title="GLUE: the best run on the development sets",
        cells=cells,
        claims=_large_is_better(plan, *names),
        notes=[
            "The paper's scores are of the test sets, which only GLUE's server "
            "scores: send it the files NAME.tsv of the best trial of each "
            "command, zipped. Others' scores of the dev sets are those of the "
            "paper's Table 5 or Hugging Face's README (base), and of ALBERT's "
            "README (large).",
            "The paper has no score of WNLI, which is the majority's or less; "
            "GLUE's server needs its file.",
            "The paper's restarts of LARGE are several; here five. Its length "
            "is not given; 128 is the original's.",
            "The 4.5 and 7.0 points of section 4.1 are the averages of BERT "
            "less that of OpenAI GPT. The 7.7 of the abstract is of GLUE's "
            "leaderboard, which counts WNLI.",
        ],
    )


_TABLE_2 = {
    "base": (80.8, 88.5),
    "large": (84.1, 90.9),
    "large, ensemble": (85.8, 91.8),
    "large + TriviaQA": (84.2, 91.1),
    "large + TriviaQA, ensemble": (86.2, 92.2),
}


# On dev (EM, F1) and on the hidden test set (EM, F1).
_TABLE_2_OTHERS: Mapping[str, _Numbers] = {
    "large + TriviaQA": (None, None, 85.1, 91.8),
    "large + TriviaQA, ensemble": (None, None, 87.4, 93.2),
    "human": (None, None, 82.3, 91.2),
    "nlnet, ensemble, first of the leaderboard": (None, None, 86.0, 91.7),
    "QANet, ensemble, second": (None, None, 84.5, 90.5),
    "BiDAF+ELMo, published": (None, 85.6, None, 85.8),
    "R.M. Reader, ensemble, published": (81.2, 87.9, 82.3, 88.5),
}
_SQUAD_COLUMNS = ("EM", "F1", "test EM", "test F1")


def table_2(plan: plans.Plan) -> Table:
    """SQuAD 1.1: single models and ensembles of seven (section 4.2)."""
    models = plan.models()
    if scales.LARGE in models and plan.scale.is_full:
        models["large + TriviaQA"] = plan.after_triviaqa(models[scales.LARGE])
    cells: list[Cell] = []
    claims = _large_is_better(plan, "F1")
    for row, model in models.items():
        is_base = row == scales.BASE
        task = plan.squad("1.1", None if is_base else plan.scale.num_members)
        columns = [
            Column("EM", task, "exact_match", "f1", is_mean=True),
            Column("F1", task, "f1", is_mean=True),
        ]
        single = _rows(plan, {row: model}, columns, _TABLE_2)
        cells += single
        if is_base:
            continue
        joined = f"{row}, ensemble"
        command = plan.ensemble(task, single[0].commands)
        cells += [
            Cell(row=joined, column=column, commands=(command,), paper=number)
            for column, number in zip(columns, _TABLE_2[joined], strict=True)
        ]
        claims.append(Claim(joined, row, ["F1"], "Table 2"))
    if scales.BASE in models and plan.scale.is_full:
        task = plan.squad("1.1", num_seeds=1)
        columns = [
            Column("EM", task, "exact_match", "f1", is_mean=True),
            Column("F1", task, "f1", is_mean=True),
        ]
        seeds = range(plan.scale.num_members)
        row, joined = "MultiBERTs", "MultiBERTs, ensemble"
        single = _multiberts(plan, row, seeds, columns, _TABLE_2["base"])
        command = plan.ensemble(task, single[0].commands)
        cells += single
        cells += [
            Cell(row=joined, column=column, commands=(command,))
            for column in columns
        ]
        claims.append(Claim(joined, row, ["F1"], "Table 2"))
    cells += _reported(plan, _SQUAD_COLUMNS, _TABLE_2_OTHERS)
    return Table(
        title="SQuAD 1.1, development set",
        cells=cells,
        claims=claims,
        notes=[
            "The paper's ensembles join seven systems from different "
            "pre-training checkpoints. Of LARGE one alone was released, so its "
            "members differ in their fine-tuning seeds. MultiBERTs are "
            "BERT-Base models of different pre-trainings. Single systems of "
            "the paper are compared with the mean of the seeds.",
            "The test set is hidden. The leaderboard is that of 10 December "
            "2018.",
        ],
    )


_TABLE_3_OTHERS: Mapping[str, _Numbers] = {
    "large": (None, None, 80.0, 83.1),
    "human": (86.3, 89.0, 86.9, 89.5),
    "MIR-MRC (F-Net), first of the leaderboard": (None, None, 74.8, 78.0),
    "nlnet, second": (None, None, 74.2, 77.1),
    "unet, ensemble, published": (None, None, 71.4, 74.9),
    "SLQA+, published": (None, None, 71.4, 74.4),
}


def table_3(plan: plans.Plan) -> Table:
    """SQuAD 2.0 (section 4.3)."""
    task = plan.squad(
        "2.0", version_2_with_negative=True, null_score_diff_threshold="auto"
    )
    columns = [Column("EM", task, "exact", "f1"), Column("F1", task, "f1")]
    numbers = {"large": (78.7, 81.9)}
    return Table(
        title="SQuAD 2.0, development set",
        cells=[
            *_rows(plan, plan.models(), columns, numbers),
            *_reported(plan, _SQUAD_COLUMNS, _TABLE_3_OTHERS),
        ],
        claims=_large_is_better(plan, "F1"),
        notes=[
            "As in the paper the threshold is the one with the best F1 on the "
            "development set.",
            "The test set is hidden. The leaderboard is that of 10 December "
            "2018. Entries that use BERT are left out in the paper.",
        ],
    )


_TABLE_4_OTHERS: Mapping[str, _Numbers] = {
    "large": (None, 86.3),
    "ESIM+GloVe": (51.9, 52.7),
    "ESIM+ELMo": (59.1, 59.2),
    "OpenAI GPT": (None, 78.0),
    "human, expert": (None, 85.0),
    "human, five annotations": (None, 88.0),
}


def table_4(plan: plans.Plan) -> Table:
    """SWAG (section 4.4)."""
    column = Column("dev", plan.swag(), "eval_accuracy")
    numbers = {"base": [81.6], "large": [86.6]}
    return Table(
        title="SWAG, development set",
        cells=[
            *_rows(plan, plan.models(), [column], numbers),
            *_reported(plan, ["dev", "test"], _TABLE_4_OTHERS),
        ],
        claims=_large_is_better(plan, "dev"),
        notes=[
            "The paper does not say its length; others report 80.2 to 80.7.",
            "The labels of the test set are not public. Humans were measured "
            "on 100 samples.",
        ],
    )


_TABLE_5 = {
    "MLM + NSP": (plans.MLM_NSP, (84.4, 88.4, 86.7, 92.7, 88.5)),
    "no NSP": (plans.MLM, (83.9, 84.9, 86.5, 92.6, 87.9)),
    "LTR & no NSP": (plans.LTR, (82.1, 84.3, 77.5, 92.1, 77.8)),
    "+ BiLSTM": (plans.LTR, (82.1, 84.1, 75.7, 91.6, 84.9)),
}


def table_5(plan: plans.Plan) -> Table:
    """The effect of the pre-training tasks (section 5.1)."""
    base = plan.scale.sizes[scales.BASE]
    cells: list[Cell] = []
    blimp = _blimp(plan)
    for row, (objective, numbers) in _TABLE_5.items():
        flags = {"bilstm_head": True} if row == "+ BiLSTM" else {}
        columns = [
            Column("MNLI-m", plan.glue("MNLI", **flags), "eval_accuracy"),
            Column("QNLI", plan.glue("QNLI", **flags), "eval_accuracy"),
            Column("MRPC", plan.glue("MRPC", **flags), "eval_accuracy"),
            Column("SST-2", plan.glue("SST-2", **flags), "eval_accuracy"),
            Column("SQuAD", plan.squad("1.1", **flags), "f1"),
        ]
        if not flags:  # The BiLSTM is not pre-trained.
            columns += blimp
        model = plan.pretrained(base, objective)
        cells += _rows(plan, {row: model}, columns, {row: numbers})
    pairs, all_ltr = ["QNLI", "MNLI-m", "SQuAD"], "LTR & no NSP"
    sentences = ["MNLI-m", "MRPC", "SST-2", "SQuAD", *_names(blimp)]
    return Table(
        title="Pre-training tasks, BASE, development sets",
        cells=cells,
        claims=[
            Claim("MLM + NSP", "no NSP", pairs, "section 5.1: NSP helps"),
            Claim("no NSP", all_ltr, sentences, "section 5.1: LTR is worse"),
            Claim("+ BiLSTM", all_ltr, ["SQuAD"], "section 5.1: it helps"),
            Claim("no NSP", "+ BiLSTM", ["SQuAD"], "section 5.1: but is worse"),
            Claim(all_ltr, "+ BiLSTM", ["MRPC"], "section 5.1: it hurts"),
        ],
        notes=[
            "A left-to-right model labels a sentence from its last token, "
            "which alone has seen all of it. The paper does not say how it did "
            "that, nor the width of the BiLSTM: here that of the encoder.",
            "The paper's QNLI is the first version of the task, no longer "
            "given out.",
            _PRETRAINED,
        ],
    )


_TABLE_6: Mapping[str, _Numbers] = {
    "L-3 H-768 A-12": (5.84, 77.9, 79.8, 88.4),
    "L-6 H-768 A-3": (5.24, 80.6, 82.2, 90.7),
    "L-6 H-768 A-12": (4.68, 81.9, 84.8, 91.3),
    "L-12 H-768 A-12": (3.99, 84.4, 86.7, 92.9),
    "L-12 H-1024 A-16": (3.54, 85.7, 86.9, 93.3),
    "L-24 H-1024 A-16": (3.23, 86.6, 87.8, 93.7),
}


def table_6(plan: plans.Plan) -> Table:
    """The effect of model size: the mean of five restarts (section 5.2)."""
    columns = [Column("perplexity", None, "masked_lm_loss")]
    for name in ("MNLI-m", "MRPC", "SST-2"):
        task = plan.glue(
            name.removesuffix("-m"), num_trials=plan.scale.num_restarts
        )
        columns.append(Column(name, task, "eval_accuracy", is_mean=True))
    columns += _blimp(plan)
    networks = plan.scale.networks
    models = {network: plan.pretrained(network) for network in networks}
    every = _names(columns)
    return Table(
        title="Size of the model, mean of the restarts, development sets",
        cells=_rows(plan, models, columns, _TABLE_6),
        claims=[
            Claim(larger, smaller, every, "section 5.2: larger is better")
            for smaller, larger in itertools.pairwise(networks)
        ],
        notes=[
            "Perplexity is that of the masked words of held-out text.",
            _PRETRAINED,
        ],
    )


_TABLE_7 = {
    "fine-tuned, base": (96.4, 92.4),
    "fine-tuned, large": (96.6, 92.8),
}
_TABLE_7_FEATURES = {
    "embeddings": ("embeddings", 91.0),
    "second-to-last hidden": ("second_to_last", 95.6),
    "last hidden": ("last", 94.9),
    "weighted sum last four": ("sum_last_four", 95.9),
    "concat last four": ("concat_last_four", 96.1),
    "weighted sum all 12": ("sum_all", 95.5),
}


_TABLE_7_OTHERS: Mapping[str, _Numbers] = {
    "ELMo": (95.7, 92.2),
    "CVT": (None, 92.6),
    "CSE": (None, 93.1),
}


def table_7(plan: plans.Plan) -> Table:
    """CoNLL-2003, fine-tuned and on features of BASE (section 5.3)."""
    task = plan.ner(do_predict=True)
    columns = [
        Column("dev F1", task, "eval_f1", is_mean=True),
        Column("test F1", task, "test_f1", "eval_f1", is_mean=True),
    ]
    models = plan.models("cased")
    tuned = {f"fine-tuned, {size}": model for size, model in models.items()}
    cells = _rows(plan, tuned, columns, _TABLE_7)
    claims: list[Claim] = []
    if scales.BASE in models:
        for row, (features, number) in _TABLE_7_FEATURES.items():
            task = plan.ner(features=features)
            column = Column("dev F1", task, "eval_f1", is_mean=True)
            cells += _rows(
                plan, {row: models[scales.BASE]}, [column], {row: [number]}
            )
        last, concat = "last hidden", "concat last four"
        claims = [
            Claim(concat, last, ["dev F1"], "section 5.3"),
            Claim("second-to-last hidden", last, ["dev F1"], "Table 7"),
            Claim(last, "embeddings", ["dev F1"], "Table 7"),
            Claim("fine-tuned, base", concat, ["dev F1"], "section 5.3"),
        ]
    cells += _reported(plan, ["dev F1", "test F1"], _TABLE_7_OTHERS)
    return Table(
        title="CoNLL-2003 named entities, mean of the restarts",
        cells=cells,
        claims=claims,
        notes=[
            "Cased models (full scale), each sentence within its document.",
            "The paper does not say how the BiLSTM is trained: here for 20 "
            "epochs at 1e-3.",
        ],
    )


# A key is the percentages of [MASK], unchanged and random words.
_TABLE_8 = {
    "80,10,10": (84.2, 95.4, 94.9),
    "100,0,0": (84.3, 94.9, 94.0),
    "80,0,20": (84.1, 95.2, 94.6),
    "80,20,0": (84.4, 95.2, 94.7),
    "0,20,80": (83.7, 94.8, 94.6),
    "0,0,100": (83.6, 94.9, 94.6),
}


def table_8(plan: plans.Plan) -> Table:
    """Ways to mask words (appendix C.2)."""
    features = plan.ner(features="concat_last_four")
    columns = [
        Column("MNLI", plan.glue("MNLI"), "eval_accuracy"),
        Column("NER fine-tuned", plan.ner(), "eval_f1", is_mean=True),
        Column("NER features", features, "eval_f1", is_mean=True),
        *_blimp(plan),
    ]
    base = plan.scale.sizes[scales.BASE]
    models = {
        masking: plan.pretrained(base, masking=masking) for masking in _TABLE_8
    }
    paper, masks, words = "80,10,10", "100,0,0", "0,0,100"
    ner = ["NER features", "NER fine-tuned"]
    return Table(
        title="Per cent of the predicted words that become [MASK], stay, "
        "become a random word; BASE, development sets",
        cells=_rows(plan, models, columns, _TABLE_8),
        claims=[
            Claim(paper, masks, ner, "C.2: [MASK] alone hurts, features most"),
            Claim(
                paper,
                words,
                ["NER features", "MNLI", *_names(_blimp(plan))],
                "C.2, Table 8",
            ),
        ],
        notes=[
            "The paper does not say whether its models were cased; these are "
            "uncased.",
            _PRETRAINED,
        ],
    )


# Source: the paper's figure 5, read from the file of the plot.
_FIGURE_5 = {
    "MLM": (
        plans.MLM_NSP,
        (78.6, 79.6, 80.5, 82.2, 83.2, 84.0, 84.3, 84.4),
    ),
    "LTR": (plans.LTR, (79.4, 79.8, 80.3, 81.0, 81.7, 81.9, 82.1, 82.2)),
}


def figure_5(plan: plans.Plan) -> Table:
    """Accuracy after steps of pre-training (appendix C.1)."""
    # The models know only the positions of their first phase.
    length = plan.scale.phases[0].max_seq_length
    name = plan.scale.figure_task
    task = plan.glue(name, max_seq_length=length)
    columns = [Column(name, task, "eval_accuracy"), *_blimp(plan)]
    base, steps = plan.scale.sizes[scales.BASE], plan.scale.figure_steps
    cells: list[Cell] = []
    for line, (objective, numbers) in _FIGURE_5.items():
        for step, number in zip(steps, numbers, strict=False):
            row = f"{line} {step}"
            model = plan.pretrained(base, objective, step=step)
            # The paper's numbers are MNLI's, after its own steps.
            paper = {row: [number]} if plan.scale.is_full else {}
            cells += _rows(plan, {row: model}, columns, paper)
    published_claims: list[Claim] = []
    if plan.scale.is_full:
        # Source: the steps of MultiBERTs that the figure has too.
        published = [step for step in steps if step % 100_000 == 0]
        seeds = range(plans.NUM_MULTIBERTS_WITH_STEPS)
        paper_of = dict(zip(steps, _FIGURE_5["MLM"][1], strict=True))
        mean = dataclasses.replace(columns[0], is_mean=True)
        for step in published:
            row = f"MultiBERTs {step}"
            paper_number = [paper_of[step]]
            cells += _multiberts(plan, row, seeds, [mean], paper_number, step)
        middle = published[len(published) // 2]
        published_claims.append(
            Claim(
                f"MultiBERTs {published[-1]}",
                f"MultiBERTs {middle}",
                [name],
                "C.1: BERT needs so many steps",
            )
        )
    last = f"MLM {steps[-1]}"
    early, ltr = f"MLM {steps[len(steps) // 2]}", f"LTR {steps[-1]}"
    return Table(
        title=f"{name} accuracy after steps of pre-training",
        cells=cells,
        claims=[
            *published_claims,
            Claim(last, ltr, _names(columns), "C.1: MLM outperforms LTR"),
            Claim(
                last, early, _names(columns), "C.1: BERT needs so many steps"
            ),
        ],
        notes=[
            "The full runs keep some 130 GB of checkpoints of each model.",
            "MultiBERTs are five published pre-trainings, of 512 tokens from "
            "the first step on and of 2,000,000 steps; the paper's numbers "
            "beside them are those of its MLM.",
        ],
    )


ALL: Mapping[str, Callable[[plans.Plan], Table]] = {
    "table-1": table_1,
    "table-2": table_2,
    "table-3": table_3,
    "table-4": table_4,
    "table-5": table_5,
    "table-6": table_6,
    "table-7": table_7,
    "table-8": table_8,
    "figure-5": figure_5,
}
# These tables compare the models of a scale; the others have one of their own.
OF_SIZES = ("table-1", "table-2", "table-3", "table-4", "table-7")
