"""The terminal at the start of TensorFlow."""

import os
import signal

import pytest

from tests.support import locations, programs

_LOAD = """
import sys
from bert.commands import program
from bert.files import tensorflow_start
program.prepare_imports()
tensorflow_start.load()
sys.stderr.write("loaded\\n")
"""
# Stands in for TensorFlow; `ENDING` is how its import ends.
_MODULE = """
import os, types
os.write(2, b"I0000 00:00:1 port.cc:153] A notice.\\n")
config = types.SimpleNamespace(
    list_physical_devices=lambda: os.write(2, b"E0000 cuda.cc:5] No GPU.\\n")
)
ENDING
"""
_NOTICES = "I0000 00:00:1 port.cc:153] A notice.\n"


def _load(folder, ending, **environment):
    (folder / "tensorflow.py").write_text(_MODULE.replace("ENDING", ending))
    path = os.pathsep.join([str(folder), str(locations.ROOT)])
    return programs.python(
        "-c",
        _LOAD,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": path, **environment},
    )


@pytest.mark.parametrize("given", [{}, {"TF_CPP_MIN_LOG_LEVEL": "3"}])
def test_no_notice_reaches_the_terminal(tmp_path, given):
    assert _load(tmp_path, "", **given).stderr == "loaded\n"


def test_notices_that_are_asked_for_are_shown(tmp_path):
    shown = _load(tmp_path, "", TF_CPP_MIN_LOG_LEVEL="0").stderr
    assert shown == f"{_NOTICES}E0000 cuda.cc:5] No GPU.\nloaded\n"


def test_a_failed_import_shows_them_before_its_error(tmp_path):
    failed = _load(tmp_path, "raise ImportError('No wheel.')")
    assert failed.stderr.startswith(f"{_NOTICES}Traceback")
    assert failed.stderr.endswith("ImportError: No wheel.\n")


def test_an_abort_shows_them(tmp_path):
    crashed = _load(tmp_path, "os.abort()")
    assert crashed.stderr == _NOTICES
    assert crashed.returncode == -signal.SIGABRT


@pytest.mark.integration
def test_a_real_start_is_quiet():
    assert programs.python("-c", _LOAD).stderr == "loaded\n"
