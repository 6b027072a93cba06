"""Fixtures, order and devices of all tests."""

import os
import pathlib
import re
import sys

import hypothesis
import pytest
from absl import logging

from bert.commands import program
from bert.files import writing
from bert.training import reporting
from tests.support import made_once

# As each program does.
program.prepare_imports()

# Every run tries the same random inputs, whatever the load of the machine and
# earlier runs: those of one seed, which `--hypothesis-seed` changes.
hypothesis.settings.register_profile(
    "same", deadline=None, database=None, derandomize=False
)
hypothesis.settings.load_profile("same")
_SEED = "0"

_TESTS = pathlib.Path(__file__).parent
# The files that take longest, which decide when the last process ends, in the
# order of the processor time of `--all`; then the other runs of scripts.
_LONGEST = (
    "test_distribution.py",
    "test_distribution_of_tasks.py",
    "test_tpu.py",
    "test_run_classifier.py",
    "test_run_pretraining_survival.py",
    "test_run_pretraining.py",
    "test_run_ner.py",
    "test_served_runs.py",
    "test_run_squad.py",
    "test_recomputation.py",
    "test_execution_modes.py",
)
# Of a test, on a machine that others use as well.
_MOST_SECONDS = {"slow": 10_800, "integration": 900}


def pytest_addoption(parser):
    """Adds the options that leave out tests, and that let none be left out."""
    parser.addoption(
        "--fast",
        action="store_true",
        help="leave out the tests that are marked integration",
    )
    parser.addoption(
        "--no-skips",
        action="store_true",
        help="fail if a test is skipped, as where a package is missing",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Hides GPUs, also from programs that tests start, unless `-m gpu`."""
    config.option.hypothesis_seed = config.option.hypothesis_seed or _SEED
    if not re.search(r"(?<!not )\bgpu\b", config.option.markexpr):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        return
    # Several processes may share a GPU, and compare it with the CPU.
    os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
    os.environ["NVIDIA_TF32_OVERRIDE"] = "0"


def pytest_collection_modifyitems(config, items):
    """Puts the longest files first, and leaves tests out if asked."""
    order = {name: place for place, name in enumerate(_LONGEST)}
    items.sort(
        key=lambda item: (
            order.get(item.path.name, len(order)),
            item.path.parent != _TESTS,
        )
    )
    for item in items:
        groups = [g for g in _MOST_SECONDS if item.get_closest_marker(g)]
        if groups and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_MOST_SECONDS[groups[0]]))
    if config.option.fast:
        slower = [i for i in items if i.get_closest_marker("integration")]
        config.hook.pytest_deselected(items=slower)
        items[:] = [i for i in items if not i.get_closest_marker("integration")]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """Fails with `--no-skips` where a test was skipped."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.option.no_skips and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    """Names the seed, and what `--no-skips` holds against a run."""
    seed = config.option.hypothesis_seed
    terminalreporter.write_line(f"random inputs: --hypothesis-seed={seed}")
    if config.option.no_skips and terminalreporter.stats.get("skipped"):
        terminalreporter.write_line("--no-skips: tests were skipped", red=True)


@pytest.fixture(scope="session", name="made_once")
def _made_once(tmp_path_factory):
    """Makes folders that tests of several files read; see its module."""
    root = tmp_path_factory.getbasetemp()
    is_shared = "PYTEST_XDIST_WORKER" in os.environ
    return made_once.Folders((root.parent if is_shared else root) / "made_once")


@pytest.fixture(autouse=True)
def _networks_are_of_float32():
    """Resets the precision that a program set in this process of tests."""
    yield
    if "keras" in sys.modules:
        sys.modules["keras"].config.set_dtype_policy("float32")


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
