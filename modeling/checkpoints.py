"""Checkpoints by the release's names of variables, whatever their form.

A model's variable is called what its path says after the model's own name.
`checkpoint_formats` knows the forms, each of which has a module of its own.
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

# The fields of the config that are the lengths of the axes, by a pattern of the
# name; the first that is found counts.
_HYPER_PARAMETERS = (
    (r"/word_embeddings$", ("vocab_size", "hidden_size")),
    (r"/token_type_embeddings$", ("type_vocab_size", "hidden_size")),
    (r"/position_embeddings$", ("max_position_embeddings", "hidden_size")),
    (r"/intermediate/dense/kernel$", ("hidden_size", "intermediate_size")),
    (r"/intermediate/dense/bias$", ("intermediate_size",)),
    (r"layer_\d+/output/dense/kernel$", ("intermediate_size", "hidden_size")),
    (r"^cls/predictions/output_bias$", ("vocab_size",)),
    (r"^output_weights$", ("num_labels", "hidden_size")),
    (r"^output_bias$", ("num_labels",)),
    (r"output_weights$", ("outputs of the head", "hidden_size")),
    (r"output_bias$", ("outputs of the head",)),
    (r"", ("hidden_size", "hidden_size")),
)


class Source(Protocol):
    """A checkpoint that is open to be read.

    Attributes:
        kind: the name of its form.
        origin: its path, for messages.
        variables: shape and type by the release's name.
        architectures: Hugging Face's names of its classes, where it says.
        notes: remarks for the user on how it is read.
        num_attention_heads: of its encoder, where its variables show that.
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
                lines.append(f"{len(names)} {what}: {messages.names(names)}")
        return "; ".join([*lines, *self.notes])


def resolve(path: str) -> str:
    """Finds the path that a checkpoint is read by.

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


def sha256(path: str) -> str:
    """Hashes the files of a checkpoint; anything `resolve` takes."""
    digest = hashlib.sha256()
    for file in files(path):
        digest.update(paths.sha256(file).encode())
    return digest.hexdigest()


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


def list_variables(path: str) -> dict[str, Spec]:
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
                f"Checkpoint {source.origin!r} has no {messages.names(absent)}."
            )
        return {name: source.read(name) for name in names}


def release_name(model: keras.Model, variable: keras.Variable) -> str:
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


def variables_by_name(model: keras.Model) -> dict[str, keras.Variable]:
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
        check_names(source.origin, variables, shapes, new)
        wanted = {n: tuple(v.shape) for n, v in variables.items()}
        check_shapes(source.origin, wanted, shapes)
        config = getattr(model, "config", None)
        beside: tuple[str, ...] = ()
        if config:
            beside = config.check_checkpoint(
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


def check_names(
    prefix: str,
    variables: Collection[str],
    held: Collection[str],
    new: Sequence[str],
) -> None:
    """Checks that a checkpoint holds the variables of a model.

    Args:
        prefix: of the checkpoint, for messages.
        variables: names in the model.
        held: names in the checkpoint.
        new: regular expressions; what one matches wholly may be absent.

    Raises:
        ValueError: no name is common, or one is absent that is not new.
    """
    if not set(variables) & set(held):
        raise ValueError(
            f"Checkpoint {prefix!r} holds no variable of the model. It holds "
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
            f"Checkpoint {prefix!r} must hold every variable that is not new "
            f"(new: {', '.join(new) or 'none'}); it lacks {len(absent)}: "
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
    """Checks the shapes of variables that are in a model and a checkpoint.

    Args:
        prefix: of the checkpoint, for messages.
        wanted: shapes by name in the model.
        held: shapes by name in the checkpoint.

    Raises:
        ValueError: some differ; says which fields of the config explain it.
    """
    wrong, causes = [], {}
    for name, want in wanted.items():
        got = held.get(name)
        if got is None or got == want:
            continue
        wrong.append(f"{name} {list(want)} (checkpoint: {list(got)})")
        for field, ours, theirs in zip(_axes_of(name), want, got, strict=False):
            if ours != theirs:
                causes[field] = (
                    f"{field} is {ours} in the model and {theirs} in the "
                    "checkpoint"
                )
    if wrong:
        raise ValueError(
            f"Checkpoint {prefix!r} is of a model of another size: "
            f"{'; '.join(causes.values()) or 'other axes'}. "
            f"Variables: {messages.names(wrong)}."
        )


def check_types(prefix: str, held: Mapping[str, str]) -> None:
    """Checks that the weights of a checkpoint are floating-point numbers.

    Args:
        prefix: of the checkpoint, for messages.
        held: types by name, of what a model takes from it.

    Raises:
        ValueError: some are not: as numbers they would be wrong, without the
            scales of whatever quantized them.
    """
    wrong = [
        f"{name} ({dtype})"
        for name, dtype in held.items()
        if not re.fullmatch(_FLOATS, dtype)
    ]
    if wrong:
        raise ValueError(
            f"Checkpoint {prefix!r} must hold floating-point weights; these "
            f"are not: {messages.names(wrong)}. Quantized weights cannot be "
            "read; convert the model that they were made from."
        )


def _axes_of(name: str) -> tuple[str, ...]:
    return next(
        fields
        for pattern, fields in _HYPER_PARAMETERS
        if re.search(pattern, name)
    )


def save(prefix: str, tensors: Mapping[str, Tensor]) -> None:
    """Writes a checkpoint in the release's format, whole or not at all.

    Args, raises: as `release_format.write`.
    """
    release_format.write(prefix, tensors)


def is_causal(identity: Mapping[str, object]) -> bool:
    """Returns whether a model was trained from left to right.

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
