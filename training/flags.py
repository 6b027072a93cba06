"""Options of training programs and their flags; no TensorFlow.

Names and defaults are the release's where it has the flag.
"""

import dataclasses
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

    use_tpu: bool = flags.flag(False, "Compute on a TPU.", flags.Group.TPU)
    tpu_name: str | None = flags.flag(
        None,
        "Name or address of the TPU; `local` on a TPU VM.",
        flags.Group.TPU,
    )
    tpu_zone: str | None = flags.flag(None, "Zone of the TPU.", flags.Group.TPU)
    gcp_project: str | None = flags.flag(
        None, "Project of the TPU.", flags.Group.TPU
    )
    master: str | None = flags.flag(
        None,
        "Address of the TPU, where --tpu_name is not given.",
        flags.Group.TPU,
    )
    num_tpu_cores: int = flags.flag(
        8, "Cores the TPU should have; all of them are used.", flags.Group.TPU
    )
    iterations_per_loop: int = flags.flag(
        1000,
        "Steps a TPU makes in a row at most before the host looks at it.",
        flags.Group.TPU,
        lower_bound=1,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingOptions(TpuOptions):
    """What pre-training and fine-tuning have in common."""

    do_train: bool = flags.flag(False, "Train.", flags.Group.ACTIONS)
    do_eval: bool = flags.flag(False, "Evaluate.", flags.Group.ACTIONS)
    output_dir: str = flags.required(
        "Folder for checkpoints and results. A run whose folder holds a "
        "checkpoint goes on from it.",
        flags.Group.FILES,
    )
    bert_config_file: str = flags.required(
        "JSON file with the sizes of the model.", flags.Group.MODEL
    )
    init_checkpoint: str | None = flags.flag(
        None,
        "Checkpoint to start from (prefix, .index file or folder); only its "
        "weights are used. A checkpoint in --output_dir goes before it.",
        flags.Group.MODEL,
    )
    train_batch_size: int = flags.flag(
        32,
        "Examples in a training step, over all devices together.",
        flags.Group.TRAINING,
        lower_bound=1,
    )
    learning_rate: float = flags.flag(
        5e-5,
        "Peak learning rate of Adam.",
        flags.Group.TRAINING,
        lower_bound=0.0,
    )
    optimizer: str = flags.flag(
        "adamw",
        "adamw: the release's Adam with weight decay; lamb: the same with a "
        "rate for each layer, for very large batches.",
        flags.Group.TRAINING,
        choices=("adamw", "lamb"),
    )
    lr_schedule: str = flags.flag(
        "release",
        "release: the linear decay counts from step 0, so the rate drops "
        "where the warm-up ends; continuous: it counts from there.",
        flags.Group.TRAINING,
        choices=("release", "continuous"),
    )
    adam_bias_correction: bool = flags.flag(
        False,
        "Correct the bias of Adam's moments; the release does not.",
        flags.Group.TRAINING,
    )
    random_seed: int = flags.flag(
        12345,
        "Seed of initial weights, order of examples and dropout.",
        flags.Group.TRAINING,
        lower_bound=0,
    )
    log_every_steps: int = flags.flag(
        100,
        "Steps between progress reports.",
        flags.Group.CHECKPOINTS,
        lower_bound=1,
    )
    save_checkpoints_steps: int = flags.flag(
        1000,
        "Steps between checkpoints.",
        flags.Group.CHECKPOINTS,
        lower_bound=1,
    )
    keep_checkpoint_max: int = flags.flag(
        5,
        "How many checkpoints stay; 0 for all.",
        flags.Group.CHECKPOINTS,
        lower_bound=0,
    )
    keep_checkpoint_every_n_steps: int = flags.flag(
        0,
        "Steps between checkpoints that stay for good; 0 for none.",
        flags.Group.CHECKPOINTS,
        lower_bound=0,
    )
    num_accumulation_steps: int = flags.flag(
        1,
        "Parts in which a device goes through its share of a batch before "
        "the one update; memory is needed for one part at a time.",
        flags.Group.SPEED,
        lower_bound=1,
    )
    recompute: bool = flags.flag(
        False,
        "Keep the inputs of the Transformer layers alone and compute the "
        "rest again on the way back: less memory, a third more arithmetic.",
        flags.Group.SPEED,
    )
    distribution_strategy: str = flags.flag(
        "auto",
        "auto: a TPU if --use_tpu, the workers of TF_CONFIG if it names "
        "several, else all the GPUs of this machine, else its CPU.",
        flags.Group.DEVICES,
        choices=DISTRIBUTION_STRATEGIES,
    )
    num_cpu_devices: int = flags.flag(
        0,
        "Compute on the CPU and treat it as so many devices, to try out "
        "what a run does on several; 0 for off.",
        flags.Group.DEVICES,
        lower_bound=0,
    )
    steps_per_loop: int = flags.flag(
        0,
        "Steps in a row, in one call of the graph, before there is a look "
        "at signals and the clock; 0: one, and --iterations_per_loop on a "
        "TPU.",
        flags.Group.DEVICES,
        lower_bound=0,
    )
    jit_compile: str = flags.flag(
        "auto",
        "Let XLA compile the way forward and back as a whole; auto: on "
        "GPUs. Results then differ in their last bits.",
        flags.Group.DEVICES,
        choices=("auto", "true", "false"),
    )
    deterministic: bool = flags.flag(
        False,
        "Make runs on GPUs repeat bit for bit, also after a stop; slower. Runs "
        "on a CPU do without it.",
        flags.Group.DEVICES,
    )
    precision: str = flags.flag(
        "float32",
        "Arithmetic; weights stay float32. mixed_float16 scales the loss "
        "and is for GPUs without bfloat16. auto: mixed_bfloat16 where the "
        "device is known to multiply it faster, else float32.",
        flags.Group.SPEED,
        choices=("float32", "mixed_bfloat16", "mixed_float16", "auto"),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingInput:
    """Which records pre-training reads, and for how many steps."""

    input_file: str | None = flags.flag(
        None,
        "Record files: comma-separated names or globs. Required, but where "
        "all of --phases name theirs.",
        flags.Group.FILES,
    )
    eval_input_file: str | None = flags.flag(
        None,
        "Held-out record files to evaluate on; --input_file if not given.",
        flags.Group.FILES,
    )
    shard_input_files: bool = flags.flag(
        False,
        "Each worker reads files of its own: every so many-th of the sorted "
        "names. The order of the records then depends on the number of "
        "workers.",
        flags.Group.FILES,
    )
    num_train_steps: int = flags.flag(
        100000,
        "Steps in all, those before a resume included.",
        flags.Group.TRAINING,
    )
    num_warmup_steps: int = flags.flag(
        10000,
        "Steps over which the learning rate rises.",
        flags.Group.TRAINING,
        lower_bound=0,
    )
    phases: str | None = flags.flag(
        None,
        "Phases of the run, one after the other, parted by semicolons; each "
        "is key=value pairs: `steps`, a number or a share (90%) of "
        "--num_train_steps, and, where they differ from the flags of these "
        "names, input_file, max_seq_length, max_predictions_per_seq, "
        "train_batch_size, num_accumulation_steps. The learning rate "
        "follows one schedule over all of them. Held-out records are as the "
        "last phase's.",
        flags.Group.TRAINING,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingOptions(TrainingOptions, PretrainingInput):
    """The flags of run_pretraining.py."""

    eval_all_checkpoints: bool = flags.flag(
        False,
        "With --do_eval: evaluate every checkpoint in --output_dir, too, "
        "and write eval_checkpoints.jsonl, with the perplexity of each.",
        flags.Group.ACTIONS,
    )
    objective: str = flags.flag(
        "mlm_nsp",
        "What is learnt: masked words and next sentences; masked words "
        "alone; or the next word from those to its left (causal attention).",
        flags.Group.MODEL,
        choices=("mlm_nsp", "mlm", "ltr"),
    )
    max_seq_length: int = flags.flag(
        128,
        "Word pieces per record; as the records were made.",
        flags.Group.PAIRS,
        lower_bound=1,
    )
    max_predictions_per_seq: int = flags.flag(
        20,
        "Masked word pieces per record; as the records were made.",
        flags.Group.PAIRS,
        lower_bound=1,
    )
    eval_batch_size: int = flags.flag(
        8,
        "Examples in an evaluation batch, over all devices together.",
        flags.Group.EVALUATION,
        lower_bound=1,
    )
    max_eval_steps: int = flags.flag(
        100,
        "Batches of an evaluation, starting over where the records end; 0 "
        "for every record exactly once.",
        flags.Group.EVALUATION,
        lower_bound=0,
    )
    eval_every_steps: int = flags.flag(
        0,
        "Steps between evaluations while training; 0 for none.",
        flags.Group.EVALUATION,
        lower_bound=0,
    )
    keep_best_checkpoint: bool = flags.flag(
        False,
        "Keep the weights with the lowest held-out loss in best/; needs "
        "--eval_every_steps.",
        flags.Group.EVALUATION,
    )
    early_stopping_patience: int = flags.flag(
        0,
        "Evaluations without a lower held-out loss after which training ends; "
        "0 for never. Needs --keep_best_checkpoint.",
        flags.Group.EVALUATION,
        lower_bound=0,
    )

    def __post_init__(self):
        if not (self.input_file or self.phases):
            raise ValueError(
                "--input_file must be given, or --phases that name theirs."
            )


class _RatesParser(absl_flags.ArgumentParser):
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


class _RatesSerializer(absl_flags.ArgumentSerializer):
    """Writes learning rates as `_RatesParser` reads them."""

    def serialize(self, value: tuple[float, ...]) -> str:
        return ",".join(map(str, value))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Epochs:
    """For how long fine-tuning trains."""

    num_train_epochs: float = flags.flag(
        3.0,
        "How often training goes through the examples; may be a fraction.",
        flags.Group.TRAINING,
        lower_bound=0.0,
    )
    warmup_proportion: float = flags.flag(
        0.1,
        "Share of the steps over which the learning rate rises.",
        flags.Group.TRAINING,
        lower_bound=0.0,
        upper_bound=1.0,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningOptions(TrainingOptions, Epochs):
    """What all tasks have in common."""

    if TYPE_CHECKING:
        max_seq_length: int  # Declared by each task.

    do_predict: bool = flags.flag(False, "Predict.", flags.Group.ACTIONS)
    vocab_file: str = flags.required(
        "The vocabulary that the model was trained with.", flags.Group.TEXT
    )
    do_lower_case: bool = flags.flag(
        True, "Lower-case the text; False for cased models.", flags.Group.TEXT
    )
    freeze_layers: int = flags.flag(
        0,
        "Leave the embeddings and this many of the first layers as they "
        "are; 0 trains everything.",
        flags.Group.TRAINING,
        lower_bound=0,
    )
    predict_batch_size: int = flags.flag(
        8,
        "Examples in a prediction batch, over all devices together.",
        flags.Group.EVALUATION,
        lower_bound=1,
    )
    eval_every_steps: int = flags.flag(
        0,
        "Steps between evaluations while training; 0 for none. The weights "
        "that do best are kept in best/.",
        flags.Group.EVALUATION,
        lower_bound=0,
    )
    eval_every_epoch: bool = flags.flag(
        False,
        "Evaluate after each epoch while training.",
        flags.Group.EVALUATION,
    )
    early_stopping_patience: int = flags.flag(
        0,
        "Evaluations without a new best after which training ends; 0 for "
        "never.",
        flags.Group.EVALUATION,
        lower_bound=0,
    )
    use_best_checkpoint: bool = flags.flag(
        False,
        "Evaluate and predict with best/ instead of the latest checkpoint.",
        flags.Group.EVALUATION,
    )
    bucket_by_length: bool = flags.flag(
        False,
        "Put texts of like length into a batch and cut the padding that "
        "they share.",
        flags.Group.SPEED,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrialOptions(FineTuningOptions):
    """Several runs of one experiment: other seeds, other learning rates."""

    num_trials: int = flags.flag(
        1,
        "Runs with different seeds, each in its own folder; the best one "
        "predicts.",
        flags.Group.TRIALS,
        lower_bound=1,
    )
    learning_rates: tuple[float, ...] | None = flags.flag(
        None,
        "Peak learning rates to try, in place of --learning_rate, separated "
        "by commas; the paper's are 5e-5,4e-5,3e-5,2e-5.",
        flags.Group.TRIALS,
        parser=_RatesParser(),
        serializer=_RatesSerializer(),
    )
    stable: bool = flags.flag(
        False,
        "For small data sets, whose runs may collapse: "
        + ", ".join(f"--{name}={value}" for name, value in STABLE.items())
        + ", each unless given. Source: Mosbach et al. 2021.",
        flags.Group.TRIALS,
    )

    @property
    def peak_rates(self) -> tuple[float, ...]:
        """The peak learning rates to try."""
        return self.learning_rates or (self.learning_rate,)

    @classmethod
    def presets(cls, chosen: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the defaults that `--stable` changes."""
        return STABLE if chosen["stable"] else {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequenceOptions(TrialOptions):
    """What tasks have in common that read each text once."""

    eval_batch_size: int = flags.flag(
        8,
        "Examples in an evaluation batch, over all devices together.",
        flags.Group.EVALUATION,
        lower_bound=1,
    )
    max_seq_length: int = flags.flag(
        128,
        "Word pieces the model reads at once; longer text is cut, shorter "
        "padded.",
        flags.Group.TEXT,
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
    features: str | None = flags.flag(
        None,
        "Train a BiLSTM on these hidden layers of --init_checkpoint, which "
        "stays as it is, instead of fine-tuning. Sets "
        + ", ".join(f"--{name}={x}" for name, x in FEATURE_BASED.items())
        + ", each unless given.",
        flags.Group.MODEL,
        choices=feature_layers.CHOICES,
    )
    lstm_units: int = flags.flag(
        768,
        "Units of the BiLSTM in each direction, with --features.",
        flags.Group.MODEL,
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

    attention: str = flags.flag(
        BIDIRECTIONAL,
        "causal: each token sees those before it alone. For models that "
        "run_pretraining.py trained with --objective=ltr, and no others.",
        flags.Group.MODEL,
        choices=ATTENTIONS,
    )
    bilstm_head: bool = flags.flag(
        False,
        "Put a BiLSTM, which begins at random, between the encoder and the "
        "output layer.",
        flags.Group.MODEL,
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
    """Tells whether `--use_tpu` or `--distribution_strategy` asks for a TPU."""
    return options.use_tpu or options.distribution_strategy == "tpu"
