"""Checkpoints in the release's format: arrays under the release's names.

The format is TensorFlow's name-based one ("V2"): `PREFIX.index` beside
`PREFIX.data-00000-of-00001`. A model's variable is called in it what its path
says after the model's own name.
"""

import collections
import contextlib
import dataclasses
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from modeling import mismatches

_DATA_SUFFIX = re.compile(r"\.data-\d{5}-of-(\d{5})$")
_STEP_SUFFIX = re.compile(r"-(\d+)$")
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_GLOBAL_STEP = "global_step"


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoadReport:
    """What `load` did, as sorted names of variables.

    Args:
        loaded: took their value from the checkpoint.
        missing: not in the checkpoint and named as new: still as initialised.
        unexpected: in the checkpoint only; optimizer slots and the step are
            not counted.
    """

    loaded: tuple[str, ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{len(self.loaded)} variables loaded"]
        for what, names in (
            ("new, as initialised", self.missing),
            ("in the checkpoint only", self.unexpected),
        ):
            if names:
                lines.append(f"{len(names)} {what}: {mismatches.listed(names)}")
        return "; ".join(lines)


def resolve(path: str) -> str:
    """Finds the prefix that a checkpoint is read by.

    Args:
        path: a prefix, one of its files (`.index`, `.data-*`), or a folder,
            of which the latest checkpoint is taken: the one its `checkpoint`
            file names, otherwise that of the highest step.

    Raises:
        FileNotFoundError: there is no checkpoint.
        ValueError: a folder holds several, none of them the latest.
    """
    import tensorflow as tf

    exists = tf.io.gfile.exists
    prefix = _DATA_SUFFIX.sub("", path.removesuffix(".index"))
    # A file without an index may be of the older format, "V1".
    if exists(f"{prefix}.index") or (
        exists(prefix) and not tf.io.gfile.isdir(prefix)
    ):
        return prefix
    if tf.io.gfile.isdir(path):
        return _latest(path)
    raise FileNotFoundError(
        f"There is no checkpoint {path!r}: it must be a prefix that has a "
        f"file {prefix + '.index'!r}, or a folder with a checkpoint in it."
    )


def list_variables(path: str) -> dict[str, tuple[tuple[int, ...], str]]:
    """Lists shape and type by name, for everything in a checkpoint.

    Args:
        path: anything `resolve` takes.

    Raises:
        FileNotFoundError: there is no checkpoint, or part of it is missing.
        ValueError: the file is broken, or not a checkpoint by name.
    """
    with _opened(resolve(path)) as reader:
        types = reader.get_variable_to_dtype_map()
        shapes = reader.get_variable_to_shape_map()
    return {
        name: (tuple(shapes[name]), types[name].name) for name in sorted(shapes)
    }


def read(
    path: str, names: Collection[str] | None = None
) -> dict[str, np.ndarray]:
    """Reads arrays by name.

    Args:
        path: anything `resolve` takes.
        names: which; all if None.

    Raises:
        FileNotFoundError: there is no checkpoint, or part of it is missing.
        KeyError: a name is not in it.
        ValueError: the file is broken, or not a checkpoint by name.
    """
    prefix = resolve(path)
    with _opened(prefix) as reader:
        held = reader.get_variable_to_shape_map()
        names = sorted(held) if names is None else list(names)
        absent = sorted(set(names) - set(held))
        if absent:
            raise KeyError(
                f"Checkpoint {prefix!r} has no {mismatches.listed(absent)}."
            )
        return {name: np.asarray(reader.get_tensor(name)) for name in names}


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
            new, has one in another shape, or is broken.
    """
    prefix = resolve(path)
    variables = variables_by_name(model)
    with _opened(prefix) as reader:
        shapes = {
            name: tuple(shape)
            for name, shape in reader.get_variable_to_shape_map().items()
        }
        mismatches.check_names(prefix, variables, shapes, new)
        wanted = {n: tuple(v.shape) for n, v in variables.items()}
        mismatches.check_shapes(prefix, wanted, shapes)
        common = [name for name in variables if name in shapes]
        for name in common:
            value = np.asarray(reader.get_tensor(name))
            variables[name].assign(value.astype(variables[name].dtype))
    return LoadReport(
        loaded=tuple(sorted(common)),
        missing=tuple(sorted(variables.keys() - shapes.keys())),
        unexpected=tuple(
            sorted(
                name
                for name in shapes.keys() - variables.keys()
                if not _is_training_state(name, shapes)
            )
        ),
    )


def save(prefix: str, tensors: Mapping[str, Any]) -> None:
    """Writes arrays under names, whole or not at all.

    The files are written aside, brought to disk and renamed, the index last:
    without it there is no checkpoint. Remote stores publish a file only when
    it is closed, so there they are written in place.

    Args:
        prefix: of the checkpoint; its folder is made if missing.
        tensors: arrays, tensors or variables by the release's names.

    Raises:
        ValueError: there is nothing to save.
    """
    import tensorflow as tf

    if not tensors:
        raise ValueError(f"Checkpoint {prefix!r} would hold no variable.")
    is_remote = "://" in prefix
    folder, name = os.path.split(prefix)
    aside = (
        prefix
        if is_remote
        else os.path.join(folder, f".{name}.{os.getpid()}.partial")
    )
    if folder:
        tf.io.gfile.makedirs(folder)
    try:
        tf.raw_ops.SaveV2(
            prefix=aside,
            tensor_names=list(tensors),
            shape_and_slices=[""] * len(tensors),
            tensors=[tf.convert_to_tensor(t) for t in tensors.values()],
        )
        if not is_remote:
            _publish(aside, prefix)
    except BaseException:
        if not is_remote:
            for suffix in _SUFFIXES:
                _remove(aside + suffix)
        raise


# In the order of renaming.
_SUFFIXES = (".data-00000-of-00001", ".index")


def _publish(aside: str, prefix: str) -> None:
    for suffix in _SUFFIXES:
        _sync(aside + suffix)
    # An old index beside new data would be a broken checkpoint.
    _remove(f"{prefix}.index")
    for suffix in _SUFFIXES:
        os.replace(aside + suffix, prefix + suffix)
    _sync(os.path.dirname(prefix) or ".")


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


def _latest(folder: str) -> str:
    import tensorflow as tf

    named = tf.train.latest_checkpoint(folder)
    if named:
        return named
    found = sorted(
        os.path.join(folder, name.removesuffix(".index"))
        for name in tf.io.gfile.listdir(folder)
        if name.endswith(".index") and not name.startswith(".")
    )
    if not found:
        raise FileNotFoundError(f"The folder {folder!r} holds no checkpoint.")
    steps = {
        prefix: int(match[1])
        for prefix in found
        if (match := _STEP_SUFFIX.search(prefix))
    }
    if len(found) == 1:
        return found[0]
    if len(steps) == len(found):
        return max(steps, key=steps.get)
    raise ValueError(
        f"The folder {folder!r} must hold one checkpoint, or only numbered "
        f"ones; it holds {mismatches.listed(found)}. Name one of them."
    )


@contextlib.contextmanager
def _opened(prefix: str) -> Iterator[Any]:
    """Opens a checkpoint; explains what goes wrong while it is read."""
    import tensorflow as tf

    _check_shards(prefix)
    try:
        reader = tf.train.load_checkpoint(prefix)
        if reader.has_tensor(_OBJECT_GRAPH):
            raise ValueError(
                f"Checkpoint {prefix!r} must hold variables by the release's "
                "names; it is a TensorFlow 2 object checkpoint (it holds "
                f"{_OBJECT_GRAPH}). Convert it first."
            )
        yield reader
    # A file that ends too early is an IndexError to TensorFlow.
    except (tf.errors.OpError, RuntimeError, IndexError) as error:
        raise ValueError(
            f"{prefix!r} is broken, or no checkpoint (TensorFlow says: "
            f"{error}). If it was copied, copy it again."
        ) from error


def _check_shards(prefix: str) -> None:
    """Checks that the data files beside an index are all there."""
    import tensorflow as tf

    if not tf.io.gfile.exists(f"{prefix}.index"):
        return
    folder, name = os.path.split(prefix)
    shards = collections.defaultdict(int)
    for file in tf.io.gfile.listdir(folder or "."):
        match = _DATA_SUFFIX.search(file)
        if match and file.removesuffix(match[0]) == name:
            shards[int(match[1])] += 1
    if not any(have == total for total, have in shards.items()):
        raise FileNotFoundError(
            f"Checkpoint {prefix!r} must have all of its files "
            f"{prefix}.data-NNNNN-of-NNNNN beside its index; it has "
            + (", ".join(f"{n} of {t}" for t, n in shards.items()) or "none")
            + ". Copy the others there too."
        )


def _is_training_state(name: str, names: Collection[str]) -> bool:
    """Tells the step and optimizer slots, such as `VARIABLE/adam_m`."""
    return name == _GLOBAL_STEP or name.rpartition("/")[0] in names
