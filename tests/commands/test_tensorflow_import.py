"""Notices of TensorFlow's C++ code while it is being imported."""

import os
import pathlib

import pytest

from tests import programs

_ROOT = pathlib.Path(__file__).parents[2]
# Stands in for TensorFlow, whose import takes seconds.
_MODULE = """
import os
class config:
    @staticmethod
    def list_physical_devices():
        os.write(2, b"E0000 00:00:1 x.cc:1] failed call to cuInit: no\\n")
os.write(2, b"WARNING: All log messages before absl::InitializeLog() is\\n")
os.write(2, b"I0000 00:00:1 port.cc:153] oneDNN custom operations are on.\\n")
os.write(2, b"F0000 00:00:1 cpu.cc:2] This CPU lacks AVX.\\n")
if "ABORT" in os.environ:
    os.abort()
"""
_USE = """
from commands import program
program.hide_tensorflow_notices()
import os, sys
import tensorflow
print(os.environ["TF_CPP_MIN_LOG_LEVEL"], file=sys.stderr)
"""
_FATAL = "F0000 00:00:1 cpu.cc:2] This CPU lacks AVX."


@pytest.fixture
def shown(tmp_path):
    (tmp_path / "tensorflow.py").write_text(_MODULE)

    def run(**environment):
        path = os.pathsep.join([str(tmp_path), str(_ROOT)])
        return programs.python(
            "-c",
            _USE,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": path,
                **environment,
            },
        ).stderr.splitlines()

    return run


@pytest.mark.skipif(
    any(pathlib.Path("/dev").glob("nvidia[0-9]*")), reason="has a GPU"
)
def test_errors_alone_are_shown(shown):
    assert shown() == [_FATAL, "2"]
    assert shown(TF_CPP_MIN_LOG_LEVEL="1") == [_FATAL, "1"]


def test_an_import_that_aborts_shows_its_error(shown):
    assert shown(ABORT="1")[0] == _FATAL


def test_the_log_level_of_the_user_shows_all_notices(shown):
    assert len(shown(TF_CPP_MIN_LOG_LEVEL="0")) == 4
