"""Checkpoints of any format, under the original's variable names.

A variable's name is its path without the model's own name. A format is a module
with a `Reader`.
"""

import contextlib
import dataclasses
import glob
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from bert.files import messages, paths
from modeling import (
    checkpoint_files,
    foreign_files,
    huggingface,
    model_garden,
    name_tables,
    release_format,
)
from modeling.name_tables import Spec

if TYPE_CHECKING:
    import keras

    from modeling.tensor_types import Tensor

_GLOBAL_STEP = "global_step"
_FLOATS = r"float(16|32|64)|bfloat16"

# A checkpoint open for reading.
Source: TypeAlias = release_format.Reader | huggingface.Reader

_SUPPORTED = (
    "Checkpoints of the original and of the TensorFlow Model Garden are read, "
    "and Hugging Face folders with model.safetensors, tf_model.h5 or "
    "pytorch_model.bin, or their shards; save another kind in one of these "
    "with the program that wrote it, for example by transformers' "
    "save_pretrained."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoadReport:
    """The result of `load`, with sorted names of variables.

    Attributes:
        origin: prefix or file of the checkpoint.
        step: of the training that saved it, if it is stored.
        loaded: variables loaded from the checkpoint.
        missing: new variables, which are not in the checkpoint and keep their
            initial values.
        unexpected: variables in the checkpoint only, without optimizer slots
            and the step.
    """

    origin: str
    step: int | None
    loaded: tuple[str, ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]

    def __str__(self) -> str:
        step = "" if self.step is None else f", step {self.step}"
        lines = [
            f"{len(self.loaded)} variables loaded from {self.origin}{step}"
        ]
        for what, names in (
            ("new, as initialized", self.missing),
            ("in the checkpoint only", self.unexpected),
        ):
            if names:
                lines.append(f"{len(names)} {what}: {messages.names(names)}")
        return "; ".join(lines)


def find(path: str) -> str:
    """Finds the checkpoint of a path.

    Args:
        path: in the release's format a prefix, one of its files, or a folder,
            whose latest checkpoint is used; a Hugging Face folder or its
            weights. In a folder with both, the release's is used.

    Returns:
        The prefix, or the file of a Hugging Face folder.

    Raises:
        FileNotFoundError: there is no checkpoint.
        ValueError: the folder contains several checkpoints, or the path is a
            file of another format.
    """
    location = checkpoint_files.locate(path)
    return check_supported(location.path if location else None, path)


def check_supported(checkpoint: str | None, path: str) -> str:
    """Returns a checkpoint that was located, if it is of a supported format.

    Args:
        checkpoint: the prefix, or the file of a Hugging Face folder; None if
            there is none.
        path: of the user.

    Raises:
        FileNotFoundError: there is no checkpoint.
        ValueError: the path is a file of another format.
    """
    if checkpoint is None:
        if paths.is_folder(path):
            foreign_files.check_no_models_inside(path)
        reason = f"There is no checkpoint at {path!r}"
        if formats := foreign_files.formats_in(path):
            reason = f"{path!r} is {formats}"
        raise FileNotFoundError(f"{reason}. {_SUPPORTED}")
    if not paths.is_remote(checkpoint):
        _check_format(checkpoint)
    return checkpoint


def _check_format(path: str) -> None:
    """Checks the format of a local checkpoint by its first bytes.

    Raises:
        OSError: a file cannot be opened.
        ValueError: it is not read, or a download left something in its place.
    """
    files = [path]
    if os.path.exists(index := f"{path}.index"):
        files = [index, *sorted(glob.glob(f"{glob.escape(path)}.data-*"))]
    # A file without an index may be of the release's older format, "V1".
    is_known = path not in files or checkpoint_files.is_huggingface(path)
    for file in files:
        kind = foreign_files.format_of(file, is_checkpoint=is_known)
        if kind is not None:
            advice = "" if is_known else f" {_SUPPORTED}"
            raise ValueError(f"{file!r} is {kind}.{advice}")


@contextlib.contextmanager
def opened(path: str) -> Iterator[Source]:
    """Opens a checkpoint of any format.

    Args:
        path: any path that `find` accepts.

    Raises:
        FileNotFoundError: the checkpoint or one of its files is missing.
        ValueError: a file is broken, or in no supported format.
    """
    with open_found(find(path)) as source:
        yield source


@contextlib.contextmanager
def open_found(checkpoint: str) -> Iterator[Source]:
    """Opens a checkpoint that `find` or `check_supported` returned.

    Raises:
        FileNotFoundError: one of its files is missing.
        ValueError: a file is broken.
    """
    with contextlib.ExitStack() as files:
        if checkpoint_files.is_huggingface(checkpoint):
            yield huggingface.Reader(checkpoint, files)
        else:
            yield release_format.Reader(checkpoint)


def step_of(source: Source) -> int | None:
    """Returns the step of the training that saved a checkpoint, if stored."""
    if source.variables.get(_GLOBAL_STEP, (None,))[0] != ():
        return None
    return int(source.read(_GLOBAL_STEP))


def list_variables(path: str) -> dict[str, Spec]:
    """Returns the shape and type of all variables in a checkpoint, by name.

    Args:
        path: any path that `find` accepts.

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
        path: any path that `find` accepts.
        names: variables to read; all if None.

    Raises:
        FileNotFoundError, ValueError: as `opened`.
    """
    with opened(path) as source:
        wanted = source.variables if names is None else names
        return {name: source.read(name) for name in wanted}


def variables_by_name(model: "keras.Model") -> "dict[str, keras.Variable]":
    """Returns a model's variables by the release's names, in model order.

    Args:
        model: a model of `heads`, or a `BertModel`.
    """
    start = f"{model.path}/"
    scope = getattr(model, "release_scope", "")
    scope = f"{scope}/" if scope else ""
    return {scope + v.path.removeprefix(start): v for v in model.weights}


def load(
    model: "keras.Model", path: str, *, new: Sequence[str] = ()
) -> LoadReport:
    """Loads a checkpoint into a model, by name; see `load_from`.

    Args:
        model, new: as for `load_from`.
        path: any path that `find` accepts.

    Raises:
        FileNotFoundError: the checkpoint or one of its files is missing.
        ValueError: as `load_from`.
    """
    with opened(path) as source:
        return load_from(model, source, new=new)


def load_from(
    model: "keras.Model", source: Source, *, new: Sequence[str] = ()
) -> LoadReport:
    """Loads an open checkpoint into a model, by name.

    Differs: the release silently leaves variables that it does not find as
    initialized. All names and shapes are checked before the first value is
    read; values are read one at a time.

    Args:
        model: a model of `heads`, or a `BertModel`.
        source: the open checkpoint.
        new: regular expressions. Variables whose full name matches one may be
            missing from the checkpoint.

    Raises:
        ValueError: the checkpoint is broken, has no variable of the model or
            lacks one that is not new; a shape differs, or a type is not a
            float; its configuration contradicts the model's; or it is of
            another network, see `check_places`.
    """
    variables = variables_by_name(model)
    stored = source.variables
    check(source, {n: tuple(v.shape) for n, v in variables.items()}, new)
    if config := getattr(model, "config", None):
        config.check_checkpoint(source.origin, source.num_attention_heads)
    common = [name for name in variables if name in stored]
    unexpected = [
        name
        for name in sorted(stored.keys() - variables.keys())
        if not is_training_state(name, stored)
    ]
    has_outputs = any(not name.startswith("bert/") for name in common)
    check_places(source, unexpected, uses_outputs=has_outputs)
    for name in common:
        value = source.read(name)
        variables[name].assign(value.astype(variables[name].dtype, copy=False))
    return LoadReport(
        origin=source.origin,
        step=step_of(source),
        loaded=tuple(sorted(common)),
        missing=tuple(sorted(variables.keys() - stored.keys())),
        unexpected=tuple(unexpected),
    )


def check_places(
    source: Source, names: Sequence[str], *, uses_outputs: bool
) -> None:
    """Checks that variables which are not loaded are of unused parts of BERT.

    Others, such as adapters or a CRF, change the answers of the program that
    trained them.

    Args:
        source: the open checkpoint.
        names: of the variables.
        uses_outputs: whether an output layer is loaded; otherwise only the
            encoder matters.

    Raises:
        ValueError: a variable has no place in BERT, or in its output layers.
    """
    known = {
        variable.release
        for variables in (
            name_tables.encoder(name_tables.num_layers(source.variables)),
            *map(name_tables.head, name_tables.ARCHITECTURES),
        )
        for variable in variables
    }
    # Other optimizers put a scope before the name of a variable too.
    slots = tuple(f"/{name}/" for name in known)
    # The Model Garden's other heads have names of their own.
    checks_outputs = uses_outputs and source.kind != model_garden.KIND
    strange = [
        name
        for name in names
        if name not in known
        and source.variables[name][0] != ()  # A counter, for example.
        and not any(slot in f"/{name}/" for slot in slots)
        and (checks_outputs or name.startswith(("bert/", "bert.")))
    ]
    if strange:
        raise ValueError(
            f"{source.origin} is of another network: BERT has no place for "
            f"{messages.names(strange)}, and would answer differently without "
            "them."
        )


def check(
    source: Source, wanted: Mapping[str, tuple[int, ...]], new: Sequence[str]
) -> None:
    """Checks that a checkpoint contains the variables of a model.

    Args:
        source: the open checkpoint.
        wanted: shapes by name in the model.
        new: as for `load`.

    Raises:
        ValueError: no name is common, a variable that is not new is missing,
            shapes differ, or a type is not a float: quantized weights are wrong
            without their scales.
    """
    stored = source.variables
    origin = f"Checkpoint {source.origin!r}"
    absent = [
        name
        for name in wanted
        if name not in stored
        and not any(re.fullmatch(pattern, name) for pattern in new)
    ]
    common = [name for name in wanted if name in stored]
    if absent or not common:
        ours, theirs = map(name_tables.num_layers, (wanted, stored))
        exceptions = f" except new ones ({', '.join(new)})" if new else ""
        cause = (
            f" num_hidden_layers is {ours} in the model and {theirs} in the "
            "checkpoint."
        )
        others = sorted(n for n in stored if not is_training_state(n, stored))
        raise ValueError(
            f"{origin} must contain all variables of the model{exceptions}; "
            f"{len(absent)} missing: {messages.names(absent)}. It has "
            f"{messages.names(others)}.{cause if ours > theirs else ''}"
        )
    types = [
        f"{name} ({stored[name][1]})"
        for name in common
        if not re.fullmatch(_FLOATS, stored[name][1])
    ]
    if types:
        raise ValueError(
            f"{origin} must contain floating-point weights; these are not: "
            f"{messages.names(types)}. Quantized weights are not supported; "
            "convert the original model."
        )
    wrong = [name for name in common if stored[name][0] != wanted[name]]
    if wrong:
        sizes = _other_sizes({n: (wanted[n], stored[n][0]) for n in wrong})
        raise ValueError(f"{origin} has another size than the model: {sizes}")


def _other_sizes(
    shapes: Mapping[str, tuple[Sequence[int], Sequence[int]]],
) -> str:
    causes = [
        f"{field} is {ours} in the model and {theirs} in the checkpoint"
        for name, pair in shapes.items()
        for field, ours, theirs in zip(
            name_tables.axes_of(name), *pair, strict=False
        )
        if ours != theirs
    ]
    listed = [
        f"{name} {list(want)} (checkpoint: {list(got)})"
        for name, (want, got) in shapes.items()
    ]
    return (
        f"{'; '.join(dict.fromkeys(causes)) or 'other axes'}. "
        f"Variables: {messages.names(listed)}."
    )


def check_finite(model: "keras.Model", origin: str) -> None:
    """Checks that the loaded weights of a model are finite.

    Args:
        model: after `load`.
        origin: the checkpoint, for the message.

    Raises:
        ValueError: a weight is infinite or not a number.
    """
    for variable in model.weights:
        if not np.isfinite(np.asarray(variable)).all():
            raise ValueError(
                f"Weights must be finite; those of {variable.path} in {origin} "
                "are not. Did the training diverge? Use an earlier "
                "checkpoint."
            )


def save(prefix: str, tensors: "Mapping[str, Tensor]") -> None:
    """Atomically writes a checkpoint in the release's format.

    Args, raises: as `release_format.write`.
    """
    release_format.write(prefix, tensors)


def is_training_state(name: str, names: Collection[str]) -> bool:
    """Returns whether a name is the step or a slot, as `VARIABLE/adam_m`."""
    return name == _GLOBAL_STEP or name.rpartition("/")[0] in names
