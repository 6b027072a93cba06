import errno
import re
import signal

import pytest
import tensorflow as tf

from training import checkpointing, failures, input_pipeline

_STRATEGY = tf.distribute.OneDeviceStrategy("/CPU:0")


def _phase(batch_size, parts):
    return input_pipeline.BatchPhase(
        source=None,
        order=None,
        batch_size=batch_size,
        num_accumulation_steps=parts,
    )


_OOM = tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")


@pytest.mark.parametrize(
    ("error", "batch_size", "parts", "advice"),
    [
        (_OOM, 12, 1, "--num_accumulation_steps=2 (6 at once)"),
        (_OOM, 12, 2, "--num_accumulation_steps=3 (4 at once)"),
        (_OOM, 15, 3, "--num_accumulation_steps=5 (3 at once)"),
        (_OOM, 15, 5, "--num_accumulation_steps=15 (1 at once)"),
        # A batch that cannot be parted any further.
        (MemoryError(), 4, 4, "--recompute"),
    ],
)
def test_out_of_memory_names_the_way_out(error, batch_size, parts, advice):
    with (
        pytest.raises(failures.OutOfMemoryError) as caught,
        failures.of_memory(_STRATEGY, _phase(batch_size, parts)),
    ):
        raise error
    text = str(caught.value)
    assert advice in text
    assert f"{batch_size // parts} of the {batch_size}" in text
    assert ("accumulation" in text) == (batch_size > parts)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    ("parts", "advice"),
    [
        (2, "num_accumulation_steps=3 in that phase of --phases (4 at once)."),
        (12, "minimum: pass a smaller --max_seq_length or model."),
    ],
)
def test_out_of_memory_names_no_way_that_is_taken(parts, advice):
    with (
        pytest.raises(failures.OutOfMemoryError, match=re.escape(advice)) as e,
        failures.of_memory(
            _STRATEGY, _phase(12, parts), recompute=True, in_phases=True
        ),
    ):
        raise MemoryError
    assert "recompute" not in str(e.value)


@pytest.mark.slow
def test_what_tensorflow_says_without_memory_is_understood():
    with (
        pytest.raises(failures.OutOfMemoryError, match="not enough memory"),
        failures.of_memory(_STRATEGY, _phase(12, 1)),
    ):
        # More than any address.
        tf.function(lambda n: tf.zeros([n, n]))(tf.constant(1 << 24))


@pytest.mark.parametrize("is_saved", [False, True])
def test_what_cannot_be_written_is_explained(tmp_path, is_saved):
    if is_saved:
        checkpointing.save(
            str(tmp_path), 3, {"w": tf.Variable(1.0)}, state={}, keep=1
        )
    with (
        pytest.raises(failures.WritingError) as caught,
        failures.of_writing(str(tmp_path)),
    ):
        raise OSError(errno.ENOSPC, "No space left. Write elsewhere.")
    message = str(caught.value)
    assert ": [Errno 28] No space left. Write elsewhere. The" in message
    assert "MB are free" in message
    assert ("model.ckpt-3, is complete" in message) == is_saved
    assert ("no checkpoint yet" in message) != is_saved


def test_handlers_are_restored_once():
    before = signal.signal(
        signal.SIGTERM, lambda *_: signal.signal(signal.SIGTERM, signal.SIG_DFL)
    )
    try:
        with failures.Interruption() as stop:
            signal.raise_signal(signal.SIGTERM)
            assert stop.requested == signal.SIGTERM
            signal.raise_signal(signal.SIGTERM)  # Restores the default.
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
