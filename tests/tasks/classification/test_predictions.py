"""Answers, pooled windows and the files of predictions."""

import dataclasses
import json
import pathlib
import types

import numpy as np
import pytest

from tasks import task
from tasks.classification import (
    glue,
    labels,
    metrics,
    predictions,
    sentence_flags,
)

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
    labeled = types.SimpleNamespace(label_set=_CLASSES)
    data = types.SimpleNamespace(rows_per_example=[2, 1])
    outputs = _float32([0.2, 0.8], [0.4, 0.6], [1, 0])
    answers = predictions.LabeledTask.decode(
        labeled, data, {"outputs": outputs, "losses": _float32(1, 3, 5)}
    )
    assert answers.label_set is _CLASSES
    assert answers.losses.tolist() == [2, 5]
    assert len(answers.outputs) == 2


@pytest.mark.parametrize("counts", [[1], [3, 0], [2, 2]])
def test_windows_must_add_up(counts):
    with pytest.raises(ValueError, match="up to the number of outputs, 3"):
        predictions.pool_windows(np.zeros([3, 2]), counts)


def test_class_is_the_most_probable_and_the_first_at_a_tie():
    outputs = _float32([0.1, 0.2, 0.7], [0.4, 0.4, 0.2])
    assert predictions.decide(_CLASSES, outputs).tolist() == [2, 0]
    assert predictions.answers(_CLASSES, outputs) == ["yes", "no"]


def test_several_labels_are_those_of_at_least_their_thresholds():
    outputs = _float32([0.5, 0.49], [0.9, 0.9], [0, 0])
    answers = predictions.answers(_SEVERAL, outputs)
    assert answers == [("p",), ("p", "q"), ()]
    tuned = dataclasses.replace(_SEVERAL, thresholds=(0.2, 0.8))
    outputs = _float32([0.2, 0.79], [0.19, 0.8])
    assert predictions.answers(tuned, outputs) == [("p",), ("q",)]


def _f1(targets, decisions):
    right = np.sum(targets * decisions)
    return 2 * right / max(1, np.sum(targets) + np.sum(decisions))


def test_best_thresholds_worked_by_hand():
    targets = np.array([[1, 1], [1, 1], [0, 0], [0, 0]], np.float32)
    # The second label is right at 0.5 already.
    outputs = _float32([0.4, 0.9], [0.3, 0.6], [0.2, 0.4], [0.2, 0.1])
    found = predictions.best_thresholds(targets, outputs)
    np.testing.assert_allclose(found, [0.25, 0.5], atol=1e-6)


def test_a_threshold_parts_neighboring_numbers():
    # Of two pairs of neighbors, the middle of one is rounded down in float32.
    low = np.float32(0.9)
    middle = np.nextafter(low, np.float32(1))
    high = np.nextafter(middle, np.float32(1))
    outputs = _float32([middle, high], [low, middle])
    targets = _float32([1, 1], [0, 0])
    label_set = dataclasses.replace(
        _SEVERAL, thresholds=predictions.best_thresholds(targets, outputs)
    )
    decided = predictions.decide(label_set, outputs)
    np.testing.assert_array_equal(decided, targets)


def test_no_threshold_has_a_higher_f1():
    rng = np.random.default_rng(3)
    targets = rng.integers(2, size=(23, 4)).astype(np.float32)
    targets[:, 3] = 0  # A label that never holds.
    outputs = np.round(rng.random((23, 4)), 1).astype(np.float32)
    outputs = np.maximum(outputs, 0.4 * targets)  # Ties, and some skill.
    found = predictions.best_thresholds(targets, outputs)
    assert found[3] == 0.5
    for column, threshold in enumerate(found):
        gold, scores = targets[:, column], outputs[:, column]
        best = max(_f1(gold, scores >= t) for t in np.arange(0.0, 1.1, 0.05))
        assert _f1(gold, scores >= threshold) == pytest.approx(best)


@pytest.mark.parametrize(
    ("label_set", "names", "outputs", "expected"),
    [
        (_CLASSES, ["accuracy"], _float32([1, 0, 0], [0, 0, 1]), 0.5),
        (_SEVERAL, ["exact_match"], _float32([0.9, 0.1], [0.9, 0.1]), 0.5),
        (_SCORE, ["pearson"], _float32([4], [-4]), -1),
    ],
)
def test_outputs_are_scored_against_encoded_labels(
    label_set, names, outputs, expected
):
    cells = {"single_label": ["no", "no"], "multi_label": ["p", "q"]}
    cells |= {"regression": ["0.5", "1"]}
    parsed = map(label_set.parse, cells[label_set.problem_type])
    label_ids = [label_set.encode(label) for label in parsed]
    chosen = predictions.decide(label_set, outputs)
    values = metrics.evaluate(names, label_ids, chosen)
    assert list(values.values()) == [pytest.approx(expected)]


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


_GLUE_OUTPUTS = np.array([[0.25, 0.75], [0.5, 0.5]], np.float32)


def test_files_of_a_glue_task():
    info = glue.find_dataset("MRPC")
    files = predictions.result_files(
        info.label_set, info.test[0], "", _GLUE_OUTPUTS
    )
    assert list(files["test_results.tsv"]) == ["0.25\t0.75\n", "0.5\t0.5\n"]
    wanted = "index\tprediction\n0\t1\n1\t0\n"
    assert "".join(files["MRPC.tsv"]) == wanted
    named = list(files["predictions.jsonl"])
    assert json.loads(named[0])["probabilities"] == {"0": 0.25, "1": 0.75}
    mnli = glue.find_dataset("MNLI")
    second = predictions.result_files(
        mnli.label_set,
        mnli.test[1],
        "_mismatched",
        np.eye(3, dtype=np.float32),
    )
    assert "predictions_mismatched.jsonl" in second


def test_files_of_the_user_s_own_data(tmp_path):
    options = sentence_flags.SentenceOptions(
        task_name="custom", data_dir=str(tmp_path), text_a_column="0"
    )
    info = sentence_flags.custom_dataset(
        options, labels.LabelSet(names=("a", "b"))
    )
    files = predictions.result_files(
        info.label_set, info.test[0], "", _GLUE_OUTPUTS
    )
    assert sorted(files) == ["predictions.jsonl", "test_results.tsv"]
    assert '"label": "b"' in next(iter(files["predictions.jsonl"]))


_TWO = labels.LabelSet(names=("no", "yes"))


@pytest.mark.parametrize(
    ("metric", "ids", "expected"),
    [
        # The share of the commonest class.
        (metrics.ACCURACY, [0, 1, 1, 1], 0.75),
        # That of always "yes": precision 1/4, recall 1.
        (metrics.F1, [0, 0, 1, 0], 0.4),
        # That of always "yes", with F1 0 of "no", which does not occur.
        (metrics.MACRO_F1, [1, 1], 0.5),
        (metrics.MATTHEWS, [0, 1, 1], 0.0),
        (metrics.PEARSON, [0, 1, 1], 0.0),
        (metrics.SPEARMAN, [0, 1, 1], 0.0),
    ],
)
def test_metrics_of_a_constant_answer(metric, ids, expected):
    value = predictions.constant_answer(_TWO, metric, ids)
    assert value == pytest.approx(expected)


def test_several_labels_are_those_that_most_rows_have():
    several = labels.LabelSet(
        problem_type=task.MULTI_LABEL, names=("a", "b", "c")
    )
    ids = np.array([[1.0, 0, 0], [1, 1, 0], [1, 0, 0]])
    value = predictions.constant_answer(several, metrics.EXACT_MATCH, ids)
    assert value == pytest.approx(2 / 3)


def test_batches_weigh_the_same_whatever_their_size():
    losses = np.array([1.0, 2.0, 3.0, 4.0, 9.0])
    # Means 1.5, 3.5 and 9; all five together 3.8.
    assert predictions.mean_of_batch_means(losses, 2) == pytest.approx(14 / 3)
    assert predictions.mean_of_batch_means(losses, 5) == pytest.approx(3.8)
