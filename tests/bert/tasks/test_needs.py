"""The facts that each task needs."""

import dataclasses

import pytest

from bert.models import description as description_lib
from bert.models import folder as folder_lib
from bert.tasks import needs

_CASING = description_lib.Description(do_lower_case=True)


def _missing(has_outputs=False, **entries):
    description = dataclasses.replace(_CASING, **entries)
    return {*needs.missing_entries(description, has_outputs=has_outputs)}


def test_scores_need_no_labels():
    entries = {"task": "classification", "problem_type": "regression"}
    assert _missing(**entries) == {"max_seq_length"}
    assert _missing(**entries | {"max_seq_length": 8}) == set()


def test_the_casing_is_always_needed():
    assert needs.missing_entries(
        description_lib.Description(), has_outputs=False
    ) == ("do_lower_case",)


@pytest.mark.parametrize("task", description_lib.WITH_LABELS)
def test_there_must_be_a_label_for_each_output(tmp_path, task):
    model = folder_lib.ModelFolder.open(str(tmp_path / "run"), is_folder=True)
    variables = {"output_weights": ((3, 8), "float32")}
    described = dataclasses.replace(
        _CASING,
        task=task,
        problem_type="single_label",
        max_seq_length=8,
        labels=("a", "b", "c"),
    )
    needs.check_answerable(model, described, variables)
    two = dataclasses.replace(described, labels=("a", "b"))
    with pytest.raises(ValueError, match="run: the model has 3 outputs; got 2"):
        needs.check_answerable(model, two, variables)


@pytest.mark.parametrize(
    ("variables", "architectures", "task", "problem_type"),
    [
        ({"output_bias": (1,)}, (), "classification", "regression"),
        ({"output_bias": (2,)}, (), None, None),
        (
            {"output_bias": (1,)},
            ("BertForTokenClassification",),
            "tagging",
            None,
        ),
        (
            {"output_bias": (2,)},
            ("BertForSequenceClassification",),
            "classification",
            None,
        ),
        (
            {"cls/squad/output_weights": (2, 8)},
            (),
            "question_answering",
            None,
        ),
        ({"cls/predictions/output_bias": (9,)}, (), "pretraining", None),
        ({"bert/pooler/dense/bias": (8,)}, (), None, None),
    ],
)
def test_weights_show_their_task_by_their_output_layer(
    variables, architectures, task, problem_type
):
    specs = {name: (shape, "float32") for name, shape in variables.items()}
    if "output_bias" in specs:
        specs["output_weights"] = ((*variables["output_bias"], 8), "float32")
    shown = needs.inferred_from_weights(specs, architectures)
    assert (shown.task, shown.problem_type) == (task, problem_type)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"activation": "tanh"}, "must be identity or sigmoid; got 'tanh'"),
        ({"labels": ("x", "y")}, r"2 outputs \('x', 'y'\)\. Several scores"),
        ({}, r"2 outputs\. Several scores"),
    ],
)
def test_only_one_score_of_a_known_activation_is_answered(changes, message):
    score = description_lib.Description(problem_type="regression")
    needs.check_outputs(score, 1, "run")
    for activation in ("identity", "sigmoid"):
        stated = dataclasses.replace(score, activation=activation)
        needs.check_outputs(stated, 1, "run")
    other = dataclasses.replace(score, **changes)
    with pytest.raises(ValueError, match=message):
        needs.check_outputs(other, 1 if "activation" in changes else 2, "run")
