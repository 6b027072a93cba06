"""Signals that end a training after its current step."""

import signal
from concurrent import futures

import pytest

from bert.training import interruption


@pytest.fixture(params=["SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU"])
def number(request):
    """Yields a signal whose handlers are restored afterwards."""
    number = signal.Signals[request.param]
    before = signal.getsignal(number)
    yield number
    signal.signal(number, before)


def test_a_signal_is_a_request_and_its_handler_is_restored_once(number):
    signal.signal(number, lambda *_: signal.signal(number, signal.SIG_DFL))
    with interruption.Interruption() as stop:
        assert stop.requested == 0
        signal.raise_signal(number)
        assert stop.requested == number
        signal.raise_signal(number)  # Restores the default.
    assert signal.getsignal(number) == signal.SIG_DFL


def test_a_training_in_another_thread_handles_no_signals(number):
    before = signal.getsignal(number)

    def train():
        with interruption.Interruption() as stop:
            return stop.requested, signal.getsignal(number)

    with futures.ThreadPoolExecutor(1) as pool:
        assert pool.submit(train).result() == (0, before)


def test_a_stopped_program_has_the_exit_status_of_its_signal():
    with pytest.raises(SystemExit) as stopped:
        interruption.exit_by(signal.SIGTERM, 3)
    assert stopped.value.code == 143


def test_a_program_that_made_no_step_says_that_nothing_is_saved(caplog):
    with pytest.raises(SystemExit):
        interruption.exit_by(signal.SIGTERM, 0)
    assert "Stopped by SIGTERM before the first step." in caplog.text


def test_an_ignored_signal_stays_ignored(number):
    signal.signal(number, signal.SIG_IGN)
    with interruption.Interruption() as stop:
        signal.raise_signal(number)
        assert stop.requested == 0
