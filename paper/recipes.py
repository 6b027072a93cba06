"""Models, tasks and scales, and the commands that train them."""

import dataclasses
from collections.abc import Mapping

from paper import running

CLASSIFIER, SQUAD = "run_classifier.py", "run_squad.py"
SWAG, NER = "run_swag.py", "run_ner.py"
MLM_NSP, MLM, LTR = "mlm_nsp", "mlm", "ltr"
MASKING = "80,10,10"  # Source: the paper, appendix A.1.
BASE, LARGE = SIZES = ("base", "large")
_FIRST_SEED = 12345  # Source: the default of every script.
# Some megabytes of Wikipedia, a gigabyte of books.
_SHARD_DOCUMENTS = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """A pre-trained model for fine-tuning.

    Attributes:
        name: for display.
        config_file: its configuration.
        vocab_file: its vocabulary.
        checkpoint: its weights.
        do_lower_case: whether it reads lower-cased text.
        is_causal: whether its attention is left-to-right, also in fine-tuning.
    """

    name: str
    config_file: running.Path
    vocab_file: running.Path
    checkpoint: running.Path
    do_lower_case: bool = True
    is_causal: bool = False

    def flags(self) -> running.Flags:
        """Returns the flags that name the model."""
        return {
            "bert_config_file": self.config_file,
            "vocab_file": self.vocab_file,
            "init_checkpoint": self.checkpoint,
            "do_lower_case": "true" if self.do_lower_case else "false",
            **({"attention": "causal"} if self.is_causal else {}),
        }


def released(name: str) -> Model:
    """Returns a model of the release in the data folder."""
    return Model(
        name=name,
        config_file=running.Data(f"{name}/bert_config.json"),
        vocab_file=running.Data(f"{name}/vocab.txt"),
        checkpoint=running.Data(f"{name}/bert_model.ckpt"),
        do_lower_case=name.startswith("uncased"),
    )


@dataclasses.dataclass(frozen=True)
class Tuning:
    """The hyperparameters of fine-tuning.

    Attributes:
        max_seq_length: T.
        batch_size: of training.
        num_epochs: of training.
        learning_rates: the grid; question answering uses the first.
        num_trials: seeds for each rate.
        flags: others of the script.
    """

    max_seq_length: int
    batch_size: int
    num_epochs: float
    learning_rates: tuple[float, ...]
    num_trials: int = 1
    flags: running.Flags = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """A data set, its script and the hyperparameters.

    Attributes:
        name: for GLUE its `--task_name`.
        program: its script.
        path: its folder or training file.
        dev_path: the dev file of question answering.
        tuning: the hyperparameters.
    """

    name: str
    program: str = CLASSIFIER
    path: running.Path
    dev_path: running.Path = ""
    tuning: Tuning

    def but(
        self, flags: running.Flags, num_trials: int | None = None
    ) -> "Task":
        """Returns the task with more flags and another number of seeds."""
        tuning = dataclasses.replace(
            self.tuning,
            flags={**self.tuning.flags, **flags},
            num_trials=num_trials or self.tuning.num_trials,
        )
        return dataclasses.replace(self, tuning=tuning)


@dataclasses.dataclass(frozen=True)
class Phase:
    """Steps of pre-training at one length, on records of it."""

    max_seq_length: int
    max_predictions_per_seq: int
    batch_size: int
    num_steps: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scale:
    """Models, data and hyperparameters of all tables.

    Attributes:
        is_full: whether models are the release's and numbers the paper's.
        texts: the commands that make the text of pre-training, each with files
            `text-*.txt` and `held_out.txt`.
        vocab_file: of models that are pre-trained for a table.
        networks: configuration files by name, smallest first.
        sizes: the names of the models in place of BASE and LARGE.
        phases: of pre-training, in order, under one schedule of the rate.
        dupe_factor: maskings of each text.
        learning_rate: the peak of pre-training.
        num_warmup_steps: of pre-training.
        keep_every: steps between checkpoints that stay, for Figure 5.
        figure_steps: the steps of the points of Figure 5.
        tuning: the hyperparameters of fine-tuning, by kind of task.
        num_restarts: seeds of Table 6, and of LARGE in Table 1.
        num_members: of an ensemble in Table 2.
        scoring_batch_size: of evaluation and prediction, whose results it does
            not change; the release's 8 is slow.
        training_flags: of every script that trains.
    """

    is_full: bool
    texts: tuple[running.Command, ...]
    vocab_file: running.Path
    networks: Mapping[str, str]
    sizes: Mapping[str, str]
    phases: tuple[Phase, ...]
    dupe_factor: int
    learning_rate: float
    num_warmup_steps: int
    keep_every: int
    figure_steps: tuple[int, ...]
    tuning: Mapping[str, Tuning]
    num_restarts: int
    num_members: int
    scoring_batch_size: int
    training_flags: running.Flags = dataclasses.field(default_factory=dict)

    def model(self, size: str, casing: str = "uncased") -> Model:
        """Returns the model in place of BASE or LARGE."""
        name = self.sizes[size]
        if self.is_full:
            return released(f"{casing}_{name.replace(' ', '_')}")
        return pretrained(self, name)

    def glue(self, name: str) -> Task:
        """Returns a task of GLUE."""
        return Task(
            name=name,
            path=running.Data(f"glue/{name}"),
            tuning=self.tuning["glue"],
        )

    def squad(self, version: str) -> Task:
        """Returns SQuAD "1.1" or "2.0"."""
        return Task(
            name=f"SQuAD-{version}",
            program=SQUAD,
            path=running.Data(f"squad/train-v{version}.json"),
            dev_path=running.Data(f"squad/dev-v{version}.json"),
            tuning=self.tuning[f"squad-{version}"],
        )

    def after_triviaqa(self, model: Model) -> Model:
        """Returns a model that is fine-tuned on TriviaQA's Wikipedia part."""
        converted = running.Command(
            name="TriviaQA as SQuAD",
            program="tools.convert_triviaqa",
            flags={
                "input_file": running.Data("triviaqa/qa/wikipedia-train.json"),
                "evidence_dir": running.Data("triviaqa/evidence/wikipedia"),
                "output_file": running.Output("train.json"),
            },
        )
        task = dataclasses.replace(
            self.squad("1.1"),
            name="TriviaQA",
            path=running.Output("train.json", converted),
        )
        (command,) = fine_tune(self, model, task)
        return dataclasses.replace(
            model,
            name=f"TriviaQA {model.name}",
            checkpoint=running.Output("", command),
        )

    def swag(self) -> Task:
        """Returns SWAG."""
        return Task(
            name="SWAG",
            program=SWAG,
            path=running.Data("swag"),
            tuning=self.tuning["swag"],
        )

    def ner(self, features: str | None = None) -> Task:
        """Returns CoNLL-2003, fine-tuned or with BERT's `features`."""
        task = Task(
            name="CoNLL-2003",
            program=NER,
            path=running.Data("conll2003"),
            tuning=self.tuning["ner-features" if features else "ner"],
        )
        return task.but({"features": features}) if features else task


def fine_tune(
    scale: Scale, model: Model, task: Task
) -> tuple[running.Command, ...]:
    """Returns the commands that fine-tune a model on a task and evaluate it.

    Question answering has a command for each seed, other tasks one for all.
    """
    tuning = task.tuning
    is_on_features = "features" in tuning.flags
    words = [task.name, model.name]
    if "bilstm_head" in tuning.flags:
        words.append("bilstm")
    common: running.Flags = {
        "output_dir": running.Output(),
        **model.flags(),
        "do_train": True,
        "do_eval": True,
        "max_seq_length": tuning.max_seq_length,
        "train_batch_size": tuning.batch_size,
        "num_train_epochs": tuning.num_epochs,
        **tuning.flags,
        "predict_batch_size": scale.scoring_batch_size,
        **scale.training_flags,
    }
    if task.program == SQUAD:
        return tuple(
            running.Command(
                name=" ".join([*words, f"seed {number + 1}"]),
                program=SQUAD,
                flags={
                    **common,
                    "do_predict": True,
                    "train_file": task.path,
                    "predict_file": task.dev_path,
                    "learning_rate": tuning.learning_rates[0],
                    "random_seed": _FIRST_SEED + number,
                },
            )
            for number in range(tuning.num_trials)
        )
    if is_on_features:
        words.append(str(tuning.flags["features"]))
    named = {"task_name": task.name} if task.program == CLASSIFIER else {}
    command = running.Command(
        name=" ".join(words),
        program=task.program,
        flags={
            **named,
            "data_dir": task.path,
            **common,
            "learning_rates": tuple(map(str, tuning.learning_rates)),
            "num_trials": tuning.num_trials,
            "eval_batch_size": scale.scoring_batch_size,
        },
    )
    return (command,)


def ensemble(
    model: Model, task: Task, members: tuple[running.Command, ...]
) -> running.Command:
    """Returns the command that combines the answers of fine-tuned models."""
    return running.Command(
        name=f"{members[0].name} and {len(members) - 1} others",
        program=SQUAD,
        flags={
            "output_dir": running.Output(),
            "bert_config_file": model.config_file,
            "vocab_file": model.vocab_file,
            "do_predict": True,
            "do_eval": True,
            "predict_file": task.dev_path,
            **task.tuning.flags,
            "ensemble": tuple(
                running.Output("nbest_predictions.json", member)
                for member in members
            ),
        },
    )


def pretrain(
    scale: Scale, network: str, objective: str = MLM_NSP, masking: str = MASKING
) -> running.Command:
    """Returns the last of the commands that pre-train a network.

    Each phase is a command in the folder of the one before.
    """
    name = " ".join(
        [objective, *([masking] if masking != MASKING else []), network]
    )
    last = len(scale.phases) - 1
    num_steps = sum(phase.num_steps for phase in scale.phases)
    # Figure 5 needs their checkpoints.
    is_of_figure = (
        network == scale.sizes[BASE]
        and objective in (MLM_NSP, LTR)
        and masking == MASKING
    )
    end, command = 0, None
    for number, phase in enumerate(scale.phases):
        end += phase.num_steps
        flags: dict[str, running.Value] = {
            "input_file": _records(scale, phase, masking),
            "output_dir": running.Output(),
            "bert_config_file": scale.networks[network],
            "do_train": True,
            "max_seq_length": phase.max_seq_length,
            "max_predictions_per_seq": phase.max_predictions_per_seq,
            "train_batch_size": phase.batch_size,
            "objective": objective,
            "learning_rate": scale.learning_rate,
            "num_train_steps": num_steps,
            "num_warmup_steps": scale.num_warmup_steps,
        }
        if number < last:
            flags["stop_at_step"] = end
        else:
            flags |= {
                "do_eval": True,
                "eval_input_file": _records(
                    scale, phase, masking, is_held_out=True
                ),
                "max_eval_steps": 0,
                "eval_batch_size": scale.scoring_batch_size,
            }
        if is_of_figure:
            flags["keep_checkpoint_every_n_steps"] = scale.keep_every
        flags |= scale.training_flags
        command = running.Command(
            name=f"pretrain {name} to step {end}",
            program="run_pretraining.py",
            flags=flags,
            resumes=command,
        )
    assert command is not None  # A scale has one or more phases.
    return command


def _records(
    scale: Scale, phase: Phase, masking: str, *, is_held_out: bool = False
) -> running.Output:
    """Returns the files of records of a phase, and thereby their command."""
    file = "held_out.txt" if is_held_out else "text-*.txt"
    command = running.Command(
        name=f"records {phase.max_seq_length} {masking}"
        + (" held-out" if is_held_out else ""),
        program="create_pretraining_data.py",
        flags={
            "input_file": tuple(running.Output(file, t) for t in scale.texts),
            "output_file": running.Output("records.tfrecord"),
            "vocab_file": scale.vocab_file,
            "max_seq_length": phase.max_seq_length,
            "max_predictions_per_seq": phase.max_predictions_per_seq,
            "masking": masking,
            "dupe_factor": 1 if is_held_out else scale.dupe_factor,
            **({} if is_held_out else {"shard_documents": _SHARD_DOCUMENTS}),
        },
    )
    # The names of shards have a number.
    return running.Output("records*.tfrecord", command)


def pretrained(
    scale: Scale,
    network: str,
    objective: str = MLM_NSP,
    masking: str = MASKING,
    *,
    step: int | None = None,
) -> Model:
    """Returns a model that is pre-trained, at its last or an earlier step."""
    command = pretrain(scale, network, objective, masking)
    name = command.name.removeprefix("pretrain ").partition(" to step")[0]
    return Model(
        name=name if step is None else f"{name} step {step}",
        config_file=scale.networks[network],
        vocab_file=scale.vocab_file,
        checkpoint=running.Output(
            "" if step is None else f"model.ckpt-{step}", command
        ),
        is_causal=objective == LTR,
    )
