"""Progress, durations and log lines."""

import os
import pathlib
import pty
import re
import subprocess
import sys

import pytest
from absl import logging

from files import progress


def test_a_line_shows_progress_and_time_left():
    assert progress.line("windows", 2500, 10000, 61.0 / 3) == (
        "██········ windows 2,500/10,000  1m 01s left"
    )
    assert progress.line("text", 0.5, 1, 7.0) == "█████····· text 50%  7s left"
    assert progress.line("lines", 2500, None, 2.0) == "lines 2,500  1,250.0/s"


def test_a_line_is_logged_every_few_seconds(caplog, monkeypatch):
    logging.set_verbosity(logging.INFO)
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    report = progress.Progress()
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


def test_no_progress_shows_no_time_left(caplog, monkeypatch):
    times = iter([0.0, 100.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(times))
    progress.Progress()("words", 0, 5)
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


_ROOT = pathlib.Path(__file__).parents[2]
_PROGRAM = """
import dataclasses
from absl import logging
from commands import program
from files import progress

@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    pass

def main(options):
    logging.info("one " * 30)
    for step in (1, 2):
        progress.report(f"step {step} " + 100 * ".")
    logging.warning("careful")
    progress.animate(lambda: "too early to redraw")
    progress.report("step 3")
    logging.error("broken")
    progress.report("step 4")

program.start(Options, main)
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("script") / "shown.py"
    path.write_text(_PROGRAM)
    return path


def _command(script, arguments):
    return [sys.executable, str(script), *arguments]


def _piped(script, *arguments):
    return subprocess.run(
        _command(script, arguments),
        env={"PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        check=True,
    ).stderr


def _on_terminal(script, *arguments, **environment):
    """Returns what a terminal of 40 columns gets."""
    ours, its = pty.openpty()
    with subprocess.Popen(
        _command(script, arguments),
        env={
            "PYTHONPATH": str(_ROOT),
            "COLUMNS": "40",
            "TERM": "xterm",
            **environment,
        },
        stderr=its,
    ):
        os.close(its)
        read = b""
        try:
            while part := os.read(ours, 1000):
                read += part
        except OSError:  # The other side is closed.
            pass
    os.close(ours)
    return read.decode().replace("\r\n", "\n")


def test_a_pipe_gets_time_and_message_and_a_line_for_each_report(script):
    lines = _piped(script).splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d \S", line) for line in lines)
    messages = [line[9:].strip() for line in lines]
    assert messages[0] == ("one " * 30).strip()
    assert [m.rstrip(". ") for m in messages[1:]] == [
        *("step 1", "step 2", "WARNING: careful"),
        *("step 3", "ERROR: broken", "step 4"),
    ]


def test_a_terminal_has_one_line_of_progress_below_the_log(script):
    shown = _on_terminal(script, NO_COLOR="1")
    shown = re.sub(r"\d\d:\d\d:\d\d", "TIME", shown)
    erase = "\r\x1b[K"
    dots = "." * (39 - len("step 1 "))
    words = [" ".join(["one"] * number) for number in (8, 8, 8, 6)]
    assert shown.split(erase) == [
        "TIME " + ("\n" + " " * 9).join(words) + "\n",
        f"step 1 {dots}",
        f"step 2 {dots}",
        "TIME WARNING: careful\n",
        "step 3",
        "TIME ERROR: broken\n",
        "step 4\n",
    ]


def test_colors_are_for_terminals_that_want_them(script):
    shown = _on_terminal(script)
    assert "\x1b[33mWARNING: careful\x1b[0m" in shown
    assert "\x1b[31mERROR: broken\x1b[0m" in shown
    assert "\x1b" not in _on_terminal(script, TERM="dumb")
    assert "\x1b" not in _piped(script)


def test_the_full_form_is_absls(script):
    line = r"I\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ shown\.py:\d+\] one "
    assert re.match(line, _piped(script, "--log_format=full"))
    assert "\x1b" not in _on_terminal(script, "--log_format=full")


def test_programs_with_low_verbosity_show_no_progress(script):
    shown = _on_terminal(script, "--verbosity=-1", NO_COLOR="1")
    assert "step" not in shown and "careful" in shown
