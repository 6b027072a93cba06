r"""Applies deliberate faults one at a time and prints those no test notices.

  python -m tests.mutation.run
  python -m tests.mutation.run --only modeling/ -- -m "not gpu"

`mutants.toml` lists the faults: under each file, pairs of a text that occurs in
the file once and its replacement. Each fault is applied to a copy of this
clone. The tests that import the changed module, or name the changed program,
run until one fails, those that mirror the module first. Arguments after `--` go
to pytest; without them the fast tests run. A fault that survives needs a test,
or a simpler line of code.
"""

import argparse
import ast
import collections
import functools
import importlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence

from tests.support import locations

_ROOT = locations.ROOT
_LIST = pathlib.Path(__file__).with_name("mutants.toml")
# Imported once, before the processes of the mutants are forked.
_LIBRARIES = ("tensorflow", "keras", "hypothesis", "scipy.stats", "pytest")
_SURVIVED, _KILLED, _TIMED_OUT = "survived", "killed", "timed out"


def read_mutants(path: pathlib.Path = _LIST) -> Iterator[tuple[str, str, str]]:
    """Yields the file, text and replacement of each mutant of a list."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    for file, edits in content.items():
        for before, after in edits:
            yield file, before, after


def fault_of(
    file: str, before: str, after: str, root: pathlib.Path = _ROOT
) -> str | None:
    """Says why a mutant does not apply to a clone, None if it does."""
    path = root / file
    if not path.is_file():
        return "there is no such file"
    text = path.read_text(encoding="utf-8")
    if text.count(before) != 1:
        return f"the text occurs {text.count(before)} times, not once"
    try:
        compile(text.replace(before, after), file, "exec")
    except SyntaxError as error:
        return f"the replacement is no Python: {error}"
    return None


def tests_of(
    file: str, root: pathlib.Path = _ROOT, *, indirect: bool = False
) -> list[str]:
    """Lists the test files that import a module, or name a program.

    Args:
        file: of the module.
        root: the clone.
        indirect: whether the tests of modules that import it follow.
    """
    files = _direct_tests(file, root)
    if indirect:
        name = _module(file)
        for path in sorted(root.rglob("*.py")):
            other = path.relative_to(root)
            if other.parts[0].startswith((".", "tests")):
                continue
            if name in _names(path):
                files += _direct_tests(str(other), root)
    return list(dict.fromkeys(files))


def _module(file: str) -> str:
    return ".".join(pathlib.Path(file).with_suffix("").parts)


def _direct_tests(file: str, root: pathlib.Path) -> list[str]:
    name = _module(file)
    mirror = pathlib.Path("tests", file).with_name(
        f"test_{pathlib.Path(file).name}"
    )
    paths = [
        path.relative_to(root)
        for path in sorted((root / "tests").rglob("test_*.py"))
        if not {name, f"{name}.py"}.isdisjoint(_names(path))
    ]
    # The mirror, then the tests of the package, then those of scripts.
    paths.sort(
        key=lambda path: (
            path != mirror,
            path.parent != mirror.parent,
            path.parent == pathlib.Path("tests"),
        )
    )
    return [str(path) for path in paths]


@functools.cache
def _names(path: pathlib.Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant):
            names.add(str(node.value))
    return names


def _copy(folder: pathlib.Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"],
        cwd=_ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for file in filter(None, listed.stdout.split("\0")):
        source = _ROOT / file
        if source.is_file():
            target = folder / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
            target.chmod(source.stat().st_mode)
    (folder / ".venv").symlink_to(_ROOT / ".venv")


def _outcome(
    folder: pathlib.Path,
    files: Sequence[str],
    arguments: Sequence[str],
    seconds: int,
) -> str:
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
        code = pytest.main(
            ["-q", "-x", "-p", "no:cacheprovider", *arguments, *files]
        )
        os._exit(int(code))
    deadline = time.monotonic() + seconds
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return _TIMED_OUT
        time.sleep(0.1)
    code = os.waitstatus_to_exitcode(ended[1])
    passed = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    return _SURVIVED if code in passed else _KILLED


def main(words: Sequence[str]) -> int:
    """Runs the mutants; returns 1 if any survived."""
    words = [*words]
    split = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description="See the docstring.")
    parser.add_argument("--list", type=pathlib.Path, default=_LIST)
    parser.add_argument("--only", default="", help="part of a file's name")
    parser.add_argument(
        "--indirect",
        action="store_true",
        help="run the tests of modules that import the changed one too",
    )
    parser.add_argument(
        "--baseline",
        action="store_true",
        help="run the tests without faults; all must survive",
    )
    parser.add_argument("--seconds", type=int, default=600, help="per mutant")
    options = parser.parse_args(words[:split])
    arguments = words[split + 1 :] or ["--fast"]

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
    for library in _LIBRARIES:
        importlib.import_module(library)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    counts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        _copy(folder)
        mutants = [*read_mutants(options.list)]
        if options.baseline:
            mutants = [(file, "", "") for file in {m[0]: 0 for m in mutants}]
        for file, before, after in mutants:
            if options.only not in file:
                continue
            if before and (fault := fault_of(file, before, after, folder)):
                sys.stdout.write(
                    f"skipped           {file}: {fault}: {before!r}\n"
                )
                continue
            path = folder / file
            original = path.read_text(encoding="utf-8")
            if before:
                mutated = original.replace(before, after)
                path.write_text(mutated, encoding="utf-8")
            start = time.monotonic()
            files = tests_of(file, folder, indirect=options.indirect)
            outcome = _outcome(folder, files, arguments, options.seconds)
            path.write_text(original, encoding="utf-8")
            counts[outcome] += 1
            sys.stdout.write(
                f"{outcome:9} {time.monotonic() - start:5.0f} s  "
                f"{file}: {before!r} -> {after!r}\n"
            )
            sys.stdout.flush()
    sys.stdout.write(f"{dict(counts)}\n")
    return int(counts[_SURVIVED] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
