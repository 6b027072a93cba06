import errno

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


@pytest.mark.parametrize(
    ("batch_size", "parts", "advice"),
    [
        (12, 1, "--num_accumulation_steps=2 (6 at once)"),
        (12, 2, "--num_accumulation_steps=3 (4 at once)"),
        (15, 3, "--num_accumulation_steps=5 (3 at once)"),
        (15, 5, "--num_accumulation_steps=15 (1 at once)"),
    ],
)
def test_out_of_memory_names_the_next_accumulation(batch_size, parts, advice):
    error = tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")
    with (
        pytest.raises(failures.OutOfMemoryError) as caught,
        failures.of_memory(_STRATEGY, _phase(batch_size, parts)),
    ):
        raise error
    assert advice in str(caught.value)
    assert f"{batch_size // parts} of the {batch_size}" in str(caught.value)
    assert caught.value.__cause__ is error


@pytest.mark.slow
def test_what_tensorflow_says_without_memory_is_understood():
    with (
        pytest.raises(failures.OutOfMemoryError, match="not enough memory"),
        failures.of_memory(_STRATEGY, _phase(12, 1)),
    ):
        # More than any address.
        tf.function(lambda n: tf.zeros([n, n]))(tf.constant(1 << 24))


def test_where_a_batch_cannot_be_parted_other_ways_are_named():
    with (
        pytest.raises(failures.OutOfMemoryError) as caught,
        failures.of_memory(_STRATEGY, _phase(4, 4)),
    ):
        raise MemoryError
    text = str(caught.value)
    assert "1 of the 4 examples" in text
    assert "--recompute" in text
    assert "accumulation" not in text


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
