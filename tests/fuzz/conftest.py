"""Fixtures of the tests of damaged files."""

import itertools
import pathlib
import tempfile

import pytest

from tests.fuzz import harness

_MEMORY = pathlib.Path("/dev/shm")


@pytest.fixture
def tmp_path():
    """A folder in memory, where the system has that: there are many files."""
    place = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        yield pathlib.Path(folder)


@pytest.fixture(params=harness.suites(50, harness.NUM_SLOW))
def num_cases(request):
    """The number of cases of a reader."""
    return request.param


@pytest.fixture
def check(tmp_path, num_cases):
    """Checks a reader on the first of endless cases of a file of some name.

    Some must be read and some refused.
    """

    def run(read, name, cases, is_right):
        cases = itertools.islice(cases, num_cases)
        outcome = harness.read_all(read, tmp_path / name, cases, is_right)
        assert outcome.num_read
        assert outcome.num_refused

    return run
