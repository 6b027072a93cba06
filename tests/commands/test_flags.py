import dataclasses
import os

import pytest
from absl import flags

from commands import flags as flags_lib
from tests import documented_commands as documented
from tests import programs

Group = flags_lib.Group


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Base:
    first: int = Group.TRAINING.flag(1, "First.")
    inner: float | None = Group.SPEED.flag(None, "Inner.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Options(_Base):
    zzz: tuple[str, ...] = Group.TRAINING.flag(("a", "b"), "Z.")
    last: str = Group.TRAINING.required("Last.", choices=("x", "y"))
    first: int = flags_lib.redeclare(_Base, "first", 7)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Lists:
    sizes: tuple[int, ...] = Group.TRAINING.flag((1, 2), "Sizes.")
    rates: tuple[float, ...] | None = Group.TRAINING.optional("Rates.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Unfit:
    size: complex | None = Group.FILES.flag(None, "Size.")


def _names(values, group):
    return [flag.name for flag in flags_lib.of(values, group)]


def test_flags_stand_in_the_order_of_fields_under_their_headings():
    values = flags.FlagValues()
    flags_lib.define(_Options, values)
    assert _names(values, Group.TRAINING) == ["first", "zzz", "last"]
    assert _names(values, Group.SPEED) == ["inner"]
    assert _names(values, Group.MODEL) == []
    assert flags_lib.is_required(values["last"])
    assert not flags_lib.is_required(values["inner"])


def test_flags_fill_the_dataclass_that_declares_them():
    values = flags.FlagValues()
    flags_lib.define(_Options, values)
    values(["", "--last=x"])
    assert flags_lib.read(_Options, values) == _Options(last="x")
    values(["", "--last=y", "--zzz=c", "--inner=0.5", "--first=2"])
    assert flags_lib.read(_Options, values) == _Options(
        last="y", zzz=("c",), inner=0.5, first=2
    )


def test_given_flags_are_those_of_the_command_line():
    values = flags.FlagValues()
    flags_lib.define(_Options, values)
    values(["", "--last=x", "--first=7"])
    assert flags_lib.given(values) == {"last", "first"}


def test_numbers_of_a_list_are_different_and_positive():
    assert programs.parse(_Lists) == _Lists(sizes=(1, 2), rates=None)
    assert programs.parse(_Lists, sizes="8", rates="1e-3,2") == _Lists(
        sizes=(8,), rates=(1e-3, 2.0)
    )
    for argument, words in (
        ("--sizes=long", "different positive whole numbers, separated by com"),
        ("--sizes=1.5", "different positive whole numbers"),
        ("--sizes=4,4", "different positive whole numbers"),
        ("--rates=0", "different positive numbers"),
    ):
        with pytest.raises(flags.IllegalFlagValueError, match=words):
            programs.parse(_Lists, argument)


def test_fields_of_other_types_are_refused():
    with pytest.raises(TypeError, match="size: no flag supports"):
        flags_lib.define(_Unfit, flags.FlagValues())


@pytest.mark.parametrize("program", sorted(documented.programs()))
def test_every_flag_of_every_program_has_one_heading(program):
    values = flags.FlagValues()
    flags_lib.define(documented.module(program).Options, values)
    places = [name for group in Group for name in _names(values, group)]
    assert sorted(places) == sorted(set(values))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("flag --a=x: invalid literal for int() with base 10: 'x'",
         "--a must be a whole number; got x."),
        ("flag --a=x=y: could not convert string to float: 'x=y'",
         "--a must be a number; got x=y."),
        ("flag --a=-1: -1 is not a positive integer",
         "--a must be a positive integer; got -1."),
        ("flag --a=c: value should be one of <b|d>",
         "--a must be one of b, d; got c."),
        ("flag --a=c: Somebody else's words.",
         "flag --a=c: Somebody else's words."),
        ("flags a=1, b=None: --a needs --b.", "--a needs --b."),
    ],
)  # fmt: skip
def test_error_messages_tell_the_allowed_values_of_a_flag(line, words):
    assert flags_lib.error_message(flags.IllegalFlagValueError(line)) == words


def test_values_of_flags_must_be_utf_8():
    values = flags.FlagValues()
    flags.DEFINE_string("a", "", "", flag_values=values)
    values(["x", "--a=café"])
    flags_lib.check(values)
    values(["x", os.fsdecode(b"--a=caf\xe9")])
    with pytest.raises(flags.IllegalFlagValueError, match="--a must be UTF-8"):
        flags_lib.check(values)


def test_required_flags_must_not_be_empty_and_numbers_be_some():
    values = flags.FlagValues()
    flags.DEFINE_string("a", None, "", required=True, flag_values=values)
    flags.DEFINE_string("b", "", "", flag_values=values)
    flags.DEFINE_float("c", 1.0, "", flag_values=values)
    values(["x", "--a=1", "--b="])
    flags_lib.check(values)
    values(["x", "--a="])
    with pytest.raises(flags.IllegalFlagValueError, match="--a must not be em"):
        flags_lib.check(values)
    values(["x", "--a=1", "--c=nan"])
    with pytest.raises(flags.IllegalFlagValueError, match="--c must be a num"):
        flags_lib.check(values)


def test_several_errors_of_flags_are_one_line():
    error = flags.IllegalFlagValueError(
        "flag --a=None: Flag --a must have a value other than None.\n"
        "flag --b=None: Flag --b must have a value other than None.\n"
        "flag --c=3: too large"
    )
    assert flags_lib.error_message(error) == (
        "--a, --b must be given. flag --c=3: too large."
    )


def test_only_the_nearest_flag_is_suggested():
    error = flags.UnrecognizedFlagError("mode", suggestions=["a_b", "c"])
    assert flags_lib.error_message(error) == (
        "there is no flag --mode; did you mean --a_b?"
    )
