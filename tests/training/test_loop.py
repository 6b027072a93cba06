"""Signals and memory errors of the training loop."""

import signal
import types

import pytest
import tensorflow as tf

from training import loop


@pytest.fixture(params=["SIGTERM", "SIGHUP"])
def number(request):
    """Yields a signal whose handlers are restored afterwards."""
    number = signal.Signals[request.param]
    before = signal.getsignal(number)
    yield number
    signal.signal(number, before)


def test_a_signal_is_a_request_and_its_handler_is_restored_once(number):
    signal.signal(number, lambda *_: signal.signal(number, signal.SIG_DFL))
    with loop.Interruption() as stop:
        assert stop.requested == 0
        signal.raise_signal(number)
        assert stop.requested == number
        signal.raise_signal(number)  # Restores the default.
    assert signal.getsignal(number) == signal.SIG_DFL


def test_an_ignored_signal_stays_ignored(number):
    signal.signal(number, signal.SIG_IGN)
    with loop.Interruption() as stop:
        signal.raise_signal(number)
        assert stop.requested == 0


@pytest.mark.parametrize(
    "error",
    [
        tf.errors.ResourceExhaustedError(None, None, "OOM when allocating"),
        MemoryError(),
    ],
)
def test_out_of_memory_names_the_way_out(error):
    options = types.SimpleNamespace(num_accumulation_steps=2)
    with (
        pytest.raises(loop.OutOfMemoryError) as caught,
        loop._memory_advice(options),
    ):
        raise error
    assert "--num_accumulation_steps=4" in str(caught.value)
    assert caught.value.__cause__ is error
