"""The steps of a run, and when it saves and evaluates."""

import pytest

from bert.training import length as length_lib


def _length(**changes):
    return length_lib.Length(num_train_steps=10, **changes)


def test_a_command_ends_at_its_own_step_or_that_of_the_run():
    assert _length().end == 10
    assert _length(stop_at_step=7).end == 7
    assert _length(stop_at_step=12).end == 10


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({}, []),
        ({"eval_every_steps": 4}, [4, 8, 10]),
        ({"eval_every_steps": 4, "stop_at_step": 6}, [4, 6, 8]),
        # Epochs of 1.25, 2.5 and 0.75 steps: each is complete after a step.
        (
            {"eval_every_examples": 20, "batch_size": 16},
            [2, 3, 4, 5, 7, 8, 9, 10],
        ),
        ({"eval_every_examples": 10, "batch_size": 4}, [3, 5, 8, 10]),
        ({"eval_every_examples": 5, "batch_size": 2}, [3, 5, 8, 10]),
        ({"eval_every_examples": 3, "batch_size": 4}, [*range(1, 11)]),
    ],
)
def test_evaluations_come_at_their_interval_and_the_end_not_at_the_start(
    changes, steps
):
    length = _length(**changes)
    assert [*filter(length.evaluates_at, range(11))] == steps


def test_an_event_of_several_intervals_is_due_at_each_and_at_the_end():
    length = _length()
    due = [step for step in range(1, 11) if length.is_due(step, 4, 0, 3)]
    assert due == [3, 4, 6, 8, 9, 10]
    assert [step for step in range(1, 11) if length.is_due(step, 0)] == [10]
