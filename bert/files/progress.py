"""Log format and progress: bars of tqdm in a terminal, else log lines."""

import logging as python_logging
import os
import sys
import time

import tqdm
from absl import logging
from tqdm import contrib

_LOG_EVERY_SECONDS = 5.0


def in_terminal() -> bool:
    """Returns whether progress is shown as a bar."""
    is_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return is_terminal and logging.level_info()


def bar(
    total: float | None, *, initial: float = 0, title: str, unit: str = "step"
) -> tqdm.tqdm:
    """Makes a progress bar of tqdm, which shows nothing outside a terminal.

    Args:
        total: the final count, if known.
        initial: the count at the start.
        title: the text before the bar.
        unit: the word for one of those counted.
    """
    return tqdm.tqdm(
        total=total,
        initial=initial,
        desc=title,
        unit=unit,
        disable=not in_terminal(),
        dynamic_ncols=True,
    )


def keep() -> None:
    """Ends the bars that are left at the end of a program."""
    for left in list(getattr(tqdm.tqdm, "_instances", ())):
        left.close()


def use_short_lines() -> None:
    """Logs lines of time and message in this process."""
    handler = logging.get_absl_handler().python_handler
    handler.setFormatter(_Formatter(datefmt="%H:%M:%S"))
    if handler.stream is sys.stderr and in_terminal():
        # Its lines stand above progress bars.
        handler.stream = contrib.DummyTqdmFile(sys.stderr)


class _Formatter(python_logging.Formatter):
    """A formatter of time, message, and the level of warnings and errors."""

    def format(self, record: python_logging.LogRecord) -> str:
        message = super().format(record)
        if record.levelno > python_logging.INFO:
            message = f"{record.levelname}: {message}"
        return f"{self.formatTime(record, self.datefmt)} {message}"


class Progress:
    """The progress of phases of work that follow each other."""

    def __init__(self) -> None:
        self._phase = ""
        self._started = self._logged = time.monotonic()
        self._bar: tqdm.tqdm | None = None

    def __call__(
        self, phase: str, done: float, total: float | None = None
    ) -> None:
        """Records the progress of a phase.

        Args:
            phase: its name; the first starts when this object is created.
            done: the count so far, or the completed share if `total` is 1.
            total: the final count, if known.
        """
        now = time.monotonic()
        if phase != self._phase:
            if self._bar:
                self._bar.close()
            if self._phase:
                self._started = self._logged = now
            self._phase = phase
            self._bar = bar(total, title=phase, unit="") if total else None
        if self._bar:
            self._bar.update(done - self._bar.n)
            if done == total:
                self._bar.close()
        if in_terminal() and total:
            return
        if done and now - self._logged >= _LOG_EVERY_SECONDS:
            self._logged = now
            text = tqdm.tqdm.format_meter(
                round(done, 2),
                total,
                now - self._started,
                ncols=0,
                prefix=phase,
                unit="",
            )
            logging.info("%s", text)
