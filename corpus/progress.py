"""How far a long piece of work is, and how long it will take."""

import datetime
import time
from collections.abc import Callable

from absl import logging

_LOG_EVERY_SECONDS = 5.0
_BAR_CHARACTERS = 30


class Progress:
    """Logs a bar and the time left, every few seconds.

    Args:
        title: what is being done.
        clock: gives seconds.
    """

    def __init__(self, title: str, clock: Callable[[], float] = time.monotonic):
        self._title = title
        self._clock = clock
        self._start = self._logged = clock()

    def update(self, share: float, detail: str = "") -> None:
        """Says how much is done.

        Args:
            share: 0 to 1.
            detail: more to show, such as a count.
        """
        now = self._clock()
        if now - self._logged < _LOG_EVERY_SECONDS or not share:
            return
        self._logged = now
        seconds = round((now - self._start) * (1 - share) / share)
        logging.info(
            "%s [%s] %3.0f %%, %s left%s",
            self._title,
            ("#" * round(share * _BAR_CHARACTERS)).ljust(_BAR_CHARACTERS, "."),
            100 * share,
            datetime.timedelta(seconds=seconds),
            detail and f", {detail}",
        )
