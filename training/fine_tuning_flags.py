"""Flags of every task, and of trials of it; imports no TensorFlow."""

import dataclasses
from typing import TypeVar

from absl import flags

from commands import flag_groups
from training import flags as shared_flags

_Group = flag_groups.Group

# What `--stable` sets, unless the flag itself is given.
# Source: Mosbach et al. 2021, "On the Stability of Fine-tuning BERT", section
# 6: a small rate with bias correction and a warm-up, and many more epochs;
# Zhang et al. 2021, "Revisiting Few-sample BERT Fine-tuning", section 4, finds
# the missing correction to be the main cause of failed runs.
STABLE = {
    "learning_rate": 2e-5,
    "num_train_epochs": 20.0,
    "warmup_proportion": 0.1,
    "adam_bias_correction": True,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskOptions(shared_flags.TrainerOptions):
    """What the flags of every task hold; see `define_task_flags` and --help."""

    bert_config_file: str
    vocab_file: str
    output_dir: str
    init_checkpoint: str | None
    do_lower_case: bool
    max_seq_length: int
    do_train: bool
    do_eval: bool
    do_predict: bool
    train_batch_size: int
    predict_batch_size: int
    learning_rate: float
    num_train_epochs: float
    warmup_proportion: float
    lr_schedule: str
    adam_bias_correction: bool
    freeze_layers: int
    bucket_by_length: bool
    eval_every_epoch: bool
    eval_every_steps: int
    early_stopping_patience: int
    use_best_checkpoint: bool
    save_checkpoints_steps: int
    keep_checkpoint_max: int
    log_every_steps: int
    iterations_per_loop: int
    random_seed: int
    precision: str
    use_tpu: bool
    tpu_name: str | None
    tpu_zone: str | None
    gcp_project: str | None
    master: str | None
    num_tpu_cores: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningOptions(TaskOptions):
    """What the flags of a task with trials hold; see `define_flags`."""

    eval_batch_size: int
    learning_rates: tuple[float, ...]
    num_trials: int
    stable: bool


_Options = TypeVar("_Options", bound=FineTuningOptions)


def define_task_flags(values: flags.FlagValues) -> None:
    """Defines the flags of `TaskOptions` but `max_seq_length`.

    Its default is the task's.
    """
    _define_action_flags(values)
    shared_flags.define_model_flags(values)
    _define_text_flags(values)
    _define_length_flags(values)
    shared_flags.define_training_flags(values)
    _define_fine_tuning_flags(values)
    _define_selection_flags(values)
    shared_flags.define_device_flags(values)
    _define_speed_flags(values)


def define_flags(values: flags.FlagValues) -> None:
    """Defines all flags of `FineTuningOptions`."""
    define_task_flags(values)
    shared_flags.define_evaluation_flags(values)
    _define_sequence_flags(values)
    _define_trial_flags(values)


@flag_groups.under(_Group.ACTIONS)
def _define_action_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_boolean("do_train", False, "Train.", flag_values=values)
    flags.DEFINE_boolean("do_eval", False, "Evaluate.", flag_values=values)
    flags.DEFINE_boolean("do_predict", False, "Predict.", flag_values=values)


@flag_groups.under(_Group.TEXT)
def _define_text_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string(
        "vocab_file",
        None,
        "The vocabulary that the model was trained with.",
        required=True,
        flag_values=values,
    )
    flags.DEFINE_boolean(
        "do_lower_case",
        True,
        "Lower-case the text; False for cased models.",
        flag_values=values,
    )


@flag_groups.under(_Group.TEXT)
def _define_sequence_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_integer(
        "max_seq_length",
        128,
        "Word pieces the model reads at once; longer text is cut, shorter "
        "padded.",
        lower_bound=1,
        flag_values=values,
    )


@flag_groups.under(_Group.TRAINING)
def _define_length_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_float(
        "num_train_epochs",
        3.0,
        "How often training goes through the examples; may be a fraction.",
        lower_bound=0.0,
        flag_values=values,
    )
    flags.DEFINE_float(
        "warmup_proportion",
        0.1,
        "Share of the steps over which the learning rate rises.",
        lower_bound=0.0,
        upper_bound=1.0,
        flag_values=values,
    )


@flag_groups.under(_Group.TRAINING)
def _define_fine_tuning_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_integer(
        "freeze_layers",
        0,
        "Leave the embeddings and this many of the first layers as they are; "
        "0 trains everything.",
        lower_bound=0,
        flag_values=values,
    )


@flag_groups.under(_Group.EVALUATION)
def _define_selection_flags(values: flags.FlagValues) -> None:
    """Defines what is looked at while training, and which weights count."""
    flags.DEFINE_integer(
        "predict_batch_size",
        8,
        "Examples in a prediction batch, over all devices together.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "eval_every_steps",
        0,
        "Steps between evaluations while training; 0 for none. The weights "
        "that do best are kept in best/.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_boolean(
        "eval_every_epoch",
        False,
        "Evaluate after each epoch while training.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "early_stopping_patience",
        0,
        "Evaluations without a new best after which training ends; 0 for "
        "never.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_boolean(
        "use_best_checkpoint",
        False,
        "Evaluate and predict with best/ instead of the latest checkpoint.",
        flag_values=values,
    )


@flag_groups.under(_Group.SPEED)
def _define_speed_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_boolean(
        "bucket_by_length",
        False,
        "Put texts of like length into a batch and cut the padding that they "
        "share.",
        flag_values=values,
    )


@flag_groups.under(_Group.TRIALS)
def _define_trial_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_integer(
        "num_trials",
        1,
        "Runs with different seeds, each in its own folder; the best one "
        "predicts.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE(
        _RatesParser(),
        "learning_rates",
        None,
        "Peak learning rates to try, in place of --learning_rate, separated "
        "by commas; the paper's are 5e-5,4e-5,3e-5,2e-5.",
        serializer=_RatesSerializer(),
        flag_values=values,
    )
    flags.DEFINE_boolean(
        "stable",
        False,
        "For small data sets, whose runs may collapse: "
        + ", ".join(f"--{name}={value}" for name, value in STABLE.items())
        + ", each unless given. Source: Mosbach et al. 2021.",
        flag_values=values,
    )


class _RatesParser(flags.ArgumentParser):
    """Reads learning rates separated by commas."""

    def parse(self, argument: str | tuple[float, ...]) -> tuple[float, ...]:
        if isinstance(argument, tuple):
            return argument
        try:
            rates = tuple(float(part) for part in argument.split(","))
        except ValueError:
            rates = (0.0,)
        if len(set(rates)) != len(rates) or not all(r > 0 for r in rates):
            raise ValueError(
                "must be different positive numbers, separated by commas"
            )
        return rates

    def flag_type(self) -> str:
        return "comma separated list of floats"


class _RatesSerializer(flags.ArgumentSerializer):
    """Writes learning rates as `_RatesParser` reads them."""

    def serialize(self, value: tuple[float, ...]) -> str:
        return ",".join(map(str, value))


def read_options(options: type[_Options], values: flags.FlagValues) -> _Options:
    """Fills a dataclass from the flags; `--stable` changes the defaults."""
    read = shared_flags.read_options(options, values)
    preset = {}
    if read.stable:
        preset = {
            name: value
            for name, value in STABLE.items()
            if not values[name].present
        }
    changed = dataclasses.replace(read, **preset)
    return dataclasses.replace(
        changed,
        learning_rates=changed.learning_rates or (changed.learning_rate,),
    )
