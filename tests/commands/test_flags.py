import dataclasses

import pytest
from absl import flags

from commands import flags as flags_lib
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
class _Required:
    a: str = Group.FILES.flag("", "A.")
    b: str = Group.FILES.required("B.")
    c: str = Group.FILES.required("C.")


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


def test_lists_have_parts_of_their_type():
    assert programs.parse(_Lists) == _Lists(sizes=(1, 2), rates=None)
    assert programs.parse(_Lists, sizes="8", rates="1e-3,2") == _Lists(
        sizes=(8,), rates=(1e-3, 2.0)
    )
    with pytest.raises(ValueError, match=r"'1\.5'"):
        programs.parse(_Lists, sizes="1.5")


def test_all_required_flags_that_are_missing_or_empty_are_named():
    values = flags.FlagValues()
    flags_lib.define(_Required, values)
    for arguments, names in (([], "--b, --c"), (["--b=", "--c=x"], "--b")):
        values(["", *arguments])
        with pytest.raises(ValueError, match=f"^{names} must be given.$"):
            flags_lib.read(_Required, values)
