"""The models that a command names: its own, and those it starts from."""

import dataclasses
import os
from collections.abc import Collection, Sequence
from typing import ClassVar, Protocol, Self, TypeVar

from files import run_files
from models import compatibility, following
from models import description as description_lib
from models import folder as folder_lib


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


_Options = TypeVar("_Options", bound=_TextOptions)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CommandModels:
    """The models of a command, opened once.

    Attributes:
        run: the folder of `--output_dir`, which need not exist yet.
        start: the model of `--init_checkpoint`, if it is given.
        answering: the model that a command reads that does not train: the best
            or latest checkpoint of the run or of its trials, else `start`.
    """

    run: folder_lib.ModelFolder
    start: folder_lib.ModelFolder | None
    answering: folder_lib.ModelFolder | None

    @classmethod
    def open(
        cls,
        output_dir: str,
        init_checkpoint: str | None,
        *,
        trial_folders: Sequence[str] = (),
        uses_best: bool = False,
    ) -> Self:
        """Opens the models that flags name.

        Args:
            output_dir, init_checkpoint: the flags.
            trial_folders: of the runs of a grid, if there are several.
            uses_best: whether `best/` is read instead of the latest checkpoint.

        Raises:
            OSError, ValueError: see `ModelFolder.open`.
        """
        run = folder_lib.ModelFolder.open(output_dir, is_folder=True)
        start = None
        if init_checkpoint:
            start = folder_lib.ModelFolder.open(init_checkpoint)
        places = [*(trial_folders or (output_dir,))]
        if uses_best:
            places = [os.path.join(place, run_files.BEST) for place in places]
        trained = (
            folder_lib.ModelFolder.open(place, is_folder=True)
            for place in places
        )
        # The models of a grid differ in their weights alone.
        answering = next((model for model in trained if model.is_latest), start)
        return cls(run=run, start=start, answering=answering)

    @property
    def origin(self) -> folder_lib.ModelFolder | None:
        """The model that a training continues or starts from."""
        return self.run if self.run.is_latest else self.start

    def check_weights(self, *, is_training: bool) -> None:
        """Checks that the weights of a command exist.

        Raises:
            FileNotFoundError: `--init_checkpoint` has no checkpoint.
            ValueError: its format is not supported; or the command does not
                train and there is no model.
        """
        if self.run.is_latest:
            return
        if self.start is not None:
            self.start.find_checkpoint()
        if not is_training and self.answering is None:
            raise ValueError(
                f"There is nothing to evaluate: {self.run.path} holds no "
                "checkpoint and --init_checkpoint is not given."
            )


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
