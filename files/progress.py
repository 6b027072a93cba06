"""Log formats, colors and progress reports.

On a terminal, progress is one line that is redrawn in place below the log;
elsewhere every progress report is a log line.
"""

import logging as python_logging
import os
import shutil
import sys
import time
from collections.abc import Callable
from typing import IO

from absl import logging

from files import messages

_LOG_EVERY_SECONDS = 5.0
_BAR_CHARACTERS = 10
# `full` is absl's: level, date, microseconds, thread, file and line.
SHORT, FULL = FORMATS = ("short", "full")
COLOR_CHOICES = ("auto", "always", "never")
_CLOCK = "%H:%M:%S"
_INDENT = " " * 9
_MOST_COLUMNS = 100
_REDRAW_EVERY_SECONDS = 0.5
_ERASE_LINE = "\r\x1b[K"
_RESET, _DIM, _YELLOW, _RED = (f"\x1b[{n}m" for n in (0, 2, 33, 31))


def has_colors(choice: str, stream: IO[str]) -> bool:
    """Returns whether to write colors to a stream.

    Args:
        choice: one of `COLOR_CHOICES`; "auto" for terminals, unless the
            variable `NO_COLOR` is set (no-color.org).
        stream: the output stream.
    """
    if choice != "auto":
        return choice == "always"
    return is_redrawable(stream) and not os.environ.get("NO_COLOR")


def is_redrawable(stream: IO[str]) -> bool:
    """Returns whether lines of a stream can be redrawn."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def use_format(log_format: str) -> None:
    """Sets the log format of this process.

    Args:
        log_format: one of `FORMATS`.
    """
    if log_format == FULL:
        return
    stream = sys.stderr
    handler = logging.get_absl_handler().python_handler
    if handler.stream is stream and is_redrawable(stream):
        _progress.stream = stream
    formatter = _Formatter(has_colors=has_colors("auto", stream))
    handler.setFormatter(formatter)


def log_paragraph(text: str) -> None:
    """Logs a long text in lines of at most 100 columns."""
    width = _MOST_COLUMNS - len(_INDENT)
    logging.info("%s", messages.wrapped(text, width, "  "))


def report(text: str) -> None:
    """Reports progress: in place on a terminal, else as a log line."""
    if _progress.stream and logging.level_info():
        _progress.draw(text)
    else:
        logging.info("%s", text)


def animate(make_text: Callable[[], str]) -> None:
    """Redraws the progress line of a terminal, a few times a second at most.

    Args:
        make_text: returns the line; called only when it is redrawn.
    """
    if _progress.is_due() and logging.level_info():
        _progress.draw(make_text())


def keep() -> None:
    """Ends the progress line of a terminal, leaving it in place."""
    if _progress.is_drawn:
        _progress.write("\n")


class _ProgressLine:
    """The progress line of a terminal."""

    def __init__(self):
        self.stream: IO[str] | None = None  # None if it is not a terminal.
        self.is_drawn = False
        self._drawn_at = 0.0

    def is_due(self) -> bool:
        now = time.monotonic()
        return bool(self.stream) and (
            now - self._drawn_at >= _REDRAW_EVERY_SECONDS
        )

    def draw(self, text: str) -> None:
        self.write(_ERASE_LINE + text[: _num_columns() - 1])
        self.is_drawn = True
        self._drawn_at = time.monotonic()

    def write(self, text: str) -> None:
        if self.stream:
            self.stream.write(text)
            self.stream.flush()
        self.is_drawn = False


_progress = _ProgressLine()


def _num_columns() -> int:
    return shutil.get_terminal_size().columns


class _Formatter(python_logging.Formatter):
    """A formatter of time, message, and the level of warnings and errors."""

    def __init__(self, *, has_colors: bool):
        super().__init__()
        self._has_colors = has_colors

    def format(self, record: python_logging.LogRecord) -> str:
        message = super().format(record)
        if record.levelno > python_logging.INFO:
            message = f"{record.levelname}: {message}"
        clock = time.strftime(_CLOCK, time.localtime(record.created))
        text = f"{clock} {message}"
        if _progress.stream:
            text = "\n".join(
                messages.wrapped(line, _num_columns(), _INDENT)
                if len(line) > _num_columns()
                else line
                for line in text.split("\n")
            )
            if _progress.is_drawn:
                _progress.write(_ERASE_LINE)
        return self._colored(text, record.levelno) if self._has_colors else text

    def _colored(self, text: str, level: int) -> str:
        clock, message = text[: len(_INDENT)], text[len(_INDENT) :]
        color = {python_logging.WARNING: _YELLOW, python_logging.ERROR: _RED}
        if level in color:
            message = f"{color[level]}{message}{_RESET}"
        return f"{_DIM}{clock}{_RESET}{message}"


class Progress:
    """A progress reporter that logs every few seconds."""

    def __init__(self):
        self._phase = ""
        self._started = self._logged = time.monotonic()

    def __call__(
        self,
        phase: str,
        done: float,
        total: float | None = None,
        detail: str = "",
    ) -> None:
        """Records the progress of a phase.

        Args:
            phase: its name; the first starts when this object is created.
            done: the count so far, or the completed share if `total` is 1.
            total: the final count, if known.
            detail: additional text, such as another count.
        """
        now = time.monotonic()
        if phase != self._phase:
            if self._phase:
                self._started = self._logged = now
            self._phase = phase
        if not done or now == self._started:
            return

        def text() -> str:
            told = line(phase, done, total, now - self._started)
            return f"{told}, {detail}" if detail else told

        if now - self._logged < _LOG_EVERY_SECONDS:
            animate(text)
            return
        self._logged = now
        report(text())


def line(phase: str, done: float, total: float | None, seconds: float) -> str:
    """Formats the progress of a phase after some seconds."""
    if not total:
        return f"{phase} {done:,}  {done / seconds:,.1f}/s"
    share = done / total
    amount = f"{share:.0%}" if total == 1 else f"{done:,}/{total:,}"
    left = duration(seconds * (1 - share) / share)
    return f"{bar(share)} {phase} {amount}  {left} left"


def bar(share: float) -> str:
    """Formats a share from 0 to 1 as a bar of text."""
    full = int(_BAR_CHARACTERS * share)
    return "█" * full + "·" * (_BAR_CHARACTERS - full)


def duration(seconds: float) -> str:
    """Formats seconds as `1d 02h`, `3h 04m`, `5m 06s` or `7s`."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d {hours:02}h"
    if hours:
        return f"{hours}h {minutes:02}m"
    if minutes:
        return f"{minutes}m {seconds:02}s"
    return f"{seconds}s"
