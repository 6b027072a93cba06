"""Progress, durations and log lines."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest
from absl import logging

from bert.files import progress
from tests.support import locations


def test_a_line_is_logged_every_few_seconds(caplog, monkeypatch):
    logging.set_verbosity(logging.INFO)
    now = [100.0]
    # A clock that does not depend on the machine.
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    report = progress.Progress()
    for done in range(0, 101, 10):
        report("words", done, 100)
        now[0] += 2.0
    # 2 seconds for each tenth: due at 6, 12 and 18 seconds.
    assert [line.split()[2] for line in caplog.messages] == [
        "30/100", "60/100", "90/100",
    ]  # fmt: skip
    assert "00:06<00:14" in caplog.messages[0]
    caplog.clear()
    report("windows", 1, 5)  # A new phase begins its own clock.
    assert caplog.messages == []
    report = progress.Progress()
    now[0] += 9.0
    report("words", 1, 2)  # The first began with the report.
    assert "00:09<00:09" in caplog.text


_PROGRAM = """
import dataclasses
from absl import logging
from bert.commands import program
from bert.files import progress

from tests.support import locations

@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    pass

def main(options):
    logging.info("one " * 30)
    with progress.bar(3, title="training") as bar:
        for step in (1, 2, 3):
            bar.update(1)
            logging.warning("careful %d", step)
    progress.bar(5, title="left").update(1)
    logging.error("broken")

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
        env={"PYTHONPATH": str(locations.ROOT)},
        capture_output=True,
        text=True,
        check=True,
    ).stderr


def _on_terminal(script, *arguments, **environment):
    """Returns what a terminal of 60 columns gets."""
    ours, its = pty.openpty()
    size = struct.pack("HHHH", 24, 60, 0, 0)
    fcntl.ioctl(its, termios.TIOCSWINSZ, size)
    with subprocess.Popen(
        _command(script, arguments),
        env={
            "PYTHONPATH": str(locations.ROOT),
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


def test_a_pipe_gets_lines_of_time_and_message(script):
    lines = _piped(script).splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d \S", line) for line in lines)
    assert [line[9:].strip() for line in lines] == [
        ("one " * 30).strip(),
        *(f"WARNING: careful {step}" for step in (1, 2, 3)),
        "ERROR: broken",
    ]


def test_a_terminal_has_a_bar_below_the_log(script):
    shown = _on_terminal(script)
    # The bar is erased, a line is written in its place, and it follows.
    assert re.search(r"\r *\r\d\d:\d\d:\d\d WARNING: careful 2\n", shown)
    assert re.search(r"training: 100%.*3/3", shown)
    assert "ERROR: broken\n" in shown
    assert shown.endswith("\n")


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [((), {"TERM": "dumb"}), (("--verbosity=-1",), {})],
)
def test_a_terminal_has_no_bar_where_none_is_wanted(
    script, arguments, environment
):
    shown = _on_terminal(script, *arguments, **environment)
    assert "ERROR: broken\n" in shown
    assert "training" not in shown
