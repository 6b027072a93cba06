"""The list of faults applies to the code as it is."""

import pytest

from tests.mutation import operators, run
from tests.support import locations

_FAULTS = run.listed()


@pytest.mark.parametrize("fault", _FAULTS, ids=lambda fault: fault.file)
def test_a_fault_applies_and_its_test_exists(fault):
    fault.applied()
    assert fault.loss.endswith(".")
    file, _, name = fault.test.partition("::")
    text = (locations.ROOT / file).read_text(encoding="utf-8")
    assert not name or f"def {name}(" in text


def test_no_fault_is_listed_twice():
    assert len({(x.file, x.before, x.after) for x in _FAULTS}) == len(_FAULTS)


def test_a_fault_of_other_code_is_an_error():
    with pytest.raises(ValueError, match="occurs 0 times, not once"):
        run.Fault("run_squad.py", "not in it", "").applied()
    with pytest.raises(ValueError, match="no such file"):
        run.Fault("absent.py", "", "").applied()


_SOURCE = """def f(a, b):
    log("é", a)
    g(a, size=1)
    if a < b and not (a == 3 or b):
        return f"{a < b}"
"""


def test_five_operators_change_the_lines_asked_for():
    found = [
        (x.line, x.before, x.after)
        for x in operators.mutants(_SOURCE, {2, 3, 4, 5})
    ]
    assert sorted(found) == sorted(
        [
            (2, 'log("é", a)', "pass"),
            (3, "g(a, size=1)", "pass"),
            (3, "g(a, size=1)", "(g(a))"),
            (3, "1", "(2)"),
            (3, "1", "(0)"),
            (4, "a < b and not (a == 3 or b)", "(a < b or not (a == 3 or b))"),
            (4, "a < b", "(a <= b)"),
            (4, "a == 3 or b", "(a == 3 and b)"),
            (4, "a == 3", "(a != 3)"),
            (4, "3", "(4)"),
            (4, "3", "(2)"),
        ]
    )
    (changed,) = (
        x.source for x in operators.mutants(_SOURCE, {2}) if x.after == "pass"
    )
    assert changed == _SOURCE.replace('log("é", a)', "pass")
    assert not [*operators.mutants(_SOURCE, {1})]
