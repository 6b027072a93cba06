"""Execution modes of formulas."""

import contextlib

import pytest
import tensorflow as tf

from modeling import compilation

_MODES = compilation.ExecutionMode


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_mode_is_that_of_its_scope_alone(is_broken):
    scope = pytest.raises(OSError) if is_broken else contextlib.nullcontext()
    with scope, compilation.in_mode(_MODES.XLA):
        with compilation.in_mode(None):
            assert compilation._mode.get() is None
        assert compilation._mode.get() is _MODES.XLA
        if is_broken:
            raise OSError
    assert compilation._mode.get() is None


@pytest.mark.parametrize("mode", _MODES)
def test_a_pass_is_executed_in_its_mode_and_compiled_in_that_of_xla(mode):
    modes = []

    def double(x):
        modes.append(compilation._mode.get())
        return 2 * x

    run = mode.compiled(double)
    assert run(tf.constant([1.5])).numpy().tolist() == [3.0]
    assert modes == [mode]
    graph = run.get_concrete_function(tf.constant([1.5]))
    is_compiled = graph.function_def.attr["_XlaMustCompile"].b
    assert is_compiled == (mode is _MODES.XLA)
