"""Programs of this project: within a process of tests, and as users run them.

`invoke` and `warm.start` give a program a process that has TensorFlow loaded;
`python` starts it cold.
"""

import contextlib
import dataclasses
import importlib
import logging
import pathlib
import re
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from absl import flags
from absl import logging as absl_logging

from bert.commands import flags as flags_lib
from bert.commands import program
from tests.support import locations, toy_files, warm

ROOT = locations.ROOT
# Source: the release's scripts.
TPU_DEFAULTS = {
    "use_tpu": False,
    "tpu_name": None,
    "tpu_zone": None,
    "gcp_project": None,
    "master": None,
    "num_tpu_cores": 8,
}
# The flags of a script that trains, evaluates and predicts.
STAGES = dict.fromkeys(("do_train", "do_eval", "do_predict"), True)


def python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs Python in a process of its own, from the root of the project.

    Args:
        *arguments: of the command line.
        **options: of `subprocess.run`, beside those that keep the output.
    """
    named = {"cwd": ROOT, "check": False, "text": True} | options
    return subprocess.run(  # noqa: PLW1510
        [sys.executable, *arguments], capture_output=True, **named
    )


@dataclasses.dataclass(frozen=True)
class Result:
    """How a program ended, and what it printed."""

    exit_code: int
    stdout: str
    stderr: str


def invoke(*command: str, given: str = "", **options: Any) -> Result:
    """Runs a program to its end.

    Args:
        *command: what follows `python`: a script, `-m` or `-c`, and arguments.
        given: its input.
        **options: `folder` and `environment` of `warm.start`.
    """
    with tempfile.TemporaryDirectory() as name:
        files = [pathlib.Path(name, each) for each in ("in", "out", "err")]
        files[0].write_text(given, encoding="utf-8")
        process = warm.start(
            command, files[1], errors=files[2], given=files[0], **options
        )
        code = process.wait()
        return Result(code, *(x.read_text(encoding="utf-8") for x in files[1:]))


_RESUMED = re.compile(r"Resumed from \S+ at step (\d+)\.")


def check_resumed(log: str, step: int) -> None:
    """Checks that a program began where another had stopped.

    A toy run is a function of its flags: one that began anew would end alike.
    """
    assert [int(x) for x in _RESUMED.findall(log)] == [step], log[-3000:]


@contextlib.contextmanager
def _logged() -> Iterator[list[str]]:
    """Collects what is logged in the block."""
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logger = absl_logging.get_absl_logger()
    logger.addHandler(handler)
    try:
        yield messages
    finally:
        logger.removeHandler(handler)


def defined(options: type) -> flags.FlagValues:
    """Defines the flags of a dataclass of options, apart from all others."""
    values = flags.FlagValues()
    flags_lib.define(options, values)
    return values


def parse(options: type, *arguments: str, **named: object) -> Any:
    """Reads options from a command line, through their own flags.

    Args:
        options: the dataclass.
        *arguments: of the command line.
        **named: flags by name; those that are None are not given.
    """
    values = defined(options)
    given = [f"--{k}={v}" for k, v in named.items() if v is not None]
    values(["program", *arguments, *given])
    return flags_lib.read(options, values)


def results(path: pathlib.Path) -> dict[str, float]:
    """Reads a file of results, such as eval_results.txt."""
    lines = path.read_text().splitlines()
    pairs = (line.split(" = ") for line in lines)
    return {name: float(value) for name, value in pairs}


def eval_results(folder: pathlib.Path) -> dict[str, float]:
    """Reads eval_results.txt."""
    return results(folder / "eval_results.txt")


def losses(folder: pathlib.Path) -> list[float]:
    """Reads the losses that a run reported."""
    reports = toy_files.read_json_lines(folder / "metrics.jsonl")
    return [each["loss"] for each in reports if "loss" in each]


@dataclasses.dataclass(frozen=True)
class Toy:
    """A script, and a function that names the flags of a small run of it."""

    script: types.ModuleType
    flags_of: Callable[..., dict[str, Any]]

    def parse(self, named: dict[str, Any]) -> Any:
        """Turns flags into options, through the script's own definitions."""
        return parse(self.script.Options, **named)

    def run(self, folder: pathlib.Path, **changes: Any) -> pathlib.Path:
        """Runs the script in this process; returns its output folder."""
        named = self.flags_of(folder, **changes)
        self.script.run(self.parse(named))
        return pathlib.Path(named["output_dir"])

    def resume(
        self, step: int, folder: pathlib.Path, **changes: Any
    ) -> pathlib.Path:
        """Runs the script, which must resume at a step."""
        with _logged() as messages:
            out = self.run(folder, **changes)
        check_resumed("\n".join(messages), step)
        return out


def refusal(name: str, arguments: Sequence[str]) -> str | None:
    """Runs a program.

    Args:
        name: of its module.
        arguments: of its command line.

    Returns:
        The message with which it ends; None if it did its work.
    """
    module = importlib.import_module(name)
    before = flags.FLAGS
    values = flags.FLAGS = defined(module.Options)
    try:
        _, *others = values([name, *arguments])
        names = ("main", "run", "convert")
        main = next(getattr(module, n) for n in names if hasattr(module, n))
        taken = [others] if hasattr(module, "ARGUMENTS") else []
        main(flags_lib.read(module.Options, values), *taken)
    except (ImportError, flags.Error, *program.REFUSALS) as error:
        return program.error_message(error)
    finally:
        flags.FLAGS = before
    return None
