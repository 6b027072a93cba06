r"""Applies deliberate faults one at a time and prints those no test notices.

  python -m tests.mutation.run
  python -m tests.mutation.run --since main --jobs 4
  python -m tests.mutation.run --only modeling/

Without `--since` the faults are those of `faults.toml`, or of another list
(`--faults FILE`), each with what a user would lose and the test that notices
it. With `--since REV` they are made from the lines of product code that changed
since a revision, by five operators (`operators.py`). `--sample N` tries so many
of them.

Each fault is applied to a copy of this clone. The stated test runs first, then
the tests of the changed module, the fast tests of its users, all fast tests,
and at last the runs of programs, until one fails. A fault that survives needs a
test, of whatever it would spoil, or a simpler line of code. Ends with 1 if one
survived or could not be applied.
"""

import argparse
import ast
import dataclasses
import functools
import importlib
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence

from tests.mutation import operators
from tests.support import locations

_LIST = pathlib.Path(__file__).with_name("faults.toml")
# Imported once, before the processes of the tests are forked.
_LIBRARIES = ("tensorflow", "keras", "hypothesis", "scipy.stats", "pytest")
_GROUPS = "not slow and not shared and not peer and not gpu"


@dataclasses.dataclass(frozen=True)
class Fault:
    """A change of a file of the clone.

    Attributes:
        file: the file.
        before: a text that occurs in it once.
        after: its replacement.
        loss: what a user would lose.
        test: the test, or the file of tests, that notices it, if it is known.
        source: the whole changed file, if it is not made from the texts.
    """

    file: str
    before: str
    after: str
    loss: str = ""
    test: str = ""
    source: str = ""

    def applied(self, root: pathlib.Path = locations.ROOT) -> str:
        """Returns the changed file.

        Raises:
            ValueError: the file is another one than the fault was made for.
        """
        path = root / self.file
        if not path.is_file():
            raise ValueError(f"{self.file}: there is no such file")
        text = path.read_text(encoding="utf-8")
        if not self.source and text.count(self.before) != 1:
            raise ValueError(
                f"{self.file}: {self.before!r} occurs "
                f"{text.count(self.before)} times, not once"
            )
        changed = self.source or text.replace(self.before, self.after)
        compile(changed, self.file, "exec")
        return changed


def listed(path: str | pathlib.Path = _LIST) -> list[Fault]:
    """Reads the list of faults."""
    content = tomllib.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    return [Fault(**each) for each in content["fault"]]


def since(revision: str) -> Iterator[Fault]:
    """Makes faults of the product's lines that changed since a revision."""
    changed = _git("diff", "--name-only", revision, "--", "*.py").split()
    for file in changed:
        path = locations.ROOT / file
        if file.startswith(("tests/", ".")) or not path.is_file():
            continue
        lines: set[int] = set()
        for line in _git("diff", "-U0", revision, "--", file).splitlines():
            if match := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
                first, count = int(match[1]), int(match[2] or 1)
                lines.update(range(first, first + count))
        source = path.read_text(encoding="utf-8")
        for mutant in operators.mutants(source, lines):
            place = f"{file}:{mutant.line}"
            yield Fault(
                file, mutant.before, mutant.after, place, source=mutant.source
            )


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments],
        cwd=locations.ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def tests_of(
    file: str, root: pathlib.Path = locations.ROOT
) -> tuple[list[str], list[str]]:
    """Lists the test file of a module, if there is one, and those of its users.

    A test file uses the modules that it imports, and the programs it names.
    """
    name = ".".join(pathlib.Path(file).with_suffix("").parts)
    own = (root / "tests" / file).with_name(f"test_{pathlib.Path(file).name}")
    users = [
        str(path.relative_to(root))
        for path in sorted((root / "tests").rglob("test_*.py"))
        if path != own and not {name, f"{name}.py"}.isdisjoint(_names(path))
    ]
    return [str(own.relative_to(root))] if own.is_file() else [], users


@functools.cache
def _names(path: pathlib.Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant):
            names.add(str(node.value))
    return names


def _stages(fault: Fault, root: pathlib.Path) -> Iterator[list[str]]:
    """Yields the arguments of pytest, the likeliest tests first."""
    groups = ["-m", _GROUPS]
    if fault.test:
        yield [*groups, fault.test]
    own, users = tests_of(fault.file, root)
    if own:
        yield [*groups, *own]
    if users:
        yield [*groups, "--fast", *users]
    yield [*groups, "--fast", "tests"]
    yield ["-m", f"integration and {_GROUPS}", "tests"]


def _copy(folder: pathlib.Path) -> None:
    for file in filter(None, _git("ls-files", "-z").split("\0")):
        source, target = locations.ROOT / file, folder / file
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
            target.chmod(source.stat().st_mode)
    (folder / ".venv").symlink_to(locations.ROOT / ".venv")


def _passes(
    folder: pathlib.Path, arguments: list[str], deadline: float
) -> bool:
    """Runs tests in a forked process, which has the libraries already."""
    import pytest

    child = os.fork()
    if child == 0:
        # A group, so that the processes of tests that hang end too.
        os.setpgid(0, 0)
        os.chdir(folder)
        sys.path[0] = str(folder)
        for name in [*sys.modules]:
            if name.split(".")[0] == "tests":
                del sys.modules[name]
        output = os.open("pytest.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        code = 1
        try:
            code = pytest.main(
                ["-q", "-x", "-p", "no:cacheprovider", *arguments]
            )
        finally:
            os._exit(int(code))
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False
        time.sleep(0.05)
    code = os.waitstatus_to_exitcode(ended[1])
    return code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


def _killer(folder: pathlib.Path, fault: Fault, seconds: float) -> str | None:
    """Names the test that notices a fault; None if none does."""
    path = folder / fault.file
    original = path.read_text(encoding="utf-8")
    path.write_text(fault.applied(folder), encoding="utf-8")
    deadline = time.monotonic() + seconds
    try:
        for arguments in _stages(fault, folder):
            if not _passes(folder, arguments, deadline):
                log = (folder / "pytest.log").read_text(errors="replace")
                failed = _FAILED.search(log)
                return failed[1] if failed else "a limit of time, or a crash"
    finally:
        path.write_text(original, encoding="utf-8")
    return None


def _judge(faults: Sequence[Fault], seconds: float) -> bool:
    """Judges faults in a copy of the clone; returns whether all are noticed."""
    are_noticed = True
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        _copy(folder)
        for fault in faults:
            start = time.monotonic()
            try:
                killer = _killer(folder, fault, seconds)
                verdict = f"noticed by {killer}" if killer else "SURVIVED"
                if killer and not killer.startswith(fault.test):
                    verdict += f", not by {fault.test}"
            except (ValueError, SyntaxError) as error:
                killer, verdict = None, f"NOT APPLIED: {error}"
            are_noticed &= bool(killer)
            sys.stdout.write(
                f"{fault.file}: {fault.before!r} -> {fault.after!r}\n"
                f"  {fault.loss}\n"
                f"  {verdict} ({time.monotonic() - start:.0f} s)\n"
            )
            sys.stdout.flush()
    return are_noticed


def main(words: Sequence[str]) -> int:
    """Judges the faults; returns 1 if one is not noticed."""
    parser = argparse.ArgumentParser(description="See the docstring.")
    parser.add_argument("--faults", default=_LIST, help="a list")
    parser.add_argument("--since", help="a revision, in place of a list")
    parser.add_argument("--sample", type=int, help="faults to try, by chance")
    parser.add_argument("--only", default="", help="part of a file's name")
    parser.add_argument("--jobs", type=int, default=1, help="at a time")
    parser.add_argument("--seconds", type=int, default=3600, help="per fault")
    options = parser.parse_args(words)
    faults = (
        [*since(options.since)] if options.since else listed(options.faults)
    )
    faults = [fault for fault in faults if options.only in fault.file]
    if options.sample and options.sample < len(faults):
        faults = random.Random(0).sample(faults, options.sample)

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
    for library in _LIBRARIES:
        importlib.import_module(library)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    children = []
    for job in range(options.jobs):
        child = os.fork()
        if child == 0:
            share = faults[job :: options.jobs]
            os._exit(int(not _judge(share, options.seconds)))
        children.append(child)
    codes = [os.waitpid(child, 0)[1] for child in children]
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
