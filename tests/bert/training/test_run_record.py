"""The record of the programs that ran in a folder."""

import contextlib
import dataclasses
import json
import pathlib
import re
import subprocess
import sys

import pytest

from bert.files import json_text
from bert.training import run_record
from tests.support import toy_files


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Options:
    output_dir: str
    learning_rate: float = 0.5


def _lines(folder):
    return toy_files.read_json_lines(folder / "run.jsonl")


def test_each_program_adds_its_start_and_its_outcome(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["run_x.py", "--learning_rate=0.5"])
    options = _Options(output_dir=str(tmp_path / "out"))
    seen = []

    def refuse(options):
        raise ValueError("no such flag")

    def run(options):
        run_record.write_start(options)
        seen.extend(_lines(tmp_path / "out"))

    def fail(options):
        run_record.write_start(options)
        raise ValueError("no data")

    def stop(options):
        run_record.write_start(options)
        sys.exit(143)

    def interrupt(options):
        run_record.write_start(options)
        raise KeyboardInterrupt

    with pytest.raises(ValueError, match="no such flag"):
        run_record.recorded(refuse)(options)
    assert not (tmp_path / "out").exists()
    run_record.recorded(run)(options)
    for action, error in (
        (fail, ValueError),
        (stop, SystemExit),
        (interrupt, KeyboardInterrupt),
    ):
        with pytest.raises(error):
            run_record.recorded(action)(options)
    lines = _lines(tmp_path / "out")
    assert lines[0] == seen[0]
    assert lines[0]["command"] == ["run_x.py", "--learning_rate=0.5"]
    assert lines[0]["flags"] == dataclasses.asdict(options)
    assert lines[0]["packages"]["tensorflow"]
    assert "commit" in lines[0]
    assert [line["outcome"] for line in lines[1::2]] == [
        "finished",
        "ValueError: no data",
        "interrupted",
        "interrupted",
    ]


def test_the_commit_says_whether_files_are_modified(
    tmp_path, tmp_path_factory, monkeypatch
):
    git = [
        "git",
        "-C",
        str(tmp_path),
        "-c",
        "user.name=a",
        "-c",
        "user.email=b",
    ]
    (tmp_path / "file").write_text("one")
    for command in (["init", "-q"], ["add", "file"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *command], check=True)
    # Instead of the clone, which no test modifies.
    monkeypatch.setattr(run_record, "_ROOT", str(tmp_path))
    options = _Options(output_dir=str(tmp_path_factory.mktemp("out")))
    run_record.write_start(options)
    (tmp_path / "file").write_text("two")
    run_record.write_start(options)
    first, second = _lines(pathlib.Path(options.output_dir))
    assert re.fullmatch("[0-9a-f]{40}", first["commit"])
    assert second["commit"] == f"{first['commit']}-dirty"


def test_a_finished_run_says_how_long_it_took(tmp_path, caplog):
    options = _Options(output_dir=str(tmp_path))
    run_record.recorded(run_record.write_start)(options)
    assert re.fullmatch(r"Finished in 0:00:\d\d\.", caplog.messages[-1])


def test_a_damaged_record_or_an_unknown_version_stops_no_run(
    tmp_path, monkeypatch
):
    # All of its packages are installed.
    monkeypatch.setattr(run_record, "_PACKAGES", ("numpy", "no-such-package"))
    (tmp_path / "run.jsonl").write_bytes(b"\xff{")
    options = _Options(output_dir=str(tmp_path))
    run_record.recorded(run_record.write_start)(options)
    last = (tmp_path / "run.jsonl").read_bytes().splitlines()[-1]
    assert json.loads(last)["outcome"] == "finished"
    # The damaged line stays a line of its own, and is skipped.
    records = json_text.read_log(str(tmp_path / "run.jsonl"))
    assert [sorted(record)[0] for record in records] == ["command", "ended"]


@pytest.mark.parametrize("error", [None, ValueError("no data")])
def test_a_run_ends_in_the_folder_in_which_it_started(tmp_path, error):
    def predict(options):
        # As `follow` replaces the folder of an experiment by its best trial.
        trial = dataclasses.replace(options, output_dir=str(tmp_path / "trial"))
        run_record.write_start(trial)
        if error:
            raise error

    options = _Options(output_dir=str(tmp_path))
    with pytest.raises(ValueError) if error else contextlib.nullcontext():
        run_record.recorded(predict)(options)
    outcome = "ValueError: no data" if error else "finished"
    assert _lines(tmp_path / "trial")[-1]["outcome"] == outcome
    assert not (tmp_path / "run.jsonl").exists()
