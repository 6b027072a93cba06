"""Options of training programs and their flags, without TensorFlow.

A flag that the original has too keeps its name and default.
"""

import abc
import dataclasses
import itertools
from typing import TYPE_CHECKING, TypedDict

from bert.commands import flags
from bert.records import schema
from bert.tasks import task
from bert.training import length

AUTO = "auto"
DISTRIBUTION_STRATEGIES = (
    "auto",
    "one_device",
    "mirrored",
    "multi_worker_mirrored",
    "tpu",
)
BIDIRECTIONAL, CAUSAL = ATTENTIONS = ("bidirectional", "causal")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizerOptions:
    """The flags of all programs that tokenize text for a model."""

    vocab_file: flags.Path = flags.Group.TEXT.optional(
        "Vocabulary of the model, one word piece per line, or its folder; by "
        "default that of the model's folder."
    )
    do_lower_case: bool = flags.Group.TEXT.flag(
        True,
        "Lower-case the text and strip accents; False for cased models. If not "
        "given, as the model's folder says.",
    )
    strip_accents: bool | None = flags.Group.TEXT.optional(
        "Strip accents; if not given, as the model's folder says, or else as "
        "--do_lower_case."
    )

    @property
    def strips_accents(self) -> bool:
        """Whether accents are stripped."""
        stated = self.strip_accents
        return self.do_lower_case if stated is None else stated


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The flags of tools that use the model of a run."""

    use_best_checkpoint: bool = flags.Group.EVALUATION.boolean(
        "Evaluate and predict with best/, the best weights of the evaluations "
        "while training, instead of the latest checkpoint."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TpuOptions:
    """The TPU flags of the release."""

    use_tpu: bool = flags.Group.TPU.boolean("Run on a TPU.")
    tpu_name: str | None = flags.Group.TPU.optional(
        "Name or address of the TPU; `local` on a TPU VM."
    )
    tpu_zone: str | None = flags.Group.TPU.optional("Zone of the TPU.")
    gcp_project: str | None = flags.Group.TPU.optional("Project of the TPU.")
    master: str | None = flags.Group.TPU.optional(
        "Address of the TPU, if --tpu_name is not given."
    )
    num_tpu_cores: int = flags.Group.TPU.flag(
        8, "For compatibility: all cores of the TPU are used."
    )
    iterations_per_loop: int = flags.Group.TPU.positive(
        1000, "Accepted as in the original's commands; has no effect."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelOptions(TokenizerOptions):
    """The flags of a trained model that a program applies to text."""

    bert_config_file: flags.Path = flags.Group.MODEL.optional(
        "JSON file with the configuration of the model; by default that of the "
        "model's folder."
    )
    init_checkpoint: flags.Path = flags.Group.MODEL.required(
        "Checkpoint: folder, prefix or file of weights, of the original "
        "program, Hugging Face or the Model Garden; or hf://ORGANISATION/NAME."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingOptions(TpuOptions, abc.ABC):
    """Options of both pre-training and fine-tuning."""

    do_train: bool = flags.Group.ACTIONS.boolean("Train.")
    do_eval: bool = flags.Group.ACTIONS.boolean("Evaluate.")
    output_dir: flags.Path = flags.Group.FILES.required(
        "Folder for checkpoints and results. Training resumes from the latest "
        "checkpoint in it."
    )
    bert_config_file: flags.Path = flags.redeclare(
        ModelOptions, "bert_config_file"
    )
    init_checkpoint: flags.Path | None = flags.Group.MODEL.optional(
        "Checkpoint to start from: folder, prefix or file of weights, of the "
        "original (google-research/bert), Hugging Face or the Model Garden; or "
        "hf://ORGANISATION/NAME, which is downloaded. Only its weights are "
        "used. A checkpoint in --output_dir takes precedence."
    )
    train_batch_size: int = flags.Group.TRAINING.positive(
        32,
        "Examples in a training step, over all devices together.",
        changes_result=True,
    )
    learning_rate: float = flags.Group.TRAINING.non_negative(
        5e-5,
        "Peak learning rate of Adam.",
        changes_result=True,
    )
    optimizer: str = flags.Group.TRAINING.flag(
        "adamw",
        "adamw: the original's Adam with weight decay; lamb: the same with "
        "layer-wise learning rates, for very large batches.",
        choices=("adamw", "lamb"),
        changes_result=True,
    )
    lr_schedule: str = flags.Group.TRAINING.flag(
        "release",
        "release: the linear decay starts at step 0, so the rate drops when "
        "the warm-up ends; continuous: it starts at the end of the warm-up.",
        choices=("release", "continuous"),
        changes_result=True,
    )
    adam_bias_correction: bool = flags.Group.TRAINING.boolean(
        "Correct the bias of Adam's moments; the original does not.",
        changes_result=True,
    )
    weight_decay: float = flags.Group.TRAINING.non_negative(
        0.01,
        "Weight decay, except of biases and layer normalization.",
        changes_result=True,
    )
    adam_beta_1: float = flags.Group.TRAINING.non_negative(
        0.9,
        "Decay rate of Adam's first moment.",
        upper_bound=1.0,
        changes_result=True,
    )
    adam_beta_2: float = flags.Group.TRAINING.non_negative(
        0.999,
        "Decay rate of Adam's second moment.",
        upper_bound=1.0,
        changes_result=True,
    )
    adam_epsilon: float = flags.Group.TRAINING.non_negative(
        1e-6,
        "Added to the root of Adam's second moment.",
        changes_result=True,
    )
    max_grad_norm: float = flags.Group.TRAINING.non_negative(
        1.0,
        "Norm to which gradients are clipped; 0 for no clipping.",
        changes_result=True,
    )
    random_seed: int = flags.Group.TRAINING.non_negative(
        12345,
        "Seed of initial weights, order of examples and dropout.",
        changes_result=True,
    )
    log_every_steps: int = flags.Group.CHECKPOINTS.positive(
        100, "Steps between progress reports."
    )
    save_checkpoints_steps: int = flags.Group.CHECKPOINTS.positive(
        1000, "Steps between checkpoints."
    )
    keep_checkpoint_max: int = flags.Group.CHECKPOINTS.non_negative(
        5, "Number of checkpoints to keep; 0 for all."
    )
    keep_checkpoint_every_n_steps: int = flags.Group.CHECKPOINTS.non_negative(
        0,
        "Steps between checkpoints that are never deleted, of which the first "
        "is of step 0; 0 for none.",
    )
    eval_every_steps: int = flags.Group.EVALUATION.non_negative(
        0,
        "Steps between evaluations while training, of which the best weights "
        "are kept in best/; 0 for none.",
    )
    early_stopping_patience: int = flags.Group.EVALUATION.non_negative(
        0, "Stop after this many evaluations without improvement; 0 for never."
    )
    profile_steps: tuple[int, ...] | None = flags.Group.SPEED.optional(
        "Two steps, such as 10,15: write a profile of the first to the second "
        "for TensorBoard to --output_dir."
    )
    num_accumulation_steps: int = flags.Group.SPEED.positive(
        1,
        "Number of micro-batches per update and device; memory is needed for "
        "one micro-batch at a time.",
        changes_result=True,
    )
    recompute: bool = flags.Group.SPEED.boolean(
        "Gradient checkpointing: keep only the inputs of the Transformer "
        "layers and recompute the rest in the backward pass. It needs less "
        "memory and a third more arithmetic."
    )
    packing: bool = flags.Group.SPEED.boolean(
        "Train with several texts of a batch in one row instead of padding. "
        "Each text attends only to itself.",
        changes_result=True,
        of_model=True,
    )
    distribution_strategy: str = flags.Group.DEVICES.flag(
        "auto",
        "auto: a TPU if --use_tpu, the workers of TF_CONFIG if it lists "
        "several, else all GPUs of this machine, else its CPU.",
        choices=DISTRIBUTION_STRATEGIES,
    )
    num_cpu_devices: int = flags.Group.DEVICES.non_negative(
        0,
        "Treat the CPU as this many devices, to test distributed training; 0 "
        "for off.",
    )
    jit_compile: str = flags.Group.DEVICES.flag(
        "auto",
        "true: compile complete passes of training, evaluation and prediction "
        "with XLA; false: do not use XLA; auto: complete passes on GPUs, and "
        "for training of 300 steps or more in float32 on CPUs without "
        "AVX-512; elsewhere the arithmetic between matrix products. The "
        "choices differ in the last bits of their results.",
        choices=("auto", "true", "false"),
        changes_result=True,
    )
    deterministic: bool = flags.Group.DEVICES.boolean(
        "Make runs on GPUs reproducible bit for bit, also after a resume on "
        "the same type of GPU; slower. Runs on a CPU always are."
    )
    precision: str = flags.Group.SPEED.flag(
        "float32",
        "Data type of activations; weights stay float32. mixed_float16 scales "
        "the loss and is for GPUs without bfloat16. auto: mixed_bfloat16 if "
        "the device is known to multiply it faster, else float32.",
        choices=("float32", "mixed_bfloat16", "mixed_float16", "auto"),
        changes_result=True,
    )

    def __post_init__(self) -> None:
        for name in ("adam_beta_1", "adam_beta_2"):
            # A moment that decays at rate 1 stays 0.
            if getattr(self, name) >= 1:
                raise ValueError(
                    f"--{name} must be less than 1; got {getattr(self, name)}."
                )
        if not self.adam_epsilon:
            # A word that no text has would be divided by 0.
            raise ValueError("--adam_epsilon must be greater than 0; got 0.")
        if self.profile_steps is not None:
            steps = self.profile_steps
            if len(steps) != 2 or not 1 <= steps[0] <= steps[1]:
                raise ValueError(
                    "--profile_steps must be a first and a last step, such as "
                    f"10,15; got {','.join(map(str, steps))}."
                )
        if self.packing and (
            self.use_tpu or self.distribution_strategy == "tpu"
        ):
            raise ValueError(
                "--packing creates batches of different shapes; a TPU needs a "
                "fixed shape. Pass one of --packing and --use_tpu (or "
                "--distribution_strategy=tpu)."
            )

    @property
    def num_similar_runs(self) -> int:
        """The number of runs with this batch size, which share their steps."""
        return 1

    @property
    def is_causal(self) -> bool:
        """Whether each token attends only to itself and preceding tokens."""
        # Only some of the scripts have the flag of `AblationOptions`.
        return getattr(self, "attention", BIDIRECTIONAL) == CAUSAL

    @abc.abstractmethod
    def length(self, num_examples: int) -> length.Length:
        """Returns the steps of a run.

        Args:
            num_examples: the training examples of an epoch.

        Raises:
            ValueError: there is less than one step.
        """


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingOptions(TrainingOptions, schema.PairSizes):
    """The flags of run_pretraining.py."""

    input_file: flags.Path = flags.Group.FILES.required(
        "Record files: comma-separated names or globs."
    )
    eval_input_file: flags.Path | None = flags.Group.FILES.optional(
        "Held-out record files for evaluation; default --input_file."
    )
    num_train_steps: int = flags.Group.TRAINING.positive(
        100000,
        "Total number of steps, including those before a resume.",
        changes_result=True,
    )
    num_warmup_steps: int = flags.Group.TRAINING.non_negative(
        10000, "Steps of learning-rate warm-up.", changes_result=True
    )
    stop_at_step: int = flags.Group.TRAINING.non_negative(
        0,
        "Save a checkpoint and stop at this step; the learning rate still "
        "falls over all --num_train_steps. A second command in the same folder "
        "may continue on other records. 0 for off.",
    )
    objective: str = flags.Group.MODEL.flag(
        "mlm_nsp",
        "Training objective. mlm_nsp: masked LM and next sentences; mlm: "
        "masked LM alone; ltr: a left-to-right LM with causal attention.",
        choices=("mlm_nsp", "mlm", "ltr"),
        changes_result=True,
    )
    eval_batch_size: int = flags.Group.EVALUATION.positive(
        8, "Examples in an evaluation batch, over all devices together."
    )
    max_eval_steps: int = flags.Group.EVALUATION.non_negative(
        100,
        "Batches of an evaluation, repeating the records if necessary; 0 for "
        "every record exactly once.",
    )

    def __post_init__(self) -> None:
        if not self.do_train and not self.do_eval:
            raise ValueError(
                "At least one of `do_train` or `do_eval` must be True."
            )
        if self.early_stopping_patience and not self.eval_every_steps:
            raise ValueError(
                "--early_stopping_patience needs --eval_every_steps."
            )
        super().__post_init__()

    @property
    def is_causal(self) -> bool:
        return self.objective == "ltr"

    def length(self, num_examples: int) -> length.Length:
        del num_examples  # The flags count steps.
        return length.Length(
            num_train_steps=self.num_train_steps,
            num_warmup_steps=self.num_warmup_steps,
            stop_at_step=self.stop_at_step,
            eval_every_steps=self.eval_every_steps,
            batch_size=self.train_batch_size,
        )


class Setting(TypedDict):
    """A setting to try: the options that it replaces."""

    train_batch_size: int
    learning_rate: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningOptions(TrainingOptions, RunOptions, TokenizerOptions):
    """Options of all fine-tuning tasks, also of several runs of one."""

    if TYPE_CHECKING:
        max_seq_length: int  # Declared by each task.

    do_predict: bool = flags.Group.ACTIONS.boolean("Predict.")
    num_train_epochs: float = flags.Group.TRAINING.non_negative(
        3.0,
        "Number of epochs; may be a fraction.",
        changes_result=True,
    )
    warmup_proportion: float = flags.Group.TRAINING.non_negative(
        0.1,
        "Share of the steps for learning-rate warm-up.",
        upper_bound=1.0,
        changes_result=True,
    )
    freeze_layers: int = flags.Group.TRAINING.non_negative(
        0,
        "Freeze the embeddings and this many of the first layers; 0 trains "
        "everything.",
        changes_result=True,
    )
    predict_batch_size: int = flags.Group.EVALUATION.positive(
        8, "Examples in a prediction batch, over all devices together."
    )
    eval_every_epoch: bool = flags.Group.EVALUATION.boolean(
        "Evaluate after each epoch while training."
    )
    num_trials: int = flags.Group.TRIALS.positive(
        1,
        "Number of runs with different seeds, each in its own folder; the best "
        "one predicts.",
    )
    learning_rates: tuple[float, ...] | None = flags.Group.TRIALS.optional(
        "Peak learning rates to try instead of --learning_rate, separated by "
        "commas; the paper's are 5e-5,4e-5,3e-5,2e-5.",
    )
    train_batch_sizes: tuple[int, ...] | None = flags.Group.TRIALS.optional(
        "Batch sizes to try instead of --train_batch_size, each with every "
        "rate; the paper's are 16,32.",
    )

    def __post_init__(self) -> None:
        if not (self.do_train or self.do_eval or self.do_predict):
            raise ValueError(
                "At least one of `do_train`, `do_eval` or `do_predict` must be "
                "True."
            )
        super().__post_init__()
        if self.has_several_runs and not self.do_eval:
            raise ValueError(
                "Several runs (--num_trials, --learning_rates and the like) "
                "are compared on held-out data; pass --do_eval too."
            )
        self._check_evaluations()

    def _check_evaluations(self) -> None:
        is_evaluated = self.evaluates_while_training
        if self.eval_every_epoch and self.eval_every_steps:
            raise ValueError(
                "Pass one of --eval_every_epoch and --eval_every_steps; got "
                "both."
            )
        if self.early_stopping_patience and not is_evaluated:
            raise ValueError(
                "--early_stopping_patience counts evaluations; it needs "
                "--eval_every_epoch or --eval_every_steps."
            )
        if self.use_best_checkpoint and self.do_train and not is_evaluated:
            raise ValueError(
                "--use_best_checkpoint needs evaluations during training: "
                "--eval_every_epoch or --eval_every_steps."
            )

    @property
    def grid(self) -> list[Setting]:
        """The settings to try."""
        return [
            Setting(train_batch_size=batch_size, learning_rate=learning_rate)
            for batch_size, learning_rate in itertools.product(
                self.train_batch_sizes or (self.train_batch_size,),
                self.learning_rates or (self.learning_rate,),
            )
        ]

    @property
    def has_several_runs(self) -> bool:
        """Whether there are several seeds or settings to try."""
        return self.num_trials > 1 or len(self.grid) > 1

    @property
    def held_out_batch_size(self) -> int:
        """The batch size of evaluation."""
        return self.predict_batch_size

    @property
    def num_similar_runs(self) -> int:
        return self.num_trials * len(self.learning_rates or (0,))

    @property
    def evaluates_while_training(self) -> bool:
        """Whether held-out data are evaluated during training."""
        return self.do_train and bool(
            self.eval_every_epoch or self.eval_every_steps
        )

    def length(self, num_examples: int) -> length.Length:
        # As released: fractions of a training step and of a warm-up step are
        # dropped.
        num_train_steps = int(
            num_examples / self.train_batch_size * self.num_train_epochs
        )
        if num_train_steps < 1:
            raise ValueError(
                f"{num_examples} examples in batches of "
                f"{self.train_batch_size} for {self.num_train_epochs:g} epochs "
                "make less than one step. Choose a smaller --train_batch_size "
                "or a larger --num_train_epochs."
            )
        return length.Length(
            num_train_steps=num_train_steps,
            num_warmup_steps=int(num_train_steps * self.warmup_proportion),
            eval_every_steps=self.eval_every_steps,
            eval_every_examples=num_examples * self.eval_every_epoch,
            batch_size=self.train_batch_size,
        )

    @property
    def needed_splits(self) -> list[str]:
        """The splits of a task that its run needs."""
        wanted = {
            task.TRAIN: self.do_train,
            task.EVAL: self.do_eval or self.evaluates_while_training,
            task.PREDICT: self.do_predict,
        }
        return [split for split, is_wanted in wanted.items() if is_wanted]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequenceOptions(FineTuningOptions):
    """Options of tasks with one sequence for each text."""

    eval_batch_size: int = flags.redeclare(
        PretrainingOptions, "eval_batch_size"
    )
    max_seq_length: int = flags.Group.TEXT.positive(
        128,
        "Maximum sequence length in word pieces; longer text is truncated, "
        "shorter text is padded.",
        changes_result=True,
        of_model=True,
    )

    @property
    def held_out_batch_size(self) -> int:
        return self.eval_batch_size


@dataclasses.dataclass(frozen=True, kw_only=True)
class AblationOptions:
    """Options of the ablated models of Table 5.

    Source: Devlin et al. 2019, section 5.1.
    """

    attention: str = flags.Group.MODEL.flag(
        BIDIRECTIONAL,
        "causal: each token attends to itself and preceding tokens, as in "
        "run_pretraining.py --objective=ltr. A checkpoint of this project that "
        "was trained with another attention is refused.",
        choices=ATTENTIONS,
        changes_result=True,
        of_model=True,
    )
    bilstm_head: bool = flags.Group.MODEL.boolean(
        "Insert a randomly initialized BiLSTM between the encoder and the "
        "output layer.",
        changes_result=True,
        of_model=True,
    )
