import dataclasses
import re

import pytest
from absl import flags

from commands import flags as flags_lib
from commands import program
from tests import documented_commands as documented

Group = flags_lib.Group
_NAME = re.compile(r"^  --(?:\[no\])?(\w+)  \(", re.MULTILINE)
# What absl and `program` define beside a program's own.
_COMMON = {"flagfile", "verbosity", "log_format", "traceback", "helpfull"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Options:
    precision: str = Group.SPEED.flag(
        "low", "Of numbers.", choices=("low", "high")
    )
    source: str = Group.FILES.required("Read.")
    out: str | None = Group.FILES.flag(None, "Written.")
    part: str = Group.FILES.flag("", "Of it.")
    names: tuple[str, ...] = Group.FILES.flag(("a", "b"), "Of it.")
    fast: bool = Group.FILES.flag(True, "Hurry.")
    count: int = Group.FILES.flag(3, "How many\n  there are.", lower_bound=1)


def test_a_page():
    values = flags.FlagValues()
    flags_lib.define(_Options, values)
    page = program.help_page(
        values, "Does it.\n\nExample:\n\n  python x.py\n", "python x.py", 50
    )
    assert (
        page
        == """Does it.

Usage: python x.py

Input and output:
  --source  (required)
      Read.
  --out  (no default)
      Written.
  --part  (default "")
      Of it.
  --names  (a comma separated list; default a,b)
      Of it.
  --[no]fast  (default true)
      Hurry.
  --count  (a positive integer; default 3)
      How many there are.

Speed and memory:
  --precision  (one of low, high; default low)
      Of numbers.

--flagfile=FILE reads flags from a file, one per
line. --verbosity=-1 logs only warnings,
--log_format=full uses the log format of absl.
--traceback shows the traceback of error messages.
--helpfull lists these and other absl flags.

Example:

  python x.py
"""
    )


def _page(name):
    values = flags.FlagValues()
    module = documented.module(name)
    flags_lib.define(module.Options, values)
    return values, program.help_page(values, module.__doc__, "python x.py", 200)


@pytest.mark.parametrize("program", sorted(documented.programs()))
def test_pages_fit_a_terminal_and_show_every_flag_then_an_example(program):
    values, page = _page(program)
    assert sorted(_NAME.findall(page)) == sorted(values)
    # A word may be longer than a line.
    lines = [line for line in page.split("\n") if " " in line.strip()]
    assert [line for line in lines if len(line) > 80] == []
    assert re.match(r"[A-Z][^\n]+[.?]\n", page)
    after_flags = page[page.index("--flagfile=FILE") :]
    assert re.search(r"^  (\w+=\w+ )?python ", after_flags, re.MULTILINE)


def test_help_names_flags_that_there_are():
    every = _COMMON.union(*documented.flag_names().values())
    wrong = [
        f"{program} --{flag}: {name}"
        for program in documented.programs()
        for values in [_page(program)[0]]
        for flag in values
        for name in re.findall(r"(?<![\w-])--(\w+)", values[flag].help)
        if name not in every
    ]
    assert wrong == []
