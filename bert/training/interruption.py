"""Signals that end a training after its current step."""

import signal
import sys
import threading
import types
from collections.abc import Callable
from typing import Self

from absl import logging

# `signal.signal` takes and returns a handler.
_Handler = (
    Callable[[int, types.FrameType | None], object]
    | int
    | signal.Handlers
    | None
)


class Interruption:
    """Turns signals into a request, while it is entered.

    SIGTERM, SIGHUP and Ctrl-C are those of users and shells; SIGUSR1, SIGUSR2
    and SIGXCPU those of schedulers, before the end of a job. A signal that is
    ignored, as SIGHUP by `nohup`, stays ignored.

    Attributes:
        requested: the number of the signal; 0 if none came.
    """

    _SIGNALS = (
        signal.SIGTERM,
        signal.SIGINT,
        signal.SIGHUP,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGXCPU,
    )

    def __init__(self) -> None:
        self.requested = 0
        self._before: dict[int, _Handler] = {}

    def __enter__(self) -> Self:
        # Only the main thread of a program may handle signals.
        if threading.current_thread() is threading.main_thread():
            for number in self._SIGNALS:
                if signal.getsignal(number) != signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._request)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _request(self, number: int, frame: types.FrameType | None) -> None:
        logging.warning(
            "%s: saving after this step or evaluation. Repeat the signal to "
            "stop at once.",
            signal.Signals(number).name,
        )
        self.requested = number
        self._restore()

    def _restore(self) -> None:
        # Once: a signal may replace the handlers that were restored.
        while self._before:
            signal.signal(*self._before.popitem())


def exit_by(number: int, step: int) -> None:
    """Ends the program with the exit status of a signal.

    Args:
        number: of the signal.
        step: the last step, which is saved; 0 if none was made.
    """
    logging.warning(
        "Stopped by %s %s. Run the same command again to resume.",
        signal.Signals(number).name,
        f"after step {step}, which is saved"
        if step
        else "before the first step",
    )
    sys.exit(128 + number)
