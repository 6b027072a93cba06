"""Checkpoints by the release's names of variables, whatever their form.

A model's variable is called what its path says after the model's own name.
`checkpoint_formats` knows the forms, each of which has a module of its own.
"""

import contextlib
import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

import keras
import numpy as np

from modeling import (
    checkpoint_formats,
    config_beside,
    mismatches,
    release_format,
)

_GLOBAL_STEP = "global_step"


class Source(Protocol):
    """A checkpoint that is open to be read.

    Attributes:
        kind: what its form is called.
        origin: its path, for messages.
        variables: shape and type by the release's name.
        architectures: Hugging Face's names of what it holds, where it says.
        notes: what a user should know of how it is read.
    """

    kind: str
    origin: str
    variables: Mapping[str, tuple[tuple[int, ...], str]]
    architectures: tuple[str, ...]
    notes: tuple[str, ...]

    def read(self, name: str) -> np.ndarray:
        """Reads a variable by the release's name, as it is stored."""

    def close(self) -> None:
        """Closes the files."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoadReport:
    """What `load` did, as sorted names of variables.

    Args:
        loaded: took their value from the checkpoint.
        missing: not in the checkpoint and named as new: still as initialised.
        unexpected: in the checkpoint only; optimizer slots and the step are
            not counted.
        notes: how the checkpoint was understood.
    """

    loaded: tuple[str, ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{len(self.loaded)} variables loaded"]
        for what, names in (
            ("new, as initialised", self.missing),
            ("in the checkpoint only", self.unexpected),
        ):
            if names:
                lines.append(f"{len(names)} {what}: {mismatches.listed(names)}")
        return "; ".join([*lines, *self.notes])


def resolve(path: str) -> str:
    """Finds what a checkpoint is read by.

    Args:
        path: anything `checkpoint_formats.find` takes.

    Returns:
        The prefix, the file or the folder of the checkpoint.

    Raises:
        FileNotFoundError: there is no checkpoint.
        ValueError: a folder holds several, none of them the latest, or the
            checkpoint is of a kind that cannot be read.
    """
    return checkpoint_formats.find(path).path


def files(path: str) -> list[str]:
    """Lists the files that hold the variables of a checkpoint, in order.

    Args:
        path: anything `resolve` takes.

    Raises:
        FileNotFoundError, ValueError: as `resolve`.
    """
    place = checkpoint_formats.find(path)
    return place.module.files(place.path)


def saved_files(prefix: str) -> list[str]:
    """Names the files that `save` writes."""
    return release_format.written_files(prefix)


@contextlib.contextmanager
def opened(path: str) -> Iterator[Source]:
    """Opens a checkpoint of any form.

    Args:
        path: anything `resolve` takes.

    Raises:
        FileNotFoundError: there is no checkpoint, or part of it is missing.
        ValueError: a file is broken, or the checkpoint of another kind.
    """
    place = checkpoint_formats.find(path)
    source = place.module.Reader(place.path)
    try:
        yield source
    finally:
        source.close()


def list_variables(path: str) -> dict[str, tuple[tuple[int, ...], str]]:
    """Lists shape and type by name, for everything in a checkpoint.

    Args:
        path: anything `resolve` takes.

    Raises:
        FileNotFoundError, ValueError: as `opened`.
    """
    with opened(path) as source:
        return dict(source.variables)


def read(
    path: str, names: Collection[str] | None = None
) -> dict[str, np.ndarray]:
    """Reads arrays by name.

    Args:
        path: anything `resolve` takes.
        names: which; all if None.

    Raises:
        FileNotFoundError, ValueError: as `opened`.
        KeyError: a name is not in it.
    """
    with opened(path) as source:
        names = list(source.variables) if names is None else list(names)
        absent = sorted(set(names) - set(source.variables))
        if absent:
            raise KeyError(
                f"Checkpoint {source.origin!r} has no "
                f"{mismatches.listed(absent)}."
            )
        return {name: source.read(name) for name in names}


def release_name(model: keras.Model, variable: Any) -> str:
    """Names a variable of a model as the release does.

    Args:
        model: a model of `heads`, or a `BertModel`.
        variable: one of its variables.

    Raises:
        ValueError: the variable is not of this model.
    """
    start = f"{model.path}/"
    if not variable.path.startswith(start):
        raise ValueError(
            f"The variable must be of the model {model.path!r}; "
            f"got {variable.path!r}."
        )
    scope = getattr(model, "release_scope", "")
    name = variable.path.removeprefix(start)
    return f"{scope}/{name}" if scope else name


def variables_by_name(model: keras.Model) -> dict[str, Any]:
    """Lists a model's variables by the release's names, in model order."""
    return {release_name(model, v): v for v in model.weights}


def load(
    model: keras.Model, path: str, *, new: Sequence[str] = ()
) -> LoadReport:
    """Loads a checkpoint into a model, by name.

    Differs: the release leaves a variable whose name it does not find as
    initialised, and says nothing. Values are read one at a time; names and
    shapes are checked before the first.

    Args:
        model: a model of `heads`, or a `BertModel`.
        path: anything `resolve` takes.
        new: regular expressions; a variable that one of them matches wholly
            may be absent from the checkpoint.

    Raises:
        FileNotFoundError: there is no checkpoint, or part of it is missing.
        ValueError: it holds nothing of the model, lacks a variable that is not
            new, has one in another shape or of a type that is no float, is
            broken, or the configuration beside it contradicts the model's.
    """
    variables = variables_by_name(model)
    with opened(path) as source:
        shapes = {name: held[0] for name, held in source.variables.items()}
        mismatches.check_names(source.origin, variables, shapes, new)
        wanted = {n: tuple(v.shape) for n, v in variables.items()}
        mismatches.check_shapes(source.origin, wanted, shapes)
        config = getattr(model, "config", None)
        beside = config_beside.check(config, source.origin) if config else ()
        common = [name for name in variables if name in shapes]
        mismatches.check_types(
            source.origin, {name: source.variables[name][1] for name in common}
        )
        for name in common:
            value = source.read(name)
            variables[name].assign(
                value.astype(variables[name].dtype, copy=False)
            )
        notes = (*source.notes, *beside)
    return LoadReport(
        loaded=tuple(sorted(common)),
        missing=tuple(sorted(variables.keys() - shapes.keys())),
        unexpected=tuple(
            sorted(
                name
                for name in shapes.keys() - variables.keys()
                if not is_training_state(name, shapes)
            )
        ),
        notes=notes,
    )


def save(prefix: str, tensors: Mapping[str, Any]) -> None:
    """Writes a checkpoint in the release's format, whole or not at all.

    Args, raises: as `release_format.write`.
    """
    release_format.write(prefix, tensors)


def is_causal(identity: Mapping[str, object]) -> bool:
    """Tells whether a model was trained from left to right.

    Args:
        identity: what its run saved of itself beside the checkpoint: the
            `objective` of pre-training, the `attention` of fine-tuning.
    """
    return (
        identity.get("objective") == "ltr"
        or identity.get("attention") == "causal"
    )


def is_training_state(name: str, names: Collection[str]) -> bool:
    """Tells the step and optimizer slots, such as `VARIABLE/adam_m`."""
    return name == _GLOBAL_STEP or name.rpartition("/")[0] in names
