"""Flags that several scripts share. Nothing here imports TensorFlow.

Each group is defined by a function, so that two scripts can be imported into
one process. Names and defaults are the release's where it has the flag.
"""

import dataclasses
from typing import Any, TypeVar

from absl import flags

from commands import flag_groups

_Group = flag_groups.Group
_T = TypeVar("_T")

DISTRIBUTION_STRATEGIES = (
    *("auto", "one_device", "mirrored", "multi_worker_mirrored", "tpu"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainerOptions:
    """What every trainer has beyond the release; see the flags and --help."""

    optimizer: str = "adamw"
    num_accumulation_steps: int = 1
    recompute: bool = False
    keep_checkpoint_every_n_steps: int = 0
    distribution_strategy: str = "auto"
    num_cpu_devices: int = 0
    steps_per_loop: int = 0
    jit_compile: str = "auto"


def define_model_flags(values: flags.FlagValues) -> None:
    """Defines which model a run starts from and where it writes."""
    _define_output_flags(values)
    _define_start_flags(values)


@flag_groups.under(_Group.FILES)
def _define_output_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string(
        "output_dir",
        None,
        "Folder for checkpoints and results. A run whose folder holds a "
        "checkpoint goes on from it.",
        required=True,
        flag_values=values,
    )


@flag_groups.under(_Group.MODEL)
def _define_start_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_string(
        "bert_config_file",
        None,
        "JSON file with the sizes of the model.",
        required=True,
        flag_values=values,
    )
    flags.DEFINE_string(
        "init_checkpoint",
        None,
        "Checkpoint to start from (prefix, .index file or folder); only its "
        "weights are used. A checkpoint in --output_dir goes before it.",
        flag_values=values,
    )


@flag_groups.under(_Group.TRAINING)
def define_training_flags(values: flags.FlagValues) -> None:
    """Defines how a run trains, apart from its length."""
    flags.DEFINE_integer(
        "train_batch_size",
        32,
        "Examples in a training step, over all devices together.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_float(
        "learning_rate",
        5e-5,
        "Peak learning rate of Adam.",
        lower_bound=0.0,
        flag_values=values,
    )
    flags.DEFINE_enum(
        "optimizer",
        "adamw",
        ["adamw", "lamb"],
        "adamw: the release's Adam with weight decay; lamb: the same with a "
        "rate for each layer, for very large batches.",
        flag_values=values,
    )
    flags.DEFINE_enum(
        "lr_schedule",
        "release",
        ["release", "continuous"],
        "release: the linear decay counts from step 0, so the rate drops where "
        "the warm-up ends; continuous: it counts from there.",
        flag_values=values,
    )
    flags.DEFINE_boolean(
        "adam_bias_correction",
        False,
        "Correct the bias of Adam's moments; the release does not.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "random_seed",
        12345,
        "Seed of initial weights, order of examples and dropout.",
        lower_bound=0,
        flag_values=values,
    )
    _define_checkpoint_flags(values)
    _define_memory_flags(values)
    _define_distribution_flags(values)


@flag_groups.under(_Group.CHECKPOINTS)
def _define_checkpoint_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_integer(
        "log_every_steps",
        100,
        "Steps between progress reports.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "save_checkpoints_steps",
        1000,
        "Steps between checkpoints.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "keep_checkpoint_max",
        5,
        "How many checkpoints stay; 0 for all.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "keep_checkpoint_every_n_steps",
        0,
        "Steps between checkpoints that stay for good; 0 for none.",
        lower_bound=0,
        flag_values=values,
    )


@flag_groups.under(_Group.SPEED)
def _define_memory_flags(values: flags.FlagValues) -> None:
    """Defines what a run pays in time for less memory; its result stays."""
    flags.DEFINE_integer(
        "num_accumulation_steps",
        1,
        "Parts in which a device goes through its share of a batch before the "
        "one update; memory is needed for one part at a time.",
        lower_bound=1,
        flag_values=values,
    )
    flags.DEFINE_boolean(
        "recompute",
        False,
        "Keep the inputs of the Transformer layers alone and compute the rest "
        "again on the way back: less memory, a third more arithmetic.",
        flag_values=values,
    )


@flag_groups.under(_Group.DEVICES)
def _define_distribution_flags(values: flags.FlagValues) -> None:
    """Defines how a run spreads over devices and machines."""
    flags.DEFINE_enum(
        "distribution_strategy",
        "auto",
        DISTRIBUTION_STRATEGIES,
        "auto: a TPU if --use_tpu, the workers of TF_CONFIG if it names "
        "several, else all the GPUs of this machine, else its CPU.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "num_cpu_devices",
        0,
        "Compute on the CPU and treat it as so many devices, to try out what "
        "a run does on several; 0 for off.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "steps_per_loop",
        0,
        "Steps in a row, in one call of the graph, before there is a look at "
        "signals and the clock; 0: one, and --iterations_per_loop on a TPU.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_enum(
        "jit_compile",
        "auto",
        ("auto", "true", "false"),
        "Let XLA compile the way forward and back as a whole; auto: on GPUs. "
        "Results then differ in their last bits.",
        flag_values=values,
    )


@flag_groups.under(_Group.EVALUATION)
def define_evaluation_flags(values: flags.FlagValues) -> None:
    """Defines how a run evaluates on records that hold the right answers."""
    flags.DEFINE_integer(
        "eval_batch_size",
        8,
        "Examples in an evaluation batch, over all devices together.",
        lower_bound=1,
        flag_values=values,
    )


@flag_groups.under(_Group.SPEED)
def define_device_flags(values: flags.FlagValues) -> None:
    """Defines where a run computes, and how precisely."""
    flags.DEFINE_enum(
        "precision",
        "float32",
        ["float32", "mixed_bfloat16", "mixed_float16", "auto"],
        "Arithmetic; weights stay float32. mixed_float16 scales the loss and "
        "is for GPUs without bfloat16. auto: mixed_bfloat16 where the device "
        "is known to multiply it faster, else float32.",
        flag_values=values,
    )
    _define_tpu_flags(values)


@flag_groups.under(_Group.TPU)
def _define_tpu_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_boolean(
        "use_tpu", False, "Compute on a TPU.", flag_values=values
    )
    flags.DEFINE_string(
        "tpu_name",
        None,
        "Name or address of the TPU; `local` on a TPU VM.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "tpu_zone", None, "Zone of the TPU.", flag_values=values
    )
    flags.DEFINE_string(
        "gcp_project", None, "Project of the TPU.", flag_values=values
    )
    flags.DEFINE_string(
        "master",
        None,
        "Address of the TPU, where --tpu_name is not given.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "num_tpu_cores",
        8,
        "Cores the TPU should have; all of them are used.",
        flag_values=values,
    )
    flags.DEFINE_integer(
        "iterations_per_loop",
        1000,
        "Steps a TPU makes in a row at most before the host looks at it.",
        lower_bound=1,
        flag_values=values,
    )


def wants_tpu(options: Any) -> bool:
    """Tells whether `--use_tpu` or `--distribution_strategy` asks for a TPU."""
    return options.use_tpu or options.distribution_strategy == "tpu"


def narrow(options: type[_T], wider: Any, **replaced: Any) -> _T:
    """Fills a dataclass from the attributes of the same names of another.

    A field that has a default, and no attribute of its name, keeps it.
    """
    chosen = {
        field.name: getattr(wider, field.name)
        for field in dataclasses.fields(options)
        if field.name not in replaced
        and (field.default is dataclasses.MISSING or hasattr(wider, field.name))
    }
    return options(**chosen, **replaced)


def read_options(options: type[_T], values: flags.FlagValues) -> _T:
    """Fills a dataclass from the flags of the same names."""
    chosen: dict[str, Any] = {
        field.name: values[field.name].value
        for field in dataclasses.fields(options)
    }
    return options(**chosen)
