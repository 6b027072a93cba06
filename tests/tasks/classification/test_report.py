"""Evaluation reports of classifiers."""

import io
import json

import numpy as np
import pytest
from sklearn import metrics

from tasks.classification import (
    datasets,
    labels,
    predictions,
    report,
    sentence_pairs,
)

_ONE = labels.LabelSet(names=("a", "b", "c", "d"))
_TARGETS = np.array([0, 0, 0, 1, 1, 2])
_DECISIONS = np.array([0, 1, 1, 1, 2, 2])


def test_scores_worked_by_hand():
    found, text = report.scores(_ONE, _TARGETS, _DECISIONS)
    assert found["labels"] == ["a", "b", "c", "d"]
    assert found["scores"]["a"] == {
        "precision": 1.0,
        "recall": pytest.approx(1 / 3),
        "f1-score": pytest.approx(0.5),
        "support": 3,
    }
    assert found["scores"]["b"]["precision"] == pytest.approx(1 / 3)
    # A label that neither is nor is answered.
    assert set(found["scores"]["d"].values()) == {0.0}
    f1 = [0.5, 0.4, 2 / 3, 0]
    averages = {
        "macro avg": np.mean(f1),
        "weighted avg": np.dot(f1, [3, 2, 1, 0]) / 6,
    }
    for name, value in averages.items():
        assert found["scores"][name]["f1-score"] == pytest.approx(value)
    assert found["scores"]["accuracy"] == pytest.approx(0.5)
    assert found["confusion_matrix"] == [
        *([1, 2, 0, 0], [0, 1, 1, 0]),
        *([0, 0, 1, 0], [0, 0, 0, 0]),
    ]
    assert found["most_confused"] == [
        {"label": "a", "prediction": "b", "count": 2, "share": 2 / 3},
        {"label": "b", "prediction": "c", "count": 1, "share": 0.5},
    ]
    lines = text.splitlines()
    assert lines[0].split() == ["precision", "recall", "f1-score", "support"]
    assert lines[2].split() == ["a", "1.0000", "0.3333", "0.5000", "3"]
    assert lines[-2] == "     2  a -> b (66.7% of a)"


def test_labels_named_like_averages_keep_their_scores():
    plain, _ = report.scores(_ONE, _TARGETS, _DECISIONS)
    assert "label_scores" not in plain
    names = ("accuracy", "b", "macro avg", "d")
    found, _ = report.scores(labels.LabelSet(names=names), _TARGETS, _DECISIONS)
    for average in ("accuracy", "macro avg", "weighted avg"):
        assert found["scores"][average] == plain["scores"][average]
    assert found["scores"]["b"] == plain["scores"]["b"]
    assert found["label_scores"] == {
        "accuracy": plain["scores"]["a"],
        "macro avg": plain["scores"]["c"],
    }
    # Of several labels there is no accuracy.
    several = labels.LabelSet(
        names=("accuracy", "b"), problem_type="multi_label"
    )
    found, _ = report.scores(several, np.eye(2), np.eye(2))
    assert found["scores"]["accuracy"] == found["scores"]["b"]


def test_several_labels_have_a_matrix_each():
    several = labels.LabelSet(
        names=("p", "q"), problem_type="multi_label", thresholds=(0.2, 0.5)
    )
    targets = np.array([[1, 0], [1, 1], [0, 0]])
    decisions = np.array([[1, 0], [0, 1], [1, 1]])
    found, _ = report.scores(several, targets, decisions)
    assert found["confusion_matrices"] == {
        "p": [[0, 1], [1, 1]],
        "q": [[1, 1], [0, 1]],
    }
    expected = metrics.f1_score(targets, decisions, average="micro")
    assert found["scores"]["micro avg"]["f1-score"] == pytest.approx(expected)
    assert found["scores"]["micro avg"]["support"] == 3
    assert found["thresholds"] == [0.2, 0.5]
    # A label alone is that of its column.
    alone = labels.LabelSet(names=("q",), problem_type="multi_label")
    only, _ = report.scores(alone, targets[:, 1:], decisions[:, 1:])
    assert only["scores"]["q"] == found["scores"]["q"]
    assert only["confusion_matrices"]["q"] == found["confusion_matrices"]["q"]


@pytest.mark.parametrize("num_classes", [2, 40])
def test_picture_of_a_matrix(num_classes):
    file = io.BytesIO()
    names = ["$a name that is far too long for it", *map(str, range(1, 40))]
    report.draw(names[:num_classes], np.eye(num_classes, dtype=int), file)
    assert file.getvalue().startswith(b"\x89PNG")


def test_characters_that_the_font_lacks_are_one_line(caplog, recwarn):
    file = io.BytesIO()
    report.draw(["はい", "いいえ"], np.eye(2, dtype=int), file)
    assert file.getvalue().startswith(b"\x89PNG")
    assert not recwarn.list
    assert [record.message for record in caplog.records] == [
        "The font of a picture lacks some characters; it shows boxes."
    ]


def _write(path, label_set, part, label_ids, **arrays):
    info = datasets.DatasetInfo(
        name="custom",
        label_set=label_set,
        metrics=(),
        train=None,
        dev=(),
        test=(),
    )
    split = datasets.SplitInfo(
        name="train",
        files=(path.name,),
        layout=datasets.Layout(
            text_a="text", label="label", skip_short_rows=True
        ),
        guid_prefix="train",
    )
    file = datasets.TextFile(
        info=info,
        split=split,
        path=str(path),
        truncation=sentence_pairs.Truncation(max_seq_length=8),
        suffix="_x",
        part=part,
    )
    answers = predictions.Answers(label_set=label_set, **arrays)
    report.write(file, label_ids, answers, str(path.parent))


def test_files_name_the_rows_that_were_held_out(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("text\tlabel\nzero\tb\none\ta\ntwo\tb\nthree\ta\n")
    _write(
        path,
        labels.LabelSet(names=("a", "b")),
        datasets.Part(held_out=(1, 3), is_held_out=True, seed=1),
        label_ids=np.array([0, 0]),
        outputs=np.array([[0.9, 0.1], [0.4, 0.6]], np.float32),
        losses=np.array([0.105, 0.916], np.float32),
    )
    lines = (tmp_path / "eval_highest_loss_x.jsonl").read_text().splitlines()
    first, second = map(json.loads, lines)
    assert first == {
        "row": 3,
        "loss": 0.916,
        "label": "a",
        "prediction": "b",
        "text_a": "three",
    }
    assert (second["row"], second["prediction"]) == (1, "a")
    found = json.loads((tmp_path / "eval_report_x.json").read_text())
    assert found["confusion_matrix"] == [[1, 1], [0, 0]]
    assert (tmp_path / "eval_report_x.txt").exists()
    assert (tmp_path / "eval_confusion_matrix_x.png").stat().st_size > 1000


def test_the_matrix_of_many_labels_is_in_the_picture_alone(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("text\tlabel\nzero\t7\n")
    _write(
        path,
        labels.LabelSet(names=tuple(map(str, range(501)))),
        None,
        label_ids=np.array([7]),
        outputs=np.eye(501, dtype=np.float32)[:1],
        losses=np.array([0.5], np.float32),
    )
    found = json.loads((tmp_path / "eval_report_x.json").read_text())
    assert "confusion_matrix" not in found
    assert found["most_confused"][0]["count"] == 1
    assert (tmp_path / "eval_confusion_matrix_x.png").exists()


def test_scores_have_their_worst_examples_alone(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("text\tlabel\nshort\nzero\t0.5\none\t2\n")
    _write(
        path,
        labels.LabelSet(problem_type="regression"),
        None,
        label_ids=np.array([0.5, 2.0]),
        outputs=np.array([[0.5], [1.0]], np.float32),
        losses=np.array([0.0, 1.0], np.float32),
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        *("eval_highest_loss_x.jsonl", "train.tsv")
    ]
    lines = (tmp_path / "eval_highest_loss_x.jsonl").read_text().splitlines()
    # The dropped row counts.
    assert [json.loads(line)["row"] for line in lines] == [2, 1]
