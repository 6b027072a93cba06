"""Answers, pooled windows and the files of predictions."""

import json
import pathlib
import types

import numpy as np
import pytest

from tasks.classification import datasets, labels, predictions

_GOLDEN = pathlib.Path(__file__).parents[2] / "golden" / "classifier"
_CLASSES = labels.LabelSet(names=("no", "so-so", "yes"))
_SEVERAL = labels.LabelSet(names=("p", "q"), problem_type="multi_label")
_SCORE = labels.LabelSet(problem_type="regression")


def _float32(*rows):
    return np.array(rows, np.float32)


def test_windows_of_a_text_are_averaged():
    outputs = _float32([0.2, 0.8], [0.4, 0.6], [1, 0], [0, 1], [0.5, 0.5])
    pooled = predictions.pool_windows(outputs, [2, 1, 2])
    expected = _float32([0.3, 0.7], [1, 0], [0.25, 0.75])
    np.testing.assert_allclose(pooled, expected, atol=1e-6)
    assert pooled.dtype == np.float32
    assert predictions.pool_windows(outputs, [1] * 5) is outputs


def test_each_example_has_the_mean_loss_of_its_windows():
    data = types.SimpleNamespace(rows_per_example=[2, 1])
    outputs = _float32([0.2, 0.8], [0.4, 0.6], [1, 0])
    answers = predictions.LabeledTask.decode(
        None, data, {"outputs": outputs, "losses": _float32(1, 3, 5)}
    )
    assert answers.losses.tolist() == [2, 5]
    assert len(answers.outputs) == 2


def test_class_is_the_most_probable_and_the_first_at_a_tie():
    outputs = _float32([0.1, 0.2, 0.7], [0.4, 0.4, 0.2])
    assert predictions.decide(_CLASSES, outputs).tolist() == [2, 0]
    assert predictions.answers(_CLASSES, outputs) == ["yes", "no"]


def test_several_labels_are_those_of_at_least_one_half():
    outputs = _float32([0.5, 0.49], [0.9, 0.9], [0, 0])
    answers = predictions.answers(_SEVERAL, outputs)
    assert answers == [("p",), ("p", "q"), ()]


def test_results_are_spelled_as_the_release_spells_them():
    results = json.loads((_GOLDEN / "mrpc_results.json").read_text())
    text = results["predict"]["test_results_tsv"]
    rows = [line.split("\t") for line in text.splitlines()]
    outputs = np.array(rows, np.float32)
    assert "".join(predictions.result_lines(outputs)) == text


@pytest.mark.parametrize(
    ("label_set", "outputs", "expected"),
    [
        (
            _CLASSES,
            _float32([0.1, 0.2, 0.7]),
            {
                "row": 0,
                "label": "yes",
                "probabilities": {"no": 0.1, "so-so": 0.2, "yes": 0.7},
            },
        ),
        (
            _SEVERAL,
            _float32([0.6, 0.2]),
            {
                "row": 0,
                "labels": ["p"],
                "probabilities": {"p": 0.6, "q": 0.2},
            },
        ),
        (_SCORE, _float32([2.3]), {"row": 0, "score": 2.3}),
    ],
)
def test_predictions_name_row_answer_and_probabilities(
    label_set, outputs, expected
):
    (line,) = predictions.prediction_lines(label_set, outputs)
    assert line.endswith("\n")
    assert json.loads(line) == expected


def test_batches_weigh_the_same_whatever_their_size():
    losses = np.array([1.0, 2.0, 3.0, 4.0, 9.0])
    # Means 1.5, 3.5 and 9; all five together 3.8.
    assert predictions.mean_of_batch_means(losses, 2) == pytest.approx(14 / 3)
    assert predictions.mean_of_batch_means(losses, 5) == pytest.approx(3.8)


def _write(path, label_set, label_ids, dev_fraction=0.0, **arrays):
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
    answers = predictions.Answers(**arrays)
    predictions.write_report(file, label_ids, answers, str(path.parent))


def test_files_name_the_rows_that_were_held_out(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("text\tlabel\nzero\tb\none\ta\ntwo\tb\nthree\ta\n")
    # Half of each label is held out: the first two rows.
    label_set = labels.LabelSet(names=("a", "b"))
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
    assert (tmp_path / "eval_confusion_matrix_x.png").stat().st_size > 1000


def test_scores_have_their_worst_examples_alone(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("text\tlabel\nshort\nzero\t0.5\none\t2\n")
    _write(
        path,
        labels.LabelSet(problem_type="regression"),
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
