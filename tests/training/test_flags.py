import dataclasses

import pytest
from absl import flags

import run_classifier
import run_pretraining
import run_squad
import run_swag
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


def test_narrow_takes_what_has_the_same_name_unless_replaced():
    wide = dataclasses.make_dataclass("Wide", ["a", "b", "c"])
    narrow = dataclasses.make_dataclass("Narrow", ["a", "c"])
    assert flags_lib.narrow(narrow, wide(1, 2, 3)) == narrow(1, 3)
    assert flags_lib.narrow(narrow, wide(1, 2, 3), c=9) == narrow(1, 9)
    with pytest.raises(AttributeError, match="b"):
        flags_lib.narrow(wide, narrow(1, 3))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"do_train": True}, False),
        ({"do_train": True, "do_eval": True}, True),
        ({"do_train": True, "eval_every_epoch": True}, True),
        ({"do_train": True, "eval_every_steps": 5}, True),
        # Nothing is evaluated while nothing is trained.
        ({"do_predict": True, "eval_every_steps": 5}, False),
    ],
)
def test_held_out_data_are_read_where_they_are_scored(given, expected):
    options = training_flags.FineTuningOptions(
        output_dir="out",
        bert_config_file="config.json",
        vocab_file="vocab.txt",
        **given,
    )
    assert (task.EVAL in options.needed_splits) is expected


def test_options_state_their_attention_and_batch_size_of_evaluation():
    files = {"output_dir": "out", "bert_config_file": "config.json"}
    for objective in ("mlm_nsp", "mlm", "ltr"):
        options = training_flags.PretrainingOptions(
            **files, input_file="records", objective=objective, do_eval=True
        )
        assert options.is_causal == (objective == "ltr")
    files |= {"vocab_file": "vocab.txt", "do_train": True}
    assert not run_swag.Options(**files, data_dir="data").is_causal
    ablated = run_classifier.Options(
        **files, task_name="mrpc", data_dir="data", attention="causal"
    )
    assert ablated.is_causal
    assert ablated.head_arguments == {"causal": True, "bilstm_head": False}
    assert ablated.eval_batch_flag == "eval_batch_size"
    # As released, SQuAD has one batch size for both.
    squad = run_squad.Options(
        **files, train_file="train.json", attention="causal"
    )
    assert squad.is_causal
    assert squad.eval_batch_flag == "predict_batch_size"
