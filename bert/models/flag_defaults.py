"""Flags that a command does not give, taken from the folder of its model."""

import dataclasses
import os
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from absl import logging

from bert.commands import flags
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
    """The value of a flag, and the file in the folder that states it."""

    value: object
    file: str


def fill(
    options: _Options,
    model: folder_lib.ModelFolder | None,
    given: Collection[str],
    *,
    only_text: bool = False,
) -> _Options:
    """Takes the flags of a command that are not given from a model's folder.

    Args:
        options: of the command.
        model: the model that it reads; None for a new one.
        given: the names of the flags on the command line. They keep their
            values, and so do values that are not the defaults.
        only_text: whether only the files of the model, its casing, and its
            number of positions if the default length is longer, are taken.
            Otherwise the flags with which the model was trained are too, such
            as the length: those that are declared with `of_model`.

    Returns:
        The options, with the values of the folder. One log line names them and
        the files that state them; a warning names each flag that contradicts
        the folder.

    Raises:
        ValueError: a file of the model is neither given nor in its folder, or
            an entry of `task.json` is no value of its flag.
    """
    taken: dict[str, _Taken] = {}
    if model is not None:
        taken.update(_files(options, model))
        entries = dict(_entries(options, model, given, only_text=only_text))
        if only_text and "max_seq_length" not in given:
            entries |= dict(_limit(options, model))
        for name, (value, file) in entries.items():
            source = os.path.join(model.path, file)
            flags.check_value(type(options), name, value, source)
        taken.update(entries)
    if model is not None and taken:
        logging.info(
            "Flags not given, from %s: %s",
            model.path,
            ", ".join(
                f"--{name}={value} ({file})"
                for name, (value, file) in taken.items()
            ),
        )
    values = {name: value for name, (value, _) in taken.items()}
    options = dataclasses.replace(options, **values)
    missing = [name for name in _FILES if getattr(options, name, "-") is None]
    if missing:
        cause = "."
        if model is None and hasattr(options, "init_checkpoint"):
            cause = (
                "; or both are found in the folder of a model: pass "
                "--init_checkpoint=FOLDER or hf://ORGANISATION/NAME."
            )
        elif model is not None:
            names = " and no ".join(_NAMES[name] for name in missing)
            cause = (
                f", because {model.path} has no {names}. docs/models.md says "
                "where those of released models are."
            )
        raise ValueError(
            f"{', '.join(f'--{name}' for name in missing)} must be given{cause}"
        )
    return options


def fill_vocabulary(options: _Options, given: Collection[str]) -> _Options:
    """Reads a `vocab_file` that is a model: its folder, or a hub's address.

    Args:
        options: of the command, with a `vocab_file`.
        given: the names of the flags on the command line.

    Returns:
        The options with the vocabulary of the folder, and its casing where
        that is not given. The path of a file stays as it is.

    Raises:
        OSError, ValueError: see `ModelFolder.open` and `fill`.
    """
    path = getattr(options, "vocab_file", None)
    if not path or not (hub.is_address(path) or paths.is_folder(path)):
        return options
    return fill(
        dataclasses.replace(options, **{"vocab_file": None}),
        folder_lib.ModelFolder.open(path),
        given,
        only_text=True,
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
    given: Collection[str],
    *,
    only_text: bool,
) -> Iterator[tuple[str, _Taken]]:
    """Yields the entries of a description that are flags not given."""
    for field in dataclasses.fields(options):
        name, flag = field.name, getattr(options, field.name)
        declaration = field.metadata.get("flag")
        of_model = declaration and declaration.of_model and not only_text
        value = model.description.stated(name)
        if isinstance(value, list):  # A flag of a list is a tuple.
            value = tuple(value)
        if value in (None, flag) or not (of_model or name in _TEXT):
            continue
        if name in given or flag != field.default:
            _warn_of_contradiction(model, name, flag, value)
        elif _fits_casing(options, model, name, given):
            yield name, _Taken(value, model.sources[name])


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
    given: Collection[str],
) -> bool:
    """Returns whether an entry goes with the casing of the command.

    The folder's rule for accents belongs to its casing.
    """
    return name != "strip_accents" or (
        "do_lower_case" not in given
        or getattr(options, "do_lower_case", None)
        == model.description.do_lower_case
    )


def _warn_of_contradiction(
    model: folder_lib.ModelFolder, name: str, flag: object, value: object
) -> None:
    # Another casing is an error; see `comparison.check_init`. The length
    # in the files of other programs is a limit, not that of the training.
    if name not in _TEXT and model.sources[name] == description_lib.FILE:
        logging.warning(
            "--%s=%s is not the value of the model in %s, which is %s.",
            name,
            flag,
            model.path,
            value,
        )
