"""Flags that a command does not give, taken from the folder of its model."""

import dataclasses
import os
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from absl import logging

from bert.files import paths, run_files
from bert.models import description as description_lib
from bert.models import folder as folder_lib
from bert.models import hub
from modeling import config as config_lib

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Options = TypeVar("_Options", bound="DataclassInstance")
# Flags that name a file of the model, and the attribute of its folder.
_FILES = {"vocab_file": "vocab_file", "bert_config_file": "config_file"}
_NAMES = {
    "vocab_file": run_files.VOCABULARY,
    "bert_config_file": config_lib.FILE,
}
_TEXT = ("do_lower_case", "strip_accents")


class _Taken(NamedTuple):
    """The value of a flag, and the file that says it."""

    value: object
    source: str


def complete(
    options: _Options,
    model: folder_lib.ModelFolder | None,
    flags_given: Collection[str],
    *,
    is_training: bool = False,
    task: str | None = None,
) -> _Options:
    """Takes the flags of a command that are not given from a model's folder.

    A training takes the files of the model that it starts from, the casing of
    its text, and its number of positions if the default length is longer. Other
    programs also take the flags with which the model was trained, such as the
    length: those that are declared with `of_model`.

    Args:
        options: of the command.
        model: the model that it reads; None for a new one.
        flags_given: the names of the flags on the command line. They keep their
            values, and so do values that are not the defaults.
        is_training: whether the model is trained further.
        task: of the command. Only the text that it reads matters of a model of
            another task.

    Returns:
        The options, with the values of the folder. One log line names them and
        the files that say them; a warning names each flag that contradicts the
        folder.

    Raises:
        ValueError: a file of the model is neither given nor in its folder, or
            an entry of `task.json` has not the type of its flag.
    """
    taken: dict[str, _Taken] = {}
    if model is not None:
        if task is not None and model.description.task not in (None, task):
            is_training = True
        taken.update(_files(options, model))
        for name, value in _entries(options, model, is_training=is_training):
            flag = getattr(options, name)
            if name in flags_given or flag != _default(options, name):
                _warn_of_contradiction(model, name, flag, value)
            elif _fits_casing(options, model, name, flags_given):
                taken[name] = _Taken(value, model.sources[name])
        if is_training and "max_seq_length" not in flags_given:
            taken.update(_limit(options, model))
    if model is not None and taken:
        for name, (value, _) in taken.items():
            model.check_flag(type(options), name, value)
        logging.info(
            "Flags not given, from %s: %s",
            model.path,
            ", ".join(
                f"--{name}={value} ({source})"
                for name, (value, source) in taken.items()
            ),
        )
    values = {name: value for name, (value, _) in taken.items()}
    options = dataclasses.replace(options, **values)
    missing = [name for name in _FILES if getattr(options, name, "-") is None]
    if missing:
        cause = "."
        if model is not None:
            names = " and no ".join(_NAMES[name] for name in missing)
            cause = (
                f", because {model.path} has no {names}. docs/models.md says "
                "where those of released models are."
            )
        raise ValueError(
            f"{', '.join(f'--{name}' for name in missing)} must be given{cause}"
        )
    return options


def complete_vocabulary(
    options: _Options, flags_given: Collection[str]
) -> _Options:
    """Reads a `vocab_file` that is a model: its folder, or a hub's address.

    Args:
        options: of the command, with a `vocab_file`.
        flags_given: the names of the flags on the command line.

    Returns:
        The options with the vocabulary of the folder, and its casing where
        that is not given. The path of a file stays as it is.

    Raises:
        OSError, ValueError: see `ModelFolder.open` and `complete`.
    """
    path = getattr(options, "vocab_file", None)
    if not path or not (hub.is_address(path) or paths.is_folder(path)):
        return options
    return complete(
        dataclasses.replace(options, **{"vocab_file": None}),
        folder_lib.ModelFolder.open(path),
        flags_given,
        is_training=True,
    )


def _files(
    options: object, model: folder_lib.ModelFolder
) -> Iterator[tuple[str, _Taken]]:
    """Yields the files of a model that are not given."""
    for name, attribute in _FILES.items():
        file = getattr(model, attribute)
        if file and getattr(options, name, file) is None:
            yield name, _Taken(file, os.path.basename(file))


def _entries(
    options: "DataclassInstance",
    model: folder_lib.ModelFolder,
    *,
    is_training: bool,
) -> Iterator[tuple[str, object]]:
    """Yields the entries of a description that are flags of other values."""
    for field in dataclasses.fields(options):
        name, declaration = field.name, field.metadata.get("flag")
        value = model.description.stated(name)
        if isinstance(value, list):  # A flag of a list is a tuple.
            value = tuple(value)
        of_model = not is_training and declaration and declaration.of_model
        if value in (None, getattr(options, name)) or not (
            of_model or name in _TEXT
        ):
            continue
        yield name, value


def _limit(
    options: "DataclassInstance", model: folder_lib.ModelFolder
) -> Iterator[tuple[str, _Taken]]:
    """Yields the length of the network, if the default is a longer one."""
    name = "max_seq_length"
    length, config = getattr(options, name, None), model.config
    if length is not None and config is not None and model.config_file:
        positions = config.max_position_embeddings
        if length == _default(options, name) and length > positions:
            yield name, _Taken(positions, os.path.basename(model.config_file))


def _default(options: "DataclassInstance", name: str) -> object:
    (field,) = (f for f in dataclasses.fields(options) if f.name == name)
    return field.default


def _fits_casing(
    options: object,
    model: folder_lib.ModelFolder,
    name: str,
    flags_given: Collection[str],
) -> bool:
    """Returns whether an entry goes with the casing of the command.

    The folder's rule for accents belongs to its casing.
    """
    return name != "strip_accents" or (
        "do_lower_case" not in flags_given
        or getattr(options, "do_lower_case", None)
        == model.description.do_lower_case
    )


def _warn_of_contradiction(
    model: folder_lib.ModelFolder, name: str, flag: object, value: object
) -> None:
    # Another casing is an error; see `compatibility.check_start`. The length
    # in the files of other programs is a limit, not that of the training.
    if name not in _TEXT and model.sources[name] == description_lib.FILE:
        logging.warning(
            "--%s=%s is not the value of the model in %s, which is %s.",
            name,
            flag,
            model.path,
            value,
        )
