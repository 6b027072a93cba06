"""Profiles of steps; the profiler itself is TensorFlow's."""

import pytest
import tensorflow as tf

from bert.training import profiling
from tests.support import toy_pretraining as toy


@pytest.fixture
def calls(monkeypatch):
    """Notes when the profiler starts and stops, once in a process."""
    made = []
    monkeypatch.setattr(tf.profiler.experimental, "start", made.append)
    monkeypatch.setattr(
        tf.profiler.experimental, "stop", lambda: made.append("stop")
    )
    return made


def _run(first_and_last, steps, calls):
    with profiling.Profile("out", first_and_last) as profile:
        for step in steps:
            with profile.of(step):
                calls.append(step)
    return calls


def test_a_profile_has_its_steps_and_no_others(calls):
    made = _run((3, 5), range(1, 8), calls)
    assert made == [1, 2, "out", 3, 4, 5, "stop", 6, 7]


def test_a_resumed_run_profiles_what_is_left_of_them(calls):
    assert _run((3, 5), range(4, 7), calls) == ["out", 4, 5, "stop", 6]
    calls.clear()
    assert _run((3, 5), range(6, 8), calls) == [6, 7]


def test_a_run_that_ends_before_the_last_step_writes_its_profile(calls):
    assert _run((3, 5), range(1, 5), calls) == [1, 2, "out", 3, 4, "stop"]


def test_without_the_flag_there_is_no_profile(calls):
    assert _run(None, range(1, 4), calls) == [1, 2, 3]


def test_a_run_writes_a_profile_of_its_steps(tmp_path):
    toy.run(tmp_path, num_train_steps=3, profile_steps="2,2")
    found = list(tmp_path.rglob("*.xplane.pb"))
    assert len(found) == 1
    assert found[0].is_relative_to(tmp_path / "out")
