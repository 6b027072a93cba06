"""Tables 1 to 8 and Figure 5 of the paper, a function each.

A function takes a scale and returns the cells of its table, with the commands
and the paper's number of each, and the rankings that the paper claims.
Source of numbers: Devlin et al. 2019, unless stated.
"""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence

from paper import recipes, running

_Numbers = Sequence[float | None]
_Sizes = Sequence[str]
_PRETRAINED = "The text and the order of the vocabulary are not the paper's."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Column:
    """A task of a table, and how it is scored.

    Attributes:
        name: in the table.
        task: None for pre-training.
        metric: the key of the number in the result files.
        selected_by: the metric that selects the learning rate and the best run;
            None for `metric`.
        is_best: whether the paper has the best run, not the mean of the seeds.
    """

    name: str
    task: recipes.Task | None = None
    metric: str
    selected_by: str | None = None
    is_best: bool = False


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
    """

    row: str
    column: Column
    commands: tuple[running.Command, ...]
    paper: float | None = None
    dev: float | None = None


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
    """

    title: str
    cells: Sequence[Cell]
    claims: Sequence[Claim] = ()
    notes: Sequence[str] = ()

    def commands(self) -> list[running.Command]:
        """Lists all commands that the table needs, in an order to run them."""
        return running.in_order(
            itertools.chain.from_iterable(cell.commands for cell in self.cells)
        )


def _row(
    scale: recipes.Scale,
    row: str,
    model: recipes.Model,
    columns: Sequence[Column],
    paper: _Numbers = (),
) -> list[Cell]:
    """Returns the cells of a model that is fine-tuned on each task."""
    numbers = paper if scale.is_full else ()
    return [
        Cell(
            row=row,
            column=column,
            commands=recipes.fine_tune(scale, model, column.task),
            paper=number,
        )
        for column, number in itertools.zip_longest(columns, numbers)
        if column.task
    ]


def _rows_of_sizes(
    scale: recipes.Scale,
    sizes: _Sizes,
    columns: Sequence[Column],
    paper: Mapping[str, _Numbers],
) -> list[Cell]:
    """Returns the rows of BASE and LARGE."""
    return [
        cell
        for size in sizes
        for cell in _row(
            scale, size, scale.model(size), columns, paper.get(size, ())
        )
    ]


def _large_is_better(sizes: _Sizes, *columns: str) -> list[Claim]:
    if tuple(sizes) != recipes.SIZES:
        return []
    return [Claim("large", "base", columns, "section 4: on every task")]


def _with(
    columns: Sequence[Column],
    num_trials: int | None = None,
    **flags: running.Value,
) -> list[Column]:
    """Returns columns with more flags and another number of seeds."""
    return [
        dataclasses.replace(column, task=column.task.but(flags, num_trials))
        for column in columns
        if column.task
    ]


def _accuracy(
    scale: recipes.Scale, *names: str, is_best: bool = True
) -> list[Column]:
    """Returns columns of GLUE's tasks that are scored by accuracy."""
    return [
        Column(
            name=name,
            task=scale.glue(name.removesuffix("-m")),
            metric="eval_accuracy",
            is_best=is_best,
        )
        for name in names
    ]


def _best(
    name: str, task: recipes.Task, metric: str, selected_by: str | None = None
) -> Column:
    return Column(
        name=name,
        task=task,
        metric=metric,
        selected_by=selected_by,
        is_best=True,
    )


_TABLE_1 = {
    "base": (84.6, 83.4, 71.2, 90.5, 93.5, 52.1, 85.8, 88.9, 66.4),
    "large": (86.7, 85.9, 72.1, 92.7, 94.9, 60.5, 86.5, 89.3, 70.1),
}
# Of BASE from the paper's Table 5 or Hugging Face's README (one run, cased), of
# LARGE from ALBERT's README.
_TABLE_1_DEV: Mapping[str, _Numbers] = {
    "base": (84.4, 84.1, 87.5, 90.7, 92.7, 56.5, 88.5, 88.9, 65.7),
    "large": (86.6, None, None, 92.3, 93.2, 60.6, None, None, 70.4),
}


def table_1(scale: recipes.Scale, sizes: _Sizes = recipes.SIZES) -> Table:
    """GLUE: the best of four rates on the dev sets (section 4.1)."""
    glue, accuracy = scale.glue, "eval_accuracy"
    columns = [
        _best("MNLI-m", glue("MNLI"), accuracy),
        _best("MNLI-mm", glue("MNLI"), f"{accuracy}_mismatched", accuracy),
        _best("QQP", glue("QQP"), "eval_f1"),
        _best("QNLI", glue("QNLI"), accuracy),
        _best("SST-2", glue("SST-2"), accuracy),
        _best("CoLA", glue("CoLA"), "eval_matthews_correlation"),
        _best("STS-B", glue("STS-B"), "eval_spearman", "eval_pearson"),
        _best("MRPC", glue("MRPC"), "eval_f1"),
        _best("RTE", glue("RTE"), accuracy),
    ]
    cells: list[Cell] = []
    for size in sizes:
        num_trials = scale.num_restarts if size == recipes.LARGE else None
        its_columns = _with(columns, num_trials, do_predict=True)
        row = _row(scale, size, scale.model(size), its_columns, _TABLE_1[size])
        dev = _TABLE_1_DEV[size] if scale.is_full else [None] * len(row)
        cells += [
            dataclasses.replace(cell, dev=number)
            for cell, number in zip(row, dev, strict=True)
        ]
    return Table(
        title="GLUE: the best run on the development sets",
        cells=cells,
        claims=_large_is_better(sizes, *(column.name for column in columns)),
        notes=[
            "The paper's scores are of the test sets, which only GLUE's server "
            "scores: send it the files NAME.tsv of the best trial of each "
            "command, zipped. Others' scores of the dev sets are those of the "
            "paper's Table 5 or Hugging Face's README (base), and of ALBERT's "
            "README (large).",
            "The paper's restarts of LARGE are several; here five. Its length "
            "is not given; 128 is the release's.",
        ],
    )


_TABLE_2 = {
    "base": (80.8, 88.5),
    "large": (84.1, 90.9),
    "large, ensemble": (85.8, 91.8),
    "large + TriviaQA": (84.2, 91.1),
    "large + TriviaQA, ensemble": (86.2, 92.2),
}


def table_2(scale: recipes.Scale, sizes: _Sizes = recipes.SIZES) -> Table:
    """SQuAD 1.1: single models and ensembles of seven (section 4.2)."""
    squad = scale.squad("1.1")
    cells: list[Cell] = []
    claims = _large_is_better(sizes, "F1")
    if recipes.BASE in sizes:
        model = scale.model(recipes.BASE)
        cells += _row(scale, "base", model, _answers(squad), _TABLE_2["base"])
    large = scale.model(recipes.LARGE)
    models = {"large": large} if recipes.LARGE in sizes else {}
    if models and scale.is_full:
        models["large + TriviaQA"] = scale.after_triviaqa(large)
    for row, model in models.items():
        task = squad.but({}, scale.num_members)
        single = _row(scale, row, model, _answers(task), _TABLE_2[row])
        command = recipes.ensemble(model, task, single[0].commands)
        joined = f"{row}, ensemble"
        numbers = _TABLE_2[joined] if scale.is_full else (None, None)
        cells += single
        cells += [
            dataclasses.replace(
                cell, row=joined, commands=(command,), paper=number
            )
            for cell, number in zip(single, numbers, strict=True)
        ]
        claims.append(Claim(joined, row, ["F1"], "Table 2"))
    return Table(
        title="SQuAD 1.1, development set",
        cells=cells,
        claims=claims,
        notes=[
            "The paper's ensembles join seven systems from different "
            "pre-training checkpoints; one alone was released, so here they "
            "differ in their fine-tuning seeds. Its single systems are "
            "compared with the mean of the seeds.",
        ],
    )


def _answers(task: recipes.Task) -> list[Column]:
    return [
        Column(name="EM", task=task, metric="exact_match", selected_by="f1"),
        Column(name="F1", task=task, metric="f1"),
    ]


def table_3(scale: recipes.Scale, sizes: _Sizes = recipes.SIZES) -> Table:
    """SQuAD 2.0 (section 4.3)."""
    task = scale.squad("2.0").but(
        {"version_2_with_negative": True, "null_score_diff_threshold": "auto"}
    )
    columns = [
        _best("EM", task, "exact", selected_by="f1"),
        _best("F1", task, "f1"),
    ]
    return Table(
        title="SQuAD 2.0, development set",
        cells=_rows_of_sizes(scale, sizes, columns, {"large": (78.7, 81.9)}),
        claims=_large_is_better(sizes, "F1"),
        notes=[
            "As in the paper the threshold is the one with the best F1 on the "
            "development set.",
        ],
    )


def table_4(scale: recipes.Scale, sizes: _Sizes = recipes.SIZES) -> Table:
    """SWAG (section 4.4)."""
    columns = [_best("dev", scale.swag(), "eval_accuracy")]
    numbers = {"base": (81.6,), "large": (86.6,)}
    return Table(
        title="SWAG, development set",
        cells=_rows_of_sizes(scale, sizes, columns, numbers),
        claims=_large_is_better(sizes, "dev"),
        notes=[
            "The paper does not say its length; others report 80.2 to 80.7.",
        ],
    )


_TABLE_5 = {
    "MLM + NSP": (recipes.MLM_NSP, (84.4, 88.4, 86.7, 92.7, 88.5)),
    "no NSP": (recipes.MLM, (83.9, 84.9, 86.5, 92.6, 87.9)),
    "LTR & no NSP": (recipes.LTR, (82.1, 84.3, 77.5, 92.1, 77.8)),
    "+ BiLSTM": (recipes.LTR, (82.1, 84.1, 75.7, 91.6, 84.9)),
}


def table_5(scale: recipes.Scale) -> Table:
    """The effect of the pre-training tasks (section 5.1)."""
    columns = [
        *_accuracy(scale, "MNLI-m", "QNLI", "MRPC", "SST-2"),
        _best("SQuAD", scale.squad("1.1"), "f1"),
    ]
    base = scale.sizes[recipes.BASE]
    cells: list[Cell] = []
    for row, (objective, numbers) in _TABLE_5.items():
        model = recipes.pretrained(scale, base, objective)
        flags = {"bilstm_head": True} if row == "+ BiLSTM" else {}
        cells += _row(scale, row, model, _with(columns, **flags), numbers)
    pairs, all_ltr = ["QNLI", "MNLI-m", "SQuAD"], "LTR & no NSP"
    sentences = ["MNLI-m", "MRPC", "SST-2", "SQuAD"]
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


def table_6(scale: recipes.Scale) -> Table:
    """The effect of model size: the mean of five restarts (section 5.2)."""
    perplexity = Column(name="perplexity", metric="masked_lm_loss")
    columns = _with(
        _accuracy(scale, "MNLI-m", "MRPC", "SST-2", is_best=False),
        scale.num_restarts,
    )
    cells: list[Cell] = []
    for network in scale.networks:
        number, *numbers = _TABLE_6.get(network, [None])
        pretrained = recipes.pretrain(scale, network)
        cells.append(
            Cell(
                row=network,
                column=perplexity,
                commands=(pretrained,),
                paper=number,
            )
        )
        model = recipes.pretrained(scale, network)
        cells += _row(scale, network, model, columns, numbers)
    every = ["perplexity", *(column.name for column in columns)]
    return Table(
        title="Size of the model, mean of the restarts, development sets",
        cells=cells,
        claims=[
            Claim(larger, smaller, every, "section 5.2: larger is better")
            for smaller, larger in itertools.pairwise(scale.networks)
        ],
        notes=[
            "Perplexity is that of the masked words of held-out text.",
            _PRETRAINED,
        ],
    )


_TABLE_7 = {"base": (96.4, 92.4), "large": (96.6, 92.8)}
_TABLE_7_FEATURES = {
    "embeddings": ("embeddings", 91.0),
    "second-to-last hidden": ("second_to_last", 95.6),
    "last hidden": ("last", 94.9),
    "weighted sum last four": ("sum_last_four", 95.9),
    "concat last four": ("concat_last_four", 96.1),
    "weighted sum all 12": ("sum_all", 95.5),
}


def table_7(scale: recipes.Scale, sizes: _Sizes = recipes.SIZES) -> Table:
    """CoNLL-2003, fine-tuned and on features of BASE (section 5.3)."""
    task = scale.ner().but({"do_predict": True})
    dev = Column(name="dev F1", task=task, metric="eval_f1")
    columns = [
        dev,
        dataclasses.replace(
            dev, name="test F1", metric="test_f1", selected_by="eval_f1"
        ),
    ]
    cells: list[Cell] = []
    for size in sizes:
        model, row = scale.model(size, "cased"), f"fine-tuned, {size}"
        cells += _row(scale, row, model, columns, _TABLE_7[size])
    claims: list[Claim] = []
    if recipes.BASE in sizes:
        model = scale.model(recipes.BASE, "cased")
        for row, (features, number) in _TABLE_7_FEATURES.items():
            data = scale.ner(features)
            column = Column(name="dev F1", task=data, metric="eval_f1")
            cells += _row(scale, row, model, [column], [number])
        last, concat = "last hidden", "concat last four"
        claims = [
            Claim(concat, last, ["dev F1"], "section 5.3"),
            Claim("second-to-last hidden", last, ["dev F1"], "Table 7"),
            Claim(last, "embeddings", ["dev F1"], "Table 7"),
            Claim("fine-tuned, base", concat, ["dev F1"], "section 5.3"),
        ]
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


# Per cent of [MASK], unchanged and random words.
_TABLE_8 = {
    "80,10,10": (84.2, 95.4, 94.9),
    "100,0,0": (84.3, 94.9, 94.0),
    "80,0,20": (84.1, 95.2, 94.6),
    "80,20,0": (84.4, 95.2, 94.7),
    "0,20,80": (83.7, 94.8, 94.6),
    "0,0,100": (83.6, 94.9, 94.6),
}


def table_8(scale: recipes.Scale) -> Table:
    """Ways to mask words (appendix C.2)."""
    features = scale.ner("concat_last_four")
    columns = [
        _best("MNLI", scale.glue("MNLI"), "eval_accuracy"),
        Column(name="NER fine-tuned", task=scale.ner(), metric="eval_f1"),
        Column(name="NER features", task=features, metric="eval_f1"),
    ]
    cells: list[Cell] = []
    for masking, numbers in _TABLE_8.items():
        base = scale.sizes[recipes.BASE]
        model = recipes.pretrained(scale, base, masking=masking)
        cells += _row(scale, masking, model, columns, numbers)
    paper, masks, words = "80,10,10", "100,0,0", "0,0,100"
    ner = ["NER features", "NER fine-tuned"]
    return Table(
        title="Per cent of the predicted words that become [MASK], stay, "
        "become a random word; BASE, development sets",
        cells=cells,
        claims=[
            Claim(paper, masks, ner, "C.2: [MASK] alone hurts, features most"),
            Claim(paper, words, ["NER features", "MNLI"], "C.2, Table 8"),
        ],
        notes=[
            "The paper does not say whether its models were cased; these are "
            "uncased.",
            _PRETRAINED,
        ],
    )


# Source: the paper's figure 5, read from the file of the plot.
_FIGURE_5 = {
    "MLM": (78.6, 79.6, 80.5, 82.2, 83.2, 84.0, 84.3, 84.4),
    "LTR": (79.4, 79.8, 80.3, 81.0, 81.7, 81.9, 82.1, 82.2),
}


def figure_5(scale: recipes.Scale) -> Table:
    """MNLI accuracy after steps of pre-training (appendix C.1)."""
    # The models know only the positions of their first phase.
    length = scale.phases[0].max_seq_length
    columns = _with(_accuracy(scale, "MNLI-m"), max_seq_length=length)
    base, steps = scale.sizes[recipes.BASE], scale.figure_steps
    cells: list[Cell] = []
    for name, objective in (("MLM", recipes.MLM_NSP), ("LTR", recipes.LTR)):
        for step, number in zip(steps, _FIGURE_5[name], strict=False):
            model = recipes.pretrained(scale, base, objective, step=step)
            cells += _row(scale, f"{name} {step}", model, columns, [number])
    last = f"MLM {steps[-1]}"
    early, ltr = f"MLM {steps[len(steps) // 2]}", f"LTR {steps[-1]}"
    return Table(
        title="MNLI accuracy after steps of pre-training",
        cells=cells,
        claims=[
            Claim(last, ltr, ["MNLI-m"], "C.1: MLM outperforms LTR"),
            Claim(last, early, ["MNLI-m"], "C.1: BERT needs so many steps"),
        ],
        notes=[
            "The full runs keep some 130 GB of checkpoints of each model.",
        ],
    )


# The tables that compare released models take their `sizes`.
OF_SIZES: dict[str, Callable[..., Table]] = {
    "table-1": table_1,
    "table-2": table_2,
    "table-3": table_3,
    "table-4": table_4,
    "table-7": table_7,
}
ALL: dict[str, Callable[..., Table]] = {
    **OF_SIZES,
    "table-5": table_5,
    "table-6": table_6,
    "table-8": table_8,
    "figure-5": figure_5,
}
