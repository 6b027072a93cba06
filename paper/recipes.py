"""Fine-tuning as jobs: one function for each script that fine-tunes."""

import dataclasses

from paper import costs, jobs

_FIRST_SEED = 12345  # Source: the default of every script.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bench:
    """What all commands of an experiment share.

    Attributes:
        machine: what costs are estimated for.
        more_flags: passed to every script that trains.
        bucket_by_length: whether fine-tuning pads each batch to its longest.
        scoring_batch_size: of evaluation and prediction, which it does not
            change; the release's 8 is slow.
    """

    machine: costs.Machine
    more_flags: tuple[tuple[str, jobs.Value], ...] = ()
    bucket_by_length: bool = False
    scoring_batch_size: int = 32

    def padded(self, length: float, max_seq_length: int) -> float:
        """Says how long sequences of a mean length are in batches."""
        # Batches of like length still hold some padding.
        longest = 1.1 * length if self.bucket_by_length else max_seq_length
        return min(longest, max_seq_length)

    def fine_tuning_flags(self) -> tuple[tuple[str, jobs.Value], ...]:
        """Lists what every script that fine-tunes is passed."""
        bucket = (("bucket_by_length", True),) if self.bucket_by_length else ()
        scoring = ("predict_batch_size", self.scoring_batch_size)
        return (scoring, *bucket, *self.more_flags)

    def labelled_flags(self) -> tuple[tuple[str, jobs.Value], ...]:
        """Lists what scripts are passed that also evaluate on labels."""
        scoring = ("eval_batch_size", self.scoring_batch_size)
        return (scoring, *self.fine_tuning_flags())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """A pre-trained model to start from.

    Attributes:
        name: for people.
        size: of the network.
        config_file: its sizes.
        vocab_file: its vocabulary.
        checkpoint: its weights.
        do_lower_case: how it reads text.
        is_causal: whether it was trained from left to right, and stays so.
    """

    name: str
    size: costs.Size
    config_file: jobs.Path
    vocab_file: jobs.Path
    checkpoint: jobs.Path
    do_lower_case: bool = True
    is_causal: bool = False

    def flags(self) -> tuple[tuple[str, jobs.Value], ...]:
        """Lists the flags that name the model."""
        named: list[tuple[str, jobs.Value]] = [
            ("bert_config_file", self.config_file),
            ("vocab_file", self.vocab_file),
            ("init_checkpoint", self.checkpoint),
            ("do_lower_case", "true" if self.do_lower_case else "false"),
        ]
        if self.is_causal:
            named.append(("attention", "causal"))
        return tuple(named)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tuning:
    """How a model is fine-tuned.

    Attributes:
        max_seq_length: T.
        batch_size: of training.
        num_epochs: of training.
        learning_rates: the grid; one where nothing is chosen.
        num_trials: seeds for each rate.
        bilstm_head: whether a BiLSTM stands between encoder and output layer.
    """

    max_seq_length: int
    batch_size: int
    num_epochs: float
    learning_rates: tuple[float, ...]
    num_trials: int = 1
    bilstm_head: bool = False

    def flags(self) -> tuple[tuple[str, jobs.Value], ...]:
        """Lists the flags, but those of the grid."""
        head = (("bilstm_head", True),) if self.bilstm_head else ()
        return (
            ("max_seq_length", self.max_seq_length),
            ("train_batch_size", self.batch_size),
            ("num_train_epochs", self.num_epochs),
            *head,
        )

    def grid_flags(self) -> tuple[tuple[str, jobs.Value], ...]:
        """Lists the flags of the grid, for scripts that have one."""
        rates = tuple(map(str, self.learning_rates))
        return (("learning_rates", rates), ("num_trials", self.num_trials))

    @property
    def num_runs(self) -> int:
        return len(self.learning_rates) * self.num_trials

    @property
    def label(self) -> str:
        """What the names of jobs end in."""
        return " bilstm" if self.bilstm_head else ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataSet:
    """What a task is learnt from, as far as commands and costs go.

    Attributes:
        name: the task; `--task_name` of GLUE's.
        path: its folder, or its file to train on.
        dev_path: its file to evaluate on, where that is another path.
        num_train: examples.
        num_dev: examples.
        length: mean number of word pieces.
    """

    name: str
    path: jobs.Path
    dev_path: jobs.Path | None = None
    num_train: int
    num_dev: int
    length: float


def classify(
    bench: Bench,
    model: Model,
    data: DataSet,
    tuning: Tuning,
    *,
    do_predict: bool = False,
) -> jobs.Job:
    """Fine-tunes on sentences or pairs; `do_predict` for GLUE's server."""
    flags = (
        ("task_name", data.name),
        ("data_dir", data.path),
        ("output_dir", jobs.Output()),
        *model.flags(),
        ("do_train", True),
        ("do_eval", True),
        *((("do_predict", True),) if do_predict else ()),
        *tuning.flags(),
        *tuning.grid_flags(),
        *bench.labelled_flags(),
    )
    return _job(bench, model, data, tuning, "run_classifier.py", flags)


def choose_endings(
    bench: Bench, model: Model, data: DataSet, tuning: Tuning
) -> jobs.Job:
    """Fine-tunes on sets of four endings."""
    flags = (
        ("data_dir", data.path),
        ("output_dir", jobs.Output()),
        *model.flags(),
        ("do_train", True),
        ("do_eval", True),
        *tuning.flags(),
        *tuning.grid_flags(),
        *bench.labelled_flags(),
    )
    job = _job(bench, model, data, tuning, "run_swag.py", flags)
    return dataclasses.replace(job, seconds=4 * job.seconds)


def tag(
    bench: Bench,
    model: Model,
    data: DataSet,
    tuning: Tuning,
    more_flags: tuple[tuple[str, jobs.Value], ...] = (),
) -> jobs.Job:
    """Fine-tunes on a tag per word, or trains on features of a frozen model.

    Args:
        bench: what commands share.
        model: to start from.
        data: a folder of column files.
        tuning: of the model.
        more_flags: such as `features`; also what is predicted.
    """
    flags = (
        ("data_dir", data.path),
        ("output_dir", jobs.Output()),
        *model.flags(),
        ("do_train", True),
        ("do_eval", True),
        *tuning.flags(),
        *tuning.grid_flags(),
        *more_flags,
        *bench.labelled_flags(),
    )
    job = _job(bench, model, data, tuning, "run_ner.py", flags)
    label = dict(more_flags).get("features")
    if not label:
        return job
    return dataclasses.replace(job, name=f"{job.name} {label}")


def answer(
    bench: Bench,
    model: Model,
    data: DataSet,
    tuning: Tuning,
    more_flags: tuple[tuple[str, jobs.Value], ...] = (),
) -> tuple[jobs.Job, ...]:
    """Fine-tunes on questions: a job for each seed, with the first rate.

    Args:
        bench: what commands share.
        model: to start from.
        data: files to train on and to evaluate on.
        tuning: of the model.
        more_flags: such as `version_2_with_negative`.
    """
    made = []
    for number in range(tuning.num_trials):
        flags = (
            ("output_dir", jobs.Output()),
            *model.flags(),
            ("do_train", True),
            ("train_file", data.path),
            ("do_predict", True),
            ("do_eval", True),
            ("predict_file", data.dev_path),
            *tuning.flags(),
            ("learning_rate", tuning.learning_rates[0]),
            ("random_seed", _FIRST_SEED + number),
            *more_flags,
            *bench.fine_tuning_flags(),
        )
        one = dataclasses.replace(
            tuning, num_trials=1, learning_rates=tuning.learning_rates[:1]
        )
        job = _job(bench, model, data, one, "run_squad.py", flags)
        name = f"{job.name} seed {number + 1}"
        made.append(dataclasses.replace(job, name=name))
    return tuple(made)


def _job(
    bench: Bench,
    model: Model,
    data: DataSet,
    tuning: Tuning,
    program: str,
    flags: tuple[tuple[str, jobs.Value], ...],
) -> jobs.Job:
    seconds = costs.fine_tuning_seconds(
        bench.machine,
        model.size,
        num_trained=data.num_train * tuning.num_epochs,
        num_scored=data.num_dev,
        length=bench.padded(data.length, tuning.max_seq_length),
    )
    return jobs.Job(
        name=f"{data.name} {model.name}{tuning.label}",
        program=program,
        flags=flags,
        seconds=seconds * tuning.num_runs,
    )
