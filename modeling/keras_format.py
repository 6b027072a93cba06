"""Keras' `.weights.h5` files, read and written under the release's names.

A file has the layout of `save_weights` of one of our models. Plain Keras can
thus read it by `load_weights` of that class and, if the class adds nothing at
the top level, of `BertModel` too. Variables that the model does not have
(moments of the optimizer, the step, other heads) are in a separate group.
"""

import contextlib
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np

from files import messages, writing
from modeling import hdf5, name_tables
from modeling.name_tables import Spec

if TYPE_CHECKING:
    import h5py

SUFFIX = ".weights.h5"

# Keras' name of a group of variables, and our group of other variables: one
# dataset each, whose attribute is the release's name.
_OTHERS = "release_variables"
_NAME = "name"
_FOREIGN = "keras/"
_ENCODER = "bert"
# The top-level groups of a plain `BertModel`.
_ENCODER_PARTS = ("embeddings", "encoder", "layers")
# The top-level groups of our files. Arrays of other models in them would be
# taken for ours.
_GROUPS = (_ENCODER, "cls", "vars", _OTHERS, *_ENCODER_PARTS)
# A head of each class by a path that no other class has, the first match wins.
_HEAD_PATHS = {
    "BertForPreTraining": "cls/children/masked_language_model",
    "BertForMultipleChoice": "cls/children/choice_score",
    "BertForQuestionAnswering": "cls/children/output_layer",
    name_tables.SEQUENCE_CLASSIFICATION: "vars/0",
    "BertModel": "bert",
}
_MODELS = (*_HEAD_PATHS, name_tables.TOKEN_CLASSIFICATION)
_CLASSIFIERS = (
    name_tables.SEQUENCE_CLASSIFICATION,
    name_tables.TOKEN_CLASSIFICATION,
)


class Reader:
    """Reads a file under the release's names; see `checkpoints.Source`.

    Args:
        path: a local file.
        files: closes it.

    Raises:
        ValueError: the file is broken, or is not of a model of this project.
    """

    kind = "Keras"
    num_attention_heads = None

    def __init__(self, path: str, files: contextlib.ExitStack):
        self.origin = path
        file = hdf5.open_file(path, files)
        with hdf5.explain_errors(path):
            arrays = hdf5.find_arrays(file)
            architecture = _architecture(file)
            groups = sorted(file)
        if architecture is None:
            raise ValueError(
                f"{path!r} must be the weights of a model of this "
                "project; got the groups "
                f"{messages.names(groups) or '(none)'} of another model. "
                "Convert them with the program that wrote them."
            )
        with hdf5.explain_errors(path):
            self._paths = _named(arrays, architecture)
            self.variables: dict[str, Spec] = {
                name: (tuple(held.shape), hdf5.type_of(held).name)
                for name, held in sorted(self._paths.items())
            }
        # Classifiers of sentences and of words have the same variable names.
        self.architectures = (
            () if architecture in _CLASSIFIERS else (architecture,)
        )
        self.notes: tuple[str, ...] = ()

    def read(self, name: str) -> np.ndarray:
        """Reads a variable by the release's name."""
        with hdf5.explain_errors(self.origin):
            return hdf5.read(self._paths[name])


def write(
    path: str,
    variables: Mapping[str, Spec],
    read: Callable[[str], np.ndarray],
    *,
    num_layers: int,
    architectures: Collection[str],
) -> dict[str, int]:
    """Writes a `.weights.h5`, with one array at a time in memory.

    Args:
        path: the file; its name ends in `SUFFIX`.
        variables: shape and type by the release's name.
        read: returns the array of a name.
        num_layers: of the configuration; deeper layers become other variables.
        architectures: of `name_tables.architectures`; Keras can load the first
            that is a class of this project, or else the encoder.

    Returns:
        The number of variables in the file.

    Raises:
        OSError: the file cannot be written.
    """
    import h5py

    architecture = next((a for a in architectures if a in _MODELS), None)
    if architecture is None and name_tables.WORD_EMBEDDINGS in variables:
        architecture = "BertModel"
    paths = keras_paths(architecture, num_layers) if architecture else {}
    with writing.whole_file(path, "w+b") as file, h5py.File(file, "w") as h5:
        others = 0
        for name in sorted(variables):
            if name in paths:
                h5[paths[name]] = read(name)
            elif _has_free_path(name):
                h5[name.removeprefix(_FOREIGN)] = read(name)
            else:
                h5[f"{_OTHERS}/{others}"] = read(name)
                # Bytes, because HDF5 stores text in a heap of the file and
                # hangs if that is damaged.
                h5[f"{_OTHERS}/{others}"].attrs[_NAME] = np.bytes_(
                    name.encode("utf-8")
                )
                others += 1
        if _ENCODER in h5 and "vars" not in h5:
            for part in _ENCODER_PARTS:
                if part in h5[_ENCODER]:
                    h5[part] = h5[f"{_ENCODER}/{part}"]
    return {path: len(variables)}


def _has_free_path(name: str) -> bool:
    """Returns whether a variable's path in another Keras file is not ours."""
    path = name.removeprefix(_FOREIGN)
    return path != name and path.split("/")[0] not in _GROUPS


def files(path: str) -> list[str]:
    """Lists the files of a checkpoint, here one."""
    return [path]


def keras_paths(architecture: str, num_layers: int) -> dict[str, str]:
    """Returns the paths of a model's variables in Keras' file, by release name.

    Args:
        architecture: one of `name_tables.ARCHITECTURES`. The paths of a plain
            encoder are those within a model, which `write` uses.
        num_layers: of its encoder.
    """
    variables = [
        *name_tables.encoder(num_layers),
        *name_tables.head(architecture),
    ]
    return {variable.release: variable.keras for variable in variables}


def _architecture(file: "h5py.File") -> str | None:
    for name, path in _HEAD_PATHS.items():
        if path in file and _ENCODER in file:
            return name
    is_known = "embeddings/vars" in file or _OTHERS in file
    return "BertModel" if is_known else None


def _named(
    arrays: "Mapping[str, h5py.Dataset]", architecture: str
) -> "dict[str, h5py.Dataset]":
    """Returns the arrays by release name, without duplicates."""
    is_bare = not any(path.startswith(f"{_ENCODER}/") for path in arrays)
    aliases = () if is_bare else _ENCODER_PARTS
    held = {
        path: array
        for path, array in arrays.items()
        if path.partition("/")[0] not in aliases
    }
    table = {
        path.removeprefix(f"{_ENCODER}/") if is_bare else path: name
        for name, path in keras_paths(architecture, _num_layers(held)).items()
    }
    named = {}
    for path, dataset in held.items():
        name = table.get(path) or _own_name(dataset) or f"{_FOREIGN}{path}"
        if name in named:
            raise ValueError(
                f"{path} has the name {name!r:.100} of another array"
            )
        named[name] = dataset
    return named


def _own_name(dataset: "h5py.Dataset") -> str | None:
    """Returns the name that `write` stored with a variable, if any."""
    import h5py

    if _NAME not in dataset.attrs:
        return None
    kept = h5py.h5a.open(dataset.id, _NAME.encode()).get_type()
    is_plain = isinstance(kept, h5py.h5t.TypeStringID)
    name = None
    if is_plain and not kept.is_variable_str():
        name = dataset.attrs[_NAME]
    if not isinstance(name, bytes):
        raise OSError(
            f"the name of {dataset.name} is not a text of fixed length"
        )
    return name.decode("utf-8")


def _num_layers(paths: Collection[str]) -> int:
    stacks = {
        p.split("/stack/")[1].split("/")[0] for p in paths if "/stack/" in p
    }
    return len(stacks)
