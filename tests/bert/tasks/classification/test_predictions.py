"""Answers, pooled windows and the files of predictions."""

import csv
import io
import json

import numpy as np
import pytest

from bert.tasks.classification import (
    class_labels,
    predictions,
    text_examples,
)
from tests.support import locations, toy_files

_GOLDEN = locations.GOLDEN / "classifier"
_CLASSES = class_labels.LabelSet(names=("no", "so-so", "yes"))
_SEVERAL = class_labels.LabelSet(names=("p", "q"), problem_type="multi_label")
_SCORE = class_labels.LabelSet(problem_type="regression")


def _float32(*rows):
    return np.array(rows, np.float32)


def test_windows_of_a_text_are_averaged():
    outputs = _float32([0.2, 0.8], [0.4, 0.6], [1, 0], [0, 1], [0.5, 0.5])
    pooled = predictions.pool_windows(outputs, [2, 1, 2])
    expected = _float32([0.3, 0.7], [1, 0], [0.25, 0.75])
    np.testing.assert_allclose(pooled, expected, atol=1e-6)
    assert pooled.dtype == np.float32
    assert predictions.pool_windows(outputs, [1] * 5) is outputs


def test_class_is_the_most_probable_and_the_first_at_a_tie():
    outputs = _float32([0.1, 0.2, 0.7], [0.4, 0.4, 0.2])
    assert predictions.decide(_CLASSES, outputs).tolist() == [2, 0]
    assert predictions.predicted_labels(_CLASSES, outputs) == ["yes", "no"]


def test_several_labels_are_those_of_at_least_one_half():
    outputs = _float32([0.5, 0.49], [0.9, 0.9], [0, 0])
    answers = predictions.predicted_labels(_SEVERAL, outputs)
    assert answers == [("p",), ("p", "q"), ()]


def test_results_are_spelled_as_the_release_spells_them():
    results = toy_files.read_json(_GOLDEN / "mrpc_results.json")
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
    example = text_examples.InputExample(text_a="a", text_b="b", row=7)
    (line,) = predictions.prediction_lines(label_set, outputs, [example])
    assert line.endswith("\n")
    texts = {"text_a": "a", "text_b": "b"}
    assert json.loads(line) == {**expected, "row": 7, **texts}


def _examples(*labels_of_rows, **texts):
    return [
        text_examples.InputExample(
            text_a=f'né, "{row}"', label=label, row=row, **texts
        )
        for row, label in enumerate(labels_of_rows)
    ]


def test_lines_are_numbered_and_names_stay_readable():
    label_set = class_labels.LabelSet(names=("né", "中"))
    lines = predictions.prediction_lines(
        label_set,
        _float32([0.75, 0.25], [0.25, 0.75]),
        _examples("né", "né"),
    )
    for row, (name, line) in enumerate(zip(("né", "中"), lines, strict=True)):
        assert line.startswith(f'{{"row": {row}, "label": "{name}", ')


@pytest.mark.parametrize(
    ("label_set", "outputs", "label", "expected"),
    [
        (
            _CLASSES,
            _float32([0.1, 0.2, 0.7], [0.8, 0.1, 0.1]),
            "so-so",
            [
                ["label", "prediction", "probability"],
                ["so-so", "yes", "0.7"],
                ["", "no", "0.8"],
            ],
        ),
        (
            _SEVERAL,
            _float32([0.6, 0.7], [0.1, 0.2]),
            ("q",),
            [["label", "prediction"], ["q", "p,q"], ["", ""]],
        ),
        (
            _SCORE,
            _float32([2.3], [0.1]),
            2.5,
            [["label", "prediction"], ["2.5", "2.3"], ["", "0.1"]],
        ),
    ],
)
def test_table_has_texts_labels_and_answers(
    label_set, outputs, label, expected
):
    def table(examples, **options):
        text = "".join(
            predictions.table_lines(label_set, outputs, examples, **options)
        )
        mark, text = text[0], text[1:]
        assert mark == "\ufeff"
        return list(csv.reader(io.StringIO(text, newline="")))

    rows = table(_examples(label, None), has_labels=True)
    assert [row[2:] for row in rows] == expected
    assert [row[:2] for row in rows] == [
        ["row", "text_a"],
        ["0", 'né, "0"'],
        ["1", 'né, "1"'],
    ]
    rows = table(_examples("", "", text_b="b"), has_labels=False)
    assert rows[0][:4] == ["row", "text_a", "text_b", "prediction"]
