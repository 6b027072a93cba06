"""Files of results."""

import pytest

from bert.files import run_files


def test_results_are_sorted_and_printed_as_float32(tmp_path):
    path = tmp_path / "eval_results.txt"
    run_files.write_results(
        str(path),
        {"loss": 8.0644217, "accuracy": 0.5, "global_step": 7},
    )
    assert path.read_text() == (
        "accuracy = 0.5\nglobal_step = 7\nloss = 8.064422\n"
    )


def test_results_are_read_as_numbers(tmp_path):
    path = str(tmp_path / "eval_results.txt")
    run_files.write_results(path, {"f1": 0.5, "loss": float("nan"), "step": 7})
    found = run_files.read_results(path)
    assert found == {"f1": 0.5, "loss": "nan", "step": 7}
    assert isinstance(found["step"], int)


def test_other_lines_are_skipped_and_other_values_stay_text(tmp_path):
    path = tmp_path / "eval_results.txt"
    path.write_text("Results:\n\nf1=1\nbest = -inf\nname = a = b\n")
    assert run_files.read_results(str(path)) == {
        "best": "-inf",
        "name": "a = b",
    }


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        run_files.read_results(str(tmp_path / "eval_results.txt"))
