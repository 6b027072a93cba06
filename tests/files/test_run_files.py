"""The folders of trials, and the checkpoints in a run's folder."""

import pytest

from files import run_files


@pytest.fixture
def folder(tmp_path):
    """Returns the folder of a run, whose name is a pattern of others."""
    folder = tmp_path / "run[1]"
    for name in ("trial-1", "trial-2", "trial-10", "best"):
        (folder / name).mkdir(parents=True)
    return folder


def test_checkpoints_are_those_of_the_run_or_of_its_trials(folder):
    assert run_files.checkpoints_in(str(folder)) == []
    assert run_files.checkpoints_in(str(folder), in_trials=True) == []
    names = ("x.index", "x.data-00000-of-00001", "best/y.index")
    for name in (*names, "trial-10/x.index"):
        (folder / name).touch()
    assert run_files.checkpoints_in(str(folder)) == [str(folder / "x.index")]
    assert run_files.checkpoints_in(str(folder), in_trials=True) == [
        str(folder / "trial-10/x.index")
    ]
