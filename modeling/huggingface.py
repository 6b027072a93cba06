"""Hugging Face folders, read and written under the release's names.

A folder contains `config.json` and `model.safetensors`, or the `tf_model.h5` or
`pytorch_model.bin` of earlier versions; each may be sharded, with an index.
Variables without a Hugging Face name (moments of the optimizer, the step, other
heads) are in `release_variables.safetensors` under the release's names. Those
without a name in the release become `huggingface/NAME`.
"""

import contextlib
import dataclasses
import importlib.util
import json
import math
import os
import re
import zipfile
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

import ml_dtypes  # noqa: F401, so that NumPy knows bfloat16
import numpy as np
import safetensors

from files import json_text, messages, paths, writing
from modeling import hdf5, huggingface_config, name_tables
from modeling.name_tables import Spec

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
OTHERS = "release_variables.safetensors"
_KERAS_INDEX = "tf_model.h5.index.json"
# In order of preference: a pickle is read last.
FILES = (
    *(WEIGHTS, INDEX),
    *("tf_model.h5", _KERAS_INDEX),
    *("pytorch_model.bin", "pytorch_model.bin.index.json"),
)

_FOREIGN = "huggingface/"
_DECODER = "cls.predictions.decoder.weight"
_WORDS = "bert.embeddings.word_embeddings.weight"
_CHOICE = "cls/multiple_choice/output_weights"
_CHOICE_BIAS = "classifier.bias"
# Alias of a tied variable -> the name used here.
_TIED = {
    _DECODER: _WORDS,
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
# Buffers that some versions stored: 0, 1, 2, ... and zeros.
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
_HALF = ("float16", "bfloat16")
_LONGEST_FILE_NAME = 255  # Of any usual file system.
# Set by our writer where it adds a variable of Hugging Face's class alone.
_ADDED = "added"

# NumPy's names of safetensors types.
_TYPES = {
    **{"BOOL": "bool", "F16": "float16", "BF16": "bfloat16"},
    **{"F32": "float32", "F64": "float64", "C64": "complex64"},
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
# Source: CVE-2025-32434; earlier, loading tensors only could still run code.
_OLDEST_TORCH = (2, 6)
# The path of a weight in an HDF5 file: a group, the model's class and other
# parts precede the start of PyTorch's name.
_KERAS_PATH = re.compile(
    r"(?:.*/)?((?:embeddings|encoder|pooler|predictions|seq_relationship"
    r"|classifier|qa_outputs)/(?:.*/)?)(\w+):0"
)
_KERAS_NAMES = {
    "kernel": "weight",
    "embeddings": "weight",
    "gamma": "weight",
    "beta": "bias",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Part:
    """An open weight file; its names are PyTorch's."""

    # Of a type that NumPy does not have, the name of safetensors.
    entries: Mapping[str, Spec]
    read: Callable[[str], np.ndarray]
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)


def _open(path: str, files: contextlib.ExitStack) -> _Part:
    """Opens a file of any kind; closing the stack closes it."""
    if path.endswith(".h5"):
        return _keras_part(path, files)
    if path.endswith(".bin"):
        return _pytorch_part(path)
    return _safetensors_part(path, files)


def _safetensors_part(path: str, files: contextlib.ExitStack) -> _Part:
    def explained() -> contextlib.AbstractContextManager[None]:
        errors = (safetensors.SafetensorError, TypeError, ValueError)
        return messages.broken(path, "safetensors", errors)

    def read(name: str) -> np.ndarray:
        with explained():
            return file.get_tensor(name)

    with explained():
        file = files.enter_context(
            safetensors.safe_open(path, framework="numpy")
        )
        slices = {n: file.get_slice(n) for n in file.keys()}  # noqa: SIM118
        entries = {
            name: (
                tuple(held.get_shape()),
                _TYPES.get(held.get_dtype(), held.get_dtype().lower()),
            )
            for name, held in slices.items()
        }
        return _Part(entries=entries, read=read, metadata=file.metadata() or {})


def _keras_part(path: str, files: contextlib.ExitStack) -> _Part:
    """Opens an HDF5 file of Keras 2, in which kernels are `[in, out]`.

    Embeddings tied to a head are stored a second time with the head.
    """

    def read(name: str) -> np.ndarray:
        array, is_kernel = arrays[name]
        with hdf5.explain_errors(path):
            value = hdf5.read(array)
        return value.T if is_kernel else value

    file = hdf5.open_file(path, files)
    with hdf5.explain_errors(path):
        arrays, entries = {}, {}
        found = hdf5.find_arrays(file)
        for place, array in sorted(found.items(), reverse=True):
            name, is_kernel = _pytorch_name(place), place.endswith("/kernel:0")
            shape = array.shape[::-1] if is_kernel else array.shape
            arrays[name] = array, is_kernel
            entries[name] = shape, hdf5.type_of(array).name
    return _Part(entries=entries, read=read)


def _pytorch_name(place: str) -> str:
    match = _KERAS_PATH.fullmatch(place)
    if not match:
        return place
    module, name = match[1].replace("layer_._", "layer/"), match[2]
    if module.startswith(("predictions/", "seq_relationship/")):
        module = f"cls/{module}"
    return module.replace("/", ".") + _KERAS_NAMES.get(name, name)


def has_torch() -> bool:
    """Returns whether PyTorch, which reads its own files, is installed."""
    return importlib.util.find_spec("torch") is not None


def _pytorch_part(path: str) -> _Part:
    from pickle import UnpicklingError

    import torch

    if tuple(map(int, torch.__version__.split(".")[:2])) < _OLDEST_TORCH:
        raise ValueError(
            f"Loading {path!r} requires torch 2.6 or later; got "
            f"{torch.__version__}, in which loading a file can run any code."
        )
    errors = (
        *(UnpicklingError, AttributeError, EOFError, LookupError),
        *(OSError, RuntimeError, TypeError, ValueError),
    )
    with messages.broken(path, "PyTorch tensor", errors):
        tensors = torch.load(
            path,
            map_location="cpu",
            weights_only=True,
            mmap=zipfile.is_zipfile(path),
        )
        arrays = {}
        for name, tensor in tensors.items():
            if tensor.dtype == torch.bfloat16:  # Which NumPy does not know.
                bits = tensor.detach().view(torch.int16)
                arrays[name] = bits.numpy().view("bfloat16")
            else:
                arrays[name] = tensor.detach().numpy()
    return _Part(
        entries={n: (a.shape, a.dtype.name) for n, a in arrays.items()},
        read=arrays.__getitem__,
    )


class _Place(NamedTuple):
    """The file of a variable, and its representation there."""

    part: _Part
    name: str
    is_transposed: bool


class Reader:
    """Reads a folder under the release's names; see `checkpoints.Source`.

    Args:
        path: a local folder with one of `FILES`, or that file.
        opened: closes its files.

    Raises:
        FileNotFoundError: a shard is missing.
        ValueError: the model is not BERT, a file is broken, or a shard lacks a
            weight of the index.
    """

    kind = "Hugging Face"
    num_attention_heads = None

    def __init__(self, path: str, opened: contextlib.ExitStack):
        self.origin = path
        folder, name = _split(path)
        config = huggingface_config.read(folder)
        self.architectures = tuple(config.get("architectures") or ())
        weights = self._open(files(path), opened)
        absent = sorted(_weight_map(path).keys() - weights.keys())
        # Names in HDF5 files depend on the class that was saved.
        if absent and name != _KERAS_INDEX:
            raise ValueError(
                f"{folder!r} must contain all weights listed in its {name}; "
                f"missing: {messages.names(absent)}. Copy its files again."
            )
        self._check_tied(weights)
        self._places = self._named(weights)
        others = os.path.join(folder, OTHERS)
        if os.path.exists(others):
            for name, part in self._open([others], opened).items():
                self._places[name] = _Place(part, name, False)
        self.variables: dict[str, Spec] = {}
        for name, (part, theirs, is_transposed) in sorted(self._places.items()):
            shape, dtype = part.entries[theirs]
            shape = shape[::-1] if is_transposed else shape
            self.variables[name] = (shape, dtype)
        half = [n for n, (_, dtype) in self.variables.items() if dtype in _HALF]
        self.notes: tuple[str, ...] = ()
        if half:
            note = f"{len(half)} variables are stored in 16 bits and widened"
            self.notes = (note,)

    def read(self, name: str) -> np.ndarray:
        """Reads a variable by the release's name."""
        part, theirs, is_transposed = self._places[name]
        value = part.read(theirs)
        return value.T if is_transposed else value

    def _open(
        self, names: Iterable[str], opened: contextlib.ExitStack
    ) -> dict[str, _Part]:
        """Opens files; returns the file of each weight."""
        parts = {}
        for path in names:
            part = _open(path, opened)
            for name in part.entries:
                if name in parts:
                    raise ValueError(
                        f"{self.origin!r} must contain each weight once; "
                        f"{name} is in two of its files."
                    )
                parts[name] = part
        return parts

    def _check_tied(self, parts: Mapping[str, _Part]) -> None:
        ours = {_canonical_name(name): name for name in parts}
        for alias, name in _TIED.items():
            if alias not in ours or name not in ours:
                continue
            one, other = (parts[ours[n]].read(ours[n]) for n in (alias, name))
            # Bytes, so that NaN equals itself.
            if one.shape != other.shape or not np.array_equal(
                _bytes_of(one),
                _bytes_of(other),
            ):
                raise ValueError(
                    f"{alias} in {self.origin!r} must equal {name}: BERT ties "
                    "them. This is another model."
                )

    def _named(self, parts: Mapping[str, _Part]) -> dict[str, _Place]:
        canonical = [_canonical_name(name) for name in parts]
        table = _names_of(name_tables.num_layers(canonical), self.architectures)
        found: dict[str, _Place] = {}
        for theirs, part in parts.items():
            name = _canonical_name(theirs)
            added = part.metadata.get(_ADDED, "").split(",")
            if name.endswith(_BUFFERS) or theirs in added:
                continue
            if name in _TIED:
                if _TIED[name] in canonical:
                    continue
                name = _TIED[name]
            variable = table.get(name)
            release = variable.release if variable else f"{_FOREIGN}{theirs}"
            if release in found:
                raise ValueError(
                    f"{self.origin!r} must contain each weight once; {theirs} "
                    f"and {found[release].name} are both {release}."
                )
            transposed = bool(variable and variable.is_transposed)
            found[release] = _Place(part, theirs, transposed)
        return found


def place_of(path: str) -> str:
    """Returns the path to load one of `FILES` by.

    It is the folder, unless loading the folder would read another file.
    """
    folder, name = _split(path)
    return folder if _split(folder)[1] == name else path


def _split(path: str) -> tuple[str, str]:
    """Splits a path into the folder and its weight file."""
    if not os.path.isdir(path):
        folder, name = os.path.split(path)
        return folder or ".", name
    held = (n for n in FILES if os.path.exists(os.path.join(path, n)))
    return path, next(held, WEIGHTS)


def files(path: str) -> list[str]:
    """Lists the weight files of a folder.

    Args:
        path: the folder, or one of `FILES` in it.

    Raises:
        FileNotFoundError: a file listed in the index is missing.
        ValueError: the index is broken.
    """
    folder, name = _split(path)
    names = sorted(set(_weight_map(path).values()))
    if not names:
        return [os.path.join(folder, name)]
    absent = [n for n in names if not os.path.exists(os.path.join(folder, n))]
    if absent:
        raise FileNotFoundError(
            f"{folder!r} must contain all files listed in its {name}; missing: "
            f"{messages.names(absent)}. Copy them there too."
        )
    return [os.path.join(folder, name) for name in names]


def _weight_map(path: str) -> dict[str, str]:
    """Returns the file of each weight in an index; empty without an index."""
    folder, name = _split(path)
    if not name.endswith(".json"):
        return {}
    path = os.path.join(folder, name)
    index = json_text.read_object(path)
    suffix = os.path.splitext(name.removesuffix(".index.json"))[1]
    names = index.get("weight_map")
    if (
        not isinstance(names, dict)
        or not names
        or not all(_is_file_name(name, suffix) for name in names.values())
    ):
        raise ValueError(
            f"{path} must be JSON with a weight_map to {suffix} files of the "
            f"same folder; got {messages.short(index.get('weight_map'))}."
        )
    return names


def _is_file_name(name: object, suffix: str) -> bool:
    """Returns whether a name is a plain file name, without a folder."""
    return (
        isinstance(name, str)
        and name == os.path.basename(name) != ""
        and name.endswith(suffix)
        and len(name) <= _LONGEST_FILE_NAME
    )


def _canonical_name(name: str) -> str:
    """Returns the current full name of a weight of an old or bare model."""
    if name.startswith(("embeddings.", "encoder.", "pooler.")):
        name = f"bert.{name}"
    module, _, local = name.rpartition(".")
    if module.endswith("LayerNorm"):
        local = {"gamma": "weight", "beta": "bias"}.get(local, local)
    return f"{module}.{local}" if module else local


def _names_of(
    num_layers: int, architectures: Collection[str]
) -> dict[str, name_tables.Variable]:
    # The architectures decide whether `classifier` is a vector that scores
    # choices or the output layer of sentences or words.
    classifiers = {
        name_tables.SEQUENCE_CLASSIFICATION,
        name_tables.TOKEN_CLASSIFICATION,
        name_tables.MULTIPLE_CHOICE,
    }
    choice = {name_tables.MULTIPLE_CHOICE}
    unused = classifiers - choice if choice & {*architectures} else choice
    variables = list(name_tables.encoder(num_layers))
    for name in name_tables.ARCHITECTURES:
        if name not in unused:
            variables += name_tables.head(name)
    return {variable.huggingface: variable for variable in variables}


def write(
    folder: str,
    variables: Mapping[str, Spec],
    read: Callable[[str], np.ndarray],
    *,
    num_layers: int,
    architectures: Collection[str],
) -> dict[str, int]:
    """Writes a folder's weights, with one array at a time in memory.

    Old weights are removed first, and `model.safetensors` is written last:
    until then the folder contains no model.

    Args:
        folder: an existing folder.
        variables: shape and type by the release's name.
        read: returns the array of a name.
        num_layers: of the configuration; variables of deeper layers are
            written to the other file.
        architectures: of `name_tables.architectures`, for the same variables.

    Returns:
        The number of variables in each file written: `model.safetensors` and,
        if some variables have no Hugging Face name,
        `release_variables.safetensors`.

    Raises:
        OSError: a file cannot be written.
        ValueError: safetensors does not support the type of a variable.
    """
    stored = _stored(variables, num_layers, architectures)
    held = {name for name, _ in stored.values()}
    others = sorted(set(variables) - held)
    specs: dict[str, Spec] = {}
    for theirs, (name, is_transposed) in stored.items():
        shape, dtype = variables[name]
        specs[theirs] = (shape[::-1] if is_transposed else shape, dtype)
    # PyTorch's readers require the first; the second is ours.
    metadata = {"format": "pt"}
    if _CHOICE in held and _CHOICE_BIAS not in stored:
        # Hugging Face's class has a bias, which shifts all choices equally.
        specs[_CHOICE_BIAS] = ((1,), "float32")
        metadata[_ADDED] = _CHOICE_BIAS

    def read_stored(theirs: str) -> np.ndarray:
        if theirs not in stored:
            return np.zeros([1], np.float32)
        name, is_transposed = stored[theirs]
        return read(name).T if is_transposed else read(name)

    for name in (WEIGHTS, OTHERS, INDEX):
        path = os.path.join(folder, name)
        paths.remove(path if paths.is_remote(path) else os.path.realpath(path))
    written = {}
    if others:
        path = os.path.join(folder, OTHERS)
        _write_safetensors(
            path, {name: variables[name] for name in others}, read, {}
        )
        written[path] = len(others)
    path = os.path.join(folder, WEIGHTS)
    _write_safetensors(path, specs, read_stored, metadata)
    return {**written, path: len(stored)}


def _stored(
    variables: Collection[str], num_layers: int, architectures: Collection[str]
) -> dict[str, tuple[str, bool]]:
    """Returns the variable of each weight, and whether it is transposed."""
    table = _names_of(num_layers, architectures) if architectures else {}
    stored = {
        theirs: (variable.release, variable.is_transposed)
        for theirs, variable in table.items()
        if variable.release in variables
    }
    for name in variables:
        if name.startswith(_FOREIGN):
            stored[name.removeprefix(_FOREIGN)] = (name, False)
    return stored


def _write_safetensors(
    path: str,
    specs: Mapping[str, Spec],
    read: Callable[[str], np.ndarray],
    metadata: Mapping[str, str],
) -> None:
    """Writes a safetensors file, one array at a time.

    The library's own function requires all arrays in memory.

    Source: github.com/huggingface/safetensors, "Format": the length of the
    header in 8 bytes, the header in JSON, the concatenated arrays.
    """
    names_of_types = {ours: theirs for theirs, ours in _TYPES.items()}
    wrong = [
        f"{name} ({dtype})"
        for name, (_, dtype) in specs.items()
        if dtype not in names_of_types
    ]
    if wrong:
        raise ValueError(
            f"safetensors does not support the types of these arrays: "
            f"{messages.names(wrong)}."
        )
    header: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    end = 0
    # The widest types come first, which aligns every array to its item size.
    for name in sorted(specs, key=lambda n: (-_width(specs[n]), n)):
        shape, dtype = specs[name]
        start, end = end, end + math.prod(shape) * _width(specs[name])
        header[name] = {
            "dtype": names_of_types[dtype],
            "shape": shape,
            "data_offsets": [start, end],
        }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":"))
    data = text.encode("utf-8")
    data += b" " * (-len(data) % 8)
    with writing.whole_file(path, "wb") as file:
        file.write(len(data).to_bytes(8, "little"))
        file.write(data)
        for name in header:
            if name in specs:
                file.write(_bytes_of(np.asarray(read(name), specs[name][1])))


def _bytes_of(array: np.ndarray) -> np.ndarray:
    """Returns the bytes of an array, row by row."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _width(spec: Spec) -> int:
    return np.dtype(spec[1]).itemsize
