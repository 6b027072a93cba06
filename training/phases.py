"""How far a long piece of work is, and what it took."""

import contextlib
import resource
import sys
import time
from collections.abc import Iterator

from absl import logging

from training import durations

_LOG_EVERY_SECONDS = 5.0
_BAR_LENGTH = 10


class ProgressLog:
    """Logs a line every few seconds while something is counted up.

    Whole lines, so that a log file reads as well as a terminal. Its objects
    are called as `tasks.word_pieces.Progress` says.
    """

    def __init__(self):
        self._phase = ""
        self._started = self._logged = 0.0

    def __call__(self, phase: str, done: int, total: int) -> None:
        now = time.monotonic()
        if phase != self._phase:
            self._phase = phase
            self._started = self._logged = now
        if now - self._logged < _LOG_EVERY_SECONDS or not done:
            return
        self._logged = now
        left = (now - self._started) * (total - done) / done
        logging.info("%s", progress_line(phase, done, total, left))


def progress_line(phase: str, done: int, total: int, seconds: float) -> str:
    """Formats how far a phase is; `seconds` are left."""
    full = _BAR_LENGTH * done // total
    bar = "█" * full + "·" * (_BAR_LENGTH - full)
    return (
        f"{bar} {phase} {done:,}/{total:,}  {durations.in_words(seconds)} left"
    )


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """Logs the seconds that a piece of work took and the memory so far."""
    started = time.monotonic()
    yield
    logging.info(
        "%s took %.1f s; at most %s MB of memory so far",
        name,
        time.monotonic() - started,
        f"{_peak_megabytes():,.0f}",
    )


def _peak_megabytes() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Kilobytes, but on macOS bytes.
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)
