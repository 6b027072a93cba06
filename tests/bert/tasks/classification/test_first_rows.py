"""Headers that are read as rows, and rows that are read as headers."""

import pytest

from bert.tasks import task
from bert.tasks.classification import class_labels, datasets, first_rows, glue

_NLI = ("contradiction", "entailment", "neutral")


def _file(path, label_set, **layout):
    split = datasets.SplitInfo(
        files=(path.name,), layout=datasets.Layout(**layout)
    )
    return datasets.TextFile(split=split, path=str(path), label_set=label_set)


def _warnings(tmp_path, caplog, rows, names=("a", "b"), name="d.tsv", **others):
    """Checks a file of rows without a header; lists the warnings."""
    separator = "," if name.endswith(".csv") else "\t"
    path = tmp_path / name
    path.write_text("".join(separator.join(row) + "\n" for row in rows))
    layout = {"text_a": 0, "label": 1, "has_header": False} | others
    with_labels = layout.pop("with_labels", True)
    kind = layout.pop("problem_type", task.SINGLE_LABEL)
    label_set = class_labels.LabelSet(names=names, problem_type=kind)
    caplog.clear()
    file = _file(path, label_set, **layout)
    first_rows.check(file, with_labels=with_labels)
    return caplog.messages


_CLASSES = [("the film was nice", "pos"), ("a bad one", "neg")] * 3
_NUMBERS = [("the film was nice", "1"), ("a bad one", "0")] * 3
_TEXTS = [("the film was nice",), ("a bad one",)] * 3


@pytest.mark.parametrize(
    ("rows", "layout"),
    [
        ([("text", "label"), *_CLASSES], {}),
        ([("Review text", "Sentiment class"), *_CLASSES], {"name": "d.csv"}),
        ([("the review", "1st opinion"), *_NUMBERS], {}),
        ([("a text of rather many words", "stars"), *_NUMBERS], {}),
        (
            [("text", "score"), ("a b", "0.5"), ("c d", "-1")],
            {"names": (), "problem_type": task.REGRESSION},
        ),
        (
            [("text", "topics"), ("a b", "x,y"), ("c d", "y"), ("e f", "y")],
            {"problem_type": task.MULTI_LABEL},
        ),
        ([("text",), *_TEXTS], {"with_labels": False}),
        (
            [("id", "Text of it"), *(("7", text) for (text,) in _TEXTS)],
            {"text_a": 1, "with_labels": False},
        ),
    ],
)
def test_a_header_that_is_read_as_a_row_is_a_warning(
    tmp_path, caplog, rows, layout
):
    (message,) = _warnings(tmp_path, caplog, rows, **layout)
    assert f"{tmp_path}/d." in message
    cells = ", ".join(map(repr, rows[0]))
    assert f"line 1: {cells} looks like the names of the columns" in message
    text = rows[0][layout.get("text_a", 0)]
    assert message.endswith(f"--text_a_column={text}.")


@pytest.mark.parametrize(
    ("rows", "layout"),
    [
        (_CLASSES, {}),
        (_NUMBERS, {}),
        (_CLASSES[:1], {}),
        (_TEXTS, {"with_labels": False}),
        # A rare label is first.
        ([("it is so and so for me", "mixed"), *_CLASSES], {}),
        # All labels are rare.
        ([(f"text {n}", f"label{n}") for n in range(9)], {}),
        # The first text is short.
        ([("Good", "pos"), *_CLASSES], {}),
        ([("Good",), ("Poor",), *_TEXTS], {"with_labels": False}),
        ([("Good one",), *_TEXTS], {"with_labels": False}),
        # The label is not read, and numbers are no names.
        ([("Good", "1"), *_NUMBERS], {"with_labels": False}),
        (
            [("a b", "0.25"), ("c d", "3"), ("e f", "3")],
            {"names": (), "problem_type": task.REGRESSION},
        ),
        (
            [("a", ""), ("c d", "x"), ("e f", "x")],
            {"problem_type": task.MULTI_LABEL},
        ),
        # Columns with names have a header.
        ([("text", "label"), *_CLASSES], {"text_a": "text", "has_header": 1}),
    ],
)
def test_a_row_without_a_header_above_it_is_no_warning(
    tmp_path, caplog, rows, layout
):
    assert _warnings(tmp_path, caplog, rows, **layout) == []


def test_a_header_is_looked_for_in_tables_alone(tmp_path, caplog):
    path = tmp_path / "d.jsonl"
    path.write_text('["text", "label"]\n' + '["a b", "x"]\n' * 3)
    file = _file(
        path, class_labels.LabelSet(names=("x", "y")), text_a=0, label=1
    )
    first_rows.check(file, with_labels=True)
    assert not caplog.messages


_MNLI_ROW = "7\tp\tq\tfiction\t(\t(\t(\t(\tA\tB"
_XNLI_ROW = "zh\tneutral\t\t\t\t\tA\tB\tp\tq"


@pytest.mark.parametrize(
    ("task_name", "split", "line"),
    [
        ("CoLA", "predict", "0\tBill ate."),
        ("CoLA", "predict", "x\tThe more we study verbs, the crazier"),
        ("MRPC", "train", "1\t70\t71\tAmrozi accused\tReferring"),
        ("MRPC", "predict", "0\t1\t2\tAmrozi accused\tReferring"),
        ("MNLI", "eval", f"{_MNLI_ROW}\tneutral\tneutral\tneutral"),
        ("MNLI", "predict", _MNLI_ROW),
        ("XNLI", "eval", _XNLI_ROW),
        ("XNLI", "predict", _XNLI_ROW),
        ("XNLI", "train", "A\tB\tcontradictory"),
    ],
)
def test_an_example_that_is_read_as_a_header_is_a_warning(
    tmp_path, caplog, task_name, split, line
):
    info = glue.find_dataset(task_name)
    path = tmp_path / "d.tsv"
    path.write_text(f"{line}\n" * 3)
    file = datasets.TextFile(
        split=info.splits[split][0], path=str(path), label_set=info.label_set
    )
    first_rows.check(file, with_labels=split != "predict")
    (message,) = caplog.messages
    cells = ", ".join(map(repr, line.split("\t")[:2]))
    assert message.startswith(f"{path}, line 1: {cells}")
    assert "looks like an example, which is not read" in message


_MNLI_HEAD = (
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\t"
    "sentence2_binary_parse\tsentence1_parse\tsentence2_parse\t"
    "sentence1\tsentence2"
)


@pytest.mark.parametrize(
    ("task_name", "split", "header", "row"),
    [
        ("CoLA", "predict", "index\tsentence", "0\tBill ate."),
        (
            "MRPC",
            "train",
            "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String",
            "1\t70\t71\tA\tB",
        ),
        ("MNLI", "predict", _MNLI_HEAD, _MNLI_ROW),
        (
            "MNLI",
            "eval",
            f"{_MNLI_HEAD}\tlabel1\tgold_label",
            f"{_MNLI_ROW}\tneutral\tneutral",
        ),
        (
            "XNLI",
            "eval",
            "language\tgold_label\ta\tb\tc\td\tsentence1\tsentence2\tp\tq",
            _XNLI_ROW,
        ),
        ("XNLI", "train", "premise\thypo\tlabel", "A\tB\tneutral"),
        ("SST-2", "predict", "index\tsentence", "0\tA"),
    ],
)
def test_the_headers_of_glue_and_xnli_are_no_warning(
    tmp_path, caplog, task_name, split, header, row
):
    info = glue.find_dataset(task_name)
    path = tmp_path / "d.tsv"
    path.write_text(f"{header}\n{row}\n{row}\n", encoding="utf-8")
    file = datasets.TextFile(
        split=info.splits[split][0], path=str(path), label_set=info.label_set
    )
    first_rows.check(file, with_labels=split != "predict")
    assert not caplog.messages
