"""Advice of a run that exceeds the memory, and the layers that it trains."""

import types

import pytest
import tensorflow as tf

from training import failures, run


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
        pytest.raises(failures.OutOfMemoryError) as caught,
        run._memory_advice("a step", run._less_memory(options)),
    ):
        raise error
    assert "memory for a step. The same update" in str(caught.value)
    assert "--num_accumulation_steps=4" in str(caught.value)
    assert caught.value.__cause__ is error
