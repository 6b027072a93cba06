"""Pre-training as jobs: from raw text to a model, in phases of a length."""

import dataclasses

from paper import costs, jobs, recipes

MLM_NSP, MLM, LTR = "mlm_nsp", "mlm", "ltr"
_RECORDS, _EVERY_RECORD = "records.tfrecord", "records*.tfrecord"
# Source: the paper, appendix A.1: 80 % [MASK], 10 % the same, 10 % random.
_MASKING = (80, 10, 10)


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
        length: T.
        num_predictions: P.
        batch_size: sequences.
        num_steps: steps.
        dupe_factor: maskings of each text.
    """

    length: int
    num_predictions: int
    batch_size: int
    num_steps: int
    dupe_factor: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network:
    """A network to pre-train.

    Attributes:
        name: "L-2 H-128" and the like.
        config_file: its sizes.
        size: the same, for costs.
    """

    name: str
    config_file: jobs.Path
    size: costs.Size


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scheme:
    """How models are pre-trained: text and phases, the same for all.

    Attributes:
        bench: what commands share.
        text: to train on.
        phases: in order, under one schedule of the rate.
        learning_rate: the peak.
        num_warmup_steps: steps.
        keep_every: steps between the checkpoints that stay, for models that
            are looked at on the way.
    """

    bench: recipes.Bench
    text: Text
    phases: tuple[Phase, ...]
    learning_rate: float
    num_warmup_steps: int
    keep_every: int

    @property
    def num_steps(self) -> int:
        """Of all phases."""
        return sum(phase.num_steps for phase in self.phases)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variant:
    """What is learnt, and from which records.

    Attributes:
        objective: of run_pretraining.py.
        masking: per cent that become [MASK], stay, become a random word.
        keeps_checkpoints: whether it is looked at on the way.
    """

    objective: str = MLM_NSP
    masking: tuple[int, int, int] = _MASKING
    keeps_checkpoints: bool = False

    @property
    def label(self) -> str:
        """What the names of jobs begin with."""
        if self.masking == _MASKING:
            return self.objective
        return f"{self.objective} {'-'.join(map(str, self.masking))}"


def pretrain(scheme: Scheme, network: Network, variant: Variant) -> jobs.Job:
    """Makes the job of a model, with all it needs."""
    last = scheme.phases[-1]
    flags = (
        ("phases", tuple(_phase(scheme, p, variant) for p in scheme.phases)),
        ("eval_input_file", _held_out(scheme, last, variant)),
        ("output_dir", jobs.Output()),
        ("bert_config_file", network.config_file),
        ("do_train", True),
        ("do_eval", True),
        ("max_eval_steps", 0),
        ("eval_batch_size", scheme.bench.scoring_batch_size),
        ("objective", variant.objective),
        ("learning_rate", scheme.learning_rate),
        ("num_train_steps", scheme.num_steps),
        ("num_warmup_steps", scheme.num_warmup_steps),
        *(
            (("keep_checkpoint_every_n_steps", scheme.keep_every),)
            if variant.keeps_checkpoints
            else ()
        ),
        *scheme.bench.more_flags,
    )
    return jobs.Job(
        name=f"pretrain {variant.label} {network.name}",
        program="run_pretraining.py",
        flags=flags,
        seconds=sum(
            costs.pretraining_seconds(
                scheme.bench.machine,
                network.size,
                num_sequences=phase.num_steps * phase.batch_size,
                length=phase.length,
                # A left-to-right model predicts every token.
                num_predictions=phase.length - 1
                if variant.objective == LTR
                else phase.num_predictions,
            )
            for phase in scheme.phases
        ),
    )


def _phase(scheme: Scheme, phase: Phase, variant: Variant) -> jobs.Phase:
    return jobs.Phase(
        pairs=(
            ("steps", phase.num_steps),
            ("input_file", _records(scheme, phase, variant)),
            ("max_seq_length", phase.length),
            ("max_predictions_per_seq", phase.num_predictions),
            ("train_batch_size", phase.batch_size),
        )
    )


def model(
    scheme: Scheme, network: Network, variant: Variant, checkpoint: jobs.Path
) -> recipes.Model:
    """Describes a checkpoint of a pre-trained model."""
    return recipes.Model(
        name=f"{variant.label} {network.name}",
        size=network.size,
        config_file=network.config_file,
        vocab_file=scheme.text.vocab_file,
        checkpoint=checkpoint,
        is_causal=variant.objective == LTR,
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
        network: what is.
        variant: to do what.
        step: the one whose checkpoint is wanted; None for the last.

    Raises:
        ValueError: no checkpoint of the step stays.
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
        size=network.size,
        config_file=network.config_file,
        vocab_file=scheme.text.vocab_file,
        checkpoint=jobs.Output(job=job, path=path),
        is_causal=variant.objective == LTR,
    )


def _records(scheme: Scheme, phase: Phase, variant: Variant) -> jobs.Path:
    """Makes records to train on: each file a shard, on all cores."""
    text = scheme.text
    return _create(
        scheme,
        phase,
        variant,
        (
            ("input_file", text.train),
            ("shard_by_file", True),
            ("dupe_factor", phase.dupe_factor),
        ),
        ("", phase.dupe_factor * text.train_bytes),
    )


def _held_out(scheme: Scheme, phase: Phase, variant: Variant) -> jobs.Path:
    """Makes records of the held-out text, with one masking."""
    text = scheme.text
    return _create(
        scheme,
        phase,
        variant,
        (("input_file", text.held_out), ("dupe_factor", 1)),
        (" held-out", text.held_out_bytes),
    )


def _create(
    scheme: Scheme,
    phase: Phase,
    variant: Variant,
    flags: tuple[tuple[str, jobs.Value], ...],
    label_and_bytes: tuple[str, float],
) -> jobs.Output:
    machine = scheme.bench.machine
    label, num_bytes = label_and_bytes
    masking = ",".join(map(str, variant.masking))
    job = jobs.Job(
        name=f"records {phase.length} {masking}{label}",
        program="create_pretraining_data.py",
        flags=(
            *flags,
            ("output_file", jobs.Output(path=_RECORDS)),
            ("vocab_file", scheme.text.vocab_file),
            ("max_seq_length", phase.length),
            ("max_predictions_per_seq", phase.num_predictions),
            ("masking", masking),
        ),
        seconds=machine.start_seconds
        + num_bytes / machine.text_bytes_per_second,
    )
    # The records of several shards have their numbers in their names.
    return jobs.Output(job=job, path=_EVERY_RECORD)
