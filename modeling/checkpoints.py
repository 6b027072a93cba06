"""Checkpoints of any format, under the release's variable names.

A variable's name is its path without the model's own name.
`checkpoint_formats` lists the formats, each with its module.
"""

import contextlib
import dataclasses
import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

import keras
import numpy as np

from files import messages, paths
from modeling import checkpoint_formats, name_tables, release_format
from modeling.annotations import Spec, Tensor

_GLOBAL_STEP = "global_step"
_FLOATS = r"float(16|32|64)|bfloat16"


class Source(Protocol):
    """A checkpoint open for reading.

    Attributes:
        kind: the name of its format.
        origin: its path, for messages.
        variables: shape and type by the release's name.
        architectures: Hugging Face's names of its classes, if known.
        notes: remarks for the user on how it is read.
        num_attention_heads: of its encoder, if its variables show it.
    """

    kind: str
    origin: str
    variables: Mapping[str, Spec]
    architectures: tuple[str, ...]
    notes: tuple[str, ...]
    num_attention_heads: int | None

    def read(self, name: str) -> np.ndarray:
        """Reads a variable by the release's name, as it is stored."""

    def close(self) -> None:
        """Closes the files."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoadReport:
    """The result of `load`, as sorted names of variables.

    Args:
        loaded: variables loaded from the checkpoint.
        missing: new variables, which are not in the checkpoint and keep their
            initial values.
        unexpected: variables in the checkpoint only, without optimizer slots
            and the step.
        notes: remarks on how the checkpoint was read.
    """

    loaded: tuple[str, ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{len(self.loaded)} variables loaded"]
        for what, names in (
            ("new, as initialized", self.missing),
            ("in the checkpoint only", self.unexpected),
        ):
            if names:
                lines.append(f"{len(names)} {what}: {messages.names(names)}")
        return "; ".join([*lines, *self.notes])


def resolve(path: str) -> str:
    """Returns the prefix, file or folder that a checkpoint is read from.

    Args:
        path: any path that `checkpoint_formats.find` accepts.

    Raises:
        FileNotFoundError: there is no checkpoint.
        ValueError: a folder contains several, none of them the latest, or the
            format is not supported.
    """
    return checkpoint_formats.find(path).path


def files(path: str) -> list[str]:
    """Lists the files with the variables of a checkpoint, in order.

    Args:
        path: any path that `resolve` accepts.

    Raises:
        FileNotFoundError, ValueError: as `resolve`.
    """
    place = checkpoint_formats.find(path)
    return place.module.files(place.path)


def sha256(path: str) -> str:
    """Hashes the files of a checkpoint; anything `resolve` takes."""
    digest = hashlib.sha256()
    for file in files(path):
        digest.update(paths.sha256(file).encode())
    return digest.hexdigest()


def saved_files(prefix: str) -> list[str]:
    """Lists the files that `save` writes."""
    return release_format.written_files(prefix)


@contextlib.contextmanager
def opened(path: str) -> Iterator[Source]:
    """Opens a checkpoint of any format.

    Args:
        path: any path that `resolve` accepts.

    Raises:
        FileNotFoundError: the checkpoint or one of its files is missing.
        ValueError: a file is broken, or the format is not supported.
    """
    place = checkpoint_formats.find(path)
    source = place.module.Reader(place.path)
    try:
        yield source
    finally:
        source.close()


def list_variables(path: str) -> dict[str, Spec]:
    """Returns the shape and type of all variables in a checkpoint, by name.

    Args:
        path: any path that `resolve` accepts.

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
        path: any path that `resolve` accepts.
        names: variables to read; all if None.

    Raises:
        FileNotFoundError, ValueError: as `opened`.
        KeyError: the checkpoint has no variable of a name.
    """
    with opened(path) as source:
        names = list(source.variables) if names is None else list(names)
        absent = sorted(set(names) - set(source.variables))
        if absent:
            raise KeyError(
                f"Checkpoint {source.origin!r} has no {messages.names(absent)}."
            )
        return {name: source.read(name) for name in names}


def variables_by_name(model: keras.Model) -> dict[str, keras.Variable]:
    """Returns a model's variables by the release's names, in model order.

    Args:
        model: a model of `heads`, or a `BertModel`.

    Raises:
        ValueError: a variable was not created in the model's name scope.
    """
    start = f"{model.path}/"
    wrong = [v.path for v in model.weights if not v.path.startswith(start)]
    if wrong:
        raise ValueError(
            f"Variables must belong to the model {model.path!r}; got "
            f"{messages.names(wrong)}."
        )
    scope = getattr(model, "release_scope", "")
    scope = f"{scope}/" if scope else ""
    return {scope + v.path.removeprefix(start): v for v in model.weights}


def load(
    model: keras.Model, path: str, *, new: Sequence[str] = ()
) -> LoadReport:
    """Loads a checkpoint into a model, by name.

    Differs: the release silently leaves variables that it does not find as
    initialized. All names and shapes are checked before the first value is
    read; values are read one at a time.

    Args:
        model: a model of `heads`, or a `BertModel`.
        path: any path that `resolve` accepts.
        new: regular expressions. Variables whose full name matches one may be
            missing from the checkpoint.

    Raises:
        FileNotFoundError: the checkpoint or one of its files is missing.
        ValueError: the checkpoint is broken, has no variable of the model or
            lacks one that is not new; a shape differs, or a type is not a
            float; or its configuration contradicts the model's.
    """
    variables = variables_by_name(model)
    with opened(path) as source:
        shapes = {name: held[0] for name, held in source.variables.items()}
        check_names(source.origin, variables, shapes, new)
        wanted = {n: tuple(v.shape) for n, v in variables.items()}
        check_shapes(source.origin, wanted, shapes)
        config = getattr(model, "config", None)
        differences: tuple[str, ...] = ()
        if config:
            differences = config.check_checkpoint(
                source.origin, source.num_attention_heads
            )
        common = [name for name in variables if name in shapes]
        check_types(
            source.origin, {name: source.variables[name][1] for name in common}
        )
        for name in common:
            value = source.read(name)
            variables[name].assign(
                value.astype(variables[name].dtype, copy=False)
            )
        notes = (*source.notes, *differences)
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


def check_names(
    prefix: str,
    variables: Collection[str],
    held: Collection[str],
    new: Sequence[str],
) -> None:
    """Checks that a checkpoint contains the variables of a model.

    Args:
        prefix: of the checkpoint, for messages.
        variables: names in the model.
        held: names in the checkpoint.
        new: regular expressions; names that fully match one may be missing.

    Raises:
        ValueError: no name is common, or a variable that is not new is missing.
    """
    if not set(variables) & set(held):
        raise ValueError(
            f"Checkpoint {prefix!r} has no variable of the model. It has "
            f"{messages.names(sorted(held))}; the model has "
            f"{messages.names(sorted(variables))}."
        )
    absent = [
        name
        for name in variables
        if name not in held
        and not any(re.fullmatch(pattern, name) for pattern in new)
    ]
    if absent:
        layers = name_tables.num_layers(variables), name_tables.num_layers(held)
        raise ValueError(
            f"Checkpoint {prefix!r} must contain all variables that are not "
            f"new (new: {', '.join(new) or 'none'}); {len(absent)} missing: "
            f"{', '.join(absent)}."
            + (
                f" num_hidden_layers is {layers[0]} in the model and "
                f"{layers[1]} in the checkpoint."
                if layers[0] > layers[1]
                else ""
            )
        )


def check_shapes(
    prefix: str,
    wanted: Mapping[str, tuple[int, ...]],
    held: Mapping[str, tuple[int, ...]],
) -> None:
    """Checks the shapes of variables common to a model and a checkpoint.

    Args:
        prefix: of the checkpoint, for messages.
        wanted: shapes by name in the model.
        held: shapes by name in the checkpoint.

    Raises:
        ValueError: some differ; the message names the config fields.
    """
    wrong, causes = [], {}
    for name, want in wanted.items():
        got = held.get(name)
        if got is None or got == want:
            continue
        wrong.append(f"{name} {list(want)} (checkpoint: {list(got)})")
        for field, ours, theirs in zip(
            name_tables.axes_of(name), want, got, strict=False
        ):
            if ours != theirs:
                causes[field] = (
                    f"{field} is {ours} in the model and {theirs} in the "
                    "checkpoint"
                )
    if wrong:
        raise ValueError(
            f"Checkpoint {prefix!r} has another size than the model: "
            f"{'; '.join(causes.values()) or 'other axes'}. "
            f"Variables: {messages.names(wrong)}."
        )


def check_types(prefix: str, held: Mapping[str, str]) -> None:
    """Checks that the weights of a checkpoint are floating-point numbers.

    Args:
        prefix: of the checkpoint, for messages.
        held: types by name, of the variables to load.

    Raises:
        ValueError: some are not: quantized weights are wrong without their
            scales.
    """
    wrong = [
        f"{name} ({dtype})"
        for name, dtype in held.items()
        if not re.fullmatch(_FLOATS, dtype)
    ]
    if wrong:
        raise ValueError(
            f"Checkpoint {prefix!r} must contain floating-point weights; these "
            f"are not: {messages.names(wrong)}. Quantized weights are not "
            "supported; convert the original model."
        )


def save(prefix: str, tensors: Mapping[str, Tensor]) -> None:
    """Atomically writes a checkpoint in the release's format.

    Args, raises: as `release_format.write`.
    """
    release_format.write(prefix, tensors)


def is_causal(identity: Mapping[str, object]) -> bool:
    """Returns whether a model was trained from left to right.

    Args:
        identity: the options that its run saved with the checkpoint: the
            `objective` of pre-training, the `attention` of fine-tuning.
    """
    return (
        identity.get("objective") == "ltr"
        or identity.get("attention") == "causal"
    )


def is_training_state(name: str, names: Collection[str]) -> bool:
    """Returns whether a name is the step or a slot, as `VARIABLE/adam_m`."""
    return name == _GLOBAL_STEP or name.rpartition("/")[0] in names
