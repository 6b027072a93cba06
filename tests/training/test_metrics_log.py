import pytest

from training import metrics_log


def test_a_line_cut_short_is_left_out(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "loss": 2.5}\n{"step": 2, "lo')
    assert metrics_log.read(str(path)) == [{"step": 1, "loss": 2.5}]


def test_no_file_has_no_reports(tmp_path):
    path = str(tmp_path / "none")
    metrics_log.keep_until(path, 3)
    assert metrics_log.read(path) == []


def test_a_broken_line_is_named(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\noops\n')
    with pytest.raises(ValueError, match=r"metrics.jsonl:2: must be a JSON"):
        metrics_log.read(str(path))


def test_later_steps_are_removed(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 3}\n{"step": 4}\n')
    metrics_log.keep_until(str(path), 3)
    assert path.read_text() == '{"step": 1}\n{"step": 3}\n'


def test_a_run_in_a_few_numbers():
    records = [
        {"step": 1, "loss": 3.0},
        {"step": 2, "loss": 2.0, "examples_per_second": 5.0},
        {"step": 2, "eval_loss": 2.5},
        {"step": 3, "examples_per_second": 9.0, "input_wait": 0.5},
        {"step": 4, "loss": 0.5, "examples_per_second": 6.0, "input_wait": 1.5},
    ]
    assert metrics_log.summarize(records) == {
        "last_step": 4,
        "examples_per_second": 6.0,
        "input_wait": 1.0,
        "last_training": records[-1],
        "last_evaluation": records[2],
    }
    assert metrics_log.summarize([]) == {}
