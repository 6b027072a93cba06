"""Fine-tuning as jobs of the scripts `run_*.py`."""

import dataclasses

from modeling import config as config_lib
from paper import costs, jobs

CLASSIFIER, SQUAD, CHOICES, TAGGER = (
    *("run_classifier.py", "run_squad.py", "run_swag.py", "run_ner.py"),
)
_FIRST_SEED = 12345  # Source: the default of every script.

Flags = tuple[tuple[str, jobs.Value], ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bench:
    """Options that all commands of an experiment share.

    Attributes:
        machine: for which costs are estimated.
        more_flags: passed to every script that trains.
        bucket_by_length: whether fine-tuning pads each batch to its longest.
        scoring_batch_size: of evaluation and prediction, which it does not
            change; the release's 8 is slow.
    """

    machine: costs.Machine
    more_flags: Flags = ()
    bucket_by_length: bool = False
    scoring_batch_size: int = 32

    def padded(self, length: float, max_seq_length: int) -> float:
        """Estimates the length in batches of sequences of a mean length."""
        # Batches of like length still hold some padding.
        longest = 1.1 * length if self.bucket_by_length else max_seq_length
        return min(longest, max_seq_length)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """A pre-trained model to start from.

    Attributes:
        name: for people.
        config: the sizes of the network.
        config_file: the same.
        vocab_file: its vocabulary.
        checkpoint: its weights.
        do_lower_case: how it reads text.
        is_causal: whether it was trained from left to right, and stays so.
    """

    name: str
    config: config_lib.BertConfig
    config_file: jobs.Path
    vocab_file: jobs.Path
    checkpoint: jobs.Path
    do_lower_case: bool = True
    is_causal: bool = False

    def flags(self) -> Flags:
        """Lists the flags that name the model."""
        return (
            ("bert_config_file", self.config_file),
            ("vocab_file", self.vocab_file),
            ("init_checkpoint", self.checkpoint),
            ("do_lower_case", "true" if self.do_lower_case else "false"),
            *((("attention", "causal"),) if self.is_causal else ()),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tuning:
    """The hyperparameters of fine-tuning.

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

    def flags(self) -> Flags:
        """Lists the flags, but those of the grid."""
        return (
            ("max_seq_length", self.max_seq_length),
            ("train_batch_size", self.batch_size),
            ("num_train_epochs", self.num_epochs),
            *((("bilstm_head", True),) if self.bilstm_head else ()),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataSet:
    """The data of a task, as far as commands and costs go.

    Attributes:
        name: the task; `--task_name` of GLUE's.
        program: the script that learns it.
        path: its folder, or its file to train on.
        dev_path: its file to evaluate on, where that is another path.
        num_train: examples.
        num_dev: examples.
        length: mean number of word pieces.
        num_sequences: of an example.
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
    bench: Bench,
    model: Model,
    data: DataSet,
    tuning: Tuning,
    more_flags: Flags = (),
) -> tuple[jobs.Job, ...]:
    """Makes the jobs that fine-tune a model on a task and evaluate it.

    Args:
        bench: options that commands share.
        model: to start from.
        data: of the task.
        tuning: of the model. Questions have a job for each seed, with the first
            rate; other tasks have one job for the whole grid.
        more_flags: of the task.
    """
    scoring: Flags = (("predict_batch_size", bench.scoring_batch_size),)
    if bench.bucket_by_length:
        scoring += (("bucket_by_length", True),)
    scoring += bench.more_flags
    num_runs = len(tuning.learning_rates) * tuning.num_trials
    name = f"{data.name} {model.name}{' bilstm' if tuning.bilstm_head else ''}"
    if data.program == SQUAD:
        return tuple(
            jobs.Job(
                name=f"{name} seed {number + 1}",
                program=SQUAD,
                flags=(
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
                    *scoring,
                ),
                seconds=_seconds(bench, model, data, tuning),
            )
            for number in range(tuning.num_trials)
        )
    is_named = data.program == CLASSIFIER
    # The scripts' order: actions, then hyperparameters, then the task's own.
    actions = more_flags if is_named else ()
    flags = (
        *((("task_name", data.name),) if is_named else ()),
        ("data_dir", data.path),
        ("output_dir", jobs.Output()),
        *model.flags(),
        ("do_train", True),
        ("do_eval", True),
        *actions,
        *tuning.flags(),
        ("learning_rates", tuple(map(str, tuning.learning_rates))),
        ("num_trials", tuning.num_trials),
        *(() if is_named else more_flags),
        ("eval_batch_size", bench.scoring_batch_size),
        *scoring,
    )
    features = dict(more_flags).get("features")
    job = jobs.Job(
        name=f"{name} {features}" if features else name,
        program=data.program,
        flags=flags,
        seconds=num_runs
        * data.num_sequences
        * _seconds(bench, model, data, tuning),
    )
    return (job,)


def _seconds(
    bench: Bench, model: Model, data: DataSet, tuning: Tuning
) -> float:
    """Estimates one run."""
    return costs.fine_tuning_seconds(
        bench.machine,
        model.config,
        num_trained=data.num_train * tuning.num_epochs,
        num_scored=data.num_dev,
        length=bench.padded(data.length, tuning.max_seq_length),
    )


def ensemble(
    model: Model,
    data: DataSet,
    members: tuple[jobs.Job, ...],
    more_flags: Flags = (),
) -> jobs.Job:
    """Combines the answers of several fine-tuned models.

    Args:
        model: that they started from.
        data: whose questions they answered.
        members: their jobs.
        more_flags: with which the questions were read.
    """
    return jobs.Job(
        name=f"{members[0].name} and {len(members) - 1} others",
        program=SQUAD,
        flags=(
            ("output_dir", jobs.Output()),
            ("bert_config_file", model.config_file),
            ("vocab_file", model.vocab_file),
            ("do_predict", True),
            ("do_eval", True),
            ("predict_file", data.dev_path),
            *more_flags,
            (
                "ensemble",
                tuple(
                    jobs.Output(job=member, path="nbest_predictions.json")
                    for member in members
                ),
            ),
        ),
        seconds=costs.GPU.start_seconds,
    )
