"""Finds the commands and flags that the manual and the programs name."""

import ast
import dataclasses
import functools
import importlib
import re
import shlex
from collections.abc import Iterator, Sequence

from absl import flags

from bert.commands import flags as flags_lib
from bert.commands import program
from tests.support import locations

ROOT = locations.ROOT
PAGES = (
    *("README.md", "CONTRIBUTING.md", "benchmarks/README.md"),
    *(
        "vocab/README.md",
        *sorted(f"docs/{p.name}" for p in ROOT.glob("docs/*")),
    ),
)
RECIPES = sorted(f"recipes/{p.name}" for p in ROOT.glob("recipes/*.flags"))
_FENCE = re.compile(r"^(`{3,})\s*(\S*)\s*$")
_SHELLS = {"", "sh", "bash", "shell", "console"}
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*=")
_FLAG = re.compile(r"--([A-Za-z_]\w*)(=.*)?", re.DOTALL)
# What stands for a value, or for more arguments.
AND_SO_ON = "..."
_PLACEHOLDER = re.compile(r"[A-Z]|[A-Z]+\+[a-z]")  # N, SEED+k


@dataclasses.dataclass(frozen=True, kw_only=True)
class Command:
    """A command of a page or of a docstring.

    Attributes:
        where: its file and line.
        text: as it stands there, for a shell.
        words: the same, parted as a shell parts them, without variables set.
        is_whole: whether it stands there to be run, not to be named.
    """

    where: str
    text: str
    words: tuple[str, ...]
    is_whole: bool


# The functions that start a program.
STARTS = ("program.start", "fine_tuning.main")


@functools.cache
def programs() -> dict[str, str]:
    """Returns the module of each program by the name that commands give it."""
    found = {}
    for path in (*ROOT.glob("*.py"), *ROOT.glob("*/*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        text = path.read_text(encoding="utf-8")
        if parts[0].startswith((".", "tests")):
            continue
        is_program = '\nif __name__ == "__main__":' in text
        if is_program and any(start in text for start in STARTS):
            module = ".".join(parts)
            found[module if len(parts) > 1 else f"{module}.py"] = module
    return found


def defined(name: str) -> flags.FlagValues:
    """Returns the flags of a program, as it defines them."""
    values = flags.FlagValues()
    flags_lib.define(module(name).Options, values)
    program.define_common_flags(values)
    return values


_known = functools.cache(defined)  # To look at, not to parse with.


def module(name: str):
    """Imports a program; its flags stay undefined."""
    return importlib.import_module(programs()[name])


@functools.cache
def flag_names() -> dict[str, frozenset[str]]:
    """Returns the names of the flags of each program; absl's are "absl"."""
    own = {name: frozenset(_known(name)) for name in programs()}
    common = flags.FlagValues()
    program.define_common_flags(common)
    absl_helps = ("help", "helpfull", "helpshort")
    own["absl"] = frozenset({*flags.FLAGS, *absl_helps, *common})
    return own


def commands_of_page(name: str) -> list[Command]:
    """Lists the commands of a page, in their order."""
    lines = (ROOT / name).read_text(encoding="utf-8").split("\n")
    found, prose = [], []
    place = 0
    while place < len(lines):
        fence = _FENCE.match(lines[place])
        prose.append("" if fence else lines[place])
        place += 1
        if not fence:
            continue
        start = place
        while place < len(lines) and lines[place].strip() != fence[1]:
            place += 1
        if fence[2] in _SHELLS:
            found += _of_block(name, start + 1, lines[start:place])
        prose += [""] * (place + 1 - start)
        place += 1
    found += (
        _command(f"{name}:{number}", text, is_whole=False)
        for number, text in _spans(prose)
        if _names_program(text)
    )
    return sorted(found, key=lambda c: int(c.where.rpartition(":")[2]))


def commands_of_docstring(name: str) -> list[Command]:
    """Lists the examples that a program's first words give."""
    path = programs()[name].replace(".", "/") + ".py"
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    lines = ast.get_docstring(tree, clean=False).split("\n")
    first = tree.body[0].lineno
    found, block = [], []
    for number, line in enumerate([*lines, ""], start=first):
        if line.startswith("  "):
            block.append(line.replace("[--", "--").replace("]", ""))
        elif block:
            if _names_program(block[0]):
                found += _of_block(path, number - len(block), block)
            block = []
    return found


def commands_of_recipe(name: str) -> list[Command]:
    """Lists the commands that the comments of a file of flags show."""
    lines = (ROOT / name).read_text(encoding="utf-8").split("\n")
    shown = [x.removeprefix("#") for x in lines if x.startswith("#   ")]
    return _of_block(name, 1, shown)


def flags_of_page(name: str) -> Iterator[tuple[str, str]]:
    """Yields each `--name` or `--name=value` in backticks, and its place."""
    lines = (ROOT / name).read_text(encoding="utf-8").split("\n")
    is_prose, prose = True, []
    for line in lines:
        if _FENCE.match(line):
            is_prose = not is_prose
        prose.append(line if is_prose and not _FENCE.match(line) else "")
    for number, text in _spans(prose):
        if text.startswith("--"):
            for word in text.split():
                if word.startswith("--") and word != "--":
                    yield f"{name}:{number}", word


def _spans(prose: Sequence[str]) -> Iterator[tuple[int, str]]:
    text = "\n".join(prose)
    for match in _SPAN.finditer(text):
        if "\n\n" not in match[1]:
            yield text.count("\n", 0, match.start()) + 1, match[1]


def _names_program(text: str) -> bool:
    words = text.split()
    while words and _VARIABLE.match(words[0]):
        words = words[1:]
    return bool(words) and (
        words[0] == "python"
        or words[0] in programs()
        or words[0].startswith("./")
    )


def _of_block(name: str, first: int, lines: Sequence[str]) -> list[Command]:
    """Parts a block into commands; of a console, those after `$`."""
    shown = any(line.strip().startswith("$ ") for line in lines)
    found, text, start = [], "", first
    for number, each in enumerate(lines, start=first):
        line = each.strip()
        if shown and not text and not line.startswith("$ "):
            continue
        if not text:
            line = line.removeprefix("$ ")
        start = start if text else number
        text += line + "\n"
        if line.endswith("\\") or _is_open(text):
            continue
        command = _command(f"{name}:{start}", text, is_whole=True)
        found += [command] if command.words else []
        text = ""
    if text.strip():
        raise ValueError(f"{name}:{start}: the command does not end.")
    return found


def _is_open(text: str) -> bool:
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    return False


def _command(where: str, text: str, *, is_whole: bool) -> Command:
    words = shlex.split(text.replace("\\\n", " "), comments=True)
    while words and _VARIABLE.match(words[0]):
        words = words[1:]
    return Command(
        where=where, text=text.strip(), words=tuple(words), is_whole=is_whole
    )


def parted(command: Command) -> tuple[str, list[str]]:
    """Parts a command into the program, by its name, and its arguments."""
    first, *rest = command.words
    if first.rpartition("/")[2] == "python":
        if rest[:1] == ["-m"]:
            rest = rest[1:]
        first, *rest = rest
    return first, list(rest)


def fault(command: Command) -> str | None:
    """Says what its program would refuse of a command; None for nothing."""
    name, arguments = parted(command)
    values = defined(name)
    is_part = not command.is_whole or AND_SO_ON in arguments
    given = [a for a in arguments if a != AND_SO_ON]
    others = given[given.index("--") :] if "--" in given else []
    given = given[: len(given) - len(others)]
    if "--help" in given:
        given, is_part = [a for a in given if a != "--help"], True
    for argument in given:
        if argument.startswith("--flagfile="):
            continue  # Read below, with the flags that it contains.
        if message := _fault_of_flag(values, argument):
            return message
    known = [a for a in given if not _stands_for_a_value(a)]
    try:
        if is_part:
            values.mark_as_parsed()
            return None
        left = values([name, *known, *others])
    except (flags.Error, OSError) as error:
        return str(error)
    takes = getattr(module(name), "ARGUMENTS", None)
    if left[1:] and not takes:
        return f"no argument without -- is expected; got {left[1:]}"
    return None


def fault_of_flag(argument: str) -> str | None:
    """Says why no program takes `--name` or `--name=value`."""
    faults = [_fault_of_flag(_known(name), argument) for name in programs()]
    flag = _FLAG.match(argument)
    if flag and flag[1] in flag_names()["absl"]:
        return None
    if None in faults:
        return None
    return next((f for f in faults if "nknown" not in f), faults[0])


def _stands_for_a_value(argument: str) -> bool:
    match = _FLAG.fullmatch(argument)
    value = match[2][1:] if match and match[2] else ""
    return value.endswith(AND_SO_ON) or bool(_PLACEHOLDER.fullmatch(value))


def _fault_of_flag(values: flags.FlagValues, argument: str) -> str | None:
    match = _FLAG.fullmatch(argument)
    if not match:
        return None if not argument.startswith("--") else f"{argument}: no flag"
    name = match[1]
    if name in values:
        flag = values[name]
    elif name.startswith("no") and name[2:] in values:
        flag = values[name[2:]]
    else:
        return f"Unknown flag --{name}"
    if match[2] is None:
        return None
    if _stands_for_a_value(argument):
        return None
    try:
        flag.parser.parse(match[2][1:])
    except (ValueError, TypeError) as error:
        return f"{argument}: {error}"
    return None
