"""Fixtures, order and devices of all tests."""

import os
import pathlib
import re

import hypothesis
import pytest
from absl import logging

from bert.commands import program
from bert.files import writing
from bert.training import reporting

# As each program does.
program.prepare_imports()

# The time of a case depends on the load of the machine.
hypothesis.settings.register_profile("any_load", deadline=None)
hypothesis.settings.load_profile("any_load")

_TESTS = pathlib.Path(__file__).parent


def pytest_addoption(parser):
    """Adds the option that leaves out end-to-end tests."""
    parser.addoption(
        "--fast",
        action="store_true",
        help="leave out the tests that are marked integration",
    )


def pytest_configure(config):
    """Hides GPUs, also from programs that tests start, unless `-m gpu`."""
    if not re.search(r"(?<!not )\bgpu\b", config.option.markexpr):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        return
    # Several processes may share a GPU, and compare it with the CPU.
    os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
    os.environ["NVIDIA_TF32_OVERRIDE"] = "0"


def pytest_collection_modifyitems(config, items):
    """Puts the tests of scripts first, and leaves tests out if asked.

    Their files take longest: the last file decides when all processes end.
    """
    items.sort(key=lambda item: item.path.parent != _TESTS)
    if config.option.fast:
        slower = [i for i in items if i.get_closest_marker("integration")]
        config.hook.pytest_deselected(items=slower)
        items[:] = [i for i in items if not i.get_closest_marker("integration")]


@pytest.fixture(autouse=True)
def _absl_reports_as_the_scripts_do():
    """Lets `caplog` see what is logged, whichever tests ran before."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.INFO)
    yield
    logging.set_verbosity(before)


@pytest.fixture(autouse=True)
def _runs_draw_no_curves(request, monkeypatch):
    """Leaves out the pictures of runs, which take longer than toy training.

    The run that the tests of a file share comes before this, and draws them.
    """
    if request.path.parent == _TESTS:
        monkeypatch.setattr(
            writing,
            "write_png",
            lambda path, *_: pathlib.Path(path).write_bytes(b"picture"),
        )
        monkeypatch.setattr(
            reporting,
            "draw_curves",
            lambda _, path: pathlib.Path(path).write_bytes(b"picture"),
        )
