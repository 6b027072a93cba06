"""A folder in memory for the damaged files, of which there are many."""

import pathlib
import tempfile

import pytest

_MEMORY = pathlib.Path("/dev/shm")


@pytest.fixture
def tmp_path():
    """A folder in memory, where the system has that."""
    place = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        yield pathlib.Path(folder)
