import dataclasses

import pytest
from absl import flags

import run_pretraining
from commands import flags as flags_lib
from tasks import task
from tests import programs
from training import flags as training_flags

# Source: run_pretraining.py of the release.
_RELEASED_DEFAULTS = {
    "init_checkpoint": None,
    "max_seq_length": 128,
    "max_predictions_per_seq": 20,
    "do_train": False,
    "do_eval": False,
    "train_batch_size": 32,
    "eval_batch_size": 8,
    "learning_rate": 5e-5,
    "num_train_steps": 100000,
    "num_warmup_steps": 10000,
    "save_checkpoints_steps": 1000,
    "iterations_per_loop": 1000,
    "max_eval_steps": 100,
    **programs.TPU_DEFAULTS,
}


def _defined():
    return programs.defined(run_pretraining.Options)


def test_defaults_are_those_of_the_release():
    values = _defined()
    found = {name: values[name].default for name in _RELEASED_DEFAULTS}
    assert found == _RELEASED_DEFAULTS


@pytest.mark.parametrize(
    "argument",
    [
        "--train_batch_size=0",
        "--learning_rate=-1",
        "--objective=nsp",
        "--precision=float16",
        "--save_checkpoints_steps=0",
        "--num_train_steps=many",
    ],
)
def test_values_out_of_range_are_refused(argument):
    name = argument.removeprefix("--").partition("=")[0]
    with pytest.raises(flags.IllegalFlagValueError, match=name):
        _defined()(["x", argument])


@pytest.mark.parametrize("missing", ["output_dir", "bert_config_file"])
def test_required_flags_are_required(missing):
    names = {"input_file", "output_dir", "bert_config_file"} - {missing}
    with pytest.raises(flags.IllegalFlagValueError, match=missing):
        _defined()(["x", *(f"--{name}=x" for name in names)])


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Wide:
    a: int
    b: int
    c: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Narrow:
    a: int
    c: int


def test_narrow_takes_what_has_the_same_name_unless_replaced():
    wide = _Wide(a=1, b=2, c=3)
    assert flags_lib.narrow(_Narrow, wide) == _Narrow(a=1, c=3)
    assert flags_lib.narrow(_Narrow, wide, c=9) == _Narrow(a=1, c=9)
    with pytest.raises(AttributeError, match="b"):
        flags_lib.narrow(_Wide, _Narrow(a=1, c=3))


@pytest.mark.parametrize(
    ("do_train", "do_eval", "every_epoch", "every_steps", "expected"),
    [
        (True, False, False, 0, False),
        (True, True, False, 0, True),
        (True, False, True, 0, True),
        (True, False, False, 5, True),
        # Nothing is evaluated while nothing is trained.
        (False, False, True, 5, False),
    ],
)
def test_held_out_data_are_read_where_they_are_scored(
    do_train, do_eval, every_epoch, every_steps, expected
):
    options = training_flags.FineTuningOptions(
        output_dir="out",
        bert_config_file="config.json",
        vocab_file="vocab.txt",
        do_train=do_train,
        do_eval=do_eval,
        eval_every_epoch=every_epoch,
        eval_every_steps=every_steps,
    )
    assert (task.EVAL in options.needed_splits) is expected
