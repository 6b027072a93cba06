"""Files for the GLUE server."""

import pathlib
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from tasks.classification import glue, labels, predictions

_ROOT = pathlib.Path(__file__).parents[3]


def _text(name, label_set, rows):
    outputs = np.array(rows, np.float32)
    answers = predictions.answers(label_set, outputs)
    return "".join(glue.submission_lines(name, answers))


def _files(archive):
    with zipfile.ZipFile(archive) as file:
        return {name: file.read(name).decode() for name in file.namelist()}


def test_answers_are_numbered_from_0_and_named():
    label_set = glue.find_dataset("MNLI").label_set
    text = _text("AX", label_set, [[0.1, 0.7, 0.2], [0.1, 0.2, 0.7]])
    assert text == "index\tprediction\n0\tentailment\n1\tneutral\n"
    label_set = glue.find_dataset("MRPC").label_set
    assert _text("MRPC", label_set, [[0, 1]]) == "index\tprediction\n0\t1\n"


def test_scores_stay_within_their_range():
    label_set = glue.find_dataset("STS-B").label_set
    text = _text("STS-B", label_set, [[-0.25], [2.34567], [5.5]])
    assert text.split("\n")[1:-1] == ["0\t0.000", "1\t2.346", "2\t5.000"]


def test_unexpected_number_of_rows_is_logged(caplog):
    label_set = labels.LabelSet(names=("0", "1"))
    _text("WNLI", label_set, [[0, 1]])
    assert "WNLI.tsv has 1 rows; the GLUE server expects 146" in caplog.text
    caplog.clear()
    _text("WNLI", label_set, [[0, 1]] * 146)
    assert caplog.text == ""


def test_every_test_set_of_glue_has_its_file():
    names = {
        split.submission
        for info in glue.DATASETS.values()
        for split in info.test
    }
    assert names == set(glue.SUBMISSION_ROWS)


def test_zip_collects_the_tasks_one_by_one(tmp_path):
    path = str(tmp_path / "s.zip")
    missing = glue.add_to_zip(path, {"RTE": "r1"})
    assert missing == [n for n in glue.SUBMISSION_ROWS if n != "RTE"]
    glue.add_to_zip(path, {"RTE": "r2", "AX": "a"})
    missing = glue.add_to_zip(
        path,
        {n: n for n in glue.SUBMISSION_ROWS if n not in ("RTE", "AX")},
    )
    assert missing == []
    files = _files(path)
    assert list(files) == [f"{name}.tsv" for name in glue.SUBMISSION_ROWS]
    assert (files["RTE.tsv"], files["AX.tsv"]) == ("r2", "a")
    assert files["QQP.tsv"] == "QQP"


def test_equal_answers_make_equal_zips(tmp_path):
    first, second = tmp_path / "1.zip", tmp_path / "2.zip"
    glue.add_to_zip(str(first), {"RTE": "r", "AX": "a"})
    glue.add_to_zip(str(second), {"AX": "a"})
    glue.add_to_zip(str(second), {"RTE": "r"})
    assert first.read_bytes() == second.read_bytes()


def test_zip_of_something_else_is_left_alone(tmp_path):
    path = tmp_path / "mine.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("photo.jpg", "x")
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"mine\.zip: .* got photo\.jpg"):
        glue.add_to_zip(str(path), {"RTE": "r"})
    assert path.read_bytes() == before
    path.write_text("not a zip")
    with pytest.raises(ValueError, match="not a zip file"):
        glue.add_to_zip(str(path), {"RTE": "r"})


_ADD = """
import sys
from tasks.classification import glue

print(flush=True)
sys.stdin.readline()
for task in sys.argv[2].split(","):
    glue.add_to_zip(sys.argv[1], {task: task})
"""


def test_processes_that_add_at_once_lose_nothing(tmp_path):
    path = tmp_path / "new" / "glue.zip"
    names = list(glue.SUBMISSION_ROWS)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _ADD, str(path), ",".join(names[k::3])],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for k in range(3)
    ]
    for process in processes:
        process.stdout.readline()
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    assert set(_files(path)) == {f"{name}.tsv" for name in names}
    assert [found.name for found in path.parent.iterdir()] == ["glue.zip"]


def test_zips_that_cannot_take_answers_are_refused_before(tmp_path):
    glue.check_zip(str(tmp_path / "new" / "glue.zip"))
    with pytest.raises(ValueError, match=r"ends in \.zip; got 'glue\.tsv'"):
        glue.check_zip("glue.tsv")
    path = tmp_path / "mine.zip"
    path.write_text("not a zip")
    with pytest.raises(ValueError, match="not a zip file"):
        glue.check_zip(str(path))
    path.unlink()
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        glue.check_zip(str(path))
