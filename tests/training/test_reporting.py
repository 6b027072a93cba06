import json
import re
from unittest import mock

import pytest
import tensorflow as tf
from absl import logging
from tensorboard.backend.event_processing import (
    plugin_event_accumulator as event_accumulator,
)

from training import reporting


def _values(loss=1.0, **speed):
    return {"loss": loss, "learning_rate": 1e-3, **speed}


def test_console_line():
    values = _values(2.34567, examples_per_second=12.34, input_wait=0.151)
    assert reporting.console_line(50, 1000, values, 61.0) == (
        "step 50/1,000 5%  loss 2.346  rate 1.00e-03  12.3 examples/s  "
        "1m 01s left"
    )
    line = reporting.console_line(1000, 1000, _values())
    assert line == "step 1,000/1,000 100%  loss 1  rate 1.00e-03"


def test_numbers_that_are_not_finite_are_null(tmp_path):
    reporter = reporting.Reporter(str(tmp_path), 10, 0)
    reporter.evaluation(5, {"loss": float("nan"), "accuracy": float("inf")})
    reporter.evaluation(6, {"f1": 80.0})
    assert _lines(tmp_path) == [
        {"step": 5, "eval_loss": None, "eval_accuracy": None},
        {"step": 6, "eval_f1": 80.0},
    ]
    assert reporter.has_evaluation(5) and reporter.has_evaluation(6)
    reporter.close()
    assert (tmp_path / reporting.PLOT_FILE).exists()


def _lines(folder):
    return [
        json.loads(line)
        for line in (folder / "metrics.jsonl").read_text().splitlines()
    ]


def test_metrics_are_written_as_they_come(tmp_path):
    reporter = reporting.Reporter(str(tmp_path), 10, 0)
    values = _values(1 / 3, examples_per_second=2.0, input_wait=0.151)
    reporter.training(5, values, 61.0)
    assert not reporter.has_evaluation(5)
    reporter.evaluation(5, {"loss": 0.25, "masked_lm_accuracy": 0.5})
    assert reporter.has_evaluation(5)
    assert not reporter.has_evaluation(4)
    assert _lines(tmp_path) == [
        {
            "step": 5,
            "loss": 0.3333333,
            "learning_rate": 0.001,
            "examples_per_second": 2.0,
            "input_wait": 0.151,
        },
        {"step": 5, "eval_loss": 0.25, "eval_masked_lm_accuracy": 0.5},
    ]
    reporter.close()
    assert not (tmp_path / "loss.png").exists()  # A step is no curve.
    reporter = reporting.Reporter(str(tmp_path), 10, 5)
    reporter.training(10, values)
    reporter.close()
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    reporter = reporting.Reporter(str(tmp_path), 10, 0)
    reporter.training(3, values)
    reporter.close()
    assert not (tmp_path / "loss.png").exists()


def test_a_resumed_run_forgets_what_is_made_again(tmp_path):
    first = reporting.Reporter(str(tmp_path), 10, 0)
    for step in (2, 4, 6):
        first.training(step, _values(float(step)))
    first.close()
    # TensorBoard reads files by name, which begins with the second.
    for written in list(tmp_path.glob("events*")):
        second = written.name.split(".")[3]
        earlier = written.name.replace(second, "1000000000")
        written.rename(tmp_path / earlier)
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"step": 8, "lo')
    second = reporting.Reporter(str(tmp_path), 10, 4)
    assert [line["step"] for line in _lines(tmp_path)] == [2, 4]
    for step in (6, 8):
        second.training(step, _values(step + 0.5))
    second.close()
    assert [line["loss"] for line in _lines(tmp_path)] == [2, 4, 6.5, 8.5]

    events = event_accumulator.EventAccumulator(str(tmp_path)).Reload()
    points = {
        event.step: tf.make_ndarray(event.tensor_proto).item()
        for event in events.Tensors("loss")
    }
    assert [event.step for event in events.Tensors("loss")] == [2, 4, 6, 8]
    assert points == {2: 2.0, 4: 4.0, 6: 6.5, 8: 8.5}


def test_warnings_are_logged_with_their_step(tmp_path):
    def check(step, values):
        return [f"a loss of {values['loss']}"] if step == 4 else []

    reporter = reporting.Reporter(str(tmp_path), 10, 0, check)
    with mock.patch.object(reporting.logging, "warning") as warning:
        reporter.training(2, _values())
        reporter.training(4, _values(9.0))
    reporter.close()
    assert [call.args for call in warning.call_args_list] == [
        ("step %d: %s", 4, "a loss of 9.0")
    ]


def test_clock_leaves_pauses_out(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(reporting.time, "monotonic", lambda: now[0])
    clock = reporting.Clock()
    now[0] = 2.0
    with clock.pause():
        now[0] = 7.0
    now[0] = 8.0
    assert clock.lap() == 3.0
    now[0] = 9.5
    assert clock.lap() == 1.5


def test_reports_of_a_file(tmp_path):
    path = tmp_path / "metrics.jsonl"
    reporting.remove_later_metrics(str(path), 3)
    assert reporting.read_metrics(str(path)) == []
    # A line cut short is left out, and a broken one named.
    path.write_text('{"step": 1, "loss": 2.5}\n{"step": 2, "lo')
    assert reporting.read_metrics(str(path)) == [{"step": 1, "loss": 2.5}]
    path.write_text('{"step": 1}\noops\n')
    with pytest.raises(ValueError, match=r"metrics.jsonl:2: must be a JSON"):
        reporting.read_metrics(str(path))


def test_later_steps_are_removed(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 3}\n{"step": 4}\n')
    reporting.remove_later_metrics(str(path), 3)
    assert path.read_text() == '{"step": 1}\n{"step": 3}\n'
    # If there are none, the file remains that of the earlier run.
    inode = path.stat().st_ino
    reporting.remove_later_metrics(str(path), 3)
    assert path.stat().st_ino == inode


def test_a_run_in_a_few_numbers():
    records = [
        {"step": 1, "loss": 3.0},
        {"step": 2, "loss": 2.0, "examples_per_second": 5.0},
        {"step": 2, "eval_loss": 2.5},
        {"step": 3, "examples_per_second": 9.0, "input_wait": 0.5},
        {"step": 4, "loss": 0.5, "examples_per_second": 6.0, "input_wait": 1.5},
    ]
    assert reporting.summarize(records) == {
        "last_step": 4,
        "examples_per_second": 6.0,
        "input_wait": 1.0,
        "last_training": records[-1],
        "last_evaluation": records[2],
    }
    assert reporting.summarize([]) == {}
    # Speeds that are not finite have no part in the median.
    records = [
        {"step": 1, "examples_per_second": None, "input_wait": None},
        {"step": 2, "examples_per_second": 4.0, "input_wait": None},
    ]
    assert reporting.summarize(records) == {
        "last_step": 2,
        "examples_per_second": 4.0,
        "last_training": records[-1],
    }


_RECORDS = [
    {
        "step": 1,
        "loss": 2.0,
        "next_sentence_loss": 0.5,
        "masked_lm_accuracy": 0.25,
        "gradient_norm": 1.0,
        "learning_rate": 0.1,
        "examples_per_second": 3.0,
        "input_wait": 0.5,
    },
    {"step": 2, "loss": 1.0, "learning_rate": 0.05},
    {"step": 2, "eval_loss": 1.5, "eval_f1": 80.0},
]


def _figure(monkeypatch, runs, path):
    """Draws, and returns the figure that was drawn."""
    from matplotlib import figure

    made = []

    class Figure(figure.Figure):
        def __init__(self, *args, **named):
            super().__init__(*args, **named)
            made.append(self)

    monkeypatch.setattr(figure, "Figure", Figure)
    reporting.draw_curves(runs, str(path))
    assert path.read_bytes().startswith(b"\x89PNG")
    return made[0]


def test_training_and_evaluation_share_a_panel(tmp_path, monkeypatch):
    drawn = _figure(monkeypatch, {"": _RECORDS}, tmp_path / "a.png")
    assert [axis.get_ylabel() for axis in drawn.axes] == [
        "loss",
        "next sentence loss",
        "f1",
        "masked lm accuracy",
        "learning rate",
    ]
    loss, *_, rate = drawn.axes
    assert [line.get_label() for line in loss.lines] == ["training", "held out"]
    assert loss.lines[0].get_xydata().tolist() == [[1, 2.0], [2, 1.0]]
    assert loss.lines[1].get_xydata().tolist() == [[2, 1.5]]
    assert rate.get_legend() is None


def test_each_run_has_its_color(tmp_path, monkeypatch):
    drawn = _figure(
        monkeypatch, {"a": _RECORDS, "_b": _RECORDS[:2]}, tmp_path / "b.png"
    )
    lines = drawn.axes[0].lines
    legend = drawn.axes[0].get_legend().get_texts()
    assert [text.get_text() for text in legend] == [
        "a, training",
        "a, held out",
        "./_b, training",
    ]
    colors = [line.get_color() for line in lines]
    assert colors[0] == colors[1] != colors[2]
    reporting.draw_curves({"": []}, str(tmp_path / "none.png"))
    assert not (tmp_path / "none.png").exists()


def test_a_block_logs_its_seconds_and_memory(caplog):
    logging.set_verbosity(logging.INFO)
    with reporting.log_cost("Cutting windows"):
        pass
    (line,) = (record.getMessage() for record in caplog.records)
    match = re.fullmatch(
        r"Cutting windows took 0\.0 s; peak memory so far ([\d,]+) MB",
        line,
    )
    assert int(match.group(1).replace(",", "")) > 10
