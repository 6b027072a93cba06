"""Models and tasks, and the commands that train them."""

import dataclasses
import itertools
from collections.abc import Sequence

from paper import running, scales

MLM_NSP, MLM, LTR = "mlm_nsp", "mlm", "ltr"
MASKING = "80,10,10"  # Source: the paper, appendix A.1.
_SQUAD = "run_squad.py"
_BLIMP = "paper.blimp"
# Source: the layout of MultiBERTs, as tools.download writes it.
NUM_MULTIBERTS, NUM_MULTIBERTS_WITH_STEPS = 25, 5
_FIRST_SEED = 12345  # Source: the default of every script.
# Some megabytes of Wikipedia, a gigabyte of books.
_SHARD_DOCUMENTS = 1000


@dataclasses.dataclass(frozen=True)
class Model:
    """A pre-trained model for fine-tuning.

    Attributes:
        name: for display.
        flags: those that name its files, and say how it reads them.
        commands: that pre-train it, the last one; none if it is released.
    """

    name: str
    flags: running.Flags
    commands: tuple[running.Command, ...] = ()


@dataclasses.dataclass(frozen=True)
class Task:
    """A data set to fine-tune on.

    Attributes:
        name: for display.
        program: its script.
        flags: its data and the hyperparameters.
        num_seeds: commands of question answering; others have `num_trials`.
    """

    name: str
    program: str
    flags: running.Flags
    num_seeds: int = 1


class Plan:
    """The commands of a table at a scale, each after those that it reads.

    Args:
        scale: models, data and hyperparameters.
        sizes: of the models that are compared: BASE, LARGE or both.

    Attributes:
        commands: those that were added.
    """

    def __init__(
        self, scale: scales.Scale, sizes: Sequence[str] = scales.SIZES
    ):
        self.scale = scale
        self.sizes = sizes
        self.commands: list[running.Command] = []

    def add(
        self,
        name: str,
        program: str,
        folder: str = "",
        /,
        **flags: running.Value,
    ) -> running.Command:
        """Adds a command, unless it is there already.

        Args:
            name: for display.
            program: `run_classifier.py`, or `tools.learn_vocab` for a module.
            folder: of commands that share their output.
            **flags: in the order of the command line.
        """
        words = running.words_of(program, flags)
        folder = folder or running.folder_of(name, words)
        command = running.Command(name, words, folder)
        if command not in self.commands:
            self.commands.append(command)
        return command

    # ----------------------------------------------------------------- Tasks

    def glue(self, name: str, **flags: running.Value) -> Task:
        """Returns a task of GLUE."""
        data = {"task_name": name, "data_dir": f"{running.DATA}/glue/{name}"}
        flags = {**data, **self.scale.tuning["glue"], **flags}
        return Task(name, "run_classifier.py", flags)

    def squad(
        self, version: str, num_seeds: int | None = None, **flags: running.Value
    ) -> Task:
        """Returns SQuAD "1.1" or "2.0"."""
        folder, name = f"{running.DATA}/squad", f"squad-{version}"
        data = {
            "train_file": f"{folder}/train-v{version}.json",
            "predict_file": f"{folder}/dev-v{version}.json",
        }
        flags = {**data, **self.scale.tuning[name], **flags}
        num_seeds = num_seeds or self.scale.num_seeds
        return Task(f"SQuAD-{version}", _SQUAD, flags, num_seeds)

    def swag(self) -> Task:
        """Returns SWAG."""
        data = {"data_dir": f"{running.DATA}/swag"}
        return Task(
            "SWAG", "run_swag.py", {**data, **self.scale.tuning["swag"]}
        )

    def ner(self, **flags: running.Value) -> Task:
        """Returns CoNLL-2003, fine-tuned or with BERT's `features`."""
        data = {"data_dir": f"{running.DATA}/conll2003"}
        tuning = "ner-features" if "features" in flags else "ner"
        flags = {**data, **self.scale.tuning[tuning], **flags}
        return Task("CoNLL-2003", "run_ner.py", flags)

    def blimp(self) -> Task:
        """Returns BLiMP, which pre-trained models answer as they are."""
        return Task("BLiMP", _BLIMP, {"data_dir": f"{running.DATA}/blimp"})

    # ----------------------------------------------------------- Fine-tuning

    def fine_tune(
        self, model: Model, task: Task
    ) -> tuple[running.Command, ...]:
        """Adds the commands that fine-tune a model on a task and evaluate it.

        Question answering has a command for each seed, other tasks one for all.
        On BLiMP a model is only evaluated.
        """
        scale = self.scale
        flags: dict[str, running.Value]
        if task.program == _BLIMP:
            flags = {"model": model.flags["init_checkpoint"], **task.flags}
            name = f"{task.name} {model.name}"
            out = {"output_dir": running.OUT}
            return (self.add(name, _BLIMP, **flags, **out),)
        words = [task.name, model.name, str(task.flags.get("features", ""))]
        if "bilstm_head" in task.flags:
            words.append("bilstm")
        name = " ".join(filter(None, words))
        flags = {
            "output_dir": running.OUT,
            **model.flags,
            "do_train": True,
            "do_eval": True,
            **task.flags,
            "predict_batch_size": scale.scoring_batch_size,
            **scale.training_flags,
        }
        if task.program != _SQUAD:
            flags["eval_batch_size"] = scale.scoring_batch_size
            return (self.add(name, task.program, **flags),)
        flags["do_predict"] = True
        return tuple(
            self.add(
                f"{name} seed {number + 1}",
                task.program,
                **{**flags, "random_seed": _FIRST_SEED + number},
            )
            for number in range(task.num_seeds)
        )

    def ensemble(
        self, task: Task, members: Sequence[running.Command]
    ) -> running.Command:
        """Adds the command that combines the answers of fine-tuned models."""
        return self.add(
            f"{members[0].name} and {len(members) - 1} others",
            "tools.evaluate_squad",
            output_dir=running.OUT,
            predict_file=task.flags["predict_file"],
            ensemble=tuple(
                f"{member.output}/nbest_predictions.json" for member in members
            ),
        )

    # ---------------------------------------------------------------- Models

    def models(self, casing: str = "uncased") -> dict[str, Model]:
        """Returns the models of the sizes that are compared, by size."""
        networks = {size: self.scale.sizes[size] for size in self.sizes}
        if not self.scale.is_full:
            return {
                s: self.pretrained(network) for s, network in networks.items()
            }
        models = {}
        for size, network in networks.items():
            name = f"{casing}_{network.replace(' ', '_')}"
            flags = _flags_of_folder(name, "bert_model.ckpt", casing)
            models[size] = Model(name, flags)
        return models

    def after_triviaqa(self, model: Model) -> Model:
        """Returns a model that is fine-tuned on TriviaQA's Wikipedia part."""
        converted = self.add(
            "TriviaQA as SQuAD",
            "tools.convert_triviaqa",
            input_file=f"{running.DATA}/triviaqa/qa/wikipedia-train.json",
            evidence_dir=f"{running.DATA}/triviaqa/evidence/wikipedia",
            output_file=f"{running.OUT}/train.json",
        )
        squad = self.squad("1.1", train_file=f"{converted.output}/train.json")
        task = dataclasses.replace(squad, name="TriviaQA")
        (command,) = self.fine_tune(model, task)
        flags = {**model.flags, "init_checkpoint": command.output}
        return Model(f"TriviaQA {model.name}", flags)

    def pretrained(
        self,
        network: str,
        objective: str = MLM_NSP,
        masking: str = MASKING,
        *,
        step: int = 0,
    ) -> Model:
        """Returns a model that is pre-trained, at its last or a given step.

        Each phase is a command, and they share their output.
        """
        masked = "" if masking == MASKING else f"{masking} "
        name = f"{objective} {masked}{network}"
        program = "run_pretraining.py"
        phases = self._phases(network, objective, masking)
        words = [running.words_of(program, flags) for flags in phases.values()]
        folder = running.folder_of(f"pretrain {name}", *words)
        *_, command = [
            self.add(f"pretrain {name} to step {end}", program, folder, **flags)
            for end, flags in phases.items()
        ]
        flags = {
            "bert_config_file": self.scale.networks[network],
            "vocab_file": self.vocab_file(),
            "init_checkpoint": command.output,
            "do_lower_case": "true",
        }
        if objective == LTR:
            flags["attention"] = "causal"
        if step:
            name += f" step {step}"
            flags["init_checkpoint"] += f"/model.ckpt-{step}"
        return Model(name, flags, (command,))

    def multiberts(self, seed: int, step: int = 0) -> Model:
        """Returns a BERT-Base of MultiBERTs, at its last or a given step.

        They differ in the seed of their pre-training (Sellam et al. 2021).
        """
        name = f"multiberts_{seed}"
        if step:
            name += f"_step_{step // 1000}k"
        return Model(name, _flags_of_folder(name, "bert.ckpt", "uncased"))

    # ---------------------------------------------------------- Pre-training

    def _phases(
        self, network: str, objective: str, masking: str
    ) -> dict[int, running.Flags]:
        """Returns the flags of each phase of pre-training by its last step."""
        scale = self.scale
        ends = list(itertools.accumulate(p.num_steps for p in scale.phases))
        flags_by_end: dict[int, running.Flags] = {}
        for phase, end in zip(scale.phases, ends, strict=True):
            flags: dict[str, running.Value] = {
                "input_file": self.records(phase, masking),
                "output_dir": running.OUT,
                "bert_config_file": scale.networks[network],
                "do_train": True,
                "max_seq_length": phase.max_seq_length,
                "max_predictions_per_seq": phase.max_predictions_per_seq,
                "train_batch_size": phase.batch_size,
                "objective": objective,
                "learning_rate": scale.learning_rate,
                "num_train_steps": ends[-1],
                "num_warmup_steps": scale.num_warmup_steps,
            }
            if end < ends[-1]:
                flags["stop_at_step"] = end
            else:
                held_out = self.records(phase, masking, is_held_out=True)
                flags |= {
                    "do_eval": True,
                    "eval_input_file": held_out,
                    "max_eval_steps": 0,
                    "eval_batch_size": scale.scoring_batch_size,
                }
            if (
                network == scale.sizes[scales.BASE]
                and objective in (MLM_NSP, LTR)
                and masking == MASKING
            ):
                # Figure 5 needs their checkpoints.
                flags["keep_checkpoint_every_n_steps"] = scale.keep_every
            flags_by_end[end] = {**flags, **scale.training_flags}
        return flags_by_end

    def records(
        self, phase: scales.Phase, masking: str, *, is_held_out: bool = False
    ) -> str:
        """Returns the files of records of a phase."""
        name = f"records {phase.max_seq_length} {masking}"
        texts, more = "text-*.txt", {"shard_documents": _SHARD_DOCUMENTS}
        dupe_factor = self.scale.dupe_factor
        if is_held_out:
            name += " held-out"
            texts, more, dupe_factor = "held_out.txt", {}, 1
        command = self.add(
            name,
            "create_pretraining_data.py",
            input_file=self.texts(texts),
            output_file=f"{running.OUT}/records.tfrecord",
            vocab_file=self.vocab_file(),
            max_seq_length=phase.max_seq_length,
            max_predictions_per_seq=phase.max_predictions_per_seq,
            masking=masking,
            dupe_factor=dupe_factor,
            **more,
        )
        # The names of shards have a number.
        return f"{command.output}/records*.tfrecord"

    def texts(self, files: str) -> tuple[str, ...]:
        """Returns the text of pre-training: `text-*.txt` or `held_out.txt`."""
        commands = [
            self.add(
                f"text {name}",
                "tools.prepare_corpus",
                **flags,
                output_file=f"{running.OUT}/text-%05d.txt",
                holdout_file=f"{running.OUT}/held_out.txt",
            )
            for name, flags in self.scale.texts.items()
        ]
        return tuple(f"{command.output}/{files}" for command in commands)

    def vocab_file(self) -> str:
        """Returns the vocabulary of models that are pre-trained for a table."""
        if self.scale.is_full:
            return f"{running.DATA}/uncased_L-12_H-768_A-12/vocab.txt"
        command = self.add(
            "vocabulary",
            "tools.learn_vocab",
            input_file=self.texts("text-*.txt"),
            output_file=f"{running.OUT}/vocab.txt",
            vocab_size=8192,
            min_character_count=50,
        )
        return f"{command.output}/vocab.txt"


def _flags_of_folder(name: str, checkpoint: str, casing: str) -> running.Flags:
    """Returns the flags of a released model in the folder of data."""
    folder = f"{running.DATA}/{name}"
    return {
        "bert_config_file": f"{folder}/bert_config.json",
        "vocab_file": f"{folder}/vocab.txt",
        "init_checkpoint": f"{folder}/{checkpoint}",
        "do_lower_case": "true" if casing == "uncased" else "false",
    }
