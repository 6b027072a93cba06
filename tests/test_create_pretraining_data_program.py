"""create_pretraining_data.py as a command."""

import os
import pathlib
import subprocess
import sys

import pytest

import create_pretraining_data
from tests import programs
from training import record_files

_ROOT = pathlib.Path(__file__).parents[1]
_VOCAB = str(_ROOT / "tests/golden/inputs/vocab.txt")


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(
        "the players began .\nthe match was long .\n\nrain .\nmore rain .\n",
        encoding="utf-8",
    )
    return str(path)


def _program(*arguments):
    return programs.python("create_pretraining_data.py", *arguments)


def test_records_are_made_without_tensorflow(tmp_path, text):
    (tmp_path / "tensorflow.py").write_text("raise RuntimeError")
    done = subprocess.run(
        [
            sys.executable,
            "create_pretraining_data.py",
            f"--input_file={text}",
            f"--output_file={tmp_path}/out",
            f"--vocab_file={_VOCAB}",
        ],
        cwd=_ROOT,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(record_files.RecordFiles([f"{tmp_path}/out"])) > 0


def test_program_runs_and_logs(tmp_path, text):
    done = _program(
        f"--input_file={text}",
        f"--output_file={tmp_path}/new/a,{tmp_path}/new/b",
        f"--vocab_file={_VOCAB}",
        "--max_seq_length=16",
        "--max_predictions_per_seq=3",
        "--dupe_factor=30",
        "--verbosity=1",
    )
    assert done.returncode == 0, done.stderr
    assert f"Reading {text}" in done.stderr
    assert "Read 1 files: 2 documents, 4 sentences." in done.stderr
    files = [record_files.RecordFiles([f"{tmp_path}/new/{n}"]) for n in "ab"]
    count = len(files[0]) + len(files[1])
    assert f"Created {count} instances" in done.stderr
    for name, file in zip("ab", files, strict=True):
        assert f"Wrote {len(file)} records to {tmp_path}/new/{name}" in (
            done.stderr
        )
    assert done.stderr.count("*** Example ***") == 20
    assert done.stderr.count("tokens: [CLS] ") == 20
    assert done.stderr.count("input_ids: 4 ") == 20
    assert done.stderr.count("next_sentence_labels: ") == 20
    assert "seconds." in done.stderr


def test_a_stray_argument_is_refused():
    done = _program(
        "--input_file=a", "--output_file=b", "--vocab_file=c", "stray"
    )
    assert done.returncode != 0
    assert "Only flags, --NAME=VALUE" in done.stdout + done.stderr
    assert "got stray." in done.stdout + done.stderr


def test_options_of_beam_need_a_runner():
    with pytest.raises(
        ValueError, match=r"with --runner Apache Beam options .* got --x=1"
    ):
        options = create_pretraining_data.Options(
            input_file="a", output_file="b", vocab_file="c"
        )
        create_pretraining_data.run(options, ["--x=1"])
