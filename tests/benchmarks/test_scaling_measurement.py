import json
import os

import pytest

from benchmarks import scaling_measurement


def _report(path, step):
    with path.open("a") as file:
        file.write(json.dumps({"step": step}) + "\n")


def test_seconds_of_steps_are_those_between_their_reports(
    tmp_path, monkeypatch
):
    path = tmp_path / "metrics.jsonl"
    marks = scaling_measurement._Marks(path)
    used = iter([9.0, 10.0, 10.5, 12.0, 99.0])
    monkeypatch.setattr(
        scaling_measurement, "_processor_seconds", lambda _: next(used)
    )
    marks.look(1)  # Before the first report nothing is noted.
    for step in (1, 2, 4, 5, 6):
        _report(path, step)
        marks.look(1)
    assert marks.step_seconds(2, 5) == pytest.approx((12.0 - 10.0) / 3)


def test_half_a_line_is_looked_at_later(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 3')
    marks = scaling_measurement._Marks(path)
    marks.look(os.getpid())
    with pytest.raises(RuntimeError, match="too few steps were seen"):
        marks.step_seconds(2, 5)


def test_processor_and_memory_of_this_process_are_read():
    assert scaling_measurement._processor_seconds(os.getpid()) > 0
    ours = scaling_measurement.memory_bytes(os.getpid())
    assert 1e7 < ours < 1e12
    assert scaling_measurement.memory_bytes(2**22 + 1) == 0


def test_script_that_fails_is_quoted():
    with pytest.raises(RuntimeError, match="no_such_script"):
        scaling_measurement._run(["no_such_script.py"], {})
