"""The loop of a run, on a model whose only weight counts the steps.

Steps, batches and pictures have stand-ins, so that each order of saves, signals
and kills takes milliseconds. Runs of programs see them in a few orders.
"""

import os
import pathlib
import shutil
import signal
import types
from typing import ClassVar

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert.models import description as description_lib
from bert.models import folder as folder_lib
from bert.records import reading
from bert.training import (
    checkpointing,
    failures,
    input_pipeline,
    network,
    optimization,
    profiling,
    reporting,
    resuming,
    run,
    steps,
    warm_start,
    workers,
)
from bert.training import options as training_options
from bert.training import setup as setup_lib
from modeling import checkpoint_files, checkpoints, compilation
from modeling import config as config_lib
from tests.support import toy_files

_STRATEGY = tf.distribute.OneDeviceStrategy("/CPU:0")


class _Trainer:
    """Stands in for the compiled steps: each adds 1 to the weight.

    Args:
        objective: its model has the weight.
        made: receives the names of events.
    """

    mode = compilation.ExecutionMode.PLAIN
    strategy = _STRATEGY

    def __init__(self, objective, made):
        self.objective, self._made = objective, made
        moment = tf.Variable([0.0])
        self.optimizer = types.SimpleNamespace(
            slots=lambda: {"count/kernel/adam_m": moment}
        )
        self.loss_scale = steps.LossScale(active=False)

    def run(self, iterator, step, learning_rate, *, seed, **_):
        if self._made.error:
            raise self._made.error
        (weight,) = self.objective.model.weights
        weight.assign_add(tf.ones(weight.shape))
        is_bad = step + 1 == self._made.bad_step
        self._made.events.append(f"step {step + 1}")
        return steps.StepResult(
            losses={"loss": tf.constant(float(step))},
            metrics={},
            # Reported, so that a test sees it.
            gradient_norm=tf.constant(float(seed)),
            learning_rate=tf.constant(learning_rate),
            skipped_steps=tf.constant(0),
            first_bad_step=tf.constant(step if is_bad else -1),
            input_seconds=tf.constant(0.0),
        )


class _Files:
    def __len__(self):
        return 3

    def fingerprint(self):
        return "f"


class _Network(network.Network):
    """A weight that counts steps."""

    def __init__(self, made):
        super().__init__(_STRATEGY, self._new)
        self._made = made

    def _new(self):
        layer = keras.layers.Dense(
            1, use_bias=False, kernel_initializer="zeros", name="count"
        )
        model = keras.Sequential([keras.Input((1,)), layer])
        return types.SimpleNamespace(model=model)

    def trainer(self, options, mode, num_frozen_layers):
        return _Trainer(self.objective, self._made)


class _Made(setup_lib.Evaluation):
    """Evaluates to a given loss for each number of steps.

    Attributes:
        setup: of the run.
        events: their names, in their order.
        metrics: those with which results were written.
    """

    def __init__(self, *, losses=None, bad_step=0, error=None):
        self.events = []
        self.bad_step, self.error = bad_step, error
        self._losses = losses or {}
        self.setup = setup_lib.Setup(
            planned=folder_lib.PlannedModel(
                config=config_lib.BertConfig(vocab_size=3),
                description=description_lib.Description(),
            ),
            new_variables=(),
            is_pretrained=False,
            network=_Network(self),
            records=reading.RecordSource(
                files=_Files(), features=(), vocab_size=3
            ),
            evaluation=self,
            metric=resuming.HeldOutMetric(
                name="loss", higher_is_better=False, held_out={}
            ),
            splits=("eval",),
        )

    @staticmethod
    def _num_steps(objective):
        (weight,) = objective.model.weights
        return int(weight.numpy().item())

    def score(self, objective):
        num_steps = self._num_steps(objective)
        self.events.append(f"evaluation {num_steps}")
        return {"loss": self._losses.get(num_steps, 1.0)}

    def write_results(self, objective, output_dir, step, splits, metrics):
        self.events.append(f"results {step}")
        self.metrics = metrics
        return {"step": step}


@pytest.fixture(autouse=True)
def _without_batches(monkeypatch):
    batches = types.SimpleNamespace(
        describe=lambda step: f"rows of {step}", iterator=lambda *_: iter(())
    )
    monkeypatch.setattr(
        input_pipeline, "training_batches", lambda *_, **__: batches
    )


@pytest.fixture(autouse=True)
def _without_curves(monkeypatch):
    """Leaves out the pictures of runs."""
    monkeypatch.setattr(
        reporting,
        "draw_curves",
        lambda _, path: pathlib.Path(path).write_bytes(b"picture"),
    )


@pytest.fixture(autouse=True)
def _saves(monkeypatch):
    """Adds the saves of the current experiment to its events."""
    save = checkpointing.save

    def seen(folder, step, *others, **named):
        kind = "best" if folder.endswith("best") else "save"
        _Current.events.append(f"{kind} {step}")
        return save(folder, step, *others, **named)

    monkeypatch.setattr(checkpointing, "save", seen)


class _Current:
    events: ClassVar[list[str]] = []


def _run(folder, options=None, *, every=0, end=4, init=None, **changes):
    """Runs an experiment in a folder; returns it."""
    made = _Made(**changes)
    _Current.events = made.events
    values = {
        "output_dir": str(folder),
        "input_file": "records",
        "bert_config_file": "",
        "do_train": True,
        "do_eval": True,
        "num_train_steps": end,
        "num_warmup_steps": 0,
        "eval_every_steps": every,
        "jit_compile": "false",
        "log_every_steps": 1,
        "save_checkpoints_steps": 100,
        **(options or {}),
    }
    made.results = run.run(
        made.setup,
        training_options.PretrainingOptions(**values),
        folder_lib.ModelFolder.open(str(folder), is_folder=True),
        init,
    )
    return made


def _reported(folder, name="eval_loss"):
    reports = toy_files.read_json_lines(folder / "metrics.jsonl")
    return [(line["step"], line[name]) for line in reports if name in line]


def _best(folder):
    record = toy_files.read_json(folder / "best/best.json")
    return record["step"], record["value"]


def test_a_run_saves_before_it_evaluates_and_keeps_the_lowest_loss(tmp_path):
    losses = {2: 0.5, 4: 0.3, 5: 0.4}
    made = _run(tmp_path, every=2, end=5, losses=losses)
    assert made.events == [
        *("step 1", "step 2", "save 2", "evaluation 2", "best 2", "step 3"),
        *("step 4", "save 4", "evaluation 4", "best 4", "step 5", "save 5"),
        *("evaluation 5", "results 5"),
    ]
    assert _reported(tmp_path) == list(losses.items())
    assert _best(tmp_path) == (4, 0.3)
    # The best weights have no moments.
    moment = "count/kernel/adam_m"
    assert moment in checkpoints.read(str(tmp_path / "model.ckpt-5"))
    assert moment not in checkpoints.read(str(tmp_path / "best/model.ckpt-4"))
    # The weights were evaluated already.
    assert made.metrics == {"loss": 0.4}
    made = _run(tmp_path, every=2, end=5, losses=losses)
    assert made.events == ["results 5"]
    assert made.metrics is None


def test_a_checkpoint_knows_the_data_and_the_precision_in_use(tmp_path):
    _run(tmp_path, {"precision": "auto"}, end=2)
    state = resuming.load_state(str(tmp_path / "model.ckpt-2"))
    assert state["data"] == {
        "num_records": 3,
        "records_fingerprint": "f",
        "masking": None,
        "num_replicas": 1,
    }
    assert state["flags"]["precision"] == "float32"
    assert state["execution"] == {"device": "CPU", "execution_mode": "plain"}


@pytest.mark.parametrize("kind", ["release", "continuous"])
def test_the_rates_of_steps_are_those_of_the_schedule(tmp_path, kind):
    _run(tmp_path, {"lr_schedule": kind, "num_warmup_steps": 2}, end=5)
    schedule = optimization.Schedule(
        init_lr=5e-5, num_train_steps=5, num_warmup_steps=2, kind=kind
    )
    rates = [rate for _, rate in _reported(tmp_path, "learning_rate")]
    assert rates == pytest.approx(schedule.learning_rate(np.arange(5)))


def test_dropout_has_the_seed_of_the_run(tmp_path):
    _run(tmp_path, {"random_seed": 7}, end=1)
    assert _reported(tmp_path, "gradient_norm") == [(1, 7.0)]


def test_a_command_that_stops_early_counts_the_steps_of_the_run(
    tmp_path, caplog
):
    caplog.set_level("INFO")
    made = _run(tmp_path, {"stop_at_step": 2}, end=4)
    assert made.events[-2:] == ["save 2", "results 2"]
    assert "step 2/4 50%" in caplog.text


def test_a_record_that_cannot_be_read_ends_a_run_by_its_name(
    tmp_path, monkeypatch
):
    error = tf.errors.InvalidArgumentError(
        None, None, "Name: a record 1, Key: x"
    )
    message = "^a record 1 does not fit this run: Key: x"
    with pytest.raises(ValueError, match=message):
        _run(tmp_path, error=error)
    made = _run(tmp_path, end=1)

    def fail(*_):
        raise error

    monkeypatch.setattr(_Made, "write_results", fail)
    monkeypatch.setattr(warm_start, "load_for_evaluation", lambda *_: None)
    folder = folder_lib.ModelFolder.open(str(tmp_path))
    with pytest.raises(ValueError, match=message):
        run.evaluate(made.setup, folder, init=None)


def test_an_evaluation_without_weights_asks_for_them(tmp_path):
    with pytest.raises(ValueError, match="--init_checkpoint must be given"):
        _run(tmp_path, {"do_train": False})


def test_checkpoints_that_are_kept_for_good_are_saved(tmp_path):
    made = _run(
        tmp_path,
        {
            "keep_checkpoint_every_n_steps": 3,
            "keep_checkpoint_max": 1,
            "save_checkpoints_steps": 2,
        },
        end=7,
    )
    saves = [event for event in made.events if event.startswith("save")]
    steps_saved = [0, 2, 3, 4, 6, 7]
    assert saves == [f"save {step}" for step in steps_saved]
    assert checkpoint_files.saved_steps(str(tmp_path)) == [0, 3, 6, 7]


def _raise_signal_at(monkeypatch, wanted):
    """Sends SIGTERM to this process when an event happens."""

    class Events(list):
        def append(self, event):
            super().append(event)
            if event == wanted:
                os.kill(os.getpid(), signal.SIGTERM)

    class Trainer(_Trainer):
        def __init__(self, objective, made):
            made.events = _Current.events = Events(made.events)
            super().__init__(objective, made)

    monkeypatch.setitem(globals(), "_Trainer", Trainer)


@pytest.mark.parametrize(
    ("event", "events", "left"),
    [
        # No evaluation, which may take long, delays the end.
        (
            "step 2",
            ["step 1", "step 2", "save 2"],
            ["evaluation 2", "step 3", "step 4", "save 4", "evaluation 4"],
        ),
        (
            "evaluation 2",
            ["step 1", "step 2", "save 2", "evaluation 2"],
            ["step 3", "step 4", "save 4", "evaluation 4"],
        ),
        (
            "step 1",
            ["step 1", "save 1"],
            ["step 2", "save 2", "evaluation 2", "step 3", "step 4", "save 4"],
        ),
    ],
)
def test_a_signal_ends_a_run_after_the_step_and_nothing_is_lost(
    tmp_path, monkeypatch, event, events, left
):
    with monkeypatch.context() as patch:
        _raise_signal_at(patch, event)
        with pytest.raises(SystemExit) as stopped:
            _run(tmp_path, every=2, losses={2: 0.5})
    assert stopped.value.code == 128 + signal.SIGTERM
    without_best = [e for e in _Current.events if not e.startswith("best")]
    assert without_best == events
    made = _run(tmp_path, every=2, losses={2: 0.5})
    without_best = [e for e in made.events if not e.startswith("best")]
    assert without_best[: len(left)] == left
    assert _reported(tmp_path) == [(2, 0.5), (4, 1.0)]
    assert _best(tmp_path) == (2, 0.5)


def test_a_signal_in_the_last_save_ends_the_program(tmp_path, monkeypatch):
    _raise_signal_at(monkeypatch, "save 4")
    with pytest.raises(SystemExit):
        _run(tmp_path)
    assert _Current.events[-1] == "save 4"


@pytest.mark.parametrize("moment", ["save", "offer"])
def test_a_kill_within_an_evaluation_repeats_it_and_reports_it_once(
    tmp_path, monkeypatch, moment
):
    def die(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        target = checkpointing.BestCheckpoint
        if moment == "save":
            target = checkpointing.BestCheckpoint
            patch.setattr(target, "_write", die)
        else:
            patch.setattr(target, "offer", die)
        with pytest.raises(KeyboardInterrupt):
            _run(tmp_path, every=2, losses={2: 0.5})
    assert _reported(tmp_path) == [(2, 0.5)]
    made = _run(tmp_path, every=2, losses={2: 0.5})
    assert made.events[:3] == ["evaluation 2", "best 2", "step 3"]
    assert _reported(tmp_path) == [(2, 0.5), (4, 1.0)]
    assert _best(tmp_path) == (2, 0.5)


def _set_back(folder, step):
    """Makes a checkpoint the latest one, as a user does."""
    (folder / "checkpoint").write_text(
        f'model_checkpoint_path: "model.ckpt-{step}"\n'
    )


def test_the_best_of_steps_that_are_given_up_is_not_compared_with(
    tmp_path, caplog
):
    keep = {"keep_checkpoint_max": 0}
    losses = {2: 0.5, 4: 0.1, 6: 0.2}
    _run(tmp_path, keep, every=2, end=6, losses=losses)
    assert _best(tmp_path) == (4, 0.1)
    _set_back(tmp_path, 2)
    losses = {4: 0.7, 6: 0.6}
    made = _run(tmp_path, keep, every=2, end=6, losses=losses)
    assert "the weights of step 4 in" in caplog.text
    assert made.events[:2] == ["evaluation 2", "best 2"]
    assert _best(tmp_path) == (6, 0.6)
    assert len(list((tmp_path / "best").glob("*.index"))) == 1
    assert _reported(tmp_path) == [(2, 1.0), (4, 0.7), (6, 0.6)]


def test_a_run_without_evaluations_keeps_a_best_that_is_given_up(tmp_path):
    losses = {2: 0.5, 4: 0.1}
    keep = {"keep_checkpoint_max": 0}
    _run(tmp_path, keep, every=2, losses=losses)
    _set_back(tmp_path, 2)
    _run(tmp_path, keep)
    assert _best(tmp_path) == (4, 0.1)


def test_a_damaged_checkpoint_gives_up_the_best_of_its_step(tmp_path):
    losses = {2: 0.5, 4: 0.1}
    keep = {"keep_checkpoint_max": 0}
    _run(tmp_path, keep, every=2, losses=losses)
    index = tmp_path / "model.ckpt-4.index"
    index.write_bytes(index.read_bytes()[:-9])
    _run(tmp_path, keep, every=2, losses={2: 0.5, 4: 0.8})
    assert _best(tmp_path) == (2, 0.5)


def test_a_run_stops_when_it_no_longer_improves(tmp_path):
    losses = {1: 0.5, 2: 0.4, 3: 0.6, 4: 0.6, 5: 0.1}
    patience = {"early_stopping_patience": 2}
    made = _run(tmp_path, patience, every=1, end=5, losses=losses)
    assert made.events[-1] == "results 4"
    made = _run(tmp_path, patience, every=1, end=5, losses=losses)
    assert made.events == ["results 4"]
    # Set back, it counts from there.
    _set_back(tmp_path, 3)
    made = _run(tmp_path, patience, every=1, end=5, losses=losses)
    assert made.events[:2] == ["step 4", "save 4"]
    assert made.events[-1] == "results 4"


def test_a_run_that_is_set_back_counts_the_evaluations_before(tmp_path):
    losses = {2: 0.4, 4: 0.6, 6: 0.6, 8: 0.6, 10: 0.1}
    options = {"early_stopping_patience": 3, "keep_checkpoint_max": 0}
    made = _run(tmp_path, options, every=2, end=10, losses=losses)
    assert made.events[-1] == "results 8"
    _set_back(tmp_path, 6)
    made = _run(tmp_path, options, every=2, end=10, losses=losses)
    assert made.events[:2] == ["step 7", "step 8"]
    assert made.events[-1] == "results 8"


def test_nothing_is_saved_after_a_loss_that_is_not_finite(tmp_path):
    options = {"save_checkpoints_steps": 2, "log_every_steps": 100}
    with pytest.raises(failures.NonFiniteLossError, match=r"step 3.*rows of 2"):
        _run(tmp_path, options, bad_step=3, end=6)
    assert checkpoint_files.saved_steps(str(tmp_path)) == [2]


@pytest.mark.parametrize(
    "error",
    [
        tf.errors.ResourceExhaustedError(None, None, "OOM when allocating"),
        MemoryError(),
    ],
)
def test_out_of_memory_names_the_way_out(tmp_path, error):
    options = {"num_accumulation_steps": 2}
    with pytest.raises(failures.OutOfMemoryError) as caught:
        _run(tmp_path, options, error=error)
    assert "memory for a step. The same update" in str(caught.value)
    assert "--num_accumulation_steps=4" in str(caught.value)
    assert caught.value.__cause__ is error


def test_out_of_memory_in_an_evaluation_names_its_batch_size(
    tmp_path, monkeypatch
):
    def fail(self, objective):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM")

    monkeypatch.setattr(_Made, "score", fail)
    with pytest.raises(failures.OutOfMemoryError, match="--eval_batch_size"):
        _run(tmp_path, every=2)


def test_several_workers_agree_on_a_stop_every_few_steps(tmp_path, monkeypatch):
    asked = []

    def agree(self, number):
        asked.append(sum(e.startswith("step") for e in _Current.events))
        return number

    monkeypatch.setattr(workers.Communicator, "all_reduce_max", agree)
    monkeypatch.setattr(
        workers.Communicator, "is_sync_step", lambda self, step: step % 10 == 0
    )
    _run(tmp_path, {"save_checkpoints_steps": 7}, end=25)
    assert [*dict.fromkeys(asked)] == [0, 7, 10, 14, 20, 21, 25]


def _files(folder):
    return {
        path: path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def _events_of_two_workers(folder, monkeypatch, options, **changes):
    """Runs as the chief, then as another worker of the same run.

    The second run starts from a copy of the folder and gets the numbers that
    the chief reduced, in the same order.
    """
    copy = folder.with_name("copy")
    folder.mkdir(exist_ok=True)
    shutil.copytree(folder, copy)
    before = _files(copy)
    numbers, profiles = [], []
    profile = profiling.Profile

    def profile_nothing(folder, steps):
        profiles.append(steps)
        return profile(folder, None)

    def of_chief(self, number):
        numbers.append(number)
        return number

    monkeypatch.setattr(profiling, "Profile", profile_nothing)
    options = {**options, "profile_steps": (1, 2)}
    with monkeypatch.context() as patch:
        patch.setattr(workers.Communicator, "all_reduce_max", of_chief)
        chief = _run(folder, options, **changes)
    left = iter(numbers)
    with monkeypatch.context() as patch:
        patch.setattr(workers, "is_chief", lambda: False)
        patch.setattr(
            workers.Communicator,
            "all_reduce_max",
            lambda self, number: max(number, next(left)),
        )
        other = _run(copy, options, **changes)
    assert not [*left]
    assert _files(copy) == before
    assert profiles == [(1, 2), None]
    return chief.events, other.events


def _without_files(events):
    return [e for e in events if not e.startswith(("save", "best"))]


def test_other_workers_stop_with_the_chief_and_write_nothing(
    tmp_path, monkeypatch
):
    chief, other = _events_of_two_workers(
        tmp_path / "out",
        monkeypatch,
        {"early_stopping_patience": 2},
        every=1,
        end=5,
        losses={1: 0.5, 2: 0.4, 3: 0.6, 4: 0.6, 5: 0.1},
    )
    assert chief[-1] == "results 4"
    assert other == _without_files(chief)


def test_other_workers_repeat_an_evaluation_with_the_chief(
    tmp_path, monkeypatch
):
    def die(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(checkpointing.BestCheckpoint, "offer", die)
        with pytest.raises(KeyboardInterrupt):
            _run(tmp_path / "out", every=2)
    chief, other = _events_of_two_workers(
        tmp_path / "out", monkeypatch, {}, every=2
    )
    assert chief[:2] == ["evaluation 2", "best 2"]
    assert other == _without_files(chief)
