"""Progress reports in the log."""

import time
from collections.abc import Callable

from files import log_lines

_LOG_EVERY_SECONDS = 5.0
_BAR_CHARACTERS = 10


class Progress:
    """A progress reporter that logs every few seconds.

    Args:
        clock: returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._phase = ""
        self._started = self._logged = clock()

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
        now = self._clock()
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
            log_lines.animate(text)
            return
        self._logged = now
        log_lines.report(text())


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
