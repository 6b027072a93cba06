"""Ending a run on request, after what is under way is saved."""

import signal
import sys
import threading

from absl import logging


class Interruption:
    """Turns SIGTERM and Ctrl-C into a request, while it is entered."""

    _SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self):
        self.requested = None

    def __enter__(self):
        self._before = {}
        # Only the main thread of a program may handle signals.
        if threading.current_thread() is threading.main_thread():
            for number in self._SIGNALS:
                self._before[number] = signal.signal(number, self._request)
        return self

    def __exit__(self, *_):
        self._restore()

    def _request(self, number, frame):
        logging.warning(
            "%s: saving after this step. Once more to stop at once.",
            signal.Signals(number).name,
        )
        self.requested = number
        self._restore()

    def _restore(self):
        for number, handler in self._before.items():
            signal.signal(number, handler)


def end(number: int, step: int) -> None:
    """Ends the program as a signal would have done.

    Args:
        number: of the signal.
        step: the last one made, which is saved.
    """
    logging.warning(
        "Stopped by %s after step %d, which is saved. Run the same command "
        "again to go on from there.",
        signal.Signals(number).name,
        step,
    )
    sys.exit(128 + number)
