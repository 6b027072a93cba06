"""The order of the labels of a task: by flag, by folder, as released."""

import re

import pytest

from bert.tasks.classification import class_labels, dataset_choice, options

_ALPHABETIC = ("contradiction", "entailment", "neutral")
_OTHER = ("neutral", "entailment", "contradiction")


def _names(task_name="MNLI", stated=None, **flags):
    stated = class_labels.LabelSet(names=stated) if stated else None
    data = options.SentenceOptions(task_name=task_name, data_dir=".", **flags)
    return dataset_choice.find_dataset(data, stated).label_set.names


def test_labels_are_in_the_order_of_the_flag_then_the_folder():
    assert _names() == _ALPHABETIC
    assert _names(stated=_OTHER) == _OTHER
    assert _names(label_names=_OTHER) == _OTHER
    assert _names(label_names=_ALPHABETIC, stated=_OTHER) == _ALPHABETIC
    assert _names("xnli", label_names=_OTHER) == _OTHER
    assert _names("mrpc", stated=("1", "0")) == ("1", "0")


def test_labels_in_other_capitals_are_those_of_the_task():
    assert _names(stated=tuple(map(str.upper, _OTHER))) == _OTHER
    assert _names("RTE", stated=("Not_Entailment", "Entailment")) == (
        *("not_entailment", "entailment"),
    )


def test_labels_of_another_task_change_nothing():
    assert _names(stated=("a", "b", "c")) == _ALPHABETIC
    assert _names(stated=_OTHER[:2]) == _ALPHABETIC
    assert _names("STS-B", stated=("a", "b")) == ()


@pytest.mark.parametrize(
    ("task_name", "names", "allowed"),
    [
        ("MNLI", ("entailment", "neutral"), str(_ALPHABETIC)[1:-1]),
        ("MNLI", (*_OTHER, "neutral"), str(_ALPHABETIC)[1:-1]),
        ("QQP", ("no", "yes"), "'0', '1'"),
        ("STS-B", ("0", "1"), "none: it has scores"),
    ],
)
def test_the_flag_must_list_the_labels_of_the_task(task_name, names, allowed):
    message = re.escape(f"the model's outputs, {allowed}; got '{names[0]}'")
    with pytest.raises(ValueError, match=message):
        _names(task_name, label_names=names)


@pytest.mark.parametrize("task_name", ["custom", "MNLI"])
def test_what_a_row_without_a_label_has_is_that_of_the_flag(task_name):
    data = options.SentenceOptions(
        task_name=task_name,
        data_dir=".",
        text_a_column="text",
        label_column="label",
        label_names=_OTHER,
        missing_labels=("none",),
    )
    label_set = dataset_choice.find_dataset(data).label_set
    assert label_set.is_missing("None") and not label_set.is_missing("nan")


def test_flags_of_the_user_s_own_data_come_before_the_folder():
    stated = class_labels.LabelSet(names=("a", "b"))
    named = {"text_a_column": "text", "label_column": "label"}
    for flags, names, problem_type in (
        ({}, ("a", "b"), "single_label"),
        ({"label_names": ("b", "a")}, ("b", "a"), "single_label"),
        ({"problem_type": "multi_label"}, ("a", "b"), "multi_label"),
    ):
        data = options.SentenceOptions(
            task_name="custom", data_dir=".", **named, **flags
        )
        label_set = dataset_choice.find_dataset(data, stated).label_set
        assert (label_set.names, label_set.problem_type) == (
            names,
            problem_type,
        )
