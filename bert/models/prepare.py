"""The border of a command: its models opened, followed and compared."""

import dataclasses
import os
from collections.abc import Collection, Sequence
from typing import ClassVar, Generic, Protocol, TypeVar

from absl import logging

from bert.models import comparison, flag_defaults
from bert.models import description as description_lib
from bert.models import folder as folder_lib
from modeling import config as config_lib
from vocab import tokenization


class _ModelOptions(Protocol):
    """The options of a program that applies a model to text."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field]]

    @property
    def init_checkpoint(self) -> str: ...
    @property
    def bert_config_file(self) -> str: ...
    @property
    def vocab_file(self) -> str: ...
    @property
    def do_lower_case(self) -> bool: ...
    @property
    def strips_accents(self) -> bool: ...


class _RunOptions(Protocol):
    """The options of a run, which trains or uses a model."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field]]

    @property
    def output_dir(self) -> str: ...
    @property
    def do_train(self) -> bool: ...
    @property
    def init_checkpoint(self) -> str | None: ...
    @property
    def bert_config_file(self) -> str: ...
    @property
    def max_seq_length(self) -> int: ...


_Options = TypeVar("_Options", bound=_ModelOptions | _RunOptions)
_OfModel = TypeVar("_OfModel", bound=_ModelOptions)
_OfRun = TypeVar("_OfRun", bound=_RunOptions)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepared(Generic[_Options]):
    """The options of a command and its models, opened once.

    Attributes:
        options: of the command, with the flags of the model's folder that are
            not given.
        config: the network.
        run: the folder of `--output_dir`, which need not exist yet, or of the
            best trial in it. For a program that applies a model, the model's.
        trials: the folders of several runs in it.
        init: the model of `--init_checkpoint`, if it is given.
        predicts_with: the model of a command that does not train: the best or
            latest checkpoint of the run or of its trials, else `init`.
        is_training: whether the command trains.
    """

    options: _Options
    config: config_lib.BertConfig
    run: folder_lib.ModelFolder
    trials: Sequence[folder_lib.ModelFolder]
    init: folder_lib.ModelFolder | None
    predicts_with: folder_lib.ModelFolder | None
    is_training: bool

    def read_tokenizer(self) -> tokenization.FullTokenizer:
        """Reads the vocabulary of the options.

        Raises:
            OSError: the file cannot be opened.
            ValueError: it is broken, or larger than the network's.
        """
        tokenizer = tokenization.open_tokenizer(self.options)  # type: ignore[arg-type]
        self.config.check_vocab_size(tokenizer.vocab_size, tokenizer.vocab_file)
        return tokenizer

    def check(self, planned: folder_lib.PlannedModel) -> None:
        """Compares the model of the command with those of its folders.

        Args:
            planned: the model that the run trains or uses.

        Raises:
            OSError: a vocabulary cannot be opened.
            ValueError: see `comparison.check_init` and `check_run`.
        """
        if self.init is not None and not self.run.has_training_state:
            comparison.check_init(
                self.init,
                planned.description,
                planned.vocab_file,
                with_outputs=not self.is_training
                and self.predicts_with is self.init,
            )
        for folder in self.trials or [self.run]:
            comparison.check_run(folder, planned)


def open_model(options: _OfModel, given: Collection[str]) -> Prepared[_OfModel]:
    """Opens the model that a program applies, and completes its options.

    Args:
        options: of the program.
        given: the names of the flags on the command line.

    Raises:
        OSError: a file cannot be read, or the hub's model is not there.
        ValueError: the folder is not that of one model, its files are broken,
            or its checkpoint is not of a supported format; or the program
            would read text in another way than the model.
    """
    model = folder_lib.ModelFolder.open(options.init_checkpoint)
    model.find_checkpoint()
    options = flag_defaults.fill(options, model, given)
    config = model.read_config(options.bert_config_file)
    description = description_lib.Description(
        attention="bidirectional",
        do_lower_case=options.do_lower_case,
        strip_accents=options.strips_accents,
    )
    comparison.check_init(model, description, options.vocab_file)
    return Prepared(
        options=options,
        config=config,
        run=model,
        trials=(),
        init=model,
        predicts_with=model,
        is_training=False,
    )


def prepare(
    options: _OfRun,
    given: Collection[str],
    *,
    task: str | None = None,
    trial_folders: Sequence[str] = (),
    best_trial: str | None = None,
    only_text: bool = False,
) -> Prepared[_OfRun]:
    """Opens the models that a run names, and completes its options.

    Args:
        options: of the run.
        given: the names of the flags on the command line.
        task: of the run. A model of another task has only text in common.
        trial_folders: of the runs of a grid, if there are several.
        best_trial: the folder that is read if `--output_dir` has no checkpoint
            itself.
        only_text: whether only the flags of the text are those of the folder.

    Raises:
        OSError: a file cannot be read, or the hub's model is not there.
        ValueError: a folder is not that of one model, or its files are broken;
            a checkpoint is not of a supported format; there is nothing to
            evaluate; or a training would replace the model it starts from.
    """
    is_training = options.do_train
    run = folder_lib.ModelFolder.open(options.output_dir, is_folder=True)
    if best_trial is not None and run.has_training_state:
        logging.warning(
            "%s has a checkpoint of its own, which is used, and trials. For "
            "the best trial, pass --output_dir=%s.",
            run.path,
            best_trial,
        )
    elif best_trial is not None:
        logging.info("Using %s, the best trial.", best_trial)
        run = folder_lib.ModelFolder.open(best_trial, is_folder=True)
    options = dataclasses.replace(options, output_dir=run.path)
    if is_training and ("[" in run.path or "\\" in run.path):
        raise ValueError(
            "--output_dir must not contain [ or a backslash: TensorFlow takes "
            f"them for a pattern when it reads checkpoints. Got {run.path}."
        )
    trials = [
        folder_lib.ModelFolder.open(folder, is_folder=True)
        for folder in trial_folders
    ]
    init = None
    if options.init_checkpoint:
        init = folder_lib.ModelFolder.open(options.init_checkpoint)
        if is_training and (
            os.path.realpath(run.path) == os.path.realpath(init.path)
        ):
            raise ValueError(
                f"--output_dir is the folder of --init_checkpoint, {run.path}: "
                "the trained model would take the place of the one that it "
                "starts from. Choose another --output_dir. To resume a "
                "training in its folder, leave out --init_checkpoint."
            )
        if not run.has_training_state:
            init.find_checkpoint()
    trained = trials or [run]
    if getattr(options, "use_best_checkpoint", False):
        trained = [folder.open_best() for folder in trained]
    # The models of a grid differ in their weights alone.
    predicts_with = next((m for m in trained if m.has_training_state), init)
    if not is_training and not run.has_training_state and not predicts_with:
        raise ValueError(
            f"There is nothing to evaluate: {run.path} holds no checkpoint "
            "and --init_checkpoint is not given."
        )
    continued = run if run.has_training_state else init
    model = continued if is_training or only_text else predicts_with
    options = flag_defaults.fill(
        options,
        model,
        given,
        only_text=only_text
        or is_training
        or (model is not None and not model.is_of_task(task)),
    )
    config = (init or run).read_config(options.bert_config_file)
    config.check_length(options.max_seq_length)
    return Prepared(
        options=options,
        config=config,
        run=run,
        trials=trials,
        init=init,
        predicts_with=predicts_with,
        is_training=is_training,
    )
