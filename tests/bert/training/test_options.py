import pytest
from absl import flags

import run_classifier
import run_ner
import run_pretraining
import run_squad
import run_swag
from bert.commands import flags as flags_lib
from bert.tasks import task
from bert.training import options as training_options
from tests.support import programs

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


# Source: optimization.py of the release, and tf.estimator.RunConfig.
_RELEASED_CONSTANTS = {
    "optimizer": "adamw",
    "lr_schedule": "release",
    "adam_bias_correction": False,
    "weight_decay": 0.01,
    "adam_beta_1": 0.9,
    "adam_beta_2": 0.999,
    "adam_epsilon": 1e-6,
    "max_grad_norm": 1.0,
    "num_accumulation_steps": 1,
    "precision": "float32",
    "packing": False,
    "keep_checkpoint_max": 5,
    "log_every_steps": 100,
}


@pytest.mark.parametrize(
    "script",
    [run_pretraining, run_classifier, run_squad, run_ner, run_swag],
)
def test_constants_of_the_release_are_the_defaults_of_their_flags(script):
    values = programs.defined(script.Options)
    found = {name: values[name].default for name in _RELEASED_CONSTANTS}
    assert found == _RELEASED_CONSTANTS


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
    options = training_options.FineTuningOptions(
        output_dir="out",
        bert_config_file="config.json",
        vocab_file="vocab.txt",
        **given,
    )
    assert (task.EVAL in options.needed_splits) is expected


# Other data are known by the fingerprint of their records.
_CHANGING = {
    *("train_batch_size", "num_accumulation_steps", "random_seed", "packing"),
    *("learning_rate", "lr_schedule", "optimizer", "weight_decay"),
    *("adam_beta_1", "adam_beta_2", "adam_epsilon", "adam_bias_correction"),
    *("max_grad_norm", "precision", "jit_compile"),
}
_CHANGING_TASKS = {
    *_CHANGING,
    *("num_train_epochs", "warmup_proportion", "freeze_layers"),
}


@pytest.mark.parametrize(
    ("script", "needed", "flags"),
    [
        (
            run_pretraining,
            {"input_file": "records"},
            _CHANGING
            | {"num_train_steps", "num_warmup_steps", "objective"}
            | {"max_seq_length", "max_predictions_per_seq"},
        ),
        (
            run_classifier,
            {"task_name": "MRPC", "data_dir": "data"},
            _CHANGING_TASKS
            | {"task_name", "class_weights", "max_seq_length"}
            | {"missing_labels"}
            | {"attention", "bilstm_head"},
        ),
        (
            run_squad,
            {"train_file": "train.json"},
            _CHANGING_TASKS | {"answer_alignment", "attention", "bilstm_head"},
        ),
        (
            run_ner,
            {"data_dir": "data"},
            _CHANGING_TASKS
            | {"features", "max_seq_length", "attention", "bilstm_head"},
        ),
        (run_swag, {"data_dir": "data"}, _CHANGING_TASKS | {"max_seq_length"}),
    ],
)
def test_flags_that_change_the_weights_are_marked(script, needed, flags):
    options = script.Options(output_dir="out", do_train=True, **needed)
    marked = flags_lib.changing_result(options)
    assert marked == {name: getattr(options, name) for name in flags}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"adam_beta_1": 1.0}, "--adam_beta_1 must be less than 1; got 1.0"),
        ({"adam_beta_2": 1.0}, "--adam_beta_2 must be less than 1; got 1.0"),
        ({"adam_epsilon": 0.0}, "--adam_epsilon must be greater"),
        ({"profile_steps": (10,)}, r"a first and a last step.*; got 10\.$"),
        ({"profile_steps": (10, 9)}, r"; got 10,9\.$"),
        ({"profile_steps": (0, 9)}, r"; got 0,9\.$"),
        ({"profile_steps": (1, 2, 3)}, r"; got 1,2,3\.$"),
    ],
)
def test_values_that_no_training_has_are_refused(changed, message):
    named = {
        "output_dir": "out",
        "bert_config_file": "config.json",
        "do_train": True,
    }
    with pytest.raises(ValueError, match=message):
        training_options.FineTuningOptions(**named, **changed)
    at_the_limit = {"adam_beta_1": 0.0, "profile_steps": (1, 1)}
    training_options.FineTuningOptions(**named, **at_the_limit)


@pytest.mark.parametrize(
    ("script", "changed", "message"),
    [
        (
            run_pretraining,
            {"input_file": "x", "early_stopping_patience": 1},
            "--early_stopping_patience needs --eval_every_steps",
        ),
        (
            run_pretraining,
            {"input_file": "x", "packing": True, "use_tpu": True},
            "needs a fixed shape",
        ),
        (
            run_ner,
            {"packing": True, "distribution_strategy": "tpu"},
            "needs a fixed shape",
        ),
        (run_ner, {"features": "last"}, "--init_checkpoint must be given"),
        (run_ner, {"num_trials": 2}, "pass --do_eval too"),
        (run_ner, {"learning_rates": "1e-3,2e-3"}, "pass --do_eval too"),
        (run_ner, {"train_batch_sizes": "8,16"}, "pass --do_eval too"),
    ],
)
def test_flags_that_need_others_are_refused_without_them(
    script, changed, message
):
    named = {"output_dir": "out", "do_train": True}
    with pytest.raises(ValueError, match=message):
        programs.parse(script.Options, **named, **changed)


@pytest.mark.parametrize(
    "flag",
    [
        *("learning_rate=-1e-5", "weight_decay=-0.01", "max_grad_norm=-1"),
        *("adam_beta_1=-0.1", "adam_beta_2=1.1", "adam_epsilon=-1e-6"),
        *("num_train_epochs=-3", "warmup_proportion=-0.1"),
        *("warmup_proportion=1.1", "random_seed=-1", "keep_checkpoint_max=-1"),
        *("save_checkpoints_steps=0", "log_every_steps=0", "num_trials=0"),
        *("train_batch_size=0", "num_accumulation_steps=0"),
    ],
)
def test_numbers_out_of_range_are_refused_by_their_flag(flag):
    name, _, value = flag.partition("=")
    named = {"output_dir": "out", "do_train": True}
    with pytest.raises(flags.IllegalFlagValueError, match=f"--{name}={value}"):
        programs.parse(run_ner.Options, **named, **{name: value})


@pytest.mark.parametrize(
    ("changes", "rate", "epochs"),
    [
        ({}, 5e-5, 3.0),
        ({"features": "last"}, 1e-3, 20.0),
        ({"features": "last", "learning_rate": 5e-5}, 5e-5, 20.0),
    ],
)
def test_features_change_the_defaults_of_rate_and_epochs(changes, rate, epochs):
    named = {"output_dir": "out", "do_train": True, "init_checkpoint": "x"}
    options = programs.parse(run_ner.Options, **named, **changes)
    assert (options.learning_rate, options.num_train_epochs) == (rate, epochs)


def test_runs_of_a_grid_with_one_batch_size_share_their_steps():
    def options(**changes):
        return training_options.FineTuningOptions(
            output_dir="out",
            bert_config_file="config.json",
            vocab_file="vocab.txt",
            do_eval=True,
            **changes,
        )

    assert options().num_similar_runs == 1
    grid = {"learning_rates": (1e-3, 2e-3), "train_batch_sizes": (8, 16)}
    assert options(num_trials=5, **grid).num_similar_runs == 10


@pytest.mark.parametrize(
    ("args", "steps", "warmup", "evaluated"),
    [
        # 87599 questions of SQuAD 1.1 with the flags of the README.
        ((87599, 12, 2.0, 0.1), 14599, 1459, [7300, 14599]),
        ((10, 4, 3.0, 0.1), 7, 0, [3, 5, 7]),
        ((10, 4, 0.5, 1.0), 1, 1, [1]),
        ((3, 4, 2.0, 0.5), 1, 0, [1]),
    ],
)
def test_steps_are_counted_as_released(args, steps, warmup, evaluated):
    def length(num_examples, batch_size, num_epochs, warmup_proportion):
        return training_options.FineTuningOptions(
            output_dir="out",
            bert_config_file="config.json",
            vocab_file="vocab.txt",
            do_train=True,
            train_batch_size=batch_size,
            num_train_epochs=num_epochs,
            warmup_proportion=warmup_proportion,
            eval_every_epoch=True,
        ).length(num_examples)

    result = length(*args)
    assert (result.num_train_steps, result.num_warmup_steps) == (steps, warmup)
    found = [*filter(result.evaluates_at, range(result.end + 1))]
    assert found == evaluated
    with pytest.raises(ValueError, match="3 examples in batches of 8 for 2 ep"):
        length(3, 8, 2.0, 0.1)
