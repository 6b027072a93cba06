"""Starts Python programs in processes that have TensorFlow loaded already.

A server imports the libraries and our modules, and executes nothing; each
program is a fork of it. What a program does, its signals and its exit code are
those of a process of its own; only the imports, some seconds of each, are
made once for each process of pytest.

The server reads a request for each line of its input, and answers in a line:
the process id of a program that it started, or an exit code, or null for a
program that still runs.
"""

import atexit
import functools
import importlib
import importlib.util
import json
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import threading
import time
import traceback
import types
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from tests.support import locations

# Of a run that takes seconds, on a machine that others use as well.
MOST_SECONDS = 600
_LIBRARIES = ("tensorflow", "tensorflow_text", "keras")
_ROOMS = ("bert", "modeling", "vocab", "tests/support")


class Process:
    """A program that was started; like `subprocess.Popen`."""

    def __init__(self, pid: int):
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Returns the exit code, minus a signal's number; None if it runs."""
        return self._wait(0)

    def wait(self, timeout: float = MOST_SECONDS) -> int:
        """Waits for the exit code, for so many seconds."""
        if self._wait(timeout) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return self.returncode

    def _wait(self, seconds: float) -> int | None:
        if self.returncode is None:
            self.returncode = _ask(pid=self.pid, seconds=seconds)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless the program has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Ends the program at once."""
        self.send_signal(signal.SIGKILL)


def start(
    arguments: Sequence[str],
    output: pathlib.Path,
    *,
    errors: pathlib.Path | None = None,
    given: pathlib.Path | str = os.devnull,
    folder: pathlib.Path = locations.ROOT,
    environment: Mapping[str, str] | None = None,
) -> Process:
    """Starts a program.

    Args:
        arguments: what follows `python`: a script, `-m` or `-c`.
        output: the file that takes what it prints.
        errors: the file that takes what it says on stderr; `output` if None.
        given: the file that it reads as its input.
        folder: where it works; the root of the project.
        environment: variables beside those of this process.
    """
    pid = _ask(
        arguments=[str(argument) for argument in arguments],
        files=[str(given), str(output), str(errors or output)],
        folder=str(folder),
        environment={**os.environ, **(environment or {})},
    )
    return Process(pid)


def _ask(**request: Any) -> Any:
    server = _server()
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    line = server.stdout.readline()
    if not line:
        raise RuntimeError("The server of programs has ended.")
    return json.loads(line)


@functools.cache
def _server() -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.warm"],
        cwd=locations.ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    # Ends it and what it started, and counts its time as that of a child.
    atexit.register(lambda: (process.stdin.close(), process.wait()))
    return process


def _serve(requests: IO[str], answers: IO[str]) -> None:
    running: set[int] = set()
    try:
        for line in requests:
            request = json.loads(line)
            if "pid" in request:
                answer = _code_of(request["pid"], request["seconds"])
                if answer is not None:
                    running.discard(request["pid"])
            else:
                answer = os.fork()
                if answer == 0:
                    _become(**request)
                running.add(answer)
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _code_of(pid: int, seconds: float) -> int | None:
    deadline = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= deadline:
            return None
        time.sleep(0.005)


def _become(
    arguments: list[str],
    files: list[str],
    folder: str,
    environment: dict[str, str],
) -> None:
    """Turns this process into a program; does not return."""
    code = 1
    try:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(files[0], os.O_RDONLY), 0)
        os.dup2(os.open(files[1], flags), 1)
        if files[2] == files[1]:
            os.dup2(1, 2)
        else:
            os.dup2(os.open(files[2], flags), 2)
        sys.stdin, sys.stdout, sys.stderr = _streams()
        _run(arguments)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(bool(end.code))
        if not isinstance(end.code, int | None):
            sys.stderr.write(f"{end.code}\n")
    except BaseException:  # noqa: BLE001 - as Python reports it.
        traceback.print_exc()
    finally:
        threading._shutdown()
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code & 0xFF)


def _streams() -> Iterator[IO[str]]:
    for number, (mode, buffering) in enumerate(
        [("r", -1), ("w", -1), ("w", 1)]
    ):
        yield open(  # noqa: SIM115 - open until the program ends.
            number, mode, buffering, encoding="utf-8", closefd=False
        )


def _run(arguments: list[str]) -> None:
    kind, *rest = arguments
    if kind == "-c":
        main = types.ModuleType("__main__")
        sys.modules["__main__"], sys.argv = main, ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
        return
    if kind == "-m":
        kind = importlib.util.find_spec(rest.pop(0)).origin
    sys.argv = [kind, *rest]
    runpy.run_path(kind, run_name="__main__")


def _import_all() -> None:
    for name in _LIBRARIES:
        importlib.import_module(name)
    for room in _ROOMS:
        for path in sorted((locations.ROOT / room).rglob("*.py")):
            parts = path.relative_to(locations.ROOT).with_suffix("").parts
            # Some need packages that are not installed.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    importlib.import_module(".".join(parts))
                except ImportError:
                    continue


if __name__ == "__main__":
    # What programs print goes elsewhere, and so does what imports say.
    _answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.filterwarnings("ignore", message=".*multi-threaded.*fork")
    _import_all()
    _serve(sys.stdin, _answers)
