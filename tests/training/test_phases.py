"""Progress lines and the time of phases."""

import re

from absl import logging

from training import phases


def test_a_progress_line_says_how_far_and_how_long():
    line = phases.progress_line("windows", 2500, 10000, 61.0)
    assert line == "██········ windows 2,500/10,000  1m 01s left"


def test_progress_is_logged_every_few_seconds(monkeypatch, caplog):
    now = [100.0]
    monkeypatch.setattr(phases.time, "monotonic", lambda: now[0])
    logging.set_verbosity(logging.INFO)
    log = phases.ProgressLog()
    for done in range(0, 101, 10):
        log("words", done, 100)
        now[0] += 2.0
    lines = [record.getMessage() for record in caplog.records]
    # 2 seconds for each tenth: due at 6, 12 and 18 seconds.
    assert [line.split()[2] for line in lines] == ["30/100", "60/100", "90/100"]
    assert lines[0].endswith("14s left")
    caplog.clear()
    log("windows", 1, 5)  # A new phase begins its own clock.
    assert caplog.records == []


def test_a_phase_logs_its_seconds_and_memory(caplog):
    logging.set_verbosity(logging.INFO)
    with phases.phase("Cutting windows"):
        pass
    (line,) = (record.getMessage() for record in caplog.records)
    match = re.fullmatch(
        r"Cutting windows took 0\.0 s; at most ([\d,]+) MB of memory so far",
        line,
    )
    assert int(match.group(1).replace(",", "")) > 10
