"""Tables 5, 6 and 8 and Figure 5 at small scale: models trained for them."""

from paper import (
    ablation_tables,
    pretraining,
    recipes,
    results,
    small_cells,
    small_scale,
    tables,
)

# What a laptop can train on in a minute or two.
_SENTENCES = ("SST-2", "MRPC", "STS-B")
_QUESTIONS = {
    "SQuAD": small_scale.SQUAD_1,
    "short SQuAD": small_scale.SHORT_SQUAD,
}
_MASKED_FEATURES = "sum_all"

_ABLATIONS = (
    ("MLM + NSP", small_cells.PRIME, False),
    ("no NSP", pretraining.Variant(objective=pretraining.MLM), False),
    ("LTR & no NSP", small_cells.LTR, False),
    ("+ BiLSTM", small_cells.LTR, True),
)


def table_5(bench: recipes.Bench) -> tables.Table:
    """What next sentences, and looking both ways, are worth."""
    kit, rows = small_cells.kit(bench), []
    for name, variant, bilstm in _ABLATIONS:
        model = pretraining.pretrained(kit.scheme, small_scale.BASE, variant)
        cells = {
            task: small_cells.sentence_cell(
                kit, model, task, bilstm_head=bilstm
            )
            for task in _SENTENCES
        }
        for column, data in _QUESTIONS.items():
            cells[column] = small_cells.answers_cell(
                kit, model, data, bilstm_head=bilstm
            )
        cells["names"] = small_cells.names_cell(kit, model, bilstm_head=bilstm)
        rows.append(tables.Row(name=name, cells=cells))
    return tables.Table(
        name="table-5",
        title=f"Pre-training tasks, {small_scale.BASE.name}: mean of five "
        "seeds of fine-tuning, development sets",
        rows=tuple(rows),
        notes=(
            small_cells.SCALE_NOTE,
            "STS-B, pairs of sentences, stands for QNLI and MNLI, whose "
            "training sets are large. names: which words of lower-cased "
            "held-out text are names, made by paper/name_task.py.",
            "short SQuAD: the same questions, each with the "
            f"{small_scale.CONTEXT_WORDS} words around its answer "
            "(paper/squad_part.py).",
            "Left to right: see docs/paper.md.",
            "Seeds are of fine-tuning; each row is one pre-trained model, so "
            "its luck is not in the deviations.",
        ),
        expected=_ablations_expected(),
    )


def _ablations_expected() -> tuple[tables.Expectation, ...]:
    """Lists what section 5.1 says, of the columns here."""
    ltr = "LTR & no NSP"
    tokens = (*_QUESTIONS, "names")
    claims = (
        ("MLM + NSP", "no NSP", ("STS-B",), "NSP helps on pairs"),
        ("no NSP", ltr, ("MRPC", "STS-B"), "LTR is much worse on pairs"),
        ("no NSP", ltr, ("SST-2",), "LTR is somewhat worse on SST-2"),
        ("no NSP", ltr, tokens, "tokens lack what is to the right"),
        ("+ BiLSTM", ltr, tokens, "a BiLSTM helps on tokens"),
        ("no NSP", "+ BiLSTM", tokens, "but is still worse"),
    )
    return tuple(
        expectation
        for better, worse, columns, reason in claims
        for expectation in small_cells.in_order(
            [(better, worse)], columns, f"section 5.1: {reason}"
        )
    )


def table_6(bench: recipes.Bench) -> tables.Table:
    """How size tells."""
    kit, rows = small_cells.kit(bench), []
    for name, network in small_scale.NETWORKS.items():
        variant = small_cells.variant(network)
        job = pretraining.pretrain(kit.scheme, network, variant)
        model = pretraining.pretrained(kit.scheme, network, variant)
        cells = {
            "perplexity": tables.Cell(metric=results.perplexity(), jobs=(job,)),
            **{
                task: small_cells.sentence_cell(kit, model, task)
                for task in ("SST-2", "MRPC", "STS-B")
            },
            "names": small_cells.names_cell(kit, model),
        }
        rows.append(tables.Row(name=name, cells=cells))
    return tables.Table(
        name="table-6",
        title="Size of the model, small: mean of five seeds, development sets",
        rows=tuple(rows),
        notes=(
            small_cells.SCALE_NOTE,
            "Perplexity is that of the masked words of held-out text.",
        ),
        expected=ablation_tables.sizes_expected(
            list(small_scale.NETWORKS),
            ("perplexity", "SST-2", "STS-B", "names"),
        ),
    )


def table_8(bench: recipes.Bench) -> tables.Table:
    """How words are masked."""
    kit, rows = small_cells.kit(bench), []
    for masking, _ in ablation_tables.MASKINGS:
        is_default = masking == small_cells.PRIME.masking
        variant = pretraining.Variant(
            masking=masking, keeps_checkpoints=is_default
        )
        model = pretraining.pretrained(kit.scheme, small_scale.BASE, variant)
        cells = {
            "SST-2": small_cells.sentence_cell(kit, model, "SST-2"),
            "names fine-tuned": small_cells.names_cell(kit, model),
            "names features": small_cells.features_cell(
                kit, model, _MASKED_FEATURES
            ),
        }
        name = ablation_tables.masking_name(masking)
        rows.append(tables.Row(name=name, cells=cells))
    return tables.Table(
        name="table-8",
        title="Per cent of the predicted words that become [MASK], stay, "
        f"become a random word; {small_scale.BASE.name}, mean of five seeds",
        rows=tuple(rows),
        notes=(
            small_cells.SCALE_NOTE,
            "The paper's differences are of half a point, less than what two "
            "pre-trainings of one kind may differ by at this size.",
        ),
        expected=ablation_tables.masking_expected(
            "SST-2", "names fine-tuned", "names features"
        ),
    )


_FIGURE_STEPS = (500, 1000, 2000, 4500, 6000)
# Ten models are fine-tuned for it.
_FIGURE_TRIALS = 2


def figure_5(bench: recipes.Bench) -> tables.Table:
    """Two tasks after so many steps of pre-training, masked and LTR."""
    kit, rows = small_cells.kit(bench), []
    series = []
    for name, variant in (("MLM", small_cells.PRIME), ("LTR", small_cells.LTR)):
        for step in _FIGURE_STEPS:
            model = pretraining.pretrained(
                kit.scheme, small_scale.BASE, variant, step
            )
            # The first phase knows 32 places.
            cells = {
                "SST-2": small_cells.sentence_cell(
                    kit,
                    model,
                    "SST-2",
                    max_seq_length=32,
                    num_trials=_FIGURE_TRIALS,
                ),
                "names": small_cells.names_cell(
                    kit, model, max_seq_length=32, num_trials=_FIGURE_TRIALS
                ),
            }
            rows.append(tables.Row(name=f"{name} {step}", cells=cells))
        series += [
            tables.Series(
                name=f"{name}, {column}",
                points=tuple(
                    (step / 1000, (f"{name} {step}", column))
                    for step in _FIGURE_STEPS
                ),
            )
            for column in ("SST-2", "names")
        ]
    first, last = _FIGURE_STEPS[0], _FIGURE_STEPS[-1]
    return tables.Table(
        name="figure-5",
        title="Two tasks after so many steps of pre-training, small: mean of "
        "two seeds, development sets",
        rows=tuple(rows),
        notes=(small_cells.SCALE_NOTE,),
        expected=(
            *small_cells.in_order(
                [(f"MLM {last}", f"LTR {last}")],
                ("SST-2", "names"),
                "C.1: MLM ends above LTR",
            ),
            *small_cells.in_order(
                [(f"MLM {last}", f"MLM {first}")],
                ("SST-2", "names"),
                "C.1: more steps are better",
            ),
        ),
        series=tuple(series),
        x_label="thousand steps of pre-training",
    )
