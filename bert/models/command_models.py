"""The models that a command names: its own, and those it starts from."""

import dataclasses
import os
from collections.abc import Collection, Sequence
from typing import ClassVar, Protocol, Self, TypeVar

from absl import logging

from bert.models import compatibility, describing, following
from bert.models import description as description_lib
from bert.models import folder as folder_lib
from modeling import config as config_lib
from vocab import tokenization


class _TextOptions(Protocol):
    """The options of a program that applies a model to text."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field]]

    @property
    def init_checkpoint(self) -> str: ...
    @property
    def vocab_file(self) -> str: ...
    @property
    def do_lower_case(self) -> bool: ...
    @property
    def strips_accents(self) -> bool: ...


class _FileOptions(tokenization.Options, Protocol):
    """The options that name the files of a model."""

    @property
    def bert_config_file(self) -> str: ...


_Options = TypeVar("_Options", bound=_TextOptions)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CommandModels:
    """The models of a command, opened once.

    Attributes:
        run: the folder of `--output_dir`, which need not exist yet, or of the
            best trial in it.
        trials: the folders of several runs in it.
        start: the model of `--init_checkpoint`, if it is given.
        answering: the model that a command reads that does not train: the best
            or latest checkpoint of the run or of its trials, else `start`.
    """

    run: folder_lib.ModelFolder
    trials: Sequence[folder_lib.ModelFolder]
    start: folder_lib.ModelFolder | None
    answering: folder_lib.ModelFolder | None

    @classmethod
    def open(
        cls,
        output_dir: str,
        init_checkpoint: str | None,
        *,
        trial_folders: Sequence[str] = (),
        best_trial: str | None = None,
        uses_best: bool = False,
    ) -> Self:
        """Opens the models that flags name.

        Args:
            output_dir, init_checkpoint: the flags.
            trial_folders: of the runs of a grid, if there are several.
            best_trial: the folder that is read if `output_dir` has no
                checkpoint itself.
            uses_best: whether `best/` is read instead of the latest checkpoint.

        Raises:
            OSError, ValueError: see `ModelFolder.open`.
        """
        run = folder_lib.ModelFolder.open(output_dir, is_folder=True)
        if best_trial is not None and not run.is_latest:
            logging.info("Using %s, the best trial.", best_trial)
            run = folder_lib.ModelFolder.open(best_trial, is_folder=True)
        start = None
        if init_checkpoint:
            start = folder_lib.ModelFolder.open(init_checkpoint)
        trials = [
            folder_lib.ModelFolder.open(folder, is_folder=True)
            for folder in trial_folders
        ]
        trained = trials or [run]
        if uses_best:
            trained = [folder.open_best() for folder in trained]
        # The models of a grid differ in their weights alone.
        answering = next((model for model in trained if model.is_latest), start)
        return cls(run=run, trials=trials, start=start, answering=answering)

    @property
    def origin(self) -> folder_lib.ModelFolder | None:
        """The model that a training continues or starts from."""
        return self.run if self.run.is_latest else self.start

    def check_weights(self, *, is_training: bool) -> None:
        """Checks that the weights of a command exist.

        Raises:
            FileNotFoundError: `--init_checkpoint` has no checkpoint.
            ValueError: its format is not supported; its folder is
                `--output_dir`; or the command does not train and there is no
                model.
        """
        if is_training and self.start and _is_same(self.start, self.run):
            raise ValueError(
                f"--output_dir is the folder of --init_checkpoint, "
                f"{self.run.path}: the trained model would take the place of "
                "the one that it starts from. Choose another --output_dir. To "
                "resume a training in its folder, leave out --init_checkpoint."
            )
        if self.run.is_latest:
            return
        if self.start is not None:
            self.start.find_checkpoint()
        if not is_training and self.answering is None:
            raise ValueError(
                f"There is nothing to evaluate: {self.run.path} holds no "
                "checkpoint and --init_checkpoint is not given."
            )

    def check_start(
        self, planned: describing.PlannedModel, *, is_training: bool
    ) -> None:
        """Checks that the weights to start from fit the model of the command.

        A run that has a checkpoint does not read them; `describing.check`
        compares its own model.

        Args:
            planned: the model of the command.
            is_training: whether it is trained.

        Raises:
            OSError, ValueError: see `compatibility.check_text`.
        """
        if self.start is None or self.run.is_latest:
            return
        compatibility.check_text(
            self.start,
            planned.vocab_file,
            planned.description,
            with_outputs=not is_training and self.answering is self.start,
        )


def _is_same(
    one: folder_lib.ModelFolder, other: folder_lib.ModelFolder
) -> bool:
    return os.path.realpath(one.path) == os.path.realpath(other.path)


def read_files(
    options: _FileOptions, model: folder_lib.ModelFolder
) -> tuple[config_lib.BertConfig, tokenization.FullTokenizer]:
    """Reads the configuration and the vocabulary of a command's model.

    Args:
        options: `vocab_file`, `bert_config_file` and the casing.
        model: has the weights, if there are some.

    Raises:
        OSError: a file cannot be opened.
        ValueError: a file is broken, or they do not fit together.
    """
    tokenizer = tokenization.open_tokenizer(options)
    config = model.read_config(options.bert_config_file)
    config.check_vocab_size(tokenizer.vocab_size, options.vocab_file)
    return config, tokenizer


def open_pretrained(
    options: _Options, flags_given: Collection[str]
) -> tuple[_Options, folder_lib.ModelFolder]:
    """Opens the model that a command applies to text as it is.

    Args:
        options: of the command, with the flags of `ModelOptions`.
        flags_given: the names of the flags on the command line.

    Returns:
        The options, with those of the model's folder that are not given; and
        the model.

    Raises:
        OSError: a file cannot be read.
        ValueError: there is no checkpoint of a supported format; or the model
            was trained with another vocabulary, casing or attention.
    """
    model = folder_lib.ModelFolder.open(options.init_checkpoint)
    model.find_checkpoint()
    options = following.complete(options, model, flags_given)
    compatibility.check_text(
        model,
        options.vocab_file,
        description_lib.Description(
            attention="bidirectional",
            do_lower_case=options.do_lower_case,
            strip_accents=options.strips_accents,
        ),
    )
    return options, model
