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


def test_folders_of_trials_have_a_number(folder):
    (folder / "trial-notes").mkdir()
    assert run_files.trial_folders(str(folder)) == [
        str(folder / run_files.trial_name(number)) for number in (1, 10, 2)
    ]
    assert run_files.trial_folders(str(folder / "best")) == []


def test_files_of_trials_are_found_by_pattern(folder):
    for name in ("a.json", "trial-1/a.json", "trial-2/b.json", "best/a.json"):
        (folder / name).touch()
    found = run_files.trial_files(str(folder), "*.json")
    assert found == [
        str(folder / "trial-1/a.json"),
        str(folder / "trial-2/b.json"),
    ]
    assert run_files.trial_files(str(folder), "a.json") == found[:1]


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
