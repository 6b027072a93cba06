import pytest
from absl import flags

from commands import flag_groups
from tests import documented_commands as documented

Group = flag_groups.Group


@flag_groups.under(Group.SPEED)
def _define_inner(values):
    flags.DEFINE_integer("inner", 1, "Inner.", flag_values=values)


@flag_groups.under(Group.TRAINING)
def _define_outer(values, last="last"):
    flags.DEFINE_integer("first", 1, "First.", flag_values=values)
    _define_inner(values)
    flags.DEFINE_integer(last, 1, "Last.", flag_values=values)


def _names(values, group):
    return [flag.name for flag in flag_groups.of(values, group)]


def test_the_innermost_function_decides_and_order_stays():
    values = flags.FlagValues()
    _define_outer(values, last="zzz")
    assert _names(values, Group.TRAINING) == ["first", "zzz"]
    assert _names(values, Group.SPEED) == ["inner"]
    assert _names(values, Group.MODEL) == []
    assert flag_groups.grouped(values) == {"first", "inner", "zzz"}


def test_flags_that_are_there_already_stay_where_they_are():
    values = flags.FlagValues()
    flags.DEFINE_integer("before", 1, "Before.", flag_values=values)
    _define_outer(values)
    assert "before" not in flag_groups.grouped(values)


@pytest.mark.parametrize("program", sorted(documented.programs()))
def test_every_flag_of_every_program_has_a_heading(program):
    values = flags.FlagValues()
    documented.define(documented.module(program), values)
    assert set(values) - flag_groups.grouped(values) == set()
    # Under one heading, not two.
    places = [name for group in Group for name in _names(values, group)]
    assert sorted(places) == sorted(set(values))
