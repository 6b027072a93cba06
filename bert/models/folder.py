"""Folders of models: what each file says, read once.

A folder of this project describes itself by `bert_config.json`, `vocab.txt`
and `task.json`, so it can be copied and moved. Folders of the original,
of Hugging Face and of the TensorFlow Model Garden are read as far as their
files say something.
"""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Mapping
from typing import Self

from absl import logging

from bert.files import json_text, paths, run_files, writing
from bert.models import description as description_lib
from bert.models import hub, sentence_encoder
from modeling import (
    checkpoint_files,
    checkpoints,
    foreign_files,
    huggingface_config,
)
from modeling import config as config_lib
from vocab import casing, huggingface_tokenizer, tokenization

_VOCABULARY = "the entries of its vocabulary"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """A model in its folder; `None` means that the folder has no such thing.

    Attributes:
        path: the folder.
        name: the path of the user: the folder, a prefix, a file or an address.
        checkpoint: the prefix of TensorFlow's files, or Hugging Face's file.
        training_checkpoints: those of a training, from the latest, which is
            `checkpoint`, to the earliest; see `checkpoint_files.Location`. A
            training with this folder as its `output_dir` resumes from them.
        is_ours: whether this project trained the model.
        config_file: the configuration.
        vocab_file: the vocabulary, `vocab.txt` or `tokenizer.json`.
        description: what the files say about the model.
        sources: the file that says an entry of the description, by entry.
    """

    path: str
    name: str
    checkpoint: str | None
    training_checkpoints: tuple[checkpoint_files.TrainingCheckpoint, ...]
    is_ours: bool
    config_file: str | None
    vocab_file: str | None
    description: description_lib.Description
    sources: Mapping[str, str]

    @classmethod
    def open(cls, path: str, *, is_folder: bool = False) -> Self:
        """Reads the files that describe a model; its weights stay unread.

        Args:
            path: a folder, local or remote; a prefix or a file of a
                checkpoint in it; or an address on the hub, `hf://...`.
            is_folder: whether the path is that of a folder, as `--output_dir`,
                which need not exist yet.

        Raises:
            OSError: a file cannot be read, or the hub's model is not there.
            ValueError: a file is broken; the folder has several checkpoints,
                and none is the latest; or the model, or its tokenizer, is not
                BERT's.
        """
        local = hub.resolve(path) if hub.is_address(path) else path
        if is_folder or paths.is_folder(local):
            folder, location = local, checkpoint_files.in_folder(local)
        else:
            folder = os.path.dirname(local)
            location = checkpoint_files.locate(local)
        foreign_files.check_no_adapter(folder)
        description, sources = _describe(folder)
        model = cls(
            path=folder,
            name=path,
            checkpoint=location.path if location else None,
            training_checkpoints=location.training_checkpoints
            if location
            else (),
            is_ours=location is not None and location.is_ours,
            config_file=_first(
                folder, config_lib.FILE, huggingface_config.CONFIG
            ),
            vocab_file=_vocabulary(folder),
            description=description,
            sources=sources,
        )
        model.check_vocabulary(description.vocab_sha256, model.task_file)
        return model

    @property
    def task_file(self) -> str:
        """The path of the description, which need not exist."""
        return os.path.join(self.path, description_lib.FILE)

    def check_vocabulary(self, sha256: str | None, source: str) -> None:
        """Checks that the vocabulary in the folder, if any, is the stated one.

        Args:
            sha256: `tokenization.vocab_sha256` of that; None if not stated.
            source: the file that states it, for the message.

        Raises:
            ValueError: it is another one.
        """
        if sha256 is None or self.entries is None:
            return
        tokens = tokenization.vocabulary_of(self.entries)
        if tokenization.vocab_sha256(tokens) != sha256:
            raise ValueError(
                f"{self.vocab_file} is not the vocabulary of the model: its "
                f"entries, or their order, differ from the vocab_sha256 of "
                f"{source}. Copy the vocabulary with which the model was "
                "trained."
            )

    @property
    def has_training_state(self) -> bool:
        """Whether the checkpoint is one from which a training resumes."""
        return bool(self.training_checkpoints)

    def is_of_task(self, task: str | None) -> bool:
        """Returns whether the model is of a task; True if that is unknown."""
        return task is None or self.description.task in (None, task)

    def open_best(self) -> Self:
        """Opens the folder of the best checkpoint of a training in this one."""
        path = os.path.join(self.path, run_files.BEST)
        return self.open(path, is_folder=True)

    def find_checkpoint(self) -> str:
        """Returns the checkpoint, if it is of a supported format.

        Raises:
            FileNotFoundError: there is no checkpoint.
            ValueError: its format is not supported.
        """
        named = self.path if hub.is_address(self.name) else self.name
        return checkpoints.check_supported(self.checkpoint, named)

    def open_weights(
        self,
    ) -> contextlib.AbstractContextManager[checkpoints.Source]:
        """Opens the checkpoint for reading.

        Raises:
            FileNotFoundError, ValueError: as `find_checkpoint`.
        """
        return checkpoints.open_found(self.find_checkpoint())

    @property
    def is_release(self) -> bool | None:
        """Whether the weights are TensorFlow's; None if there are none."""
        if self.checkpoint is None:
            return None
        return not checkpoint_files.is_huggingface(self.checkpoint)

    @functools.cached_property
    def config(self) -> config_lib.BertConfig | None:
        """The configuration.

        Raises:
            ValueError: it is broken, or not of BERT.
        """
        if self.config_file is None:
            return None
        return config_lib.BertConfig.from_json_file(
            self.config_file, is_release=self.is_release
        )

    def read_config(self, path: str) -> config_lib.BertConfig:
        """Reads a configuration, for the weights of this folder.

        The words of a file of Hugging Face mean the network of the weights:
        TensorFlow's have the release's, unless their own configuration states
        the exact `gelu`.

        Raises:
            OSError, ValueError: see `BertConfig.from_json_file`.
        """
        is_release = self.is_release
        if is_release and self.config is not None:
            is_release = self.config.hidden_act != "gelu_exact"
        return config_lib.BertConfig.from_json_file(path, is_release=is_release)

    @functools.cached_property
    def entries(self) -> tuple[str, ...] | None:
        """The entries of the vocabulary, without blank lines at its end."""
        if self.vocab_file is None:
            return None
        return tuple(tokenization.read_entries(self.vocab_file))

    @functools.cached_property
    def sentence_encoder(self) -> sentence_encoder.SentenceEncoder | None:
        """The embedding of texts, as the files of sentence-transformers say.

        Raises:
            ValueError: see `SentenceEncoder.read`.
        """
        return sentence_encoder.SentenceEncoder.read(
            self.path, do_lower_case=self.description.do_lower_case
        )

    def source(self, entry: str) -> str:
        """Names the file that says an entry of the description."""
        return os.path.join(self.path, self.sources.get(entry, ""))


def _first(folder: str, *names: str) -> str | None:
    """Returns the path of the first file that a folder has."""
    files = (os.path.join(folder, name) for name in names)
    return next(filter(paths.exists, files), None)


def _describe(
    folder: str,
) -> tuple[description_lib.Description, dict[str, str]]:
    """Reads the description of a model, and which file says which entry.

    `task.json` is first; other programs' files say what it does not.
    """
    values: dict[str, object] = {}
    sources: dict[str, str] = {}
    config: json_text.Object = {}
    if config_file := _first(folder, huggingface_config.CONFIG):
        config = json_text.read_object(config_file)
        huggingface_config.check_no_preset(config, config_file)

    def say(source: str, said: Mapping[str, object]) -> None:
        for name, value in said.items():
            if value is not None and name not in values:
                values[name], sources[name] = value, source

    if task_file := _first(folder, description_lib.FILE):
        say(description_lib.FILE, json_text.read_object(task_file))
        # Types are checked before other files can hide a mistake.
        description_lib.Description.from_json(values, task_file)
    tokenizer = huggingface_tokenizer.read(folder)
    for name, file in tokenizer.sources.items():
        say(file, {name: getattr(tokenizer, name)})
    vocab_file = _vocabulary(folder)
    if vocab_file is not None and "do_lower_case" not in values:
        shown = casing.from_entries(tokenization.read_entries(vocab_file))
        say(_VOCABULARY, dataclasses.asdict(shown))
    if config_file:
        say(huggingface_config.CONFIG, _said_by_config(config, config_file))
        # Their programs cut texts at the limit of the network.
        positions = config.get("max_position_embeddings")
        length = values.get("max_seq_length")
        if (
            json_text.is_number(positions)
            and sources.get("max_seq_length") != description_lib.FILE
            and not (isinstance(length, int) and length <= positions)
        ):
            values["max_seq_length"] = int(positions)
            sources["max_seq_length"] = huggingface_config.CONFIG
    return description_lib.Description.from_json(values, folder), sources


def _said_by_config(config: json_text.Object, path: str) -> dict[str, object]:
    """Reads the task and the labels of Hugging Face's `config.json`."""
    values = huggingface_config.labels_of(config, path)
    names = config.get("architectures")
    for name in names if isinstance(names, list) else ():
        known = description_lib.CLASSES.get(str(name))
        values["task"] = known and known.task
    return values


def _vocabulary(folder: str) -> str | None:
    return _first(folder, run_files.VOCABULARY, huggingface_tokenizer.PIPELINE)


# --------------------------------------------------------------------- Writing


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlannedModel:
    """The model of a run.

    Attributes:
        config: the sizes.
        description: the content of its `task.json`.
        vocab_file: the vocabulary to copy; None to leave that of the folder.
        lacks_vocabulary: the reason why the vocabulary is not known; empty if
            it is.
    """

    config: config_lib.BertConfig
    description: description_lib.Description
    vocab_file: str | None = None
    lacks_vocabulary: str = ""

    def write(self, folder: ModelFolder) -> None:
        """Describes the model beside its checkpoint.

        A run does so with its first checkpoint; one without training only for
        a folder of another program, whose files do not state everything.

        Args:
            folder: of the run, created if missing.
        """
        write(folder.path, self.config, self.description, self.vocab_file)
        if self.lacks_vocabulary and not folder.vocab_file:
            logging.warning(
                "%s has no vocabulary, because %s. Copy the vocabulary to %s: "
                "the programs that use this model need it.",
                folder.path,
                self.lacks_vocabulary,
                os.path.join(folder.path, run_files.VOCABULARY),
            )


def write(
    folder: str,
    config: config_lib.BertConfig,
    description: description_lib.Description,
    vocab_file: str | None = None,
) -> None:
    """Writes the files that describe a model beside its weights.

    Args:
        folder: of the model, created if missing.
        config: the sizes.
        description: nothing is written if it says nothing.
        vocab_file: the vocabulary to copy, as `vocab.txt`; None to leave that
            of the folder.
    """
    writing.write_json(
        os.path.join(folder, config_lib.FILE),
        dict(sorted(config.to_dict().items())),
    )
    values = description.to_json()
    if values:
        writing.write_json(os.path.join(folder, description_lib.FILE), values)
    target = os.path.join(folder, run_files.VOCABULARY)
    if vocab_file is not None and (
        os.path.abspath(vocab_file) != os.path.abspath(target)
    ):
        write_vocabulary(vocab_file, target)


def vocab_sha256(vocab_file: str) -> str:
    """Returns the `tokenization.vocab_sha256` of a file."""
    return tokenization.vocab_sha256(tokenization.load_vocab(vocab_file))


def write_vocabulary(vocab_file: str, target: str) -> None:
    """Copies a vocabulary, `vocab.txt` or `tokenizer.json`, to a `vocab.txt`.

    Args:
        vocab_file: see `tokenization.vocabulary_file`.
        target: the path to write.
    """
    source = tokenization.vocabulary_file(vocab_file)
    if not source.endswith(".json"):
        writing.copy_file(source, target)
        return
    with writing.whole_file(target) as file:
        file.writelines(
            f"{entry}\n" for entry in tokenization.read_entries(source)
        )


def update(folder: str, *, null_score_diff_threshold: float | None) -> None:
    """Changes the entry of a `task.json` that is chosen after training."""
    path = os.path.join(folder, description_lib.FILE)
    if paths.exists(path):
        description = description_lib.Description.from_json(
            json_text.read_object(path), path
        )
        description = dataclasses.replace(
            description, null_score_diff_threshold=null_score_diff_threshold
        )
        writing.write_json(path, description.to_json())
