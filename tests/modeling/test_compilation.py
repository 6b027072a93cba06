"""Execution modes of formulas."""

import pytest
import tensorflow as tf

from modeling import compilation

_MODES = compilation.ExecutionMode


@pytest.mark.parametrize("mode", _MODES)
def test_a_pass_is_compiled_in_the_mode_of_xla(mode):
    run = mode.compiled(lambda x: 2 * x)
    assert run(tf.constant([1.5])).numpy().tolist() == [3.0]
    graph = run.get_concrete_function(tf.constant([1.5]))
    is_compiled = graph.function_def.attr["_XlaMustCompile"].b
    assert is_compiled == (mode is _MODES.XLA)
