"""The examples of docstrings are true."""

import doctest
import importlib
import re

import pytest

from tests.support import locations

_EXAMPLE = re.compile(r"^ +>>> ", re.MULTILINE)
_MODULES = sorted(
    ".".join(path.relative_to(locations.ROOT).with_suffix("").parts)
    for room in ("bert", "modeling", "vocab", "paper")
    for path in (locations.ROOT / room).rglob("*.py")
    if _EXAMPLE.search(path.read_text(encoding="utf-8"))
)


@pytest.mark.parametrize("name", _MODULES)
def test_the_examples_of_a_module_are_true(name):
    num_failed, num_tried = doctest.testmod(importlib.import_module(name))
    assert num_tried > 0 and num_failed == 0
