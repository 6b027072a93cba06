"""Progress lines and durations."""

import pytest
from absl import logging

from files import progress


def test_a_line_shows_progress_and_time_left():
    assert progress.line("windows", 2500, 10000, 61.0 / 3) == (
        "██········ windows 2,500/10,000  1m 01s left"
    )
    assert progress.line("text", 0.5, 1, 7.0) == "█████····· text 50%  7s left"
    assert progress.line("lines", 2500, None, 2.0) == "lines 2,500  1,250.0/s"


def test_a_line_is_logged_every_few_seconds(caplog):
    logging.set_verbosity(logging.INFO)
    now = [100.0]
    report = progress.Progress(clock=lambda: now[0])
    for done in range(0, 101, 10):
        report("words", done, 100, f"at {done}")
        now[0] += 2.0
    # 2 seconds for each tenth: due at 6, 12 and 18 seconds.
    assert [line.split()[2] for line in caplog.messages] == [
        "30/100", "60/100", "90/100",
    ]  # fmt: skip
    assert caplog.messages[0].endswith("14s left, at 30")
    caplog.clear()
    report("windows", 1, 5)  # A new phase begins its own clock.
    assert caplog.messages == []


def test_no_progress_shows_no_time_left(caplog):
    times = iter([0.0, 100.0])
    progress.Progress(clock=lambda: next(times))("words", 0, 5)
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (59.4, "59s"),
        (59.6, "1m 00s"),
        (306, "5m 06s"),
        (3600 * 3 + 240, "3h 04m"),
        (86400 + 7200, "1d 02h"),
    ],
)
def test_durations_in_words(seconds, text):
    assert progress.duration(seconds) == text
