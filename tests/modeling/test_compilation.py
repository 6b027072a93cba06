"""Execution modes of formulas."""

import contextlib

import pytest

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
