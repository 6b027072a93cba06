"""Files of an evaluation's report, and its scores by label."""

import json
import pathlib
import tracemalloc

import numpy as np
import pytest
from matplotlib import cm, image
from sklearn import metrics as sklearn_metrics

from bert.tasks import task
from bert.tasks.classification import (
    class_labels,
    datasets,
    labeled_task,
    report,
)


def _write(
    path, label_set, label_ids, dev_fraction=0.0, data_split="eval", **arrays
):
    split = datasets.SplitInfo(
        files=(path.name,),
        layout=datasets.Layout(
            text_a="text", label="label", skip_short_rows=True
        ),
        suffix="_x",
    )
    file = datasets.TextFile(
        split=split,
        path=str(path),
        label_set=label_set,
        dev_fraction=dev_fraction,
        is_held_out=bool(dev_fraction),
    )
    data = task.DataSet(
        split=data_split,
        suffix="_x",
        kind="classification",
        made_from={},
        features=(),
        examples=tuple,
        content=file,
    )
    answers = labeled_task.Answers(**arrays)
    report.write(data, file.examples(), label_ids, answers, str(path.parent))


def test_files_name_the_rows_that_were_held_out(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("text\tlabel\nzero\tb\none\ta\ntwo\tb\nthree\ta\n")
    # Half of each label is held out: the first two rows.
    label_set = class_labels.LabelSet(names=("a", "b"))
    _write(
        path,
        label_set,
        dev_fraction=0.5,
        label_ids=np.array([1, 0]),
        outputs=np.array([[0.9, 0.1], [0.4, 0.6]], np.float32),
        losses=np.array([0.105, 0.916], np.float32),
    )
    lines = (tmp_path / "eval_highest_loss_x.jsonl").read_text().splitlines()
    first, second = map(json.loads, lines)
    assert first == {
        "row": 1,
        "loss": 0.916,
        "label": "a",
        "prediction": "b",
        "text_a": "one",
    }
    assert (second["row"], second["prediction"]) == (0, "a")
    text = (tmp_path / "eval_report_x.txt").read_text()
    assert "1  a -> b (100.0% of a)" in text
    assert "\nn = 2; most frequent label: a, 1 of 2 (50.0%)\n" in text
    assert (tmp_path / "eval_confusion_matrix_x.png").stat().st_size > 1000


def test_thousands_of_labels_need_little_memory(tmp_path):
    path = tmp_path / "train.tsv"
    names = tuple(f"label{number}" for number in range(4000))
    path.write_text("text\tlabel\na\tlabel7\nb\tlabel9\n")
    outputs = np.zeros((2, 4000), np.float32)
    outputs[0, 7] = outputs[1, 8] = 1.0
    tracemalloc.start()
    _write(
        path,
        class_labels.LabelSet(names=names),
        label_ids=np.array([7, 9]),
        outputs=outputs,
        losses=np.array([0.1, 0.9], np.float32),
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4000 * 4000  # A matrix of bytes.
    text = (tmp_path / "eval_report_x.txt").read_text()
    assert "1  label9 -> label8 (100.0% of label9)" in text
    assert not (tmp_path / "eval_confusion_matrix_x.png").exists()


def test_scores_have_their_worst_examples_alone_in_a_folder_by_its_name(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    folder = pathlib.Path("out")
    folder.mkdir()
    path = folder / "train.tsv"
    path.write_text("text\tlabel\nshort\nzero\t0.5\none\t2\n")
    _write(
        path,
        class_labels.LabelSet(problem_type="regression"),
        label_ids=np.array([0.5, 2.0]),
        outputs=np.array([[0.5], [2.4]], np.float32),
        losses=np.array([0.0, 1.0], np.float32),
    )
    assert sorted(p.name for p in folder.iterdir()) == [
        *("eval_highest_loss_x.jsonl", "train.tsv")
    ]
    lines = (folder / "eval_highest_loss_x.jsonl").read_text().splitlines()
    # The dropped row counts.
    assert [json.loads(line)["row"] for line in lines] == [2, 1]
    # As in predictions.jsonl, not 2.4000000953674316.
    assert '"prediction": 2.4,' in lines[0]


_ONE = class_labels.LabelSet(names=("a", "b", "c", "d"))
_CONFUSED = np.array([0, 0, 0, 1, 1, 2])
_DECISIONS = np.array([0, 1, 1, 1, 2, 2])


def test_scores_worked_by_hand():
    text = report.scores_by_label(_ONE, _CONFUSED, _DECISIONS)
    lines = text.splitlines()
    assert lines[0].split() == ["precision", "recall", "f1-score", "support"]
    assert lines[2].split() == ["a", "1.0000", "0.3333", "0.5000", "3"]
    # A label that neither is nor is answered.
    assert lines[5].split() == ["d", "0.0000", "0.0000", "0.0000", "0"]
    macro = np.mean([0.5, 0.4, 2 / 3, 0])
    assert f"{macro:.4f}" in lines[8]
    assert lines[-2] == "     2  a -> b (66.7% of a)"
    text = report.scores_by_label(
        _ONE, np.array([0, 0, 1, 1, 1]), np.array([0, 1, 1, 1, 1])
    )
    # Of two labels "a", not of four answers "b".
    assert text.endswith("     1  a -> b (50.0% of a)\n")
    assert lines[-1] == "     1  b -> c (50.0% of b)"


def test_several_labels_have_no_confusions():
    several = class_labels.LabelSet(
        names=("p", "q"), problem_type="multi_label"
    )
    targets = np.array([[1, 0], [1, 1], [0, 0]])
    decisions = np.array([[1, 0], [0, 1], [1, 1]])
    text = report.scores_by_label(several, targets, decisions)
    expected = sklearn_metrics.f1_score(targets, decisions, average="micro")
    (line,) = [row for row in text.splitlines() if "micro" in row]
    assert f"{expected:.4f}" in line
    assert "confused" not in text
    # A label alone is that of its column.
    alone = class_labels.LabelSet(names=("q",), problem_type="multi_label")
    only = report.scores_by_label(alone, targets[:, 1:], decisions[:, 1:])
    assert only.splitlines()[2].split() == text.splitlines()[3].split()


@pytest.mark.parametrize("num_classes", [2, 40])
def test_the_picture_has_a_dark_cell_where_a_label_is_answered(
    num_classes, tmp_path
):
    path = tmp_path / "matrix.png"
    # Two of them would begin and end a formula.
    names = ["$a$ name that is far too long for it", *map(str, range(1, 40))]
    answers = np.roll(np.arange(num_classes), -1)  # The next label.
    report.draw(names[:num_classes], np.arange(num_classes), answers, str(path))
    is_dark = _is_dark(path)
    # Away from the middle of a cell, where its number may be.
    at = (is_dark.shape[0] * (np.arange(num_classes) + 0.2)) / num_classes
    cells = is_dark[np.ix_(at.astype(int), at.astype(int))]
    assert [np.flatnonzero(row).tolist() for row in cells] == [
        [answer] for answer in answers
    ]


def _is_dark(path):
    """Reads the square of a picture that has the shares of the labels."""
    pixels = image.imread(path)[..., :3]
    is_dark = np.isclose(pixels, cm.Blues(1.0)[:3], atol=0.01).all(axis=2)
    # The scale beside it has this blue in a few lines at its end.
    inside = [np.flatnonzero(is_dark.sum(axis=n) > 10) for n in (0, 1)]
    (left, *_, right), (top, *_, bottom) = inside
    return is_dark[top : bottom + 1, left : right + 1]


def test_a_row_of_the_matrix_has_the_shares_of_one_label(monkeypatch):
    # A picture's text and numbers cannot be read from its pixels.
    figures = []
    monkeypatch.setattr(
        report.writing, "write_png", lambda _, figure: figures.append(figure)
    )
    targets, decisions = np.array([0, 0, 0, 0, 1]), np.array([0, 1, 1, 1, 1])
    report.draw(["a$x$", "b" * 30], targets, decisions, "x.png")
    axes = figures[0].axes[0]
    # Of the label "a", one of four is right; all are of "b".
    np.testing.assert_allclose(
        axes.images[0].get_array(), [[0.25, 0.75], [0.0, 1.0]]
    )
    assert [text.get_text() for text in axes.texts] == [
        *("0.25", "0.75", "0.00", "1.00")
    ]
    # A name is no formula, and has an end.
    for labels_of_axis in (axes.get_xticklabels(), axes.get_yticklabels()):
        shown = [label.get_text() for label in labels_of_axis]
        assert shown == [r"a\$x\$", "b" * 25 + "…"]
