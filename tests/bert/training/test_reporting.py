import os
import pty
import re
import sys
import termios
import time

import pytest
import tensorflow as tf
from absl import logging
from tensorboard.backend.event_processing import (
    plugin_event_accumulator as event_accumulator,
)

from bert.training import failures, reporting, steps
from bert.training import length as length_lib
from tests.support import toy_files

_ZERO = {"gradient_norm": 2.0, "skipped_steps": 0, "learning_rate": 1e-3}


def _result(loss=1.0, first_bad_step=-1, **values):
    """Makes the result of a step, as `Trainer.run` returns it."""
    values = {**_ZERO, "first_bad_step": first_bad_step, **values}
    return steps.StepResult(
        losses={"masked_lm_loss": tf.constant(loss)},
        metrics={"masked_lm_accuracy": (tf.constant(1.0), tf.constant(4.0))},
        input_seconds=tf.constant(0.25, tf.float64),
        **{name: tf.constant(value) for name, value in values.items()},
    )


_LENGTH = length_lib.Length(num_train_steps=10, batch_size=8)


def _reporter(folder, first_step=0, **changes):
    values = {
        "log_every_steps": 100,
        "describe": lambda step: f"rows of {step}",
    }
    return reporting.Reporter(
        str(folder), _LENGTH, first_step, **values | changes
    )


def _report(reporter, step, loss):
    reporter.add(step, _result(loss))
    reporter.report_training(step)


def _lines(folder):
    return toy_files.read_json_lines(folder / "metrics.jsonl")


@pytest.fixture
def now(monkeypatch):
    """The seconds of a clock that does not depend on the machine."""
    seconds = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: seconds[0])
    return seconds


def test_a_report_has_means_and_the_speed_without_compilation_and_pauses(
    tmp_path, now
):
    reporter = _reporter(tmp_path)
    for step, seconds in ((1, 100.0), (2, 1.0), (3, 3.0)):
        now[0] += seconds
        reporter.add(step, _result(loss=float(step)))
    now[0] += 1.0  # The host prepares the next step.
    with reporter.pause():
        now[0] += 50.0
    reporter.report_training(3)
    assert _lines(tmp_path) == [
        {
            "step": 3,
            "loss": 2.0,
            "masked_lm_accuracy": 0.25,
            "gradient_norm": 2.0,
            "learning_rate": 0.001,
            # Two steps of 8 examples in 5 seconds; half a second of waiting.
            "examples_per_second": 3.2,
            "input_wait": 10.0,
        }
    ]


def test_the_speed_and_the_time_left_are_those_since_the_last_report(
    tmp_path, now, caplog
):
    reporter = _reporter(tmp_path)
    for step, seconds in ((1, 100.0), (2, 1.0), (3, 4.0), (4, 4.0)):
        now[0] += seconds
        reporter.add(step, _result(learning_rate=step / 1000))
        if step % 2 == 0:
            reporter.report_training(step)
    first, second = _lines(tmp_path)
    # A step of 8 examples in a second, then two in eight.
    assert first["examples_per_second"] == 8.0
    assert second["examples_per_second"] == 2.0
    assert second["input_wait"] == 6.25
    # The rate is that of the last step; six steps of four seconds are left.
    assert second["learning_rate"] == 0.004
    assert caplog.messages[-1].endswith("  2.0 examples/s  00:24 left")


def test_a_bar_shows_the_loss_of_the_first_steps(tmp_path, monkeypatch):
    ours, its = pty.openpty()
    termios.tcsetwinsize(its, (24, 120))
    monkeypatch.setenv("TERM", "xterm")
    logging.set_verbosity(logging.INFO)
    with open(its, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        reporter = _reporter(tmp_path)
        for step in range(1, 6):
            reporter.add(step, _result(loss=float(step)))
        reporter.report_training(5)
        reporter.__exit__()
    shown = os.read(ours, 100_000).decode()
    # The means of steps 1, 1 to 2, 1 to 4, and of the report.
    losses = re.findall(r"loss ([\d.]+), rate", shown)
    assert list(dict.fromkeys(losses)) == ["1", "1.5", "2.5", "3"]
    assert [line["loss"] for line in _lines(tmp_path)] == [3.0]


def test_the_mean_gradient_norm_is_that_of_the_steps_that_were_made(tmp_path):
    reporter = _reporter(tmp_path)
    reporter.add(1, _result(gradient_norm=0.0, skipped_steps=1))
    reporter.add(2, _result(gradient_norm=3.0))
    reporter.report_training(2)
    (line,) = _lines(tmp_path)
    assert (line["gradient_norm"], line["skipped_steps"]) == (3.0, 1)


def test_a_report_sums_the_terms_of_a_loss_and_averages_over_steps(tmp_path):
    reporter = _reporter(tmp_path)
    for step, (first, second, total, weight) in enumerate(
        [(1.0, 3.0, 1.0, 4.0), (2.0, 1.12345678, 2.0, 2.0)], 1
    ):
        result = _result()._replace(
            losses={"a": tf.constant(first), "b": tf.constant(second)},
            metrics={"b": (tf.constant(total), tf.constant(weight))},
        )
        reporter.add(step, result)
    reporter.report_training(2)
    (line,) = _lines(tmp_path)
    assert line["b"] == 0.5
    # Of 4 and 3.12345678, in seven digits.
    assert line["loss"] == 3.561728


def test_a_metric_of_no_weight_is_zero(tmp_path):
    reporter = _reporter(tmp_path)
    nothing = {"masked_lm_accuracy": (tf.constant(0.0), tf.constant(0.0))}
    reporter.add(1, _result()._replace(metrics=nothing))
    reporter.report_training(1)
    assert _lines(tmp_path)[0]["masked_lm_accuracy"] == 0.0


def test_values_are_in_the_event_file_before_the_run_ends(tmp_path):
    reporter = _reporter(tmp_path)
    _report(reporter, 2, 0.5)
    events = event_accumulator.EventAccumulator(str(tmp_path)).Reload()
    assert [event.step for event in events.Tensors("loss")] == [2]


@pytest.mark.parametrize("bad_step", [0, 1])
def test_a_loss_that_is_not_finite_is_an_error_that_names_its_batch(
    tmp_path, bad_step
):
    reporter = _reporter(tmp_path)
    for step in range(bad_step):
        reporter.add(step + 1, _result())
    reporter.check_losses()
    reporter.add(bad_step + 1, _result(first_bad_step=bad_step))
    message = f"loss of step {bad_step + 1}, .* batch: rows of {bad_step}"
    with pytest.raises(failures.NonFiniteLossError, match=message):
        reporter.check_losses()


def test_evaluations_and_numbers_that_are_not_finite(tmp_path):
    reporter = _reporter(tmp_path)
    _report(reporter, 5, 0.5)
    reporter.report_evaluation(5, {"loss": float("nan"), "f1": 80.0})
    assert _lines(tmp_path)[1] == {"step": 5, "eval_loss": None, "eval_f1": 80}
    reporter.__exit__(None, None, None)
    assert not (tmp_path / "loss.png").exists()  # A step is no curve.
    reporter = _reporter(tmp_path, 5)
    _report(reporter, 9, 0.5)
    reporter.__exit__(None, None, None)
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    reporter = _reporter(tmp_path)
    _report(reporter, 3, 0.5)
    reporter.__exit__(None, None, None)
    assert not (tmp_path / "loss.png").exists()


def test_a_resumed_run_forgets_what_is_made_again(tmp_path):
    first = _reporter(tmp_path)
    for step in (2, 4, 6):
        _report(first, step, float(step))
    first.__exit__(None, None, None)
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"step": 8, "lo')
    second = _reporter(tmp_path, 4)
    assert [line["step"] for line in _lines(tmp_path)] == [2, 4]
    for step in (6, 8):
        _report(second, step, step + 0.5)
    second.__exit__(None, None, None)
    assert [line["loss"] for line in _lines(tmp_path)] == [2, 4, 6.5, 8.5]


def test_tensorboard_shows_a_repeated_step_once(tmp_path):
    with _reporter(tmp_path) as first:
        for step in (2, 4, 6, 8):
            _report(first, step, float(step))
            first.report_evaluation(step, {"f1": float(step)})
    # It reports fewer steps than the first run, and other values.
    with _reporter(tmp_path, 4) as second:
        _report(second, 6, 6.5)
        second.report_evaluation(6, {"f1": 6.5})
    events = event_accumulator.EventAccumulator(str(tmp_path)).Reload()
    for name in ("loss", "eval/f1"):
        points = [
            (event.step, tf.make_ndarray(event.tensor_proto).item())
            for event in events.Tensors(name)
        ]
        assert points == [(2, 2.0), (4, 4.0), (6, 6.5)]


def test_reports_are_plotted_also_after_an_error(tmp_path):
    with pytest.raises(failures.NonFiniteLossError), _reporter(tmp_path) as run:
        _report(run, 1, 0.5)
        _report(run, 2, 0.5)
        run.add(3, _result(first_bad_step=2))
        run.report_training(3)
    assert (tmp_path / "loss.png").exists()


def test_an_evaluation_that_is_repeated_is_reported_once(tmp_path):
    with _reporter(tmp_path) as first:
        first.report_evaluation(2, {"f1": 0.4})
        _report(first, 4, 0.5)
        first.report_evaluation(4, {"f1": 0.5})
        first.report_evaluation(5, {"f1": 0.6})
    with _reporter(tmp_path, 4, repeats_evaluation=True) as second:
        second.report_evaluation(4, {"f1": 0.5})
    assert [line.keys() - {"step"} for line in _lines(tmp_path)] == [
        {"eval_f1"},
        *({"loss", "masked_lm_accuracy", "gradient_norm", "learning_rate"},),
        {"eval_f1"},
    ]


def test_a_worker_that_is_not_the_chief_writes_nothing(tmp_path):
    reporter = reporting.Reporter(
        None, _LENGTH, 0, log_every_steps=100, describe=lambda step: ""
    )
    _report(reporter, 5, 0.5)
    reporter.__exit__(None, None, None)
    assert not list(tmp_path.iterdir())


def test_reports_of_a_file(tmp_path):
    path = tmp_path / "metrics.jsonl"
    reporting.remove_later_metrics(str(path), 3)
    assert reporting.read_metrics(str(path)) == []
    # A line that is cut short or no report is left out.
    others = b'\xff\n[]\n{"a": 1}\n{"step": "2"}\n{"step": null}\n{"step": 2, '
    path.write_bytes(b'{"step": 1, "x": 2}\n' + others)
    assert reporting.read_metrics(str(path)) == [{"step": 1, "x": 2}]


def test_curves_are_of_each_metric_in_training_and_held_out(monkeypatch):
    figures = {}
    # The points of a curve cannot be read from pixels.
    monkeypatch.setattr(reporting.writing, "write_png", figures.__setitem__)
    records = [
        {"step": 2, "loss": 3.0, "examples_per_second": 9.0},
        {"step": 4, "loss": None, "learning_rate": 0.1},
        {"step": 4, "eval_loss": 2.5, "eval_masked_lm_accuracy": 0.5},
        {"step": 6, "loss": 1.0, "gradient_norm": 1.0, "skipped_steps": 1},
        {"step": 6, "eval_loss": 2.0, "input_wait": 0.5},
    ]
    reporting.draw_curves(records, "loss.png")
    axes = figures["loss.png"].axes
    curves = {
        axis.get_ylabel(): {
            line.get_label(): line.get_xydata().tolist() for line in axis.lines
        }
        for axis in axes
    }
    assert curves == {
        "loss": {"training": [[2, 3], [6, 1]], "held out": [[4, 2.5], [6, 2]]},
        "learning rate": {"training": [[4, 0.1]]},
        "masked lm accuracy": {"held out": [[4, 0.5]]},
    }
    assert [axis.get_xlabel() for axis in axes] == ["", "", "step"]
