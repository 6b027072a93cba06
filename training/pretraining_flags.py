"""Flags of run_pretraining.py; imports no TensorFlow."""

import dataclasses

from absl import flags

from commands import flag_groups
from training import flags as shared_flags

_Group = flag_groups.Group


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingOptions(shared_flags.TrainerOptions):
    """What the flags below hold; see them and --help."""

    bert_config_file: str
    input_file: str | None
    phases: str | None
    shard_input_files: bool
    output_dir: str
    init_checkpoint: str | None
    max_seq_length: int
    max_predictions_per_seq: int
    objective: str
    do_train: bool
    do_eval: bool
    eval_all_checkpoints: bool
    eval_input_file: str | None
    train_batch_size: int
    eval_batch_size: int
    learning_rate: float
    lr_schedule: str
    adam_bias_correction: bool
    num_train_steps: int
    num_warmup_steps: int
    save_checkpoints_steps: int
    keep_checkpoint_max: int
    log_every_steps: int
    iterations_per_loop: int
    max_eval_steps: int
    eval_every_steps: int
    random_seed: int
    precision: str
    use_tpu: bool
    tpu_name: str | None
    tpu_zone: str | None
    gcp_project: str | None
    master: str | None
    num_tpu_cores: int


def define_flags(values: flags.FlagValues) -> None:
    """Defines all flags of `PretrainingOptions`."""
    _define_action_flags(values)
    _define_input_flags(values)
    shared_flags.define_model_flags(values)
    _define_objective_flags(values)
    _define_record_flags(values)
    _define_length_flags(values)
    shared_flags.define_training_flags(values)
    shared_flags.define_evaluation_flags(values)
    _define_held_out_flags(values)
    shared_flags.define_device_flags(values)


@flag_groups.under(_Group.ACTIONS)
def _define_action_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_boolean("do_train", False, "Train.", flag_values=values)
    flags.DEFINE_boolean("do_eval", False, "Evaluate.", flag_values=values)
    flags.DEFINE_boolean(
        "eval_all_checkpoints",
        False,
        "With --do_eval: evaluate every checkpoint in --output_dir, too, and "
        "write eval_checkpoints.jsonl, with the perplexity of each.",
        flag_values=values,
    )


@flag_groups.under(_Group.MODEL)
def _define_objective_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_enum(
        "objective",
        "mlm_nsp",
        ["mlm_nsp", "mlm", "ltr"],
        "What is learnt: masked words and next sentences; masked words alone; "
        "or the next word from those to its left (causal attention).",
        flag_values=values,
    )


@flag_groups.under(_Group.PAIRS)
def _define_record_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_integer(
        "max_seq_length",
        128,
        "Word pieces per record; as the records were made.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "max_predictions_per_seq",
        20,
        "Masked word pieces per record; as the records were made.",
        lower_bound=1,
        flag_values=values,
    )


@flag_groups.under(_Group.FILES)
def _define_input_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string(
        "input_file",
        None,
        "Record files: comma-separated names or globs. Required, but where "
        "all of --phases name theirs.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "eval_input_file",
        None,
        "Held-out record files to evaluate on; --input_file if not given.",
        flag_values=values,
    )
    flags.DEFINE_boolean(
        "shard_input_files",
        False,
        "Each worker reads files of its own: every so many-th of the sorted "
        "names. The order of the records then depends on the number of "
        "workers.",
        flag_values=values,
    )


@flag_groups.under(_Group.TRAINING)
def _define_length_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_integer(
        "num_train_steps",
        100000,
        "Steps in all, those before a resume included.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "num_warmup_steps",
        10000,
        "Steps over which the learning rate rises.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_string(
        "phases",
        None,
        "Phases of the run, one after the other, parted by semicolons; each "
        "is key=value pairs: `steps`, a number or a share (90%) of "
        "--num_train_steps, and, where they differ from the flags of these "
        "names, input_file, max_seq_length, max_predictions_per_seq, "
        "train_batch_size, num_accumulation_steps. The learning rate follows "
        "one schedule over all of them. Held-out records are as the last "
        "phase's.",
        flag_values=values,
    )
    flags.register_multi_flags_validator(
        ["input_file", "phases"],
        lambda given: bool(given["input_file"] or given["phases"]),
        "--input_file must be given, or --phases that name theirs.",
        flag_values=values,
    )


@flag_groups.under(_Group.EVALUATION)
def _define_held_out_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_integer(
        "max_eval_steps",
        100,
        "Batches of an evaluation, starting over where the records end; 0 for "
        "every record exactly once.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "eval_every_steps",
        0,
        "Steps between evaluations while training; 0 for none.",
        lower_bound=0,
        flag_values=values,
    )
