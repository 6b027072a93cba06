"""Pre-training as jobs: from raw text to a model, in phases of a length."""

import dataclasses
import functools
import pathlib

from modeling import config as config_lib
from modeling import costs as network_costs
from paper import costs, jobs, recipes

_ROOT = pathlib.Path(__file__).parents[1]
MLM_NSP, MLM, LTR = "mlm_nsp", "mlm", "ltr"
_RECORDS, _EVERY_RECORD = "records.tfrecord", "records*.tfrecord"
# Source: the paper, appendix A.1: 80 % [MASK], 10 % the same, 10 % random.
MASKING = (80, 10, 10)


@functools.cache
def read_config(path: str) -> config_lib.BertConfig:
    """Reads a configuration of this repository."""
    return config_lib.BertConfig.from_json_file(str(_ROOT / path))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """Raw text of one kind.

    Attributes:
        name: for people.
        form: its `--input_format`.
        files: a glob below the data folder.
        num_bytes: of all files.
        holdout_every: which documents are held out.
    """

    name: str
    form: str
    files: str
    num_bytes: float
    holdout_every: int

    def prepare(self, num_shards: int) -> jobs.Job:
        """Makes the job that writes a sentence a line."""
        return jobs.Job(
            name=f"text {self.name}",
            program="tools.prepare_corpus",
            flags=(
                ("input_format", self.form),
                ("input_file", jobs.Given(path=self.files)),
                ("output_file", jobs.Output(path="text-%05d.txt")),
                ("num_output_files", num_shards),
                ("holdout_every", self.holdout_every),
                ("holdout_file", jobs.Output(path="held_out.txt")),
            ),
            # Measured: 20 MB a second on one core.
            seconds=self.num_bytes / 2e7,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Text:
    """Prepared text, and the vocabulary it is read with.

    Attributes:
        train: files, or globs, of one sentence a line.
        held_out: files of the same kind, never trained on.
        vocab_file: lower-cased.
        train_bytes: of the files together.
        held_out_bytes: of the rest.
    """

    train: tuple[jobs.Path, ...]
    held_out: tuple[jobs.Path, ...]
    vocab_file: jobs.Path
    train_bytes: float
    held_out_bytes: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """Steps at one length.

    Attributes:
        shape: of a sequence.
        batch_size: sequences.
        num_steps: steps.
        dupe_factor: maskings of each text.
    """

    shape: network_costs.Shape
    batch_size: int
    num_steps: int
    dupe_factor: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network:
    """A network to pre-train.

    Attributes:
        name: "L-2 H-128" and the like.
        config_file: its sizes, a file of this repository.
    """

    name: str
    config_file: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scheme:
    """Text and hyperparameters of pre-training, the same for all models.

    Attributes:
        bench: options that commands share.
        text: to train on.
        phases: in order, under one schedule of the rate.
        learning_rate: the peak.
        num_warmup_steps: steps.
        keep_every: steps between the checkpoints that are kept, for models
            that are fine-tuned from intermediate steps.
    """

    bench: recipes.Bench
    text: Text
    phases: tuple[Phase, ...]
    learning_rate: float
    num_warmup_steps: int
    keep_every: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variant:
    """The objective, and the masking of the records.

    Attributes:
        objective: of run_pretraining.py.
        masking: per cent that become [MASK], stay, become a random word.
        keeps_checkpoints: whether intermediate checkpoints are kept.
    """

    objective: str = MLM_NSP
    masking: tuple[int, int, int] = MASKING
    keeps_checkpoints: bool = False

    @property
    def label(self) -> str:
        """The beginning of the names of jobs."""
        if self.masking == MASKING:
            return self.objective
        return f"{self.objective} {'-'.join(map(str, self.masking))}"


# Figure 5 needs intermediate checkpoints of these two.
PRIME = Variant(keeps_checkpoints=True)
LEFT_TO_RIGHT = Variant(objective=LTR, keeps_checkpoints=True)


def pretrain(scheme: Scheme, network: Network, variant: Variant) -> jobs.Job:
    """Makes the job that pre-trains a model, with all it needs."""
    bench = scheme.bench
    config = read_config(network.config_file)
    keep: recipes.Flags = (
        ("keep_checkpoint_every_n_steps", scheme.keep_every),
    )
    phases = tuple(_phase(scheme, each, variant) for each in scheme.phases)
    seconds = 0.0
    for phase in scheme.phases:
        shape = phase.shape
        if variant.objective == LTR:  # It predicts every token.
            shape = dataclasses.replace(
                shape, max_predictions_per_seq=shape.max_seq_length - 1
            )
        seconds += bench.machine.start_seconds + costs.pretraining_seconds(
            bench.machine, config, shape, phase.num_steps * phase.batch_size
        )
    return jobs.Job(
        name=f"pretrain {variant.label} {network.name}",
        program="run_pretraining.py",
        flags=(
            ("phases", phases),
            ("eval_input_file", _held_out(scheme, scheme.phases[-1], variant)),
            ("output_dir", jobs.Output()),
            ("bert_config_file", network.config_file),
            ("do_train", True),
            ("do_eval", True),
            ("max_eval_steps", 0),
            ("eval_batch_size", bench.scoring_batch_size),
            ("objective", variant.objective),
            ("learning_rate", scheme.learning_rate),
            ("num_train_steps", sum(p.num_steps for p in scheme.phases)),
            ("num_warmup_steps", scheme.num_warmup_steps),
            *(keep if variant.keeps_checkpoints else ()),
            *bench.more_flags,
        ),
        seconds=seconds,
    )


def pretrained(
    scheme: Scheme,
    network: Network,
    variant: Variant,
    step: int | None = None,
) -> recipes.Model:
    """Describes a pre-trained model, and with it the job that makes it.

    Args:
        scheme: how it is pre-trained.
        network: its sizes.
        variant: its objective.
        step: the one whose checkpoint is wanted; None for the last.

    Raises:
        ValueError: no checkpoint of the step is kept.
    """
    job = pretrain(scheme, network, variant)
    name, path = f"{variant.label} {network.name}", ""
    if step is not None:
        if not variant.keeps_checkpoints or step % scheme.keep_every:
            raise ValueError(
                f"The run must keep the checkpoint of step {step}; it keeps "
                f"one every {scheme.keep_every} steps, if at all."
            )
        name, path = f"{name} step {step}", f"model.ckpt-{step}"
    return recipes.Model(
        name=name,
        config=read_config(network.config_file),
        config_file=network.config_file,
        vocab_file=scheme.text.vocab_file,
        checkpoint=jobs.Output(job=job, path=path),
        is_causal=variant.objective == LTR,
    )


def pretrained_as_usual(
    scheme: Scheme, network: Network, base: Network
) -> recipes.Model:
    """Describes a network pre-trained as BERT is; `base` keeps checkpoints."""
    variant = PRIME if network == base else Variant()
    return pretrained(scheme, network, variant)


def _phase(scheme: Scheme, phase: Phase, variant: Variant) -> jobs.Phase:
    return jobs.Phase(
        pairs=(
            ("steps", phase.num_steps),
            ("input_file", _records(scheme, phase, variant)),
            ("max_seq_length", phase.shape.max_seq_length),
            ("max_predictions_per_seq", phase.shape.max_predictions_per_seq),
            ("train_batch_size", phase.batch_size),
        )
    )


def _records(scheme: Scheme, phase: Phase, variant: Variant) -> jobs.Output:
    """Makes records to train on: each file a shard, on all cores."""
    text = scheme.text
    flags: recipes.Flags = (
        ("input_file", text.train),
        ("shard_by_file", True),
        ("dupe_factor", phase.dupe_factor),
    )
    num_bytes = phase.dupe_factor * text.train_bytes
    return _create(scheme, phase, variant, flags, "", num_bytes)


def _held_out(scheme: Scheme, phase: Phase, variant: Variant) -> jobs.Output:
    """Makes records of the held-out text, with one masking."""
    text = scheme.text
    flags: recipes.Flags = (("input_file", text.held_out), ("dupe_factor", 1))
    num_bytes = text.held_out_bytes
    return _create(scheme, phase, variant, flags, " held-out", num_bytes)


def _create(
    scheme: Scheme,
    phase: Phase,
    variant: Variant,
    flags: recipes.Flags,
    label: str,
    num_bytes: float,
) -> jobs.Output:
    machine, shape = scheme.bench.machine, phase.shape
    masking = ",".join(map(str, variant.masking))
    job = jobs.Job(
        name=f"records {shape.max_seq_length} {masking}{label}",
        program="create_pretraining_data.py",
        flags=(
            *flags,
            ("output_file", jobs.Output(path=_RECORDS)),
            ("vocab_file", scheme.text.vocab_file),
            ("max_seq_length", shape.max_seq_length),
            ("max_predictions_per_seq", shape.max_predictions_per_seq),
            ("masking", masking),
        ),
        seconds=machine.start_seconds
        + num_bytes / machine.text_bytes_per_second,
    )
    # The records of several shards have their numbers in their names.
    return jobs.Output(job=job, path=_EVERY_RECORD)
