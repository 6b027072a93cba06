"""Options of training programs and their flags; no TensorFlow.

Names and defaults are the release's where it has the flag.
"""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from absl import flags as absl_flags

from commands import flags
from modeling import feature_layers

DISTRIBUTION_STRATEGIES = (
    *("auto", "one_device", "mirrored", "multi_worker_mirrored", "tpu"),
)
BIDIRECTIONAL, CAUSAL = ATTENTIONS = ("bidirectional", "causal")

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
# What `--features` sets, unless the flag itself is given: a BiLSTM that begins
# at random needs larger steps, and more of them, than a trained encoder. The
# paper does not say which.
FEATURE_BASED = {"learning_rate": 1e-3, "num_train_epochs": 20.0}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TpuOptions:
    """Which TPU to compute on; the release's flags."""

    use_tpu: bool = flags.Group.TPU.flag(False, "Compute on a TPU.")
    tpu_name: str | None = flags.Group.TPU.flag(
        None, "Name or address of the TPU; `local` on a TPU VM."
    )
    tpu_zone: str | None = flags.Group.TPU.flag(None, "Zone of the TPU.")
    gcp_project: str | None = flags.Group.TPU.flag(None, "Project of the TPU.")
    master: str | None = flags.Group.TPU.flag(
        None, "Address of the TPU, where --tpu_name is not given."
    )
    num_tpu_cores: int = flags.Group.TPU.flag(
        8, "Cores the TPU should have; all of them are used."
    )
    iterations_per_loop: int = flags.Group.TPU.flag(
        1000,
        "Steps a TPU makes in a row at most before the host looks at it.",
        lower_bound=1,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingOptions(TpuOptions):
    """What pre-training and fine-tuning have in common."""

    do_train: bool = flags.Group.ACTIONS.flag(False, "Train.")
    do_eval: bool = flags.Group.ACTIONS.flag(False, "Evaluate.")
    output_dir: str = flags.Group.FILES.required(
        "Folder for checkpoints and results. A run whose folder holds a "
        "checkpoint goes on from it."
    )
    bert_config_file: str = flags.Group.MODEL.required(
        "JSON file with the sizes of the model."
    )
    init_checkpoint: str | None = flags.Group.MODEL.flag(
        None,
        "Checkpoint to start from (prefix, .index file or folder); only its "
        "weights are used. A checkpoint in --output_dir goes before it.",
    )
    train_batch_size: int = flags.Group.TRAINING.flag(
        32,
        "Examples in a training step, over all devices together.",
        lower_bound=1,
    )
    learning_rate: float = flags.Group.TRAINING.flag(
        5e-5, "Peak learning rate of Adam.", lower_bound=0.0
    )
    optimizer: str = flags.Group.TRAINING.flag(
        "adamw",
        "adamw: the release's Adam with weight decay; lamb: the same with a "
        "rate for each layer, for very large batches.",
        choices=("adamw", "lamb"),
    )
    lr_schedule: str = flags.Group.TRAINING.flag(
        "release",
        "release: the linear decay counts from step 0, so the rate drops "
        "where the warm-up ends; continuous: it counts from there.",
        choices=("release", "continuous"),
    )
    adam_bias_correction: bool = flags.Group.TRAINING.flag(
        False, "Correct the bias of Adam's moments; the release does not."
    )
    random_seed: int = flags.Group.TRAINING.flag(
        12345,
        "Seed of initial weights, order of examples and dropout.",
        lower_bound=0,
    )
    log_every_steps: int = flags.Group.CHECKPOINTS.flag(
        100, "Steps between progress reports.", lower_bound=1
    )
    save_checkpoints_steps: int = flags.Group.CHECKPOINTS.flag(
        1000, "Steps between checkpoints.", lower_bound=1
    )
    keep_checkpoint_max: int = flags.Group.CHECKPOINTS.flag(
        5, "How many checkpoints stay; 0 for all.", lower_bound=0
    )
    keep_checkpoint_every_n_steps: int = flags.Group.CHECKPOINTS.flag(
        0,
        "Steps between checkpoints that stay for good; 0 for none.",
        lower_bound=0,
    )
    num_accumulation_steps: int = flags.Group.SPEED.flag(
        1,
        "Parts in which a device goes through its share of a batch before "
        "the one update; memory is needed for one part at a time.",
        lower_bound=1,
    )
    recompute: bool = flags.Group.SPEED.flag(
        False,
        "Keep the inputs of the Transformer layers alone and compute the "
        "rest again on the way back: less memory, a third more arithmetic.",
    )
    distribution_strategy: str = flags.Group.DEVICES.flag(
        "auto",
        "auto: a TPU if --use_tpu, the workers of TF_CONFIG if it names "
        "several, else all the GPUs of this machine, else its CPU.",
        choices=DISTRIBUTION_STRATEGIES,
    )
    num_cpu_devices: int = flags.Group.DEVICES.flag(
        0,
        "Compute on the CPU and treat it as so many devices, to try out "
        "what a run does on several; 0 for off.",
        lower_bound=0,
    )
    steps_per_loop: int = flags.Group.DEVICES.flag(
        0,
        "Steps in a row, in one call of the graph, before there is a look "
        "at signals and the clock; 0: one, and --iterations_per_loop on a "
        "TPU.",
        lower_bound=0,
    )
    jit_compile: str = flags.Group.DEVICES.flag(
        "auto",
        "Let XLA compile the way forward and back as a whole; auto: on "
        "GPUs. Results then differ in their last bits.",
        choices=("auto", "true", "false"),
    )
    deterministic: bool = flags.Group.DEVICES.flag(
        False,
        "Make runs on GPUs repeat bit for bit, also after a stop; slower. Runs "
        "on a CPU do without it.",
    )
    precision: str = flags.Group.SPEED.flag(
        "float32",
        "Arithmetic; weights stay float32. mixed_float16 scales the loss "
        "and is for GPUs without bfloat16. auto: mixed_bfloat16 where the "
        "device is known to multiply it faster, else float32.",
        choices=("float32", "mixed_bfloat16", "mixed_float16", "auto"),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingInput:
    """Which records pre-training reads, and for how many steps."""

    input_file: str | None = flags.Group.FILES.flag(
        None,
        "Record files: comma-separated names or globs. Required, but where "
        "all of --phases name theirs.",
    )
    eval_input_file: str | None = flags.Group.FILES.flag(
        None, "Held-out record files to evaluate on; --input_file if not given."
    )
    shard_input_files: bool = flags.Group.FILES.flag(
        False,
        "Each worker reads files of its own: every so many-th of the sorted "
        "names. The order of the records then depends on the number of "
        "workers.",
    )
    num_train_steps: int = flags.Group.TRAINING.flag(
        100000, "Steps in all, those before a resume included."
    )
    num_warmup_steps: int = flags.Group.TRAINING.flag(
        10000, "Steps over which the learning rate rises.", lower_bound=0
    )
    phases: str | None = flags.Group.TRAINING.flag(
        None,
        "Phases of the run, one after the other, parted by semicolons; each "
        "is key=value pairs: `steps`, a number or a share (90%) of "
        "--num_train_steps, and, where they differ from the flags of these "
        "names, input_file, max_seq_length, max_predictions_per_seq, "
        "train_batch_size, num_accumulation_steps. The learning rate "
        "follows one schedule over all of them. Held-out records are as the "
        "last phase's.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingOptions(TrainingOptions, PretrainingInput):
    """The flags of run_pretraining.py."""

    eval_all_checkpoints: bool = flags.Group.ACTIONS.flag(
        False,
        "With --do_eval: evaluate every checkpoint in --output_dir, too, "
        "and write eval_checkpoints.jsonl, with the perplexity of each.",
    )
    objective: str = flags.Group.MODEL.flag(
        "mlm_nsp",
        "What is learned: masked words and next sentences; masked words "
        "alone; or the next word from those to its left (causal attention).",
        choices=("mlm_nsp", "mlm", "ltr"),
    )
    max_seq_length: int = flags.Group.PAIRS.flag(
        128, "Word pieces per record; as the records were made.", lower_bound=1
    )
    max_predictions_per_seq: int = flags.Group.PAIRS.flag(
        20,
        "Masked word pieces per record; as the records were made.",
        lower_bound=1,
    )
    eval_batch_size: int = flags.Group.EVALUATION.flag(
        8,
        "Examples in an evaluation batch, over all devices together.",
        lower_bound=1,
    )
    max_eval_steps: int = flags.Group.EVALUATION.flag(
        100,
        "Batches of an evaluation, starting over where the records end; 0 "
        "for every record exactly once.",
        lower_bound=0,
    )
    eval_every_steps: int = flags.Group.EVALUATION.flag(
        0,
        "Steps between evaluations while training; 0 for none.",
        lower_bound=0,
    )
    keep_best_checkpoint: bool = flags.Group.EVALUATION.flag(
        False,
        "Keep the weights with the lowest held-out loss in best/; needs "
        "--eval_every_steps.",
    )
    early_stopping_patience: int = flags.Group.EVALUATION.flag(
        0,
        "Evaluations without a lower held-out loss after which training ends; "
        "0 for never. Needs --keep_best_checkpoint.",
        lower_bound=0,
    )

    def __post_init__(self):
        if not (self.input_file or self.phases):
            raise ValueError(
                "--input_file must be given, or --phases that name theirs."
            )


class _NumbersParser(absl_flags.ArgumentParser):
    """Reads positive numbers separated by commas.

    Args:
        kind: of each number.
    """

    def __init__(self, kind: type[int] | type[float]):
        super().__init__()
        self._kind = kind

    def parse(self, argument: str | tuple[float, ...]) -> tuple[float, ...]:
        if isinstance(argument, tuple):
            return argument
        try:
            numbers = tuple(self._kind(part) for part in argument.split(","))
        except ValueError:
            numbers = (0,)
        if len(set(numbers)) != len(numbers) or not all(n > 0 for n in numbers):
            raise ValueError(
                f"must be different positive {self._whole()}numbers, separated "
                "by commas"
            )
        return numbers

    def flag_type(self) -> str:
        return f"comma separated list of {self._kind.__name__}s"

    def _whole(self) -> str:
        return "whole " if self._kind is int else ""


class _NumbersSerializer(absl_flags.ArgumentSerializer):
    """Writes numbers as `_NumbersParser` reads them."""

    def serialize(self, value: tuple[float, ...]) -> str:
        return ",".join(map(str, value))


def _numbers(kind: type[int] | type[float], help: str) -> Any:  # noqa: A002
    return flags.Group.TRIALS.flag(
        None,
        help,
        parser=_NumbersParser(kind),
        serializer=_NumbersSerializer(),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Epochs:
    """For how long fine-tuning trains."""

    num_train_epochs: float = flags.Group.TRAINING.flag(
        3.0,
        "How often training goes through the examples; may be a fraction.",
        lower_bound=0.0,
    )
    warmup_proportion: float = flags.Group.TRAINING.flag(
        0.1,
        "Share of the steps over which the learning rate rises.",
        lower_bound=0.0,
        upper_bound=1.0,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningOptions(TrainingOptions, Epochs):
    """What all tasks have in common."""

    if TYPE_CHECKING:
        max_seq_length: int  # Declared by each task.

    do_predict: bool = flags.Group.ACTIONS.flag(False, "Predict.")
    vocab_file: str = flags.Group.TEXT.required(
        "The vocabulary that the model was trained with."
    )
    do_lower_case: bool = flags.Group.TEXT.flag(
        True, "Lower-case the text; False for cased models."
    )
    freeze_layers: int = flags.Group.TRAINING.flag(
        0,
        "Leave the embeddings and this many of the first layers as they "
        "are; 0 trains everything.",
        lower_bound=0,
    )
    predict_batch_size: int = flags.Group.EVALUATION.flag(
        8,
        "Examples in a prediction batch, over all devices together.",
        lower_bound=1,
    )
    eval_every_steps: int = flags.Group.EVALUATION.flag(
        0,
        "Steps between evaluations while training; 0 for none. The weights "
        "that do best are kept in best/.",
        lower_bound=0,
    )
    eval_every_epoch: bool = flags.Group.EVALUATION.flag(
        False, "Evaluate after each epoch while training."
    )
    early_stopping_patience: int = flags.Group.EVALUATION.flag(
        0,
        "Evaluations without a new best after which training ends; 0 for "
        "never.",
        lower_bound=0,
    )
    use_best_checkpoint: bool = flags.Group.EVALUATION.flag(
        False,
        "Evaluate and predict with best/ instead of the latest checkpoint.",
    )
    bucket_by_length: bool = flags.Group.SPEED.flag(
        False,
        "Put texts of like length into a batch and cut the padding that "
        "they share.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrialOptions(FineTuningOptions):
    """Several runs of one experiment: other seeds, other settings."""

    num_trials: int = flags.Group.TRIALS.flag(
        1,
        "Runs with different seeds, each in its own folder; the best one "
        "predicts.",
        lower_bound=1,
    )
    learning_rates: tuple[float, ...] | None = _numbers(
        float,
        "Peak learning rates to try, in place of --learning_rate, separated "
        "by commas; the paper's are 5e-5,4e-5,3e-5,2e-5.",
    )
    train_batch_sizes: tuple[int, ...] | None = _numbers(
        int,
        "Batch sizes to try, in place of --train_batch_size, each with every "
        "rate; the paper's are 16,32.",
    )
    train_epochs: tuple[float, ...] | None = _numbers(
        float,
        "Numbers of epochs to try, in place of --num_train_epochs, each with "
        "every rate and batch size; the paper's are 2,3,4.",
    )
    stable: bool = flags.Group.TRIALS.flag(
        False,
        "For small data sets, whose runs may collapse: "
        + ", ".join(f"--{name}={value}" for name, value in STABLE.items())
        + ", each unless given. Source: Mosbach et al. 2021.",
    )

    @property
    def grid(self) -> list[dict[str, Any]]:
        """The settings to try: options by name, in place of those here."""
        tried = {
            "train_batch_size": self.train_batch_sizes,
            "num_train_epochs": self.train_epochs,
            "learning_rate": self.learning_rates,
        }
        values = [
            chosen or (getattr(self, name),) for name, chosen in tried.items()
        ]
        return [
            dict(zip(tried, setting, strict=True))
            for setting in itertools.product(*values)
        ]

    @property
    def has_several_runs(self) -> bool:
        """Whether there are several seeds, or settings to try."""
        return self.num_trials > 1 or len(self.grid) > 1

    @classmethod
    def presets(cls, chosen: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the defaults that `--stable` changes."""
        return STABLE if chosen["stable"] else {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequenceOptions(TrialOptions):
    """What tasks have in common that read each text once."""

    eval_batch_size: int = flags.Group.EVALUATION.flag(
        8,
        "Examples in an evaluation batch, over all devices together.",
        lower_bound=1,
    )
    max_seq_length: int = flags.Group.TEXT.flag(
        128,
        "Word pieces the model reads at once; longer text is cut, shorter "
        "padded.",
        lower_bound=1,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggingOptions(SequenceOptions):
    """What taggers have in common: fine-tuned, or on a frozen encoder.

    Text is cased, and windows are long.
    Source: Devlin et al. 2019, §5.3, and App. A.2: 512 pieces.
    """

    do_lower_case: bool = flags.redeclare(
        SequenceOptions, "do_lower_case", False
    )
    max_seq_length: int = flags.redeclare(
        SequenceOptions, "max_seq_length", 512
    )
    features: str | None = flags.Group.MODEL.flag(
        None,
        "Train a BiLSTM on these hidden layers of --init_checkpoint, which "
        "stays as it is, instead of fine-tuning. Sets "
        + ", ".join(f"--{name}={x}" for name, x in FEATURE_BASED.items())
        + ", each unless given.",
        choices=feature_layers.CHOICES,
    )
    lstm_units: int = flags.Group.MODEL.flag(
        768,
        "Units of the BiLSTM in each direction, with --features.",
        lower_bound=1,
    )

    @classmethod
    def presets(cls, chosen: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the defaults that `--features` and `--stable` change."""
        features = FEATURE_BASED if chosen["features"] else {}
        return {**features, **super().presets(chosen)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class AblationOptions:
    """Models of Table 5 that are not BERT.

    Source: Devlin et al. 2019, section 5.1.
    """

    attention: str = flags.Group.MODEL.flag(
        BIDIRECTIONAL,
        "causal: each token sees those before it alone. For models that "
        "run_pretraining.py trained with --objective=ltr, and no others.",
        choices=ATTENTIONS,
    )
    bilstm_head: bool = flags.Group.MODEL.flag(
        False,
        "Put a BiLSTM, which begins at random, between the encoder and the "
        "output layer.",
    )

    @property
    def is_ablated(self) -> bool:
        """Whether the model is not BERT."""
        return self.attention != BIDIRECTIONAL or self.bilstm_head

    @property
    def ablation(self) -> dict[str, Any]:
        """What a run must share with the one it resumes; nothing for BERT."""
        if not self.is_ablated:
            return {}
        return {"attention": self.attention, "bilstm_head": self.bilstm_head}

    @property
    def head_arguments(self) -> dict[str, bool]:
        """The arguments of `modeling.heads.BertWithHead`."""
        return {
            "causal": self.attention == CAUSAL,
            "bilstm_head": self.bilstm_head,
        }


def wants_tpu(options: Any) -> bool:
    """Returns whether the options request a TPU."""
    return options.use_tpu or options.distribution_strategy == "tpu"
