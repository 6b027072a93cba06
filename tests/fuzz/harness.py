"""Checks of readers on damaged files, case by case.

A reader may give an answer, which is then compared with what the bytes say, or
a named error: an `OSError` or a `ValueError` of its own wording (no subclass
of some library's) that names the file and fits on a page. It may not hang, nor
ask for memory that the file has no use for.
"""

import contextlib
import dataclasses
import pathlib
import resource
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import hypothesis
import pytest

# Cases of a reader in the slow suite.
NUM_SLOW = 20_000

# Of processor time, so that a busy machine fails no test.
_DEADLINE_SECONDS = 5.0
_MOST_NEW_BYTES = 2 << 30
_LONGEST_MESSAGE = 2_000
_LIBRARIES = ("builtins", "json", "tensorflow", "zipfile", "numpy", "google")


class HangError(BaseException):
    """A case took longer than any should; no `except` of a reader takes it."""


def suites(num_fast: int, num_slow: int) -> list:
    """The numbers of cases in the fast suite and in the slow one."""
    return [
        pytest.param(num_fast, id="fast"),
        pytest.param(num_slow, id="slow", marks=pytest.mark.slow),
    ]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """Numbers of cases that were read, and that were refused."""

    num_read: int
    num_refused: int


def read_all(
    read: Callable[[str], Any],
    path: pathlib.Path,
    cases: Iterable[bytes],
    is_right: Callable[[Any, bytes], bool],
    named: str | None = None,
) -> Outcome:
    """Reads each case from a file.

    Args:
        read: the reader; takes the path.
        path: where each case is written.
        cases: contents of the file.
        is_right: whether a result is what a content means.
        named: what each message must hold; the path if None.

    Raises:
        AssertionError: an error that is none of the named ones, or a wrong
            result; shows the case.
    """
    num_read = num_refused = 0
    with _bounded_memory():
        for number, content in enumerate(cases):
            path.write_bytes(content)
            case = f"case {number}, {len(content)} bytes: {content[:1000]!r}"
            try:
                with _deadline(case):
                    result = read(str(path))
            except (OSError, ValueError) as error:
                fault = fault_of(error, named or str(path))
                if fault:
                    raise AssertionError(f"{fault}; {case}") from error
                num_refused += 1
            except Exception as error:
                raise AssertionError(f"{error!r:.200}; {case}") from error
            else:
                assert is_right(result, content), f"{result!r:.500}; {case}"
                num_read += 1
    return Outcome(num_read=num_read, num_refused=num_refused)


def fault_of(error: Exception, path: str) -> str | None:
    """Says what keeps an error from being a named one; None if nothing."""
    text = str(error)
    is_own = type(error) is ValueError or not type(error).__module__.startswith(
        _LIBRARIES
    )
    if not is_own and not isinstance(error, OSError):
        return f"{error!r:.200} is not worded by the reader"
    if path not in text:
        return f"{error!r:.200} does not name the file"
    if len(text) > _LONGEST_MESSAGE + text.count(path) * len(path):
        return f"a message of {len(text)} characters: {text[:200]!r}"
    return None


@contextlib.contextmanager
def _deadline(case: str) -> Iterator[None]:
    def stop(*_):
        raise HangError(case)

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, _DEADLINE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextlib.contextmanager
def _bounded_memory() -> Iterator[None]:
    """Makes an absurd allocation a MemoryError, whatever the machine has."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    used = pages * resource.getpagesize()
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + _MOST_NEW_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))


def examples(num_cases: int) -> hypothesis.settings:
    """Asks hypothesis for so many examples."""
    return hypothesis.settings(
        max_examples=num_cases,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
