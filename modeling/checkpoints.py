"""Checkpoints of any format, under the release's variable names.

A variable's name is its path without the model's own name. A format is a module
with a `Reader`, which implements `Source`, a function `files` and, if it is
also written, `write`. To add a format, write such a module, add it to
`FORMATS`, and extend `find`.
"""

import contextlib
import dataclasses
import glob
import hashlib
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from files import messages, paths
from modeling import (
    huggingface,
    keras_format,
    keras_hub,
    name_tables,
    release_format,
)
from modeling.name_tables import Spec

if TYPE_CHECKING:
    import keras

    from modeling.compilation import Tensor

_GLOBAL_STEP = "global_step"
_FLOATS = r"float(16|32|64)|bfloat16"

RELEASE = "release"
KERAS = "keras"
KERAS_HUB = "keras_hub"
HUGGINGFACE = "huggingface"
FORMATS = {
    RELEASE: release_format,
    KERAS: keras_format,
    KERAS_HUB: keras_hub,
    HUGGINGFACE: huggingface,
}

_CONVERT_TO_SAFETENSORS = (
    "In an environment with transformers and torch: "
    "AutoModelForPreTraining.from_pretrained(FOLDER).save_pretrained(OTHER), "
    "with the class of your model"
)
_PASS_ITS_CHECKPOINT = "Pass the checkpoint that it was made from"
# Unsupported kinds of weights by file name suffix, each with instructions.
_OTHER_KINDS = {
    "saved_model.pb": "a TensorFlow SavedModel. " + _PASS_ITS_CHECKPOINT,
    "tfhub_module.pb": "a TensorFlow Hub module. " + _PASS_ITS_CHECKPOINT,
    "flax_model.msgpack": "Hugging Face's weights for Flax. "
    + _CONVERT_TO_SAFETENSORS,
    ".keras": "a full Keras model. Load it where its class is available, and "
    "call save_weights with a name that ends in .weights.h5",
    ".h5": "a full Keras model, or weights of Keras 2. Load it where its class "
    "is available, and call save_weights with a name that ends in .weights.h5",
    ".weights.json": "the index of sharded Keras weights. Call save_weights "
    "without max_shard_size",
    ".onnx": "an ONNX graph. " + _PASS_ITS_CHECKPOINT,
    ".tflite": "a TensorFlow Lite model. " + _PASS_ITS_CHECKPOINT,
    ".gguf": "a GGUF file. " + _PASS_ITS_CHECKPOINT,
}
_PICKLES = (".bin", ".pt", ".pth", ".bin.index.json")
_PICKLE = (
    "PyTorch's pickled weights. Of these only pytorch_model.bin is supported, "
    "if torch is installed; its code is never run. " + _CONVERT_TO_SAFETENSORS
)
# The first bytes of unsupported files with other names.
_MAGIC = {b"PK\x03\x04": _PICKLE, b"\x80\x02": _PICKLE, b"\x89HDF": ".h5"}


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


class Place(NamedTuple):
    """The format of a checkpoint, and its prefix, file or folder."""

    format: str
    path: str


def find(path: str) -> Place:
    """Finds the checkpoint of a path.

    Args:
        path: in the release's format a prefix, one of its files, or a folder,
            whose latest checkpoint is used; a `.weights.h5`; a Hugging Face
            folder or its weights; a keras-hub preset; a folder with one of
            them.

    Raises:
        FileNotFoundError: there is no checkpoint.
        ValueError: the format is not supported, or the folder contains
            several checkpoints.
    """
    missing = FileNotFoundError(
        f"There is no checkpoint {path!r}: it must be a prefix with a file "
        f"{path + '.index'!r}, a {keras_format.SUFFIX} file, or a folder with "
        "a checkpoint."
    )
    # A wrong path is reported before TensorFlow, which takes seconds to
    # import.
    if not (
        paths.is_remote(path)
        or os.path.exists(path)
        or glob.glob(f"{glob.escape(path)}*")
    ):
        raise missing
    import tensorflow as tf

    prefix = release_format.prefix_of(path)
    if prefix is not None:
        return Place(RELEASE, prefix)
    if tf.io.gfile.isdir(path):
        return _find_in(path)
    if not tf.io.gfile.exists(path):
        raise missing
    folder, name = os.path.split(path)
    if keras_hub.is_preset(folder) and name in keras_hub.FILES:
        return Place(KERAS_HUB, _local(folder or "."))
    if path.endswith(keras_format.SUFFIX):
        return Place(KERAS, _local(path))
    if _is_huggingface(name):
        return Place(
            format=HUGGINGFACE, path=huggingface.place_of(_local(path))
        )
    if path.endswith((".safetensors", ".safetensors.index.json")):
        raise ValueError(
            f"{path!r} must be named {huggingface.WEIGHTS} or "
            f"{huggingface.INDEX}, Hugging Face's names: pass the folder."
        )
    kind = _other_kind(name) or _kind_by_content(path)
    if kind:
        raise ValueError(f"{path!r} is {kind}.")
    # A file without an index may be of the release's older format, "V1".
    return Place(RELEASE, path)


def _find_in(folder: str) -> Place:
    import tensorflow as tf

    names = sorted(tf.io.gfile.listdir(folder))
    found = []
    prefix = release_format.latest(folder)
    if prefix is not None:
        found.append(Place(RELEASE, prefix))
    if keras_hub.is_preset(folder) and keras_hub.FILES[0] in names:
        found.append(Place(KERAS_HUB, folder))
        names = [name for name in names if name not in keras_hub.FILES]
    found += [
        Place(KERAS, os.path.join(folder, name))
        for name in names
        if name.endswith(keras_format.SUFFIX) and not name.startswith(".")
    ]
    if {huggingface.WEIGHTS, huggingface.INDEX} & set(names):
        found.append(Place(HUGGINGFACE, folder))
    # Next to another checkpoint these are converted copies.
    if not found and any(map(_is_huggingface, names)):
        found.append(Place(HUGGINGFACE, folder))
    if len(found) == 1:
        if found[0].format != RELEASE:
            _local(folder)
        return found[0]
    if found:
        raise ValueError(
            f"The folder {folder!r} must contain one checkpoint; it contains "
            + ", ".join(f"{p.path!r} ({p.format})" for p in found)
            + ". Pass a file of one of them."
        )
    for name in names:
        kind = _other_kind(name)
        if kind:
            raise ValueError(
                f"The folder {folder!r} contains no supported checkpoint; "
                f"{name} is {kind}."
            )
    raise FileNotFoundError(f"The folder {folder!r} contains no checkpoint.")


def _is_huggingface(name: str) -> bool:
    """Returns whether a file name is of readable Hugging Face weights."""
    needs_torch = name.endswith(_PICKLES)
    return name in huggingface.FILES and (
        not needs_torch or huggingface.has_torch()
    )


def _other_kind(name: str) -> str | None:
    if name.endswith(_PICKLES):
        return _PICKLE
    return next(
        (kind for end, kind in _OTHER_KINDS.items() if name.endswith(end)),
        None,
    )


def _kind_by_content(path: str) -> str | None:
    import tensorflow as tf

    with (
        contextlib.suppress(tf.errors.OpError),
        tf.io.gfile.GFile(path, "rb") as file,
    ):
        head = file.read(4)
        for magic, kind in _MAGIC.items():
            if head.startswith(magic):
                return _OTHER_KINDS.get(kind, kind)
    return None


def _local(path: str) -> str:
    if paths.is_remote(path):
        raise ValueError(
            "Weights of Keras, keras-hub and Hugging Face must be local files; "
            f"got {path!r}. Copy them to this machine."
        )
    return path


def files(path: str) -> list[str]:
    """Lists the files with the variables of a checkpoint, in order.

    Args:
        path: any path that `find` accepts.

    Raises:
        FileNotFoundError, ValueError: as `find`.
    """
    place = find(path)
    return FORMATS[place.format].files(place.path)


def sha256(path: str) -> str:
    """Hashes the files of a checkpoint; anything `find` takes."""
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
        path: any path that `find` accepts.

    Raises:
        FileNotFoundError: the checkpoint or one of its files is missing.
        ValueError: a file is broken, or the format is not supported.
    """
    place = find(path)
    with contextlib.ExitStack() as files:
        yield FORMATS[place.format].Reader(place.path, files)


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


def variables_by_name(model: "keras.Model") -> "dict[str, keras.Variable]":
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
    model: "keras.Model", path: str, *, new: Sequence[str] = ()
) -> LoadReport:
    """Loads a checkpoint into a model, by name.

    Differs: the release silently leaves variables that it does not find as
    initialized. All names and shapes are checked before the first value is
    read; values are read one at a time.

    Args:
        model: a model of `heads`, or a `BertModel`.
        path: any path that `find` accepts.
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
        wanted = {n: tuple(v.shape) for n, v in variables.items()}
        check_variables(source.origin, wanted, shapes, new)
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


def check_variables(
    prefix: str,
    wanted: Mapping[str, tuple[int, ...]],
    held: Mapping[str, tuple[int, ...]],
    new: Sequence[str],
) -> None:
    """Checks that a checkpoint contains the variables of a model.

    Args:
        prefix: of the checkpoint, for messages.
        wanted: shapes by name in the model.
        held: shapes by name in the checkpoint.
        new: regular expressions; names that fully match one may be missing.

    Raises:
        ValueError: no name is common, a variable that is not new is missing,
            or shapes differ; the message names the config fields.
    """
    if not set(wanted) & set(held):
        raise ValueError(
            f"Checkpoint {prefix!r} has no variable of the model. It has "
            f"{messages.names(sorted(held))}; the model has "
            f"{messages.names(sorted(wanted))}."
        )
    absent = [
        name
        for name in wanted
        if name not in held
        and not any(re.fullmatch(pattern, name) for pattern in new)
    ]
    if absent:
        layers = name_tables.num_layers(wanted), name_tables.num_layers(held)
        exceptions = f" except new ones ({', '.join(new)})" if new else ""
        raise ValueError(
            f"Checkpoint {prefix!r} must contain all variables of the model"
            f"{exceptions}; {len(absent)} missing: {', '.join(absent)}."
            + (
                f" num_hidden_layers is {layers[0]} in the model and "
                f"{layers[1]} in the checkpoint."
                if layers[0] > layers[1]
                else ""
            )
        )
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
    """Checks that weights are floating-point numbers.

    Quantized weights are wrong without their scales.

    Args:
        prefix: of the checkpoint, for messages.
        held: types by name.

    Raises:
        ValueError: a weight has another type.
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


def check_finite(model: "keras.Model", path: str) -> None:
    """Checks that the loaded weights of a model are finite.

    Args:
        model: after `load`.
        path: of the checkpoint, for the message.

    Raises:
        ValueError: a weight is infinite or not a number.
    """
    for variable in model.weights:
        if not np.isfinite(np.asarray(variable)).all():
            raise ValueError(
                f"Weights must be finite; those of {variable.path} in {path} "
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
    return (
        name == _GLOBAL_STEP
        or name.rpartition("/")[0] in names
        or release_format.is_garden_training_state(name)
    )
