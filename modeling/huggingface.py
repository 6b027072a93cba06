"""Hugging Face folders, read and written under the original's names.

A folder contains `config.json` and `model.safetensors`, or the `tf_model.h5` or
`pytorch_model.bin` of earlier versions. Large weights are sharded: an index
names the file of each one. Weights without a name in the original keep their
own.
"""

import contextlib
import os
import re
import zipfile
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, TypeAlias

import ml_dtypes  # noqa: F401, so that NumPy knows bfloat16
import numpy as np
import safetensors
import safetensors.numpy

from bert.files import json_text, messages
from modeling import foreign_files, huggingface_config, name_tables
from modeling.name_tables import Spec

if TYPE_CHECKING:
    import h5py

WEIGHTS = "model.safetensors"
_INDEX = ".index.json"
_PICKLE = "pytorch_model.bin"
INDICES = (f"{WEIGHTS}{_INDEX}", f"{_PICKLE}{_INDEX}")
# The order is that of preference: a pickle is read last.
FILES = (WEIGHTS, INDICES[0], "tf_model.h5", _PICKLE, INDICES[1])

_CHOICE_BIAS = "classifier.bias"
# Alias of a tied variable -> the name used here.
_TIED = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
# Buffers that some versions stored: 0, 1, 2, ... and zeros.
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
# The start of NumPy's names of safetensors types.
_TYPES = {"F": "float", "BF": "bfloat", "I": "int", "U": "uint"}
# Source: CVE-2025-32434; earlier, loading tensors only could still run code.
_OLDEST_TORCH = (2, 6)
# The path of a weight in a tf_model.h5: a group, the model's class and other
# parts precede the start of PyTorch's name.
_H5_PATH = re.compile(
    r"(?:.*/)?((?:embeddings|encoder|pooler|predictions|seq_relationship"
    r"|classifier|qa_outputs)/(?:.*/)?)(\w+):0"
)
_H5_NAMES = {
    "kernel": "weight",
    "embeddings": "weight",
    "gamma": "weight",
    "beta": "bias",
}
_MAX_COMPRESSION = 1100  # Source: zlib.net, "maximum compression factor".


# Shapes and types by PyTorch's names, and the function that reads one.
_Weights: TypeAlias = tuple[Mapping[str, Spec], Callable[[str], np.ndarray]]


def _safetensors_weights(path: str, files: contextlib.ExitStack) -> _Weights:
    def read(name: str) -> np.ndarray:
        with messages.broken(path, "safetensors"):
            return file.get_tensor(name)

    specs = {}
    with messages.broken(path, "safetensors"):
        file = files.enter_context(
            safetensors.safe_open(path, framework="numpy")
        )
        for name in file.keys():  # noqa: SIM118
            weight = file.get_slice(name)
            dtype = weight.get_dtype()
            kind = dtype.rstrip("0123456789")
            dtype = _TYPES.get(kind, kind.lower()) + dtype[len(kind) :]
            specs[name] = (tuple(weight.get_shape()), dtype)
    return specs, read


def _pytorch_weights(path: str) -> _Weights:
    try:
        import torch
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{path!r} can be read only where PyTorch is installed. Install "
            "torch, or save the model in safetensors with transformers' "
            "save_pretrained."
        ) from error
    if tuple(map(int, torch.__version__.split(".")[:2])) < _OLDEST_TORCH:
        raise ValueError(
            f"Loading {path!r} requires torch 2.6 or later; got "
            f"{torch.__version__}, in which loading a file can run any code."
        )
    with messages.broken(path, "PyTorch tensor"):
        tensors = torch.load(
            path,
            map_location="cpu",
            weights_only=True,
            mmap=zipfile.is_zipfile(path),
        )
        arrays = {}
        for name, tensor in tensors.items():
            if tensor.dtype == torch.bfloat16:  # NumPy lacks it.
                bits = tensor.detach().view(torch.int16)
                arrays[name] = bits.numpy().view("bfloat16")
            else:
                arrays[name] = tensor.detach().numpy()
    specs = {n: (a.shape, a.dtype.name) for n, a in arrays.items()}
    return specs, arrays.__getitem__


def _h5_weights(path: str, files: contextlib.ExitStack) -> _Weights:
    # Kernels are `[in, out]`. Embeddings tied to a head are stored a second
    # time with the head.
    import h5py

    def read(name: str) -> np.ndarray:
        with messages.broken(path, "HDF5"):
            value = np.asarray(arrays[name][()])
        return value.T if name in kernels else value

    arrays: dict[str, h5py.Dataset] = {}
    specs: dict[str, Spec] = {}
    kernels = set()
    with messages.broken(path, "HDF5"):
        file = files.enter_context(h5py.File(path, "r"))
        for place, array in _arrays_of(file).items():
            name, shape = _pytorch_name(place), array.shape
            if place.endswith("/kernel:0"):
                kernels.add(name)
                shape = shape[::-1]
            arrays[name], specs[name] = array, (shape, array.dtype.name)
    return specs, read


def _arrays_of(file: "h5py.File") -> "dict[str, h5py.Dataset]":
    """Returns the arrays that a file itself contains, by path.

    A file may name arrays in other files, which may be private, and declare
    arrays that are far larger than the stored data.
    """
    import h5py

    arrays = {}

    def visit(place: str, member: object) -> None:  # Follows hard links only.
        if not isinstance(member, h5py.Dataset):
            return
        if member.is_virtual or member.external:
            raise OSError(f"{place} is stored in another file")
        if member.dtype.kind not in "fiub":
            raise OSError(f"{place} must be numeric; got {member.dtype}")
        stored = member.id.get_storage_size()
        if member.nbytes > stored * _MAX_COMPRESSION:
            raise OSError(
                f"{place} declares {member.nbytes} bytes; {stored} are stored"
            )
        arrays[place] = member

    file.visititems(visit)
    return arrays


def _pytorch_name(place: str) -> str:
    match = _H5_PATH.fullmatch(place)
    if not match:
        return place
    module, name = match[1].replace("layer_._", "layer/"), match[2]
    if module.startswith(("predictions/", "seq_relationship/")):
        module = f"cls/{module}"
    return module.replace("/", ".") + _H5_NAMES.get(name, name)


def shards_of(index: str) -> dict[str, str]:
    """Reads the index of sharded weights.

    Args:
        index: one of `INDICES`, in its folder.

    Returns:
        The file of each weight, in the same folder, by PyTorch's names.

    Raises:
        OSError: the index cannot be read.
        ValueError: it is broken, or names a file in another folder.
    """
    files = json_text.read_object(index).get("weight_map")
    if not isinstance(files, dict) or not files:
        raise ValueError(
            f"{index}: weight_map must name the file of each weight; got "
            f"{files!r:.60}."
        )
    suffix = os.path.splitext(index.removesuffix(_INDEX))[1]
    for name, file in files.items():
        if (
            not isinstance(file, str)
            or os.path.basename(file) != file
            or not file.endswith(suffix)
        ):
            raise ValueError(
                f"{index}: the file of {name!r:.60} must be a {suffix} file in "
                f"the same folder; got {file!r:.60}."
            )
    return files


def _sharded_weights(index: str, files: contextlib.ExitStack) -> _Weights:
    shards = shards_of(index)
    opened: dict[str, _Weights] = {}
    for file in sorted({*shards.values()}):
        path = os.path.join(os.path.dirname(index), file)
        if not os.path.exists(path):
            raise FileNotFoundError(
                f"{path} is missing, which {index} names. Copy or download the "
                "folder again."
            )
        foreign_files.check_fetched(path)
        opened[file] = _weights(path, files)
    specs = {}
    for name, file in shards.items():
        if name not in opened[file][0]:
            raise ValueError(f"{index}: {file} must have the weight {name}.")
        specs[name] = opened[file][0][name]
    return specs, lambda name: opened[shards[name]][1](name)


def _weights(path: str, files: contextlib.ExitStack) -> _Weights:
    if path.endswith(_INDEX):
        return _sharded_weights(path, files)
    if path.endswith(".h5"):
        return _h5_weights(path, files)
    if path.endswith(".bin"):
        return _pytorch_weights(path)
    return _safetensors_weights(path, files)


class Reader:
    """Reads a folder under the release's names.

    Args:
        path: one of `FILES`, in its local folder.
        files: closes it.

    Attributes: as of `release_format.Reader`.

    Raises:
        ValueError: the model is not BERT, or a file is broken.
    """

    kind = "Hugging Face"
    num_attention_heads = None

    def __init__(self, path: str, files: contextlib.ExitStack):
        self.origin = path
        config_file = os.path.join(
            os.path.dirname(path), huggingface_config.CONFIG
        )
        self.architectures: tuple[str, ...] = ()
        if os.path.exists(config_file):
            config = json_text.read_object(config_file)
            huggingface_config.check(config, config_file)
            self.architectures = tuple(config.get("architectures") or ())
        self._specs, self._read = _weights(path, files)
        self._places = self._named()
        self.variables: dict[str, Spec] = {}
        for name, (theirs, is_transposed) in sorted(self._places.items()):
            shape, dtype = self._specs[theirs]
            shape = shape[::-1] if is_transposed else shape
            self.variables[name] = (shape, dtype)

    def read(self, name: str) -> np.ndarray:
        """Reads a variable by the release's name, as it is stored."""
        theirs, is_transposed = self._places[name]
        value = self._read(theirs)
        return value.T if is_transposed else value

    def _named(self) -> dict[str, tuple[str, bool]]:
        """Returns the names in the file, and whether axes are transposed."""
        canonical = {n: _canonical_name(n) for n in self._specs}
        table = _names_of(
            name_tables.num_layers(canonical.values()), self.architectures
        )
        is_choice = name_tables.MULTIPLE_CHOICE in self.architectures
        names: dict[str, tuple[str, bool]] = {}
        for theirs, name in canonical.items():
            # The bias of Hugging Face's multiple choice adds the same value to
            # every choice, and is dropped.
            if name.endswith(_BUFFERS) or (is_choice and name == _CHOICE_BIAS):
                continue
            variable = table.get(name)
            release = variable.release if variable else name
            transposed = bool(variable and variable.is_transposed)
            if release in names:
                self._check_equal(theirs, names[release][0])
            names[release] = theirs, transposed
        return names

    def _check_equal(self, one: str, other: str) -> None:
        first, second = map(self._read, (one, other))
        # Bytes, so that NaN equals itself.
        if first.shape != second.shape or first.tobytes() != second.tobytes():
            raise ValueError(
                f"{one} in {self.origin!r} must equal {other}: in BERT they "
                "are one weight. This is another model."
            )


def _canonical_name(name: str) -> str:
    """Returns the current full name of an old, bare or tied weight."""
    if name.startswith(("embeddings.", "encoder.", "pooler.")):
        name = f"bert.{name}"
    module, _, local = name.rpartition(".")
    if module.endswith("LayerNorm"):
        local = {"gamma": "weight", "beta": "bias"}.get(local, local)
    name = f"{module}.{local}" if module else local
    return _TIED.get(name, name)


def _names_of(
    num_layers: int, architectures: Collection[str]
) -> dict[str, name_tables.Variable]:
    # The architectures decide whether `classifier` is a vector that scores
    # choices or the output layer of sentences or words.
    others = {name_tables.MULTIPLE_CHOICE}
    if others & {*architectures}:
        others = {
            name_tables.SEQUENCE_CLASSIFICATION,
            name_tables.TOKEN_CLASSIFICATION,
        }
    variables = list(name_tables.encoder(num_layers))
    for name in name_tables.ARCHITECTURES:
        if name not in others:
            variables += name_tables.head(name)
    return {variable.huggingface: variable for variable in variables}


def write(
    folder: str,
    variables: Mapping[str, np.ndarray],
    num_layers: int,
    architectures: Collection[str],
) -> list[str]:
    """Writes the `model.safetensors` of a folder.

    Args:
        folder: an existing folder.
        variables: float32 arrays by the release's names.
        num_layers: of the configuration; deeper layers are not written.
        architectures: of `name_tables.architectures`, for the same variables.

    Returns:
        The names of the variables that Hugging Face has no name for; they are
        not written.
    """
    table = _names_of(num_layers, architectures)
    stored = {}
    for theirs, variable in table.items():
        if variable.release in variables:
            value = variables[variable.release]
            value = value.T if variable.is_transposed else value
            stored[theirs] = np.ascontiguousarray(value, np.float32)
    if name_tables.MULTIPLE_CHOICE in architectures:
        stored[_CHOICE_BIAS] = np.zeros([1], np.float32)
    # PyTorch's readers require the entry "format".
    path = os.path.join(folder, WEIGHTS)
    try:
        safetensors.numpy.save_file(stored, path, {"format": "pt"})
    except safetensors.SafetensorError as error:
        raise OSError(f"{path} cannot be written: {error}") from error
    written = {variable.release for variable in table.values()}
    return sorted(set(variables) - written)
