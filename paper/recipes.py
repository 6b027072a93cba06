"""The commands of pre-training and fine-tuning, as jobs.

The estimated duration of a command is the number of its operations divided by
the rate of a machine, correct within a factor of two. The runner corrects it by
the duration of finished jobs.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

from modeling import config as config_lib
from modeling import costs
from paper import jobs

CLASSIFIER, SQUAD = "run_classifier.py", "run_squad.py"
MLM_NSP, LTR = "mlm_nsp", "ltr"
# Source: the paper, appendix A.1: 80 % [MASK], 10 % the same, 10 % random.
MASKING = (80, 10, 10)
_START_SECONDS = 40.0
_FIRST_SEED = 12345  # Source: the default of every script.

Flags = Mapping[str, jobs.Value]
# Flags of `Scheme.more_flags` that scripts refuse: run_ner.py --features, and
# run_pretraining.py, which has no such flag.
_NOT_FOR_FEATURES = ("packing", "recompute")
_NOT_FOR_PRETRAINING = ("packing",)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine that runs the commands.

    Attributes:
        name: for display.
        operations_per_second: achieved rate of training.
        start_seconds: overhead of a command: compiling, reading, writing.
        text_bytes_per_second: rate of record creation.
    """

    name: str
    operations_per_second: float
    start_seconds: float = _START_SECONDS
    text_bytes_per_second: float = 4e6  # Source: docs/corpora.md, one core.

    def seconds(self, num_operations: float) -> float:
        """Estimates the seconds of a command that trains."""
        return self.start_seconds + num_operations / self.operations_per_second


@functools.cache
def read_config(path: str) -> config_lib.BertConfig:
    """Reads a shipped configuration."""
    return config_lib.BertConfig.from_json_file(str(jobs.ROOT / path))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """Steps of pre-training at one length.

    Attributes:
        max_seq_length: T.
        max_predictions_per_seq: P.
        batch_size: in sequences.
        num_steps: number of steps.
        dupe_factor: maskings of each text.
    """

    max_seq_length: int
    max_predictions_per_seq: int
    batch_size: int
    num_steps: int
    dupe_factor: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scheme:
    """Machine, text and hyperparameters that all models share.

    Attributes:
        machine: the machine of cost estimates.
        more_flags: passed to every script that trains, except `packing` and
            `recompute` where it refuses them.
        bucket_by_length: whether fine-tuning pads each batch to its longest.
        scoring_batch_size: of evaluation and prediction, whose results it does
            not change; the release's 8 is slow.
        train: training files or globs, one sentence a line.
        held_out: evaluation files of the same kind.
        vocab_file: lower-cased.
        train_bytes: total size of the training files.
        held_out_bytes: total size of the evaluation files.
        phases: in order, under one learning rate schedule.
        learning_rate: the peak.
        num_warmup_steps: number of warmup steps.
        networks: shipped configuration files, by name.
        base: the network used for comparisons.
        keep_every: steps between kept checkpoints, for models that are
            fine-tuned from intermediate steps.
    """

    machine: Machine
    more_flags: Flags = dataclasses.field(default_factory=dict)
    bucket_by_length: bool = False
    scoring_batch_size: int = 32
    train: tuple[jobs.Path, ...]
    held_out: tuple[jobs.Path, ...]
    vocab_file: jobs.Path
    train_bytes: float
    held_out_bytes: float
    phases: tuple[Phase, ...]
    learning_rate: float
    num_warmup_steps: int
    networks: Mapping[str, str]
    base: str
    keep_every: int

    def padded(self, length: float, max_seq_length: int) -> float:
        """Estimates the padded length of sequences with a mean length."""
        # Batches of similar length still have some padding.
        longest = 1.1 * length if self.bucket_by_length else max_seq_length
        return min(longest, max_seq_length)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """A pre-trained model for fine-tuning.

    Attributes:
        name: for display.
        config: the sizes of the network.
        config_file: the file of `config`.
        vocab_file: its vocabulary.
        checkpoint: its weights.
        do_lower_case: whether it reads lower-cased text.
        is_causal: whether its attention is left-to-right, also in fine-tuning.
    """

    name: str
    config: config_lib.BertConfig
    config_file: jobs.Path
    vocab_file: jobs.Path
    checkpoint: jobs.Path
    do_lower_case: bool = True
    is_causal: bool = False

    def flags(self) -> Flags:
        """Returns the flags that specify the model."""
        return {
            "bert_config_file": self.config_file,
            "vocab_file": self.vocab_file,
            "init_checkpoint": self.checkpoint,
            "do_lower_case": "true" if self.do_lower_case else "false",
            **({"attention": "causal"} if self.is_causal else {}),
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tuning:
    """The hyperparameters of fine-tuning.

    Attributes:
        max_seq_length: T.
        batch_size: of training.
        num_epochs: of training.
        learning_rates: the grid; a single rate needs no selection.
        num_trials: seeds for each rate.
        bilstm_head: whether a BiLSTM is between encoder and output layer.
    """

    max_seq_length: int
    batch_size: int
    num_epochs: float
    learning_rates: tuple[float, ...]
    num_trials: int = 1
    bilstm_head: bool = False

    def flags(self) -> Flags:
        """Returns the flags, without those of the grid."""
        return {
            "max_seq_length": self.max_seq_length,
            "train_batch_size": self.batch_size,
            "num_train_epochs": self.num_epochs,
            **({"bilstm_head": True} if self.bilstm_head else {}),
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataSet:
    """The data of a task, for its commands and cost estimates.

    Attributes:
        name: the task; for GLUE its `--task_name`.
        program: its training script.
        path: its folder or training file.
        dev_path: its dev file, if it is another path.
        num_train: number of training examples.
        num_dev: number of dev examples.
        length: mean number of word pieces.
        num_sequences: sequences per example.
    """

    name: str
    program: str = CLASSIFIER
    path: jobs.Path | tuple[jobs.Path, ...]
    dev_path: jobs.Path | None = None
    num_train: int
    num_dev: int
    length: float
    num_sequences: int = 1


def fine_tune(
    scheme: Scheme,
    model: Model,
    data: DataSet,
    tuning: Tuning,
    more_flags: Flags,
) -> tuple[jobs.Job, ...]:
    """Returns the jobs that fine-tune a model on a task and evaluate it.

    Args:
        scheme: shared by all models.
        model: the pre-trained model.
        data: of the task.
        tuning: the hyperparameters. Question answering has a job for each seed,
            with the first rate; other tasks have one job for the full grid.
        more_flags: of the task.
    """
    name = f"{data.name} {model.name}{' bilstm' if tuning.bilstm_head else ''}"
    features = more_flags.get("features")
    scoring: Flags = {
        "predict_batch_size": scheme.scoring_batch_size,
        **({"bucket_by_length": True} if scheme.bucket_by_length else {}),
        **_without(scheme.more_flags, _NOT_FOR_FEATURES if features else ()),
    }
    num_trained = data.num_train * tuning.num_epochs
    num_passes = costs.PRODUCTS_PER_FORWARD * num_trained + data.num_dev
    length = scheme.padded(data.length, tuning.max_seq_length)
    work = num_passes * costs.encoder_flops(model.config, length)
    seconds = scheme.machine.seconds(work)
    if data.program == SQUAD:
        return tuple(
            jobs.Job(
                name=f"{name} seed {number + 1}",
                program=SQUAD,
                flags={
                    **_squad_flags(model, data, tuning, _FIRST_SEED + number),
                    **more_flags,
                    **scoring,
                },
                seconds=seconds,
            )
            for number in range(tuning.num_trials)
        )
    num_runs = len(tuning.learning_rates) * tuning.num_trials
    job = jobs.Job(
        name=f"{name} {features}" if features else name,
        program=data.program,
        flags={
            **_grid_flags(model, data, tuning, more_flags),
            "eval_batch_size": scheme.scoring_batch_size,
            **scoring,
        },
        seconds=num_runs * data.num_sequences * seconds,
    )
    return (job,)


def _without(flags: Flags, names: Sequence[str]) -> Flags:
    return {name: flags[name] for name in flags if name not in names}


def _squad_flags(
    model: Model, data: DataSet, tuning: Tuning, seed: int
) -> Flags:
    return {
        "output_dir": jobs.Output(),
        **model.flags(),
        "do_train": True,
        "train_file": data.path,
        "do_predict": True,
        "do_eval": True,
        "predict_file": data.dev_path or data.path,
        **tuning.flags(),
        "learning_rate": tuning.learning_rates[0],
        "random_seed": seed,
    }


def _grid_flags(
    model: Model, data: DataSet, tuning: Tuning, more_flags: Flags
) -> Flags:
    is_named = data.program == CLASSIFIER
    # The scripts' order: actions, then hyperparameters, then the task's own.
    return {
        **({"task_name": data.name} if is_named else {}),
        "data_dir": data.path,
        "output_dir": jobs.Output(),
        **model.flags(),
        "do_train": True,
        "do_eval": True,
        **(more_flags if is_named else {}),
        **tuning.flags(),
        "learning_rates": tuple(map(str, tuning.learning_rates)),
        "num_trials": tuning.num_trials,
        **({} if is_named else more_flags),
    }


def ensemble(
    model: Model,
    data: DataSet,
    members: tuple[jobs.Job, ...],
    more_flags: Flags,
) -> jobs.Job:
    """Returns the job that combines the answers of fine-tuned models.

    Args:
        model: their pre-trained model.
        data: of the task.
        members: their jobs.
        more_flags: of the task.
    """
    return jobs.Job(
        name=f"{members[0].name} and {len(members) - 1} others",
        program=SQUAD,
        flags={
            "output_dir": jobs.Output(),
            "bert_config_file": model.config_file,
            "vocab_file": model.vocab_file,
            "do_predict": True,
            "do_eval": True,
            "predict_file": data.dev_path or data.path,
            **more_flags,
            "ensemble": tuple(
                jobs.Output(job=member, path="nbest_predictions.json")
                for member in members
            ),
        },
        seconds=_START_SECONDS,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variant:
    """A network, its objective, and the masking of its records.

    Attributes:
        network: a name in `Scheme.networks`.
        objective: of run_pretraining.py.
        masking: percentages of [MASK], unchanged and random words.
    """

    network: str
    objective: str = MLM_NSP
    masking: tuple[int, ...] = MASKING

    @property
    def name(self) -> str:
        """The display name of the model."""
        if self.masking == MASKING:
            return f"{self.objective} {self.network}"
        masking = "-".join(map(str, self.masking))
        return f"{self.objective} {masking} {self.network}"

    def keeps_checkpoints(self, scheme: Scheme) -> bool:
        """Returns whether Figure 5 needs its intermediate checkpoints."""
        return (
            self.network == scheme.base
            and self.objective in (MLM_NSP, LTR)
            and self.masking == MASKING
        )


def pretrain(scheme: Scheme, variant: Variant) -> jobs.Job:
    """Returns the job that pre-trains a model, with its dependencies."""
    config_file = scheme.networks[variant.network]
    phases = [_phase(scheme, variant, phase) for phase in scheme.phases]
    held_out = _records(
        scheme,
        scheme.phases[-1],
        variant,
        {"input_file": scheme.held_out, "dupe_factor": 1},
        num_bytes=scheme.held_out_bytes,
        label=" held-out",
    )
    keep: Flags = {"keep_checkpoint_every_n_steps": scheme.keep_every}
    return jobs.Job(
        name=f"pretrain {variant.name}",
        program="run_pretraining.py",
        flags={
            "phases": tuple(phase for phase, _ in phases),
            "eval_input_file": held_out,
            "output_dir": jobs.Output(),
            "bert_config_file": config_file,
            "do_train": True,
            "do_eval": True,
            "max_eval_steps": 0,
            "eval_batch_size": scheme.scoring_batch_size,
            "objective": variant.objective,
            "learning_rate": scheme.learning_rate,
            "num_train_steps": sum(p.num_steps for p in scheme.phases),
            "num_warmup_steps": scheme.num_warmup_steps,
            **(keep if variant.keeps_checkpoints(scheme) else {}),
            **_without(scheme.more_flags, _NOT_FOR_PRETRAINING),
        },
        seconds=sum(seconds for _, seconds in phases),
    )


def _phase(
    scheme: Scheme, variant: Variant, phase: Phase
) -> tuple[jobs.Phase, float]:
    """Returns a phase with its records, and its estimated seconds."""
    records = _records(
        scheme,
        phase,
        variant,
        {
            "input_file": scheme.train,
            # Each file is a shard; shards use all cores.
            "shard_by_file": True,
            "dupe_factor": phase.dupe_factor,
        },
        num_bytes=phase.dupe_factor * scheme.train_bytes,
    )
    values: jobs.Phase = {
        "steps": phase.num_steps,
        "input_file": records,
        "max_seq_length": phase.max_seq_length,
        "max_predictions_per_seq": phase.max_predictions_per_seq,
        "train_batch_size": phase.batch_size,
    }
    shape = costs.Shape(
        max_seq_length=phase.max_seq_length,
        max_predictions_per_seq=phase.max_seq_length - 1
        if variant.objective == LTR  # It predicts every token.
        else phase.max_predictions_per_seq,
    )
    config = read_config(scheme.networks[variant.network])
    num_sequences = phase.num_steps * phase.batch_size
    work = costs.training_flops(config, shape) * num_sequences
    return values, scheme.machine.seconds(work)


def _records(
    scheme: Scheme,
    phase: Phase,
    variant: Variant,
    flags: Flags,
    *,
    num_bytes: float,
    label: str = "",
) -> jobs.Output:
    """Returns the records of a phase from `num_bytes` of text."""
    machine = scheme.machine
    masking = ",".join(map(str, variant.masking))
    job = jobs.Job(
        name=f"records {phase.max_seq_length} {masking}{label}",
        program="create_pretraining_data.py",
        flags={
            **flags,
            "output_file": jobs.Output(path="records.tfrecord"),
            "vocab_file": scheme.vocab_file,
            "max_seq_length": phase.max_seq_length,
            "max_predictions_per_seq": phase.max_predictions_per_seq,
            "masking": masking,
        },
        seconds=machine.start_seconds
        + num_bytes / machine.text_bytes_per_second,
    )
    # The names of sharded records include the shard number.
    return jobs.Output(job=job, path="records*.tfrecord")


def pretrained(
    scheme: Scheme, variant: Variant, step: int | None = None
) -> Model:
    """Returns a pre-trained model, which depends on its pre-training job.

    Args:
        scheme: of pre-training.
        variant: the network and its objective.
        step: the step of its checkpoint; None for the last.

    Raises:
        ValueError: the step's checkpoint is not kept.
    """
    name, path = variant.name, ""
    if step is not None:
        if not variant.keeps_checkpoints(scheme) or step % scheme.keep_every:
            raise ValueError(
                f"The run must keep the checkpoint of step {step}; it keeps "
                f"one every {scheme.keep_every} steps, if at all."
            )
        name, path = f"{name} step {step}", f"model.ckpt-{step}"
    config_file = scheme.networks[variant.network]
    return Model(
        name=name,
        config=read_config(config_file),
        config_file=config_file,
        vocab_file=scheme.vocab_file,
        checkpoint=jobs.Output(job=pretrain(scheme, variant), path=path),
        is_causal=variant.objective == LTR,
    )
